package node

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"raftmaster/transport/raftnet"
)

// eventLog keeps the events of one kind.
type eventLog struct {
	mu sync.Mutex
	b  strings.Builder
}

func (e *eventLog) add(ev Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	fmt.Fprintf(&e.b, "%s: %s\n", ev.Kind, ev.Detail)
}

func (e *eventLog) has(text string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return strings.Contains(e.b.String(), text)
}

// unwell is a cluster of three whose disks can fail, hang or be slow, each by itself.
type unwell struct {
	*cluster
	fault  [3]atomic.Pointer[syscall.Errno]
	wait   [3]atomic.Pointer[chan struct{}] // the next write waits for it
	delay  [3]atomic.Int64
	events [3]eventLog
}

func startUnwell(t *testing.T) *unwell {
	t.Helper()
	u := &unwell{cluster: newCluster(t, 3)}
	for i, m := range u.members {
		m.edit = func(cfg *Config) {
			cfg.OnEvent = u.events[i].add
			cfg.Disk.WriteFault = func() error {
				if e := u.fault[i].Load(); e != nil {
					return *e
				}
				return nil
			}
			cfg.Disk.BeforeSync = func() {
				if c := u.wait[i].Load(); c != nil {
					<-*c
				}
				time.Sleep(time.Duration(u.delay[i].Load()))
			}
		}
		m.start()
	}
	u.propose()
	return u
}

func (u *unwell) index(m *member) int {
	for i := range u.members {
		if u.members[i] == m {
			return i
		}
	}
	panic("no member")
}

// comesBack waits until a member is well and has what the others have.
func (u *unwell) comesBack(t *testing.T, m *member) {
	t.Helper()
	eventually(t, "the end of the alarm", func() bool { return !m.alarmed("cannot be written") })
	eventually(t, "the event of its end", func() bool {
		return u.events[u.index(m)].has("storage: " + m.addr + ": the raft log can be written again")
	})
	u.propose()
	u.converge()
	for _, other := range u.members {
		eventually(t, "no word about it at "+other.addr, func() bool {
			for _, p := range other.node.Status().Peers {
				if strings.Contains(p.Problem, "cannot be written") {
					return false
				}
			}
			return true
		})
	}
}

// R04: whatever a write fails with costs the leadership, not the cluster; under a follower it costs nothing. It ends by itself.
func TestWritesThatFailUnderLeaderAndFollower(t *testing.T) {
	slow(t)
	for _, fault := range []syscall.Errno{syscall.ENOSPC, syscall.EROFS, syscall.EIO} {
		t.Run(fault.Error(), func(t *testing.T) {
			t.Parallel()
			u := startUnwell(t)
			l := u.leader()
			u.fault[u.index(l)].Store(&fault)
			cmd := command()
			l.node.Propose(cmd)
			eventually(t, "the refusal", func() bool { return l.failure(cmd.Header().RequestID) != nil })
			eventually(t, "another leader", func() bool { return u.leader() != l })
			u.propose()
			eventually(t, "the alarm", func() bool { return l.alarmed("the raft log cannot be written") && l.alarmed(fault.Error()) })
			eventually(t, "the event", func() bool {
				return u.events[u.index(l)].has("storage: " + l.addr + ": the raft log cannot be written")
			})
			now := u.leader()
			eventually(t, "the others know", func() bool {
				for _, p := range now.node.Status().Peers {
					if p.Address == l.addr && strings.Contains(p.Problem, fault.Error()) {
						return true
					}
				}
				return false
			})
			reason := "failover: the leader " + l.addr + " says: the raft log cannot be written"
			eventually(t, "the reason of the election", func() bool { return u.events[u.index(now)].has(reason) })
			u.fault[u.index(l)].Store(nil)
			u.comesBack(t, l)

			f, term := u.followers()[0], u.leader().node.Status().Term
			u.fault[u.index(f)].Store(&fault)
			u.propose()
			eventually(t, "the alarm of the follower", func() bool { return f.alarmed(fault.Error()) })
			u.propose()
			if now := u.leader().node.Status().Term; now != term {
				t.Errorf("a follower's disk has cost the term %d: it is %d now", term, now)
			}
			u.fault[u.index(f)].Store(nil)
			u.comesBack(t, f)
		})
	}
}

// The data directory is removed, or its file system unmounted: a leader that writes nothing notices, too.
func TestADirectoryThatIsGoneUnderLeaderAndFollower(t *testing.T) {
	slow(t)
	t.Parallel()
	u := startUnwell(t)
	for _, what := range []string{"leader", "follower"} {
		m := u.leader()
		if what == "follower" {
			m = u.followers()[0]
		}
		aside := m.dir + "-aside"
		if err := os.Rename(m.dir, aside); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the alarm of the "+what, func() bool { return m.alarmed("the data directory is gone") && m.alarmed(m.dir) })
		eventually(t, "another leader", func() bool { return u.leader() != m })
		u.propose()
		if err := os.Rename(aside, m.dir); err != nil {
			t.Fatal(err)
		}
		u.comesBack(t, m)
	}
}

