package node

import (
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/raft"

	"raftmaster/cluster/raftstore"
	"raftmaster/transport/raftnet"
)

// A data directory can end up under a cluster list that is another cluster's: a disk is moved, a list is mistaken. Raft's
// ids keep the clusters apart, but not the masters of the list: a lone voter needs nobody's vote, and would be a second
// leader in the place of one of them. So a lone voter, and a member at a new address, first ask the other masters of the
// list; a member of several voters at its own address can do no harm and asks nobody. docs/adr/0015.

// placeWait bounds the wait for the first word of the other masters of the list.
const placeWait = time.Second

// takePlace lets this node lead, unless its list is somebody else's: then it is halted. Until it is settled, which is at
// once for most, this node is not Elected.
func (n *Node) takePlace(in *instance) {
	servers := in.raft.GetConfiguration().Configuration().Servers
	lone := isLone(servers, n.nodeID)
	if n.ClusterID() == "" || len(n.cfg.Cluster) == 1 || (!lone && isAt(servers, n.nodeID, n.cfg.Self)) {
		close(n.placed)
		n.campaignIfAlone(in)
		return
	}
	if lone && !slices.ContainsFunc(servers, func(s raft.Server) bool { return slices.Contains(n.cfg.Cluster, string(s.Address)) }) {
		n.halt(n.wrongPlace(servers, fmt.Sprintf("--cluster names only others, %s; if just the address of this master has changed, start it once with --cluster naming it alone",
			raftnet.ListString(n.cfg.Cluster))))
		return
	}
	n.spawn(func() {
		n.awaitFirstWords()
		for cluster, at := range n.foreigners() {
			n.halt(n.wrongPlace(servers, fmt.Sprintf("of --cluster, %s belongs to cluster %s", raftnet.ListString(at), cluster)))
			return
		}
		if n.ctx.Err() == nil {
			close(n.placed)
			n.campaignIfAlone(n.inst.Load())
		}
	})
}

// awaitFirstWords waits until every other master of the list was dialled once.
func (n *Node) awaitFirstWords() {
	end := time.NewTimer(placeWait)
	defer end.Stop()
	for {
		changed := n.peers.wait()
		if !slices.ContainsFunc(n.peers.list(), func(p peer) bool { return !p.asked }) {
			return
		}
		select {
		case <-changed:
		case <-end.C:
			return
		case <-n.ctx.Done():
			return
		}
	}
}

// foreigners gives the addresses of the list whose masters, when last dialled, belonged to other clusters, by cluster.
func (n *Node) foreigners() map[string][]string {
	out := make(map[string][]string)
	for _, p := range n.peers.list() {
		if p.foreign != "" && slices.Contains(n.cfg.Cluster, p.addr) {
			out[p.foreign] = append(out[p.foreign], p.addr)
		}
	}
	return out
}

// yieldPlace halts a lone voter that could not ask the others at its start, and finds now that most of its list belongs
// to another cluster, which can elect a leader of its own. A single stranger ends nothing that works: it gives way when
// it starts.
func (n *Node) yieldPlace() {
	select {
	case <-n.placed:
	default:
		return // takePlace is stricter
	}
	servers := n.inst.Load().raft.GetConfiguration().Configuration().Servers
	if !isLone(servers, n.nodeID) {
		return
	}
	for cluster, at := range n.foreigners() {
		if len(at) > len(n.cfg.Cluster)/2 {
			n.halt(n.wrongPlace(servers, fmt.Sprintf("%s of --cluster belong to cluster %s", raftnet.ListString(at), cluster)))
			return
		}
	}
}

func (n *Node) wrongPlace(servers []raft.Server, what string) error {
	masters := make([]string, 0, len(servers))
	for _, s := range servers {
		masters = append(masters, string(s.Address))
	}
	return fmt.Errorf("%w: the data directory %s belongs to cluster %s (node %s; its masters: %s), but %s. "+
		"Correct --cluster or --data-dir; or, to join the others, start with an empty data directory and run raftctl peers add for the new node id",
		raftstore.ErrOtherCluster, n.cfg.DataDir, n.ClusterID(), n.nodeID, raftnet.ListString(masters), what)
}

// isLone tells whether a node is the only voter.
func isLone(servers []raft.Server, nodeID string) bool {
	voters, self := 0, false
	for _, s := range servers {
		if s.Suffrage == raft.Voter {
			voters++
			self = self || string(s.ID) == nodeID
		}
	}
	return voters == 1 && self
}

// isAt tells whether a node is a member under that address.
func isAt(servers []raft.Server, nodeID, address string) bool {
	return slices.ContainsFunc(servers, func(s raft.Server) bool { return string(s.ID) == nodeID && string(s.Address) == address })
}
