package node

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"raftmaster/cluster/raftstore"
	"raftmaster/fsm"
)

// proposer takes commands without blocking, feeds raft in order, and reports what failed. Two goroutines: one sends,
// one waits for outcomes in the same order.
type proposer struct {
	n *Node

	mu       sync.Mutex
	wake     *sync.Cond
	queue    []fsm.Command
	outcomes []outcome
	inflight int
	closed   bool // no more commands are taken
	drained  bool // the sender has ended; the waiter may end when outcomes is empty
	done     sync.WaitGroup
	stall    stall
}

type outcome struct {
	cmd    fsm.Command
	future raft.ApplyFuture // nil when err is known
	err    error
}

func newProposer(n *Node) *proposer {
	p := &proposer{n: n}
	p.wake = sync.NewCond(&p.mu)
	p.done.Add(2)
	go p.send()
	go p.wait()
	return p
}

// Propose hands a command to raft and returns at once. The outcome arrives through Hooks.Applied or ProposeFailed.
func (n *Node) Propose(cmd fsm.Command) { n.proposer.propose(cmd) }

func (p *proposer) propose(cmd fsm.Command) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.closed:
		p.outcomes = append(p.outcomes, outcome{cmd: cmd, err: ErrStopped})
	case p.inflight >= p.n.cfg.MaxInflight:
		p.outcomes = append(p.outcomes, outcome{cmd: cmd, err: ErrOverloaded})
	default:
		p.inflight++
		p.queue = append(p.queue, cmd)
	}
	p.wake.Broadcast()
}

func (p *proposer) send() {
	defer p.done.Done()
	enc := fsm.NewEncoder()
	for {
		p.mu.Lock()
		for len(p.queue) == 0 && !p.closed {
			p.wake.Wait()
		}
		batch := p.queue
		p.queue = nil
		closed := p.closed
		p.mu.Unlock()
		for _, cmd := range batch {
			p.report(p.apply(enc, cmd, closed))
		}
		if closed {
			p.mu.Lock()
			p.drained = true
			p.wake.Broadcast()
			p.mu.Unlock()
			return
		}
	}
}

func (p *proposer) apply(enc *fsm.Encoder, cmd fsm.Command, closed bool) outcome {
	if closed {
		return outcome{cmd: cmd, err: ErrStopped}
	}
	data, err := enc.Encode(cmd)
	if err != nil {
		return outcome{cmd: cmd, err: fmt.Errorf("encode %s: %w", cmd.Type(), err)}
	}
	return outcome{cmd: cmd, future: p.n.inst.Load().raft.Apply(raftstore.Seal(data), 0)}
}

func (p *proposer) report(o outcome) {
	p.mu.Lock()
	if o.future == nil {
		p.inflight--
	}
	p.outcomes = append(p.outcomes, o)
	p.wake.Broadcast()
	p.mu.Unlock()
}

func (p *proposer) wait() {
	defer p.done.Done()
	for {
		p.mu.Lock()
		for len(p.outcomes) == 0 && !p.drained {
			p.wake.Wait()
		}
		batch := p.outcomes
		p.outcomes = nil
		p.mu.Unlock()
		if len(batch) == 0 {
			return
		}
		for _, o := range batch {
			if o.future != nil {
				o.err = mapError(o.future.Error())
				p.mu.Lock()
				p.inflight--
				p.mu.Unlock()
				p.n.watchTransferFlag(o.err)
			}
			if o.err != nil {
				p.n.hooks.ProposeFailed(o.cmd, o.err)
			}
		}
	}
}

// close takes no more commands; those that raft has are waited for by stop.
func (p *proposer) close() {
	p.mu.Lock()
	p.closed = true
	p.wake.Broadcast()
	p.mu.Unlock()
}

// stop ends the goroutines. The raft instance must have been drained or shut down before, or outcomes never come.
func (p *proposer) stop() {
	p.close()
	p.done.Wait()
}

// mapError turns raft's errors into this package's. What is not known to be harmless has an unknown outcome.
func mapError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, raft.ErrNotLeader):
		return ErrNotLeader
	case errors.Is(err, raft.ErrLeadershipTransferInProgress):
		return ErrTransferring
	case errors.Is(err, raft.ErrEnqueueTimeout):
		return ErrOverloaded
	case errors.Is(err, raftstore.ErrStorage):
		return fmt.Errorf("%w: %w", ErrStorage, err)
	}
	return fmt.Errorf("%w: %w", ErrUnknownOutcome, err)
}

// drain lets raft take everything out of its queue of proposals: what is still there when raft shuts down is never
// answered. The queue is first in, first out, so a barrier at its end tells.
func (n *Node) drain(in *instance) {
	flushed := make(chan struct{})
	go func() {
		defer close(flushed)
		if err := in.raft.Barrier(n.cfg.FailoverTimeout).Error(); err != nil {
			n.log.Debug("proposals flushed", "outcome", err)
		}
	}()
	select {
	case <-flushed:
	case <-time.After(4 * n.cfg.FailoverTimeout):
		n.log.Warn("raft did not take the last proposals in time")
	}
}
