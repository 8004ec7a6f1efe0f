package node

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"

	"raftmaster/fsm"
	"raftmaster/transport/raftnet"
)

// release makes a member one of a release that knows this level.
func (m *member) release(level fsm.Level) {
	m.edit = func(cfg *Config) { cfg.seams.level = level }
}

// newer is a command that a release of level 1 does not know.
func newer() fsm.Command {
	c, _ := command().(fsm.RegisterWorker)
	return fsm.StageRestore{Meta: c.Meta, RestoreID: "r", Data: []byte("RAFTMSTR")}
}

// offer proposes a command at the leader and gives its outcome.
func (c *cluster) offer(cmd fsm.Command) error {
	c.t.Helper()
	l, id := c.leader(), cmd.Header().RequestID
	l.node.Propose(cmd)
	eventually(c.t, "outcome of "+id, func() bool { return l.has(id) || l.failure(id) != nil })
	return l.failure(id)
}

// onlyKnown fails when somebody has been given a command that a release of the level does not know.
func (c *cluster) onlyKnown(level fsm.Level) {
	c.t.Helper()
	for _, m := range c.running() {
		m.mu.Lock()
		for _, a := range m.applied {
			if fsm.LevelOf(a.Cmd.Type()) > level {
				c.t.Errorf("%s has applied %s at entry %d", m.addr, a.Cmd.Type(), a.Index)
			}
		}
		if m.fatal != nil {
			c.t.Errorf("%s: %v", m.addr, m.fatal)
		}
		m.mu.Unlock()
		if got := m.node.View().Level(); got > level {
			c.t.Errorf("%s says that the cluster uses level %d", m.addr, got)
		}
	}
}

// levelIs waits until every running master uses a level.
func (c *cluster) levelIs(level fsm.Level) {
	c.t.Helper()
	eventually(c.t, "the level", func() bool {
		for _, m := range c.running() {
			if m.node.View().Level() != level {
				return false
			}
		}
		return true
	})
}

// A rolling upgrade: whoever leads, and whoever is down, no command is appended that the oldest member does not know; after
// the last upgrade they are.
func TestR10_RollingUpgradeOpensTheGateAtTheEnd(t *testing.T) {
	slow(t)
	t.Parallel()
	c := newCluster(t, 3)
	for _, m := range c.members {
		m.release(fsm.LevelFirst)
		m.start()
	}
	c.propose()
	for i, m := range c.members {
		if i > 0 {
			c.onlyKnown(fsm.LevelFirst)
		}
		m.stop()
		m.release(fsm.LevelRestore)
		m.start()
		c.propose()
		eventually(t, "everybody watches everybody", c.connected)
		if i == len(c.members)-1 {
			break
		}
		// The new release leads.
		if l := c.leader(); l != m {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			_, err := l.node.TransferLeadership(ctx, m.addr)
			cancel()
			if err != nil {
				t.Fatal(err)
			}
		}
		eventually(t, "the new release leads", func() bool { return m.node.LeaseValid() })
		err := c.offer(newer())
		if old := c.members[len(c.members)-1]; !errors.Is(err, ErrLevel) || !strings.Contains(err.Error(), "knows level 1") {
			t.Errorf("a newer command while %s is old: %v", old.addr, err)
		}
		c.propose()
	}
	c.levelIs(fsm.LevelRestore)
	if err := c.offer(newer()); err != nil {
		t.Errorf("after the last upgrade: %v", err)
	}
	c.converge()
	for _, p := range c.leader().node.Status().Peers {
		if p.Level != fsm.CommandLevel {
			t.Errorf("status says level %d of %s", p.Level, p.Address)
		}
	}
}

// Who is down counts with its last word; who has never been heard of keeps the gate shut.
func TestR10_UnreachableMemberKeepsTheGateShut(t *testing.T) {
	slow(t)
	t.Parallel()
	c := newCluster(t, 3)
	old := c.members[2]
	old.release(fsm.LevelFirst)
	for _, m := range c.members {
		m.start()
	}
	c.propose()
	eventually(t, "everybody watches everybody", c.connected)
	old.kill()
	if err := c.offer(newer()); !errors.Is(err, ErrLevel) || !strings.Contains(err.Error(), old.addr) {
		t.Errorf("while the old one is down: %v", err)
	}
	for _, m := range c.members[:2] {
		m.kill()
		m.start()
	}
	c.propose()
	if err := c.offer(newer()); !errors.Is(err, ErrLevel) || !strings.Contains(err.Error(), "not been heard of") {
		t.Errorf("after a restart of the others: %v", err)
	}
	c.onlyKnown(fsm.LevelFirst)
	old.release(fsm.LevelRestore)
	old.start()
	c.levelIs(fsm.LevelRestore)
}

