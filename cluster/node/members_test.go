package node

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"raftmaster/fsm"
	"raftmaster/transport/raftnet"
)

func TestAFollowerFarBehindGetsASnapshot(t *testing.T) {
	t.Parallel()
	c := startAll(t, 3, smallSnapshots)
	f := c.followers()[0]
	f.kill()
	c.proposeMany(50)
	info, err := c.leader().node.TakeSnapshot(context.Background())
	if err != nil || info.Index == 0 || info.Size == 0 {
		t.Fatalf("snapshot %+v: %v", info, err)
	}
	f.start()
	c.propose()
	c.converge()
	if f.restored == 0 {
		t.Error("the follower caught up without the snapshot")
	}
	var b bytes.Buffer
	if _, err := c.leader().node.WriteSnapshot(&b); err != nil {
		t.Fatal(err)
	}
	c.levelIs(fsm.CommandLevel) // which is part of the state
	cluster := c.leader().node.ClusterID()
	if _, err := c.leader().node.RestoreSnapshot(context.Background(), b.Bytes()[:b.Len()-1], cluster, false); err == nil {
		t.Error("a snapshot without its end was restored")
	}
	done, err := c.leader().node.RestoreSnapshot(context.Background(), b.Bytes(), cluster, false)
	if err != nil || !done.Later || done.After != done.Before {
		t.Fatalf("restore: %+v, %v", done, err)
	}
	c.propose()
	c.converge()
}

func TestPeersAreAddedAndRemoved(t *testing.T) {
	slow(t)
	t.Parallel()
	c := startAll(t, 3, nil)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	lost := c.followers()[0]
	oldID := lost.node.NodeID()
	lost.kill()
	lost.dir = t.TempDir()
	lost.start()
	newID := lost.node.NodeID()
	l := c.leader()
	if err := l.node.AddPeer(ctx, newID, lost.addr, true); !errors.Is(err, ErrUnsafe) {
		t.Errorf("a second member at one address: %v", err)
	}
	if err := l.node.RemovePeer(ctx, l.node.NodeID(), false); !errors.Is(err, ErrUnsafe) {
		t.Errorf("the leader removes itself: %v", err)
	}
	if err := l.node.RemovePeer(ctx, "nobody", false); !errors.Is(err, ErrUnknownPeer) {
		t.Errorf("nobody is removed: %v", err)
	}
	if err := l.node.RemovePeer(ctx, oldID, false); err != nil {
		t.Fatal(err)
	}
	if err := l.node.AddPeer(ctx, newID, lost.addr, false); err != nil {
		t.Fatal(err)
	}
	c.propose()
	c.converge()
	if err := l.node.AddPeer(ctx, newID, lost.addr, true); err != nil {
		t.Fatal(err)
	}
	c.converge()
	if lost.node.ClusterID() != l.node.ClusterID() {
		t.Errorf("the new member is in cluster %q", lost.node.ClusterID())
	}
	voters := 0
	for _, p := range l.node.Status().Peers {
		if p.Voter {
			voters++
		}
	}
	if voters != 3 {
		t.Errorf("%d voters: %+v", voters, l.node.Status().Peers)
	}
}

func TestAMinorityThatDivergedHalts(t *testing.T) {
	slow(t)
	t.Parallel()
	for _, who := range []string{"follower", "leader"} {
		t.Run(who, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, 3)
			corrupt := make([]atomic.Bool, 3)
			for i, m := range c.members {
				m.edit = func(cfg *Config) {
					cfg.seams.corruptDigest = func(d string) string {
						if corrupt[i].Load() {
							return "bad"
						}
						return d
					}
				}
				m.start()
			}
			c.propose()
			l := c.leader()
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			eventually(t, "everybody watches everybody", c.connected)
			st, err := l.node.CheckDigest(ctx)
			if err != nil || st.Agreed != 3 || st.Digest == "" {
				t.Fatalf("healthy: %+v, %v", st, err)
			}
			var victim *member
			for i, m := range c.members {
				if (m == l) == (who == "leader") && victim == nil {
					victim = m
					corrupt[i].Store(true)
				}
			}
			if st, err = l.node.CheckDigest(ctx); err != nil || st.Agreed != 2 {
				t.Fatalf("diverged: %+v, %v", st, err)
			}
			eventually(t, "the minority halts", func() bool {
				victim.mu.Lock()
				defer victim.mu.Unlock()
				return errors.Is(victim.fatal, ErrDiverged) && strings.Contains(victim.fatal.Error(), "to rejoin")
			})
			victim.kill()
			c.propose()
			for _, m := range c.running() {
				if m.fatal != nil {
					t.Errorf("%s halted, too: %v", m.addr, m.fatal)
				}
			}
		})
	}
}

func TestAnUnknownEntryHaltsLoudly(t *testing.T) {
	t.Parallel()
	c := startAll(t, 1, nil)
	m := c.members[0]
	before := m.node.View().Index()
	err := m.node.inst.Load().raft.Apply([]byte{0x7F, 9, 0x80}, 0).Error()
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the fatal error", func() bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		return m.fatal != nil
	})
	if err := m.node.inst.Load().raft.Barrier(0).Error(); err != nil {
		t.Fatal(err)
	}
	m.node.Propose(command())
	time.Sleep(testTimeout / 10)
	if got := m.node.View().Index(); got != before {
		t.Errorf("the state machine went on to entry %d after it halted at %d", got, before)
	}
}

func TestCallsReachTheLeader(t *testing.T) {
	slow(t)
	t.Parallel()
	c := newCluster(t, 3)
	for _, m := range c.members {
		m.edit = func(cfg *Config) {
			cfg.OnCall = func(_ context.Context, from, method string, body []byte) ([]byte, error) {
				if method == "fail" {
					return nil, errors.New("as you wish")
				}
				return []byte(m.addr + " " + method + " " + string(body)), nil
			}
		}
		m.start()
	}
	l := c.leader()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	f := c.followers()[0]
	eventually(t, "the follower knows the leader", func() bool { id, _ := f.node.Leader(); return id != "" })
	got, err := f.node.Call(ctx, "", "greet", []byte("you"))
	if err != nil || string(got) != l.addr+" greet you" {
		t.Errorf("answer %q, %v", got, err)
	}
	var ce *raftnet.CallError
	if _, err := f.node.Call(ctx, l.addr, "fail", nil); !errors.As(err, &ce) || ce.Message != "as you wish" {
		t.Errorf("failure came as %v", err)
	}
	if _, err := f.node.Call(ctx, "nobody", "greet", nil); !errors.Is(err, ErrUnknownPeer) {
		t.Errorf("a call to nobody: %v", err)
	}
}
