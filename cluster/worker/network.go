package worker

import (
	"errors"
	"fmt"
	"time"

	"raftmaster/transport/sparkmsg"
	"raftmaster/transport/sparkrpc"
)

// network carries the Core's messages over an RPC endpoint, in the worker's own family, and brings every outcome onto
// the Core's goroutine.
type network struct {
	rpc    *sparkrpc.Endpoint
	family sparkmsg.Family
	loop   *loop
}

func (n *network) Send(to sparkmsg.Address, endpoint string, msg sparkmsg.Message) {
	n.rpc.Send(to, endpoint, n.family, msg)
}

func (n *network) Ask(to sparkmsg.Address, endpoint string, msg sparkmsg.Message, timeout time.Duration, done func(sparkmsg.Message, error)) {
	n.rpc.Ask(to, endpoint, n.family, msg, timeout, func(answer sparkmsg.Message, err error) {
		if errors.Is(err, sparkrpc.ErrMoved) {
			// It was answered, and not by a failure; it is only no receipt for what was sent before it.
			answer, err = &sparkmsg.Boolean{Value: true}, nil
		}
		n.loop.post(func(*Core) { done(answer, err) })
	})
}

// Receipt asks behind everything queued for a master so far.
func (n *network) Receipt(to sparkmsg.Address, timeout time.Duration, done func(taken bool)) {
	n.rpc.Ask(to, endpointVerifier, n.family, &sparkmsg.CheckExistence{Name: endpointMaster}, timeout, func(answer sparkmsg.Message, err error) {
		yes, ok := answer.(*sparkmsg.Boolean)
		n.loop.post(func(*Core) { done(err == nil && ok && yes.Value) })
	})
}

var errNothingToAsk = errors.New("a worker answers no such request")

// inbound hands what peers say to the Core.
type inbound struct{ loop *loop }

// OneWay implements sparkrpc.Handler.
func (h *inbound) OneWay(c *sparkrpc.Conn, in sparkrpc.Inbound) {
	h.loop.take(func(core *Core) { core.OneWay(c, in.Sender, in.Msg) })
}

// Ask implements sparkrpc.Handler: whether an endpoint exists is all that a worker is asked, and sparkrpc answers it.
func (h *inbound) Ask(_ *sparkrpc.Conn, in sparkrpc.Inbound, reply func(sparkmsg.Message, error)) {
	reply(nil, fmt.Errorf("%w: %s", errNothingToAsk, in.Msg.MessageName()))
}

// Closed implements sparkrpc.Handler.
func (h *inbound) Closed(c *sparkrpc.Conn, _ sparkmsg.Address, last bool) {
	id := c.ID()
	h.loop.take(func(core *Core) { core.Closed(id, !last) })
}
