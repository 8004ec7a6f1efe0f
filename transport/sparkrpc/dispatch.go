package sparkrpc

import (
	"errors"
	"fmt"
	"sync/atomic"

	"raftmaster/transport/frame"
	"raftmaster/transport/sparkmsg"
)

// maxClassLength bounds class names of peers in logs and counters.
const maxClassLength = 128

// dispatch handles one frame on the reader goroutine. An error means that the connection must be closed.
func (c *Conn) dispatch(f frame.Frame) error {
	switch f.Type {
	case frame.RPCRequest, frame.OneWayMessage:
		req, err := frame.ParseRequest(f.Body)
		if err != nil {
			return err
		}
		if req.Sender != nil {
			c.e.name(c, *req.Sender)
		}
		if f.Type == frame.RPCRequest {
			c.request(f.RequestID, req)
		} else {
			c.oneWay(req, f.Body)
		}
	case frame.RPCResponse:
		c.answered(f.RequestID, f.Body, nil)
	case frame.RPCFailure:
		c.answered(f.RequestID, nil, &RemoteError{Text: string(f.Body)})
	default:
		return fmt.Errorf("sparkrpc: unexpected frame %s", f.Type)
	}
	return nil
}

func (c *Conn) oneWay(req frame.Request, body []byte) {
	if !c.e.cfg.Exists(req.Endpoint) {
		c.undelivered("unknown endpoint", req.Endpoint, nil)
		return
	}
	in, own, err := c.decode(req)
	if err != nil {
		return
	}
	c.remember(body, in, own)
	c.e.handler.OneWay(c, in)
}

func (c *Conn) request(id int64, req frame.Request) {
	if req.Endpoint == VerifierEndpoint {
		c.verify(id, req)
		return
	}
	if !c.e.cfg.Exists(req.Endpoint) {
		c.undelivered("unknown endpoint", req.Endpoint, nil)
		c.replyFailure(id, "there is no endpoint named "+clip(req.Endpoint)+" here")
		return
	}
	in, _, err := c.decode(req)
	if err != nil {
		c.replyFailure(id, "message could not be read: "+err.Error())
		return
	}
	if c.open.Add(1) > int64(c.e.limits.MaxOpenRequests) {
		c.open.Add(-1)
		c.undelivered("too many open requests", "", nil)
		c.replyFailure(id, "too many unanswered requests on this connection")
		return
	}
	var done atomic.Bool
	c.e.handler.Ask(c, in, func(msg sparkmsg.Message, err error) {
		if done.Swap(true) {
			return
		}
		c.open.Add(-1)
		if err != nil {
			c.replyFailure(id, err.Error())
			return
		}
		c.reply(id, msg, in.Families)
	})
}

// verify answers an ask to the verifier endpoint (RpcEndpointVerifier.receiveAndReply).
func (c *Conn) verify(id int64, req frame.Request) {
	in, _, err := c.decode(req)
	if err != nil {
		c.replyFailure(id, "message could not be read: "+err.Error())
		return
	}
	check, ok := in.Msg.(*sparkmsg.CheckExistence)
	if !ok {
		c.replyFailure(id, "endpoint "+VerifierEndpoint+" answers CheckExistence only")
		return
	}
	c.reply(id, &sparkmsg.Boolean{Value: c.e.cfg.Exists(check.Name)}, in.Families)
}

// decode reads the object of a message and narrows down the connection's families; own are those of this message alone.
// An error has been counted and logged.
func (c *Conn) decode(req frame.Request) (in Inbound, own sparkmsg.FamilySet, err error) {
	decoded, err := decodeSafely(req.Content)
	if err != nil {
		c.undelivered("message not decoded", errorClass(err), err)
		return Inbound{}, 0, err
	}
	in = Inbound{Sender: req.Sender, Endpoint: req.Endpoint, Msg: decoded.Msg, Families: c.narrow(decoded.Families)}
	return in, decoded.Families, nil
}

// narrow takes in the families of one message and returns what all messages leave possible.
func (c *Conn) narrow(own sparkmsg.FamilySet) sparkmsg.FamilySet {
	if known := c.Families(); !known.IsEmpty() {
		if both := known.Intersect(own); !both.IsEmpty() {
			own = both // else another program took over the connection: only its own message counts
		}
	}
	c.families.Store(uint32(own))
	return own
}

// decodeSafely keeps a programming error in a decoder from ending the process on a peer's word.
func decodeSafely(content []byte) (decoded sparkmsg.Decoded, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = &panicError{value: r}
		}
	}()
	return sparkmsg.Decode(content)
}

type panicError struct{ value any }

func (e *panicError) Error() string { return fmt.Sprintf("sparkrpc: decoder panicked: %v", e.value) }

// errorClass is the key under which an undecodable message is counted and logged.
func errorClass(err error) string {
	var unknown *sparkmsg.UnknownClassError
	var panicked *panicError
	switch {
	case errors.As(err, &unknown):
		return clip(unknown.Class)
	case errors.As(err, &panicked):
		return "panic"
	}
	return "malformed"
}

// undelivered counts and logs a message that reached nobody.
func (c *Conn) undelivered(what, class string, err error) {
	key := class
	if err == nil {
		key = what
	}
	key = c.e.stats.decodeClass(key)
	if c.e.cfg.Metrics.DecodeError != nil {
		c.e.cfg.Metrics.DecodeError(key)
	}
	if !c.e.lines.allow(c.host, what+" "+clip(class)) {
		return
	}
	addr, _ := c.PeerAddress()
	c.e.cfg.Log.Warn("dropped a message", "remote", c.host, "peer", addr, "conn", c.id, "why", what, "class", clip(class), "error", err)
}

// answered hands the answer to one of our asks to its owner. An unknown id is an answer that came too late.
func (c *Conn) answered(id int64, body []byte, failure error) {
	c.e.mu.Lock()
	a := c.asks[id]
	moved := false
	if a != nil {
		moved = a.moved
		a.forgetLocked()
	}
	c.e.mu.Unlock()
	if a == nil {
		return
	}
	if failure == nil && moved {
		failure = ErrMoved
	}
	if failure != nil {
		a.finish(nil, failure)
		return
	}
	decoded, err := decodeSafely(body)
	if err != nil {
		c.undelivered("answer not decoded", errorClass(err), err)
		a.finish(nil, err)
		return
	}
	if f, ok := decoded.Msg.(*sparkmsg.RpcFailure); ok {
		a.finish(nil, &RemoteError{Text: f.Class + ": " + f.Message})
		return
	}
	a.finish(decoded.Msg, nil)
}

func clip(s string) string {
	if len(s) > maxClassLength {
		return s[:maxClassLength]
	}
	return s
}
