package clustertest

import (
	"time"

	"raftmaster/transport/sparkmsg"
)

// Times of TCP.
const (
	masterUserTimeout = 30 * time.Second // sparkrpc's TCP_USER_TIMEOUT
	masterKeepAlive   = time.Minute      // sparkrpc's keep-alive: silence, then unanswered probes
	peerUserTimeout   = 15 * time.Minute // Linux's default patience with unacknowledged data
)

// dialResult is how an attempt to connect ended.
type dialResult int

const (
	dialled dialResult = iota
	dialRefused
	dialUnreachable
)

type packetKind int

const (
	oneWay packetKind = iota
	asking
	answer
	fin // the sender's side is closed
)

// packet is one frame: messages travel as they are, without their bytes.
type packet struct {
	kind     packetKind
	id       int64
	sender   *sparkmsg.Address
	endpoint string
	msg      sparkmsg.Message
	fams     sparkmsg.FamilySet
	err      error
}

// sock is one end of a TCP connection.
type sock struct {
	id   uint64
	own  *proc
	far  *sock
	open bool
	// gone: its machine vanished, so that nobody answers, not even with a reset.
	gone     bool
	cut      bool      // nothing in flight arrives any more
	queue    []*packet // what the network does not let through now
	arrival  time.Duration
	watched  bool
	pathGen  int // raised whenever the way heals
	onPacket func(*packet)
	onClose  func()
}

// proc is a process with a listening address.
type proc struct {
	s        *Sim
	name     string
	addr     sparkmsg.Address
	master   bool
	up       bool
	vanished bool
	paused   bool
	held     []func()
	socks    []*sock
	accept   func(*sock)
	// afterEvent runs behind everything that ran in the process.
	afterEvent func()
	// undialable is how connections to it end when masters try; dialled means that they succeed.
	undialable dialResult
	// wasUndialable: they did so until the faults were healed.
	wasUndialable bool
}

// run executes something in a process, once it is not stopped.
func (p *proc) run(fn func()) {
	switch {
	case !p.up:
	case p.paused:
		p.held = append(p.held, fn)
	default:
		fn()
		if p.afterEvent != nil {
			p.afterEvent()
		}
	}
}

// after executes something in the process after a time, which goes on while the process is stopped.
func (p *proc) after(d time.Duration, fn func()) { p.s.after(d, func() { p.run(fn) }) }

func (p *proc) note(format string, args ...any) { p.s.note(p.name, format, args...) }

// pause stops the process (SIGSTOP): its sockets stay, what arrives waits.
func (p *proc) pause() { p.paused = true }

// resume lets it run on: everything that waited happens at once, in order.
func (p *proc) resume() {
	p.paused = false
	held := p.held
	p.held = nil
	for _, fn := range held {
		p.run(fn)
	}
}

// way is a direction between two addresses.
type way struct{ from, to sparkmsg.Address }

// network is TCP between all processes.
type network struct {
	s       *Sim
	procs   map[sparkmsg.Address]*proc // who listens, or listened last
	blocked map[way]int                // how many faults block a way
	socks   []*sock
	lastID  uint64
}

func newNetwork(s *Sim) *network {
	return &network{s: s, procs: map[sparkmsg.Address]*proc{}, blocked: map[way]int{}}
}

// listen makes a process the one at its address.
func (n *network) listen(p *proc) {
	p.up = true
	n.procs[p.addr] = p
}

// latency draws how long a message takes.
func (n *network) latency() time.Duration {
	d := n.s.between(n.s.opt.MinLatency, n.s.opt.MaxLatency)
	if n.s.chance(n.s.opt.SlowShare) {
		d *= time.Duration(1 + n.s.rng.IntN(max(n.s.opt.SlowFactor, 1)))
	}
	return d
}

func (n *network) isBlocked(from, to *proc) bool {
	return len(n.blocked) > 0 && n.blocked[way{from.addr, to.addr}] > 0
}

// bad tells whether what is sent now can not be acknowledged.
func (n *network) bad(k *sock) bool {
	return k.far.gone || n.isBlocked(k.own, k.far.own) || n.isBlocked(k.far.own, k.own)
}

// dial connects a process to an address; done runs in the process.
func (n *network) dial(from *proc, to sparkmsg.Address, timeout time.Duration, done func(*sock, dialResult)) {
	n.s.after(n.latency(), func() {
		target := n.procs[to]
		result := dialled
		switch {
		case target == nil:
			result = dialRefused
		case n.isBlocked(from, target) || n.isBlocked(target, from) || !target.up && target.vanished:
			result = dialUnreachable
		case !target.up:
			result = dialRefused
		case from.master && target.undialable != dialled:
			result = target.undialable
		}
		switch result {
		case dialRefused:
			from.after(n.latency(), func() { done(nil, dialRefused) })
		case dialUnreachable:
			from.after(timeout, func() { done(nil, dialUnreachable) })
		default:
			near := n.connect(from, target)
			from.after(n.latency(), func() { done(near, dialled) })
		}
	})
}

// connect makes a connection; the listener learns of it at once.
func (n *network) connect(from, to *proc) *sock {
	n.lastID++
	near := &sock{id: n.lastID, own: from, open: true}
	n.lastID++
	far := &sock{id: n.lastID, own: to, open: true, far: near}
	near.far = far
	from.socks = append(from.socks, near)
	to.socks = append(to.socks, far)
	n.socks = append(n.socks, near, far)
	to.run(func() { to.accept(far) })
	return near
}

