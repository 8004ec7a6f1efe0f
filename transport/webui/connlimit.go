package webui

import (
	"net"
	"sync"
)

// limitListener closes accepted connections beyond a number in all and per remote IP at once, before a byte is read or a
// goroutine started for them. Waiting instead would let one caller keep everybody else, health checks included, in the
// backlog.
type limitListener struct {
	net.Listener
	maximum, perIP int
	// refused is called for each connection that is closed.
	refused func()

	mu   sync.Mutex
	open int
	byIP map[string]int
}

func newLimitListener(ln net.Listener, maximum, perIP int) *limitListener {
	return &limitListener{Listener: ln, maximum: maximum, perIP: perIP, refused: func() {}, byIP: make(map[string]int)}
}

// Accept implements net.Listener.
func (l *limitListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		ip := remoteIP(c)
		if l.take(ip) {
			l.boundBuffer(c)
			return &limitedConn{Conn: c, release: sync.OnceFunc(func() { l.give(ip) })}, nil
		}
		l.refused()
		_ = c.Close() // nothing was sent, and there is nobody to tell
	}
}

// sendBuffer is what the kernel may hold of an answer for a reader that does not read. Left to itself it grows to some
// megabytes for each connection, which takes whole lists in, out of reach of the deadlines.
const sendBuffer = 128 << 10

func (l *limitListener) boundBuffer(c net.Conn) {
	if t, ok := c.(*net.TCPConn); ok {
		_ = t.SetWriteBuffer(sendBuffer) // a connection that is broken already shows it at its first read
	}
}

func remoteIP(c net.Conn) string {
	if a, ok := c.RemoteAddr().(*net.TCPAddr); ok {
		return a.IP.String()
	}
	return c.RemoteAddr().String()
}

func (l *limitListener) take(ip string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open >= l.maximum || l.byIP[ip] >= l.perIP {
		return false
	}
	l.open++
	l.byIP[ip]++
	return true
}

func (l *limitListener) give(ip string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open--
	if l.byIP[ip]--; l.byIP[ip] == 0 {
		delete(l.byIP, ip)
	}
}

// limitedConn gives its place back when it is closed.
type limitedConn struct {
	net.Conn
	release func()
}

// Close implements net.Conn.
func (c *limitedConn) Close() error {
	defer c.release()
	return c.Conn.Close()
}
