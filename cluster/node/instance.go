package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/hashicorp/raft"

	"raftmaster/transport/raftnet"
)

// instance is one run of raft on the node's stores. A guard may end one and start the next.
type instance struct {
	raft   *raft.Raft
	trans  *raftnet.Transport
	notify chan bool // raft's word on leadership, every change in order
	stop   chan struct{}
	done   chan struct{} // the leadership goroutine has ended
	ended  chan struct{} // raft's goroutines have ended: it gives no more answers
	began  time.Duration // boot clock
	fresh  bool          // there was no raft state at the start
}

// notifyBuffer lets raft go on while Elected or Deposed run.
const notifyBuffer = 16

// startInstance starts raft. No other instance may be running.
func (n *Node) startInstance() (*instance, error) {
	had, err := n.store.HasState()
	if err != nil {
		return nil, storageError("look for raft state", err)
	}
	in := &instance{
		notify: make(chan bool, notifyBuffer), stop: make(chan struct{}), done: make(chan struct{}), ended: make(chan struct{}),
		began: n.cfg.BootTime(), fresh: !had,
	}
	in.trans = raftnet.NewTransport(raftnet.TransportConfig{
		LocalID: raft.ServerID(n.nodeID), LocalAddress: n.cfg.Self,
		Dial:    n.dialRaft,
		Resolve: n.resolve,
		Acked:   func(a raftnet.Ack) { n.lease.acked(a, n.cfg.BootTime()) },
		Admit:   func(command any) error { return n.admitTerm(in, command) },
		Inspect: func(rpc raft.RPC) bool { return n.inspect(in, rpc) },
		MayCampaign: func() error {
			return n.store.Health() // a node that cannot write its log must not lead
		},
		MayLead: func() error { return n.store.Hung() },
		Now:     n.cfg.BootTime, Timeout: max(4*n.cfg.FailoverTimeout, minRPCTimeout), OrderLife: n.cfg.FailoverTimeout, Faults: n.cfg.Net,
		Logger: n.cfg.Logger.Named("raft-net"),
	})
	conf := n.raftConfig(in.notify)
	if conf.NoSnapshotRestoreOnStart, err = n.machineIsAhead(); err != nil {
		return nil, errors.Join(err, in.trans.Close())
	}
	in.raft, err = raft.NewRaft(conf, n.fsm, n.store.Logs(), n.store.Stable(), n.store.Snapshots(), in.trans)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start raft on %s: %w", n.cfg.DataDir, err), n.fsm.refusal(), in.trans.Close())
	}
	n.lease.setVoters(raft.ServerID(n.nodeID), in.raft.GetConfiguration().Configuration())
	go n.lead(in)
	return in, nil
}

// machineIsAhead tells whether the state machine holds all that the newest snapshot does: after a restart of raft in
// place it stays as it is, and what raft replays is skipped.
func (n *Node) machineIsAhead() (bool, error) {
	if n.fsm.applied == 0 {
		return false, nil
	}
	snap, err := n.store.NewestSnapshot()
	if err != nil {
		return false, storageError("list the snapshots", err)
	}
	return snap == nil || snap.Index <= n.fsm.applied, nil
}

// stopInstance ends raft: first its voice (lease, Elected), then its network and its goroutines.
func (n *Node) stopInstance(in *instance) error {
	select {
	case <-in.done:
		return nil // stopped before
	default:
	}
	close(in.stop)
	<-in.done
	if n.stopping.Load() {
		// The end of the process must look like one: no connection outlives the decision.
		if err := in.trans.Close(); err != nil {
			n.log.Debug("raft connections closed", "error", err)
		}
	}
	n.drain(in)
	defer close(in.ended)
	down := in.raft.Shutdown()
	// Its goroutines may hang in RPCs to masters that do not answer: end these first.
	err := in.trans.Close()
	return errors.Join(down.Error(), err)
}

// restartRaft ends raft and starts it again on the same stores; between runs while it is down. The state machine stays
// as it is. It must not be called from a goroutine of raft.
func (n *Node) restartRaft(old *instance, why string, between func() error) {
	n.lifecycle.Lock()
	defer n.lifecycle.Unlock()
	if n.stopping.Load() || n.inst.Load() != old {
		return
	}
	n.log.Warn("restarting raft in place", "reason", why)
	n.cfg.OnEvent(Event{Kind: "raft-restarted", NodeID: n.nodeID, Term: old.raft.CurrentTerm(), Detail: why})
	// What is proposed meanwhile is for the next instance.
	defer n.proposer.pause(4 * n.cfg.FailoverTimeout)()
	if err := n.stopInstance(old); err != nil {
		n.log.Warn("raft stopped with an error", "error", err)
	}
	if between != nil {
		if err := between(); err != nil {
			n.halt(fmt.Errorf("raft was stopped (%s), but the log cannot be repaired: %w", why, err))
			return
		}
	}
	in, err := n.startInstance()
	if err != nil {
		n.halt(fmt.Errorf("raft cannot be started again: %w", err))
		return
	}
	n.inst.Store(in)
	n.campaignIfAlone(in)
}

// dialRaft opens a raft connection to a node.
func (n *Node) dialRaft(id, address string, timeout time.Duration) (net.Conn, error) {
	if d := n.cfg.Net.DialTimeout; d > 0 {
		timeout = d
	}
	ctx, cancel := context.WithTimeout(n.ctx, timeout)
	defer cancel()
	hello := n.hello(raftnet.KindRaft)
	hello.Target = id
	c, theirs, err := n.dial(ctx, address, hello)
	if err != nil {
		n.logRefusal(address, theirs, err)
		return nil, err
	}
	if theirs.NodeID != id || theirs.ClusterID != hello.ClusterID {
		err := fmt.Errorf("raft connection to %s: node %s of cluster %s answers in the place of node %s of cluster %s",
			address, theirs.NodeID, theirs.ClusterID, id, hello.ClusterID)
		n.logRefusal(address, theirs, err)
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}
