package fsm

type commandCodec struct{ name string }

var commandCodecs = map[CommandType]commandCodec{}

// EncodeCommand gives the command's log entry: type, version, canonical msgpack. It fails with ErrTooLarge.
func EncodeCommand(cmd Command) ([]byte, error) { return nil, nil }

// DecodeCommand reads a log entry. An unknown type or version gives Skipped when it may be skipped, else an
// *UnknownCommandError; anything else that is wrong gives an error that wraps ErrMalformed.
func DecodeCommand(entry []byte) (Command, error) { return nil, nil }