// A downgrade is refused by name: with its data, and with an empty directory. The others go on.
func TestR10_DowngradeIsRefusedByName(t *testing.T) {
	slow(t)
	t.Parallel()
	c := startAll(t, 3, nil)
	c.propose()
	c.levelIs(fsm.CommandLevel)
	victim := c.followers()[0]
	victim.kill()
	victim.release(fsm.LevelFirst)
	refused := func() bool {
		victim.mu.Lock()
		defer victim.mu.Unlock()
		return victim.fatal != nil && strings.Contains(victim.fatal.Error(), "install") || strings.Contains(victim.logs.String(), "knows commands of level 1, but the cluster uses those of level 2")
	}
	victim.start()
	c.propose()
	eventually(t, "the refusal", refused)
	victim.kill()
	if err := os.RemoveAll(victim.dir); err != nil {
		t.Fatal(err)
	}
	victim.logs.mu.Lock()
	victim.logs.b.Reset()
	victim.logs.mu.Unlock()
	victim.start()
	const sentence = "knows commands of level 1, but the cluster uses those of level 2, which a cluster never takes back: install there the release that the other masters have"
	eventually(t, "the refusal of the empty one", func() bool { return strings.Contains(victim.logs.String(), sentence) })
	id := victim.node.NodeID()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := c.leader().node.AddPeer(ctx, id, victim.addr, false); err == nil {
		t.Error("the old release was added")
	}
	c.propose()
	if got := c.leader().node.View().Level(); got != fsm.CommandLevel {
		t.Errorf("level %d", got)
	}
}

// A snapshot of a newer cluster does not get into an older release.
func TestR10_OlderReleaseRefusesTheSnapshot(t *testing.T) {
	m := fsm.NewMachine()
	m.Apply(1, 1, fsm.RaiseLevel{Level: fsm.LevelRestore})
	var b bytes.Buffer
	if err := m.Snapshot().Write(&b); err != nil {
		t.Fatal(err)
	}
	for _, known := range []fsm.Level{fsm.LevelFirst, fsm.LevelRestore} {
		a, fatal := offlineMachine(hclog.NewNullLogger())
		a.known = known
		err := a.Restore(nopCloser{bytes.NewReader(b.Bytes())})
		var level *fsm.LevelError
		if refused := errors.As(err, &level); refused != (known < fsm.LevelRestore) || (err != nil) != refused {
			t.Errorf("level %d: %v", known, err)
		}
		if level = nil; errors.As(*fatal, &level) != (known < fsm.LevelRestore) {
			t.Errorf("level %d: halted with %v", known, *fatal)
		}
	}
}

// An older release that starts on newer data does not begin with an older snapshot: it says which release it takes.
func TestR10_OlderReleaseDoesNotStartOnNewerData(t *testing.T) {
	t.Parallel()
	c := startAll(t, 1, smallSnapshots)
	c.levelIs(fsm.CommandLevel)
	m := c.leader()
	for range 2 {
		c.propose()
		if _, err := m.node.TakeSnapshot(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	m.stop()
	m.release(fsm.LevelFirst)
	var level *fsm.LevelError
	if err := m.tryStart(); !errors.As(err, &level) || !strings.Contains(err.Error(), "install the release that this master had before") {
		t.Errorf("it starts, or fails with %v", err)
	}
	m.release(fsm.CommandLevel)
	m.start()
	c.propose()
}

type nopCloser struct{ *bytes.Reader }

func (nopCloser) Close() error { return nil }

func TestTooOld(t *testing.T) {
	hello := func(level, used uint8) raftnet.Hello {
		return raftnet.Hello{NodeID: "n", Level: level, UsedLevel: used}
	}
	for _, c := range []struct {
		mine, theirs raftnet.Hello
		want         bool
	}{
		{hello(2, 1), hello(2, 1), false},
		{hello(2, 1), hello(1, 1), false},
		{hello(2, 1), hello(0, 0), false}, // a release that had no levels
		{hello(2, 2), hello(0, 0), true},
		{hello(2, 2), hello(1, 1), true},
		{hello(2, 1), hello(3, 3), true},
		{hello(2, 2), hello(3, 2), false},
	} {
		if got := tooOld(c.mine, c.theirs); (got != "") != c.want {
			t.Errorf("%+v meets %+v: %q", c.mine, c.theirs, got)
		}
	}
}
