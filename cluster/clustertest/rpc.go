package clustertest

import (
	"errors"
	"time"

	"raftmaster/cluster/master"
	"raftmaster/transport/sparkmsg"
)

// Names of endpoints (B-212).
const (
	endpointMaster    = "Master"
	endpointWorker    = "Worker"
	endpointAppClient = "AppClient"
	endpointVerifier  = "endpoint-verifier"
)

// The outcomes of an ask other than an answer, as sparkrpc has them.
var (
	errTimeout    = errors.New("no answer in time")
	errConnClosed = errors.New("connection closed before the answer")
	errDropped    = errors.New("outbox dropped before the ask was written")
)

// Limits of sparkrpc.
const (
	dialTimeout = 5 * time.Second
	dialMin     = 100 * time.Millisecond
	dialMax     = 5 * time.Second
	giveUp      = 30 * time.Second
)

// rpc is a master's RPC endpoint: what transport/sparkrpc documents, over the modelled network.
type rpc struct {
	m      *masterNode
	seq    uint64
	boxes  map[sparkmsg.Address]*outbox
	order  []*outbox // in order of creation: loops must not depend on a map
	connID uint64
	askID  int64
}

var _ master.Network = (*rpc)(nil)

// outbox is one peer: its connections and what waits for it.
type outbox struct {
	addr    sparkmsg.Address
	queue   []*push
	conns   []*mconn // named, in the order of naming
	last    *mconn   // where the outbox was last written
	dialing bool
	fails   int
	since   time.Duration // of the present series of failed dials
	pumping bool
}

type push struct {
	seq      uint64
	endpoint string
	msg      sparkmsg.Message
	ask      *mask
}

// mask is an ask of the master without an outcome.
type mask struct {
	done        func(sparkmsg.Message, error)
	receipt     func(master.Receipt, error)
	finished    bool
	first, last uint64 // of the connection, when the ask was written
	id          int64
}

func (a *mask) finish(msg sparkmsg.Message, err error) {
	if a.finished {
		return
	}
	a.finished = true
	if a.receipt == nil {
		a.done(msg, err)
		return
	}
	yes, ok := msg.(*sparkmsg.Boolean)
	if err == nil && !ok {
		err = errors.New("not a Boolean")
	}
	if err != nil {
		a.receipt(master.Receipt{}, err)
		return
	}
	a.receipt(master.Receipt{First: a.first, Last: a.last, Exists: yes.Value}, nil)
}

// mconn is a master's end of a connection.
type mconn struct {
	r           *rpc
	k           *sock
	id          uint64
	box         *outbox
	fams        sparkmsg.FamilySet
	first, last uint64
	asks        []*mask
}

var _ master.Conn = (*mconn)(nil)

func newRPC(m *masterNode) *rpc { return &rpc{m: m, boxes: map[sparkmsg.Address]*outbox{}} }

func (r *rpc) box(addr sparkmsg.Address) *outbox {
	b := r.boxes[addr]
	if b == nil {
		b = &outbox{addr: addr}
		r.boxes[addr] = b
		r.order = append(r.order, b)
	}
	return b
}

func (b *outbox) live() *mconn {
	for i := len(b.conns) - 1; i >= 0; i-- {
		if b.conns[i].k.open {
			return b.conns[i]
		}
	}
	return nil
}

// adopt takes over a connection, accepted or dialled.
func (r *rpc) adopt(k *sock) *mconn {
	r.connID++
	c := &mconn{r: r, k: k, id: r.connID}
	k.onPacket, k.onClose = c.receive, c.closed
	return c
}

// name makes a connection known by an address; the first name stays.
func (r *rpc) name(c *mconn, addr sparkmsg.Address) {
	if c.box != nil {
		return
	}
	c.box = r.box(addr)
	c.box.conns = append(c.box.conns, c)
	c.box.fails = 0
	r.kick(c.box)
}

// Send implements master.Network.
func (r *rpc) Send(to sparkmsg.Address, endpoint string, _ sparkmsg.Family, msg sparkmsg.Message) uint64 {
	return r.enqueue(to, &push{endpoint: endpoint, msg: msg})
}

// Ask implements master.Network.
func (r *rpc) Ask(to sparkmsg.Address, endpoint string, _ sparkmsg.Family, msg sparkmsg.Message, timeout time.Duration,
	done func(sparkmsg.Message, error)) {
	r.enqueue(to, &push{endpoint: endpoint, msg: msg, ask: r.newAsk(&mask{done: done}, timeout)})
}

