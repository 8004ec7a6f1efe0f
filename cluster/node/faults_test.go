package node

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/prometheus/client_golang/prometheus"

	"raftmaster/cluster/raftstore"
	"raftmaster/fsm"
	"raftmaster/transport/raftnet"
)

// R13: a follower that was cut off comes back without costing anybody an election.
func TestAnIsolatedFollowerComesBackQuietly(t *testing.T) {
	slow(t)
	t.Parallel()
	c := startAll(t, 3, nil)
	c.propose()
	l, f := c.leader(), c.followers()[0]
	term := l.node.Status().Term
	c.net.isolate(f.addr)
	eventually(t, "the follower misses its leader", func() bool { return f.node.inst.Load().raft.State() == raft.Candidate })
	c.propose()
	time.Sleep(4 * testTimeout) // many elections, if it were not for pre-vote
	c.net.isolate()
	c.propose()
	c.converge()
	if now := c.leader(); now != l || now.node.Status().Term != term {
		t.Errorf("leader %s in term %d before, %s in term %d after", l.addr, term, now.addr, now.node.Status().Term)
	}
	// And then the leader dies at the moment of the return.
	c.net.isolate(f.addr)
	time.Sleep(2 * testTimeout)
	c.net.isolate()
	l.kill()
	c.propose()
}

// A leader that is cut off loses its lease before anybody else can have one.
func TestNoTwoMastersHaveALeaseAtOnce(t *testing.T) {
	slow(t)
	t.Parallel()
	c := startAll(t, 3, nil)
	stop, stopped := make(chan struct{}), make(chan struct{})
	nodes := make([]*Node, 0, 3)
	for _, m := range c.members {
		nodes = append(nodes, m.node)
	}
	var both atomic.Int32
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
			}
			// A lease that is seen twice around another one was there all the time.
			for _, n := range nodes {
				if !n.LeaseValid() {
					continue
				}
				for _, other := range nodes {
					if other != n && other.LeaseValid() && n.LeaseValid() {
						both.Add(1)
					}
				}
			}
		}
	}()
	for range 3 {
		l := c.leader()
		c.net.isolate(l.addr)
		eventually(t, "the lease ends", func() bool { return !l.node.LeaseValid() })
		eventually(t, "another leader", func() bool {
			for _, m := range c.members {
				if m != l && m.node.LeaseValid() {
					return true
				}
			}
			return false
		})
		c.net.isolate()
		c.propose()
		c.converge()
	}
	close(stop)
	<-stopped
	if both.Load() > 0 {
		t.Errorf("two masters had a lease at once, %d times", both.Load())
	}
}

// R20: the boot clock goes on while a process is stopped, so a leader that wakes up has no lease.
func TestALeaderThatWakesUpHasNoLease(t *testing.T) {
	slow(t)
	t.Parallel()
	var pause atomic.Int64
	var frozen atomic.Bool
	c := startAll(t, 3, func(cfg *Config) {
		cfg.BootTime = func() time.Duration { return raftnet.BootTime() + time.Duration(pause.Load()) }
	})
	l := c.leader()
	c.net.onSendTo(l.addr, func(string, string) error {
		if frozen.Load() {
			return errCut
		}
		return nil
	})
	frozen.Store(true) // nothing is sent while a process is stopped
	for l.node.leaseRemaining() == 0 {
		t.Fatal("no lease to lose")
	}
	pause.Add(int64(20 * time.Second))
	if l.node.LeaseValid() {
		t.Error("the lease outlived a pause of 20 s")
	}
	frozen.Store(false)
	c.propose()
}

// A paused target of a transfer must not depose a leader that has given the transfer up.
func TestALateTransferOrderIsRefused(t *testing.T) {
	t.Parallel()
	c := startAll(t, 3, nil)
	l, f := c.leader(), c.followers()[0]
	term := l.node.Status().Term
	answer := make(chan raft.RPCResponse, 1)
	order := func(from string) bool {
		return f.node.inspect(f.node.inst.Load(), raft.RPC{
			Command:  &raft.TimeoutNowRequest{RPCHeader: raft.RPCHeader{ProtocolVersion: 3, ID: []byte(from)}},
			RespChan: answer,
		})
	}
	eventually(t, "the follower knows the leader", func() bool { id, _ := f.node.Leader(); return id == l.node.NodeID() })
	if !order("somebody else") || !errors.Is((<-answer).Error, errStaleTarget) {
		t.Error("the order of somebody who does not lead was let through")
	}
	if !order(l.node.NodeID()) || !errors.Is((<-answer).Error, errStaleTarget) {
		t.Error("the order of a leader that is in contact, but hands nothing over, was let through")
	}
	for id, want := range map[string]bool{"another voter": false, f.node.NodeID(): true} {
		l.node.transferTo.Store(&id)
		if got := f.node.confirmOrder(l.node.NodeID(), l.addr); got != want {
			t.Errorf("an order is confirmed: %v, although leadership goes to %s", got, id)
		}
	}
	l.node.transferTo.Store(nil)
	c.propose()
	if now := c.leader().node.Status().Term; now != term {
		t.Errorf("the term went from %d to %d", term, now)
	}
}

