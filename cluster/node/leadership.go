package node

import (
	"errors"
	"time"

	"github.com/hashicorp/raft"
)

// barrierResult is the outcome of the barrier that a new leader waits for.
type barrierResult struct {
	term  uint64
	stuck bool // the transfer flag of an earlier term is still up (hashicorp/raft #696)
	err   error
}

// lead follows raft's word on leadership and calls Elected and Deposed, alternately. One goroutine per instance.
func (n *Node) lead(in *instance) {
	defer close(in.done)
	elected := uint64(0)
	depose := func() {
		n.leaderTerm.Store(0)
		if elected == 0 {
			return
		}
		term := elected
		elected = 0
		n.log.Info("no longer the leader", "term", term)
		n.cfg.OnEvent(Event{Kind: "leader", NodeID: n.nodeID, Term: term, Detail: "deposed"})
		n.hooks.Deposed(term)
	}
	defer depose()
	var passed chan barrierResult
	for {
		select {
		case up := <-in.notify:
			depose()
			passed = nil
			if up {
				passed = n.barrier(in)
			}
		case r := <-passed:
			passed = nil
			switch {
			case r.stuck:
				n.spawn(func() { n.restartRaft(in, "the flag of an earlier leadership transfer blocks all writes", nil) })
			case r.err != nil:
				n.log.Warn("elected, but the barrier failed", "term", r.term, "error", r.err)
			case in.raft.State() == raft.Leader && in.raft.CurrentTerm() == r.term:
				elected = r.term
				n.announce(in, r.term)
			}
		case <-in.stop:
			return
		}
	}
}

func (n *Node) announce(in *instance, term uint64) {
	n.lease.setVoters(raft.ServerID(n.nodeID), in.raft.GetConfiguration().Configuration())
	n.lease.beginTerm(term)
	n.transferring.Store(false)
	n.leaderTerm.Store(term)
	n.log.Info("leading", "term", term, "node_id", n.nodeID)
	n.cfg.OnEvent(Event{Kind: "leader", NodeID: n.nodeID, Term: term, Detail: "elected"})
	n.hooks.Elected(term)
	n.spawn(n.raiseLevel)
}

// barrier waits, aside, until everything committed so far is applied here. A barrier that raft refuses because of
// a transfer is tried again: the flag may belong to a transfer that ends in a moment.
func (n *Node) barrier(in *instance) chan barrierResult {
	result := make(chan barrierResult, 1)
	if !n.spawn(func() {
		term := in.raft.CurrentTerm()
		select {
		case <-n.placed:
		case <-in.stop:
			result <- barrierResult{err: ErrStopped}
			return
		}
		began := time.Now()
		for {
			err := in.raft.Barrier(0).Error()
			stuck := errors.Is(err, raft.ErrLeadershipTransferInProgress)
			if stuck && time.Since(began) < 2*n.cfg.FailoverTimeout {
				select {
				case <-time.After(n.cfg.FailoverTimeout / 20):
					continue
				case <-in.stop:
				}
			}
			if stuck && n.cfg.seams.noTransferWatchdog {
				stuck = false
			}
			result <- barrierResult{term: term, stuck: stuck, err: err}
			return
		}
	}) {
		result <- barrierResult{err: ErrStopped}
	}
	return result
}
