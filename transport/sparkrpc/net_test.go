package sparkrpc

import (
	"context"
	"net"
	"testing"

	"raftmaster/transport/frame"
)

type ctx = context.Context

// listen opens a port for a scripted peer.
func listen(t testing.TB) (net.Listener, frame.Address) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeQuietlyListener(ln) })
	return ln, frame.Address{Host: "127.0.0.1", Port: int32(ln.Addr().(*net.TCPAddr).Port)}
}

func closeQuietlyListener(ln net.Listener) { _ = ln.Close() }

func accept(t testing.TB, ln net.Listener) net.Conn {
	t.Helper()
	nc, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	return nc
}

// selfConnect binds the target address and connects to it: a simultaneous open with itself.
func selfConnect(t testing.TB, target string) (net.Conn, error) {
	t.Helper()
	addr, err := net.ResolveTCPAddr("tcp", target)
	if err != nil {
		return nil, err
	}
	return net.DialTCP("tcp", addr, addr)
}
