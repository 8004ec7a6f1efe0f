package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"raftmaster/transport/portmux"
	"raftmaster/transport/raftnet"
)

func TestALoneMasterLeadsAtOnceAndAfterARestart(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	m := c.members[0]
	began := time.Now()
	m.start()
	c.leader()
	t.Logf("fresh start to lease: %v", time.Since(began))
	id := c.propose()
	clusterID, nodeID := m.node.ClusterID(), m.node.NodeID()
	m.kill()
	began = time.Now()
	m.start()
	c.leader()
	t.Logf("restart to lease: %v", time.Since(began))
	if m.node.ClusterID() != clusterID || m.node.NodeID() != nodeID || clusterID == "" {
		t.Errorf("after the restart: node %s of cluster %s, before: node %s of cluster %s", m.node.NodeID(), m.node.ClusterID(), nodeID, clusterID)
	}
	if !m.has(id) {
		t.Error("Elected came before everything committed was applied")
	}
	m.stop()
}

func TestThreeFreshMastersFormOneClusterInAnyOrder(t *testing.T) {
	t.Parallel()
	orders := [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}}
	if testing.Short() {
		orders = orders[4:5]
	}
	for _, order := range orders {
		t.Run(fmt.Sprint(order), func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, 3)
			for i, k := range order {
				if i == 2 {
					time.Sleep(20 * time.Millisecond) // the others have met by now, or not: both must work
				}
				c.members[k].start()
			}
			l := c.leader()
			c.propose()
			c.converge()
			for _, m := range c.members {
				if m.node.ClusterID() != l.node.ClusterID() || m.node.ClusterID() == "" {
					t.Errorf("%s is in cluster %q, the leader in %q", m.addr, m.node.ClusterID(), l.node.ClusterID())
				}
			}
			st := l.node.Status()
			for _, p := range st.Peers {
				if !p.Voter || !p.Member || p.WebURL != "http://"+p.Address+"/web" || p.RESTURL == "" || p.Version != "test" {
					t.Errorf("peer in status: %+v", p)
				}
			}
			if len(st.Peers) != 3 || st.Leader.Address != l.addr || st.Role != RoleLeader {
				t.Errorf("status: %+v", st)
			}
		})
	}
}

func TestTwoOfThreeFreshMastersFormNoCluster(t *testing.T) {
	slow(t)
	t.Parallel()
	c := newCluster(t, 3)
	c.members[0].start()
	c.members[1].start()
	eventually(t, "the two know each other", func() bool {
		p, ok := c.members[0].node.peers.get(c.members[1].addr)
		return ok && p.conn != nil
	})
	time.Sleep(2 * testTimeout)
	for _, m := range c.running() {
		if st := m.node.Status(); st.ClusterID != "" || st.Role != RoleFresh || m.node.LeaseValid() {
			t.Errorf("%s: cluster %q, role %s", m.addr, st.ClusterID, st.Role)
		}
	}
}

func TestDifferingListsAreRefusedByNameOnBothSides(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 2)
	other := newHosts(1)[0]
	c.members[1].edit = func(cfg *Config) { cfg.Cluster = append(slices.Clone(cfg.Cluster), other) }
	for _, m := range c.members {
		m.start()
	}
	for _, m := range c.members {
		eventually(t, "refusal in the log of "+m.addr, func() bool {
			text := m.logs.String()
			return strings.Contains(text, "the cluster lists differ") && strings.Contains(text, other)
		})
		if m.node.ClusterID() != "" {
			t.Errorf("%s joined cluster %s", m.addr, m.node.ClusterID())
		}
	}
}

func TestAKilledLeaderIsReplaced(t *testing.T) {
	t.Parallel()
	c := startAll(t, 3, nil)
	id := c.propose()
	rounds := 5
	if testing.Short() {
		rounds = 1
	}
	for range rounds {
		old := c.leader()
		eventually(t, "everybody watches everybody", func() bool { return c.connected() })
		began := time.Now()
		killed := old.killAside()
		l := c.leader()
		t.Logf("kill to lease: %v", time.Since(began))
		<-killed
		if !l.has(id) {
			t.Error("the new leader is elected, but has not applied what was committed")
		}
		id = c.propose()
		old.start()
		c.converge()
	}
}

