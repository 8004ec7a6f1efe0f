package submit

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
)

// Gateway is a way into a master.
type Gateway string

// The gateways.
const (
	GatewayRPC  Gateway = "rpc"
	GatewayREST Gateway = "rest"
)

// Client talks to one cluster through one gateway. Every call ends by its context, and by Config.Patience at the latest.
// Errors are *InvalidError, *NoLeaderError, *RefusedError, *UnknownError, *GatewayError, ErrUnsupported, or the
// context's, each possibly wrapped.
type Client interface {
	// Submit registers a driver, once. A refusal is an error.
	Submit(ctx context.Context, job Job) (Submission, error)
	// Status tells how a driver is. A driver that the leader does not know is an answer without Found.
	Status(ctx context.Context, id string) (Status, error)
	// Kill asks for the end of a driver. That the leader did not accept it (no such driver) is an answer.
	Kill(ctx context.Context, id string) (Kill, error)
	// KillAll asks for the end of every driver (Spark 4 and raftmaster).
	KillAll(ctx context.Context) (Kill, error)
	// Clear makes the leader forget its completed drivers and applications (Spark 4 and raftmaster).
	Clear(ctx context.Context) error
	// Close ends the client. Calls that are running fail.
	Close()
}

// Config says where the masters are and how they are spoken to. A zero field means its default.
type Config struct {
	// Masters are HOST:PORT of one gateway: cluster ports for NewRPC, REST ports for NewREST. See ParseMasters.
	Masters []string
	// SparkVersion is the release that the submitter plays, such as 4.3.0. NewRPC needs it (see FindRelease); over REST
	// it is sent as clientSparkVersion, and found out when empty.
	SparkVersion string
	// AskTimeout bounds one answer of one master; 10 s as in deploy.Client.
	AskTimeout time.Duration
	// Patience bounds how long a call looks for a leader before it fails; 30 s.
	Patience time.Duration
	// Scheme is http or https, of REST; http.
	Scheme string
	// TLS says how https is spoken; nil as usual.
	TLS *tls.Config
	Log hclog.Logger
}

const (
	defaultAskTimeout = 10 * time.Second
	defaultPatience   = 30 * time.Second
	// leaderPause is the time between two rounds over all masters.
	leaderPause = 250 * time.Millisecond
)

func (c *Config) setDefaults() error {
	if len(c.Masters) == 0 {
		return &InvalidError{What: "the list of masters", Reason: "it is empty"}
	}
	if c.AskTimeout == 0 {
		c.AskTimeout = defaultAskTimeout
	}
	if c.Patience == 0 {
		c.Patience = defaultPatience
	}
	if c.Scheme == "" {
		c.Scheme = "http"
	}
	if c.Log == nil {
		c.Log = hclog.NewNullLogger()
	}
	return nil
}

// Submission is a driver that was accepted.
type Submission struct {
	ID      string `json:"id"`
	Message string `json:"message"`
	// Master is the one that accepted it.
	Master string `json:"master"`
	// ServerVersion is the release that the master names over REST; "" over RPC.
	ServerVersion string `json:"server_version,omitempty"`
}

// Status is the state of a driver.
type Status struct {
	ID    string `json:"id"`
	Found bool   `json:"found"`
	// State is Spark's name of the state, such as RUNNING.
	State         string `json:"state"`
	WorkerID      string `json:"worker_id"`
	WorkerAddress string `json:"worker_address"`
	// Message is the exception that ended the driver, or the master's remark.
	Message string `json:"message"`
	// Master is the one that answered.
	Master string `json:"master"`
}

// Final tells whether the state will not change any more.
func (s Status) Final() bool {
	switch s.State {
	case StateFinished, StateFailed, StateKilled, StateError, StateRelaunching:
		return true
	}
	return false
}

// The states of a driver (deploy/master/DriverState.scala). A driver that is RELAUNCHING goes on under another id.
const (
	StateSubmitted   = "SUBMITTED"
	StateRunning     = "RUNNING"
	StateFinished    = "FINISHED"
	StateRelaunching = "RELAUNCHING"
	StateUnknown     = "UNKNOWN"
	StateKilled      = "KILLED"
	StateFailed      = "FAILED"
	StateError       = "ERROR"
)

// Kill answers a request to end drivers.
type Kill struct {
	// ID is empty for all drivers.
	ID       string `json:"id,omitempty"`
	Accepted bool   `json:"accepted"`
	Message  string `json:"message"`
	Master   string `json:"master"`
}

// ErrUnsupported says that the gateway of that release has no such request.
var ErrUnsupported = errors.New("submit: the master's release has no such request (Spark has it from 4.0 on)")

// InvalidError says that a call can never work as it was given; nothing was sent.
type InvalidError struct {
	What, Reason string
}

// Error implements error.
func (e *InvalidError) Error() string { return e.What + ": " + e.Reason }

func invalid(what, format string, args ...any) error {
	return &InvalidError{What: what, Reason: fmt.Sprintf(format, args...)}
}

// NoLeaderError says that no master of the list leads.
type NoLeaderError struct {
	// Answers has one line for each master.
	Answers []Answer
}

// Answer is what one master said, in words.
type Answer struct {
	Master string
	Text   string
	// Standby: it answered, and does not lead.
	Standby bool
}

// Error implements error.
func (e *NoLeaderError) Error() string {
	lines := []string{"no master of the list leads"}
	for _, a := range e.Answers {
		lines = append(lines, "  "+a.Master+": "+a.Text)
	}
	return strings.Join(lines, "\n")
}

// RefusedError is the answer of a leader that did not accept a request, and did nothing.
type RefusedError struct {
	Master, Message string
}

// Error implements error.
func (e *RefusedError) Error() string { return e.Master + " refused: " + e.Message }

// GatewayError says that what answers at an address is not the gateway that was expected there, or does not understand
// this release. Nothing was done.
type GatewayError struct {
	Master, Text string
}

// Error implements error.
func (e *GatewayError) Error() string { return e.Master + ": " + e.Text }

// UnknownError says that a request was sent and its answer was lost: it may have been carried out. It was not repeated.
type UnknownError struct {
	Master string
	// Look describes what to look for among the drivers of the cluster.
	Look  string
	Cause error
}

// Error implements error.
func (e *UnknownError) Error() string {
	return fmt.Sprintf("unknown whether %s has accepted the driver: %v; it was not sent again; look for %s", e.Master, e.Cause, e.Look)
}

// Unwrap returns the cause.
func (e *UnknownError) Unwrap() error { return e.Cause }
