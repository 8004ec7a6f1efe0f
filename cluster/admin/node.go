package admin

import (
	"context"
	"time"

	"raftmaster/cluster/node"
	"raftmaster/fsm"
	"raftmaster/transport/webui"
)

// contactWindow is how recent a peer's last word must be to count as contact when its watch connection is down.
const contactWindow = 2 * time.Second

// RaftNode is the part of cluster/node that an operator sees.
type RaftNode interface {
	View() fsm.View
	Status() node.Status
	LeaseValid() bool
	TransferLeadership(ctx context.Context, target string) (node.Transfer, error)
	AddPeer(ctx context.Context, nodeID, address string, voter bool) error
	RemovePeer(ctx context.Context, nodeID string, force bool) error
}

// NodeOf adapts a Raft node. alive reports whether this master has taken over: elected, and everything committed before
// is applied.
func NodeOf(n RaftNode, alive func() bool) Node { return &raftNode{RaftNode: n, alive: alive} }

type raftNode struct {
	RaftNode
	alive func() bool
}

var roles = map[node.Role]string{
	node.RoleLeader: webui.RoleLeader, node.RoleFollower: webui.RoleFollower, node.RoleCandidate: webui.RoleCandidate,
	node.RoleFresh: webui.RoleFresh, node.RoleStopped: webui.RoleStopped,
}

// Status implements Node.
func (r *raftNode) Status() NodeStatus {
	s := r.RaftNode.Status()
	role, ok := roles[s.Role]
	if !ok {
		role = webui.RoleUnknown
	}
	out := NodeStatus{
		NodeID: s.NodeID, BootID: s.BootID, Address: s.Address, ClusterID: s.ClusterID, Role: role,
		Alive: role == webui.RoleLeader && r.alive(), Term: s.Term,
		CommitIndex: s.CommitIndex, AppliedIndex: s.AppliedIndex, LastLogIndex: s.LastLogIndex, SnapshotIndex: s.SnapshotIndex,
		LogBytes: s.LogBytes, SnapshotBytes: s.SnapshotBytes, DiskFreeBytes: s.DiskFreeBytes, Transferring: s.Transferring,
		UncoveredBytes: s.UncoveredBytes, DataDir: s.DataDir, FirstLogIndex: s.FirstLogIndex, CommandLevel: int(s.Level),
		LeaderID: s.Leader.NodeID, LeaderAddress: s.Leader.Address, Stalled: s.Stalled, Alarms: s.Alarms,
	}
	for _, p := range s.Peers {
		out.Peers = append(out.Peers, peerStatus(p, s))
	}
	return out
}

// replaced: another master answers at the address of this member.
func replaced(p node.Peer, s node.Status) bool {
	for _, o := range s.Peers {
		if o.Address == p.Address && o.NodeID != p.NodeID && o.Connected {
			return true
		}
	}
	return false
}

// peerStatus adds what a follower knows of its leader: when it last heard from it.
func peerStatus(p node.Peer, s node.Status) PeerStatus {
	contact := p.LastContact
	if contact < 0 && p.Address == s.Leader.Address && s.Role == node.RoleFollower {
		contact = s.LastContact
	}
	recent := contact >= 0 && contact < contactWindow
	return PeerStatus{
		NodeID: p.NodeID, Address: p.Address, WebURL: p.WebURL, RESTURL: p.RESTURL, Version: p.Version, Problem: p.Problem, CommandLevel: int(p.Level),
		Member: p.Member, Voter: p.Voter, Reachable: p.Connected || (recent && !replaced(p, s)),
		Sure:        p.Connected && recent,
		LastContact: contact, LastIndex: p.MatchIndex,
	}
}

// TransferLeadership implements Node.
func (r *raftNode) TransferLeadership(ctx context.Context, nodeID string) error {
	_, err := r.RaftNode.TransferLeadership(ctx, nodeID)
	return err
}
