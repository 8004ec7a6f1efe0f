package server

import (
	"time"

	"raftmaster/cluster/master"
	"raftmaster/transport/sparkmsg"
	"raftmaster/transport/sparkrpc"
)

// network carries the leader's messages over an RPC endpoint and brings every callback onto the Core's goroutine.
type network struct {
	rpc  *sparkrpc.Endpoint
	post func(func())
}

func (n *network) Send(to sparkmsg.Address, endpoint string, fam sparkmsg.Family, msg sparkmsg.Message) uint64 {
	return n.rpc.Send(to, endpoint, fam, msg)
}

func (n *network) Ask(to sparkmsg.Address, endpoint string, fam sparkmsg.Family, msg sparkmsg.Message, timeout time.Duration,
	done func(sparkmsg.Message, error)) {
	n.rpc.Ask(to, endpoint, fam, msg, timeout, func(answer sparkmsg.Message, err error) {
		n.post(func() { done(answer, err) })
	})
}

// Receipt asks behind what is queued. A good answer of the endpoint is proof for all pushes between this ask and the one
// before it (sparkrpc.ErrMoved), and the leader service names only launches of the batch that it has just sent.
func (n *network) Receipt(to sparkmsg.Address, endpoint string, fam sparkmsg.Family, timeout time.Duration, done func(master.Receipt, error)) {
	var seq uint64
	seq = n.rpc.Ask(to, sparkrpc.VerifierEndpoint, fam, &sparkmsg.CheckExistence{Name: endpoint}, timeout,
		func(answer sparkmsg.Message, err error) {
			n.post(func() {
				yes, ok := answer.(*sparkmsg.Boolean)
				done(master.Receipt{Last: seq, Exists: ok && yes.Value}, err)
			})
		})
}

func (n *network) Probe(to sparkmsg.Address, endpoint string, timeout time.Duration, done func(master.ProbeResult)) {
	n.rpc.Probe(to, endpoint, timeout, func(r sparkrpc.ProbeResult) {
		n.post(func() { done(probeResult(r)) })
	})
}

func (n *network) Attached(to sparkmsg.Address) bool { return n.rpc.Attached(to) }

func (n *network) DropOutboxes() { n.rpc.DropOutboxes() }

func probeResult(r sparkrpc.ProbeResult) master.ProbeResult {
	switch r {
	case sparkrpc.ProbeTrue:
		return master.ProbeTrue
	case sparkrpc.ProbeFalse:
		return master.ProbeFalse
	case sparkrpc.ProbeRefused:
		return master.ProbeRefused
	}
	return master.ProbeUnreachable
}

// inbound hands what peers say to the leader service.
type inbound struct {
	svc  *master.Service
	post func(func())
}

func (h *inbound) OneWay(c *sparkrpc.Conn, in sparkrpc.Inbound) {
	h.svc.OneWay(&conn{Conn: c, post: h.post}, in.Sender, in.Families, in.Msg)
}

func (h *inbound) Ask(c *sparkrpc.Conn, in sparkrpc.Inbound, reply func(sparkmsg.Message, error)) {
	h.svc.Ask(&conn{Conn: c, post: h.post}, in.Sender, in.Msg, reply)
}

func (h *inbound) Closed(_ *sparkrpc.Conn, peer sparkmsg.Address, last bool) {
	if peer != (sparkmsg.Address{}) {
		h.svc.ConnClosed(peer, last)
	}
}

// conn is a connection as the leader service sees it.
type conn struct {
	*sparkrpc.Conn
	post func(func())
}

// Ask brings the answer onto the Core's goroutine.
func (c *conn) Ask(endpoint string, fam sparkmsg.Family, msg sparkmsg.Message, timeout time.Duration, done func(sparkmsg.Message, error)) {
	c.Conn.Ask(endpoint, fam, msg, timeout, func(answer sparkmsg.Message, err error) {
		c.post(func() { done(answer, err) })
	})
}
