package sparkrpc

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"raftmaster/transport/frame"
	"raftmaster/transport/sparkmsg"
)

// Endpoint is one listening address with its connections and outboxes. Its methods are safe for concurrent use.
type Endpoint struct {
	cfg     Config
	limits  Limits
	handler Handler
	ctx     context.Context // ends at Close; carries dials
	cancel  context.CancelFunc
	wg      sync.WaitGroup // connections, writers, dialers, probes, callbacks
	lines   *lineLimiter
	idlers  idlers

	partial atomic.Int64 // bytes of incomplete frames held by all readers
	stats   counters

	mu       sync.Mutex
	closed   bool
	lastConn uint64
	conns    map[uint64]*Conn
	accepted int            // accepted connections among conns
	perHost  map[string]int // accepted connections by remote IP
	peers    map[frame.Address]*peer
	families map[frame.Address]sparkmsg.Family // last known family of peers, for Probe
	seq      uint64                            // outbox sequence, one counter for all peers
	queued   int                               // messages in all outboxes
	dials    dialQueue
	probes   probeQueue
}

// New returns an Endpoint that serves nothing until ServeConn, Send, Ask or Probe is called. The caller must Close it.
func New(cfg Config, h Handler) *Endpoint {
	if cfg.Gate == nil {
		cfg.Gate = func() bool { return true }
	}
	if cfg.Dial == nil {
		cfg.Dial = (&net.Dialer{}).DialContext
	}
	e := &Endpoint{
		cfg: cfg, limits: cfg.Limits.withDefaults(), handler: h, lines: newLineLimiter(),
		conns: map[uint64]*Conn{}, perHost: map[string]int{}, peers: map[frame.Address]*peer{},
		families: map[frame.Address]sparkmsg.Family{},
	}
	e.ctx, e.cancel = context.WithCancel(context.Background())
	e.stats.init()
	return e
}

// Self returns the advertised address.
func (e *Endpoint) Self() frame.Address { return e.cfg.Self }

// ServeConn takes over an accepted connection. It is the connection's reader goroutine until the connection has ended, or
// is idle for the first time: then it returns, nc is closed, and the connection lives on in the Endpoint.
func (e *Endpoint) ServeConn(nc net.Conn) {
	host := remoteHost(nc)
	c, err := e.admit(nc, host)
	if err != nil {
		if nc.Close() != nil {
			e.cfg.Log.Debug("close of a refused connection failed", "remote", host)
		}
		return
	}
	e.run(c)
}

// run prepares the socket and serves the connection, which holds one count of e.wg until its end.
func (e *Endpoint) run(c *Conn) {
	if err := tuneSocket(c.raw, e.limits); err != nil {
		e.cfg.Log.Debug("socket options not set", "conn", c.id, "remote", c.host, "error", err)
	}
	if err := c.handshake(); err != nil {
		c.fail(fmt.Errorf("handshake: %w", err), true)
		e.end(c)
		return
	}
	if err := c.begin(); err != nil {
		_ = c.ended(err)
		e.end(c)
		return
	}
	c.serve()
}

// end reports the end of a connection whose reader has ended.
func (e *Endpoint) end(c *Conn) {
	defer e.wg.Done()
	peer, last, quiet := e.detach(c)
	if !quiet {
		e.handler.Closed(c, peer, last)
	}
}

// admit registers an accepted connection, within the caps.
func (e *Endpoint) admit(nc net.Conn, host string) (*Conn, error) {
	e.mu.Lock()
	var over string
	switch {
	case e.closed:
		e.mu.Unlock()
		return nil, ErrClosed
	case e.accepted >= e.limits.MaxConns:
		over = "total"
	case e.perHost[host] >= e.limits.MaxConnsPerHost:
		over = "host"
	}
	if over != "" {
		e.mu.Unlock()
		e.stats.refused.Add(1)
		if e.lines.allow(host, "cap "+over) {
			e.cfg.Log.Warn("connection refused: too many connections", "remote", host, "cap", over)
		}
		return nil, fmt.Errorf("sparkrpc: connection cap %s", over)
	}
	e.accepted++
	e.perHost[host]++
	c := e.newConnLocked(nc, host)
	c.accepted = true
	e.wg.Add(1)
	e.mu.Unlock()
	e.countConn(1)
	return c, nil
}

