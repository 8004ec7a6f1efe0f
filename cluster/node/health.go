package node

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/raft"
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
	blocked string // why nothing can be committed now, although perhaps nothing waits; "" when it can
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
	return s.stalled || s.blocked != ""
}

func (s *stall) block(why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.blocked = why
}

// watchHealth renews the alarms about this node's own state, and tells its watchers about a log that cannot be written.
func (n *Node) watchHealth() {
	n.watchProgress()
	text := ""
	if err := n.store.SnapshotHealth(); err != nil {
		text = "the log cannot be compacted: " + err.Error()
	}
	n.alarms.put("snapshot", text)
}

func (n *Node) watchProgress() {
	in := n.inst.Load()
	s := in.raft.Stats()
	last, commit := stat(s, "last_log_index"), stat(s, "commit_index")
	leading := in.raft.State() == raft.Leader
	waited := n.proposer.stall.look(time.Now(), leading, last, commit)
	blocked := ""
	if leading {
		blocked = n.noMajorityOfDisks(in)
	}
	n.proposer.stall.block(blocked)
	n.alarms.put("blocked", blocked)
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
