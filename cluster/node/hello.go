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

// hello is what this node says about itself now.
func (n *Node) hello(kind raftnet.Kind) raftnet.Hello {
	id := n.store.Identity()
	u := n.urls.Load()
	leader, to := "", ""
	if p := n.transferTo.Load(); p != nil {
		to = *p
	}
	if in := n.inst.Load(); in != nil {
		_, sid := in.raft.LeaderWithID()
		leader = string(sid)
	}
	return raftnet.Hello{
		Kind: kind, ClusterID: id.ClusterID, NodeID: id.NodeID, BootID: n.bootID, Address: n.cfg.Self, Cluster: n.cfg.Cluster,
		Fresh: id.ClusterID == "", WebURL: u.web, RESTURL: u.rest, Version: n.cfg.Version, LeaderID: leader, TransferTo: to,
		Level: uint8(n.cfg.level()), UsedLevel: uint8(n.View().Level()),
	}
}

// judge decides on a connection of another master and gives the answer, with the reason when it is refused.
func (n *Node) judge(h raftnet.Hello) raftnet.Hello {
	if n.cfg.TLS.Strict() {
		if why := n.outsider(h); why != "" { // who is no master learns nothing about the cluster
			return raftnet.Hello{Address: n.cfg.Self, Refused: why}
		}
	}
	if h.Kind == raftnet.KindRaft && h.ClusterID != "" && h.Target == n.nodeID {
		if err := n.adopt(h); err != nil {
			mine := n.hello(h.Kind)
			mine.Refused = err.Error()
			return mine
		}
	}
	mine := n.hello(h.Kind)
	if mine.Refused = refusal(mine, h); mine.Refused == "" {
		mine.Refused = n.outsider(h)
	}
	if mine.Refused == "" {
		mine.Refused = tooOld(mine, h)
	}
	return mine
}

// refusal says why a connection is not wanted, "" when it is.
func refusal(mine, theirs raftnet.Hello) string {
	switch {
	case theirs.NodeID == mine.NodeID && theirs.BootID == mine.BootID:
		return fmt.Sprintf("the entry leads back to the very master that dialled it, %s: two names for one address?", mine.Address)
	case theirs.NodeID == mine.NodeID:
		return fmt.Sprintf("two masters have the node id %s (%s and %s): a data directory was copied; give one of them an empty one", mine.NodeID, mine.Address, theirs.Address)
	case theirs.ClusterID != "" && mine.ClusterID != "" && theirs.ClusterID != mine.ClusterID:
		return fmt.Sprintf("this master (%s) belongs to cluster %s, the caller (%s) to cluster %s", mine.Address, mine.ClusterID, theirs.Address, theirs.ClusterID)
	case theirs.Target != "" && theirs.Target != mine.NodeID:
		return fmt.Sprintf("node %s is wanted, but node %s is at %s: its data directory was replaced, or the address was given to another master", theirs.Target, mine.NodeID, mine.Address)
	}
	switch theirs.Kind {
	case raftnet.KindRaft, raftnet.KindCall:
		if theirs.ClusterID != mine.ClusterID {
			return fmt.Sprintf("this master (%s) and the caller (%s) are not of one cluster yet (%q and %q)", mine.Address, theirs.Address, mine.ClusterID, theirs.ClusterID)
		}
	case raftnet.KindWatch:
		// A list may change over the life of a cluster, one master after the other; it must not differ while one forms.
		if (mine.Fresh || theirs.Fresh) && !raftnet.SameList(mine.Cluster, theirs.Cluster) {
			return fmt.Sprintf("the cluster lists differ: %s has %s, %s has %s", mine.Address, raftnet.ListString(mine.Cluster), theirs.Address, raftnet.ListString(theirs.Cluster))
		}
	default:
		return fmt.Sprintf("unknown kind of connection: %s", theirs.Kind)
	}
	return ""
}

// handleConn serves one incoming internal connection.
func (n *Node) handleConn(nc net.Conn) {
	raw := &quotaConn{Conn: n.cfg.Net.Valve.Wrap(nc), all: n.quotas}
	if !n.addConn(raw) {
		return
	}
	n.limit(raw, &n.quotas.handshakes, "", "")
	c, theirs, err := raftnet.AcceptSecure(raw, n.cfg.TLS, n.judge)
	if err != nil {
		n.removeConn(raw)
		n.logRefusal(callerKey(raw, theirs), theirs, err)
		return
	}
	n.limit(raw, n.quotas.of(theirs.Kind), theirs.NodeID, theirs.Address)
	if !n.replaceConn(raw, c) {
		return
	}
	switch theirs.Kind {
	case raftnet.KindRaft:
		n.mu.Lock()
		delete(n.conns, c) // raft's transport owns it now
		n.mu.Unlock()
		n.inst.Load().trans.Deliver(c)
	case raftnet.KindWatch:
		n.serveWatch(c, theirs)
	case raftnet.KindCall:
		n.serveCall(c, theirs)
	}
}