// Receipt implements master.Network.
func (r *rpc) Receipt(to sparkmsg.Address, endpoint string, _ sparkmsg.Family, timeout time.Duration, done func(master.Receipt, error)) {
	r.enqueue(to, &push{endpoint: endpointVerifier, msg: &sparkmsg.CheckExistence{Name: endpoint},
		ask: r.newAsk(&mask{receipt: done}, timeout)})
}

func (r *rpc) newAsk(a *mask, timeout time.Duration) *mask {
	r.m.after(timeout, func() { a.finish(nil, errTimeout) })
	return a
}

func (r *rpc) enqueue(to sparkmsg.Address, p *push) uint64 {
	r.seq++
	p.seq = r.seq
	b := r.box(to)
	b.queue = append(b.queue, p)
	r.kick(b)
	return p.seq
}

// kick lets the writer run, which is a goroutine of its own.
func (r *rpc) kick(b *outbox) {
	if b.pumping || len(b.queue) == 0 {
		return
	}
	b.pumping = true
	r.m.after(r.m.s.between(0, 30*time.Microsecond), func() {
		b.pumping = false
		r.pump(b)
	})
}

// pump writes what waits, or dials.
func (r *rpc) pump(b *outbox) {
	for len(b.queue) > 0 {
		c := b.live()
		if c == nil {
			r.dial(b)
			return
		}
		if !r.m.gate() {
			r.drop(b)
			r.m.after(0, r.m.core.PushesDropped)
			return
		}
		p := b.queue[0]
		b.queue = b.queue[1:]
		r.write(b, c, p)
	}
}

// write hands one message to a connection, after which it is never written again.
func (r *rpc) write(b *outbox, c *mconn, p *push) {
	if p.ask != nil && p.ask.finished {
		return
	}
	if b.last != c {
		b.last, c.first = c, p.seq
	}
	self := r.m.addr
	out := &packet{kind: oneWay, sender: &self, endpoint: p.endpoint, msg: p.msg}
	if p.ask != nil {
		r.askID++
		p.ask.id, p.ask.first, p.ask.last = r.askID, c.first, p.seq
		out.kind, out.id = asking, r.askID
		c.asks = append(c.asks, p.ask)
	}
	c.last = p.seq
	r.m.s.check.pushed(r.m, b.addr, p.msg)
	for i := range r.m.s.copies(p.msg) {
		again := *out
		again.msg = r.m.s.planted(p, i)
		r.m.s.net.send(c.k, &again)
	}
}

// drop forgets what waits for a peer; what was written before proves nothing about it.
func (r *rpc) drop(b *outbox) {
	queue := b.queue
	b.queue = nil
	if len(queue) == 0 {
		return
	}
	b.last = nil
	r.m.note("outbox of %v dropped: %d messages", b.addr, len(queue))
	for _, p := range queue {
		if a := p.ask; a != nil {
			r.m.after(0, func() { a.finish(nil, errDropped) })
		}
	}
}

// DropOutboxes implements master.Network.
func (r *rpc) DropOutboxes() {
	for _, b := range r.order {
		r.drop(b)
	}
}

// Attached implements master.Network.
func (r *rpc) Attached(to sparkmsg.Address) bool {
	b := r.boxes[to]
	return b != nil && b.live() != nil
}

// dial connects to a peer and tries again, until what waits is too old.
func (r *rpc) dial(b *outbox) {
	if b.dialing {
		return
	}
	b.dialing = true
	if b.fails == 0 {
		b.since = r.m.s.now
	}
	r.m.s.net.dial(r.m.proc, b.addr, dialTimeout, func(k *sock, result dialResult) {
		if result == dialled {
			b.dialing = false
			if k.open {
				r.name(r.adopt(k), b.addr)
			}
			r.kick(b)
			return
		}
		b.fails++
		if r.m.s.now-b.since >= giveUp {
			r.drop(b)
			b.fails = 0
		}
		r.m.after(min(dialMin<<min(b.fails, 10), dialMax), func() {
			b.dialing = false
			r.kick(b)
		})
	})
}

