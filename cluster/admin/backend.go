package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"sync"
	"time"

	"raftmaster/fsm"
	"raftmaster/transport/webui"
)

// transferPoll is how often a transfer looks for the new leader.
const transferPoll = 10 * time.Millisecond

// Backend reads a node and its leader service and shows them as webui's views.
type Backend struct {
	id     Identity
	node   Node
	master Master
	now    func() time.Time
	// families names a set of wire families; fsm keeps them as a bit mask only.
	families func(mask uint8) string
	// security gives alarms and notes of this process's own files and settings; nil for none.
	security Security
	// changing is held while the masters are changed.
	changing sync.Mutex
}

// NewBackend joins the sources. families names a mask of wire families (sparkmsg.FamilySet); now may be nil.
func NewBackend(id Identity, node Node, master Master, families func(uint8) string, now func() time.Time) *Backend {
	if now == nil {
		now = time.Now
	}
	if families == nil {
		families = familyLetters
	}
	return &Backend{id: id, node: node, master: master, families: families, now: now}
}

// familyLetters names the bits of a mask as sparkmsg.FamilySet does: bit 0 is family A.
func familyLetters(mask uint8) string {
	out := ""
	for bit := range 8 {
		if mask&(1<<bit) != 0 {
			out += string(rune('A' + bit))
		}
	}
	return out
}

// Status implements webui.State.
func (b *Backend) Status() webui.Status {
	ns, view := b.node.Status(), b.node.View()
	st := b.brief(ns)
	st.SnapshotIndex, st.LogBytes, st.SnapshotBytes, st.DiskFreeBytes = ns.SnapshotIndex, ns.LogBytes, ns.SnapshotBytes, ns.DiskFreeBytes
	st.UncoveredBytes, st.DataDir = ns.UncoveredBytes, ns.DataDir
	if ns.FirstLogIndex > 0 {
		st.LogEntries = ns.LastLogIndex + 1 - min(ns.FirstLogIndex, ns.LastLogIndex+1)
	}
	st.StateIndex, st.StateDigest = view.Index(), view.Digest().String()
	st.Counts = counts(view)
	st.LeaderChanges = b.leaderChanges(view, ns)
	if ns.Alive {
		st.TakeOver = takeOver(ns.Term, b.master.Soft())
	}
	return st
}

// Brief implements webui.State.
func (b *Backend) Brief() webui.Status { return b.brief(b.node.Status()) }

func (b *Backend) brief(ns NodeStatus) webui.Status {
	st := webui.Status{
		Version: b.id.Version, NodeID: ns.NodeID, BootID: ns.BootID, Address: ns.Address, ClusterID: ns.ClusterID,
		URL: b.id.MasterURL, ClusterURL: b.id.ClusterURL, WebURL: b.id.WebURL, RESTURL: b.id.RESTURL,
		State: webui.StateStandby, Role: ns.Role, LeaseValid: ns.Alive && b.node.LeaseValid(), Stalled: ns.Stalled, Term: ns.Term,
		CommitIndex: ns.CommitIndex, AppliedIndex: ns.AppliedIndex, LastLogIndex: ns.LastLogIndex,
		Transferring: ns.Transferring, StartedMillis: b.id.StartedMillis, NowMillis: b.now().UnixMilli(), Alarms: ns.Alarms,
		CommandLevel: ns.CommandLevel, Leader: b.leader(ns), Quorum: b.quorum(ns),
	}
	if ns.Alive {
		st.State = webui.StateAlive
	}
	if b.security != nil {
		st.Alarms = append(slices.Clone(st.Alarms), b.security.Alarms()...)
		st.Notes = b.security.Notes()
	}
	return st
}

// Guard adds the alarms and notes of security to those of the node. It must be called before the Backend is used.
func (b *Backend) Guard(security Security) { b.security = security }

// leader finds out where the leader is; nil when none is known.
func (b *Backend) leader(ns NodeStatus) *webui.Leader {
	if ns.LeaderID == "" && ns.LeaderAddress == "" {
		return nil
	}
	l := &webui.Leader{NodeID: ns.LeaderID, Address: ns.LeaderAddress}
	for _, p := range ns.Peers {
		if (ns.LeaderID != "" && p.NodeID == ns.LeaderID) || (ns.LeaderID == "" && p.Address == ns.LeaderAddress) {
			l.NodeID, l.WebURL = p.NodeID, p.WebURL
			if l.Address == "" {
				l.Address = p.Address
			}
		}
	}
	if l.NodeID == ns.NodeID {
		l.WebURL = b.id.WebURL
	}
	return l
}

func (b *Backend) quorum(ns NodeStatus) webui.Quorum {
	q := webui.Quorum{Peers: make([]webui.Peer, 0, len(ns.Peers))}
	for _, p := range ns.Peers {
		self := p.NodeID == ns.NodeID && p.Address == ns.Address
		peer := webui.Peer{
			NodeID: p.NodeID, Address: p.Address, WebURL: p.WebURL, RESTURL: p.RESTURL, Self: self, Member: p.Member, Voter: p.Voter,
			Role: peerRole(p, ns, self), Reachable: self || p.Reachable, LastContactMillis: webui.Unknown,
			Lag: lag(p, ns, self), Version: p.Version, CommandLevel: p.CommandLevel, Problem: p.Problem,
		}
		switch {
		case self:
			peer.LastContactMillis, peer.Version, peer.WebURL, peer.RESTURL = 0, b.id.Version, b.id.WebURL, b.id.RESTURL
		case p.LastContact >= 0:
			peer.LastContactMillis = p.LastContact.Milliseconds()
		}
		if p.Voter {
			q.Voters++
			if peer.Reachable {
				q.Reachable++
			}
		}
		q.Peers = append(q.Peers, peer)
	}
	sort.Slice(q.Peers, func(i, j int) bool { return q.Peers[i].Address < q.Peers[j].Address })
	q.Needed = q.Voters/2 + 1
	q.Tolerance = q.Reachable - q.Needed
	return q
}

