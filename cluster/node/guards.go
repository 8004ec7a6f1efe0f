package node

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"raftmaster/transport/raftnet"
)

var (
	errVoteHeld    = errors.New("just started: the leader of before may still have a lease that this node granted")
	errStaleTarget = errors.New("leadership transfer from a master that is not this node's leader, or no longer")
	errTwin        = errors.New("another process with this node id is at another address: a data directory was copied")
	errRepairing   = errors.New("the end of this node's log contradicts the snapshot: repairing, ask again")
)

// inspect sees incoming RPCs before raft does and answers those that raft must not see.
func (n *Node) inspect(in *instance, rpc raft.RPC) bool {
	if h, ok := rpc.Command.(raft.WithRPCHeader); ok {
		if r := h.GetRPCHeader(); n.isTwin(string(r.ID), string(r.Addr)) {
			raftnet.Refuse(rpc, errTwin)
			return true
		}
	}
	switch c := rpc.Command.(type) {
	case *raft.RequestVoteRequest:
		if !c.LeadershipTransfer && n.voteHeld(in) {
			raftnet.Refuse(rpc, errVoteHeld)
			return true
		}
		n.sawVoteRequest(c.Term)
	case *raft.RequestPreVoteRequest:
		if n.voteHeld(in) {
			raftnet.Refuse(rpc, errVoteHeld)
			return true
		}
	case *raft.TimeoutNowRequest:
		return n.inspectTimeoutNow(in, rpc, c)
	case *raft.InstallSnapshotRequest:
		return n.inspectSnapshot(in, rpc, c)
	}
	return false
}

// voteHeld tells whether this process is so young that its predecessor may have accepted an append that a leader still
// counts on: raft forgets at a restart that it has a leader, the leader's lease does not. A transfer ends the lease
// first, and fast failover has proof that the leader is gone; both mark their requests.
func (n *Node) voteHeld(in *instance) bool {
	return !in.fresh && n.cfg.BootTime()-in.began < n.cfg.FailoverTimeout
}

// inspectTimeoutNow refuses a transfer order that was on the way for too long: it would depose a leader that has long
// given up the transfer and leads on, with a lease. A process that was stopped finds heartbeats beside the order, so that
// the leader seems in contact: the leader itself is asked. What is bound to that word in time: transport/raftnet
// (OrderLife) on this side, resumeLeading on the other.
func (n *Node) inspectTimeoutNow(in *instance, rpc raft.RPC, c *raft.TimeoutNowRequest) bool {
	addr, leader := in.raft.LeaderWithID()
	if string(leader) == string(c.ID) && time.Since(in.raft.LastContact()) < n.cfg.FailoverTimeout && n.confirmOrder(string(leader), string(n.resolve(leader, addr))) {
		n.cfg.OnEvent(Event{Kind: "hand-over", NodeID: string(leader), Term: in.raft.CurrentTerm(), Detail: "the leader " + string(addr) + " handed leadership over"})
		return false
	}
	raftnet.Refuse(rpc, errStaleTarget)
	return true
}

// confirmOrder asks a leader whether it is handing leadership over to this node at this moment. It holds up raft's
// incoming RPCs, for a round trip, or half a failover time-out when nobody answers.
func (n *Node) confirmOrder(leader, addr string) bool {
	ctx, cancel := context.WithTimeout(n.ctx, n.cfg.FailoverTimeout/2)
	defer cancel()
	hello := n.hello(raftnet.KindCall)
	hello.Target = leader
	c, theirs, err := n.dial(ctx, addr, hello)
	if err != nil {
		n.log.Warn("an order to take leadership over cannot be confirmed", "leader", leader, "address", addr, "error", err)
		return false
	}
	_ = c.Close() // the handshake was all
	return theirs.NodeID == leader && theirs.TransferTo == n.nodeID
}

