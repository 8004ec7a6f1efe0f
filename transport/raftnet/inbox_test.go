package raftnet

import (
	"net"
	"testing"
)

type closeCounter struct {
	net.Conn
	closed bool
}

func (c *closeCounter) Close() error {
	c.closed = true
	return nil
}

func TestF4_TheOldestWaitingConnectionMakesRoom(t *testing.T) {
	in := NewInbox()
	defer in.Close()
	conns := make([]*closeCounter, maxWaiting+3)
	for i := range conns {
		conns[i] = &closeCounter{}
		in.Handle(conns[i])
	}
	for i, c := range conns {
		if c.closed != (i < 3) {
			t.Errorf("connection %d: closed %v", i, c.closed)
		}
	}
}
