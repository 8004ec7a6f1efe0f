package fsm

import (
	"fmt"

	"github.com/hashicorp/go-msgpack/v2/codec"
)

// msgpackHandle gives canonical msgpack. Unknown fields are errors: to ignore what a newer release replicates would be
// to diverge silently; a new field needs a new version of its command.
var msgpackHandle = newMsgpackHandle()

func newMsgpackHandle() *codec.MsgpackHandle {
	h := &codec.MsgpackHandle{WriteExt: true}
	h.Canonical = true
	h.ErrorIfNoField = true
	h.MaxInitLen = maxInitLen
	h.MaxDepth = maxDecodeDepth
	return h
}

// commandVersion is the version of every command type so far.
const commandVersion uint8 = 1

// envelopeBytes precede the msgpack: type and version.
const envelopeBytes = 2

// maxKeptBuffer bounds what an Encoder keeps of a large command.
const maxKeptBuffer = 64 << 10

type commandCodec struct {
	name     string
	maxBytes int
	decode   func(body []byte) (Command, error)
}

// commandCodecs is the registry of types. It is only looked up, never iterated.
var commandCodecs = map[CommandType]commandCodec{
	TypeRegisterWorker:      {"RegisterWorker", MaxCommandBytes, decodeAs[RegisterWorker]},
	TypeRemoveWorker:        {"RemoveWorker", MaxCommandBytes, decodeAs[RemoveWorker]},
	TypeReapWorkers:         {"ReapWorkers", MaxCommandBytes, decodeAs[ReapWorkers]},
	TypeRegisterApplication: {"RegisterApplication", MaxPayloadCommandBytes, decodeAs[RegisterApplication]},
	TypeFinishApplication:   {"FinishApplication", MaxCommandBytes, decodeAs[FinishApplication]},
	TypeConfirmApplication:  {"ConfirmApplication", MaxCommandBytes, decodeAs[ConfirmApplication]},
	TypePlaceExecutors:      {"PlaceExecutors", MaxCommandBytes, decodeAs[PlaceExecutors]},
	TypeExecutorChanged:     {"ExecutorChanged", MaxCommandBytes, decodeAs[ExecutorChanged]},
	TypeSetTargets:          {"SetTargets", MaxCommandBytes, decodeAs[SetTargets]},
	TypeKillExecutors:       {"KillExecutors", MaxCommandBytes, decodeAs[KillExecutors]},
	TypeReconcileWorker:     {"ReconcileWorker", MaxCommandBytes, decodeAs[ReconcileWorker]},
	TypeDecommissionWorkers: {"DecommissionWorkers", MaxCommandBytes, decodeAs[DecommissionWorkers]},
	TypeLaunchReceipts:      {"LaunchReceipts", MaxCommandBytes, decodeAs[LaunchReceipts]},
	TypeCheckDigest:         {"CheckDigest", MaxCommandBytes, decodeAs[CheckDigest]},
	TypeMarkIncompatible:    {"MarkIncompatible", MaxCommandBytes, decodeAs[MarkIncompatible]},
	TypeSetRelease:          {"SetRelease", MaxCommandBytes, decodeAs[SetRelease]},
	TypeLeaderElected:       {"LeaderElected", MaxCommandBytes, decodeAs[LeaderElected]},
	TypeInitCluster:         {"InitCluster", MaxCommandBytes, decodeAs[InitCluster]},
	TypeClearCompleted:      {"ClearCompleted", MaxCommandBytes, decodeAs[ClearCompleted]},
	TypeSubmitDriver:        {"SubmitDriver", MaxPayloadCommandBytes, decodeAs[SubmitDriver]},
	TypeRequestKillDriver:   {"RequestKillDriver", MaxCommandBytes, decodeAs[RequestKillDriver]},
	TypeKillAllDrivers:      {"KillAllDrivers", MaxCommandBytes, decodeAs[KillAllDrivers]},
	TypeDriverChanged:       {"DriverChanged", MaxCommandBytes, decodeAs[DriverChanged]},
	TypePlaceDrivers:        {"PlaceDrivers", MaxCommandBytes, decodeAs[PlaceDrivers]},
	TypeDrainWorkers:        {"DrainWorkers", MaxCommandBytes, decodeAs[DrainWorkers]},
	TypeUnmarkIncompatible:  {"UnmarkIncompatible", MaxCommandBytes, decodeAs[UnmarkIncompatible]},
	TypeStageRestore:        {"StageRestore", MaxCommandBytes, decodeAs[StageRestore]},
	TypeCommitRestore:       {"CommitRestore", MaxCommandBytes, decodeAs[CommitRestore]},
	TypeRaiseLevel:          {"RaiseLevel", MaxCommandBytes, decodeAs[RaiseLevel]},
}

