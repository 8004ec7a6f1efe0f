package node

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

// smallSnapshots makes followers that are behind get a snapshot instead of entries.
func smallSnapshots(cfg *Config) {
	cfg.SnapshotThreshold, cfg.TrailingLogs, cfg.SnapshotInterval = 1<<40, 1, time.Hour // only when the test says so
}

// divergedLeader cuts the leader off, lets it append a tail that is never committed, and has the others commit entries
// and take snapshots. The tail is longer than the others' log if longTail. The old leader is still cut off.
func divergedLeader(t *testing.T, edit func(*Config), longTail bool) (c *cluster, old *member) {
	t.Helper()
	c = startAll(t, 3, func(cfg *Config) {
		smallSnapshots(cfg)
		if edit != nil {
			edit(cfg)
		}
	})
	c.propose()
	c.converge()
	old = c.leader()
	tail, committed := 150, 60
	if !longTail {
		tail, committed = 60, 150
	}
	base := old.node.Status().LastLogIndex
	c.net.isolate(old.addr)
	for range tail {
		old.node.Propose(command())
	}
	eventually(t, "the tail is on the old leader's disk", func() bool {
		_, last, err := old.node.store.Bounds()
		return err == nil && last >= base+uint64(tail)
	})
	eventually(t, "the old leader steps down", func() bool { return old.node.inst.Load().raft.State() != raft.Leader })
	c.proposeMany(committed)
	for _, m := range c.members {
		if m == old {
			continue
		}
		want := c.leader().node.Status().CommitIndex
		eventually(t, "caught up: "+m.addr, func() bool { return m.node.Status().AppliedIndex >= want })
		if _, err := m.node.TakeSnapshot(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	return c, old
}

// R02, hashicorp/raft #697.
func TestASnapshotReplacesAContradictingTail(t *testing.T) {
	slow(t)
	t.Parallel()
	c, old := divergedLeader(t, nil, true)
	var installs atomic.Int32
	c.net.onDeliver(old.addr, func(kind string) error {
		if kind == "InstallSnapshot" {
			installs.Add(1)
		}
		return nil
	})
	c.net.isolate()
	c.converge()
	c.propose()
	c.converge()
	if !strings.Contains(old.logs.String(), "contradicts the leader's snapshot") {
		t.Error("the test did not reach the guard")
	}
	if k := installs.Load(); k < 1 || k > 3 {
		t.Errorf("%d snapshots were sent; one is refused for the repair, the next must do", k)
	}
	checkLogTerms(t, c, old)
	old.kill()
	old.start() // what is on disk must be good for a start, too
	c.propose()
	c.converge()
}

// Without the guard, raft 1.7.3 is sent the same snapshot again and again. If this fails after an upgrade of raft, the
// guard may have become needless.
func TestWithoutTheGuardTheSnapshotIsSentForEver(t *testing.T) {
	slow(t)
	t.Parallel()
	c, old := divergedLeader(t, func(cfg *Config) { cfg.seams.noSnapshotGuard = true }, true)
	var installs atomic.Int32
	c.net.onDeliver(old.addr, func(kind string) error {
		if kind == "InstallSnapshot" {
			installs.Add(1)
		}
		return nil
	})
	c.net.isolate()
	eventually(t, "many installations of one snapshot", func() bool { return installs.Load() > 10 })
}

func TestASnapshotClearsTheLogBelowIt(t *testing.T) {
	slow(t)
	t.Parallel()
	c, old := divergedLeader(t, nil, false)
	c.net.isolate()
	c.converge()
	c.propose()
	c.converge()
	checkLogTerms(t, c, old)
}

func TestWithoutTheGuardContradictingEntriesStayBelowASnapshot(t *testing.T) {
	slow(t)
	t.Parallel()
	c, old := divergedLeader(t, func(cfg *Config) { cfg.seams.noSnapshotGuard = true }, false)
	c.net.isolate()
	c.converge()
	if contradictions(t, c, old) == 0 {
		t.Error("raft itself has cleared the log: the guard is needless")
	}
}

// checkLogTerms fails when a log holds an entry of another term than the leader's log has at that index, or than the
// snapshot allows: no entry of the log may be one that was never committed.
func checkLogTerms(t *testing.T, c *cluster, m *member) {
	t.Helper()
	if k := contradictions(t, c, m); k > 0 {
		t.Errorf("the log of %s holds %d entries that were never committed", m.addr, k)
	}
}

// contradictions counts entries of m's log below the others' snapshot that have a lower term than the snapshot's last
// entry although they come after the cut: in these tests everything committed after the cut has the newest terms.
func contradictions(t *testing.T, c *cluster, m *member) int {
	t.Helper()
	first, last, err := m.node.store.Bounds()
	if err != nil {
		t.Fatal(err)
	}
	snap, err := m.node.store.NewestSnapshot()
	if err != nil || snap == nil {
		t.Fatalf("no snapshot: %v", err)
	}
	count := 0
	for i := max(first, 1); i <= last; i++ {
		term, ok, err := m.node.store.Term(i)
		if err != nil {
			t.Fatal(err)
		}
		if ok && i > 10 && i <= snap.Index && term < snap.Term {
			count++ // the common beginning is shorter than ten entries
		}
	}
	return count
}

// stuckTransfer brings about hashicorp/raft #696: replication to the target hangs, a first transfer times out and leaves
// its request in the replication's queue of one, a second blocks on that queue, and the leader steps down meanwhile.
// release ends the hanging RPCs.
func stuckTransfer(t *testing.T, edit func(*Config)) (c *cluster, old *member, release func()) {
	t.Helper()
	c = startAll(t, 3, edit)
	c.propose()
	c.converge()
	old = c.leader()
	target := c.followers()[0]
	hang := make(chan struct{})
	release = sync.OnceFunc(func() { close(hang) })
	t.Cleanup(release)
	var hanging atomic.Bool
	hanging.Store(true)
	targetID := target.node.NodeID()
	c.net.onSendTo(old.addr, func(to, kind string) error {
		if to == targetID && kind == "AppendEntries" && hanging.Load() {
			<-hang
			return errCut
		}
		return nil
	})
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c.propose() // something that the target lacks
	if _, err := old.node.TransferLeadership(ctx, targetID); err == nil {
		t.Fatal("the transfer to a target that does not answer succeeded")
	}
	eventually(t, "the leader leads on after the failed transfer", old.node.LeaseValid)
	c.propose()
	second := make(chan struct{})
	go func() {
		defer close(second)
		if _, err := old.node.TransferLeadership(ctx, targetID); err == nil {
			t.Log("the second transfer reports success: leadership was lost meanwhile")
		}
	}()
	eventually(t, "the second transfer", old.node.transferring.Load)
	c.net.isolate(old.addr)
	<-second
	eventually(t, "another leader", func() bool { l := c.leader(); return l != old })
	hanging.Store(false)
	c.net.isolate()
	c.converge()
	for !strings.Contains(old.logs.String(), "restarting raft in place") && old.node.inst.Load().raft.State() != raft.Leader {
		l := c.leader()
		if _, err := l.node.TransferLeadership(ctx, old.node.NodeID()); err != nil {
			t.Logf("transfer back: %v", err)
		}
	}
	return c, old, release
}

// R01, hashicorp/raft #696.
func TestAStuckTransferFlagIsCured(t *testing.T) {
	slow(t)
	t.Parallel()
	c, old, release := stuckTransfer(t, nil)
	eventually(t, "the watchdog", func() bool { return strings.Contains(old.logs.String(), "restarting raft in place") })
	release()
	c.propose()
	c.converge()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if l := c.leader(); l != old {
		if _, err := l.node.TransferLeadership(ctx, old.node.NodeID()); err != nil {
			t.Fatal(err)
		}
	}
	c.propose()
	c.converge()
}

func TestWithoutTheWatchdogALeaderRefusesAllWrites(t *testing.T) {
	slow(t)
	t.Parallel()
	_, old, _ := stuckTransfer(t, func(cfg *Config) { cfg.seams.noTransferWatchdog = true })
	in := old.node.inst.Load()
	term := in.raft.CurrentTerm()
	for range 10 { // far beyond every time-out of a transfer
		err := in.raft.Barrier(0).Error()
		if err == nil {
			t.Fatal("raft takes writes: the watchdog is needless")
		}
		time.Sleep(testTimeout / 2)
	}
	if in.raft.State() != raft.Leader || in.raft.CurrentTerm() != term {
		t.Error("the leader did not stay: the test shows nothing")
	}
}
