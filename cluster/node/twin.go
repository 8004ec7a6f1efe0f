package node

import (
	"github.com/hashicorp/raft"

	"raftmaster/transport/raftnet"
)

// Two masters with one node id: somebody has copied the data directory of a running master. Raft knows members by their
// ids, so the copy could take the original's place, and both would vote: in one term, for two candidates. Whoever is
// known first stays; the other is refused until that one has ended, for then it may be the same master at a new address.

// heard records what a peer says about itself, on a new connection or on the one that is up (nil). It raises the alarm
// about a copy (*twinError), and takes it back.
func (n *Node) heard(addr string, h raftnet.Hello, w *watchConn) error {
	in := n.inst.Load()
	contact := in.raft.State() == raft.Leader && n.inContact(raft.ServerID(h.NodeID))
	err := n.peers.heard(addr, h, w, contact)
	if err == nil {
		n.alarms.clear(alarmTwin + addr)
		return nil
	}
	n.alarms.put(alarmTwin+addr, err.Error())
	if n.noise.allow(alarmTwin + addr) {
		n.log.Error("two masters have one node id: a data directory was copied; the newcomer is refused", "node_id", h.NodeID, "address", addr, "error", err)
	}
	return err
}

// noteTwin looks at a dial that has failed: a process with this node's own id is worth the alarm; anything else ends what
// was said about that address.
func (n *Node) noteTwin(addr string, theirs raftnet.Hello) {
	text := ""
	if theirs.NodeID == n.nodeID && theirs.BootID != n.bootID {
		text = (&twinError{nodeID: n.nodeID, known: n.cfg.Self, other: addr}).Error()
	}
	n.alarms.put(alarmTwin+addr, text)
}

// isTwin tells whether a node that calls itself by an address is known, at this moment, to be at another one. Who names no
// address is taken for the one that is known.
func (n *Node) isTwin(nodeID, address string) bool {
	if address == "" {
		return false
	}
	if nodeID == n.nodeID {
		return address != n.cfg.Self
	}
	p, ok := n.peers.byID(nodeID)
	return ok && p.conn != nil && p.addr != address && p.hello.Address != address
}
