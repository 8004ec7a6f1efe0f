package node

import (
	"context"
	"fmt"
	"net"
	"testing"

	"raftmaster/fsm"
	"raftmaster/transport/raftnet"
)

type closableConn struct {
	net.Conn
	closed bool
}

func (c *closableConn) Close() error {
	c.closed = true
	return nil
}

func enter(all *quotas, q *quota, key string, member bool) (*quotaConn, *closableConn) {
	raw := &closableConn{}
	c := &quotaConn{Conn: raw, all: all}
	c.enter(q, key, member)
	return c, raw
}

func TestF4_OneNodeClosesItsOwnOldestConnection(t *testing.T) {
	all := newQuotas()
	_, other := enter(all, &all.watches, "other", false)
	var mine []*closableConn
	for range maxWatchesPerNode + 2 {
		_, raw := enter(all, &all.watches, "n", true)
		mine = append(mine, raw)
	}
	for i, c := range mine {
		if c.closed != (i < 2) {
			t.Errorf("connection %d: closed %v", i, c.closed)
		}
	}
	if other.closed {
		t.Error("another node paid for it")
	}
}

func TestF4_MembersAreSparedWhileAStrangerIsThere(t *testing.T) {
	all := newQuotas()
	_, member := enter(all, &all.raft, "member", true)
	var strangers []*closableConn
	for i := range maxRaftConns + 5 {
		_, raw := enter(all, &all.raft, fmt.Sprint("stranger", i), false)
		strangers = append(strangers, raw)
	}
	if member.closed {
		t.Error("a member's connection was closed for a stranger's")
	}
	for i, c := range strangers {
		if c.closed != (i < 6) {
			t.Errorf("stranger %d: closed %v", i, c.closed)
		}
	}
	if got := all.raft.order.Len(); got != maxRaftConns {
		t.Errorf("%d connections", got)
	}
}

func TestF4_APlaceIsGivenBackOnce(t *testing.T) {
	all := newQuotas()
	c, _ := enter(all, &all.handshakes, "", false)
	c.enter(&all.calls, "n", false)
	if all.handshakes.order.Len() != 0 || all.calls.count["n"] != 1 {
		t.Error("the connection did not move")
	}
	for range 2 {
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if all.calls.order.Len() != 0 || len(all.calls.count) != 0 {
		t.Errorf("%d places, keys %v", all.calls.order.Len(), all.calls.count)
	}
}

// The finding itself: somebody who knows the handshake opens one connection after the other.
func TestF4_ConnectionsAfterTheHandshakeAreBounded(t *testing.T) {
	t.Parallel()
	c := startAll(t, 1, nil)
	m := c.members[0]
	flood := func(kind raftnet.Kind, count int) {
		hello := raftnet.Hello{Level: uint8(fsm.CommandLevel), Kind: kind, ClusterID: m.node.ClusterID(), NodeID: "flood", BootID: "b", Address: m.addr, Cluster: c.list}
		for i := range count {
			conn, _, err := raftnet.Dial(context.Background(), m.addr, hello, raftnet.Faults{})
			if err != nil {
				t.Fatalf("%s connection %d: %v", kind, i, err)
			}
			t.Cleanup(func() { conn.Close() })
		}
	}
	held := func(q *quota) int {
		m.node.quotas.mu.Lock()
		defer m.node.quotas.mu.Unlock()
		return q.order.Len()
	}
	flood(raftnet.KindWatch, 3*maxWatchesPerNode)
	flood(raftnet.KindCall, 2*maxCallConnsPerNode)
	flood(raftnet.KindRaft, 2*maxRaftConnsPerNode)
	eventually(t, "no more than the bounds are held", func() bool {
		m.node.mu.Lock()
		watchers, conns := len(m.node.watchers), len(m.node.conns)
		m.node.mu.Unlock()
		return watchers <= maxWatchesPerNode && conns <= maxWatchesPerNode+maxCallConnsPerNode &&
			held(&m.node.quotas.raft) <= maxRaftConnsPerNode && held(&m.node.quotas.handshakes) == 0
	})
	c.propose()
}

func TestF4_SilentHandshakesShutNobodyOut(t *testing.T) {
	t.Parallel()
	c := startAll(t, 3, nil)
	l := c.leader()
	for range 2 * maxHandshakes {
		conn, err := net.Dial("tcp", l.addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		if _, err := conn.Write([]byte{raftnet.Magic}); err != nil {
			t.Fatal(err)
		}
	}
	f := c.followers()[0]
	f.kill()
	f.start()
	c.propose()
	c.converge()
}
