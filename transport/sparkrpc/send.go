package sparkrpc

import (
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"raftmaster/transport/frame"
	"raftmaster/transport/sparkmsg"
)

// Send queues a one-way push in the ordered outbox of a peer and returns its sequence, which rises with every Send and
// Ask of this Endpoint. It never blocks. msg must not change afterwards: it is encoded when it is written.
func (e *Endpoint) Send(to frame.Address, endpoint string, fam sparkmsg.Family, msg sparkmsg.Message) uint64 {
	return e.enqueue(to, push{endpoint: endpoint, fam: fam, msg: msg, weight: int32(min(weigh(msg), math.MaxInt32))})
}

// Ask queues an ask in the same outbox as Send. done gets the answer, or one of the errors of this package, exactly
// once: for an answer on the reader goroutine of the connection, between the messages around it; otherwise on some
// goroutine; never inside Ask, Send or DropOutboxes. The timeout counts from now. A good answer is a receipt for all
// pushes between this ask and the one before it (see ErrMoved).
func (e *Endpoint) Ask(to frame.Address, endpoint string, fam sparkmsg.Family, msg sparkmsg.Message, timeout time.Duration,
	done func(sparkmsg.Message, error)) uint64 {
	return e.enqueue(to, push{endpoint: endpoint, fam: fam, msg: msg, weight: int32(min(weigh(msg), math.MaxInt32)), ask: e.newAsk(timeout, done)})
}

func (e *Endpoint) enqueue(to frame.Address, m push) uint64 {
	e.mu.Lock()
	e.seq++
	m.seq = e.seq
	if e.closed {
		e.refuseLocked(m, ErrClosed)
		e.mu.Unlock()
		e.countDropped("closed", 1)
		return m.seq
	}
	p := e.peerLocked(to)
	e.rememberLocked(to, m.fam)
	if m.ask != nil {
		m.ask.peer = p
		if p.asks.Add(1) > int32(e.limits.MaxAsks) {
			e.refuseLocked(m, ErrTooManyAsks)
			e.mu.Unlock()
			return m.seq
		}
	}
	if p.q.len() >= e.limits.MaxQueue || p.bytes+int(m.weight) > e.limits.MaxQueueBytes {
		e.overflowLocked(p, m)
		return m.seq
	}
	p.q.add(m)
	p.bytes += int(m.weight)
	e.queued++
	e.kickLocked(p)
	e.mu.Unlock()
	return m.seq
}

// refuseLocked ends the ask of a message that is not queued.
func (e *Endpoint) refuseLocked(m push, err error) {
	if m.ask != nil {
		e.finishLaterLocked([]*ask{m.ask}, err)
	}
}

// overflowLocked gives up on a peer that does not take its messages: the queue is dropped, the connection closed. It
// unlocks e.mu.
func (e *Endpoint) overflowLocked(p *peer, m push) {
	queued, bytes := p.q.len(), p.bytes
	asks := e.dropLocked(p, "overflow")
	if m.ask != nil {
		asks = append(asks, m.ask)
	}
	e.breakRunLocked(p)
	e.finishLaterLocked(asks, ErrDropped)
	slow := p.busy
	if slow == nil {
		slow = p.live()
	}
	e.mu.Unlock()
	e.countDropped("overflow", 1)
	if e.lines.allow(p.addr.String(), "overflow") {
		e.cfg.Log.Error("outbox full: dropped it and closed the connection", "peer", p.addr, "messages", queued, "bytes", bytes)
	}
	if slow != nil {
		slow.Close("outbox full")
	}
}

// ask is one of our asks without an outcome.
type ask struct {
	e        *Endpoint
	done     func(sparkmsg.Message, error)
	timer    *time.Timer
	finished atomic.Bool
	peer     *peer // nil for Conn.Ask

	// Guarded by e.mu.
	conn    *Conn // where it was written
	id      int64 // its request id there
	moved   bool  // a push before it went another way
	expired bool  // too late to be written
}

func (e *Endpoint) newAsk(timeout time.Duration, done func(sparkmsg.Message, error)) *ask {
	a := &ask{e: e, done: done}
	a.timer = time.AfterFunc(timeout, a.expire)
	return a
}

func (a *ask) expire() {
	a.e.mu.Lock()
	a.forgetLocked()
	a.expired = true
	a.e.mu.Unlock()
	a.finish(nil, ErrTimeout)
}

// forgetLocked takes the ask out of the table of its connection.
func (a *ask) forgetLocked() {
	if a.conn != nil {
		delete(a.conn.asks, a.id)
		a.conn = nil
	}
}

// finish reports the outcome, the first time it is called.
func (a *ask) finish(msg sparkmsg.Message, err error) {
	if a.finished.Swap(true) {
		return
	}
	a.timer.Stop()
	if a.peer != nil {
		a.peer.asks.Add(-1)
	}
	a.done(msg, err)
}

// registerLocked puts an ask that is about to be written into the table of a connection.
func (c *Conn) registerLocked(a *ask, id int64) {
	if a.expired {
		return
	}
	if c.asks == nil {
		c.asks = map[int64]*ask{}
	}
	c.asks[id] = a
	a.conn, a.id = c, id
}

func (c *Conn) takeAsksLocked() []*ask {
	asks := make([]*ask, 0, len(c.asks))
	for _, a := range c.asks {
		a.conn = nil
		asks = append(asks, a)
	}
	c.asks = nil
	return asks
}

