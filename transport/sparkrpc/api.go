package sparkrpc

import (
	"context"
	"errors"
	"net"

	"github.com/hashicorp/go-hclog"

	"raftmaster/transport/frame"
	"raftmaster/transport/sparkmsg"
)

// VerifierEndpoint is the endpoint that every process with a server has (RpcEndpointVerifier.NAME). Endpoint answers
// its asks itself, by Config.Exists.
const VerifierEndpoint = "endpoint-verifier"

// The outcomes of an Ask other than an answer. A failure that the peer reported is an error of type *RemoteError.
var (
	ErrTimeout     = errors.New("sparkrpc: no answer in time")
	ErrConnClosed  = errors.New("sparkrpc: connection closed before the answer")
	ErrDropped     = errors.New("sparkrpc: outbox dropped before the ask was written")
	ErrTooManyAsks = errors.New("sparkrpc: too many unanswered asks to this peer")
	ErrClosed      = errors.New("sparkrpc: endpoint closed")
	// ErrMoved is the outcome of an ask that was answered, but is no receipt for the pushes between it and the ask
	// before it: some of them were dropped, or went out on another connection than the ask.
	ErrMoved = errors.New("sparkrpc: answered, but earlier messages took another way")
)

// RemoteError is the text of an RpcFailure that a peer sent.
type RemoteError struct{ Text string }

func (e *RemoteError) Error() string { return "sparkrpc: peer reports: " + e.Text }

// Inbound is one decoded message of a peer.
type Inbound struct {
	Sender   *frame.Address // listening address of the sending process; nil when it has none
	Endpoint string         // the endpoint addressed, one for which Config.Exists is true
	Msg      sparkmsg.Message
	Families sparkmsg.FamilySet // what all messages of this connection up to this one leave possible
}

// Handler receives what peers send. For one connection it is called on one goroutine at a time, its reader, in arrival
// order; for different connections concurrently. A Handler that blocks holds up the connection of that message only.
// It must not call Endpoint.Close.
type Handler interface {
	// OneWay is called for each OneWayMessage.
	OneWay(c *Conn, in Inbound)
	// Ask is called for each RpcRequest. reply must be called once, at any time, from any goroutine; it never blocks.
	// With a non-nil error the asker gets an RpcFailure with its text. Later calls do nothing.
	Ask(c *Conn, in Inbound, reply func(sparkmsg.Message, error))
	// Closed is called once after the last message of a connection. peer is the address by which the connection was
	// known, zero if it never was; last tells that no other connection of that peer is live. It is not called for
	// connections that Endpoint.Close or a Probe closed.
	Closed(c *Conn, peer frame.Address, last bool)
}

// Config is what an Endpoint needs. Self, Exists and Log are required.
type Config struct {
	// Self is the canonical advertised address, sent as sender of every frame: peers map the connection to it, and
	// compare it with the master reference.
	Self frame.Address
	// Exists tells which endpoints this process has. Safe for concurrent use, must not block.
	Exists func(name string) bool
	// Gate is the lease: it is read right before each write of a push. Nil means always open. It may be called from
	// any goroutine, inside a raw system call loop: it must be quick and must not block.
	Gate func() bool
	Log  hclog.Logger
	// Limits of zero mean the defaults.
	Limits Limits
	// Dial opens connections; nil means net.Dialer. Addresses are host:port with names unresolved.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// Wrap puts a layer (cipher, TLS, bootstrap) on every new connection before the first frame; nil means none. It
	// runs under the FirstFrame deadline.
	Wrap func(net.Conn) (net.Conn, error)
	// Metrics are optional hooks, called on the path of the event; they must be quick.
	Metrics Metrics
}

// Metrics are hooks for counters; nil fields are skipped. They must not call the Endpoint: some run under its lock.
// Stats has the same numbers.
type Metrics struct {
	Connections func(delta int)                // open connections, both directions
	FrameIn     func()                         // a frame was read
	FrameOut    func()                         // a frame was written
	DecodeError func(class string)             // a message could not be decoded; class is bounded in number
	Dropped     func(reason string, count int) // pushes that were never written
}

// Stats is a snapshot of the counters of an Endpoint.
type Stats struct {
	Conns        int               // open connections, both directions
	Peers        int               // peers with a connection, a queue or a dial
	Queued       int               // messages in all outboxes
	Refused      uint64            // accepted connections over a cap
	FramesIn     uint64            //
	FramesOut    uint64            //
	BadFrames    uint64            // connections closed for a malformed frame, a time-out or the partial-frame budget
	Dials        uint64            //
	DialFailures uint64            //
	DecodeErrors map[string]uint64 // by class
	Dropped      map[string]uint64 // pushes never written, by reason: gate, stepdown, overflow, unreachable, encode, closed
}

// ProbeResult is what a Probe found.
type ProbeResult uint8

// The results of Probe.
const (
	ProbeUnreachable ProbeResult = iota // no answer in time, or an error that proves nothing
	ProbeTrue                           // the process answers and has the endpoint
	ProbeFalse                          // the process answers and does not have it
	ProbeRefused                        // connection refused, or the dial met itself: nobody listens there
)

// String returns a word for logs.
func (r ProbeResult) String() string {
	switch r {
	case ProbeTrue:
		return "true"
	case ProbeFalse:
		return "false"
	case ProbeRefused:
		return "refused"
	}
	return "unreachable"
}
