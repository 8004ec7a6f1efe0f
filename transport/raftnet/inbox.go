package raftnet

import (
	"net"
	"sync"
)

// Inbox takes internal connections from the port before there is a node to serve them: the port must be open early, so
// that nobody takes a starting master for a dead one.
type Inbox struct {
	mu      sync.Mutex
	serve   func(net.Conn)
	waiting []net.Conn
	closed  bool
}

// NewInbox makes an empty Inbox.
func NewInbox() *Inbox { return &Inbox{} }

// Handle is the handler for portmux. It returns when the connection has been served, or has been put aside. One too many
// closes the one that waits longest: its caller is the first to have given up.
func (i *Inbox) Handle(c net.Conn) {
	i.mu.Lock()
	serve := i.serve
	switch {
	case i.closed:
		i.mu.Unlock()
		_ = c.Close() // nobody is there to tell
		return
	case serve == nil:
		var oldest net.Conn
		if len(i.waiting) >= maxWaiting {
			oldest = i.waiting[0]
			i.waiting = i.waiting[1:]
		}
		i.waiting = append(i.waiting, c)
		i.mu.Unlock()
		if oldest != nil {
			_ = oldest.Close() // never read, nothing to lose
		}
		return
	}
	i.mu.Unlock()
	serve(c)
}

// Serve gives all connections, those that wait first, to the function, each on its own goroutine. It may be called once.
func (i *Inbox) Serve(serve func(net.Conn)) {
	i.mu.Lock()
	waiting := i.waiting
	i.serve, i.waiting = serve, nil
	i.mu.Unlock()
	for _, c := range waiting {
		go serve(c)
	}
}

// Close closes what waits, and whatever comes later.
func (i *Inbox) Close() {
	i.mu.Lock()
	waiting := i.waiting
	i.closed, i.waiting = true, nil
	i.mu.Unlock()
	for _, c := range waiting {
		_ = c.Close() // never read, nothing to lose
	}
}
