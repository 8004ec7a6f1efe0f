package sparkrpc

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// rawSocket writes by system calls of its own, so that the gate is asked right before each of them, also after the
// socket was full for a while.
type rawSocket struct{ rc syscall.RawConn }

func newRawSocket(plain syscall.Conn) socket {
	rc, err := plain.SyscallConn()
	if err != nil {
		return nil
	}
	return rawSocket{rc}
}

func (s rawSocket) write(buf []byte, _ []int, allowed func() bool) (n int, err error) {
	var failed error
	err = s.rc.Write(func(fd uintptr) bool {
		for n < len(buf) {
			if !allowed() {
				failed = errGate
				return true
			}
			m, errno := unix.Write(int(fd), buf[n:])
			switch {
			case errno == unix.EINTR:
			case errno == unix.EAGAIN:
				return false
			case errno != nil:
				failed = os.NewSyscallError("write", errno)
				return true
			default:
				n += m
			}
		}
		return true
	})
	if failed != nil {
		err = failed
	}
	return n, err
}

// rawIdleReader reads by system calls of its own, so that a waiting connection holds no buffer.
type rawIdleReader struct {
	rc  syscall.RawConn
	buf *[readBufferSize]byte
	n   int
	err error
	try func(fd uintptr) bool
}

func newIdleReader(nc net.Conn) idleReader {
	plain, ok := plainSocket(nc)
	if !ok {
		return nil
	}
	rc, err := plain.SyscallConn()
	if err != nil {
		return nil
	}
	r := &rawIdleReader{rc: rc}
	r.try = r.tryRead
	return r
}

// tryRead reads once; false waits for more. Only a read that finds nothing allows to wait: the end of the connection may
// have come together with data before it, and no other event would tell of it.
func (r *rawIdleReader) tryRead(fd uintptr) bool {
	buf := readBuffers.Get().(*[readBufferSize]byte)
	for {
		n, err := unix.Read(int(fd), buf[:])
		switch {
		case err == unix.EINTR:
			continue
		case err == unix.EAGAIN:
			readBuffers.Put(buf)
			return false
		}
		r.buf, r.n, r.err = buf, max(n, 0), nil
		switch {
		case err != nil:
			r.err = os.NewSyscallError("read", err)
		case n == 0:
			r.err = io.EOF
		}
		return true
	}
}

func (r *rawIdleReader) read() (*[readBufferSize]byte, int, error) {
	r.buf, r.n, r.err = nil, 0, nil
	if err := r.rc.Read(r.try); err != nil {
		return nil, 0, err
	}
	return r.buf, r.n, r.err
}

// tuneSocket sets keep-alive and TCP_USER_TIMEOUT, so that half-open connections end.
func tuneSocket(nc net.Conn, l Limits) error {
	tcp := underlyingTCP(nc)
	if tcp == nil {
		return nil
	}
	err := tcp.SetKeepAliveConfig(net.KeepAliveConfig{
		Enable: true, Idle: l.KeepAliveIdle, Interval: l.KeepAliveInterval, Count: l.KeepAliveCount,
	})
	rc, rawErr := tcp.SyscallConn()
	if rawErr != nil {
		return errors.Join(err, rawErr)
	}
	var optErr error
	ctlErr := rc.Control(func(fd uintptr) {
		optErr = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(l.UserTimeout/time.Millisecond))
	})
	return errors.Join(err, ctlErr, optErr, tcp.SetNoDelay(true))
}