// A write that hangs holds raft's leader up, but not its heartbeats: they must end, so that another one is elected.
func TestALeaderWhoseDiskHangsIsReplaced(t *testing.T) {
	slow(t)
	t.Parallel()
	u := startUnwell(t)
	l := u.leader()
	i, release := u.index(l), make(chan struct{})
	u.wait[i].Store(&release)
	cmd := command()
	l.node.Propose(cmd)
	eventually(t, "the alarm", func() bool { return l.alarmed("a write of the log hangs") })
	eventually(t, "another leader", func() bool {
		for _, m := range u.members {
			if m != l && m.node.LeaseValid() {
				return true
			}
		}
		return false
	})
	eventually(t, "the end of the lease", func() bool { return !l.node.LeaseValid() })
	u.wait[i].Store(nil)
	close(release)
	u.comesBack(t, l)
}

func TestALeaderWithASlowDiskHandsOver(t *testing.T) {
	slow(t)
	t.Parallel()
	u := startUnwell(t)
	l := u.leader()
	i := u.index(l)
	u.delay[i].Store(int64(minSlowWrite + 100*time.Millisecond))
	for end := time.Now().Add(2 * patience); u.leader() == l && time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		l.node.Propose(command())
	}
	if u.leader() == l {
		t.Fatal("it leads on")
	}
	if !l.alarmed("the disk is slow") || !u.events[i].has("storage: "+l.addr+": the disk is slow") {
		t.Errorf("it does not say so: %q", l.node.Status().Alarms)
	}
	u.delay[i].Store(0)
	eventually(t, "the end of the alarm", func() bool { return !l.alarmed("the disk is slow") })
	u.propose()
	u.converge()
}

// R04: two of three are full. The third leads, says that nothing can be committed and why, and goes on when one of them can write.
func TestTwoFullDisksStopWritesByName(t *testing.T) {
	slow(t)
	t.Parallel()
	u := startUnwell(t)
	full := syscall.ENOSPC
	l := u.leader()
	for i, m := range u.members {
		if m != l {
			u.fault[i].Store(&full)
		}
	}
	l.node.Propose(command())
	eventually(t, "the alarm", func() bool { return l.alarmed("2 of 3 voters cannot write") && l.alarmed("no space left on device") })
	if st := l.node.Status(); !st.Stalled || !l.node.LeaseValid() {
		t.Errorf("stalled: %t, lease: %t", st.Stalled, l.node.LeaseValid())
	}
	for i := range u.fault {
		u.fault[i].Store(nil)
	}
	for _, m := range u.followers() {
		u.comesBack(t, m)
	}
	eventually(t, "the end of the alarm", func() bool { return !l.alarmed("voters cannot write") && !u.leader().node.Status().Stalled })
}

// A leader with trouble picks a voter without.
func TestATargetOfATransferHasNoTrouble(t *testing.T) {
	t.Parallel()
	c := startAll(t, 3, nil)
	c.propose()
	l := c.leader()
	for _, f := range c.followers() {
		other := c.followers()[0]
		if other == f {
			other = c.followers()[1]
		}
		eventually(t, "the watch connections", c.connected)
		eventually(t, "the target "+other.addr, func() bool {
			h := raftnet.Hello{NodeID: f.node.NodeID(), Refused: "the disk is slow"}
			l.node.noteTrouble(f.addr, &h)
			to, err := l.node.pickTarget(l.node.inst.Load(), "")
			return err == nil && string(to.ID) == other.node.NodeID()
		})
		h := raftnet.Hello{NodeID: f.node.NodeID()}
		l.node.noteTrouble(f.addr, &h)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if _, err := l.node.TransferLeadership(ctx, ""); err != nil {
		t.Error(err)
	}
}

// What a node says of itself for another reason does not take its trouble back.
func TestAnotherWordDoesNotEndTheTrouble(t *testing.T) {
	slow(t)
	t.Parallel()
	u := startUnwell(t)
	full := syscall.ENOSPC
	f := u.followers()[0]
	u.fault[u.index(f)].Store(&full)
	u.propose()
	l := u.leader()
	known := func() bool { return strings.Contains(l.node.troubleOf(raft.ServerID(f.node.NodeID())), full.Error()) }
	eventually(t, "the leader knows", known)
	for i := range 20 {
		url := fmt.Sprint("http://127.0.0.1:", 1000+i)
		f.node.SetURLs(url, "")
		eventually(t, "the word is heard", func() bool {
			p, ok := l.node.peers.byID(f.node.NodeID())
			return ok && p.hello.WebURL == url
		})
		if !known() {
			t.Fatalf("it is taken back by word %d", i)
		}
	}
	u.fault[u.index(f)].Store(nil)
	u.comesBack(t, f)
}
