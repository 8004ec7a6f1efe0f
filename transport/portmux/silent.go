package portmux

import (
	"errors"
	"net"
	"net/netip"
)

// errDropped is the end of a connection that spoke at the very moment when it was closed to make room.
var errDropped = errors.New("closed to make room")

// track registers a connection, and closes another one, or this one, if too many are silent. It tells false when the
// connection is not to be served.
func (m *Mux) track(nc net.Conn) (*conn, bool) {
	c := &conn{Conn: nc, mux: m, ip: remoteIP(nc)}
	c.member = m.handlers.Preferred != nil && m.handlers.Preferred(c.ip)
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return nil, false
	}
	m.conns[c] = struct{}{}
	c.silent = m.silent.PushBack(c)
	m.perIP[c.ip]++
	victim := m.victim(c.ip)
	if victim != nil {
		m.unlist(victim)
	}
	if victim != c {
		m.done.Add(1)
	}
	m.mu.Unlock()
	if victim != nil {
		m.drop(victim)
	}
	return c, victim != c
}

// victim is the silent connection to close now that one of ip has come, nil when there is room. m.mu is held.
func (m *Mux) victim(ip netip.Addr) *conn {
	switch {
	case m.perIP[ip] > MaxUnidentifiedPerIP:
		return m.oldest(func(c *conn) bool { return c.ip == ip })
	case m.silent.Len() > MaxUnidentified:
		if c := m.oldest(func(c *conn) bool { return !c.member }); c != nil {
			return c
		}
		return m.oldest(func(*conn) bool { return true })
	}
	return nil
}

func (m *Mux) oldest(wanted func(*conn) bool) *conn {
	for e := m.silent.Front(); e != nil; e = e.Next() {
		if c := e.Value.(*conn); wanted(c) {
			return c
		}
	}
	return nil
}

// unlist takes a connection out of the silent ones. m.mu is held.
func (m *Mux) unlist(c *conn) {
	m.silent.Remove(c.silent)
	c.silent = nil
	if m.perIP[c.ip]--; m.perIP[c.ip] == 0 {
		delete(m.perIP, c.ip)
	}
}

// identified ends the time in which a connection may be closed to make room; it tells false when that has happened.
func (m *Mux) identified(c *conn) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if c.silent == nil {
		return false
	}
	m.unlist(c)
	return true
}

func (m *Mux) drop(c *conn) {
	total := m.dropped.Add(1)
	if m.noise.allow("dropped") {
		m.log.Warn("too many silent connections on the cluster port: the oldest are closed", "remote", c.RemoteAddr().String(), "dropped_so_far", total)
	}
	_ = c.Close() // wakes its reader, which ends
}

// remoteIP is the remote address without port; the zero Addr stands for all that have none.
func remoteIP(nc net.Conn) netip.Addr {
	ap, err := netip.ParseAddrPort(nc.RemoteAddr().String())
	if err != nil {
		return netip.Addr{}
	}
	return ap.Addr().Unmap().WithZone("")
}
