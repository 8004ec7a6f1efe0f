package load

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"raftmaster/transport/frame"
)

const (
	writeTimeout = 20 * time.Second
	firstBuffer  = 2 << 10
	maxFrame     = 2 << 20
)

var (
	errClosed = errors.New("connection closed")
	errAnswer = errors.New("answer is not what was expected")
)

// conn is one connection of a peer with a master.
type conn struct {
	p  *peer
	nc net.Conn

	mu     sync.Mutex // guards the fields below; write holds wmu only
	asks   map[int64]func(body []byte, err error)
	closed bool

	wmu sync.Mutex
}

// newConn takes over an open connection; the caller runs read.
func newConn(p *peer, nc net.Conn) *conn { return &conn{p: p, nc: nc} }

// write sends one frame. It blocks while the master does not read, at most for writeTimeout.
func (c *conn) write(b []byte) error {
	c.wmu.Lock()
	defer c.wmu.Unlock()
	if err := c.nc.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return err
	}
	_, err := c.nc.Write(b)
	if err != nil {
		c.close() // a part of a frame may be out
	}
	return err
}

// send sends a one-way message to the master.
func (c *conn) send(to frame.Address, content []byte) error {
	return c.write(request(c.p.addr, to, "Master", 0, content))
}

// ask asks; done is called once, on the reader goroutine or, for a failure, on any. body is valid during the call only.
func (c *conn) ask(to frame.Address, endpoint string, content []byte, done func(body []byte, err error)) {
	id := rand.Int64N(1<<62) + 1
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		done(nil, errClosed)
		return
	}
	if c.asks == nil {
		c.asks = map[int64]func([]byte, error){}
	}
	c.asks[id] = done
	c.mu.Unlock()
	if err := c.write(request(c.p.addr, to, endpoint, id, content)); err != nil {
		if f := c.take(id); f != nil {
			f(nil, err)
		}
	}
}

func (c *conn) take(id int64) func([]byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.asks[id]
	delete(c.asks, id)
	return f
}

// close closes the socket; the reader then ends and fails what was asked.
func (c *conn) close() {
	// The error of a second close says nothing.
	_ = c.nc.Close()
}

// read handles what arrives until the connection ends.
func (c *conn) read() {
	err := c.readFrames()
	c.close()
	c.mu.Lock()
	c.closed = true
	asks := c.asks
	c.asks = nil
	c.mu.Unlock()
	for _, f := range asks {
		f(nil, errClosed)
	}
	c.p.lost(c, err)
}

func (c *conn) readFrames() error {
	buf := make([]byte, 0, firstBuffer)
	for {
		if len(buf) == cap(buf) {
			grown := make([]byte, len(buf), 2*cap(buf))
			copy(grown, buf)
			buf = grown
		}
		n, err := c.nc.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		rest, bad := c.frames(buf)
		if bad != nil {
			return bad
		}
		buf = append(buf[:0], rest...)
		if err != nil {
			if errors.Is(err, io.EOF) && len(buf) > 0 {
				return io.ErrUnexpectedEOF
			}
			return err
		}
	}
}

// frames handles the complete frames at the start of b and returns the rest.
func (c *conn) frames(b []byte) ([]byte, error) {
	const head = 13
	for len(b) >= head {
		size := binary.BigEndian.Uint64(b)
		if size < head || size > maxFrame {
			return nil, fmt.Errorf("frame of %d bytes", size)
		}
		if uint64(len(b)) < size {
			break
		}
		if err := c.frame(b[8:size]); err != nil {
			return nil, err
		}
		b = b[size:]
	}
	return b, nil
}

// frame handles one frame without its length.
func (c *conn) frame(b []byte) error {
	kind, b := frame.Type(b[0]), b[1:]
	var id int64
	if kind != frame.OneWayMessage {
		if len(b) < 12 {
			return io.ErrUnexpectedEOF
		}
		id, b = int64(binary.BigEndian.Uint64(b)), b[8:]
	}
	b = b[4:] // the size of the body, which the frame's own length says already
	switch kind {
	case frame.RPCResponse, frame.RPCFailure:
		f := c.take(id)
		if f == nil {
			return nil
		}
		if kind == frame.RPCFailure {
			f(nil, errors.New("master reports: "+string(b)))
		} else {
			f(b, nil)
		}
	case frame.OneWayMessage, frame.RPCRequest:
		req, err := frame.ParseRequest(b)
		if err != nil {
			return err
		}
		if kind == frame.RPCRequest {
			return c.asked(id, req)
		}
		return c.p.oneWay(c, req)
	default:
		return &frame.TypeError{Type: kind}
	}
	return nil
}

// asked answers the only question that a master has (RpcEndpointVerifier.CheckExistence).
func (c *conn) asked(id int64, req frame.Request) error {
	name, err := c.p.h.codec.check(req.Content)
	if err != nil || req.Endpoint != "endpoint-verifier" {
		return c.write(frame.Append(nil, frame.Frame{Type: frame.RPCFailure, RequestID: id, Body: []byte("unsupported message")}))
	}
	answer := c.p.h.no
	if name == c.p.endpoint {
		answer = c.p.h.yes
	}
	return c.write(frame.Append(nil, frame.Frame{Type: frame.RPCResponse, RequestID: id, Body: answer}))
}
