package portmux

import (
	"container/list"
	"net"
	"net/netip"
	"sync"
	"time"
)

// conn is an accepted connection whose first byte has been looked at and is read again. Reads follow the rules of
// net.Conn: the peeked byte is consumed by the first Read, which must not run beside another.
type conn struct {
	net.Conn
	mux    *Mux
	ip     netip.Addr
	member bool          // its address is preferred
	silent *list.Element // in the Mux's list of connections without a first byte, else nil
	first  [1]byte
	peeked bool
	once   sync.Once
	err    error
}

// peek reads the first byte within the time given and keeps it for Read.
func (c *conn) peek(timeout time.Duration) (byte, error) {
	if err := c.SetReadDeadline(time.Now().Add(timeout)); err != nil {
		return 0, err
	}
	if _, err := c.Conn.Read(c.first[:]); err != nil {
		return 0, err
	}
	c.peeked = true
	return c.first[0], c.SetReadDeadline(time.Time{})
}

// Read gives the peeked byte first, together with what is there already.
func (c *conn) Read(p []byte) (int, error) {
	if !c.peeked || len(p) == 0 {
		return c.Conn.Read(p)
	}
	c.peeked = false
	p[0] = c.first[0]
	return 1, nil
}

// PlainTCP returns the TCP connection underneath, to which this one adds nothing once the first byte has been read again;
// nil when it is not TCP. Closing has to go through this connection.
func (c *conn) PlainTCP() *net.TCPConn {
	tcp, _ := c.Conn.(*net.TCPConn)
	return tcp
}

// Close closes the connection, once.
func (c *conn) Close() error {
	c.once.Do(func() {
		c.err = c.Conn.Close()
		c.mux.forget(c)
	})
	return c.err
}
