// Package timers is a queue of functions that run at given moments, for a state machine of one goroutine whose clock is
// a parameter: nothing here reads a clock, starts a goroutine or locks. The leader service and the worker keep their
// time-outs in it.
package timers

import (
	"container/heap"
	"time"
)

// Timer is a function that runs once, at or after a moment.
type Timer struct {
	at   time.Time
	seq  uint64 // order of creation, so that equal moments run in a defined order
	fn   func()
	dead bool
}

// Stop makes a timer do nothing; a nil timer, one that ran and one that was stopped are allowed.
func (t *Timer) Stop() {
	if t != nil {
		t.dead, t.fn = true, nil
	}
}

// Queue holds timers. The zero value is an empty queue.
type Queue struct {
	heap timerHeap
	seq  uint64
}

// Add has fn run at the moment at, by Due.
func (q *Queue) Add(at time.Time, fn func()) *Timer {
	q.seq++
	t := &Timer{at: at, seq: q.seq, fn: fn}
	heap.Push(&q.heap, t)
	return t
}

// Next returns the moment of the first timer that has not been stopped; false when there is none.
func (q *Queue) Next() (time.Time, bool) {
	for len(q.heap) > 0 && q.heap[0].dead {
		heap.Pop(&q.heap)
	}
	if len(q.heap) == 0 {
		return time.Time{}, false
	}
	return q.heap[0].at, true
}

// Len returns how many timers are still to run.
func (q *Queue) Len() int {
	n := 0
	for _, t := range q.heap {
		if !t.dead {
			n++
		}
	}
	return n
}

// Held returns how many timers are kept, those included that were stopped and not dropped yet.
func (q *Queue) Held() int { return len(q.heap) }

// Due takes the first timer whose moment has come and returns its function; nil when there is none. Those of one moment
// come in the order in which they were added.
func (q *Queue) Due(now time.Time) func() {
	at, any := q.Next()
	if !any || at.After(now) {
		return nil
	}
	return heap.Pop(&q.heap).(*Timer).fn
}

// Shift moves every timer by the same time, which keeps their order.
func (q *Queue) Shift(by time.Duration) {
	for _, t := range q.heap {
		t.at = t.at.Add(by)
	}
}

// Clear forgets every timer; the order of creation goes on.
func (q *Queue) Clear() { q.heap = nil }

type timerHeap []*Timer

func (h timerHeap) Len() int { return len(h) }
func (h timerHeap) Less(i, j int) bool {
	if h[i].at.Equal(h[j].at) {
		return h[i].seq < h[j].seq
	}
	return h[i].at.Before(h[j].at)
}
func (h timerHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *timerHeap) Push(x any)   { *h = append(*h, x.(*Timer)) }
func (h *timerHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return last
}
