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
	drained  bool // raft and the sender have ended; the waiter may end when outcomes is empty
	sender   sync.WaitGroup
	waiter   sync.WaitGroup
	stall    stall
	// sending has room for the one who may hand something to raft: the sender, or whoever ends this raft instance.
	sending chan struct{}
}

type outcome struct {
	cmd    fsm.Command
	future raft.ApplyFuture // nil when err is known
	in     *instance        // that was given the command
	err    error
}

func newProposer(n *Node) *proposer {
	p := &proposer{n: n, sending: make(chan struct{}, 1)}
	p.wake = sync.NewCond(&p.mu)
	p.sender.Go(p.send)
	p.waiter.Go(p.wait)
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
			p.report(p.apply(enc, cmd))
		}
		if closed {
			return
		}
	}
}

func (p *proposer) apply(enc *fsm.Encoder, cmd fsm.Command) outcome {
	p.sending <- struct{}{}
	defer func() { <-p.sending }()
	if p.isClosed() {
		return outcome{cmd: cmd, err: ErrStopped}
	}
	data, err := enc.Encode(cmd)
	if err != nil {
		return outcome{cmd: cmd, err: fmt.Errorf("encode %s: %w", cmd.Type(), err)}
	}
	in := p.n.inst.Load()
	if err := p.n.gate(in, cmd); err != nil {
		return outcome{cmd: cmd, err: err}
	}
	return outcome{cmd: cmd, in: in, future: in.raft.Apply(raftstore.Seal(data), 0)}
}

func (p *proposer) isClosed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.closed
}

// pause keeps the sender away from raft until resume is called. It gives up after the time given, when raft does not
// even take what the sender has in hand.
func (p *proposer) pause(patience time.Duration) (resume func()) {
	select {
	case p.sending <- struct{}{}:
		return func() { <-p.sending }
	case <-time.After(patience):
		p.n.log.Warn("raft takes no proposals; it is stopped all the same")
		return func() {}
	}
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
		for len(batch) > 0 {
			n := 1
			for n < len(batch) && batch[n].in == batch[0].in {
				n++
			}
			p.settle(batch[:n])
			batch = batch[n:]
		}
	}
}

// settle waits for the outcomes of commands that one raft instance was given, or none, and reports those that failed. A
// future that is still in raft's queue when raft ends is never answered: its outcome is unknown.
func (p *proposer) settle(batch []outcome) {
	in := batch[0].in
	var raftSays *answers
	if in != nil {
		raftSays = in.answers(batch)
	}
	for _, o := range batch {
		if in != nil {
			o.err = mapError(raftSays.next())
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

// answers are those of one raft instance to a batch of proposals, in order.
type answers struct {
	errs  chan error
	ended <-chan struct{}  // raft gives no more answers
	late  <-chan time.Time // those that it gave before have had the time to arrive
	over  bool
}

// lastAnswers is how long a goroutine may take to pass on the answers that raft gave before it ended.
const lastAnswers = 100 * time.Millisecond

func (in *instance) answers(batch []outcome) *answers {
	a := &answers{errs: make(chan error, len(batch)), ended: in.ended}
	go func() {
		for _, o := range batch {
			a.errs <- o.future.Error()
		}
	}()
	return a
}

// next waits for one answer. What is missing when raft has ended is given up together, not one by one.
func (a *answers) next() error {
	for !a.over {
		select {
		case err := <-a.errs:
			return err
		case <-a.ended:
			a.ended, a.late = nil, time.After(lastAnswers)
		case <-a.late:
			a.over = true
		}
	}
	return raft.ErrRaftShutdown
}

// close takes no more commands; those that raft has are waited for by stop.
func (p *proposer) close() {
	p.mu.Lock()
	p.closed = true
	p.wake.Broadcast()
	p.mu.Unlock()
}

// stop ends the goroutines. The raft instance must have been shut down before, or outcomes never come. What is proposed
// later has no outcome.
func (p *proposer) stop() {
	p.close()
	p.sender.Wait()
	p.mu.Lock()
	p.drained = true
	p.wake.Broadcast()
	p.mu.Unlock()
	p.waiter.Wait()
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
