package node

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/hashicorp/raft"

	"raftmaster/transport/raftnet"
)

// AddPeer adds a voter, or a learner that gets the log but has no vote. A learner added as a voter is promoted; a known
// member with another address is moved. Leader only.
func (n *Node) AddPeer(ctx context.Context, nodeID, address string, voter bool) error {
	in, err := n.leading()
	if err != nil {
		return err
	}
	if nodeID == "" || len(nodeID) > 64 || strings.ContainsAny(nodeID, "@ \t\n") {
		return fmt.Errorf("%w: %q is no node id", ErrUnsafe, nodeID)
	}
	for _, s := range in.raft.GetConfiguration().Configuration().Servers {
		switch {
		case string(s.Address) == address && string(s.ID) != nodeID:
			return fmt.Errorf("%w: %s belongs to member %s: remove that one first", ErrUnsafe, address, s.ID)
		case string(s.ID) == nodeID && s.Suffrage == raft.Voter && !voter:
			return fmt.Errorf("%w: %s is a voter already", ErrUnsafe, nodeID)
		}
	}
	if p, ok := n.peers.byID(nodeID); ok && announced(p.hello) < n.View().Level() {
		return fmt.Errorf("%w: %s", ErrLevel, tooOld(n.hello(raftnet.KindWatch), p.hello))
	}
	id, addr, wait := raft.ServerID(nodeID), raft.ServerAddress(address), timeLeft(ctx)
	if voter {
		return n.change(ctx, "add "+nodeID, in.raft.AddVoter(id, addr, 0, wait))
	}
	return n.change(ctx, "add "+nodeID, in.raft.AddNonvoter(id, addr, 0, wait))
}

// RemovePeer removes a member for good. Without force it refuses to remove the last voter but one of those in contact
// that a majority needs, and the leader itself. Leader only.
func (n *Node) RemovePeer(ctx context.Context, nodeID string, force bool) error {
	in, err := n.leading()
	if err != nil {
		return err
	}
	voters, alive, found := 0, 0, false
	for _, s := range in.raft.GetConfiguration().Configuration().Servers {
		if string(s.ID) == nodeID {
			found = true
			continue
		}
		if s.Suffrage != raft.Voter {
			continue
		}
		voters++
		if string(s.ID) == n.nodeID || n.isAlive(s.ID) {
			alive++
		}
	}
	switch {
	case !found:
		return fmt.Errorf("%w: %q", ErrUnknownPeer, nodeID)
	case voters == 0:
		return fmt.Errorf("%w: %s is the only voter", ErrUnsafe, nodeID)
	case nodeID == n.nodeID && !force:
		return fmt.Errorf("%w: %s is the leader: transfer leadership first", ErrUnsafe, nodeID)
	case alive <= voters/2 && !force:
		return fmt.Errorf("%w: of the %d voters that would remain, %d are in contact: the cluster would stop", ErrUnsafe, voters, alive)
	}
	return n.change(ctx, "remove "+nodeID, in.raft.RemoveServer(raft.ServerID(nodeID), 0, timeLeft(ctx)))
}

func (n *Node) inContact(id raft.ServerID) bool {
	st, ok := n.lease.peer(id)
	return ok && n.cfg.BootTime()-st.contact < 2*n.cfg.FailoverTimeout
}

// isAlive is stricter than inContact: a process that has just been killed was in contact a moment ago, but its end has
// closed the watch connection.
func (n *Node) isAlive(id raft.ServerID) bool {
	p, ok := n.peers.byID(string(id))
	return ok && p.conn != nil && n.inContact(id)
}

func (n *Node) leading() (*instance, error) {
	in := n.inst.Load()
	if n.leaderTerm.Load() == 0 || in.raft.State() != raft.Leader {
		return nil, ErrNotLeader
	}
	return in, nil
}

func timeLeft(ctx context.Context) time.Duration {
	if d, ok := ctx.Deadline(); ok {
		return max(time.Until(d), time.Millisecond)
	}
	return 10 * time.Second
}

// change waits for a change of the configuration.
func (n *Node) change(ctx context.Context, what string, f raft.IndexFuture) error {
	if err := await(ctx, f); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	n.watchConfiguration()
	return nil
}

// await waits for a future of raft, which has no way to be cancelled; the goroutine ends with raft at the latest.
func await(ctx context.Context, f raft.Future) error {
	done := make(chan error, 1)
	go func() { done <- f.Error() }()
	select {
	case err := <-done:
		return mapError(err)
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ErrUnknownOutcome, ctx.Err())
	}
}

// updateAddresses lets the leader write into raft's configuration where members are now, one change at a time.
func (n *Node) updateAddresses() {
	in, err := n.leading()
	if err != nil {
		return
	}
	for _, s := range in.raft.GetConfiguration().Configuration().Servers {
		addr := n.resolve(s.ID, s.Address)
		if addr == s.Address || n.addressTaken(in, addr) {
			continue
		}
		n.log.Info("a master has a new address", "node_id", s.ID, "old", s.Address, "new", addr)
		ctx, cancel := context.WithTimeout(n.ctx, 2*time.Second)
		if s.Suffrage == raft.Voter {
			err = n.change(ctx, "move", in.raft.AddVoter(s.ID, addr, 0, time.Second))
		} else {
			err = n.change(ctx, "move", in.raft.AddNonvoter(s.ID, addr, 0, time.Second))
		}
		cancel()
		if err != nil {
			n.log.Warn("the new address is not in the configuration yet", "node_id", s.ID, "error", err)
			return
		}
	}
}

// addressTaken: raft refuses two members with one address; masters that swap addresses are reached by Resolve anyway.
func (n *Node) addressTaken(in *instance, addr raft.ServerAddress) bool {
	for _, s := range in.raft.GetConfiguration().Configuration().Servers {
		if s.Address == addr {
			return true
		}
	}
	return false
}
