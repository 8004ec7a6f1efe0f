package node

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"raftmaster/fsm"
)

// silentFuture is what raft leaves of a proposal that is in its queue when it ends.
type silentFuture struct {
	raft.ApplyFuture
	end <-chan struct{} // of the test
}

func (f silentFuture) Error() error {
	<-f.end
	return nil
}

// answeredFuture was answered.
type answeredFuture struct {
	raft.ApplyFuture
	err error
}

func (f answeredFuture) Error() error { return f.err }

// A proposal that an ended raft never answers must not hold up the outcomes of the next instance, nor the end.
func TestProposalsThatRaftTookAlongAreOfUnknownOutcome(t *testing.T) {
	var mu sync.Mutex
	var failed []error
	n := &Node{hooks: Hooks{ProposeFailed: func(_ fsm.Command, err error) {
		mu.Lock()
		defer mu.Unlock()
		failed = append(failed, err)
	}}}
	gone, alive := &instance{ended: make(chan struct{})}, &instance{ended: make(chan struct{})}
	close(gone.ended)
	p := &proposer{n: n, inflight: 4}
	end := make(chan struct{})
	defer close(end)
	p.settle([]outcome{{in: gone, future: answeredFuture{}}, {in: gone, future: silentFuture{end: end}}, {in: gone, future: answeredFuture{}}})
	p.settle([]outcome{{in: alive, future: answeredFuture{err: raft.ErrNotLeader}}})
	if len(failed) != 3 || !errors.Is(failed[0], ErrUnknownOutcome) || !errors.Is(failed[1], ErrUnknownOutcome) || !errors.Is(failed[2], ErrNotLeader) {
		t.Errorf("failed: %v", failed)
	}
	if p.inflight != 0 {
		t.Errorf("%d proposals count as under way", p.inflight)
	}
}

// Whoever proposes hears of every proposal, however the node ends, and the end waits for nobody.
func TestEveryProposalIsAnsweredWhenTheNodeIsKilled(t *testing.T) {
	t.Parallel()
	rounds := 25
	if testing.Short() {
		rounds = 5
	}
	for range rounds {
		c := startAll(t, 1, nil)
		m := c.leader()
		n := m.node
		var senders sync.WaitGroup
		var ids [2][]string
		for i := range ids {
			senders.Go(func() {
				for !n.stopping.Load() {
					cmd := command()
					n.Propose(cmd)
					n.proposer.mu.Lock()
					ended := n.proposer.drained
					n.proposer.mu.Unlock()
					if !ended { // what comes after the end has no outcome
						ids[i] = append(ids[i], cmd.Header().RequestID)
					}
				}
			})
		}
		eventually(t, "proposals are applied", func() bool {
			m.mu.Lock()
			defer m.mu.Unlock()
			return len(m.applied) > 200
		})
		gone := m.killAside()
		select {
		case <-gone:
		case <-time.After(patience):
			t.Fatal("the node does not end")
		}
		senders.Wait()
		m.mu.Lock()
		lost := 0
		for _, list := range ids {
			for _, id := range list {
				if _, failed := m.failed[id]; !failed && !m.seen[id] {
					lost++
				}
			}
		}
		m.mu.Unlock()
		if lost > 0 {
			t.Fatalf("%d proposals have no outcome", lost)
		}
	}
}
