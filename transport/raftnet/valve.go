package raftnet

import (
	"context"
	"errors"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// maxHeld is how much of what is written to a shut connection is taken without waiting: about what the kernel's own
// buffer takes while nothing is acknowledged.
const maxHeld = 256 << 10

// Valve holds back traffic as a network does that loses every packet: what is written gets stuck, nothing is read, a
// dial gets no answer, and nobody learns that a connection was closed. Once it is open again everything goes on, late, as
// TCP's repetitions do. It works on the connections that were made through it, and costs an atomic read while it is open.
// A nil *Valve is always open and changes nothing. Its methods may be called from any goroutine.
type Valve struct {
	shut atomic.Bool

	mu      sync.Mutex
	all     bool
	names   []string
	change  chan struct{} // closed when the valve opens, or is shut for others
	orphans []net.Conn    // closed by their owner while shut: their peers must not see it yet
	stopped bool
}

// NewValve makes an open valve.
func NewValve() *Valve { return &Valve{change: make(chan struct{})} }

// Shut holds back the traffic with these masters, by node id or address; without names, all traffic.
func (v *Valve) Shut(names ...string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.stopped {
		return
	}
	v.all, v.names = len(names) == 0, slices.Clone(names)
	v.shut.Store(true)
	v.signal()
}

// Open lets everything pass.
func (v *Valve) Open() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.open()
}