// requestID draws a request id: random and positive, as Spark does. 62 random bits do not meet again on a connection.
func requestID() int64 { return rand.Int64N(1<<62) + 1 }

// Push sends a one-way message on this very connection. It is not gated and not part of the peer's outbox: it is for
// what any master may say, leader or not.
func (c *Conn) Push(endpoint string, fam sparkmsg.Family, msg sparkmsg.Message) {
	content, err := sparkmsg.Encode(msg, fam)
	if err != nil {
		c.e.encodeFailed(msg, fam, err)
		c.e.countDropped("encode", 1)
		return
	}
	c.sendDirect(c.e.appendRequest(nil, frame.OneWayMessage, 0, c.receiver(), endpoint, content))
}

// Ask asks on this very connection. It is not gated. done is called as by Endpoint.Ask.
func (c *Conn) Ask(endpoint string, fam sparkmsg.Family, msg sparkmsg.Message, timeout time.Duration,
	done func(sparkmsg.Message, error)) {
	a := c.e.newAsk(timeout, done)
	content, err := sparkmsg.Encode(msg, fam)
	if err != nil {
		c.e.encodeFailed(msg, fam, err)
		c.e.mu.Lock()
		c.e.finishLaterLocked([]*ask{a}, err)
		c.e.mu.Unlock()
		return
	}
	id := requestID()
	c.e.mu.Lock()
	if c.detached || len(c.asks) >= c.e.limits.MaxAsks {
		err := ErrConnClosed
		if !c.detached {
			err = ErrTooManyAsks
		}
		c.e.finishLaterLocked([]*ask{a}, err)
		c.e.mu.Unlock()
		return
	}
	c.registerLocked(a, id)
	c.e.mu.Unlock()
	c.sendDirect(c.e.appendRequest(nil, frame.RPCRequest, id, c.receiver(), endpoint, content))
}

func (c *Conn) receiver() *frame.Address {
	if addr, ok := c.PeerAddress(); ok {
		return &addr
	}
	return nil
}

// booleans are the two answers that nearly all asks get; they are the same in all families.
var booleans = sync.OnceValues(func() ([2][]byte, error) {
	var out [2][]byte
	for i := range out {
		b, err := sparkmsg.Encode(&sparkmsg.Boolean{Value: i == 1}, sparkmsg.FamilyB)
		if err != nil {
			return out, err
		}
		out[i] = b
	}
	return out, nil
})

// encodeReply encodes an answer for whichever of these families the peer has.
func encodeReply(msg sparkmsg.Message, fams sparkmsg.FamilySet) ([]byte, error) {
	if b, ok := msg.(*sparkmsg.Boolean); ok {
		both, err := booleans()
		if b.Value {
			return both[1], err
		}
		return both[0], err
	}
	return sparkmsg.EncodeAny(msg, fams)
}

func (c *Conn) reply(id int64, msg sparkmsg.Message, fams sparkmsg.FamilySet) {
	content, err := encodeReply(msg, fams)
	if err != nil {
		if c.e.lines.allow(c.host, "reply "+msg.MessageName()) {
			c.e.cfg.Log.Error("answer cannot be encoded", "remote", c.host, "message", msg.MessageName(), "families", fams, "error", err)
		}
		c.replyFailure(id, "the answer cannot be encoded: "+err.Error())
		return
	}
	c.sendDirect(frame.Append(nil, frame.Frame{Type: frame.RPCResponse, RequestID: id, Body: content}))
}

func (c *Conn) replyFailure(id int64, text string) {
	c.sendDirect(frame.Append(nil, frame.Frame{Type: frame.RPCFailure, RequestID: id, Body: []byte(text)}))
}

// sendDirect queues an encoded frame on the connection itself. A peer that does not read its answers is cut off.
func (c *Conn) sendDirect(b []byte) {
	c.e.mu.Lock()
	if c.detached || c.closed.Load() {
		c.e.mu.Unlock()
		return
	}
	full := c.directSize+len(b) > c.e.limits.MaxReplyQueueBytes
	if !full {
		c.direct = append(c.direct, b)
		c.directSize += len(b)
		c.e.kickConnLocked(c)
	}
	c.e.mu.Unlock()
	if full {
		c.fail(errReplyQueue, true)
	}
}

// appendRequest appends a RequestMessage frame from this Endpoint.
func (e *Endpoint) appendRequest(dst []byte, t frame.Type, id int64, to *frame.Address, endpoint string, content []byte) []byte {
	self := e.cfg.Self
	return appendRequest(dst, t, id, frame.Request{Sender: &self, Receiver: to, Endpoint: endpoint, Content: content})
}

func appendRequest(dst []byte, t frame.Type, id int64, req frame.Request) []byte {
	body := frame.AppendRequest(make([]byte, 0, len(req.Content)+requestOverhead), req)
	return frame.Append(dst, frame.Frame{Type: t, RequestID: id, Body: body})
}

// requestOverhead is more than the addresses and the endpoint name of ordinary length take.
const requestOverhead = 160

// encodeFailed logs a push that cannot be encoded: an error of the caller, or a payload that does not fit.
func (e *Endpoint) encodeFailed(msg sparkmsg.Message, fam sparkmsg.Family, err error) {
	if e.lines.allow("", "encode "+msg.MessageName()) {
		e.cfg.Log.Error("message cannot be encoded: dropped", "message", msg.MessageName(), "family", fam, "error", err)
	}
}
