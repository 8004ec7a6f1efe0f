package worker

import (
	"container/heap"
	"time"
)

// timer is a function that runs once, at or after a moment.
type timer struct {
	at   time.Time
	seq  uint64 // order of creation, so that equal moments run in a defined order
	fn   func()
	dead bool
}

type timerHeap []*timer

func (h timerHeap) Len() int { return len(h) }
func (h timerHeap) Less(i, j int) bool {
	if h[i].at.Equal(h[j].at) {
		return h[i].seq < h[j].seq
	}
	return h[i].at.Before(h[j].at)
}
func (h timerHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *timerHeap) Push(x any)   { *h = append(*h, x.(*timer)) }
func (h *timerHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return last
}

// after runs fn on the Core's goroutine once d has passed.
func (c *Core) after(d time.Duration, fn func()) *timer {
	c.timerSeq++
	t := &timer{at: c.now().Add(d), seq: c.timerSeq, fn: fn}
	heap.Push(&c.timers, t)
	return t
}

// stop makes a timer do nothing; a nil timer is allowed.
func (t *timer) stop() {
	if t != nil {
		t.dead, t.fn = true, nil
	}
}

// NextDeadline returns when Tick has something to do.
func (c *Core) NextDeadline() (time.Time, bool) {
	for len(c.timers) > 0 && c.timers[0].dead {
		heap.Pop(&c.timers)
	}
	if len(c.timers) == 0 {
		return time.Time{}, false
	}
	return c.timers[0].at, true
}

// Tick runs every timer that is due.
func (c *Core) Tick() {
	now := c.now()
	for len(c.timers) > 0 && !c.timers[0].at.After(now) {
		if t := heap.Pop(&c.timers).(*timer); !t.dead {
			t.fn()
		}
	}
}
