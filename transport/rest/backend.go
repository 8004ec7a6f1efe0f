package rest

import (
	"context"
	"fmt"

	"raftmaster/transport/sparkmsg"
)

// Backend does what requests ask for. Methods are called from HTTP goroutines, at once and with a context that ends
// before the client gives up. A master that does not lead returns *NotAliveError and has done nothing; *InvalidError
// refuses a submission for good; any other error means that the outcome is not known.
type Backend interface {
	// Submit registers a driver and returns once it is committed.
	Submit(ctx context.Context, s Submission) (Submitted, error)
	// Kill asks for the end of a driver.
	Kill(ctx context.Context, id string) (Killed, error)
	// KillAll asks for the end of every driver.
	KillAll(ctx context.Context) (Killed, error)
	// Status tells about a driver, finished ones included.
	Status(ctx context.Context, id string) (DriverStatus, error)
	// Clear forgets finished drivers and applications.
	Clear(ctx context.Context) error
	// Ready returns nil if this master would accept a submission now.
	Ready(ctx context.Context) error
}

// Submission is one driver to run.
type Submission struct {
	// Description is built from typed fields and bound to no family.
	Description *sparkmsg.DriverDescription
	// ClientSparkVersion is what the client says about itself: any text, not empty.
	ClientSparkVersion string
}

// Submitted answers a submission. ID is empty unless Success.
type Submitted struct {
	ID      string
	Success bool
	Message string
}

// Killed answers a request to kill.
type Killed struct {
	Success bool
	Message string
}

// DriverStatus is what is known of a driver. Empty texts are left out of the answer.
type DriverStatus struct {
	Found bool
	// State is Spark's name of the state, such as RUNNING.
	State          string
	WorkerID       string
	WorkerHostPort string
	// Exception is the text of the exception that ended the driver.
	Exception string
	// Note is a remark for people, shown with the exception.
	Note string
}

// NotAliveError is the answer of a master that does not lead.
type NotAliveError struct {
	// State is Spark's name of this master's state, STANDBY.
	State string
	// Leader says who leads, in words for people; "" if that is not known.
	Leader string
}

// Error implements error.
func (e *NotAliveError) Error() string { return e.message("serve requests") }

// message begins as Spark's does (deploy/master/Master.scala): clients know a master that does not lead by it.
func (e *NotAliveError) message(can string) string {
	text := fmt.Sprintf("Current state is not alive: %s. Can only %s in ALIVE state.", e.State, can)
	if e.Leader != "" {
		text += " " + e.Leader
	}
	return text
}

// InvalidError says that a submission can never be accepted.
type InvalidError struct {
	// Reason is a sentence for the client.
	Reason string
}

// Error implements error.
func (e *InvalidError) Error() string { return malformed(protocolException, e.Reason).Error() }
