package sparkrpc

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"raftmaster/transport/frame"
)

const (
	readBufferSize = 4 << 10
	// partialFree is how much of an incomplete frame is not counted against Limits.MaxPartialBytes.
	partialFree = 64 << 10
)

var errPartialBudget = errors.New("sparkrpc: too many bytes of incomplete frames")

// readBuffers holds *[readBufferSize]byte. An idle connection on a plain socket holds none.
var readBuffers = sync.Pool{New: func() any { return new([readBufferSize]byte) }}

// connReader is the buffered input of one connection. It belongs to the reader goroutine.
type connReader struct {
	c    *Conn
	nc   net.Conn
	idle idleReader // nil when the stack cannot be waited for without a buffer; used after the first frame

	buf   *[readBufferSize]byte
	r, w  int
	got   int64 // bytes received for the current frame, read-ahead included
	held  int64 // of them, counted in Endpoint.partial
	timed bool  // a read deadline is set
	begun bool  // something was read
}

// idleReader waits for input and only then takes a buffer.
type idleReader interface {
	// read waits until the socket is readable, takes a buffer from readBuffers and reads once into it.
	read() (*[readBufferSize]byte, int, error)
}

func newConnReader(c *Conn) *connReader {
	return &connReader{c: c, nc: c.nc, idle: newIdleReader(c.nc)}
}

// wait blocks until a frame has begun to arrive. Between frames there is no deadline, but for the first one.
func (r *connReader) wait() error {
	if r.r < r.w {
		return nil
	}
	if r.idle == nil || !r.begun {
		r.begun = true
		return r.fill()
	}
	r.release()
	buf, n, err := r.idle.read()
	r.buf, r.r, r.w = buf, 0, n
	if err != nil {
		return err
	}
	return r.account(n)
}

// Read implements io.Reader for frame.Reader.
func (r *connReader) Read(p []byte) (int, error) {
	if r.r == r.w {
		if err := r.deadline(); err != nil {
			return 0, err
		}
		if len(p) >= readBufferSize {
			n, err := r.nc.Read(p)
			if n > 0 {
				if over := r.account(n); over != nil {
					return 0, over
				}
			}
			return n, err
		}
		if err := r.fill(); err != nil {
			return 0, err
		}
	}
	n := copy(p, r.buf[r.r:r.w])
	r.r += n
	return n, nil
}

// gather returns the next n bytes, at most readBufferSize, without taking them; it waits for them within the deadline of
// a frame.
func (r *connReader) gather(n int) ([]byte, error) {
	for r.w-r.r < n {
		if err := r.deadline(); err != nil {
			return nil, err
		}
		if err := r.fill(); err != nil {
			return nil, err
		}
	}
	return r.buf[r.r : r.r+n], nil
}

// fill reads once, behind what is in the buffer.
func (r *connReader) fill() error {
	if r.buf == nil {
		r.buf = readBuffers.Get().(*[readBufferSize]byte)
	}
	if r.r > 0 {
		r.r, r.w = 0, copy(r.buf[:], r.buf[r.r:r.w])
	}
	n, err := r.nc.Read(r.buf[r.w:])
	r.w += n
	if n > 0 {
		return r.account(n) // an error comes again with the next read
	}
	if err == nil {
		err = io.ErrNoProgress
	}
	return err
}

// deadline limits the time of a frame that did not arrive in one piece. The first frame has its own deadline.
func (r *connReader) deadline() error {
	if r.timed {
		return nil
	}
	r.timed = true
	return r.nc.SetReadDeadline(time.Now().Add(r.c.e.limits.Frame))
}

// account charges the bytes of a long incomplete frame to the budget of all connections.
func (r *connReader) account(n int) error {
	r.got += int64(n)
	over := r.got - partialFree - r.held
	if over <= 0 {
		return nil
	}
	r.held += over
	if r.c.e.partial.Add(over) > r.c.e.limits.MaxPartialBytes {
		return errPartialBudget
	}
	return nil
}

// endFrame is called after each complete frame.
func (r *connReader) endFrame() error {
	r.got = int64(r.w - r.r)
	r.c.e.partial.Add(-r.held)
	r.held = 0
	if r.timed {
		r.timed = false
		return r.nc.SetReadDeadline(time.Time{})
	}
	return nil
}

// empty tells that nothing has been read of the next frame.
func (r *connReader) empty() bool { return r.r == r.w }

// rest lets go of the socket and the buffer.
func (r *connReader) rest() {
	r.release()
	r.nc, r.idle = nil, nil
}

// resume goes on with the same connection in another form; buf[used:n] has been read already, without buf nothing.
func (r *connReader) resume(nc net.Conn, buf *[readBufferSize]byte, used, n int) {
	r.nc, r.idle = nc, newIdleReader(nc)
	r.buf, r.r, r.w = buf, used, n
	r.got = int64(n - used)
}

// release returns the buffer to the pool.
func (r *connReader) release() {
	if r.buf != nil {
		readBuffers.Put(r.buf)
		r.buf, r.r, r.w = nil, 0, 0
	}
}

// begin prepares for the first frame.
func (c *Conn) begin() error {
	c.in = newConnReader(c)
	c.frames = frame.NewReader(c.in)
	if !c.accepted {
		return nil
	}
	c.in.timed = true
	return c.nc.SetReadDeadline(c.opened.Add(c.e.limits.FirstFrame))
}

// serve is the reader goroutine. It reads until the connection has ended or is idle.
func (c *Conn) serve() {
	for {
		if c.settled && c.in.empty() {
			c.settled = false
			if c.rest() {
				return
			}
		}
		if err := c.readFrame(); err != nil {
			break
		}
	}
	c.in.release()
	c.e.partial.Add(-c.in.held)
	c.e.end(c)
}

// readFrame reads one frame and handles it. After an error it has closed the connection.
func (c *Conn) readFrame() error {
	r := c.in
	if err := r.wait(); err != nil {
		return c.ended(err)
	}
	again, err := c.repeated(r)
	if again {
		err = r.endFrame()
		c.settled = true
	}
	if again || err != nil {
		return c.ended(err)
	}
	// After wait, so that a raised limit holds for a frame that began to arrive after SetTrusted.
	if c.trusted.Load() {
		c.frames.SetMaxFrame(c.e.limits.MaxTrustedFrame)
	} else {
		c.frames.SetMaxFrame(c.e.limits.MaxFrame)
	}
	f, err := c.frames.Next()
	if err == nil {
		err = r.endFrame()
	}
	if err != nil {
		return c.ended(err)
	}
	c.countIn()
	c.settled = false
	if err := c.dispatch(f); err != nil {
		c.fail(err, true)
		return err
	}
	return nil
}

func (c *Conn) countIn() {
	c.e.stats.framesIn.Add(1)
	if c.e.cfg.Metrics.FrameIn != nil {
		c.e.cfg.Metrics.FrameIn()
	}
}

// ended closes the connection after a read error, and says whether the peer misbehaved. It returns the error.
func (c *Conn) ended(err error) error {
	switch {
	case err == nil:
	case errors.Is(err, io.EOF), errors.Is(err, net.ErrClosed), errors.Is(err, io.ErrUnexpectedEOF),
		errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, syscall.ETIMEDOUT):
		c.fail(err, false)
	case errors.Is(err, os.ErrDeadlineExceeded):
		c.fail(fmt.Errorf("frame not complete in time: %w", err), true)
	default:
		c.fail(err, true)
	}
	return err
}
