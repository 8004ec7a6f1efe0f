package sparkrpc

import (
	"errors"
	"net"
	"os"
	"syscall"
)

// errGate says that the gate closed before all was written.
var errGate = errors.New("sparkrpc: the lease has ended")

// socket is the output of a connection.
type socket interface {
	// write writes buf, asking allowed right before each write. ends are the ends of the frames in buf. n is how many
	// bytes were handed over; a frame that a layer may have taken in part counts as handed over completely. The error
	// is errGate when allowed said no.
	write(buf []byte, ends []int, allowed func() bool) (n int, err error)
}

// newSocket returns the best output for a connection. exact tells that nc counts the bytes that left this process.
func newSocket(nc net.Conn, exact bool) socket {
	if plain, ok := plainSocket(nc); ok {
		if s := newRawSocket(plain); s != nil {
			return s
		}
	}
	if exact {
		return countedSocket{nc}
	}
	return framedSocket{nc}
}

// Plain is implemented by connections that add nothing to the TCP connection under them once something was read, such
// as one whose first byte was looked at and is read again. It saves a buffer per idle connection, and lets the gate be
// asked before each system call.
type Plain interface{ PlainTCP() *net.TCPConn }

func plainTCP(nc net.Conn) (*net.TCPConn, bool) {
	switch c := nc.(type) {
	case *net.TCPConn:
		return c, true
	case Plain:
		tcp := c.PlainTCP()
		return tcp, tcp != nil
	}
	return nil, false
}

// plainSocket returns the socket of a connection that adds nothing to it, see Plain.
func plainSocket(nc net.Conn) (syscall.Conn, bool) {
	if s, ok := nc.(idleSocket); ok {
		return s, true
	}
	tcp, ok := plainTCP(nc)
	return tcp, ok
}

// countedSocket writes whole batches to a connection that counts truly.
type countedSocket struct{ nc net.Conn }

func (s countedSocket) write(buf []byte, _ []int, allowed func() bool) (int, error) {
	if !allowed() {
		return 0, errGate
	}
	return s.nc.Write(buf)
}

// framedSocket writes one frame at a time to a connection that may have sent more than it says.
type framedSocket struct{ nc net.Conn }

func (s framedSocket) write(buf []byte, ends []int, allowed func() bool) (int, error) {
	start := 0
	for _, end := range ends {
		if !allowed() {
			return start, errGate
		}
		if _, err := s.nc.Write(buf[start:end]); err != nil {
			return end, err
		}
		start = end
	}
	return start, nil
}

// idleSocket is a TCP connection that was idle (see Conn.rest), again as a net.Conn.
type idleSocket struct{ *os.File }

func (idleSocket) LocalAddr() net.Addr  { return nil }
func (idleSocket) RemoteAddr() net.Addr { return nil }
