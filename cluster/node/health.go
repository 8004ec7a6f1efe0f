package node

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"raftmaster/transport/raftnet"
)

// stallAfter is how long a leader's entries may wait for their commitment before somebody must know.
const stallAfter = 5 * time.Second

// stall notices a leader that gets nothing committed: followers that cannot write their logs answer its heartbeats, so
// that it keeps its lease. The zero value is ready.
type stall struct {
	mu      sync.Mutex
	commit  uint64
	since   time.Time // the first reading with this commit index and something waiting; zero when nothing is
	stalled bool
	told    bool // the watchers know that this node's log cannot be written
}

// look takes a reading and gives how long nothing was committed although something waits; 0 when all is well.
func (s *stall) look(now time.Time, leading bool, last, commit uint64) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !leading || last <= commit:
		s.since, s.stalled = time.Time{}, false
		return 0
	case s.since.IsZero() || commit != s.commit:
		s.commit, s.since = commit, now
	}
	waited := now.Sub(s.since)
	if s.stalled = waited >= stallAfter; !s.stalled {
		return 0
	}
	return waited
}

func (s *stall) is() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stalled
}

// changed records whether there is something to tell, and tells whether that is new.
func (s *stall) changed(trouble bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.told
	s.told = trouble
	return before != trouble
}

// watchHealth renews the alarms about this node's own state, and tells its watchers about a log that cannot be written.
func (n *Node) watchHealth() {
	n.watchProgress()
	text := ""
	if err := n.store.SnapshotHealth(); err != nil {
		text = "the log cannot be compacted: " + err.Error()
	}
	n.alarms.put("snapshot", text)
	n.tellTrouble()
}

func (n *Node) watchProgress() {
	in := n.inst.Load()
	s := in.raft.Stats()
	last, commit := stat(s, "last_log_index"), stat(s, "commit_index")
	waited := n.proposer.stall.look(time.Now(), in.raft.State() == raft.Leader, last, commit)
	if waited == 0 {
		n.alarms.clear("stalled")
		return
	}
	var why []string
	for _, p := range n.peers.list() {
		problem := p.problem
		if problem == "" {
			problem = p.trouble
		}
		if problem != "" {
			why = append(why, p.addr+": "+problem)
		}
	}
	text := fmt.Sprintf("entries are not committed: %d wait for a majority, the last progress was %d s ago", last-commit, int(waited.Seconds()))
	if len(why) > 0 {
		text += " (" + strings.Join(why, "; ") + ")"
	}
	n.alarms.set("stalled", text)
	if n.noise.allow("stalled") {
		n.log.Error("entries are not committed", "last_index", last, "commit_index", commit, "since", waited.Round(time.Second), "problems", strings.Join(why, "; "))
	}
}

// tellTrouble says to the watchers, the leader among them, that this node cannot take entries, and when it can again. An
// Info has no use for the field Refused otherwise; here it says why the sender refuses entries. It is repeated, because a
// watcher may be new.
func (n *Node) tellTrouble() {
	err := n.store.Health()
	if changed := n.proposer.stall.changed(err != nil); err == nil && !changed {
		return
	}
	h := n.hello(raftnet.KindWatch)
	if err != nil {
		h.Refused = "the raft log cannot be written: " + err.Error()
	}
	n.eachWatcher(&raftnet.Info{Hello: h}, nil)
}

// noteTrouble takes a peer's word about what is wrong with it out of an Info.
func (n *Node) noteTrouble(addr string, h *raftnet.Hello) {
	trouble := h.Refused
	h.Refused = ""
	n.peers.update(addr, func(p *peer) { p.trouble = trouble })
}
