package drill

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"raftmaster/transport/webui"
)

const (
	// samplePause is between two questions to one master: the resolution of the times of a leader.
	samplePause = 4 * time.Millisecond
	// sampleLimit bounds one question: a stopped master answers none.
	sampleLimit = time.Second
	// logPause is between two fetches of the entries of the log.
	logPause = 300 * time.Millisecond
)

// sample is an answer about leadership.
type sample struct {
	answer   webui.LeaderAnswer
	err      error
	sent, at time.Time
}

// watch asks every master all the time who leads, and collects the log.
type watch struct {
	client  Client
	members []Master
	cancel  context.CancelFunc
	wg      sync.WaitGroup

	mu      sync.Mutex
	last    []sample
	changed chan struct{} // closed and replaced at each sample
	// armed: the fault began at t0, when old led in oldTerm.
	armed    bool
	t0       time.Time
	base     time.Time // of the timeline: the first t0
	old      Master
	oldTerm  uint64
	gone     time.Time
	elected  time.Time
	alive    time.Time
	leader   int // of the alive one
	term     uint64
	moments  []Moment
	states   []string             // what each master last was, for the timeline
	firstAt  map[uint64]time.Time // when a term's leader was first seen to have a lease
	breaches []string

	entries map[uint64]webui.DrillEntry
	covered []span
}

// span is a range of the log, from excluded, to included.
type span struct{ from, to uint64 }

func newWatch(ctx context.Context, client Client, members []Master, after uint64) *watch {
	ctx, cancel := context.WithCancel(ctx)
	w := &watch{client: client, members: members, cancel: cancel, last: make([]sample, len(members)), changed: make(chan struct{}), leader: -1,
		states: make([]string, len(members)), firstAt: map[uint64]time.Time{}, entries: map[uint64]webui.DrillEntry{}}
	for i := range members {
		w.wg.Go(func() { w.sampleAll(ctx, i) })
		w.wg.Go(func() { w.collect(ctx, i, after) })
	}
	return w
}

func (w *watch) stop() {
	w.cancel()
	w.wg.Wait()
}

func (w *watch) sampleAll(ctx context.Context, i int) {
	for ctx.Err() == nil {
		s := sample{sent: time.Now()}
		qctx, cancel := context.WithTimeout(ctx, sampleLimit)
		s.err = w.client.Get(qctx, w.members[i].WebURL, "/v1/leader", &s.answer)
		cancel()
		s.at = time.Now()
		if ctx.Err() == nil {
			w.note(i, s)
		}
		select {
		case <-ctx.Done():
		case <-time.After(samplePause):
		}
	}
}

// arm begins the measurement of a change of the leader.
func (w *watch) arm(t0 time.Time, old Master, term uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.armed {
		w.base = t0
	}
	w.armed, w.t0, w.old, w.oldTerm = true, t0, old, term
	w.gone, w.elected, w.alive, w.leader, w.term = time.Time{}, time.Time{}, time.Time{}, -1, 0
}

// say adds a line to the timeline.
func (w *watch) say(at time.Time, master, what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sayLocked(at, master, what)
}

// timeline gives its lines in the order of time.
func (w *watch) timeline() []Moment {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := slices.Clone(w.moments)
	slices.SortStableFunc(out, func(a, b Moment) int { return cmp.Compare(a.AtMillis, b.AtMillis) })
	return out
}

func (w *watch) sayLocked(at time.Time, master, what string) {
	if w.armed {
		w.moments = append(w.moments, Moment{AtMillis: at.Sub(w.base).Milliseconds(), Master: master, What: what})
	}
}

func (w *watch) note(i int, s sample) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last[i] = s
	close(w.changed)
	w.changed = make(chan struct{})
	w.describe(i, s)
	if s.err != nil {
		return
	}
	w.checkLease(i, s)
	if !w.armed || s.sent.Before(w.t0) {
		return
	}
	a, m := s.answer, w.members[i]
	if w.gone.IsZero() && m.NodeID != w.old.NodeID && (a.Leader == nil || a.Leader.NodeID != w.old.NodeID || a.Term > w.oldTerm) {
		w.gone = s.at
	}
	if a.Term <= w.oldTerm {
		return
	}
	if w.elected.IsZero() && a.Role == webui.RoleLeader {
		w.elected = s.at
	}
	if a.IsLeader && a.Term > w.term {
		if w.alive.IsZero() {
			w.alive = s.at
		}
		w.leader, w.term = i, a.Term
	}
}

