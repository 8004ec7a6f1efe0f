package sparkpeer

import (
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Faults are switches that act on all connections of a peer, at once. They are safe for concurrent use.
type Faults struct {
	// Mute discards what the peer writes: it receives and acts, and nobody hears of it.
	Mute atomic.Bool
	// Frozen stops reading and discards writes, as a stopped process with full buffers.
	Frozen atomic.Bool
	// ReadRate limits reading to so many bytes a second for each connection; 0 is unlimited.
	ReadRate atomic.Int64
}

type faults struct{ Faults }

func (f *faults) wrap(nc net.Conn) (net.Conn, error) {
	return &faultConn{Conn: nc, f: &f.Faults, closed: make(chan struct{})}, nil
}

// faultConn obeys the switches.
type faultConn struct {
	net.Conn
	f      *Faults
	once   sync.Once
	closed chan struct{}
}

// NetConn gives access to the socket for its options.
func (c *faultConn) NetConn() net.Conn { return c.Conn }

func (c *faultConn) Read(p []byte) (int, error) {
	for c.f.Frozen.Load() {
		if !c.pause(10 * time.Millisecond) {
			return 0, net.ErrClosed
		}
	}
	rate := c.f.ReadRate.Load()
	if rate <= 0 {
		return c.Conn.Read(p)
	}
	if n := max(1, int(rate/50)); len(p) > n {
		p = p[:n]
	}
	n, err := c.Conn.Read(p)
	if err == nil && !c.pause(time.Duration(n)*time.Second/time.Duration(rate)) {
		return n, net.ErrClosed
	}
	return n, err
}

func (c *faultConn) Write(p []byte) (int, error) {
	if c.f.Mute.Load() || c.f.Frozen.Load() {
		select {
		case <-c.closed:
			return 0, net.ErrClosed
		default:
			return len(p), nil
		}
	}
	return c.Conn.Write(p)
}

// pause waits unless the connection is closed meanwhile.
func (c *faultConn) pause(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-c.closed:
		return false
	}
}

func (c *faultConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}
