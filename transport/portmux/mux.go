package portmux

import (
	"container/list"
	"errors"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
)

// First bytes. Spark's RPC frames begin with the high byte of an 8-byte length (TransportFrameDecoder), which is zero
// for every length that is accepted; TLS records of a handshake begin with 0x16.
const (
	// Magic begins every connection between masters. It is no start of UTF-8 text, HTTP, TLS or a Spark frame.
	Magic byte = 0xA7

	firstSpark byte = 0x00
	firstTLS   byte = 0x16
)

// Limits of connections that have not said yet who they are.
const (
	// HeaderTimeout is how long a connection may stay silent before its first byte.
	HeaderTimeout = 10 * time.Second
	// MaxUnidentified bounds connections without a first byte. One more closes the oldest of them: who means well speaks
	// at once, so that the oldest is the least likely to.
	MaxUnidentified = 1024
	// MaxUnidentifiedPerIP bounds those of one remote address; one more closes the oldest of that address.
	MaxUnidentifiedPerIP = 64
	// acceptBackoffMax bounds the pause after a failing accept (out of file descriptors, above all).
	acceptBackoffMax = 500 * time.Millisecond
)

// Handlers take over identified connections, each on its own goroutine. A handler owns its connection and must see to
// its closing; it may return before that. No byte has been consumed.
type Handlers struct {
	Spark    func(net.Conn)
	Internal func(net.Conn)
	// HTTPHint returns the URL that a browser on this port should have used; nil or "" gives a general answer.
	HTTPHint func() string
	// Preferred tells whether an address (never an IPv4 one in IPv6 clothes) belongs to a master of the cluster list:
	// its silent connections are not closed to make room as long as there is one of a stranger. nil: nobody is
	// preferred. It is called for each connection before the next is accepted and must not block.
	Preferred func(ip netip.Addr) bool
}

// Mux accepts connections on the cluster port and hands them to whom they are for.
type Mux struct {
	ln       net.Listener
	handlers Handlers
	log      hclog.Logger
	noise    noiseLimiter

	mu      sync.Mutex
	conns   map[*conn]struct{}
	silent  list.List // of *conn without a first byte, the oldest first
	perIP   map[netip.Addr]int
	closed  bool
	dropped atomic.Uint64

	done sync.WaitGroup
}

// Serve starts to accept on ln, which the Mux owns from now on.
func Serve(ln net.Listener, h Handlers, log hclog.Logger) *Mux {
	m := newMux(h, log)
	m.ln = ln
	m.done.Add(1)
	go m.accept()
	return m
}

func newMux(h Handlers, log hclog.Logger) *Mux {
	return &Mux{handlers: h, log: log, conns: make(map[*conn]struct{}), perIP: make(map[netip.Addr]int)}
}

// Dropped is how many connections have been closed so far to bound those without a first byte.
func (m *Mux) Dropped() uint64 { return m.dropped.Load() }

// Addr is the address that the port is bound to.
func (m *Mux) Addr() net.Addr { return m.ln.Addr() }

// CloseListener stops accepting, so that whoever dials is refused; connections stay.
func (m *Mux) CloseListener() error {
	err := m.ln.Close()
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// Close stops accepting, closes every connection whatever its handler is doing, and waits for the handlers.
func (m *Mux) Close() error {
	err := m.CloseListener()
	m.mu.Lock()
	m.closed = true
	open := make([]*conn, 0, len(m.conns))
	for c := range m.conns {
		open = append(open, c)
	}
	m.mu.Unlock()
	for _, c := range open {
		_ = c.Close() // its user learns about it from its own reads and writes
	}
	m.done.Wait()
	return err
}

func (m *Mux) accept() {
	defer m.done.Done()
	var backoff time.Duration
	for {
		nc, err := m.ln.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return
			}
			backoff = min(max(2*backoff, 5*time.Millisecond), acceptBackoffMax)
			if m.noise.allow("accept") {
				m.log.Error("cannot accept connections on the cluster port", "error", err, "retry_in", backoff)
			}
			time.Sleep(backoff)
			continue
		}
		backoff = 0
		c, ok := m.track(nc)
		if !ok {
			_ = nc.Close()
			continue
		}
		go m.serve(c)
	}
}

func (m *Mux) forget(c *conn) {
	m.mu.Lock()
	delete(m.conns, c)
	m.mu.Unlock()
}

func (m *Mux) serve(c *conn) {
	defer m.done.Done()
	first, err := c.peek(HeaderTimeout)
	if !m.identified(c) && err == nil {
		err = errDropped
	}
	if err != nil {
		// Port scanners and health checks of load balancers do this all day.
		m.log.Debug("connection closed before its first byte", "remote", c.RemoteAddr().String(), "error", err)
		_ = c.Close()
		return
	}
	switch {
	case first == firstSpark:
		m.handlers.Spark(c)
	case first == Magic:
		m.handlers.Internal(c)
	case isHTTPVerb(first):
		m.answerHTTP(c)
	case first == firstTLS:
		m.refuse(c, "tls", "TLS was offered on the cluster port, but TLS for Spark's RPC (spark.ssl.rpc.enabled) is not supported yet: turn it off at the peer")
	default:
		m.refuse(c, "unknown", "connection with an unknown first byte: neither Spark's RPC nor a master")
	}
}

func (m *Mux) refuse(c *conn, class, why string) {
	host, _, err := net.SplitHostPort(c.RemoteAddr().String())
	if err != nil {
		host = c.RemoteAddr().String()
	}
	if m.noise.allow(class + " " + host) {
		m.log.Warn("connection refused", "remote", c.RemoteAddr().String(), "reason", why)
	}
	_ = c.Close()
}
