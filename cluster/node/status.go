package node

import (
	"sort"
	"strconv"
	"time"

	"github.com/hashicorp/raft"

	"raftmaster/cluster/raftstore"
)

func stat(s map[string]string, key string) uint64 {
	v, _ := strconv.ParseUint(s[key], 10, 64) // raft prints these as numbers
	return v
}

// Status is this node's own view. It needs no leader and no quorum, and takes short locks only.
func (n *Node) Status() Status {
	in := n.inst.Load()
	s := in.raft.Stats()
	leaderID, leaderAddr := n.Leader()
	st := Status{
		NodeID: n.nodeID, ClusterID: n.ClusterID(), BootID: n.bootID, Address: n.cfg.Self, Role: n.role(in),
		Term: stat(s, "term"), CommitIndex: stat(s, "commit_index"), AppliedIndex: stat(s, "applied_index"),
		LastLogIndex: stat(s, "last_log_index"), LastLogTerm: stat(s, "last_log_term"),
		SnapshotIndex: stat(s, "last_snapshot_index"), SnapshotTerm: stat(s, "last_snapshot_term"),
		ConfigurationIndex: stat(s, "latest_configuration_index"), LastContact: n.lastContact(in),
		LeaseRemaining: n.leaseRemaining(), Transferring: n.transferring.Load(), Alarms: n.alarms.list(), Level: n.View().Level(),
		Stalled: n.proposer.stall.is(),
	}
	if st.LeaseRemaining == noEnd-n.cfg.BootTime() || st.LeaseRemaining > time.Hour {
		st.LeaseRemaining = n.cfg.FailoverTimeout // a lone voter's never ends
	}
	st.LastLogIndex = max(st.LastLogIndex, st.SnapshotIndex)
	st.Peers = n.statusPeers(in, st.LastLogIndex)
	for _, p := range st.Peers {
		if p.NodeID == leaderID && leaderID != "" {
			st.Leader = p
		}
	}
	if leaderID != "" && st.Leader.NodeID == "" {
		st.Leader = Peer{NodeID: leaderID, Address: leaderAddr}
	}
	n.digests.mu.Lock()
	st.Digest = n.digests.last
	n.digests.mu.Unlock()
	n.diskStatus(&st)
	return st
}

func (n *Node) role(in *instance) Role {
	switch in.raft.State() {
	case raft.Leader:
		return RoleLeader
	case raft.Candidate:
		return RoleCandidate
	case raft.Shutdown:
		return RoleStopped
	}
	if n.ClusterID() == "" {
		return RoleFresh
	}
	return RoleFollower
}

func (n *Node) lastContact(in *instance) time.Duration {
	if in.raft.State() == raft.Leader {
		return 0
	}
	if t := in.raft.LastContact(); !t.IsZero() {
		return time.Since(t)
	}
	return -1
}

func (n *Node) statusPeers(in *instance, last uint64) []Peer {
	leading := in.raft.State() == raft.Leader
	u := n.urls.Load()
	byAddr := map[string]*Peer{n.cfg.Self: {
		NodeID: n.nodeID, Address: n.cfg.Self, BootID: n.bootID, WebURL: u.web, RESTURL: u.rest, Version: n.cfg.Version, Level: n.cfg.level(), Connected: true,
	}}
	for _, p := range n.peers.list() {
		if p.problem == "" {
			p.problem = p.trouble
		}
		byAddr[p.addr] = &Peer{
			NodeID: p.hello.NodeID, Address: p.addr, BootID: p.hello.BootID, WebURL: p.hello.WebURL, RESTURL: p.hello.RESTURL,
			Version: p.hello.Version, Level: announced(p.hello), Connected: p.conn != nil, Problem: p.problem, LastContact: -1,
		}
	}
	for _, s := range in.raft.GetConfiguration().Configuration().Servers {
		addr := string(n.resolve(s.ID, s.Address))
		p := byAddr[addr]
		if p == nil || (p.NodeID != "" && p.NodeID != string(s.ID)) {
			// A member whose place another node has taken, or that nobody has dialled yet.
			p = &Peer{Address: addr, LastContact: -1}
			byAddr[addr+" "+string(s.ID)] = p
		}
		p.NodeID, p.Member, p.Voter = string(s.ID), true, s.Suffrage == raft.Voter
		if !leading {
			continue
		}
		if string(s.ID) == n.nodeID {
			p.MatchIndex = last
			continue
		}
		if a, ok := n.lease.peer(s.ID); ok {
			p.LastContact, p.MatchIndex = n.cfg.BootTime()-a.contact, a.match
		}
		p.TrailsBy = last - min(last, p.MatchIndex)
	}
	out := make([]Peer, 0, len(byAddr))
	for _, p := range byAddr {
		out = append(out, *p)
	}
	sort.Slice(out, func(i, j int) bool {
		if out[i].Address != out[j].Address {
			return out[i].Address < out[j].Address
		}
		return out[i].NodeID < out[j].NodeID
	})
	return out
}

func (n *Node) diskStatus(st *Status) {
	var err error
	st.DataDir = n.cfg.DataDir
	if st.FirstLogIndex, _, err = n.store.Bounds(); err != nil {
		st.Alarms = append(st.Alarms, "the log cannot be read: "+err.Error())
	}
	st.UncoveredBytes = n.store.BytesAfter(st.SnapshotIndex)
	if st.LogBytes, st.SnapshotBytes, err = n.store.Sizes(); err != nil {
		st.Alarms = append(st.Alarms, "the data directory cannot be read: "+err.Error())
	}
	if st.DiskFreeBytes, err = raftstore.FreeBytes(n.cfg.DataDir); err != nil {
		st.Alarms = append(st.Alarms, "the file system cannot be asked for its free space: "+err.Error())
		return
	}
	if st.DiskFreeBytes < lowDiskBytes {
		st.Alarms = append(st.Alarms, "only "+strconv.FormatInt(st.DiskFreeBytes>>20, 10)+" MiB are free for "+n.cfg.DataDir)
	}
}

func (a *alarms) list() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := make([]string, 0, len(a.m))
	for _, text := range a.m {
		out = append(out, text)
	}
	sort.Strings(out)
	return out
}
