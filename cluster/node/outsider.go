package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/hashicorp/raft"

	"raftmaster/transport/raftnet"
)

// Without TLS (Config.TLS), what masters say of themselves is all there is. This file keeps out who does not even claim to
// belong here, and what no member can have meant.

const (
	// maxTermLead is how far the term of an incoming RPC may be ahead of this node's. Terms grow by one per election;
	// a term that one packet has raised for good cannot be lowered again, and at the end of the numbers there is no
	// further election.
	maxTermLead = 1 << 20
	// confirmTime bounds the call back to a master at whose word this one joins a cluster; it lies within the caller's
	// own time-out for the handshake.
	confirmTime = time.Second
)

var errTermTooFar = errors.New("the term is too far ahead to be the next election's")

// admitTerm refuses an RPC whose term no sequence of elections explains. Connections are delivered to an instance only
// once it is the node's, with its raft running.
func (n *Node) admitTerm(in *instance, command any) error {
	term, mine := termOf(command), in.raft.CurrentTerm()
	if term <= mine || term-mine <= maxTermLead {
		return nil
	}
	if n.noise.allow("term") {
		n.log.Error("raft request refused: its term is too far ahead to be the next election's", "term", term, "current_term", mine, "at_most_ahead", maxTermLead)
	}
	return fmt.Errorf("%w: %d, this master is at %d", errTermTooFar, term, mine)
}

// termOf is the sender's term; 0 for an RPC that has none.
func termOf(command any) uint64 {
	switch c := command.(type) {
	case *raft.AppendEntriesRequest:
		return c.Term
	case *raft.RequestVoteRequest:
		return c.Term
	case *raft.RequestPreVoteRequest:
		return c.Term
	case *raft.InstallSnapshotRequest:
		return c.Term
	}
	return 0
}

// outsider says why a caller is none of this cluster's masters, "" when it is: by the address that it claims, which must
// be in this master's list or in raft's configuration, or by its node id, since a member may have moved. Where certificates
// are for hosts, only the hosts of both lists will do, whatever their ports: the authority may sign for other machines, too.
func (n *Node) outsider(theirs raftnet.Hello) string {
	servers := n.inst.Load().raft.GetConfiguration().Configuration().Servers
	if n.cfg.TLS.Strict() {
		host := hostOf(theirs.Address)
		ofMaster := slices.ContainsFunc(n.cfg.Cluster, func(a string) bool { return hostOf(a) == host }) ||
			slices.ContainsFunc(servers, func(s raft.Server) bool { return hostOf(string(s.Address)) == host })
		if host == "" || !ofMaster {
			return fmt.Sprintf("%s (node %s) has a certificate, but is on no host of the cluster list of %s or of a member: a master that moves needs "+
				"its new host in the lists of the others, or --cluster-tls-name", theirs.Address, theirs.NodeID, n.cfg.Self)
		}
		return ""
	}
	if slices.Contains(n.cfg.Cluster, theirs.Address) {
		return ""
	}
	for _, s := range servers {
		if string(s.Address) == theirs.Address || string(s.ID) == theirs.NodeID {
			return ""
		}
	}
	return fmt.Sprintf("%s (node %s) is neither in the cluster list of %s nor a member of its cluster", theirs.Address, theirs.NodeID, n.cfg.Self)
}

func hostOf(address string) string {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return ""
	}
	return host
}

// dial opens a connection to another master.
func (n *Node) dial(ctx context.Context, address string, hello raftnet.Hello) (net.Conn, raftnet.Hello, error) {
	c, theirs, err := raftnet.DialSecure(ctx, address, hello, n.cfg.Net, n.cfg.TLS)
	if err != nil {
		return nil, theirs, err
	}
	if why := tooOld(hello, theirs); why != "" {
		return nil, theirs, errors.Join(&raftnet.RefusedError{By: hello, Reason: why}, c.Close())
	}
	return c, theirs, nil
}

// adopt lets a fresh node join the cluster whose leader has named it by its node id: it must be in the configuration.
// The leader has to be in this node's own list, and is asked at its address whether it is who has called.
func (n *Node) adopt(h raftnet.Hello) error {
	if n.ClusterID() != "" {
		return nil
	}
	if err := n.confirmCaller(h); err != nil {
		return err
	}
	if err := n.store.JoinCluster(h.ClusterID, nil); err != nil {
		n.log.Error("cannot join the cluster", "cluster_id", h.ClusterID, "error", err)
		return err
	}
	n.log.Info("joined the cluster", "cluster_id", h.ClusterID, "named_by", h.NodeID, "address", h.Address)
	n.peers.changed()
	n.spawn(n.broadcastInfo)
	return nil
}

// confirmCaller dials the address that a caller claims, and compares who answers there.
func (n *Node) confirmCaller(h raftnet.Hello) error {
	if h.Address == n.cfg.Self || !slices.Contains(n.cfg.Cluster, h.Address) {
		return fmt.Errorf("this master (%s) has no data and joins a cluster only at the word of a master of its own list, which %q is not", n.cfg.Self, h.Address)
	}
	ctx, cancel := context.WithTimeout(n.ctx, confirmTime)
	defer cancel()
	c, there, err := n.dial(ctx, h.Address, n.hello(raftnet.KindWatch))
	if err == nil {
		_ = c.Close() // the handshake was all
	}
	var refused *raftnet.RefusedError
	if err != nil && !errors.As(err, &refused) { // a refusal names the one who refuses, which is what is asked
		return fmt.Errorf("this master (%s) has no data, and cannot confirm at %s that it is to join cluster %s: %w", n.cfg.Self, h.Address, h.ClusterID, err)
	}
	if there.NodeID != h.NodeID || there.ClusterID != h.ClusterID {
		return fmt.Errorf("this master (%s) has no data, and is told to join cluster %s by node %s, but at %s there is node %s of cluster %q",
			n.cfg.Self, h.ClusterID, h.NodeID, h.Address, there.NodeID, there.ClusterID)
	}
	return nil
}
