package node

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

// F6: what counts as a stall.
func TestF6AStallIsNoticedAndEnds(t *testing.T) {
	t.Parallel()
	var s stall
	now := time.Now()
	for i, step := range []struct {
		after        time.Duration
		leading      bool
		last, commit uint64
		stalled      bool
	}{
		{0, true, 5, 5, false},
		{time.Minute, true, 6, 5, false}, // nothing was waiting until now
		{stallAfter - 1, true, 7, 5, false},
		{1, true, 7, 5, true},
		{time.Second, true, 9, 5, true},
		{time.Second, true, 9, 6, false}, // progress
		{stallAfter, true, 9, 6, true},
		{time.Second, false, 9, 6, false}, // not its business any more
		{time.Second, true, 9, 6, false},
		{stallAfter, true, 9, 9, false},
	} {
		now = now.Add(step.after)
		waited := s.look(now, step.leading, step.last, step.commit)
		if s.is() != step.stalled || (waited > 0) != step.stalled {
			t.Errorf("step %d: stalled %v for %v, want %v", i, s.is(), waited, step.stalled)
		}
	}
}

// F6: both followers cannot write their logs, and answer heartbeats. The leader must not look healthy.
func TestF6FollowersThatCannotWriteRaiseTheLeadersAlarm(t *testing.T) {
	slow(t)
	t.Parallel()
	c, full := startFillable(t)
	c.propose()
	c.converge()
	l := c.leader()
	for i, m := range c.members {
		full[i].Store(m != l)
	}
	cmd := command()
	l.node.Propose(cmd)
	eventually(t, "the stall", func() bool { return l.node.Status().Stalled && l.alarmed("entries are not committed") })
	eventually(t, "the followers' problems at the leader", func() bool {
		named := 0
		for _, p := range l.node.Status().Peers {
			if strings.Contains(p.Problem, "the raft log cannot be written") && p.Connected && l.alarmed(p.Address+": the raft log cannot be written") {
				named++
			}
		}
		return named == 2
	})
	for i := range full {
		full[i].Store(false)
	}
	c.propose()
	eventually(t, "the end of the alarm", func() bool {
		st := c.leader().node.Status()
		for _, p := range st.Peers {
			if p.Problem != "" {
				return false
			}
		}
		return !st.Stalled && !l.alarmed("entries are not committed")
	})
	c.converge()
}

// A snapshot that fails is only logged by raft; but without one the log grows until the disk is full.
func TestAFailedSnapshotRaisesAnAlarm(t *testing.T) {
	t.Parallel()
	c := startAll(t, 1, nil)
	m := c.members[0]
	c.propose()
	dir := filepath.Join(m.dir, "snapshots")
	if err := os.Rename(dir, dir+"-aside"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := m.node.TakeSnapshot(context.Background()); err == nil {
		t.Fatal("a snapshot without a directory worked")
	}
	eventually(t, "the alarm", func() bool { return m.alarmed("the log cannot be compacted: ") })
	if err := errors.Join(os.Remove(dir), os.Rename(dir+"-aside", dir)); err != nil {
		t.Fatal(err)
	}
	if _, err := m.node.TakeSnapshot(context.Background()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the end of the alarm", func() bool { return !m.alarmed("cannot be compacted") })
}

// A voter that was killed a moment ago was in contact a moment ago; it does not keep the cluster alive.
func TestAVoterJustKilledDoesNotCountForRemovePeer(t *testing.T) {
	slow(t)
	t.Parallel()
	c := startAll(t, 3, func(cfg *Config) { cfg.FailoverTimeout = 2 * time.Second })
	c.propose()
	c.converge()
	l, dead, other := c.leader(), c.followers()[0], c.followers()[1]
	id, otherID := dead.node.NodeID(), other.node.NodeID()
	for try := 1; ; try++ {
		eventually(t, "contact", func() bool {
			return l.node.isAlive(raft.ServerID(id)) && l.node.isAlive(raft.ServerID(otherID))
		})
		dead.kill()
		eventually(t, "the end of the watch connection", func() bool { p, _ := l.node.peers.get(dead.addr); return p.conn == nil })
		if l.node.inContact(raft.ServerID(id)) {
			break
		}
		if try == 5 {
			t.Fatal("five times, the machine was too slow to look before the contact was old")
		}
		dead.start()
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := l.node.RemovePeer(ctx, otherID, false); !errors.Is(err, ErrUnsafe) {
		t.Errorf("removing the last follower that is alive: %v", err)
	}
	if err := l.node.RemovePeer(ctx, id, false); err != nil {
		t.Errorf("removing the dead one: %v", err)
	}
}
