package node

import (
	"errors"
	"fmt"
	"net"
	"sort"
	"sync"
	"time"

	"raftmaster/transport/raftnet"
)

// peer is another master, by the address at which it is dialled.
type peer struct {
	addr    string
	hello   raftnet.Hello // its last word; NodeID is "" until there is one
	conn    *watchConn    // the watch connection that this node dialled, nil when it is down
	problem string
	trouble string // what a connected peer says is wrong with it
	// asked: a first dial has ended. foreign is the other cluster of whoever answered the last dial, "" when none.
	asked   bool
	foreign string
	// goneBoot is the boot id of a process that is proven to have ended without a goodbye.
	goneBoot string
	// leftBoot is the boot id of a process that said goodbye.
	leftBoot string
	// poke ends a pause between dials: the peer has just shown that it is there.
	poke chan struct{}
}

// peerTable holds the other masters. Records are copied out.
type peerTable struct {
	mu     sync.Mutex
	byAddr map[string]*peer
	signal chan struct{} // closed and replaced at each change
}

func newPeerTable() *peerTable {
	return &peerTable{byAddr: make(map[string]*peer), signal: make(chan struct{})}
}

// add makes a record and tells whether it is new.
func (t *peerTable) add(addr string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byAddr[addr] != nil {
		return false
	}
	t.byAddr[addr] = &peer{addr: addr, poke: make(chan struct{}, 1)}
	return true
}

// remove forgets an address.
func (t *peerTable) remove(addr string) {
	t.mu.Lock()
	delete(t.byAddr, addr)
	t.notify()
	t.mu.Unlock()
}

// update changes a record, if it exists, and wakes whoever waits for changes.
func (t *peerTable) update(addr string, change func(*peer)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p := t.byAddr[addr]; p != nil {
		change(p)
		t.notify()
	}
}

// heard records a peer's word about itself, and the connection on which it came when that is new (else nil). A node that
// was known at another address has moved, unless it is still there: then this is another process with a copy of its data
// (*twinError), and nothing changes. contact: raft was in touch a moment ago with the node at the known address.
func (t *peerTable) heard(addr string, h raftnet.Hello, w *watchConn, contact bool) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.byAddr[addr]
	if p == nil {
		return nil
	}
	for _, other := range t.byAddr {
		if other != p && other.hello.NodeID == h.NodeID && other.isThere(h.BootID, contact) {
			return &twinError{nodeID: h.NodeID, known: other.addr, other: addr}
		}
	}
	for _, other := range t.byAddr {
		if other != p && other.hello.NodeID == h.NodeID {
			other.hello = raftnet.Hello{}
		}
	}
	p.hello = h
	if w != nil {
		p.conn = w
	}
	t.notify()
	return nil
}

// isThere tells whether a process other than that of the boot id is still at this address.
func (p *peer) isThere(bootID string, contact bool) bool {
	known := p.hello.BootID
	switch {
	case known == bootID:
		return false // one process under two names
	case p.conn != nil:
		return true
	}
	return contact && p.goneBoot != known && p.leftBoot != known
}

// twinError: two processes have one node id, because a data directory was copied.
type twinError struct{ nodeID, known, other string }

// Error names the node and both addresses.
func (e *twinError) Error() string {
	return fmt.Sprintf("two masters have the node id %s: %s and %s", e.nodeID, e.known, e.other)
}

func (t *peerTable) notify() {
	close(t.signal)
	t.signal = make(chan struct{})
}

func (t *peerTable) changed() {
	t.mu.Lock()
	t.notify()
	t.mu.Unlock()
}

// wait gives a channel that is closed at the next change.
func (t *peerTable) wait() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.signal
}

// poke makes keepWatch dial an address at once.
func (t *peerTable) poke(addr string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p := t.byAddr[addr]; p != nil {
		select {
		case p.poke <- struct{}{}:
		default:
		}
	}
}

func (t *peerTable) get(addr string) (peer, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p := t.byAddr[addr]; p != nil {
		return *p, true
	}
	return peer{}, false
}

func (t *peerTable) byID(id string) (peer, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, p := range t.byAddr {
		if p.hello.NodeID == id {
			return *p, true
		}
	}
	return peer{}, false
}

func (t *peerTable) addressOf(id string) (string, bool) {
	p, ok := t.byID(id)
	return p.addr, ok
}

// list gives all records, sorted by address.
func (t *peerTable) list() []peer {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := make([]peer, 0, len(t.byAddr))
	for _, p := range t.byAddr {
		out = append(out, *p)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].addr < out[j].addr })
	return out
}

// Times of watch connections.
const (
	pingInterval  = time.Second
	watchSilence  = 5 * time.Second // no ping for so long: the connection is dead, which proves nothing
	watchWrite    = time.Second
	redialMin     = 10 * time.Millisecond
	redialMax     = time.Second
	watchDialTime = 2 * time.Second
)

// watchConn is a watch connection with serialised writes and questions that wait for answers.
type watchConn struct {
	net.Conn
	peer raftnet.Hello // as of the handshake

	write sync.Mutex

	mu   sync.Mutex
	seq  uint64
	asks map[uint64]chan *raftnet.Answer
}

func newWatchConn(c net.Conn, h raftnet.Hello) *watchConn {
	return &watchConn{Conn: c, peer: h, asks: make(map[uint64]chan *raftnet.Answer)}
}

func (w *watchConn) send(m raftnet.WatchMessage) error {
	w.write.Lock()
	defer w.write.Unlock()
	return errors.Join(w.SetWriteDeadline(time.Now().Add(watchWrite)), writeAll(w.Conn, raftnet.AppendWatch(nil, m)))
}

func writeAll(c net.Conn, b []byte) error {
	_, err := c.Write(b)
	return err
}

// ask sends a question; the answer comes on the channel, or never.
func (w *watchConn) ask(q raftnet.Ask) (<-chan *raftnet.Answer, error) {
	w.mu.Lock()
	w.seq++
	q.Seq = w.seq
	answer := make(chan *raftnet.Answer, 1)
	w.asks[q.Seq] = answer
	w.mu.Unlock()
	return answer, w.send(&q)
}

func (w *watchConn) answered(a *raftnet.Answer) {
	w.mu.Lock()
	c := w.asks[a.Seq]
	delete(w.asks, a.Seq)
	w.mu.Unlock()
	if c != nil {
		c <- a
	}
}

// forgetAsks drops questions whose answers nobody waits for.
func (w *watchConn) forgetAsks() {
	w.mu.Lock()
	clear(w.asks)
	w.mu.Unlock()
}

// read reads messages until the connection ends.
func (w *watchConn) read(handle func(raftnet.WatchMessage)) error {
	for {
		if err := w.SetReadDeadline(time.Now().Add(watchSilence)); err != nil {
			return err
		}
		m, err := raftnet.ReadWatch(w)
		if err != nil {
			return err
		}
		switch m := m.(type) {
		case nil, *raftnet.Ping:
		case *raftnet.Answer:
			w.answered(m)
		default:
			handle(m)
		}
	}
}
