package node

import (
	"container/list"
	"net"
	"sync"

	"raftmaster/transport/raftnet"
)

// Limits of incoming connections between masters. A healthy cluster stays far below: a peer holds one watch connection,
// a few calls, and at most a dozen raft connections.
const (
	// maxHandshakes bounds connections whose handshake is not over.
	maxHandshakes = 128
	// maxWatches bounds watch connections, of one node id and of all.
	maxWatchesPerNode = 8
	maxWatches        = 128
	// maxCallConns bounds calls, of one node id and of all; how many are answered at once is raftnet.MaxCalls.
	maxCallConnsPerNode = 8
	maxCallConns        = 128
	// maxRaftConns bounds raft connections, of one node id and of all.
	maxRaftConnsPerNode = 64
	maxRaftConns        = 512
)

// quotas bound a node's incoming connections, by kind. Each kind has its own, so that calls push no watch connection out.
type quotas struct {
	mu                               sync.Mutex // of all quotas, because a connection moves from one to another
	handshakes, watches, calls, raft quota
}

func newQuotas() *quotas {
	return &quotas{
		handshakes: quota{kind: "handshake", perKey: maxHandshakes, total: maxHandshakes, count: make(map[string]int)},
		watches:    quota{kind: "watch", perKey: maxWatchesPerNode, total: maxWatches, count: make(map[string]int)},
		calls:      quota{kind: "call", perKey: maxCallConnsPerNode, total: maxCallConns, count: make(map[string]int)},
		raft:       quota{kind: "raft", perKey: maxRaftConnsPerNode, total: maxRaftConns, count: make(map[string]int)},
	}
}

// of gives the quota of a kind of connection.
func (q *quotas) of(k raftnet.Kind) *quota {
	switch k {
	case raftnet.KindRaft:
		return &q.raft
	case raftnet.KindWatch:
		return &q.watches
	}
	return &q.calls
}

// quota bounds open connections, per key (the claimed node id) and in all. One too many closes the oldest: who connects
// anew has usually given up its old connection, and a flood displaces itself. Members are spared while there are others.
type quota struct {
	kind          string
	perKey, total int
	order         list.List // of *quotaConn, the oldest first
	count         map[string]int
}

// quotaConn is an incoming connection with a place in a quota, which it gives back when it is closed.
type quotaConn struct {
	net.Conn
	all *quotas

	// The rest belongs to all.mu.
	q      *quota        // nil when it has no place
	elem   *list.Element // in q.order
	key    string
	member bool // of raft's configuration, as far as the claimed node id tells
}

// NetConn is the connection below.
func (c *quotaConn) NetConn() net.Conn { return c.Conn }

// Close closes the connection and gives its place back.
func (c *quotaConn) Close() error {
	c.all.mu.Lock()
	c.leave()
	c.all.mu.Unlock()
	return c.Conn.Close()
}

// leave gives the place back. all.mu is held.
func (c *quotaConn) leave() {
	if c.q == nil {
		return
	}
	c.q.order.Remove(c.elem)
	if c.q.count[c.key]--; c.q.count[c.key] == 0 {
		delete(c.q.count, c.key)
	}
	c.q, c.elem = nil, nil
}

// enter moves a connection to a quota and tells whether another one (or, among members, this one) was closed for it.
func (c *quotaConn) enter(q *quota, key string, member bool) bool {
	c.all.mu.Lock()
	c.leave()
	c.q, c.key, c.member = q, key, member
	c.elem = q.order.PushBack(c)
	q.count[key]++
	victim := q.victim(key)
	if victim != nil {
		victim.leave()
	}
	c.all.mu.Unlock()
	if victim == nil {
		return false
	}
	_ = victim.Conn.Close() // its user learns about it from its own reads and writes
	return true
}

// victim is the connection to close now that one of key has come, nil when there is room. quotas.mu is held.
func (q *quota) victim(key string) *quotaConn {
	switch {
	case q.count[key] > q.perKey:
		return q.oldest(func(c *quotaConn) bool { return c.key == key })
	case q.order.Len() > q.total:
		if c := q.oldest(func(c *quotaConn) bool { return !c.member }); c != nil {
			return c
		}
		return q.oldest(func(*quotaConn) bool { return true })
	}
	return nil
}

func (q *quota) oldest(wanted func(*quotaConn) bool) *quotaConn {
	for e := q.order.Front(); e != nil; e = e.Next() {
		if c := e.Value.(*quotaConn); wanted(c) {
			return c
		}
	}
	return nil
}

// limit gives an incoming connection its place in a quota and says, once a minute, when another one had to go.
func (n *Node) limit(c *quotaConn, q *quota, nodeID, address string) {
	member := nodeID != "" && n.inConfiguration(nodeID)
	if c.enter(q, nodeID, member) && n.noise.allow("quota "+q.kind) {
		n.log.Warn("too many connections of masters, or of somebody who speaks like one: the oldest are closed",
			"kind", q.kind, "node_id", nodeID, "address", address, "remote", c.RemoteAddr().String())
	}
}
