package node

import (
	"fmt"
	"slices"

	"raftmaster/cluster/raftstore"
	"raftmaster/transport/raftnet"
)

// noteForeign keeps which masters of the list have said that they belong to another cluster. When more than half of the
// list does, and to the same one, it is this node that has the wrong data directory. It must not go on: one that was a
// lone voter would lead beside the leader of that cluster, for the same workers and applications.
func (n *Node) noteForeign(mine, theirs raftnet.Hello) {
	if !slices.Contains(n.cfg.Cluster, theirs.Address) {
		return
	}
	n.mu.Lock()
	if mine.ClusterID == "" || theirs.ClusterID == "" || theirs.ClusterID == mine.ClusterID {
		delete(n.foreign, theirs.Address)
		n.mu.Unlock()
		return
	}
	n.foreign[theirs.Address] = theirs.ClusterID
	var same []string
	for addr, id := range n.foreign {
		if id == theirs.ClusterID {
			same = append(same, addr)
		}
	}
	n.mu.Unlock()
	if 2*len(same) > len(n.cfg.Cluster) {
		slices.Sort(same)
		n.halt(fmt.Errorf("%w: %s belongs to cluster %s, but %v of the list belong to cluster %s: give this master its own data directory (--data-dir), or an empty one",
			raftstore.ErrOtherCluster, n.cfg.DataDir, mine.ClusterID, same, theirs.ClusterID))
	}
}
