package node

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"raftmaster/cluster/raftstore"
	"raftmaster/fsm"
	"raftmaster/transport/raftnet"
)

// digests compares the replicas' states. A CheckDigest entry carries no digest: each replica records its own as it
// applies the entry, followers report it to the leader over the watch connection, and the leader decides.
type digests struct {
	n *Node

	mu       sync.Mutex
	own      map[uint64]string            // by index, the last few
	order    []uint64                     // of own
	reports  map[uint64]map[string]string // index -> node id -> digest
	signal   chan struct{}                // closed and replaced when something is added
	last     DigestStatus
	lastView uint64 // index of the state after the last comparison

	running sync.Mutex
	send    chan raftnet.DigestReport
}

const (
	keepDigests = 16
	// digestWait is how long the leader waits for the followers' digests.
	digestWait = 5 * time.Second
)

// ErrDiverged: this replica's state differs from that of the majority.
var ErrDiverged = errors.New("the state of this master differs from that of the majority")

func newDigests(n *Node) *digests {
	return &digests{
		n: n, own: make(map[uint64]string), reports: make(map[uint64]map[string]string),
		signal: make(chan struct{}), send: make(chan raftnet.DigestReport, keepDigests),
	}
}

// record is called on the FSM goroutine; it must not block.
func (d *digests) record(index, _ uint64, digest string) {
	if f := d.n.cfg.seams.corruptDigest; f != nil {
		digest = f(digest)
	}
	d.mu.Lock()
	d.own[index] = digest
	d.order = append(d.order, index)
	if len(d.order) > keepDigests {
		delete(d.own, d.order[0])
		delete(d.reports, d.order[0])
		d.order = d.order[1:]
	}
	d.notify()
	d.mu.Unlock()
	select {
	case d.send <- raftnet.DigestReport{Index: index, Digest: digest}:
	default: // the reporter is behind by many; the leader counts this node as silent
	}
}

func (d *digests) notify() {
	close(d.signal)
	d.signal = make(chan struct{})
}

// run reports digests to the leader, and as the leader has them compared now and then.
func (d *digests) run() {
	var tick <-chan time.Time
	if d.n.cfg.DigestInterval > 0 {
		t := time.NewTicker(d.n.cfg.DigestInterval)
		defer t.Stop()
		tick = t.C
	}
	for {
		select {
		case <-d.n.ctx.Done():
			return
		case r := <-d.send:
			d.report(r)
		case <-tick:
			if d.n.leaderTerm.Load() != 0 && d.n.View().Index() != d.lastIndex() {
				d.n.spawn(d.checkInBackground)
			}
		}
	}
}

func (d *digests) lastIndex() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.lastView
}

// report tells the leader this node's digest.
func (d *digests) report(r raftnet.DigestReport) {
	leader, _ := d.n.Leader()
	if leader == d.n.nodeID || leader == "" {
		return
	}
	p, ok := d.n.peers.byID(leader)
	if !ok || p.conn == nil {
		return
	}
	if err := p.conn.send(&r); err != nil {
		d.n.log.Debug("digest not reported", "leader", leader, "error", err)
	}
}

// reported takes a follower's digest.
func (d *digests) reported(nodeID string, r raftnet.DigestReport) {
	d.mu.Lock()
	defer d.mu.Unlock()
	m := d.reports[r.Index]
	if m == nil {
		if len(d.reports) >= 2*keepDigests {
			clear(d.reports) // somebody reports what nobody asked for
		}
		m = make(map[string]string)
		d.reports[r.Index] = m
	}
	if len(m) < maxPeers {
		m[nodeID] = r.Digest
	}
	d.notify()
}

func (d *digests) checkInBackground() {
	ctx, cancel := context.WithTimeout(d.n.ctx, 2*digestWait)
	defer cancel()
	if _, err := d.n.CheckDigest(ctx); err != nil {
		d.n.log.Warn("the replicas' digests were not compared", "error", err)
	}
}

// CheckDigest has the replicas compare their states now. Leader only.
func (n *Node) CheckDigest(ctx context.Context) (DigestStatus, error) {
	d := n.digests
	d.running.Lock()
	defer d.running.Unlock()
	in, err := n.leading()
	if err != nil {
		return DigestStatus{}, err
	}
	data, err := fsm.EncodeCommand(fsm.CheckDigest{Meta: fsm.Meta{NowMillis: time.Now().UnixMilli(), RequestID: "digest-" + raftstore.NewID()}})
	if err != nil {
		return DigestStatus{}, fmt.Errorf("encode CheckDigest: %w", err)
	}
	future := in.raft.Apply(raftstore.Seal(data), timeLeft(ctx))
	if err := await(ctx, future); err != nil {
		return DigestStatus{}, err
	}
	index := future.Index()
	byNode := d.collect(ctx, in, index)
	status := d.judge(in, index, byNode)
	d.mu.Lock()
	d.last, d.lastView = status, max(d.lastView, index)
	d.mu.Unlock()
	return status, nil
}

