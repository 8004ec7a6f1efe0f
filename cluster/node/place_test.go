package node

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"raftmaster/cluster/raftstore"
	"raftmaster/transport/raftnet"
)

func (m *member) fatalError() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.fatal
}

// alarmed tells whether one of a member's alarms contains the text.
func (m *member) alarmed(text string) bool {
	return slices.ContainsFunc(m.node.Status().Alarms, func(a string) bool { return strings.Contains(a, text) })
}

// withList gives a member another cluster list.
func withList(list ...string) func(*Config) {
	return func(cfg *Config) { cfg.Cluster = list }
}

// aloneAt makes a cluster of one at an address, stops it, and returns its data directory and id.
func aloneAt(t *testing.T, addr string) (dir, clusterID string) {
	t.Helper()
	c := newCluster(t, 1)
	m := c.members[0]
	m.addr, m.edit = addr, withList(addr)
	c.list = []string{addr}
	m.start()
	c.leader()
	clusterID = m.node.ClusterID()
	m.kill()
	return m.dir, clusterID
}

// halts waits until a member ends by name, and checks that it has never led.
func (m *member) halts(t *testing.T, texts ...string) {
	t.Helper()
	eventually(t, m.addr+" halts", func() bool { return m.fatalError() != nil })
	err := m.fatalError()
	if !errors.Is(err, raftstore.ErrOtherCluster) {
		t.Errorf("it ends with %v", err)
	}
	for _, text := range append(texts, m.dir) {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("%q does not name %s", err, text)
		}
	}
	if m.node.LeaseValid() {
		t.Error("it has a lease")
	}
}

// R11: the data directory of another cluster, of one voter, does not lead at an address of this one.
func TestALoneVoterDoesNotLeadInTheListOfOthers(t *testing.T) {
	t.Parallel()
	c := startAll(t, 3, nil)
	lost := c.followers()[0]
	lost.kill()
	ours := c.leader().node.ClusterID()
	elsewhere, theirs := aloneAt(t, newHosts(1)[0])
	sameAddress, theirs2 := aloneAt(t, lost.addr)

	lost.dir = elsewhere
	lost.start()
	lost.halts(t, theirs, lost.addr)
	lost.kill()

	lost.dir = sameAddress
	lost.start()
	lost.halts(t, theirs2, ours)
	lost.mu.Lock()
	if len(lost.elected) > 0 {
		t.Errorf("it was elected: %v", lost.elected)
	}
	lost.mu.Unlock()
	l := c.leader()
	eventually(t, "the alarm at the leader", func() bool { return l.alarmed(lost.addr + " belongs to cluster " + theirs2) })
	lost.kill()

	lost.dir = t.TempDir() // no data at all
	lost.start()
	eventually(t, "another alarm in its place", func() bool {
		return l.alarmed(lost.addr+" has no data") && !l.alarmed(theirs2)
	})
	c.propose()
	for _, m := range c.running() {
		if m.fatalError() != nil {
			t.Errorf("%s ends: %v", m.addr, m.fatalError())
		}
	}
}

// When the others are down at its start, nothing tells a lone voter from one that an operator is about to give company.
func TestALoneVoterYieldsToTheMajorityOfItsList(t *testing.T) {
	slow(t)
	t.Parallel()
	c := startAll(t, 3, nil)
	ours := c.leader().node.ClusterID()
	for _, m := range c.members {
		m.kill()
	}
	alone := c.members[0]
	dir, theirs := aloneAt(t, alone.addr)
	alone.dir = dir
	alone.start()
	eventually(t, "it leads", alone.node.LeaseValid)
	c.members[1].start()
	eventually(t, "the alarm about one stranger", func() bool { return alone.alarmed("belongs to cluster " + ours) })
	if alone.fatalError() != nil || !alone.node.LeaseValid() {
		t.Errorf("one stranger of three ends a lone master: %v", alone.fatalError())
	}
	c.members[2].start()
	alone.halts(t, theirs, ours)
	alone.kill()
	c.propose()
}