// inspectSnapshot keeps hashicorp/raft #697 away. raft 1.7.3 installs a snapshot and keeps log entries that contradict
// it; when they reach beyond the snapshot, it refuses what follows and is sent the same snapshot for ever. Raft's rule
// (paper, 5.3 and figure 13) is that such entries go. raft keeps the last index in memory, so it must be down for that.
func (n *Node) inspectSnapshot(in *instance, rpc raft.RPC, c *raft.InstallSnapshotRequest) bool {
	if n.cfg.seams.noSnapshotGuard {
		return false
	}
	conflict, err := n.contradicts(c.LastLogIndex, c.LastLogTerm)
	if err == nil && !conflict {
		err = n.store.ExpectInstall(c.LastLogIndex, c.LastLogTerm)
	}
	switch {
	case err != nil:
		raftnet.Refuse(rpc, storageError("compare the log with a snapshot", err))
		return true
	case conflict:
		raftnet.Refuse(rpc, errRepairing)
		at := c.LastLogIndex
		n.spawn(func() {
			n.restartRaft(in, fmt.Sprintf("log entry %d contradicts the leader's snapshot", at), func() error { return n.store.TruncateFrom(at) })
		})
		return true
	}
	return false
}

// contradicts tells whether the log reaches to or beyond a committed entry without holding it.
func (n *Node) contradicts(index, term uint64) (bool, error) {
	_, last, err := n.store.Bounds()
	if err != nil || last < index {
		return false, err
	}
	have, ok, err := n.store.Term(index)
	if err != nil {
		return false, err
	}
	if !ok { // compacted away: our own snapshot covers it
		snap, err := n.store.NewestSnapshot()
		return err == nil && (snap == nil || snap.Index < index), err
	}
	return have != term, nil
}

// stuckFlag notices when raft refuses proposals because of a transfer that nobody is making (hashicorp/raft #696).
type stuckFlag struct {
	mu    sync.Mutex
	since time.Time
}

// watchTransferFlag looks at the outcome of each proposal.
func (n *Node) watchTransferFlag(err error) {
	f := &n.flagStuck
	f.mu.Lock()
	defer f.mu.Unlock()
	if !errors.Is(err, ErrTransferring) || n.transferring.Load() {
		f.since = time.Time{}
		return
	}
	if f.since.IsZero() {
		f.since = time.Now()
		return
	}
	if time.Since(f.since) < 2*n.cfg.FailoverTimeout || n.cfg.seams.noTransferWatchdog {
		return
	}
	f.since = time.Time{}
	in := n.inst.Load()
	n.spawn(func() { n.restartRaft(in, "the flag of an earlier leadership transfer blocks all writes", nil) })
}

// noise lets one log line per key and minute through. The zero value is ready.
type noise struct {
	mu   sync.Mutex
	last map[string]time.Time
}

const (
	noiseInterval = time.Minute
	maxNoiseKeys  = 1024
)

func (x *noise) allow(key string) bool {
	now := time.Now()
	x.mu.Lock()
	defer x.mu.Unlock()
	if t, ok := x.last[key]; ok && now.Sub(t) < noiseInterval {
		return false
	}
	if x.last == nil {
		x.last = make(map[string]time.Time)
	}
	if len(x.last) >= maxNoiseKeys {
		maps.DeleteFunc(x.last, func(_ string, t time.Time) bool { return now.Sub(t) >= noiseInterval })
		if len(x.last) >= maxNoiseKeys {
			return false // so many keys a minute are a flood by themselves
		}
	}
	x.last[key] = now
	return true
}

// alarms are conditions for Status, by topic. The zero value is ready.
type alarms struct {
	mu sync.Mutex
	m  map[string]string
}

func (a *alarms) set(topic, text string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.m == nil {
		a.m = make(map[string]string)
	}
	a.m[topic] = text
}

func (a *alarms) clear(topic string) {
	a.mu.Lock()
	delete(a.m, topic)
	a.mu.Unlock()
}
