package master

import (
	"maps"
	"slices"
	"time"

	"raftmaster/fsm"
)

// Status is what the leader knows beside the replicated state. On a standby all but Leading is empty.
type Status struct {
	Leading   bool
	Term      uint64
	ElectedAt time.Time
	// Awaited lists peers that have not answered this leader yet, sorted by id.
	Awaited []Awaited
	// Attached counts the workers and applications that have.
	AttachedWorkers, AttachedApps int
	// LastAttach is when the last awaited peer came back; zero while none has.
	LastAttach time.Time
	// LastHeartbeats says when each worker was last heard of, by id.
	LastHeartbeats map[string]time.Time
	// WorkerNotes says by id why a worker gets no new work.
	WorkerNotes map[string]string
	// UnreadableDrivers says by worker id which families' drivers never started there, so that it gets no more of them.
	UnreadableDrivers map[string][]uint8
	// Pending counts commands that are proposed and not yet applied.
	Pending int
}

// Awaited is a peer that owes an answer to MasterChanged.
type Awaited struct {
	Kind, ID, Address string // Kind is "worker" or "app"
	Dead              bool   // a DEAD worker: it is told of the new leader too, and nothing waits for it
	Since, Deadline   time.Time
	Attempts          int
}

// Status returns a copy of the soft state.
func (c *Core) Status() Status {
	s := Status{Leading: c.leader && c.deps.Lease(), Term: c.term, Pending: len(c.pending)}
	if !c.leader {
		return s
	}
	s.ElectedAt, s.LastAttach = c.electedAt, c.lastAttach
	s.LastHeartbeats = make(map[string]time.Time, len(c.workers))
	view := c.view()
	s.WorkerNotes, s.UnreadableDrivers = map[string]string{}, map[string][]uint8{}
	view.Workers(func(w *fsm.Worker) bool {
		if note := c.workerNote(w); note != "" {
			s.WorkerNotes[w.ID] = note
		}
		return true
	})
	for _, id := range sortedKeys(c.workers) {
		w := c.workers[id]
		w.hear()
		s.LastHeartbeats[id] = w.lastSeen
		if len(w.unreadable) > 0 {
			s.UnreadableDrivers[id] = slices.Sorted(maps.Keys(w.unreadable))
		}
		if w.attached {
			s.AttachedWorkers++
		}
		if a := w.await; a != nil {
			known := view.Worker(id)
			s.Awaited = append(s.Awaited, Awaited{Kind: "worker", ID: id, Address: w.addr.String(), Since: a.since,
				Deadline: a.deadline, Attempts: a.sent, Dead: known == nil || known.State == fsm.WorkerDead})
		}
	}
	for _, id := range sortedKeys(c.apps) {
		a := c.apps[id]
		if a.attached {
			s.AttachedApps++
		}
		if a.await != nil {
			s.Awaited = append(s.Awaited, Awaited{Kind: "app", ID: id, Address: a.addr.String(), Since: a.await.since,
				Deadline: a.await.deadline, Attempts: a.await.sent})
		}
	}
	return s
}
