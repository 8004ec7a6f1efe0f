package node

import (
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"raftmaster/transport/raftnet"
)

// noEnd is the deadline of a lease that needs nobody's acknowledgement: that of a lone voter.
const noEnd = time.Duration(math.MaxInt64)

// lease knows until when this node may act as the leader. A follower that accepts an append at time t elects nobody else
// before t plus the heartbeat time-out; the append was sent before t. So with the send times of the last appends that a
// majority has accepted, the earliest of them plus the time-out is a safe deadline. All times are of the boot clock.
type lease struct {
	length time.Duration

	mu     sync.Mutex
	term   uint64
	acks   map[raft.ServerID]*ackState
	voters []raft.ServerID // without this node
	member bool            // this node is a voter

	now atomic.Pointer[leaseEnd]
}

type ackState struct {
	sent, contact time.Duration
	match         uint64
}

type leaseEnd struct {
	term uint64
	end  time.Duration
}

// newLease makes a lease a little shorter than the heartbeat time-out, because clocks do not run equally fast.
func newLease(timeout time.Duration) *lease {
	return &lease{length: timeout - timeout/20, acks: make(map[raft.ServerID]*ackState)}
}

// setVoters takes over the latest configuration.
func (l *lease) setVoters(self raft.ServerID, c raft.Configuration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.voters, l.member = l.voters[:0], false
	for _, s := range c.Servers {
		switch {
		case s.Suffrage != raft.Voter:
		case s.ID == self:
			l.member = true
		default:
			l.voters = append(l.voters, s.ID)
		}
	}
	l.update()
}

// acked takes an acknowledgement into account. Those of other terms prove nothing.
func (l *lease) acked(a raftnet.Ack, now time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if a.Term < l.term {
		return
	}
	if a.Term > l.term {
		l.term = a.Term
		clear(l.acks)
	}
	s := l.acks[a.Peer]
	if s == nil {
		s = &ackState{sent: a.Sent}
		l.acks[a.Peer] = s
	}
	s.sent, s.contact, s.match = max(s.sent, a.Sent), now, max(s.match, a.Match)
	l.update()
}

// beginTerm forgets the acknowledgements of earlier terms.
func (l *lease) beginTerm(term uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if term > l.term {
		l.term = term
		clear(l.acks)
	}
	l.update()
}

// update computes the deadline; the caller holds mu.
func (l *lease) update() {
	e := &leaseEnd{term: l.term}
	defer l.now.Store(e)
	if !l.member {
		return
	}
	needed := (len(l.voters) + 1) / 2 // besides this node, of len(voters)+1
	if needed == 0 {
		e.end = noEnd
		return
	}
	sent := make([]time.Duration, 0, len(l.voters))
	for _, id := range l.voters {
		if s := l.acks[id]; s != nil {
			sent = append(sent, s.sent)
		}
	}
	if len(sent) < needed {
		return
	}
	slices.Sort(sent)
	e.end = sent[len(sent)-needed] + l.length
}

// remaining is how long the lease of that term still runs.
func (l *lease) remaining(term uint64, now time.Duration) time.Duration {
	e := l.now.Load()
	if e == nil || e.term != term || e.end <= now {
		return 0
	}
	return e.end - now
}

// peer gives what is known of a follower.
func (l *lease) peer(id raft.ServerID) (ackState, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s := l.acks[id]; s != nil {
		return *s, true
	}
	return ackState{}, false
}

// LeaseValid tells whether this node may act as the leader at this moment. Call it right before each write.
func (n *Node) LeaseValid() bool { return n.leaseRemaining() > 0 }

func (n *Node) leaseRemaining() time.Duration {
	term := n.leaderTerm.Load()
	if term == 0 || n.transferring.Load() || n.stopping.Load() || n.fsm.halted.Load() {
		return 0
	}
	in := n.inst.Load()
	if in == nil || in.raft.State() != raft.Leader || in.raft.CurrentTerm() != term {
		return 0
	}
	return n.lease.remaining(term, n.cfg.BootTime())
}