func decodeAs[T Command](body []byte) (Command, error) {
	var c T
	if err := decodeMsgpack(body, &c); err != nil {
		return nil, err
	}
	return c, nil
}

// decodeMsgpack decodes exactly one value. The decoder turns its own panics into errors.
func decodeMsgpack(body []byte, into any) error {
	d := codec.NewDecoderBytes(body, msgpackHandle)
	if err := d.Decode(into); err != nil {
		return err
	}
	if n := d.NumBytesRead(); n != len(body) {
		return fmt.Errorf("%d bytes after the value", len(body)-n)
	}
	return nil
}

// Encoder encodes commands one after another with one buffer: one goroutine.
type Encoder struct {
	buf []byte
	enc *codec.Encoder
}

// NewEncoder gives an Encoder.
func NewEncoder() *Encoder {
	e := &Encoder{buf: make([]byte, 0, 512)}
	e.enc = codec.NewEncoderBytes(&e.buf, msgpackHandle)
	return e
}

// EncodeCommand gives the command's log entry: type, version, canonical msgpack. It fails with ErrTooLarge.
func EncodeCommand(cmd Command) ([]byte, error) { return NewEncoder().Encode(cmd) }

// Encode does what EncodeCommand does. The entry is the caller's.
func (e *Encoder) Encode(cmd Command) ([]byte, error) {
	c, ok := commandCodecs[cmd.Type()]
	if !ok {
		return nil, fmt.Errorf("%w: %s cannot be encoded", ErrInvalidCommand, cmd.Type())
	}
	e.buf = e.buf[:0]
	e.enc.ResetBytes(&e.buf)
	if err := e.enc.Encode(cmd); err != nil {
		return nil, fmt.Errorf("encode %s: %w", c.name, err)
	}
	body := e.buf
	if cap(e.buf) > maxKeptBuffer {
		e.buf = make([]byte, 0, 512)
	}
	if len(body)+envelopeBytes > c.maxBytes {
		return nil, fmt.Errorf("%w: %s has %d bytes, the limit is %d", ErrTooLarge, c.name, len(body)+envelopeBytes, c.maxBytes)
	}
	entry := make([]byte, 0, envelopeBytes+len(body))
	entry = append(entry, byte(cmd.Type()), commandVersion)
	return append(entry, body...), nil
}

// DecodeCommand reads a log entry. An unknown type or version gives Skipped when it may be skipped, else an
// *UnknownCommandError or a *LevelError; anything else that is wrong gives an error that wraps ErrMalformed. The result may
// share memory with entry.
func DecodeCommand(entry []byte) (Command, error) { return DecodeCommandAt(entry, CommandLevel) }

func decodeCommand(entry []byte) (Command, error) {
	if len(entry) < envelopeBytes {
		return nil, fmt.Errorf("%w: %d bytes", ErrMalformed, len(entry))
	}
	kind, version := CommandType(entry[0]), entry[1]
	c, known := commandCodecs[kind]
	if !known || version != commandVersion {
		if kind.Skippable() {
			return Skipped{SkippedType: kind, SkippedVersion: version}, nil
		}
		return nil, &UnknownCommandError{Type: kind, Version: version}
	}
	if len(entry) > c.maxBytes {
		return nil, fmt.Errorf("%w: %s has %d bytes, the limit is %d", ErrMalformed, c.name, len(entry), c.maxBytes)
	}
	cmd, err := c.decode(entry[envelopeBytes:])
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %v", ErrMalformed, c.name, err)
	}
	return cmd, nil
}
