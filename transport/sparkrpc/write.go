package sparkrpc

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"raftmaster/transport/frame"
	"raftmaster/transport/sparkmsg"
)

var errReplyQueue = errors.New("sparkrpc: peer does not read its answers")

const (
	maxBatchMessages = 128
	firstBatch       = 4 << 10     // bytes of a new buffer
	hurryTime        = time.Second // what a writer gets when a newer connection waits for the outbox
)

// batch is a writer's scratch memory.
type batch struct {
	buf   []byte
	ends  []int // ends of the frames in buf
	items []push
	marks []mark
}

// mark says what became of one message of a batch.
type mark struct {
	start, end int // in buf; equal when the message is skipped
	id         int64
	err        error // why it could not be encoded
}

var batches = sync.Pool{New: func() any { return &batch{buf: make([]byte, 0, firstBatch)} }}

func (b *batch) reset() {
	clear(b.items)
	b.buf, b.ends, b.items, b.marks = b.buf[:0], b.ends[:0], b.items[:0], b.marks[:0]
}

func (b *batch) release() {
	b.reset()
	if cap(b.buf) <= 4*maxBatch {
		batches.Put(b)
	}
}

// write is the writer goroutine: it runs while there is something to write.
func (c *Conn) write() {
	b := batches.Get().(*batch)
	defer b.release()
	for {
		b.reset()
		c.e.mu.Lock()
		switch {
		case c.closed.Load():
			c.direct, c.directSize = nil, 0
			c.writing = false
			c.e.mu.Unlock()
			return
		case len(c.direct) > 0:
			frames := c.direct
			c.direct, c.directSize = nil, 0
			c.e.mu.Unlock()
			c.writeDirect(b, frames)
		case c.hasPushesLocked():
			p := c.peer
			b.items = p.q.first(b.items, maxBatchMessages)
			p.busy, p.held = c, len(b.items)
			epoch := p.epoch.Load()
			c.e.mu.Unlock()
			c.writePushes(b, p, epoch)
		default:
			c.writing = false
			c.e.mu.Unlock()
			return
		}
	}
}

// writeDirect writes encoded frames.
func (c *Conn) writeDirect(b *batch, frames [][]byte) {
	always := func() bool { return true }
	for i, f := range frames {
		b.buf = append(b.buf, f...)
		b.ends = append(b.ends, len(b.buf))
		if len(b.buf) < maxBatch && i < len(frames)-1 {
			continue
		}
		if _, err := c.flush(b, always); err != nil {
			c.fail(fmt.Errorf("write: %w", err), false)
			return
		}
		c.countOut(len(b.ends))
		b.buf, b.ends = b.buf[:0], b.ends[:0]
	}
}

// flush writes the buffer. n is how far the connection has got, counting a frame whose fate is unknown as written.
func (c *Conn) flush(b *batch, allowed func() bool) (n int, err error) {
	if len(b.buf) == 0 {
		return 0, nil
	}
	if err := c.nc.SetWriteDeadline(time.Now().Add(c.e.limits.Write)); err != nil {
		return 0, err
	}
	return c.sock.write(b.buf, b.ends, allowed)
}

func (c *Conn) countOut(n int) {
	c.e.stats.framesOut.Add(uint64(n))
	if c.e.cfg.Metrics.FrameOut != nil {
		for range n {
			c.e.cfg.Metrics.FrameOut()
		}
	}
}

// hurry gives a write that may be stuck little more time.
func (c *Conn) hurry() {
	c.e.mu.Lock()
	nc := c.nc
	c.e.mu.Unlock()
	if c.closed.Load() || nc == nil {
		return
	}
	if err := nc.SetWriteDeadline(time.Now().Add(hurryTime)); err != nil {
		c.e.cfg.Log.Debug("write deadline not set", "conn", c.id, "error", err)
	}
}

// writePushes writes the head of an outbox, which it holds (peer.busy).
func (c *Conn) writePushes(b *batch, p *peer, epoch uint64) {
	c.encode(b, p)
	c.e.mu.Lock()
	follow := p.run
	first := uint64(0)
	for i, m := range b.marks {
		if m.end == m.start {
			follow.broken = follow.broken || m.err != nil
			continue
		}
		it := &b.items[i]
		if it.ask != nil {
			it.ask.moved = follow.ask(c.id)
			c.registerLocked(it.ask, m.id)
		} else {
			follow.push(c.id)
		}
		if first == 0 {
			first = it.seq
		}
		c.lastSeq = it.seq
	}
	if first != 0 && (p.lastConn != c || c.firstSeq == 0) {
		p.lastConn, c.firstSeq = c, first
	}
	c.e.mu.Unlock()
	n, err := c.flush(b, func() bool { return p.epoch.Load() == epoch && c.e.cfg.Gate() })
	if err != nil && !errors.Is(err, errGate) {
		c.fail(fmt.Errorf("write: %w", err), false)
	}
	c.written(b, p, epoch, n, err)
}

