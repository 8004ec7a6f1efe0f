package raftnet

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

// ErrClosed is returned by a transport that has been closed.
var ErrClosed = errors.New("raft transport is closed")

// errDropped stands for an incoming RPC that a test, or a guard, did not let through.
var errDropped = errors.New("not delivered")

// ErrStaleOrder refuses votes for a candidate that was ordered to campaign (TimeoutNow) longer than OrderLife ago.
var ErrStaleOrder = errors.New("the order to take leadership over is too old")

// errSlowTarget is a target that does not answer an order within OrderLife.
var errSlowTarget = errors.New("the target of the transfer does not answer")

// Ack is an append, or a heartbeat, that a follower has accepted.
type Ack struct {
	Peer raft.ServerID
	Term uint64
	// Sent is when the request was handed to the network, on the boot clock: before the follower could know of it.
	Sent time.Duration
	// Match is the last log entry that the request proves to be on the follower's disk; 0 for a heartbeat.
	Match uint64
}

// TransportConfig is what a Transport needs. LocalID, LocalAddress, Dial, Logger and Now are required.
type TransportConfig struct {
	LocalID      raft.ServerID
	LocalAddress string
	// Dial opens a raft connection to a node; the handshake must have named the node id.
	Dial func(id, address string, timeout time.Duration) (net.Conn, error)
	// Resolve gives the address where a node is known to be now; fallback is the one of raft's configuration.
	Resolve func(id raft.ServerID, fallback raft.ServerAddress) raft.ServerAddress
	// Acked hears of every Ack; it is called from many goroutines and must be quick.
	Acked func(Ack)
	// Inspect sees each incoming RPC but heartbeats, before raft does, one at a time. It returns true when it has
	// answered the RPC itself; then raft never sees it.
	Inspect func(raft.RPC) bool
	// Admit is asked about each incoming RPC, heartbeats too, before anybody else sees it; an error is the answer in
	// raft's place. It is called from many goroutines.
	Admit func(command any) error
	// MayCampaign is asked before a vote is requested; an error is what raft gets instead of the peer's answer.
	MayCampaign func() error
	// MayLead is asked before each append and each heartbeat; an error is what raft gets instead of the peer's answer: a
	// leader whose own disk hangs must fall silent, because raft itself goes on with its heartbeats. nil: always.
	MayLead func() error
	// Now is the boot clock.
	Now     func() time.Duration
	Timeout time.Duration
	// OrderLife bounds, on the boot clock, how long after the arrival of a TimeoutNow votes may be asked for because of
	// it, and how long the sender waits for the answer. 0: no bound.
	OrderLife time.Duration
	Faults    Faults
	Logger    hclog.Logger
}

// Transport is raft's network transport with ears: it sees acknowledgements and incoming RPCs, and can slip an RPC of
// its own into raft's queue. It implements raft.Transport, raft.WithPreVote and raft.WithClose.
type Transport struct {
	cfg    TransportConfig
	inner  *raft.NetworkTransport
	stream *streamLayer

	ordered atomic.Int64 // when the last TimeoutNow came in, boot clock; 0 when this node itself has decided to campaign
	consume chan raft.RPC
	closed  chan struct{}
	once    sync.Once
	err     error
	done    sync.WaitGroup
}

var (
	_ raft.Transport   = (*Transport)(nil)
	_ raft.WithPreVote = (*Transport)(nil)
	_ raft.WithClose   = (*Transport)(nil)
)

// NewTransport starts a transport. raft closes it when it shuts down.
func NewTransport(cfg TransportConfig) *Transport {
	stream := newStreamLayer(cfg.LocalAddress, cfg.Dial)
	t := &Transport{
		cfg: cfg, stream: stream,
		inner: raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
			Stream: stream, MaxPool: maxPool, Timeout: cfg.Timeout, Logger: cfg.Logger,
		}),
		consume: make(chan raft.RPC), closed: make(chan struct{}),
	}
	t.done.Add(1)
	go t.forward()
	return t
}

// Deliver hands over an accepted raft connection, whose handshake is done.
func (t *Transport) Deliver(c net.Conn) { t.stream.deliver(c) }

// Inject gives raft an RPC as if it had come over the network and waits for the answer.
func (t *Transport) Inject(command any) (raft.RPCResponse, error) {
	answer := make(chan raft.RPCResponse, 1)
	select {
	case t.consume <- raft.RPC{Command: command, RespChan: answer}:
	case <-t.closed:
		return raft.RPCResponse{}, ErrClosed
	}
	select {
	case r := <-answer:
		return r, r.Error
	case <-t.closed:
		return raft.RPCResponse{}, ErrClosed
	}
}

// InjectTimeoutNow makes raft campaign at once, without pre-vote, as at the end of a leadership transfer. The caller
// answers for that: in a follower of a healthy leader it deposes that leader.
func (t *Transport) InjectTimeoutNow() error {
	t.ordered.Store(0)
	_, err := t.Inject(&raft.TimeoutNowRequest{RPCHeader: raft.RPCHeader{
		ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(t.cfg.LocalID), Addr: []byte(t.cfg.LocalAddress),
	}})
	return err
}

