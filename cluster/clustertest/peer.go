package clustertest

import (
	"errors"
	"time"

	"raftmaster/transport/sparkmsg"
)

// askTimeout is spark.rpc.askTimeout, by way of spark.network.timeout.
const askTimeout = 120 * time.Second

var (
	errAskTimeout = errors.New("RpcTimeoutException")
	errChannel    = errors.New("ClosedChannelException")
)

// peer is the part of Spark's NettyRpcEnv that workers and drivers share. Messages to a master travel on the connection
// by which its reference came in; such a reference does not connect again. A lookup of a master by its address uses the
// connection that was dialled to it, or dials.
type peer struct {
	*proc
	fam  sparkmsg.Family
	fams sparkmsg.FamilySet // what the descriptors of its messages reveal
	has  string             // its endpoint
	out  map[sparkmsg.Address]*peerConn
	id   int64

	onMessage    func(c *peerConn, msg sparkmsg.Message)
	onDisconnect func(addr sparkmsg.Address)
}

// peerConn is a peer's end of a connection.
type peerConn struct {
	p      *peer
	k      *sock
	dialed sparkmsg.Address  // zero when the master connected
	known  *sparkmsg.Address // the sender address seen on it
	asks   []*peerAsk
}

type peerAsk struct {
	id   int64
	done func(sparkmsg.Message, error)
	over bool
}

func (a *peerAsk) finish(msg sparkmsg.Message, err error) {
	if !a.over {
		a.over = true
		a.done(msg, err)
	}
}

// masterRef is a reference to a master as a peer holds it.
type masterRef struct {
	addr sparkmsg.Address
	conn *peerConn
}

func newPeer(s *Sim, name, endpoint string, addr sparkmsg.Address, fam sparkmsg.Family) *peer {
	p := &peer{has: endpoint, fam: fam, fams: sparkmsg.SetOf(fam), out: map[sparkmsg.Address]*peerConn{}}
	p.proc = &proc{s: s, name: name, addr: addr}
	if s.chance(s.opt.Faults.Undialable) {
		p.undialable, p.wasUndialable = dialUnreachable, true
		if s.chance(0.5) {
			p.undialable = dialRefused
		}
	}
	p.accept = func(k *sock) { p.adopt(k) }
	return p
}

func (p *peer) adopt(k *sock) *peerConn {
	c := &peerConn{p: p, k: k}
	k.onPacket, k.onClose = c.receive, c.closed
	return c
}

// find resolves the endpoint Master at an address: the connection, and the answer of the verifier.
func (p *peer) find(addr sparkmsg.Address, done func(c *peerConn, found bool)) {
	verify := func(c *peerConn) {
		c.ask(endpointVerifier, &sparkmsg.CheckExistence{Name: endpointMaster}, func(msg sparkmsg.Message, err error) {
			yes, ok := msg.(*sparkmsg.Boolean)
			done(c, err == nil && ok && yes.Value)
		})
	}
	if c := p.out[addr]; c != nil && c.k.open {
		verify(c)
		return
	}
	p.s.net.dial(p.proc, addr, askTimeout, func(k *sock, result dialResult) {
		if result != dialled {
			done(nil, false)
			return
		}
		if c := p.out[addr]; c != nil && c.k.open {
			p.s.net.close(k) // two lookups at once: Spark's outbox makes one connection
			verify(c)
			return
		}
		c := p.adopt(k)
		c.dialed = addr
		p.out[addr] = c
		verify(c)
	})
}

// send sends a one-way message on a connection; on a closed one it is lost (B-210).
func (c *peerConn) send(msg sparkmsg.Message) {
	self := c.p.addr
	c.p.s.net.send(c.k, &packet{kind: oneWay, sender: &self, endpoint: endpointMaster, msg: msg, fams: c.p.fams})
}

// ask asks on a connection. After the ask time-out without any answer Spark also closes it.
func (c *peerConn) ask(endpoint string, msg sparkmsg.Message, done func(sparkmsg.Message, error)) {
	c.p.id++
	a := &peerAsk{id: c.p.id, done: done}
	self := c.p.addr
	if !c.p.s.net.send(c.k, &packet{kind: asking, id: a.id, sender: &self, endpoint: endpoint, msg: msg, fams: c.p.fams}) {
		c.p.after(0, func() { a.finish(nil, errChannel) })
		return
	}
	c.asks = append(c.asks, a)
	c.p.after(askTimeout, func() {
		if !a.over {
			a.finish(nil, errAskTimeout)
			c.p.s.net.close(c.k)
		}
	})
}

func (c *peerConn) receive(p *packet) {
	if p.sender != nil && c.known == nil {
		c.known = p.sender
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
		check, ok := p.msg.(*sparkmsg.CheckExistence)
		yes := ok && check.Name == c.p.has && c.p.onMessage != nil
		c.p.s.net.send(c.k, &packet{kind: answer, id: p.id, msg: &sparkmsg.Boolean{Value: yes}})
	default:
		if p.endpoint == c.p.has && c.p.onMessage != nil {
			if c.p.s.trace != nil {
				c.p.note("gets %s", show(p.msg))
			}
			c.p.onMessage(c, p.msg)
		}
	}
}

// closed raises RemoteProcessDisconnected for the address that was dialled and for the one that was announced.
func (c *peerConn) closed() {
	asks := c.asks
	c.asks = nil
	for _, a := range asks {
		a.finish(nil, errChannel)
	}
	if c.dialed != (sparkmsg.Address{}) {
		if c.p.out[c.dialed] == c {
			delete(c.p.out, c.dialed)
		}
		c.p.disconnected(c.dialed)
	}
	if c.known != nil && *c.known != c.dialed {
		c.p.disconnected(*c.known)
	}
}

func (p *peer) disconnected(addr sparkmsg.Address) {
	if p.up && p.onDisconnect != nil {
		p.onDisconnect(addr)
	}
}

// ref gives this peer's own reference.
func (p *peer) ref() sparkmsg.EndpointRef {
	addr := p.addr
	return sparkmsg.EndpointRef{Name: p.has, Address: &addr}
}
