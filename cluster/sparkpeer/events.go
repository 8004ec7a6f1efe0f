package sparkpeer

import (
	"fmt"
	"sync"
	"time"

	"raftmaster/transport/frame"
	"raftmaster/transport/sparkmsg"
)

// Event is one thing that a peer received or did.
type Event struct {
	At   time.Time
	Kind string // the message name for what was received, otherwise one of the Did constants
	From frame.Address
	Msg  sparkmsg.Message // nil for what was done
	Note string
}

// What peers do by themselves, as Event.Kind.
const (
	DidRegister     = "did-register"     // RegisterWorker or RegisterApplication was sent to From
	DidRefuse       = "did-refuse"       // a launch or kill was ignored: Note says why
	DidDuplicate    = "did-duplicate"    // a launch for an executor or driver that is already there
	DidLaunch       = "did-launch"       // an executor or driver was started: Note is its id
	DidEnd          = "did-end"          // an executor or driver ended: Note is its id and state
	DidReport       = "did-report"       // an ExecutorStateChanged was answered true
	DidReportFail   = "did-report-fail"  // an attempt to report failed: Note says why
	DidLoseMaster   = "did-lose-master"  // the connection to the master closed
	DidExit         = "did-exit"         // the process would have exited: Note says why
	DidDecommission = "did-decommission" // the worker counts as decommissioned
)

// EventLog keeps the last events of a peer and counts all of them by kind. It is safe for concurrent use.
type EventLog struct {
	mu      sync.Mutex
	keep    int
	events  []Event
	dropped int // events no longer kept
	counts  map[string]int
	changed chan struct{} // closed and replaced at each event; nil while nobody waits
}

func newEventLog(keep int) *EventLog { return &EventLog{keep: keep, counts: map[string]int{}} }

func (l *EventLog) add(e Event) {
	e.At = time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.counts[e.Kind]++
	if l.keep > 0 {
		if len(l.events) >= l.keep {
			n := max(1, l.keep/2)
			l.dropped += n
			l.events = append([]Event(nil), l.events[n:]...)
		}
		l.events = append(l.events, e)
	}
	if l.changed != nil {
		close(l.changed)
		l.changed = nil
	}
}

// Count returns how many events of a kind there were in all.
func (l *EventLog) Count(kind string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.counts[kind]
}

// All returns the kept events, oldest first.
func (l *EventLog) All() []Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]Event(nil), l.events...)
}

// Kinds returns the kinds of the kept events, oldest first.
func (l *EventLog) Kinds() []string {
	var kinds []string
	for _, e := range l.All() {
		kinds = append(kinds, e.Kind)
	}
	return kinds
}

// Mark is a position in the log for WaitAfter.
func (l *EventLog) Mark() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dropped + len(l.events)
}

// Wait returns the first kept event of a kind, waiting for it at most for timeout.
func (l *EventLog) Wait(kind string, timeout time.Duration) (Event, error) {
	return l.WaitAfter(0, kind, nil, timeout)
}

// WaitAfter returns the first event at or after a mark that has the kind and matches; match may be nil.
func (l *EventLog) WaitAfter(mark int, kind string, match func(Event) bool, timeout time.Duration) (Event, error) {
	expired := time.NewTimer(timeout)
	defer expired.Stop()
	for {
		l.mu.Lock()
		for _, e := range l.events[min(max(0, mark-l.dropped), len(l.events)):] {
			if e.Kind == kind && (match == nil || match(e)) {
				l.mu.Unlock()
				return e, nil
			}
		}
		if l.changed == nil {
			l.changed = make(chan struct{})
		}
		changed := l.changed
		l.mu.Unlock()
		select {
		case <-changed:
		case <-expired.C:
			return Event{}, fmt.Errorf("sparkpeer: no event %s within %s; seen: %v", kind, timeout, l.Kinds())
		}
	}
}

// WaitCount waits until there were at least n events of a kind in all.
func (l *EventLog) WaitCount(kind string, n int, timeout time.Duration) error {
	expired := time.NewTimer(timeout)
	defer expired.Stop()
	for {
		l.mu.Lock()
		have := l.counts[kind]
		if l.changed == nil {
			l.changed = make(chan struct{})
		}
		changed := l.changed
		l.mu.Unlock()
		if have >= n {
			return nil
		}
		select {
		case <-changed:
		case <-expired.C:
			return fmt.Errorf("sparkpeer: %d events %s within %s, wanted %d; seen: %v", have, kind, timeout, n, l.Kinds())
		}
	}
}