// encode turns messages into frames until the batch is full.
func (c *Conn) encode(b *batch, p *peer) {
	for i := range b.items {
		it := &b.items[i]
		m := mark{start: len(b.buf), end: len(b.buf)}
		if it.ask == nil || !it.ask.finished.Load() {
			m.id, m.err = c.e.appendPush(b, p, it)
			if m.end = len(b.buf); m.end > m.start {
				b.ends = append(b.ends, m.end)
			}
		}
		b.marks = append(b.marks, m)
		if len(b.buf) >= maxBatch {
			return
		}
	}
}

// appendPush appends the frame of a message to a batch; after an error the batch is as it was. id is that of an ask.
func (e *Endpoint) appendPush(b *batch, p *peer, it *push) (id int64, err error) {
	t := frame.OneWayMessage
	if it.ask != nil {
		t, id = frame.RPCRequest, requestID()
	}
	start := len(b.buf)
	head := frame.BeginRequest(b.buf, t, id, frame.Request{Sender: &e.cfg.Self, Receiver: &p.addr, Endpoint: it.endpoint})
	buf, err := sparkmsg.Append(head, it.msg, it.fam)
	if err != nil {
		b.buf = head[:start]
		return 0, err
	}
	frame.EndRequest(buf, start)
	b.buf = buf
	return id, nil
}

// written takes from the outbox what was handed to the connection, and lets go of the rest. A message of which one byte
// was written has left the outbox for ever.
func (c *Conn) written(b *batch, p *peer, epoch uint64, n int, err error) {
	e := c.e
	var lost, dropped []*ask // asks on a dead connection, asks never written
	out, bad := 0, 0
	partial := false
	e.mu.Lock()
	gone := 0
	for i, m := range b.marks {
		it := &b.items[i]
		if m.end > m.start {
			if m.start >= n {
				break
			}
			out++
			partial = n < m.end
			if it.ask != nil {
				p.run.ask(c.id)
			} else {
				p.run.push(c.id)
			}
		} else if m.err != nil {
			bad++
			e.breakRunLocked(p)
		}
		gone++
	}
	for i := range b.items[:len(b.marks)] {
		if a := b.items[i].ask; a != nil && a.conn == c && (i >= gone || c.detached) {
			a.forgetLocked()
			if i < gone {
				lost = append(lost, a)
			}
		}
	}
	for range gone {
		e.popLocked(p)
	}
	if c.detached && p.run.conn == c.id {
		e.breakRunLocked(p)
	}
	p.busy = nil
	p.held -= gone
	if p.epoch.Load() != epoch || errors.Is(err, errGate) {
		dropped = e.dropHeldLocked(p, p.epoch.Load() == epoch)
	}
	p.held = 0
	e.finishLaterLocked(lost, ErrConnClosed)
	e.finishLaterLocked(dropped, ErrDropped)
	e.mu.Unlock()
	c.afterWrite(b, out, bad, gone)
	if partial && err != nil {
		c.Close("a message was cut short: " + err.Error())
	}
	e.mu.Lock()
	e.kickLocked(p)
	e.reapLocked(p)
	e.mu.Unlock()
}

// afterWrite counts, and ends the asks that could not be encoded.
func (c *Conn) afterWrite(b *batch, out, bad, gone int) {
	c.countOut(out)
	c.e.countDropped("encode", bad)
	for i, m := range b.marks[:gone] {
		if m.err != nil {
			c.e.encodeFailed(b.items[i].msg, b.items[i].fam, m.err)
			if a := b.items[i].ask; a != nil {
				a.finish(nil, m.err)
			}
		}
	}
}

func (e *Endpoint) popLocked(p *peer) push {
	m := p.q.popFront()
	p.bytes -= int(m.weight)
	e.queued--
	return m
}

// dropHeldLocked drops what a writer held and did not write; with gate, because the lease has ended, all the rest too.
func (e *Endpoint) dropHeldLocked(p *peer, gate bool) []*ask {
	var asks []*ask
	n := 0
	for ; p.held > 0; p.held-- {
		if m := e.popLocked(p); m.ask != nil {
			asks = append(asks, m.ask)
		}
		n++
	}
	reason := "stepdown"
	if gate {
		reason = "gate"
	}
	if n > 0 {
		e.breakRunLocked(p)
	}
	e.countDropped(reason, n)
	if gate {
		asks = append(asks, e.dropLocked(p, reason)...)
	}
	return asks
}
