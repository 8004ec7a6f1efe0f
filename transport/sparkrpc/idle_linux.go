package sparkrpc

import (
	"encoding/binary"
	"errors"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Between heartbeats a worker's connection has neither a goroutine nor a place in the runtime's poller: its socket waits
// in an epoll of the Endpoint, and one goroutine reads what arrives on all of them. A heartbeat that Conn.OnRepeat takes
// is done with there. For anything else, the end of the connection included, and for a message to be written, the
// connection gets a goroutine again, which reads on where this one stopped, until its next heartbeat.
//
// Whoever claims an idler owns its socket from then on: the goroutine of the epoll, when something has arrived, or
// wakeLocked. A connection is never closed or written to while it is idle.

// idlers are the idle connections of an Endpoint. The zero value is ready.
type idlers struct {
	mu      sync.Mutex
	poll    int           // the epoll
	bell    int           // an eventfd in it that ends the goroutine
	done    chan struct{} // closed when the goroutine has ended; nil before the first idle connection
	stopped bool
	conns   map[uint64]*idler // by Conn.id
}

// idler is one idle connection.
type idler struct {
	c  *Conn
	mu sync.Mutex // held while the socket is read
	fd int        // -1 when claimed
}

const (
	maxReady = 128 // sockets that are asked for at once
	maxReads = 4   // of one socket before the next has its turn
	// Edge-triggered: a read that returns less than was asked for has left the socket empty, and what arrives after
	// it is an event of its own, the end of the connection too. An end that came together with data is told by
	// EPOLLRDHUP in the event of that data. So no socket is read a second time to find it empty.
	idleEvents = unix.EPOLLIN | unix.EPOLLRDHUP | unix.EPOLLET
	endEvents  = unix.EPOLLRDHUP | unix.EPOLLHUP | unix.EPOLLERR
)

// start makes the epoll and its goroutine, once. Called by connections, for which Endpoint.Close waits before stop.
func (l *idlers) start() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.done != nil {
		return nil
	}
	poll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return os.NewSyscallError("epoll_create1", err)
	}
	bell, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err == nil {
		err = watch(poll, bell, unix.EPOLLIN, 0)
	}
	if err != nil {
		_ = unix.Close(poll) // nothing waits in it
		return os.NewSyscallError("eventfd", err)
	}
	l.poll, l.bell, l.done, l.conns = poll, bell, make(chan struct{}), map[uint64]*idler{}
	go l.run()
	return nil
}

// stop ends the goroutine; no connection may be left, and none may come. Stopping twice is harmless.
func (l *idlers) stop() {
	l.mu.Lock()
	done := l.done
	if done != nil && !l.stopped {
		l.stopped = true
		_, _ = unix.Write(l.bell, binary.NativeEndian.AppendUint64(nil, 1)) // a counter of 0 takes it
	}
	l.mu.Unlock()
	if done != nil {
		<-done
	}
}

// watch adds a socket to an epoll under a number above 0; 0 is the bell.
func watch(poll, fd int, events uint32, id uint64) error {
	return unix.EpollCtl(poll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: events, Fd: int32(uint32(id)), Pad: int32(uint32(id >> 32))})
}

func watched(ev *unix.EpollEvent) uint64 { return uint64(uint32(ev.Fd)) | uint64(uint32(ev.Pad))<<32 }

// add lets a connection wait.
func (l *idlers) add(w *idler) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.fd < 0 {
		return nil // claimed already
	}
	l.mu.Lock()
	l.conns[w.c.id] = w
	l.mu.Unlock()
	return os.NewSyscallError("epoll_ctl", watch(l.poll, w.fd, idleEvents, w.c.id))
}

// claim takes a connection out; false when somebody else did.
func (l *idlers) claim(w *idler) (fd int, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return l.claimHeld(w)
}

// claimHeld is claim for who holds w.mu.
func (l *idlers) claimHeld(w *idler) (fd int, ok bool) {
	if fd = w.fd; fd < 0 {
		return -1, false
	}
	w.fd = -1
	_ = unix.EpollCtl(l.poll, unix.EPOLL_CTL_DEL, fd, nil) // it is not in when add failed
	l.mu.Lock()
	delete(l.conns, w.c.id)
	l.mu.Unlock()
	return fd, true
}

