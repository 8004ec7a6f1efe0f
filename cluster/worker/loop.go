package worker

import (
	"sync"
	"time"
)

// maxInbound bounds the messages of peers that wait for the Core: beyond it the readers of connections wait, and so,
// through TCP, do the peers.
const maxInbound = 1024

// loop runs a Core on a goroutine of its own. Its methods may be called from any goroutine.
type loop struct {
	inbound chan func(*Core)
	ended   chan struct{}

	mu       sync.Mutex
	internal []func(*Core) // what processes and the network report: never bounded, because their goroutines must not wait
	running  bool
	wake     chan struct{}
	last     Status // of the end
}

func newLoop() *loop {
	return &loop{inbound: make(chan func(*Core), maxInbound), ended: make(chan struct{}), wake: make(chan struct{}, 1)}
}

// post brings a function onto the Core's goroutine, in order, without waiting. After the end it is not run.
func (l *loop) post(fn func(*Core)) {
	l.mu.Lock()
	l.internal = append(l.internal, fn)
	l.mu.Unlock()
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// take hands what a peer says to the Core, in the order of the calls, and waits while it is busy.
func (l *loop) take(fn func(*Core)) {
	select {
	case l.inbound <- fn:
	case <-l.ended:
	}
}

// run serves until stop is closed. now is the Core's clock.
func (l *loop) run(c *Core, stop <-chan struct{}) {
	l.mu.Lock()
	l.running = true
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		l.running, l.last, l.internal = false, c.Status(), nil
		l.mu.Unlock()
		close(l.ended)
	}()
	idle := time.NewTimer(time.Hour)
	defer idle.Stop()
	for {
		l.runInternal(c)
		c.Tick()
		wait := time.Hour
		if at, ok := c.NextDeadline(); ok {
			wait = max(at.Sub(c.now()), 0)
		}
		idle.Reset(wait)
		select {
		case <-stop:
			return
		case <-l.wake:
		case fn := <-l.inbound:
			fn(c)
		case <-idle.C:
		}
	}
}

// runInternal runs everything that was posted, also what the posted functions post.
func (l *loop) runInternal(c *Core) {
	for {
		l.mu.Lock()
		batch := l.internal
		l.internal = nil
		l.mu.Unlock()
		if len(batch) == 0 {
			return
		}
		for _, fn := range batch {
			fn(c)
		}
	}
}

// ask runs fn on the Core's goroutine and waits for it; false when the loop does not run.
func (l *loop) ask(fn func(*Core)) bool {
	l.mu.Lock()
	running := l.running
	l.mu.Unlock()
	if !running {
		return false
	}
	done := make(chan struct{})
	l.post(func(c *Core) { fn(c); close(done) })
	select {
	case <-done:
		return true
	case <-l.ended:
		return false
	}
}

func (l *loop) status() (s Status) {
	if l.ask(func(c *Core) { s = c.Status() }) {
		return s
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last
}