// forward passes incoming RPCs on to raft.
func (t *Transport) forward() {
	defer t.done.Done()
	for {
		select {
		case rpc := <-t.inner.Consumer():
			if _, ok := rpc.Command.(*raft.TimeoutNowRequest); ok {
				t.ordered.Store(int64(t.cfg.Now())) // before Inspect asks anybody
			}
			if t.dropped(rpc) || (t.cfg.Inspect != nil && t.cfg.Inspect(rpc)) {
				continue
			}
			select {
			case t.consume <- rpc:
			case <-t.closed:
				return
			}
		case <-t.closed:
			return
		}
	}
}

func (t *Transport) dropped(rpc raft.RPC) bool {
	if t.cfg.Admit != nil {
		if err := t.cfg.Admit(rpc.Command); err != nil {
			Refuse(rpc, err)
			return true
		}
	}
	if t.cfg.Faults.Deliver == nil {
		return false
	}
	if err := t.cfg.Faults.Deliver(t.cfg.LocalAddress, rpcKind(rpc.Command)); err != nil {
		Refuse(rpc, fmt.Errorf("%w: %w", errDropped, err))
		return true
	}
	return false
}

// Refuse answers an incoming RPC with an error, in raft's place.
func Refuse(rpc raft.RPC, err error) {
	if rpc.Reader != nil {
		_, _ = io.Copy(io.Discard, rpc.Reader) // the snapshot must leave the stream; its fate does not matter
	}
	rpc.Respond(emptyResponse(rpc.Command), err)
}

// emptyResponse is a well-formed answer that grants and proves nothing.
func emptyResponse(command any) any {
	switch command.(type) {
	case *raft.RequestVoteRequest:
		return &raft.RequestVoteResponse{}
	case *raft.RequestPreVoteRequest:
		return &raft.RequestPreVoteResponse{}
	case *raft.InstallSnapshotRequest:
		return &raft.InstallSnapshotResponse{}
	case *raft.TimeoutNowRequest:
		return &raft.TimeoutNowResponse{}
	}
	return &raft.AppendEntriesResponse{}
}

func rpcKind(command any) string {
	switch c := command.(type) {
	case *raft.AppendEntriesRequest:
		if isHeartbeat(c) {
			return "Heartbeat"
		}
		return "AppendEntries"
	case *raft.RequestVoteRequest:
		return "RequestVote"
	case *raft.RequestPreVoteRequest:
		return "RequestPreVote"
	case *raft.InstallSnapshotRequest:
		return "InstallSnapshot"
	case *raft.TimeoutNowRequest:
		return "TimeoutNow"
	}
	return "unknown"
}

// isHeartbeat follows raft.NetworkTransport's own rule.
func isHeartbeat(c *raft.AppendEntriesRequest) bool {
	return c.PrevLogEntry == 0 && c.PrevLogTerm == 0 && len(c.Entries) == 0 && c.LeaderCommitIndex == 0
}

// Consumer implements raft.Transport.
func (t *Transport) Consumer() <-chan raft.RPC { return t.consume }

// LocalAddr implements raft.Transport.
func (t *Transport) LocalAddr() raft.ServerAddress { return raft.ServerAddress(t.cfg.LocalAddress) }

// SetHeartbeatHandler implements raft.Transport.
func (t *Transport) SetHeartbeatHandler(handle func(raft.RPC)) {
	t.inner.SetHeartbeatHandler(func(rpc raft.RPC) {
		if !t.dropped(rpc) {
			handle(rpc)
		}
	})
}

// EncodePeer implements raft.Transport: what other nodes are told as a peer's address.
func (t *Transport) EncodePeer(id raft.ServerID, addr raft.ServerAddress) []byte {
	if id == t.cfg.LocalID {
		return []byte(t.cfg.LocalAddress)
	}
	return []byte(addr)
}

// DecodePeer implements raft.Transport.
func (t *Transport) DecodePeer(b []byte) raft.ServerAddress { return raft.ServerAddress(b) }

// target is where a node is dialled, and the key of raft's connection pool.
func (t *Transport) target(id raft.ServerID, addr raft.ServerAddress) raft.ServerAddress {
	if t.cfg.Resolve != nil {
		addr = t.cfg.Resolve(id, addr)
	}
	return joinTarget(id, addr)
}

func (t *Transport) before(id raft.ServerID, kind string) error {
	select {
	case <-t.closed:
		return ErrClosed
	default:
	}
	if t.cfg.MayLead != nil && (kind == "AppendEntries" || kind == "Heartbeat") {
		if err := t.cfg.MayLead(); err != nil {
			return err
		}
	}
	if t.cfg.Faults.RPC == nil {
		return nil
	}
	return t.cfg.Faults.RPC(string(t.cfg.LocalID), string(id), kind)
}