// run reads what arrives until the bell rings.
func (l *idlers) run() {
	defer close(l.done)
	defer func() {
		_ = unix.Close(l.poll) // nothing waits in it any more
		_ = unix.Close(l.bell)
	}()
	ready := make([]unix.EpollEvent, maxReady)
	found := make([]*idler, maxReady)
	buf := readBuffers.Get().(*[readBufferSize]byte)
	defer func() { readBuffers.Put(buf) }()
	for {
		n, err := unix.EpollWait(l.poll, ready, -1)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			panic("sparkrpc: epoll_wait: " + err.Error()) // its arguments are constants
		}
		l.mu.Lock()
		stopped := l.stopped
		for i := range ready[:n] {
			found[i] = l.conns[watched(&ready[i])] // nil for the bell, and for one claimed meanwhile
		}
		l.mu.Unlock()
		if stopped {
			return
		}
		for i, w := range found[:n] {
			if w != nil {
				buf = l.serve(w, buf, ready[i].Events&endEvents != 0)
				found[i] = nil
			}
		}
	}
}

// serve takes the heartbeats that have arrived on one socket, with one read if they are few. When there is something else,
// or no end of them, the connection gets its goroutine and the buffer; serve returns the buffer to use next.
func (l *idlers) serve(w *idler, buf *[readBufferSize]byte, end bool) *[readBufferSize]byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.fd < 0 {
		return buf
	}
	used, n := 0, 0
	for range maxReads {
		if end {
			break // the goroutine reads up to it
		}
		n = copy(buf[:], buf[used:n])
		m, err := readSocket(w.fd, buf[n:])
		if err == unix.EAGAIN && n == 0 {
			return buf
		}
		n += max(m, 0) // the goroutine will meet the end, or an error, again
		if used = w.c.taken(buf[:n]); used == n && m > 0 && n < len(buf) {
			return buf
		}
		end = n < len(buf) || used == 0
	}
	fd, _ := l.claimHeld(w)
	go w.c.resume(fd, buf, used, n)
	return readBuffers.Get().(*[readBufferSize]byte)
}

func readSocket(fd int, buf []byte) (int, error) {
	for {
		n, err := unix.Read(fd, buf)
		if err != unix.EINTR {
			return n, err
		}
	}
}

// rest makes the connection idle, if it is a plain socket with nothing to do. The reader goroutine, which calls it between
// two frames, has to end when it returns true.
func (c *Conn) rest() bool {
	sock, ok := plainSocket(c.nc)
	if !ok || c.e.idlers.start() != nil {
		return false // without an epoll it reads on as ever
	}
	c.e.mu.Lock()
	busy := c.e.closed || c.closed.Load() || c.writing || c.hasWorkLocked()
	c.ready = busy
	c.e.mu.Unlock()
	if busy {
		return false
	}
	fd, err := dup(sock)
	if err != nil { // out of files, or closed
		c.e.mu.Lock()
		c.ready = true
		c.e.kickConnLocked(c)
		c.e.mu.Unlock()
		return false
	}
	closeQuietly(c.nc) // leaves the runtime's poller; the connection lives on in fd
	w := &idler{c: c, fd: fd}
	c.in.rest()
	c.e.mu.Lock()
	c.raw, c.nc, c.sock, c.idle = nil, nil, nil, w
	if c.closed.Load() || c.hasWorkLocked() {
		c.e.wakeLocked(c)
	}
	c.e.mu.Unlock()
	if err := c.e.idlers.add(w); err != nil {
		c.e.mu.Lock()
		c.e.wakeLocked(c)
		c.e.mu.Unlock()
	}
	return true
}

// dup returns the socket under another number, which belongs to the caller.
func dup(sock syscall.Conn) (fd int, err error) {
	rc, err := sock.SyscallConn()
	if err != nil {
		return -1, err
	}
	ctlErr := rc.Control(func(old uintptr) { fd, err = unix.FcntlInt(old, unix.F_DUPFD_CLOEXEC, 0) })
	return fd, errors.Join(ctlErr, err)
}

// wakeLocked gives an idle connection its goroutine back.
func (e *Endpoint) wakeLocked(c *Conn) {
	w := c.idle
	if w == nil {
		return
	}
	c.idle = nil
	e.wg.Go(func() { // not too late for Close: a connection has a count of its own
		if fd, ok := e.idlers.claim(w); ok {
			c.resume(fd, nil, 0, 0)
		}
	})
}

// resume is the reader goroutine of a connection that was idle. buf[used:n] has been read of what comes next; without buf
// nothing.
func (c *Conn) resume(fd int, buf *[readBufferSize]byte, used, n int) {
	nc := idleSocket{os.NewFile(uintptr(fd), "connection")}
	c.in.resume(nc, buf, used, n)
	c.e.mu.Lock()
	c.idle = nil
	c.raw, c.nc, c.sock, c.ready = nc, nc, newSocket(nc, true), true
	c.e.kickConnLocked(c)
	c.e.mu.Unlock()
	if c.closed.Load() {
		closeQuietly(nc) // closed while it was idle
	}
	c.serve()
}
