package sparkrpc

import (
	"net"
	"sync/atomic"
	"time"

	"raftmaster/transport/frame"
	"raftmaster/transport/sparkmsg"
)

// Conn is one connection of an Endpoint, accepted or dialled. Its methods are safe for concurrent use and do not block.
type Conn struct {
	e        *Endpoint
	id       uint64
	host     string // remote IP address
	opened   time.Time
	accepted bool
	sender   frame.Address // the sender named last; reader goroutine only
	last     *repeat       // the heartbeat that came last; reader goroutine only
	settled  bool          // it came last of all; reader goroutine only
	in       *connReader   // reader goroutine only
	frames   *frame.Reader // on in
	shortcut atomic.Pointer[shortcut]

	trusted  atomic.Bool
	closed   atomic.Bool
	families atomic.Uint32 // sparkmsg.FamilySet; 0 until the first message was decoded
	open     atomic.Int64  // requests of the peer that the Handler has not answered

	// Set by handshake, rest and resume, under e.mu and while no writer runs. The reader and the writer use them.
	raw  net.Conn // what was accepted or dialled; nil while the connection is idle
	nc   net.Conn // raw with the layers of Config.Wrap; nil before handshake, and while the connection is idle
	sock socket   // output; likewise

	// Guarded by e.mu.
	idle       *idler // what waits for it when it has no reader goroutine
	ready      bool   // the layers are up, and it is not idle: writers may run
	detached   bool
	peer       *peer          // nil until the connection is named
	writing    bool           // a writer goroutine runs
	direct     [][]byte       // encoded frames for this very connection: answers, Push, Ask; not gated
	directSize int            // bytes in direct
	asks       map[int64]*ask // our asks that were written, by request id
	firstSeq   uint64         // first push of the unbroken run written here, 0 when none
	lastSeq    uint64         // last push written here
}

// ID returns the connection's number, unique within the Endpoint's life and rising with time.
func (c *Conn) ID() uint64 { return c.id }

// RemoteHost returns the remote IP address, for logs.
func (c *Conn) RemoteHost() string { return c.host }

// PeerAddress returns the listening address by which the connection is known; false while the peer has named none.
func (c *Conn) PeerAddress() (frame.Address, bool) {
	c.e.mu.Lock()
	defer c.e.mu.Unlock()
	if c.peer == nil {
		return frame.Address{}, false
	}
	return c.peer.addr, true
}

// Families returns what the messages received so far leave possible; empty before the first.
func (c *Conn) Families() sparkmsg.FamilySet { return sparkmsg.FamilySet(c.families.Load()) }

// SetTrusted raises the frame limit from Limits.MaxFrame to Limits.MaxTrustedFrame, from the next frame on. To be
// called when the peer has registered; connections that were dialled begin so.
func (c *Conn) SetTrusted() { c.trusted.Store(true) }

// Outbox returns which pushes of the peer's outbox were written on this connection: all with first <= sequence <= last,
// with none on another connection in between. Zero, zero when none was. A message received on this connection that
// answers push s says something about an earlier push l only if first <= l < s.
func (c *Conn) Outbox() (first, last uint64) {
	c.e.mu.Lock()
	defer c.e.mu.Unlock()
	return c.firstSeq, c.lastSeq
}

// Close closes the connection. Handler.Closed follows on the reader goroutine. reason is for the log; closing a closed
// connection does nothing.
func (c *Conn) Close(reason string) {
	if c.closed.Swap(true) {
		return
	}
	c.e.cfg.Log.Debug("closing connection", "conn", c.id, "remote", c.host, "reason", reason)
	c.e.mu.Lock()
	raw, layers := c.raw, c.nc
	c.e.wakeLocked(c)
	c.e.mu.Unlock()
	if raw == nil {
		return // the goroutine that it gets now closes it
	}
	err := raw.Close() // first, so that no layer waits to say goodbye
	if layers != nil && layers != raw {
		_ = layers.Close() // releases what the layers hold; the socket is closed already
	}
	if err != nil {
		c.e.cfg.Log.Debug("close failed", "conn", c.id, "remote", c.host, "error", err)
	}
}

// fail closes the connection for an error. bad tells that the peer is to blame for it: counted, and one log line.
func (c *Conn) fail(err error, bad bool) {
	if bad && !c.closed.Load() {
		c.e.stats.badFrames.Add(1)
		if c.e.lines.allow(c.host, "connection") {
			addr, _ := c.PeerAddress()
			c.e.cfg.Log.Warn("closing connection of a peer", "remote", c.host, "peer", addr, "conn", c.id, "error", err)
		}
	}
	c.Close(err.Error())
}

// handshake puts the configured layers on the connection and then lets its writer run.
func (c *Conn) handshake() error {
	nc := c.raw
	if c.e.cfg.Wrap != nil {
		if err := c.raw.SetDeadline(c.opened.Add(c.e.limits.FirstFrame)); err != nil {
			return err
		}
		wrapped, err := c.e.cfg.Wrap(c.raw)
		if err != nil {
			return err
		}
		if err := wrapped.SetDeadline(time.Time{}); err != nil {
			return err
		}
		nc = wrapped
	}
	c.e.mu.Lock()
	c.nc, c.sock = nc, newSocket(nc, c.e.cfg.Wrap == nil)
	c.ready = true
	c.e.kickConnLocked(c)
	c.e.mu.Unlock()
	if c.closed.Load() && nc != c.raw {
		return nc.Close() // closed before the layers were known
	}
	return nil
}