// send hands a packet to a connection; false when this end is closed.
func (n *network) send(k *sock, p *packet) bool {
	if !k.open {
		return false
	}
	n.queueOrFly(k, p)
	if n.bad(k) {
		n.watch(k)
	}
	return true
}

func (n *network) queueOrFly(k *sock, p *packet) {
	if len(k.queue) > 0 || n.isBlocked(k.own, k.far.own) {
		k.queue = append(k.queue, p)
		return
	}
	k.arrival = max(n.s.now+n.latency(), k.arrival)
	n.s.at(k.arrival, func() { n.arrive(k, p) })
}

// arrive ends a packet's way.
func (n *network) arrive(k *sock, p *packet) {
	far := k.far
	switch {
	case k.cut || !k.open && k.own.vanished:
	case far.gone:
		if now := n.procs[far.own.addr]; now.up && k.open {
			n.s.after(n.latency(), func() { n.end(k) }) // the machine is back: a reset
		}
	case !far.open:
		if p.kind != fin && k.open {
			n.s.after(n.latency(), func() { n.end(k) })
		}
	case p.kind == fin:
		n.end(far)
	default:
		far.own.run(func() {
			if far.onPacket != nil && !far.cut {
				far.onPacket(p)
			}
		})
	}
}

// end closes one end because the other one did, or because it broke.
func (n *network) end(k *sock) {
	if !k.open {
		return
	}
	k.open = false
	k.queue = nil
	n.s.after(0, func() {
		k.own.run(func() {
			if k.onClose != nil {
				k.onClose()
			}
		})
	})
}

// close closes an end in order: what was sent before arrives, then the other side notices.
func (n *network) close(k *sock) {
	if !k.open {
		return
	}
	waiting := k.queue
	n.end(k)
	k.queue = waiting
	n.queueOrFly(k, &packet{kind: fin})
	if gen := k.pathGen; k.own.master && len(k.queue) > 0 {
		n.s.after(masterUserTimeout, func() {
			if k.pathGen == gen {
				k.queue = nil
			}
		})
	}
}

// abort gives up on a connection whose data nobody acknowledges.
func (n *network) abort(k *sock) {
	if !k.open {
		return
	}
	n.end(k)
	n.queueOrFly(k, &packet{kind: fin})
}

// breakConn cuts a connection on its way: both ends notice, what is in flight is lost.
func (n *network) breakConn(k *sock) {
	for _, end := range []*sock{k, k.far} {
		end.cut = true
		n.s.after(n.latency(), func() { n.end(end) })
	}
}

// watch closes the connection when its way stays bad for too long.
func (n *network) watch(k *sock) {
	if k.watched {
		return
	}
	k.watched = true
	timeout := peerUserTimeout
	if k.own.master {
		timeout = masterUserTimeout
	}
	n.abortIfBad(k, timeout)
}

func (n *network) abortIfBad(k *sock, timeout time.Duration) {
	gen := k.pathGen
	n.s.after(timeout, func() {
		if k.open && k.pathGen == gen && n.bad(k) {
			n.abort(k)
		}
	})
}

// block blocks one direction between two addresses.
func (n *network) block(from, to sparkmsg.Address) {
	n.blocked[way{from, to}]++
	n.each(from, to, func(k *sock) {
		if k.own.master {
			n.abortIfBad(k, masterKeepAlive)
		}
	})
}

// unblock heals what one block did; when nothing else blocks the way, everything that waited arrives.
func (n *network) unblock(from, to sparkmsg.Address) {
	w := way{from, to}
	if n.blocked[w]--; n.blocked[w] > 0 {
		return
	}
	delete(n.blocked, w)
	n.each(from, to, func(k *sock) {
		k.pathGen++
		k.watched = false
		if n.isBlocked(k.own, k.far.own) {
			return
		}
		queue := k.queue
		k.queue = nil
		for _, p := range queue {
			n.queueOrFly(k, p)
		}
	})
}

// each visits both ends of every connection between two addresses, closed ends with something to deliver included.
func (n *network) each(a, b sparkmsg.Address, fn func(*sock)) {
	kept := n.socks[:0]
	for _, k := range n.socks {
		if k.open || len(k.queue) > 0 || k.far.open {
			kept = append(kept, k)
		}
	}
	clear(n.socks[len(kept):])
	n.socks = kept
	for _, k := range kept {
		if x, y := k.own.addr, k.far.own.addr; x == a && y == b || x == b && y == a {
			fn(k)
		}
	}
}

// die ends a process. With fin its kernel closes the sockets, otherwise the whole machine is gone without a word.
func (n *network) die(p *proc, withFIN bool) {
	if !p.up {
		return
	}
	p.up, p.held, p.vanished, p.paused = false, nil, !withFIN, false
	for _, k := range p.socks {
		if !k.open {
			continue
		}
		if withFIN {
			n.close(k) // the kernel goes on to deliver what the process has written
			continue
		}
		k.open, k.gone, k.queue = false, true, nil
		if k.far.own.master {
			n.abortIfBad(k.far, masterKeepAlive)
		}
	}
	p.socks = nil
}
