package fsm

import (
	"errors"
	"fmt"
)

// Refusals (Result.Err) and decoding errors.
var (
	// ErrInvalidCommand wraps every refusal of a command whose contents make no sense. The state is unchanged.
	ErrInvalidCommand = errors.New("invalid command")
	// ErrClusterID: the cluster already has another id.
	ErrClusterID = errors.New("cluster id differs")
	// ErrTooLarge: an encoded command exceeds its limit, or an entity would exceed its own by it.
	ErrTooLarge = errors.New("too large")
	// ErrTooManyDrivers: the queue of drivers is full.
	ErrTooManyDrivers = errors.New("too many drivers are waiting")
	// ErrMalformed wraps every failure to decode a command of a known type and version.
	ErrMalformed = errors.New("malformed command")
	// ErrOtherSnapshot: a restore was asked for with a snapshot of another cluster.
	ErrOtherSnapshot = errors.New("the snapshot is of another cluster, and this one is in use")
	// ErrSnapshot wraps every failure to read a snapshot.
	ErrSnapshot = errors.New("bad snapshot")
	// ErrInvariant wraps what Check finds.
	ErrInvariant = errors.New("invariant broken")
)

// UnknownCommandError is a log entry of a newer release that may not be skipped. A replica that meets it must halt:
// going on would silently diverge.
type UnknownCommandError struct {
	Type    CommandType
	Version uint8
}

// Error implements error.
func (e *UnknownCommandError) Error() string {
	return fmt.Sprintf("unknown command type %d version %d: this release is too old for the log", uint8(e.Type), e.Version)
}