func TestTwoLoneVotersInOneListDoNotBothLead(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 2)
	for _, m := range c.members {
		m.dir, _ = aloneAt(t, m.addr)
	}
	c.members[0].start()
	eventually(t, "the first leads", c.members[0].node.LeaseValid)
	c.members[1].start()
	c.members[1].halts(t, c.members[0].addr)
	if !c.members[0].node.LeaseValid() {
		t.Error("the newcomer has ended the first")
	}
}

// A cluster of one grows to three: the first master gets the longer list while the others are down, or fresh.
func TestALoneMasterGrowsToThree(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"with its old list", "restarted with the new list"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, 3)
			first := c.members[0]
			first.edit = withList(first.addr)
			first.start()
			id := c.propose()
			if how != "with its old list" {
				first.kill()
				first.edit = nil
				first.start()
				eventually(t, "it leads beside masters that are down", first.node.LeaseValid)
			}
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			for _, m := range c.members[1:] {
				m.start()
				if err := first.node.AddPeer(ctx, m.node.NodeID(), m.addr, false); err != nil {
					t.Fatal(err)
				}
				eventually(t, "it has the log", func() bool { return m.node.ClusterID() == first.node.ClusterID() && m.has(id) })
				if err := first.node.AddPeer(ctx, m.node.NodeID(), m.addr, true); err != nil {
					t.Fatal(err)
				}
			}
			c.propose()
			c.converge()
			eventually(t, "everybody watches everybody", c.connected)
			if how == "with its old list" {
				other := c.members[1]
				eventually(t, "the alarm about its list", func() bool { return other.alarmed("lists differ") })
				first.kill()
				first.edit = nil
				first.start()
				eventually(t, "the alarm is over", func() bool { return !other.alarmed("lists differ") && c.connected() })
			}
			for _, m := range c.members {
				eventually(t, "no alarm at "+m.addr, func() bool { return !m.alarmed(c.list[0]) && !m.alarmed(c.list[1]) && !m.alarmed(c.list[2]) })
			}
			c.propose()
		})
	}
}

// A lone master moves to a new address when its list names that one alone; it grows afterwards.
func TestALoneMasterMoves(t *testing.T) {
	t.Parallel()
	hosts := newHosts(2)
	dir, clusterID := aloneAt(t, hosts[0])
	c := newCluster(t, 1)
	m := c.members[0]
	m.dir, m.addr, c.list = dir, hosts[1], []string{hosts[1]}
	m.start()
	c.leader()
	if m.node.ClusterID() != clusterID {
		t.Errorf("it is of cluster %s", m.node.ClusterID())
	}
	eventually(t, "the new address is in the configuration", func() bool {
		return isAt(m.node.inst.Load().raft.GetConfiguration().Configuration().Servers, m.node.NodeID(), m.addr)
	})
}

// A voter whose disk is lost: while the other two run, its old id is removed and the new one added at the same address.
func TestALostVoterIsReplacedAtItsAddress(t *testing.T) {
	t.Parallel()
	c := startAll(t, 3, nil)
	id := c.propose()
	lost := c.followers()[0]
	old := lost.node.NodeID()
	lost.kill()
	l := c.leader()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := l.node.RemovePeer(ctx, old, false); err != nil {
		t.Fatalf("remove a voter that is down: %v", err)
	}
	lost.dir = t.TempDir()
	lost.start()
	eventually(t, "the leader knows the newcomer", func() bool {
		p, ok := l.node.peers.byID(lost.node.NodeID())
		return ok && p.conn != nil && l.alarmed(lost.addr+" has no data")
	})
	eventually(t, "the newcomer complains", func() bool { return lost.alarmed("no data here") })
	if err := l.node.AddPeer(ctx, lost.node.NodeID(), lost.addr, true); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it has the log", func() bool { return lost.has(id) })
	for _, m := range c.members {
		eventually(t, "no alarm at "+m.addr, func() bool { return !m.alarmed("no data") })
	}
	c.propose()
	c.converge()
	// It is a full voter: it carries the majority with the leader.
	eventually(t, "everybody watches everybody", c.connected)
	for _, m := range c.followers() {
		if m != lost {
			m.kill()
		}
	}
	c.propose()
	c.converge()
}

