package load

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"syscall"
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

	wmu      sync.Mutex
	holding  bool   // what is written waits in held, until all that has just been read was handled
	held     []byte //
	deadline time.Time
}

// newConn takes over an open connection; the caller runs read.
func newConn(p *peer, nc net.Conn) *conn { return &conn{p: p, nc: nc} }

// write sends one frame. It blocks while the master does not read, at most for writeTimeout.
func (c *conn) write(b []byte) error {
	c.wmu.Lock()
	defer c.wmu.Unlock()
	if c.holding {
		c.held = append(c.held, b...)
		return nil
	}
	return c.writeLocked(b)
}

func (c *conn) writeLocked(b []byte) error {
	if now := time.Now(); c.deadline.Sub(now) < writeTimeout/2 { // not at each write: it costs as much as a small one
		c.deadline = now.Add(writeTimeout)
		if err := c.nc.SetWriteDeadline(c.deadline); err != nil {
			return err
		}
	}
	_, err := c.nc.Write(b)
	if err != nil {
		// A part of a frame may be out. The close waits for the reader, which may be the caller.
		c.p.h.wg.Go(c.close)
	}
	return err
}

// hold makes writes wait; release sends what has gathered.
func (c *conn) hold() {
	c.wmu.Lock()
	c.holding = true
	c.wmu.Unlock()
}

func (c *conn) release() error {
	c.wmu.Lock()
	defer c.wmu.Unlock()
	c.holding = false
	if len(c.held) == 0 {
		return nil
	}
	err := c.writeLocked(c.held)
	c.held = c.held[:0]
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

// close closes the socket; the reader then ends and fails what was asked. It waits while the reader handles what it has
// read: no lock that handling takes may be held.
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

// readFrames reads and handles frames until the connection ends. After a read that did not fill the buffer the socket is
// empty: it waits for more without another read that would only say so.
func (c *conn) readFrames() error {
	rc, first, err := rawInput(c.nc)
	if err != nil {
		return err
	}
	buf := append(make([]byte, 0, firstBuffer), first...)
	var ended error
	err = rc.Read(func(fd uintptr) bool {
		for {
			if len(buf) == cap(buf) {
				buf = append(make([]byte, 0, 2*cap(buf)), buf...)
			}
			n, err := syscall.Read(int(fd), buf[len(buf):cap(buf)])
			switch {
			case errors.Is(err, syscall.EINTR):
				continue
			case errors.Is(err, syscall.EAGAIN):
				return false
			case err != nil:
				ended = err
				return true
			case n == 0:
				ended = io.EOF
				return true
			}
			full := len(buf)+n == cap(buf)
			if buf, ended = c.handle(buf[:len(buf)+n]); ended != nil {
				return true
			}
			if !full {
				return false
			}
		}
	})
	switch {
	case ended == nil:
		return err
	case errors.Is(ended, io.EOF) && len(buf) > 0:
		return io.ErrUnexpectedEOF
	}
	return ended
}

// handle handles the complete frames in b, sends what they lead to in one write, and moves the rest to the front.
func (c *conn) handle(b []byte) ([]byte, error) {
	c.hold()
	rest, err := c.frames(b)
	if releaseErr := c.release(); err == nil {
		err = releaseErr
	}
	return append(b[:0], rest...), err
}

// rawInput gives the socket of a connection and what was read from it already.
func rawInput(nc net.Conn) (syscall.RawConn, []byte, error) {
	var first []byte
	if r, ok := nc.(*resumed); ok {
		first, nc = r.first, r.Conn
	}
	sc, ok := nc.(syscall.Conn)
	if !ok {
		return nil, nil, fmt.Errorf("load: %T has no socket", nc)
	}
	rc, err := sc.SyscallConn()
	return rc, first, err
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