// R11: two masters that lost their data must not form a new cluster around the one that has it.
func TestWipedMastersDoNotRollTheSurvivorBack(t *testing.T) {
	slow(t)
	t.Parallel()
	c := startAll(t, 3, nil)
	id := c.propose()
	c.converge()
	clusterID := c.leader().node.ClusterID()
	for _, m := range c.members {
		m.kill()
	}
	survivor := c.members[2]
	for _, m := range c.members[:2] {
		m.dir = t.TempDir()
		m.start()
	}
	survivor.start()
	for _, m := range c.members[:2] {
		eventually(t, "complaint in the log of "+m.addr, func() bool {
			text := m.logs.String()
			return strings.Contains(text, "this master has no data, but another one belongs to a cluster") &&
				strings.Contains(text, "cluster_id=none") && strings.Contains(text, "other_cluster_id="+clusterID)
		})
	}
	eventually(t, "complaint in the log of the survivor", func() bool {
		return strings.Contains(survivor.logs.String(), "another master has no data and is no member of this cluster")
	})
	time.Sleep(3 * testTimeout)
	for _, m := range c.members {
		if m.node.LeaseValid() {
			t.Errorf("%s leads", m.addr)
		}
	}
	if st := survivor.node.Status(); st.LastLogIndex == 0 || st.ClusterID != clusterID || len(st.Alarms) == 0 {
		t.Errorf("the survivor: %+v", st)
	}
	_ = id
}

func TestAMasterOfAnotherClusterIsRefusedByName(t *testing.T) {
	slow(t)
	t.Parallel()
	one := startAll(t, 1, nil)
	c := startAll(t, 3, nil)
	foreign, home := one.leader().node.ClusterID(), c.leader().node.ClusterID()
	guest := c.followers()[0]
	guest.kill()
	one.members[0].kill()
	guest.dir = one.members[0].dir
	guest.start()
	for _, m := range c.running() {
		eventually(t, "refusal in the log of "+m.addr, func() bool {
			text := m.logs.String()
			return strings.Contains(text, "connection between masters refused") && strings.Contains(text, "cluster "+foreign) && strings.Contains(text, "cluster "+home)
		})
	}
	// The guest's own cluster has one voter, itself, so it may lead that one; but it takes nothing from this one.
	if guest.node.ClusterID() != foreign {
		t.Errorf("the guest changed to cluster %s", guest.node.ClusterID())
	}
}

// R08: masters come back under other addresses, with their data.
func TestMastersMoveToOtherAddresses(t *testing.T) {
	slow(t)
	t.Parallel()
	c := startAll(t, 3, nil)
	id := c.propose()
	c.converge()
	for _, m := range c.members {
		m.kill()
	}
	c.list = newHosts(3)
	for i, m := range c.members {
		m.addr = c.list[i]
	}
	for _, m := range c.members {
		m.start()
	}
	c.propose()
	c.converge()
	if !c.leader().has(id) {
		t.Error("an entry was lost on the way")
	}
	eventually(t, "the new addresses in the configuration", func() bool {
		l := c.leader()
		for _, s := range l.node.inst.Load().raft.GetConfiguration().Configuration().Servers {
			found := false
			for _, addr := range c.list {
				found = found || addr == string(s.Address)
			}
			if !found {
				return false
			}
		}
		return true
	})
}

// startFillable starts three masters, each of whose disks can be full.
func startFillable(t *testing.T) (c *cluster, full []atomic.Bool) {
	t.Helper()
	c, full = newCluster(t, 3), make([]atomic.Bool, 3)
	for i, m := range c.members {
		m.edit = func(cfg *Config) {
			cfg.seams.writeFault = func() error {
				if full[i].Load() {
					return syscall.ENOSPC
				}
				return nil
			}
		}
		m.start()
	}
	return c, full
}