// AppendEntries implements raft.Transport.
func (t *Transport) AppendEntries(id raft.ServerID, target raft.ServerAddress, args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	if err := t.before(id, rpcKind(args)); err != nil {
		return err
	}
	sent := t.cfg.Now()
	if err := t.inner.AppendEntries(id, t.target(id, target), args, resp); err != nil {
		return err
	}
	t.acked(id, sent, args, resp)
	return nil
}

func (t *Transport) acked(id raft.ServerID, sent time.Duration, args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) {
	if t.cfg.Acked == nil || !resp.Success || resp.Term != args.Term {
		return
	}
	match := args.PrevLogEntry
	if n := len(args.Entries); n > 0 {
		match = args.Entries[n-1].Index
	}
	t.cfg.Acked(Ack{Peer: id, Term: args.Term, Sent: sent, Match: match})
}

// RequestVote implements raft.Transport.
func (t *Transport) RequestVote(id raft.ServerID, target raft.ServerAddress, args *raft.RequestVoteRequest, resp *raft.RequestVoteResponse) error {
	if err := t.mayAsk(id, "RequestVote"); err != nil {
		return err
	}
	if at := time.Duration(t.ordered.Load()); args.LeadershipTransfer && at != 0 && t.cfg.OrderLife > 0 && t.cfg.Now()-at > t.cfg.OrderLife {
		return ErrStaleOrder
	}
	return t.retryStale(func() error { return t.inner.RequestVote(id, t.target(id, target), args, resp) })
}

// RequestPreVote implements raft.WithPreVote.
func (t *Transport) RequestPreVote(id raft.ServerID, target raft.ServerAddress, args *raft.RequestPreVoteRequest, resp *raft.RequestPreVoteResponse) error {
	if err := t.mayAsk(id, "RequestPreVote"); err != nil {
		return err
	}
	return t.retryStale(func() error { return t.inner.RequestPreVote(id, t.target(id, target), args, resp) })
}

// retryStale repeats an RPC whose connection turns out to have ended: raft's pool keeps connections to processes that are
// gone, and to raft a lost request for a vote is a refusal, which costs an election time-out.
func (t *Transport) retryStale(rpc func() error) error {
	var err error
	for range maxPool + 1 {
		if err = rpc(); err == nil || !isEnded(err) {
			return err
		}
	}
	return err
}

func isEnded(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

func (t *Transport) mayAsk(id raft.ServerID, kind string) error {
	if t.cfg.MayCampaign != nil {
		if err := t.cfg.MayCampaign(); err != nil {
			return err
		}
	}
	return t.before(id, kind)
}

// InstallSnapshot implements raft.Transport.
func (t *Transport) InstallSnapshot(id raft.ServerID, target raft.ServerAddress, args *raft.InstallSnapshotRequest, resp *raft.InstallSnapshotResponse, data io.Reader) error {
	if err := t.before(id, "InstallSnapshot"); err != nil {
		return err
	}
	return t.inner.InstallSnapshot(id, t.target(id, target), args, resp, data)
}

// TimeoutNow implements raft.Transport. raft refuses writes until it returns, so it does not wait for a target that is
// stopped; what that one makes of the order when it wakes up is for its own Inspect.
func (t *Transport) TimeoutNow(id raft.ServerID, target raft.ServerAddress, args *raft.TimeoutNowRequest, resp *raft.TimeoutNowResponse) error {
	if err := t.before(id, "TimeoutNow"); err != nil {
		return err
	}
	if t.cfg.OrderLife <= 0 {
		return t.retryStale(func() error { return t.inner.TimeoutNow(id, t.target(id, target), args, resp) })
	}
	var late raft.TimeoutNowResponse
	outcome := make(chan error, 1)
	go func() { // ends with the connection: after Timeout, or when the transport closes
		outcome <- t.retryStale(func() error { return t.inner.TimeoutNow(id, t.target(id, target), args, &late) })
	}()
	end := time.NewTimer(t.cfg.OrderLife)
	defer end.Stop()
	select {
	case err := <-outcome:
		*resp = late
		return err
	case <-end.C:
		return errSlowTarget
	case <-t.closed:
		return ErrClosed
	}
}

// AppendEntriesPipeline implements raft.Transport.
func (t *Transport) AppendEntriesPipeline(id raft.ServerID, target raft.ServerAddress) (raft.AppendPipeline, error) {
	if err := t.before(id, "AppendEntries"); err != nil {
		return nil, err
	}
	inner, err := t.inner.AppendEntriesPipeline(id, t.target(id, target))
	if err != nil {
		return nil, err
	}
	return newPipeline(t, id, inner), nil
}

// Close implements raft.WithClose: it ends all connections and waits for its own goroutine.
func (t *Transport) Close() error {
	t.once.Do(func() {
		close(t.closed)
		t.err = errors.Join(t.inner.Close(), t.stream.Close())
		t.done.Wait()
	})
	return t.err
}