func peerRole(p PeerStatus, ns NodeStatus, self bool) string {
	switch {
	case self:
		return ns.Role
	case p.NodeID != "" && p.NodeID == ns.LeaderID:
		return webui.RoleLeader
	case !p.Member || !p.Reachable || ns.LeaderID == "":
		return webui.RoleUnknown
	}
	return webui.RoleFollower
}

// lag is known to the leader alone, who knows what each peer has acknowledged.
func lag(p PeerStatus, ns NodeStatus, self bool) int64 {
	switch {
	case self && ns.Role == webui.RoleLeader:
		return 0
	case ns.Role != webui.RoleLeader || p.LastIndex == 0:
		return webui.Unknown
	case p.LastIndex >= ns.LastLogIndex:
		return 0
	}
	return int64(ns.LastLogIndex - p.LastIndex)
}

func takeOver(term uint64, soft Soft) *webui.TakeOver {
	if len(soft.Awaited) == 0 {
		return nil
	}
	t := &webui.TakeOver{Term: term, StartedMillis: soft.TakeOverStartedMillis}
	for _, a := range soft.Awaited {
		t.Awaited = append(t.Awaited, webui.Awaited{Kind: a.Kind, ID: a.ID, Address: a.Address,
			DeadlineMillis: a.DeadlineMillis, Attempts: a.Attempts})
		t.DeadlineMillis = max(t.DeadlineMillis, a.DeadlineMillis)
	}
	return t
}

func (b *Backend) leaderChanges(view fsm.View, ns NodeStatus) []webui.LeaderChange {
	history := view.LeaderHistory()
	out := make([]webui.LeaderChange, 0, len(history))
	for _, r := range history {
		c := webui.LeaderChange{Term: r.Term, Index: r.Index, NodeID: r.NodeID, TimeMillis: r.AtMillis, Reason: r.Reason}
		for _, p := range ns.Peers {
			if p.NodeID == r.NodeID {
				c.Address = p.Address
			}
		}
		out = append(out, c)
	}
	return out
}

// TransferLeadership implements webui.Leadership: it checks the target, asks Raft, and waits for the new leader.
func (b *Backend) TransferLeadership(ctx context.Context, req webui.TransferRequest) (webui.Transfer, error) {
	ns, err := b.leading("transfer from")
	if err != nil {
		return webui.Transfer{}, err
	}
	self := webui.Leader{NodeID: ns.NodeID, Address: ns.Address, WebURL: b.id.WebURL}
	target, err := transferTarget(ns, req.To)
	if err != nil {
		return webui.Transfer{}, err
	}
	out := webui.Transfer{From: self, Term: ns.Term, DryRun: req.DryRun,
		To: webui.Leader{NodeID: target.NodeID, Address: target.Address, WebURL: target.WebURL}}
	if req.DryRun {
		return out, nil
	}
	start := b.now()
	if err := b.node.TransferLeadership(ctx, target.NodeID); err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			return webui.Transfer{}, &webui.Error{Code: webui.CodeTimeout, Message: "leadership transfer: " + err.Error()}
		}
		return webui.Transfer{}, &webui.Error{Code: webui.CodeRefused, Message: "leadership transfer: " + err.Error()}
	}
	l, term, err := b.awaitLeader(ctx, ns.NodeID, ns.Term)
	if err != nil {
		return webui.Transfer{}, err
	}
	out.To, out.Term, out.DurationMillis = l, term, b.now().Sub(start).Milliseconds()
	return out, nil
}

// transferTarget finds the voter that is meant; without a name, none: Raft then chooses the one furthest ahead.
func transferTarget(ns NodeStatus, to string) (PeerStatus, error) {
	others := 0
	for _, p := range ns.Peers {
		self := p.NodeID == ns.NodeID
		if p.Voter && !self && p.Reachable {
			others++
		}
		if to == "" || (p.NodeID != to && p.Address != to) {
			continue
		}
		switch {
		case self:
			return PeerStatus{}, &webui.Error{Code: webui.CodeRefused, Message: to + " is the leader already"}
		case !p.Voter:
			return PeerStatus{}, &webui.Error{Code: webui.CodeRefused, Message: to + " is not a voter"}
		case !p.Reachable:
			return PeerStatus{}, &webui.Error{Code: webui.CodeRefused, Message: to + " is not in contact with the leader"}
		}
		return p, nil
	}
	if to != "" {
		return PeerStatus{}, &webui.Error{Code: webui.CodeNotFound, Message: fmt.Sprintf("no master has the id or address %q", to)}
	}
	if others == 0 {
		return PeerStatus{}, &webui.Error{Code: webui.CodeRefused, Message: "no other voter is in contact with the leader"}
	}
	return PeerStatus{}, nil
}

// awaitLeader waits until this node knows a leader of a later term.
func (b *Backend) awaitLeader(ctx context.Context, old string, term uint64) (webui.Leader, uint64, error) {
	tick := time.NewTicker(transferPoll)
	defer tick.Stop()
	for {
		ns := b.node.Status()
		if l := b.leader(ns); l != nil && l.NodeID != old && ns.Term > term {
			return *l, ns.Term, nil
		}
		select {
		case <-ctx.Done():
			return webui.Leader{}, 0, &webui.Error{Code: webui.CodeTimeout,
				Message: "leadership was given up, but no new leader is known yet: " + ctx.Err().Error()}
		case <-tick.C:
		}
	}
}