// R11: an order to take over that a stopped process finds when it wakes up, beside heartbeats, deposes nobody.
func TestAnOrderThatWaitedDeposesNobody(t *testing.T) {
	slow(t)
	t.Parallel()
	c := startAll(t, 3, nil)
	c.propose()
	l, f := c.leader(), c.followers()[0]
	hold, held := make(chan struct{}), make(chan struct{}, 8)
	c.net.onDeliver(f.addr, func(kind string) error {
		if kind == "TimeoutNow" {
			held <- struct{}{}
			<-hold
		}
		return nil
	})
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if tr, err := l.node.TransferLeadership(ctx, f.node.NodeID()); err == nil {
		t.Fatalf("transferred to a target that does not answer: %+v", tr)
	}
	<-held
	eventually(t, "the leader leads on", l.node.LeaseValid)
	term := l.node.Status().Term
	close(hold)
	time.Sleep(3 * testTimeout)
	if now := l.node.Status().Term; now != term || !l.node.LeaseValid() {
		t.Errorf("term %d became %d, lease: %v", term, now, l.node.LeaseValid())
	}
	c.net.onDeliver(f.addr, nil)
	c.propose()
	eventually(t, "a transfer to the same target", func() bool {
		_, err := c.leader().node.TransferLeadership(ctx, f.node.NodeID())
		return err == nil || c.leader() == f
	})
}

// Redials come from new ports, and give one line a minute; so do callers that invent names, within the bound.
func TestRefusalsDoNotFloodTheLog(t *testing.T) {
	t.Parallel()
	c := startAll(t, 1, nil)
	m := c.members[0]
	stranger := raftnet.Hello{Kind: raftnet.KindWatch, ClusterID: "another", NodeID: "n", BootID: "b", Address: "far:7077", Cluster: []string{"far:7077"}}
	for range 20 {
		conn, _, err := raftnet.Dial(context.Background(), m.addr, stranger, raftnet.Faults{})
		var r *raftnet.RefusedError
		if !errors.As(err, &r) {
			t.Fatalf("connection %v, %v", conn, err)
		}
	}
	count := func() int { return strings.Count(m.logs.String(), "connection between masters refused") }
	eventually(t, "the line", func() bool { return count() > 0 })
	if got := count(); got != 1 {
		t.Errorf("%d lines for one caller:\n%s", got, m.logs.String())
	}
	var x noise
	allowed := 0
	for i := range 3 * maxNoiseKeys {
		if x.allow(net.JoinHostPort("h", string(rune('a'+i%26))+strings.Repeat("x", i/26))) {
			allowed++
		}
	}
	if allowed != maxNoiseKeys || len(x.last) != maxNoiseKeys {
		t.Errorf("%d keys allowed, %d kept, the bound is %d", allowed, len(x.last), maxNoiseKeys)
	}
}

func TestAlonenessNeedsOneVoterAndNobodyElse(t *testing.T) {
	voter, learner := raft.Server{ID: "a", Suffrage: raft.Voter}, raft.Server{ID: "b", Suffrage: raft.Nonvoter}
	for _, c := range []struct {
		servers []raft.Server
		want    bool
	}{
		{nil, false},
		{[]raft.Server{voter}, true},
		{[]raft.Server{voter, learner}, true},
		{[]raft.Server{learner}, false},
		{[]raft.Server{voter, {ID: "b", Suffrage: raft.Voter}}, false},
	} {
		if got := isLone(c.servers, "a"); got != c.want {
			t.Errorf("%v: %v", c.servers, got)
		}
	}
}
