package clustertest

import (
	"errors"
	"time"

	"raftmaster/fsm"
)

const (
	// lease is how long a leader that hears of nobody still believes in itself.
	lease = 500 * time.Millisecond
	// heartbeatRound is how long a resumed leader needs to renew its lease.
	heartbeatRound = 50 * time.Millisecond
)

var (
	errNotLeader      = errors.New("node is not the leader")
	errLeadershipLost = errors.New("leadership lost while committing log")
)

// entry is one committed entry of the log.
type entry struct {
	term uint64
	cmd  fsm.Command
}

// raft stands for hashicorp/raft behind cluster/node: one committed log, one leader of a term, leases that have ended
// before another leader is elected, and proposals of unknown outcome.
type raft struct {
	s    *Sim
	term uint64
	// leader is the one that the term belongs to; nil while there is none.
	leader *masterNode
	log    []entry
	// pending are the leader's proposals that are not committed; a new leader may hold any prefix of them.
	pending []fsm.Command
	// orphans are those of the last leader.
	orphans     []fsm.Command
	orphansTerm uint64
	committing  bool
	electing    bool
}

func newRaft(s *Sim) *raft { return &raft{s: s} }

// leaseValid is the truth about who may speak.
func (r *raft) leaseValid(m *masterNode) bool {
	return m.up && !m.paused && r.leader == m && r.s.now < m.leaseEnd && r.s.now >= m.leaseFrom
}

// propose appends a command of a master; it never fails at once.
func (r *raft) propose(m *masterNode, cmd fsm.Command) {
	if r.leader != m {
		m.post(r.s.between(0, time.Millisecond), func() { m.core.ProposeFailed(cmd, errNotLeader) })
		return
	}
	if m.isolated {
		m.limbo = append(m.limbo, cmd)
		return
	}
	r.pending = append(r.pending, cmd)
	r.commitSoon()
}

func (r *raft) commitSoon() {
	if r.committing {
		return
	}
	r.committing = true
	d := r.s.between(200*time.Microsecond, r.s.opt.MaxCommit)
	if r.s.chance(0.01) {
		d *= 50
	}
	term := r.term
	r.s.after(d, func() {
		r.committing = false
		switch {
		case r.leader == nil || r.leader.isolated || len(r.pending) == 0:
			return
		case r.leader.paused:
			return // when it runs on, if it still leads
		case r.term != term:
			r.commitSoon() // for the leader that has come meanwhile
			return
		}
		n := 1 + r.s.rng.IntN(len(r.pending))
		r.commit(r.pending[:n], r.term)
		r.pending = append([]fsm.Command(nil), r.pending[n:]...)
		if len(r.pending) > 0 {
			r.commitSoon()
		}
	})
}

// commit puts commands into the log; the leader applies them now, the others soon.
func (r *raft) commit(cmds []fsm.Command, term uint64) {
	for _, cmd := range cmds {
		r.log = append(r.log, entry{term: term, cmd: cmd})
	}
	if r.leader != nil {
		r.leader.applyTo(len(r.log))
	}
	for _, m := range r.s.masters {
		if m != r.leader {
			r.catchUp(m)
		}
	}
	for _, cmd := range cmds {
		r.s.committed(cmd)
	}
}

// catchUp lets a follower apply what is committed, some time later.
func (r *raft) catchUp(m *masterNode) {
	if m.lagging || !m.up {
		return
	}
	m.lagging = true
	lag := r.s.between(0, r.s.opt.MaxLag)
	if r.s.chance(0.02) {
		lag *= 50
	}
	m.after(lag, func() {
		m.lagging = false
		if m.isolated {
			return
		}
		m.install()
		m.applyTo(len(r.log))
	})
}

// lose ends the reign of a leader: what it proposed and did not commit is open.
func (r *raft) lose(m *masterNode) {
	if r.leader != m {
		return
	}
	r.s.note("raft", "%s leads no more", m.name)
	r.leader = nil
	r.orphans, r.orphansTerm, r.pending = r.pending, r.term, nil
	failed := append(append([]fsm.Command(nil), r.orphans...), m.limbo...)
	m.limbo = nil
	if !m.up {
		return
	}
	term := r.term
	deposed := func() { m.core.Deposed(term) }
	refused := func() {
		for _, cmd := range failed {
			m.core.ProposeFailed(cmd, errLeadershipLost)
		}
	}
	first, second := deposed, refused
	if r.s.chance(0.5) {
		first, second = refused, deposed
	}
	report := func() {
		m.post(r.s.between(0, 20*time.Millisecond), first)
		m.post(r.s.between(0, 20*time.Millisecond), second)
	}
	if m.paused {
		m.onResume = append(m.onResume, report) // nothing in it learns of the new term before it runs on
		return
	}
	report()
}

// elect makes somebody the leader after a time, and tries again while no majority runs.
func (r *raft) elect(d time.Duration) {
	if r.electing {
		return
	}
	r.electing = true
	r.s.after(d, func() {
		r.electing = false
		if r.leader != nil {
			return
		}
		var able []*masterNode
		for _, m := range r.s.masters {
			if m.up && !m.paused && !m.isolated {
				able = append(able, m)
			}
		}
		if len(able) <= len(r.s.masters)/2 {
			r.elect(r.s.between(200*time.Millisecond, time.Second))
			return
		}
		m, _ := pick(r.s, able)
		r.crown(m)
	})
}

// crown makes a master the leader. What the last leader had replicated to it becomes committed with its own first entry.
func (r *raft) crown(m *masterNode) {
	r.term++
	r.leader = m
	m.leaseFrom, m.leaseEnd = 0, forever
	kept := 0
	if n := len(r.orphans); n > 0 {
		kept = r.s.rng.IntN(n + 1)
	}
	r.s.note("raft", "%s leads in term %d; %d of %d orphans survive", m.name, r.term, kept, len(r.orphans))
	orphans := r.orphans[:kept]
	r.orphans = nil
	r.commit(orphans, r.orphansTerm)
	m.applyTo(len(r.log))
	term := r.term
	m.post(r.s.between(0, 5*time.Millisecond), func() { m.core.Elected(term, "simulated election") })
}
