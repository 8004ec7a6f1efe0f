package security

import (
	"net"
	"testing"
)

// pipe gives both ends of a TCP connection: TLS wants one that buffers.
func pipe(t *testing.T) (net.Conn, net.Conn) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer ln.Close()
	b, err := net.Dial("tcp", ln.Addr().String())
	must(t, err)
	a, err := ln.Accept()
	must(t, err)
	return a, b
}
