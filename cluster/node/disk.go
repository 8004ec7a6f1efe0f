package node

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"raftmaster/cluster/raftstore"
	"raftmaster/transport/raftnet"
)

// What a disk can do to a master, and what follows:
//
//   - a write fails (full, read-only, I/O error): raft gives leadership up by itself;
//   - the data directory is gone (removed, unmounted): writes would succeed, on files that no later start finds. They are
//     refused, and leadership is handed over without waiting for the next one;
//   - a write hangs: raft's leader waits for it, but its heartbeats go on, so that nobody would elect another one. They are
//     stopped (raftnet, MayLead);
//   - every write is slow: leadership is handed to a master whose disk is not.
//
// In each case this node says so to the others, does not campaign (unless it is only slow), and goes on by itself when the
// disk is well.

// Limits of a write of entries; raised with the failover time-out, because that says what stalls are expected.
const (
	minSlowWrite = time.Second
	minHungWrite = 3 * time.Second
	// yieldPause is between two attempts to hand leadership over because of the disk.
	yieldPause = 10 * time.Second
)

func (c *Config) storeOptions(changed chan<- struct{}) raftstore.Options {
	return raftstore.Options{
		Dir: c.DataDir, Logger: c.Logger.Named("store"), WriteFault: c.writeFault(), BeforeSync: c.Disk.BeforeSync,
		SlowAfter: max(2*c.FailoverTimeout, minSlowWrite), HangAfter: max(6*c.FailoverTimeout, minHungWrite),
		OnHealth: func(error) {
			select {
			case changed <- struct{}{}:
			default: // the look that is due sees this change, too
			}
		},
	}
}

// diskWords is what was said last about this node's disk.
type diskWords struct {
	mu      sync.Mutex
	trouble string // for the other masters; "" when all is well
	kind    string // of the trouble: repeated words of one kind are no news
	yielded time.Time
}

// watchDisk probes the disk once a second, and looks at once when a write has failed.
func (n *Node) watchDisk() {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		probe := false
		select {
		case <-n.ctx.Done():
			return
		case <-n.diskChanged:
		case <-tick.C:
			probe = true
		}
		n.lookAtDisk(probe)
	}
}

func (n *Node) lookAtDisk(probe bool) {
	err := n.store.Health()
	if probe {
		err = n.store.Probe()
	}
	kind, text := "", ""
	if slow := n.store.Slow(); err != nil {
		kind, text = "unwritable", "the raft log cannot be written: "+err.Error()
	} else if slow > 0 {
		kind, text = "slow", fmt.Sprintf("the disk is slow: each write of the raft log takes long, the last one %d ms (%s)", slow.Milliseconds(), n.cfg.DataDir)
	}
	n.alarms.put("storage", text)
	n.disk.mu.Lock()
	news := n.disk.kind != kind
	n.disk.kind, n.disk.trouble = kind, text
	n.disk.mu.Unlock()
	if news {
		detail := text
		if detail == "" {
			detail = "the raft log can be written again"
		}
		n.cfg.OnEvent(Event{Kind: "storage", NodeID: n.nodeID, Term: n.inst.Load().raft.CurrentTerm(), Detail: n.cfg.Self + ": " + detail})
		if kind == "slow" {
			n.log.Error("the disk is slow; another master should lead", "detail", text)
		}
	}
	if news || text != "" { // repeated while it lasts, because a watcher may be new
		n.tellTrouble(text)
	}
	if text != "" && !errors.Is(err, raftstore.ErrHung) {
		n.yield(text)
	}
}

// tellTrouble says to the watchers, the leader among them, what is wrong with this node's disk, "" for nothing. An Info has no use
// for the field Refused otherwise.
func (n *Node) tellTrouble(text string) {
	h := n.hello(raftnet.KindWatch)
	h.Refused = text
	n.eachWatcher(&raftnet.Info{Hello: h}, nil)
}

// noteTrouble takes a peer's word about what is wrong with it out of an Info. When it leads, the next election has its reason.
func (n *Node) noteTrouble(addr string, h *raftnet.Hello) {
	trouble := h.Refused
	h.Refused = ""
	before := ""
	n.peers.update(addr, func(p *peer) { before, p.trouble = p.trouble, trouble })
	if id, _ := n.Leader(); trouble != "" && before == "" && id == h.NodeID {
		n.cfg.OnEvent(Event{Kind: "failover", NodeID: id, Term: n.inst.Load().raft.CurrentTerm(), Detail: "the leader " + addr + " says: " + trouble})
	}
}

// yield hands leadership to a voter without trouble, if there is one. Raft gives it up by itself only when a write fails.
func (n *Node) yield(why string) {
	if n.leaderTerm.Load() == 0 || n.transferring.Load() {
		return
	}
	in := n.inst.Load()
	to, err := n.pickTarget(in, "")
	if err != nil || n.troubleOf(to.ID) != "" {
		return
	}
	n.disk.mu.Lock()
	soon := time.Since(n.disk.yielded) < yieldPause
	if !soon {
		n.disk.yielded = time.Now()
	}
	n.disk.mu.Unlock()
	if soon {
		return
	}
	n.spawn(func() {
		ctx, cancel := context.WithTimeout(n.ctx, 4*n.cfg.FailoverTimeout)
		defer cancel()
		t, err := n.TransferLeadership(ctx, string(to.ID))
		switch {
		case err == nil:
			n.log.Warn("leadership handed over because of the disk", "reason", why, "to", t.LeaderID, "address", t.LeaderAddress, "took", t.Took)
		case errors.Is(err, ErrNotLeader), n.ctx.Err() != nil:
		default:
			n.log.Warn("leadership cannot be handed over because of the disk", "reason", why, "error", err)
		}
	})
}

// troubleOf is what a peer says is wrong with its disk.
func (n *Node) troubleOf(id raft.ServerID) string {
	p, _ := n.peers.byID(string(id))
	return p.trouble
}

// noMajorityOfDisks says why no entry can be committed: too many voters cannot write their logs. "" while enough can.
func (n *Node) noMajorityOfDisks(in *instance) string {
	voters, bad := 0, []string{}
	for _, s := range in.raft.GetConfiguration().Configuration().Servers {
		if s.Suffrage != raft.Voter {
			continue
		}
		voters++
		trouble := n.troubleOf(s.ID)
		if err := n.store.Health(); string(s.ID) == n.nodeID && err != nil {
			trouble = "the raft log cannot be written: " + err.Error()
		}
		if strings.HasPrefix(trouble, "the raft log cannot be written") {
			bad = append(bad, string(s.Address)+": "+trouble)
		}
	}
	if len(bad) <= (voters-1)/2 {
		return ""
	}
	return fmt.Sprintf("entries are not committed: %d of %d voters cannot write (%s)", len(bad), voters, strings.Join(bad, "; "))
}