// Stop opens the valve for good: the process ends, and its sockets with it.
func (v *Valve) Stop() {
	if v == nil {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.stopped = true
	v.open()
}

func (v *Valve) open() {
	v.all, v.names = false, nil
	v.shut.Store(false)
	for _, c := range v.orphans {
		_ = c.Close() // its owner has given it up long ago
	}
	v.orphans = nil
	v.signal()
}

func (v *Valve) signal() {
	close(v.change)
	v.change = make(chan struct{})
}

// holds gives a channel that is closed when to ask again, or nil when traffic with that peer passes.
func (v *Valve) holds(names []string) <-chan struct{} {
	if v == nil || !v.shut.Load() {
		return nil
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.meant(names) {
		return v.change
	}
	return nil
}

// meant tells whether traffic with that peer is held back. The caller holds mu.
func (v *Valve) meant(names []string) bool {
	return v.all || slices.ContainsFunc(names, func(n string) bool { return n != "" && slices.Contains(v.names, n) })
}

// WaitDial waits until a dial to the address may begin.
func (v *Valve) WaitDial(ctx context.Context, address string) error {
	for {
		again := v.holds([]string{address})
		if again == nil {
			return nil
		}
		select {
		case <-again:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Wrap brings a connection under the valve; names are those of its peer, as far as they are known.
func (v *Valve) Wrap(c net.Conn, names ...string) net.Conn {
	if v == nil {
		return c
	}
	vc := &valveConn{Conn: c, v: v, done: make(chan struct{})}
	vc.names.Store(&names)
	return vc
}

// Listener brings all connections that a listener accepts under the valve.
func (v *Valve) Listener(ln net.Listener) net.Listener {
	if v == nil {
		return ln
	}
	return &valveListener{ln, v}
}

type valveListener struct {
	net.Listener
	v *Valve
}

func (l *valveListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return l.v.Wrap(c), nil
}

// nameConn says who is at the other end of a connection of Wrap; any other connection is left alone.
func nameConn(c net.Conn, names ...string) {
	for {
		if vc, ok := c.(*valveConn); ok {
			vc.names.Store(&names)
			return
		}
		inner, ok := c.(interface{ NetConn() net.Conn })
		if !ok {
			return
		}
		c = inner.NetConn()
	}
}

// moment is a deadline that others can wait with.
type moment struct {
	mu      sync.Mutex
	at      time.Time
	changed chan struct{}
}

func (m *moment) set(at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.at = at
	if m.changed != nil {
		close(m.changed)
		m.changed = nil
	}
}

func (m *moment) get() (time.Time, <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.changed == nil {
		m.changed = make(chan struct{})
	}
	return m.at, m.changed
}

// valveConn does not show the connection below: whoever reads past it would read past the valve.
type valveConn struct {
	net.Conn
	v     *Valve
	names atomic.Pointer[[]string]

	read, write moment
	once        sync.Once
	done        chan struct{}
	closeErr    error

	readMu  sync.Mutex
	rest    []byte // read while the valve was shut
	restErr error

	writeMu sync.Mutex
	held    []byte // written while the valve was shut
}

// wait returns when the traffic of this connection passes, at the deadline, or when the connection is closed.
func (c *valveConn) wait(m *moment) error {
	for {
		again := c.v.holds(*c.names.Load())
		if again == nil {
			return nil
		}
		at, changed := m.get()
		var late <-chan time.Time
		if !at.IsZero() {
			left := time.Until(at)
			if left <= 0 {
				return os.ErrDeadlineExceeded
			}
			timer := time.NewTimer(left)
			defer timer.Stop() // a few at most: deadlines change seldom
			late = timer.C
		}
		select {
		case <-again:
		case <-changed:
		case <-late:
			return os.ErrDeadlineExceeded
		case <-c.done:
			return net.ErrClosed
		}
	}
}

// Read implements net.Conn. What arrives while the valve is shut, the end of the connection included, waits for it to
// open.
func (c *valveConn) Read(p []byte) (int, error) {
	c.readMu.Lock()
	defer c.readMu.Unlock()
	if err := c.wait(&c.read); err != nil {
		return 0, err
	}
	if len(c.rest) > 0 || c.restErr != nil {
		n := copy(p, c.rest)
		c.rest = c.rest[n:]
		if len(c.rest) > 0 || c.restErr == nil {
			return n, nil
		}
		err := c.restErr
		c.restErr = nil
		return n, err
	}
	n, err := c.Conn.Read(p)
	select {
	case <-c.done:
		return 0, net.ErrClosed
	default:
	}
	if c.v.holds(*c.names.Load()) == nil || errors.Is(err, net.ErrClosed) || isDeadline(err) {
		return n, err
	}
	if werr := c.wait(&c.read); werr != nil {
		c.rest, c.restErr = append(c.rest, p[:n]...), err
		return 0, werr
	}
	return n, err
}

func isDeadline(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }

// Write implements net.Conn.
func (c *valveConn) Write(p []byte) (int, error) {
	c.writeMu.Lock()
	defer c.writeMu.Unlock()
	if c.v.holds(*c.names.Load()) != nil {
		if len(c.held)+len(p) <= maxHeld {
			if len(c.held) == 0 {
				go c.flushWhenOpen()
			}
			c.held = append(c.held, p...)
			return len(p), nil
		}
		if err := c.wait(&c.write); err != nil {
			return 0, err
		}
	}
	if err := c.flush(); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}

// flush writes what was held back. The caller holds writeMu.
func (c *valveConn) flush() error {
	if len(c.held) == 0 {
		return nil
	}
	held := c.held
	c.held = nil
	_, err := c.Conn.Write(held)
	return err
}

// flushWhenOpen ends when the valve opens or the connection is closed.
func (c *valveConn) flushWhenOpen() {
	var never moment
	if c.wait(&never) != nil {
		return
	}
	c.writeMu.Lock()
	defer c.writeMu.Unlock()
	if err := c.flush(); err != nil {
		_ = c.Conn.Close() // its reader reports the end
	}
}

// SetDeadline implements net.Conn.
func (c *valveConn) SetDeadline(t time.Time) error {
	c.read.set(t)
	c.write.set(t)
	return c.Conn.SetDeadline(t)
}

// SetReadDeadline implements net.Conn.
func (c *valveConn) SetReadDeadline(t time.Time) error {
	c.read.set(t)
	return c.Conn.SetReadDeadline(t)
}

// SetWriteDeadline implements net.Conn.
func (c *valveConn) SetWriteDeadline(t time.Time) error {
	c.write.set(t)
	return c.Conn.SetWriteDeadline(t)
}

// Close implements net.Conn. While the valve is shut the peer does not see it.
func (c *valveConn) Close() error {
	c.once.Do(func() {
		close(c.done)
		if c.v.orphan(c) {
			c.closeErr = c.Conn.SetDeadline(time.Unix(1, 0)) // wakes a reader
			return
		}
		c.closeErr = c.Conn.Close()
	})
	return c.closeErr
}

// orphan takes over a connection whose end must not be seen yet.
func (v *Valve) orphan(c *valveConn) bool {
	if !v.shut.Load() {
		return false
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.shut.Load() || !v.meant(*c.names.Load()) {
		return false
	}
	v.orphans = append(v.orphans, c.Conn)
	return true
}
