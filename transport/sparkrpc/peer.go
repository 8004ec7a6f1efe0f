package sparkrpc

import (
	"sync/atomic"
	"time"

	"raftmaster/transport/frame"
	"raftmaster/transport/sparkmsg"
)

const (
	// maxFamilies bounds the memory of which family a peer has.
	maxFamilies = 1 << 16
	// gapMemory is how long a peer without connection and queue is kept because part of its outbox was dropped: an
	// ask that follows must not look like a receipt.
	gapMemory = time.Minute
)

// peer is one advertised address: its connections and its outbox. Guarded by Endpoint.mu but for the epoch.
type peer struct {
	addr  frame.Address
	conns []*Conn // in the order in which they were named
	q     pushQueue
	bytes int // weights in q

	busy  *Conn // the connection whose writer holds the first held messages of q
	held  int
	epoch atomic.Uint64 // raised when the queue is dropped: what a writer holds must not be written any more

	lastConn *Conn // where the outbox was last written
	run      run
	keep     bool // a timer will reap the peer: its run is broken

	asks    atomic.Int32 // our asks without an outcome
	dialing bool         // in the dial queue, being dialled, or pausing between dials
	since   time.Time    // start of the present series of failed dials
	fails   int
	absent  bool // every dial of the series was refused
}

// run follows which connection carried the pushes since the last ask.
type run struct {
	conn   uint64 // 0: no push since the last ask
	broken bool   // a push was dropped or went another way
}

// push notes a push written on connection id.
func (r *run) push(id uint64) {
	if r.conn != 0 && r.conn != id {
		r.broken = true
	}
	r.conn = id
}

// ask notes an ask written on connection id, and reports whether a push since the ask before went another way.
func (r *run) ask(id uint64) (moved bool) {
	moved = r.broken || r.conn != 0 && r.conn != id
	*r = run{}
	return moved
}

// live returns the connection for pushes: the one named last that is not closed.
func (p *peer) live() *Conn {
	for i := len(p.conns) - 1; i >= 0; i-- {
		if !p.conns[i].closed.Load() {
			return p.conns[i]
		}
	}
	return nil
}

// removeConn forgets a connection and reports whether it was the last one.
func (p *peer) removeConn(c *Conn) (last bool) {
	for i, other := range p.conns {
		if other == c {
			p.conns = append(p.conns[:i], p.conns[i+1:]...)
			break
		}
	}
	if p.lastConn == c {
		p.lastConn = nil
	}
	return p.live() == nil
}

func (e *Endpoint) peerLocked(addr frame.Address) *peer {
	p := e.peers[addr]
	if p == nil {
		p = &peer{addr: addr}
		e.peers[addr] = p
	}
	return p
}

// reapLocked forgets a peer of which nothing is left.
func (e *Endpoint) reapLocked(p *peer) {
	if len(p.conns) == 0 && p.q.len() == 0 && !p.dialing && p.busy == nil && !p.keep && e.peers[p.addr] == p {
		delete(e.peers, p.addr)
	}
}

// breakRunLocked makes the next ask to a peer no receipt, even when the peer is forgotten meanwhile.
func (e *Endpoint) breakRunLocked(p *peer) {
	p.run.broken = true
	if p.keep || e.closed {
		return
	}
	p.keep = true
	time.AfterFunc(gapMemory, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		p.keep = false
		e.reapLocked(p)
	})
}

// name makes a connection known by the sender address of its frames. Reader goroutine of c only.
func (e *Endpoint) name(c *Conn, addr frame.Address) {
	if c.sender == addr {
		return
	}
	c.sender = addr
	if addr.Host == "" || addr.Port <= 0 || addr.Port > 1<<16-1 || addr == e.cfg.Self {
		return
	}
	e.mu.Lock()
	if c.peer != nil || e.closed {
		// The first name stays: it is where this connection's end is expected to be noticed.
		e.mu.Unlock()
		return
	}
	p := e.peerLocked(addr)
	stuck := e.attachLocked(c, p)
	e.kickLocked(p)
	e.mu.Unlock()
	if stuck != nil {
		stuck.hurry()
	}
}

// attachLocked adds a connection to a peer as the one to use from now on. It returns the connection that is just
// writing the outbox, if any.
func (e *Endpoint) attachLocked(c *Conn, p *peer) (writing *Conn) {
	c.peer = p
	p.conns = append(p.conns, c)
	p.since, p.fails = time.Time{}, 0
	return p.busy
}

// rememberLocked keeps the family of a peer for later probes.
func (e *Endpoint) rememberLocked(addr frame.Address, fam sparkmsg.Family) {
	if fam == sparkmsg.FamilyUnknown {
		return
	}
	if _, ok := e.families[addr]; !ok && len(e.families) >= maxFamilies {
		clear(e.families)
	}
	e.families[addr] = fam
}

// kickLocked sets in motion what an outbox with messages needs: a writer or a dial.
func (e *Endpoint) kickLocked(p *peer) {
	if p.q.len() == 0 {
		return
	}
	if c := p.live(); c != nil {
		e.kickConnLocked(c)
		return
	}
	e.dialLocked(p)
}

// kickConnLocked starts the writer of a connection that has something to write.
func (e *Endpoint) kickConnLocked(c *Conn) {
	switch {
	case !c.hasWorkLocked():
	case c.ready && !c.writing:
		c.writing = e.spawnLocked(c.write)
	case !c.ready:
		e.wakeLocked(c) // if it is idle; it comes back here
	}
}

func (c *Conn) hasWorkLocked() bool { return len(c.direct) > 0 || c.hasPushesLocked() }

func (c *Conn) hasPushesLocked() bool {
	p := c.peer
	return p != nil && p.busy == nil && p.q.len() > 0 && p.live() == c
}

// dropLocked drops what is queued for a peer, but for the messages that a writer holds: those it finds out about by
// the epoch. It returns the asks among the dropped.
func (e *Endpoint) dropLocked(p *peer, reason string) []*ask {
	p.epoch.Add(1)
	if p.q.len() == 0 {
		return nil
	}
	e.breakRunLocked(p)
	var asks []*ask
	n := 0
	for p.q.len() > p.held {
		m := p.q.popBack()
		p.bytes -= int(m.weight)
		e.queued--
		n++
		if m.ask != nil {
			asks = append(asks, m.ask)
		}
	}
	e.countDropped(reason, n)
	return asks
}

func (e *Endpoint) dropAllLocked(reason string) []*ask {
	var asks []*ask
	for _, p := range e.peers {
		asks = append(asks, e.dropLocked(p, reason)...)
		e.reapLocked(p)
	}
	return asks
}

// DropOutboxes drops everything that is queued for all peers; connections stay. To be called at step-down.
func (e *Endpoint) DropOutboxes() {
	e.mu.Lock()
	asks := e.dropAllLocked("stepdown")
	e.finishLaterLocked(asks, ErrDropped)
	e.mu.Unlock()
}

// finishLaterLocked ends asks on a goroutine of its own, so that no callback runs inside a call of the leader.
func (e *Endpoint) finishLaterLocked(asks []*ask, err error) {
	if len(asks) == 0 {
		return
	}
	finish := func() {
		for _, a := range asks {
			a.finish(nil, err)
		}
	}
	if !e.spawnLocked(finish) {
		go finish()
	}
}