// callerKey tells callers apart for the log: by host and by what they call themselves, because the port changes with each
// dial, and several masters may share a host.
func callerKey(c net.Conn, theirs raftnet.Hello) string {
	host, _, err := net.SplitHostPort(c.RemoteAddr().String())
	if err != nil {
		host = c.RemoteAddr().String()
	}
	return host + " (" + theirs.Address + ")"
}

// logRefusal names the parties of a connection that was refused, by either side: one line a minute for each remote (a
// dialled address, or a callerKey) and the cluster that it belongs to.
func (n *Node) logRefusal(remote string, theirs raftnet.Hello, err error) {
	var r *raftnet.RefusedError
	switch {
	case errors.As(err, &r):
		if n.noise.allow(remote + " " + theirs.ClusterID) {
			n.log.Error("connection between masters refused", "remote", remote, "reason", r.Reason, "by_node", r.By.NodeID, "by_address", r.By.Address)
		}
	case errors.Is(err, raftnet.ErrNotProven):
		if n.noise.allow(remote) {
			n.log.Error("connection between masters refused", "remote", remote, "reason", err)
		}
	case errors.Is(err, raftnet.ErrProtocol):
		if n.noise.allow(remote) {
			n.log.Warn("bad internal connection", "remote", remote, "error", err)
		}
	default:
		n.log.Debug("internal connection failed", "remote", remote, "error", err)
	}
}

// resolve gives the address where a node was last heard of, else the fallback.
func (n *Node) resolve(id raft.ServerID, fallback raft.ServerAddress) raft.ServerAddress {
	if string(id) == n.nodeID {
		return raft.ServerAddress(n.cfg.Self)
	}
	if addr, ok := n.peers.addressOf(string(id)); ok {
		return raft.ServerAddress(addr)
	}
	return fallback
}

// errBusy refuses a call beyond raftnet.MaxCalls.
var errBusy = errors.New("too many calls at once")

func (n *Node) serveCall(c net.Conn, theirs raftnet.Hello) {
	defer n.removeConn(c)
	if err := c.SetReadDeadline(time.Now().Add(raftnet.CallTimeout)); err != nil {
		n.logRefusal(callerKey(c, theirs), theirs, err)
		return
	}
	method, body, err := raftnet.ReadCall(c)
	if err != nil {
		n.logRefusal(callerKey(c, theirs), theirs, err)
		return
	}
	var answer []byte
	failure := fmt.Errorf("%w: no calls are served here", errors.ErrUnsupported)
	if n.cfg.OnCall != nil {
		if n.calls.Add(1) > raftnet.MaxCalls {
			failure = errBusy
		} else {
			ctx, cancel := context.WithCancel(n.ctx)
			answer, failure = n.cfg.OnCall(ctx, theirs.NodeID, method, body)
			cancel()
		}
		n.calls.Add(-1)
	}
	if err := raftnet.WriteAnswer(c, answer, failure); err != nil {
		n.log.Debug("answer to a call not delivered", "method", method, "to", theirs.NodeID, "error", err)
	}
}

// Call asks another master and waits for its answer. An error of its own comes as *raftnet.CallError.
func (n *Node) Call(ctx context.Context, target, method string, body []byte) ([]byte, error) {
	id, addr, err := n.find(target)
	if err != nil {
		return nil, err
	}
	hello := n.hello(raftnet.KindCall)
	hello.Target = id
	c, _, err := n.dial(ctx, addr, hello)
	if err != nil {
		return nil, fmt.Errorf("call %s at %s: %w", method, addr, err)
	}
	if !n.addConn(c) {
		return nil, ErrStopped
	}
	defer n.removeConn(c)
	defer context.AfterFunc(ctx, func() { _ = c.Close() })() // ends the wait below
	if err = raftnet.WriteCall(c, method, body); err == nil {
		body, err = raftnet.ReadAnswer(c)
	}
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	if err != nil {
		return nil, fmt.Errorf("call %s at %s: %w", method, addr, err)
	}
	return body, nil
}

// find resolves a node id, an address, or "" for the leader.
func (n *Node) find(target string) (id, addr string, err error) {
	if target == "" {
		id, addr = n.Leader()
		if id == "" {
			return "", "", ErrNoLeader
		}
		return id, addr, nil
	}
	for _, s := range n.inst.Load().raft.GetConfiguration().Configuration().Servers {
		addr := n.resolve(s.ID, s.Address)
		if string(s.ID) == target || string(addr) == target || string(s.Address) == target {
			return string(s.ID), string(addr), nil
		}
	}
	for _, p := range n.peers.list() {
		if p.hello.NodeID != "" && slices.Contains([]string{p.hello.NodeID, p.addr}, target) {
			return p.hello.NodeID, p.addr, nil
		}
	}
	return "", "", fmt.Errorf("%w: %q", ErrUnknownPeer, target)
}
