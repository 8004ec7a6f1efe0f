package node

import (
	"fmt"
	"time"

	"github.com/hashicorp/raft"

	"raftmaster/cluster/raftstore"
)

// bootstrapNotice is how often a fresh node says whom it waits for.
const bootstrapNotice = 2 * time.Second

// resumeBootstrap bootstraps a cluster of one at once, and finishes a bootstrap that a crash interrupted: the identity,
// written first, holds the configuration.
func (n *Node) resumeBootstrap(id raftstore.Identity) error {
	has, err := n.store.HasState()
	switch {
	case err != nil:
		return storageError("look for raft state", err)
	case id.ClusterID == "" && len(n.cfg.Cluster) == 1:
		return n.bootstrap(raftstore.NewID(), []raftstore.Server{{ID: n.nodeID, Address: n.cfg.Self}})
	case id.ClusterID != "" && len(id.Bootstrap) > 0 && !has:
		n.log.Warn("finishing a bootstrap that was interrupted", "cluster_id", id.ClusterID)
		return n.bootstrap(id.ClusterID, id.Bootstrap)
	}
	return nil
}

// bootstrap forms the cluster: the id first, then raft's first entry. It happens once in the life of a cluster.
func (n *Node) bootstrap(clusterID string, servers []raftstore.Server) error {
	if err := n.store.JoinCluster(clusterID, servers); err != nil {
		return err
	}
	var c raft.Configuration
	for _, s := range servers {
		c.Servers = append(c.Servers, raft.Server{Suffrage: raft.Voter, ID: raft.ServerID(s.ID), Address: raft.ServerAddress(s.Address)})
	}
	in := n.inst.Load()
	if err := in.raft.BootstrapCluster(c).Error(); err != nil {
		return fmt.Errorf("bootstrap: %w", err)
	}
	n.log.Info("cluster formed", "cluster_id", clusterID, "servers", fmt.Sprint(servers))
	n.lease.setVoters(raft.ServerID(n.nodeID), c)
	return nil
}

// awaitBootstrap waits until this node belongs to a cluster, and forms it when every master of the list is fresh and
// this one is the first of them in byte order.
func (n *Node) awaitBootstrap() {
	notice := time.NewTicker(bootstrapNotice)
	defer notice.Stop()
	for {
		changed := n.peers.wait()
		if n.ClusterID() != "" {
			n.alarms.clear("fresh")
			return
		}
		servers, waiting := n.freshServers()
		if len(waiting) == 0 && n.cfg.Self == n.cfg.Cluster[0] {
			if err := n.bootstrap(raftstore.NewID(), servers); err != nil {
				n.halt(err)
				return
			}
			n.broadcastInfo()
			// Everybody is waiting for this node and nobody else can lead: campaign at once.
			n.cfg.OnEvent(Event{Kind: "first-election", NodeID: n.nodeID, Detail: "the cluster was formed"})
			if err := n.inst.Load().trans.InjectTimeoutNow(); err != nil {
				n.log.Warn("cannot campaign at once", "error", err)
			}
			return
		}
		select {
		case <-n.ctx.Done():
			return
		case <-changed:
		case <-notice.C:
			if len(waiting) > 0 {
				n.log.Info("waiting to form the cluster", "for", fmt.Sprint(waiting))
			}
			n.complainFresh()
		}
	}
}

// freshServers lists the masters of the cluster list, in its (byte) order, and those that are not ready, with reasons.
func (n *Node) freshServers() (servers []raftstore.Server, waiting []string) {
	seen := make(map[string]string)
	for _, addr := range n.cfg.Cluster {
		id := n.nodeID
		if addr != n.cfg.Self {
			p, _ := n.peers.get(addr)
			switch {
			case p.conn == nil:
				waiting = append(waiting, fmt.Sprintf("%s (%s)", addr, p.problem))
				continue
			case !p.hello.Fresh:
				waiting = append(waiting, fmt.Sprintf("%s (it belongs to cluster %s)", addr, p.hello.ClusterID))
				continue
			}
			id = p.hello.NodeID
		}
		if other, ok := seen[id]; ok {
			waiting = append(waiting, fmt.Sprintf("%s (it is the same master as %s)", addr, other))
			continue
		}
		seen[id] = addr
		servers = append(servers, raftstore.Server{ID: id, Address: addr})
	}
	return servers, waiting
}
