package admin

import (
	"sync"
	"time"

	"raftmaster/transport/webui"
)

// DefaultEvents is how many events a Ring keeps.
const DefaultEvents = 2048

// maxEventText bounds each text of an event, so that a peer's long message cannot fill the memory.
const maxEventText = 512

// Ring is the bounded history of this process. The oldest events are dropped; sequence numbers show that.
type Ring struct {
	now func() time.Time

	mu     sync.Mutex
	events []webui.Event // a circle: the event with number n is at (n-1) % len
	last   uint64        // number of the newest event
	more   chan struct{} // closed and replaced at each new event
}

// NewRing keeps up to size events; now is the clock, nil for the real one.
func NewRing(size int, now func() time.Time) *Ring {
	if size < 1 {
		size = DefaultEvents
	}
	if now == nil {
		now = time.Now
	}
	return &Ring{now: now, events: make([]webui.Event, size), more: make(chan struct{})}
}

// Add appends an event; its Seq is assigned here, and its time unless it carries one. It never blocks.
func (r *Ring) Add(e webui.Event) {
	if e.TimeMillis == 0 {
		e.TimeMillis = r.now().UnixMilli()
	}
	for _, text := range []*string{&e.Kind, &e.Node, &e.Subject, &e.Message, &e.Reason, &e.Actor} {
		if len(*text) > maxEventText {
			*text = (*text)[:maxEventText] + "…"
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last++
	e.Seq = r.last
	r.events[(r.last-1)%uint64(len(r.events))] = e
	close(r.more)
	r.more = make(chan struct{})
}

// Since implements webui.Events.
func (r *Ring) Since(seq uint64, limit int) ([]webui.Event, <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	size := uint64(len(r.events))
	first := uint64(1)
	if r.last > size {
		first = r.last - size + 1
	}
	// A number from the future comes from an earlier process: start from what there is.
	if seq < r.last && seq+1 > first {
		first = seq + 1
	} else if seq == r.last {
		first = r.last + 1
	}
	var out []webui.Event
	for n := first; n <= r.last && len(out) < limit; n++ {
		out = append(out, r.events[(n-1)%size])
	}
	return out, r.more
}
