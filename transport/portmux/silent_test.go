package portmux

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
)

// remoteConn is a silent connection from an address of the test's choice.
type remoteConn struct {
	net.Conn
	addr   net.Addr
	closed bool
}

func (c *remoteConn) RemoteAddr() net.Addr { return c.addr }

func (c *remoteConn) Close() error {
	c.closed = true
	return nil
}

// silentFrom registers a connection without serving it, so that it stays silent.
func silentFrom(t *testing.T, m *Mux, ip string) (*remoteConn, bool) {
	t.Helper()
	rc := &remoteConn{addr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(ip), 4000))}
	_, ok := m.track(rc)
	return rc, ok
}

// stranger gives distinct addresses.
func stranger(i int) string { return fmt.Sprintf("10.1.%d.%d", i/250, 1+i%250) }

func TestF3_TheOldestSilentConnectionMakesRoom(t *testing.T) {
	m := newMux(Handlers{}, hclog.NewNullLogger())
	var conns []*remoteConn
	for i := range MaxUnidentified + 10 {
		c, ok := silentFrom(t, m, stranger(i))
		if !ok {
			t.Fatalf("newcomer %d was turned away", i)
		}
		conns = append(conns, c)
	}
	for i, c := range conns {
		if c.closed != (i < 10) {
			t.Errorf("connection %d: closed %v", i, c.closed)
		}
	}
	if m.silent.Len() != MaxUnidentified || m.Dropped() != 10 {
		t.Errorf("%d silent, %d dropped", m.silent.Len(), m.Dropped())
	}
}

func TestF3_OneAddressHasItsOwnBound(t *testing.T) {
	m := newMux(Handlers{}, hclog.NewNullLogger())
	other, _ := silentFrom(t, m, "127.0.0.1")
	var conns []*remoteConn
	for range MaxUnidentifiedPerIP + 3 {
		c, ok := silentFrom(t, m, "127.0.0.2") // loopback addresses differ like others
		if !ok {
			t.Fatal("a newcomer was turned away")
		}
		conns = append(conns, c)
	}
	mapped, ok := silentFrom(t, m, "::ffff:127.0.0.2") // the same address
	if !ok || mapped.closed || other.closed {
		t.Errorf("newcomer taken: %v, closed: %v; the other address: closed %v", ok, mapped.closed, other.closed)
	}
	for i, c := range conns {
		if c.closed != (i < 4) {
			t.Errorf("connection %d: closed %v", i, c.closed)
		}
	}
}

func TestF3_MastersAreSparedWhileAStrangerIsThere(t *testing.T) {
	isMaster := func(ip netip.Addr) bool { return netip.MustParsePrefix("10.9.0.0/16").Contains(ip) }
	m := newMux(Handlers{Preferred: isMaster}, hclog.NewNullLogger())
	master := func(i int) string { return fmt.Sprintf("10.9.%d.%d", i/250, 1+i%250) }
	var masters, strangers []*remoteConn
	for i := range MaxUnidentified - 1 {
		c, _ := silentFrom(t, m, master(i))
		masters = append(masters, c)
	}
	for i := range 2 {
		c, _ := silentFrom(t, m, stranger(i))
		strangers = append(strangers, c)
	}
	if !strangers[0].closed || strangers[1].closed || masters[0].closed {
		t.Errorf("closed: strangers %v %v, master %v", strangers[0].closed, strangers[1].closed, masters[0].closed)
	}
	if c, ok := silentFrom(t, m, master(2000)); !ok || c.closed || !strangers[1].closed {
		t.Error("a master did not take the place of the last stranger")
	}
	if c, ok := silentFrom(t, m, stranger(9)); ok || !c.closed {
		t.Error("a stranger took the place of a master")
	}
	if c, ok := silentFrom(t, m, master(2001)); !ok || c.closed || !masters[0].closed {
		t.Error("among masters, the oldest does not make room")
	}
}

// The finding itself, over TCP: silent connections up to the bound and beyond, and somebody who has something to say.
func TestF3_SilentConnectionsShutNobodyOut(t *testing.T) {
	m, got, logs := start(t)
	for range 3 * MaxUnidentifiedPerIP {
		dial(t, m)
	}
	c := dial(t, m)
	if _, err := c.Write([]byte{Magic, 1}); err != nil {
		t.Fatal(err)
	}
	if err := c.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	select {
	case s := <-got:
		if s.kind != "internal" {
			t.Errorf("handled as %s", s.kind)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("not served")
	}
	if d := m.Dropped(); d < 2*MaxUnidentifiedPerIP {
		t.Errorf("%d dropped", d)
	}
	if n := strings.Count(logs.String(), "too many silent connections"); n != 1 {
		t.Errorf("%d lines, want 1", n)
	}
}

// A connection that speaks keeps its place, and no longer counts.
func TestF3_ConnectionsThatHaveSpokenAreNotClosed(t *testing.T) {
	m, got, _ := start(t)
	early := dial(t, m)
	if _, err := early.Write([]byte{0}); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
		m.mu.Lock()
		known, silent := len(m.conns), m.silent.Len()
		m.mu.Unlock()
		if known == 1 && silent == 0 {
			break
		}
		if time.Now().After(end) {
			t.Fatal("not identified in time")
		}
	}
	for range 2 * MaxUnidentifiedPerIP {
		dial(t, m)
	}
	if _, err := io.WriteString(early, "more"); err != nil {
		t.Fatal(err)
	}
	if err := early.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if s := <-got; string(s.data) != "\x00more" {
		t.Errorf("got %q", s.data)
	}
}