// collect waits for the voters' digests at an index, for a while.
func (d *digests) collect(ctx context.Context, in *instance, index uint64) map[string]string {
	ctx, cancel := context.WithTimeout(ctx, digestWait)
	defer cancel()
	for {
		d.mu.Lock()
		signal := d.signal
		byNode := make(map[string]string)
		if own, ok := d.own[index]; ok {
			byNode[d.n.nodeID] = own
		}
		for id, digest := range d.reports[index] {
			byNode[id] = digest
		}
		d.mu.Unlock()
		missing := false
		for _, s := range in.raft.GetConfiguration().Configuration().Servers {
			if _, ok := byNode[string(s.ID)]; !ok && s.Suffrage == raft.Voter && (string(s.ID) == d.n.nodeID || d.n.inContact(s.ID)) {
				missing = true
			}
		}
		if !missing {
			return byNode
		}
		select {
		case <-signal:
		case <-ctx.Done():
			return byNode
		}
	}
}

// judge compares. A minority halts; a leader in the minority gives leadership up before it does; without a majority
// nobody can tell who is right, so there is only an alarm.
func (d *digests) judge(in *instance, index uint64, byNode map[string]string) DigestStatus {
	voters, count := 0, make(map[string]int)
	for _, s := range in.raft.GetConfiguration().Configuration().Servers {
		if s.Suffrage != raft.Voter {
			continue
		}
		voters++
		if digest, ok := byNode[string(s.ID)]; ok {
			count[digest]++
		}
	}
	status := DigestStatus{Index: index, Replied: len(byNode)}
	for digest, k := range count {
		if k > voters/2 {
			status.Digest, status.Agreed = digest, k
		}
	}
	switch {
	case status.Digest == "" && len(count) > 1:
		text := fmt.Sprintf("the masters' states differ at entry %d and no majority agrees: %v", index, byNode)
		d.n.log.Error("digests differ without a majority", "index", index, "digests", fmt.Sprint(byNode))
		d.n.alarms.set("digest", text)
		d.n.cfg.OnEvent(Event{Kind: "digest", NodeID: d.n.nodeID, Term: in.raft.CurrentTerm(), Detail: text})
	case status.Digest == "":
		d.n.log.Warn("too few masters reported a digest", "index", index, "replied", len(byNode), "voters", voters)
	case len(count) == 1:
		d.n.alarms.clear("digest")
	default:
		d.expel(in, status, byNode)
	}
	return status
}

func (d *digests) expel(in *instance, status DigestStatus, byNode map[string]string) {
	text := fmt.Sprintf("the states differ at entry %d: %v", status.Index, byNode)
	d.n.log.Error("digests differ: the minority must halt", "index", status.Index, "majority", status.Digest, "digests", fmt.Sprint(byNode))
	d.n.alarms.set("digest", text)
	d.n.cfg.OnEvent(Event{Kind: "digest", NodeID: d.n.nodeID, Term: in.raft.CurrentTerm(), Detail: text})
	if byNode[d.n.nodeID] == status.Digest {
		verdict := &raftnet.DigestVerdict{Term: in.raft.CurrentTerm(), Index: status.Index, Digest: status.Digest}
		d.n.eachWatcher(verdict, func(id string) bool {
			digest, ok := byNode[id]
			return ok && digest != status.Digest
		})
		return
	}
	for id, digest := range byNode {
		if digest != status.Digest {
			continue
		}
		ctx, cancel := context.WithTimeout(d.n.ctx, 4*d.n.cfg.FailoverTimeout)
		_, err := d.n.TransferLeadership(ctx, id)
		cancel()
		if err == nil {
			break
		}
		d.n.log.Warn("cannot hand leadership to the majority", "to", id, "error", err)
	}
	d.n.diverged(status.Index, status.Digest, byNode[d.n.nodeID])
}

// verdict takes the leader's word. It counts only from the leader of this term, and for a digest that this node has
// recorded itself.
func (d *digests) verdict(from string, v raftnet.DigestVerdict) {
	leader, _ := d.n.Leader()
	d.mu.Lock()
	own, ok := d.own[v.Index]
	d.mu.Unlock()
	if ok && own != v.Digest && leader == from && v.Term == d.n.inst.Load().raft.CurrentTerm() {
		d.n.diverged(v.Index, v.Digest, own)
	}
}

func (n *Node) diverged(index uint64, majority, own string) {
	n.halt(fmt.Errorf("%w: at entry %d it is %s here and %s there; to rejoin: keep %s for analysis, start with an empty data directory, and on the leader run raftctl peers remove %s and peers add for the new node id",
		ErrDiverged, index, own, majority, n.cfg.DataDir, n.nodeID))
}