// connected tells whether every running master holds a watch connection to every other.
func (c *cluster) connected() bool {
	for _, m := range c.running() {
		for _, p := range m.node.peers.list() {
			if p.conn == nil {
				return false
			}
		}
	}
	return true
}

func TestElectedAndDeposedAlternate(t *testing.T) {
	slow(t)
	t.Parallel()
	c := startAll(t, 3, nil)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for range 3 {
		var l *member
		var tr Transfer
		eventually(t, "a transfer", func() bool {
			l = c.leader()
			var err error
			if tr, err = l.node.TransferLeadership(ctx, ""); err != nil {
				t.Logf("transfer: %v", err) // a slow disk may cost more than the election time-out
			}
			return err == nil
		})
		if now := c.leader(); now.node.NodeID() != tr.LeaderID || now.addr != tr.LeaderAddress || now == l {
			t.Fatalf("transferred to %s, but %s leads", tr.LeaderAddress, now.addr)
		}
	}
	for _, m := range c.members {
		m.mu.Lock()
		for i, term := range m.deposed {
			if m.elected[i] != term || (i > 0 && m.elected[i] <= m.elected[i-1]) {
				t.Errorf("%s: elected %v, deposed %v", m.addr, m.elected, m.deposed)
			}
		}
		if len(m.elected)-len(m.deposed) > 1 {
			t.Errorf("%s: elected %v, deposed %v", m.addr, m.elected, m.deposed)
		}
		m.mu.Unlock()
	}
}

func TestALeaderThatStopsInOrderHandsOver(t *testing.T) {
	t.Parallel()
	c := startAll(t, 3, nil)
	l := c.leader()
	c.propose()
	eventually(t, "everybody watches everybody", func() bool { return c.connected() })
	l.stop()
	c.leader()
	for _, m := range c.running() {
		eventually(t, "goodbye heard by "+m.addr, func() bool { return strings.Contains(m.logs.String(), "a master stops in order") })
		if strings.Contains(m.logs.String(), "campaigning at once: the leader") {
			t.Errorf("%s took the stop for a failure", m.addr)
		}
	}
}

func TestAllMastersRestart(t *testing.T) {
	slow(t)
	t.Parallel()
	for _, how := range []string{"stop", "kill"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			c := startAll(t, 3, nil)
			id := c.propose()
			clusterID := c.leader().node.ClusterID()
			for _, m := range c.members {
				if how == "stop" && len(c.running()) > 2 {
					m.stop() // the last two have no quorum to hand anything over to
				} else {
					m.kill()
				}
			}
			c.members[2].start()
			c.members[0].start()
			l := c.leader() // two of three are enough
			if !l.has(id) || l.node.ClusterID() != clusterID {
				t.Errorf("after the restart: cluster %s, was %s; committed entry there: %v", l.node.ClusterID(), clusterID, l.has(id))
			}
			c.members[1].start()
			c.propose()
			c.converge()
		})
	}
}

func TestProposalsFailWhereNobodyLeads(t *testing.T) {
	slow(t)
	t.Parallel()
	c := startAll(t, 3, nil)
	f := c.followers()[0]
	cmd := command()
	f.node.Propose(cmd)
	eventually(t, "the refusal", func() bool { return f.failure(cmd.Header().RequestID) != nil })
	if err := f.failure(cmd.Header().RequestID); !errors.Is(err, ErrNotLeader) {
		t.Errorf("a follower's proposal failed with %v", err)
	}
}

func TestThePortSortsWhatTheNodeDials(t *testing.T) {
	if portmux.Magic != raftnet.Magic {
		t.Errorf("portmux sorts by %#x, raftnet sends %#x", portmux.Magic, raftnet.Magic)
	}
}

func TestRaftsRepeatedComplaintsAreCounted(t *testing.T) {
	sink := &logSink{}
	log := newQuietLogger(hclog.New(&hclog.LoggerOptions{Output: sink}))
	for range 100 {
		log.Error("failed to heartbeat to", "peer", "a:1", "error", "refused")
		log.Error("failed to heartbeat to", "peer", "b:1", "error", "refused")
	}
	log.Error("something else", "peer", "a:1")
	log.Error("something else", "peer", "a:1")
	if text := sink.String(); strings.Count(text, "heartbeat") != 2 || strings.Count(text, "something else") != 2 {
		t.Errorf("logged:\n%s", text)
	}
}
