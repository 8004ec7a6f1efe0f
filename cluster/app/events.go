package app

import "sync"

// eventQueue hands events to a callback in order, on one goroutine, and keeps at most size of them for it.
type eventQueue struct {
	call func(Event)
	size int

	mu     sync.Mutex
	list   []Event
	closed bool
	wake   chan struct{} // holds one token while there is something to do
	done   chan struct{}
}

func newEventQueue(size int, call func(Event)) *eventQueue {
	q := &eventQueue{call: call, size: size, wake: make(chan struct{}, 1), done: make(chan struct{})}
	if call == nil {
		close(q.done)
		return q
	}
	go q.run()
	return q
}

// add never blocks. When the queue is full its oldest event goes, counted in the one after it.
func (q *eventQueue) add(e Event) {
	if q.call == nil {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return
	}
	if len(q.list) >= q.size {
		lost := q.list[0].Lost + 1
		q.list = append(q.list[:0], q.list[1:]...)
		if len(q.list) > 0 {
			q.list[0].Lost += lost
		} else {
			e.Lost += lost
		}
	}
	q.list = append(q.list, e)
	q.poke()
}

func (q *eventQueue) poke() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

func (q *eventQueue) run() {
	defer close(q.done)
	for range q.wake {
		for {
			q.mu.Lock()
			list := q.list
			q.list = nil
			closed := q.closed
			q.mu.Unlock()
			for _, e := range list {
				q.call(e)
			}
			if len(list) == 0 {
				if closed {
					return
				}
				break
			}
		}
	}
}

// close delivers what waits and then ends the goroutine.
func (q *eventQueue) close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	if q.call != nil {
		q.poke()
	}
	<-q.done
}
