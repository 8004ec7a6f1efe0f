package node

import (
	"errors"
	"slices"
	"testing"

	"raftmaster/transport/raftnet"
)

// F5: who is known stays for as long as it is there.
func TestF5ANodeMovesOnlyWhenItHasLeft(t *testing.T) {
	t.Parallel()
	conn := &watchConn{}
	for name, tc := range map[string]struct {
		change  func(*peer)
		contact bool
		boot    string
		moves   bool
	}{
		"the old one is connected":             {func(p *peer) { p.conn = conn }, false, "b2", false},
		"one process under two names":          {func(p *peer) { p.conn = conn }, true, "b1", true},
		"the connection has ended":             {func(*peer) {}, false, "b2", true},
		"raft was in contact a moment ago":     {func(*peer) {}, true, "b2", false},
		"in contact, but its process is gone":  {func(p *peer) { p.goneBoot = "b1" }, true, "b2", true},
		"in contact, but it has said goodbye":  {func(p *peer) { p.leftBoot = "b1" }, true, "b2", true},
		"it was an earlier process that ended": {func(p *peer) { p.conn, p.goneBoot = conn, "b0" }, false, "b2", false},
	} {
		table := newPeerTable()
		table.add("old:1")
		table.add("new:1")
		if err := table.heard("old:1", raftnet.Hello{NodeID: "x", BootID: "b1"}, nil, true); err != nil {
			t.Fatal(err)
		}
		table.update("old:1", tc.change)
		next := &watchConn{}
		err := table.heard("new:1", raftnet.Hello{NodeID: "x", BootID: tc.boot}, next, tc.contact)
		at, _ := table.addressOf("x")
		p, _ := table.get("new:1")
		var twin *twinError
		switch {
		case tc.moves && (err != nil || at != "new:1" || p.conn != next):
			t.Errorf("%s: it has not moved: %v, at %s", name, err, at)
		case !tc.moves && (!errors.As(err, &twin) || at != "old:1" || p.conn != nil || twin.Error() != "two masters have the node id x: old:1 and new:1"):
			t.Errorf("%s: %v, at %s", name, err, at)
		}
	}
}

// F5: a copy of a running master's data directory starts at another address, with a longer list.
func TestF5ACopyOfADataDirectoryDoesNotDisplaceTheOriginal(t *testing.T) {
	slow(t)
	t.Parallel()
	c := startAll(t, 3, nil)
	c.propose()
	c.converge()
	original := c.followers()[0]
	dir := t.TempDir()
	original.kill()
	if err := copyTree(original.dir, dir); err != nil {
		t.Fatal(err)
	}
	original.start()
	id := original.node.NodeID()
	others := slices.DeleteFunc(slices.Clone(c.members), func(m *member) bool { return m == original })
	knownAt := func(addr string) bool {
		return !slices.ContainsFunc(others, func(m *member) bool {
			p, ok := m.node.peers.byID(id)
			return !ok || p.addr != addr || p.conn == nil
		})
	}
	eventually(t, "the original is known", func() bool { return knownAt(original.addr) })

	addr := newHosts(1)[0]
	copied := &member{t: t, c: c, addr: addr, dir: dir, failed: make(map[string]error), edit: withList(append(slices.Clone(c.list), addr)...)}
	t.Cleanup(copied.kill)
	copied.start()
	text := "two masters have the node id " + id + ": "
	for _, m := range others {
		eventually(t, "the alarm at "+m.addr, func() bool { return m.alarmed(text + original.addr + " and " + addr) })
	}
	eventually(t, "the alarm at the copy", func() bool { return copied.alarmed(text + addr + " and " + original.addr) })
	for range 3 {
		if r := c.propose(); !knownAt(original.addr) {
			t.Fatal("the copy has displaced the original")
		} else {
			eventually(t, "the original gets entries", func() bool { return original.has(r) })
		}
	}
	if !c.leader().node.isTwin(id, addr) || c.leader().node.isTwin(id, original.addr) {
		t.Error("the copy's votes would count, or the original's would not")
	}

	copied.kill()
	for _, m := range c.running() {
		eventually(t, "the end of the alarm at "+m.addr, func() bool { return !m.alarmed(text) })
	}
	// And a master that really moves is let through.
	original.kill()
	copied.dir = original.dir
	copied.start()
	eventually(t, "the move", func() bool { return knownAt(addr) })
	r := c.propose()
	eventually(t, "it gets entries", func() bool { return copied.has(r) })
	for _, m := range others {
		eventually(t, "no alarm at "+m.addr, func() bool { return !m.alarmed(text) })
	}
}