func (e *Endpoint) newConnLocked(nc net.Conn, host string) *Conn {
	e.lastConn++
	c := &Conn{e: e, id: e.lastConn, raw: nc, host: host, opened: time.Now()}
	e.conns[c.id] = c
	return c
}

func (e *Endpoint) countConn(delta int) {
	if e.cfg.Metrics.Connections != nil {
		e.cfg.Metrics.Connections(delta)
	}
}

// detach removes a connection whose reader has ended from all tables and fails the asks that were sent on it.
func (e *Endpoint) detach(c *Conn) (peerAddr frame.Address, last, quiet bool) {
	c.Close("connection ended")
	e.mu.Lock()
	delete(e.conns, c.id)
	if c.accepted {
		e.accepted--
		if e.perHost[c.host]--; e.perHost[c.host] == 0 {
			delete(e.perHost, c.host)
		}
	}
	c.detached = true
	if p := c.peer; p != nil {
		peerAddr = p.addr
		last = p.removeConn(c)
		if p.run.conn == c.id {
			e.breakRunLocked(p) // what was written last may be lost with the connection
		}
		e.rememberLocked(peerAddr, c.Families().Lowest())
		e.kickLocked(p)
		e.reapLocked(p)
	}
	asks := c.takeAsksLocked()
	quiet = e.closed
	e.mu.Unlock()
	for _, a := range asks {
		a.finish(nil, ErrConnClosed)
	}
	e.countConn(-1)
	return peerAddr, last, quiet
}

// Close closes every connection, drops every outbox, fails every ask and waits for all goroutines. It must not be
// called from a Handler or from a callback. Closing twice is harmless.
func (e *Endpoint) Close() {
	e.mu.Lock()
	if e.closed {
		e.mu.Unlock()
		e.wg.Wait()
		e.idlers.stop()
		return
	}
	e.closed = true
	e.cancel()
	conns := make([]*Conn, 0, len(e.conns))
	for _, c := range e.conns {
		conns = append(conns, c)
	}
	asks := e.dropAllLocked("closed")
	probes := e.probes.takeAll()
	e.mu.Unlock()
	for _, c := range conns {
		c.Close("endpoint closed")
	}
	for _, a := range asks {
		a.finish(nil, ErrClosed)
	}
	for _, p := range probes {
		p.done(ProbeUnreachable)
	}
	e.wg.Wait()
	e.idlers.stop()
}

// spawnLocked runs f on a goroutine that Close waits for; after Close it does nothing and returns false.
func (e *Endpoint) spawnLocked(f func()) bool {
	if e.closed {
		return false
	}
	e.wg.Go(f)
	return true
}

// Attached reports whether a live connection is known by this address.
func (e *Endpoint) Attached(addr frame.Address) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	p := e.peers[addr]
	return p != nil && p.live() != nil
}

// Queued returns how many messages wait in the outbox of a peer, those being written included.
func (e *Endpoint) Queued(addr frame.Address) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	if p := e.peers[addr]; p != nil {
		return p.q.len()
	}
	return 0
}

// CloseConn closes every connection known by this address; its outbox stays. reason is for the log.
func (e *Endpoint) CloseConn(addr frame.Address, reason string) {
	e.mu.Lock()
	var conns []*Conn
	if p := e.peers[addr]; p != nil {
		conns = append(conns, p.conns...)
	}
	e.mu.Unlock()
	for _, c := range conns {
		c.Close(reason)
	}
}

// remoteHost is the remote IP address, the key of the per-host cap.
func remoteHost(nc net.Conn) string {
	addr := nc.RemoteAddr()
	if addr == nil {
		return "unknown"
	}
	if tcp, ok := addr.(*net.TCPAddr); ok {
		return tcp.IP.String()
	}
	host, _, err := net.SplitHostPort(addr.String())
	if err != nil {
		return addr.String()
	}
	return host
}