// Probe implements master.Network: a fresh connection that carries no sender address.
func (r *rpc) Probe(to sparkmsg.Address, endpoint string, timeout time.Duration, done func(master.ProbeResult)) {
	if r.m.s.opt.Plant.NoProbe {
		r.m.after(time.Millisecond, func() { done(master.ProbeFalse) })
		return
	}
	finished := false
	finish := func(k *sock, result master.ProbeResult) {
		if k != nil {
			r.m.s.net.close(k)
		}
		if !finished {
			finished = true
			r.m.note("probe of %s at %v: %d", endpoint, to, result)
			done(result)
		}
	}
	r.m.s.net.dial(r.m.proc, to, timeout, func(k *sock, result dialResult) {
		switch result {
		case dialRefused:
			finish(nil, master.ProbeRefused)
			return
		case dialUnreachable:
			finish(nil, master.ProbeUnreachable)
			return
		}
		k.onClose = func() { finish(nil, master.ProbeUnreachable) }
		k.onPacket = func(p *packet) {
			if yes, ok := p.msg.(*sparkmsg.Boolean); ok && yes.Value {
				finish(k, master.ProbeTrue)
				return
			}
			finish(k, master.ProbeFalse)
		}
		r.m.s.net.send(k, &packet{kind: asking, id: 1, endpoint: endpointVerifier, msg: &sparkmsg.CheckExistence{Name: endpoint}})
		r.m.after(timeout, func() { finish(k, master.ProbeUnreachable) })
	})
}

// receive handles what a peer sent, on the connection's reader.
func (c *mconn) receive(p *packet) {
	if p.sender != nil {
		c.r.name(c, *p.sender)
	}
	switch p.kind {
	case answer:
		for i, a := range c.asks {
			if a.id == p.id {
				c.asks = append(c.asks[:i:i], c.asks[i+1:]...)
				a.finish(p.msg, p.err)
				return
			}
		}
	case asking:
		c.asked(p)
	default:
		c.fams = narrowed(c.fams, p.fams)
		c.r.m.core.OneWay(c, p.sender, c.fams, p.msg)
	}
}

func narrowed(known, said sparkmsg.FamilySet) sparkmsg.FamilySet {
	if both := known.Intersect(said); !known.IsEmpty() && !both.IsEmpty() {
		return both
	}
	return said
}

func (c *mconn) asked(p *packet) {
	reply := func(msg sparkmsg.Message, err error) {
		c.r.m.s.net.send(c.k, &packet{kind: answer, id: p.id, msg: msg, err: err})
	}
	if check, ok := p.msg.(*sparkmsg.CheckExistence); ok {
		reply(&sparkmsg.Boolean{Value: check.Name == endpointMaster}, nil)
		return
	}
	if !p.fams.IsEmpty() {
		c.fams = narrowed(c.fams, p.fams)
	}
	open := c.r.m.s.check.askArrived(c.r.m, p.msg)
	c.r.m.core.Ask(c, p.sender, p.msg, func(msg sparkmsg.Message, err error) {
		if c.r.m.s.opt.Plant.NoAnswers {
			return
		}
		c.r.m.s.check.askAnswered(open)
		reply(c.r.m.s.plantedAnswer(msg), err)
	})
}

// closed is called once, behind everything that came in.
func (c *mconn) closed() {
	asks := c.asks
	c.asks = nil
	for _, a := range asks {
		a.finish(nil, errConnClosed)
	}
	b := c.box
	if b == nil {
		return
	}
	for i, other := range b.conns {
		if other == c {
			b.conns = append(b.conns[:i:i], b.conns[i+1:]...)
			break
		}
	}
	if b.last == c {
		b.last = nil
	}
	c.r.kick(b)
	c.r.m.core.ConnClosed(b.addr, b.live() == nil)
}

// Families implements master.Conn.
func (c *mconn) Families() sparkmsg.FamilySet { return c.fams }

// ID implements master.Conn.
func (c *mconn) ID() uint64 { return c.id }

// SetTrusted implements master.Conn: frames have no size here.
func (c *mconn) SetTrusted() {}

// Outbox implements master.Conn.
func (c *mconn) Outbox() (first, last uint64) { return c.first, c.last }

// Push implements master.Conn.
func (c *mconn) Push(endpoint string, _ sparkmsg.Family, msg sparkmsg.Message) {
	self := c.r.m.addr
	c.r.m.s.check.pushedDirect(c.r.m, msg)
	c.r.m.s.net.send(c.k, &packet{kind: oneWay, sender: &self, endpoint: endpoint, msg: msg})
}

// Ask implements master.Conn.
func (c *mconn) Ask(endpoint string, _ sparkmsg.Family, msg sparkmsg.Message, timeout time.Duration, done func(sparkmsg.Message, error)) {
	a := c.r.newAsk(&mask{done: done}, timeout)
	c.r.askID++
	a.id = c.r.askID
	self := c.r.m.addr
	if !c.r.m.s.net.send(c.k, &packet{kind: asking, id: a.id, sender: &self, endpoint: endpoint, msg: msg}) {
		c.r.m.after(0, func() { a.finish(nil, errConnClosed) })
		return
	}
	c.asks = append(c.asks, a)
}
