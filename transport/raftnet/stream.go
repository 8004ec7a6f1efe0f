package raftnet

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// targetSeparator joins node id and address into the address that raft's transport dials, because its StreamLayer is
// not told the id. Node ids never contain it.
const targetSeparator = "@"

func joinTarget(id raft.ServerID, addr raft.ServerAddress) raft.ServerAddress {
	return raft.ServerAddress(string(id) + targetSeparator + string(addr))
}

// streamLayer gives raft's transport its connections. It knows every one of them, so that closing it ends them all:
// raft's own transport forgets connections in use.
type streamLayer struct {
	local  string
	dial   func(id, addr string, timeout time.Duration) (net.Conn, error)
	accept chan net.Conn
	closed chan struct{}

	mu    sync.Mutex
	conns map[*streamConn]struct{}
	done  bool
}

type streamConn struct {
	net.Conn
	layer *streamLayer
}

func newStreamLayer(local string, dial func(id, addr string, timeout time.Duration) (net.Conn, error)) *streamLayer {
	return &streamLayer{
		local: local, dial: dial, accept: make(chan net.Conn, 16), closed: make(chan struct{}),
		conns: make(map[*streamConn]struct{}),
	}
}

// add registers a connection; a closed layer closes it.
func (s *streamLayer) add(c net.Conn) (net.Conn, error) {
	sc := &streamConn{Conn: c, layer: s}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.done {
		_ = c.Close() // the layer's end is the error that counts
		return nil, net.ErrClosed
	}
	s.conns[sc] = struct{}{}
	return sc, nil
}

func (c *streamConn) Close() error {
	c.layer.mu.Lock()
	delete(c.layer.conns, c)
	c.layer.mu.Unlock()
	return c.Conn.Close()
}

// deliver hands over an accepted connection.
func (s *streamLayer) deliver(c net.Conn) {
	sc, err := s.add(c)
	if err != nil {
		return
	}
	select {
	case s.accept <- sc:
	case <-s.closed:
		_ = sc.Close() // refused because the layer ends
	}
}

// Accept implements net.Listener.
func (s *streamLayer) Accept() (net.Conn, error) {
	select {
	case c := <-s.accept:
		return c, nil
	case <-s.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener; it ends every connection of the layer.
func (s *streamLayer) Close() error {
	s.mu.Lock()
	if s.done {
		s.mu.Unlock()
		return nil
	}
	s.done = true
	close(s.closed)
	open := make([]net.Conn, 0, len(s.conns))
	for c := range s.conns {
		open = append(open, c.Conn)
	}
	s.mu.Unlock()
	var errs []error
	for _, c := range open {
		if err := c.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// Addr implements net.Listener: the address by which peers know this node.
func (s *streamLayer) Addr() net.Addr { return textAddr(s.local) }

// Dial implements raft.StreamLayer.
func (s *streamLayer) Dial(target raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	id, addr, ok := strings.Cut(string(target), targetSeparator)
	if !ok {
		return nil, fmt.Errorf("dial %q: no node id", target)
	}
	c, err := s.dial(id, addr, timeout)
	if err != nil {
		return nil, err
	}
	return s.add(c)
}

type textAddr string

func (textAddr) Network() string  { return "tcp" }
func (a textAddr) String() string { return string(a) }