// R04: a disk that is full costs the leadership, not the cluster, and heals by itself.
func TestAFullDiskMovesTheLeadership(t *testing.T) {
	slow(t)
	t.Parallel()
	c, full := startFillable(t)
	c.propose()
	l := c.leader()
	for i, m := range c.members {
		full[i].Store(m == l)
	}
	cmd := command()
	l.node.Propose(cmd)
	eventually(t, "the refusal", func() bool { return l.failure(cmd.Header().RequestID) != nil })
	if err := l.failure(cmd.Header().RequestID); !errors.Is(err, ErrStorage) || !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("the proposal failed with: %v", err)
	}
	eventually(t, "another leader", func() bool { return c.leader() != l })
	c.propose()
	eventually(t, "the alarm", func() bool { return strings.Contains(fmt.Sprint(l.node.Status().Alarms), "cannot be written") })
	for i := range full {
		full[i].Store(false)
	}
	c.propose()
	c.converge()
	eventually(t, "the end of the alarm", func() bool { return !strings.Contains(fmt.Sprint(l.node.Status().Alarms), "cannot be written") })
}

// Entries are counted by their bytes as well: a few large ones call for a snapshot, and do not stay behind it.
func TestTheLogIsBoundedInBytes(t *testing.T) {
	slow(t)
	t.Parallel()
	c := startAll(t, 3, func(cfg *Config) { cfg.SnapshotBytes, cfg.TrailingBytes = 3<<20, 2<<20 })
	for range 8 {
		l, ids := c.leader(), []string{}
		for range 100 {
			cmd := command().(fsm.RegisterWorker)
			cmd.WebUIURL = strings.Repeat("x", 8000)
			ids = append(ids, cmd.Header().RequestID)
			l.node.Propose(cmd)
		}
		for _, id := range ids {
			eventually(t, "the outcome", func() bool { return l.has(id) || l.failure(id) != nil })
		}
	}
	for _, m := range c.members {
		eventually(t, "a snapshot and a short log on "+m.addr, func() bool {
			st := m.node.Status()
			return st.SnapshotIndex > 0 && st.FirstLogIndex > 1 && st.UncoveredBytes <= 5<<20 && m.node.store.BytesAfter(0) <= max(st.UncoveredBytes, 2<<20)
		})
	}
	c.propose()
	c.converge()
}

func TestDataOfAnotherProcessIsNotOpened(t *testing.T) {
	slow(t)
	t.Parallel()
	c := startAll(t, 1, nil)
	m := c.members[0]
	_, err := Start(Config{
		Cluster: []string{"x:1"}, Self: "x:1", DataDir: m.dir, Logger: m.config().Logger, Fatal: func(error) {},
	}, raftnet.NewInbox(), m.hooks())
	if !errors.Is(err, raftstore.ErrInUse) || !strings.Contains(err.Error(), m.dir) {
		t.Errorf("second start on %s: %v", m.dir, err)
	}
}

func TestConfigurationIsChecked(t *testing.T) {
	t.Parallel()
	good := newCluster(t, 1).members[0].config()
	for name, edit := range map[string]func(*Config){
		"self not in the list": func(c *Config) { c.Self = "elsewhere:1" },
		"entry twice":          func(c *Config) { c.Cluster = []string{c.Self, "a:1", "a:1"} },
		"no logger":            func(c *Config) { c.Logger = nil },
		"too fast":             func(c *Config) { c.FailoverTimeout = time.Millisecond },
	} {
		cfg := good
		edit(&cfg)
		if _, err := cfg.withDefaults(); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestRaftMetricsReachPrometheus(t *testing.T) {
	reg := prometheus.NewRegistry()
	if err := RegisterMetrics(reg); err != nil {
		t.Fatal(err)
	}
	c := startAll(t, 1, nil)
	c.propose()
	found := make(map[string]bool)
	eventually(t, "raft's metrics", func() bool {
		families, err := reg.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			found[f.GetName()] = true
		}
		return found["raftmaster_raft_apply"] && found["raftmaster_raft_commitTime"] && found["raftmaster_raft_journal_storeLogs"]
	})
}

func TestAnInterruptedBootstrapIsFinished(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	m := c.members[0]
	// The identity was written, raft's first entry was not.
	s, err := raftstore.Open(raftstore.Options{Dir: m.dir, Logger: m.config().Logger})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.JoinCluster("c0ffee", []raftstore.Server{{ID: s.Identity().NodeID, Address: m.addr}}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	m.start()
	c.propose()
	if id := m.node.ClusterID(); id != "c0ffee" {
		t.Errorf("cluster id %q", id)
	}
	if _, err := os.Stat(filepath.Join(m.dir, "raft.db")); err != nil {
		t.Error(err)
	}
}