// describe adds a line to the timeline when a master is not what it was.
func (w *watch) describe(i int, s sample) {
	now := "no answer"
	if s.err == nil {
		now = fmt.Sprintf("%s, term %d", s.answer.State, s.answer.Term)
		if s.answer.Role == webui.RoleCandidate {
			now = fmt.Sprintf("candidate, term %d", s.answer.Term)
		}
		switch {
		case s.answer.IsLeader:
			now += ", leads"
		case s.answer.Leader == nil:
			now += ", knows no leader"
		default:
			now += ", follows " + s.answer.Leader.Address
		}
	}
	if now != w.states[i] && w.states[i] != "" {
		w.sayLocked(s.at, w.members[i].Address, now)
	}
	w.states[i] = now
}

// checkLease finds two leaders at once: an answer that a master led with a lease, to a question that was asked after
// another one had been seen to lead a later term.
func (w *watch) checkLease(i int, s sample) {
	if !s.answer.IsLeader {
		return
	}
	for term, at := range w.firstAt {
		if term > s.answer.Term && s.sent.After(at) {
			w.breaches = append(w.breaches, fmt.Sprintf("%s claimed to lead term %d with a lease after a leader of term %d was ALIVE", w.members[i].Address, s.answer.Term, term))
			return
		}
	}
	if _, ok := w.firstAt[s.answer.Term]; !ok {
		w.firstAt[s.answer.Term] = s.at
	}
}

// await waits until cond, which is called with mu held, holds. It tells false at the limit.
func (w *watch) await(ctx context.Context, limit time.Duration, cond func() bool) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		w.mu.Lock()
		ok, again := cond(), w.changed
		w.mu.Unlock()
		if ok {
			return true
		}
		select {
		case <-again:
		case <-timer.C:
			return false
		case <-ctx.Done():
			return false
		}
	}
}

// aliveBefore tells whether a new leader was ALIVE at that time.
func (w *watch) aliveBefore(at time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.alive.IsZero() && w.alive.Before(at)
}

// newLeader gives the leader that has come after the fault.
func (w *watch) newLeader() (m Master, term uint64, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.leader < 0 {
		return Master{}, 0, false
	}
	return w.members[w.leader], w.term, true
}

// collect fetches the entries of the log from one master as long as the watch goes on.
func (w *watch) collect(ctx context.Context, i int, after uint64) {
	for ctx.Err() == nil {
		after = w.fetch(ctx, i, after)
		select {
		case <-ctx.Done():
		case <-time.After(logPause):
		}
	}
}

// fetch gets what a master has applied behind an index, and gives the index from which to go on.
func (w *watch) fetch(ctx context.Context, i int, after uint64) uint64 {
	for {
		log, err := ask[webui.DrillLog](ctx, w.client, w.members[i].WebURL, fmt.Sprintf("/v1/drill/log?after=%d", after))
		if err != nil || log.To <= after || log.From >= log.To {
			return after
		}
		w.mu.Lock()
		for _, e := range log.Entries {
			w.entries[e.Index] = e
		}
		w.covered = append(w.covered, span{log.From, log.To})
		w.mu.Unlock()
		after = log.To
	}
}

// log gives the entries behind from up to to, and whether they are all there; it asks once more for what is missing.
func (w *watch) log(ctx context.Context, from, to uint64) ([]webui.DrillEntry, bool) {
	if !w.covers(from, to) {
		each(len(w.members), func(i int) { w.fetch(ctx, i, from) })
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	out := make([]webui.DrillEntry, 0, len(w.entries))
	for _, e := range w.entries {
		if e.Index > from && e.Index <= to {
			out = append(out, e)
		}
	}
	sortEntries(out)
	return out, coversAll(w.covered, from, to)
}

func (w *watch) covers(from, to uint64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return coversAll(w.covered, from, to)
}

// coversAll tells whether spans leave no gap between two indexes.
func coversAll(spans []span, from, to uint64) bool {
	for at := from; at < to; {
		next := at
		for _, s := range spans {
			if s.from <= at && s.to > next {
				next = s.to
			}
		}
		if next == at {
			return false
		}
		at = next
	}
	return true
}
