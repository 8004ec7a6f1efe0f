package node

import (
	"fmt"

	"raftmaster/transport/raftnet"
)

// Alarms about other masters, by topic and address. Each lasts until that master says something better about itself, or
// nobody is interested in its address any more.
const (
	alarmFresh   = "fresh "
	alarmForeign = "foreign "
	alarmLists   = "lists "
	alarmTwin    = "twin "
)

func (n *Node) clearAlarms(addr string) {
	for _, topic := range []string{alarmFresh, alarmForeign, alarmLists, alarmTwin} {
		n.alarms.clear(topic + addr)
	}
}

// consider complains, loudly, when another master has lost its data (R11), belongs to another cluster, or has another
// list, and takes the complaint back when that is over. What a fresh master says about this is complainFresh.
func (n *Node) consider(theirs raftnet.Hello) {
	mine := n.hello(raftnet.KindWatch)
	fresh, foreign, lists := "", "", ""
	switch {
	case mine.ClusterID != "" && theirs.Fresh:
		fresh = n.strangerWithoutData(mine, theirs)
	case mine.ClusterID != "" && theirs.ClusterID != "" && mine.ClusterID != theirs.ClusterID:
		foreign = fmt.Sprintf("%s belongs to cluster %s, this master to cluster %s", theirs.Address, theirs.ClusterID, mine.ClusterID)
	case !raftnet.SameList(mine.Cluster, theirs.Cluster):
		lists = fmt.Sprintf("the cluster lists differ: %s has %s, this master %s", theirs.Address, raftnet.ListString(theirs.Cluster), raftnet.ListString(mine.Cluster))
		if n.noise.allow(alarmLists + theirs.Address) {
			n.log.Warn("the cluster lists differ", "other_address", theirs.Address, "other_list", raftnet.ListString(theirs.Cluster), "list", raftnet.ListString(mine.Cluster))
		}
	}
	n.alarms.put(alarmFresh+theirs.Address, fresh)
	n.alarms.put(alarmForeign+theirs.Address, foreign)
	n.alarms.put(alarmLists+theirs.Address, lists)
}

// strangerWithoutData gives the alarm about a fresh master, "" while the cluster is forming or the node was just added.
func (n *Node) strangerWithoutData(mine, theirs raftnet.Hello) string {
	if len(n.inst.Load().raft.GetConfiguration().Configuration().Servers) == 0 || n.inConfiguration(theirs.NodeID) {
		return ""
	}
	if n.noise.allow("fresh there " + theirs.NodeID) {
		n.log.Error("another master has no data and is no member of this cluster: was its data directory lost? it will not form a new cluster",
			"cluster_id", mine.ClusterID, "other_cluster_id", "none", "other_node_id", theirs.NodeID, "other_address", theirs.Address)
	}
	return fmt.Sprintf("%s has no data and is no member of cluster %s (node %s): raftctl peers add makes it one", theirs.Address, mine.ClusterID, theirs.NodeID)
}

// complainFresh says, loudly, that a master without data meets a cluster that has some: it must not form a new one, which
// would roll that one back (R11).
func (n *Node) complainFresh() {
	alarm := ""
	for _, p := range n.peers.list() {
		if p.hello.ClusterID == "" {
			continue
		}
		alarm = fmt.Sprintf("no data here (node %s, no cluster), but %s belongs to cluster %s: raftctl peers remove the old node, then peers add this one", n.nodeID, p.addr, p.hello.ClusterID)
		if n.noise.allow("fresh here " + p.hello.ClusterID) {
			n.log.Error("this master has no data, but another one belongs to a cluster: it will not form a new cluster; it joins when raftctl peers add names its node id",
				"cluster_id", "none", "node_id", n.nodeID, "other_cluster_id", p.hello.ClusterID, "other_node_id", p.hello.NodeID, "other_address", p.addr)
		}
	}
	n.alarms.put("fresh", alarm)
}

// maxAlarms bounds what other masters can make this one complain about; more is only logged.
const maxAlarms = 256

// put sets an alarm about another master, or clears it when the text is empty.
func (a *alarms) put(topic, text string) {
	a.mu.Lock()
	_, known := a.m[topic]
	full := len(a.m) >= maxAlarms
	a.mu.Unlock()
	switch {
	case text == "":
		a.clear(topic)
	case known || !full:
		a.set(topic, text)
	}
}
