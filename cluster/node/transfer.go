package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/raft"
)

// TransferLeadership hands leadership to a voter (node id or address; "" picks the most advanced one that is alive), and
// waits until the new leader has made itself known here. The lease ends before anything else happens, so that nothing is
// said as the leader meanwhile; it comes back when the transfer fails.
func (n *Node) TransferLeadership(ctx context.Context, target string) (Transfer, error) {
	if !n.transferMu.TryLock() {
		return Transfer{}, ErrTransferring
	}
	unlock := n.transferMu.Unlock
	defer func() { unlock() }()
	began := time.Now()
	term := n.leaderTerm.Load()
	in := n.inst.Load()
	if term == 0 || in.raft.State() != raft.Leader {
		return Transfer{}, ErrNotLeader
	}
	to, err := n.pickTarget(in, target)
	if err != nil {
		return Transfer{}, err
	}
	n.transferring.Store(true)
	// A transfer may come true after raft has given it up: then leadership is gone all the same.
	if err := n.handOver(ctx, in, to); err != nil && in.raft.State() == raft.Leader && in.raft.CurrentTerm() == term {
		if n.spawn(func() { n.resumeLeading(in, term) }) {
			unlock = func() {} // resumeLeading has the lock now
		}
		return Transfer{}, fmt.Errorf("transfer leadership to %s (%s): %w", to.ID, to.Address, err)
	}
	defer n.transferring.Store(false)
	id, addr, err := n.awaitOtherLeader(ctx, in)
	if err != nil {
		return Transfer{}, fmt.Errorf("leadership was given up, but no new leader is known: %w", err)
	}
	return Transfer{LeaderID: id, LeaderAddress: addr, Took: time.Since(began)}, nil
}

// pickTarget resolves the target, or picks the voter with the longest matching log among those heard of lately.
func (n *Node) pickTarget(in *instance, target string) (raft.Server, error) {
	var best raft.Server
	var bestMatch uint64
	bestWell := false // its disk has no trouble
	now := n.cfg.BootTime()
	for _, s := range in.raft.GetConfiguration().Configuration().Servers {
		if s.Suffrage != raft.Voter || string(s.ID) == n.nodeID {
			continue
		}
		if target != "" {
			if target == string(s.ID) || target == string(s.Address) || target == string(n.resolve(s.ID, s.Address)) {
				return s, nil
			}
			continue
		}
		st, ok := n.lease.peer(s.ID)
		if !ok || now-st.contact >= n.cfg.FailoverTimeout {
			continue
		}
		well := n.troubleOf(s.ID) == ""
		if best.ID == "" || (well && !bestWell) || (well == bestWell && st.match > bestMatch) {
			best, bestMatch, bestWell = s, st.match, well
		}
	}
	switch {
	case best.ID != "":
		return best, nil
	case target == "":
		return best, fmt.Errorf("%w: no other voter is in contact", ErrUnsafe)
	}
	return best, fmt.Errorf("%w: %q is no other voter of this cluster", ErrUnknownPeer, target)
}

// handOver runs raft's transfer. raft answers within two election time-outs, unless the context ends first.
func (n *Node) handOver(ctx context.Context, in *instance, to raft.Server) error {
	target := string(to.ID)
	n.transferTo.Store(&target)
	defer n.transferTo.Store(nil)
	outcome := make(chan error, 1)
	go func() { outcome <- in.raft.LeadershipTransferToServer(to.ID, n.resolve(to.ID, to.Address)).Error() }()
	select {
	case err := <-outcome:
		if err == nil && in.raft.State() == raft.Leader {
			return errors.New("raft reports success, but this node still leads")
		}
		return err
	case <-ctx.Done():
		return ctx.Err()
	case <-in.done:
		return ErrStopped
	}
}

// resumeLeading gives the lease back once raft takes writes again, as long as this node leads in that term. If raft's
// flag stays up (hashicorp/raft #696), raft is restarted, which ends the term. It unlocks transferMu.
//
// A target that has made sure of the order (confirmOrder) just before this node gave the transfer up may still ask for
// votes for one failover time-out, and voters grant them although they follow this node. So there is no lease before
// that is over.
func (n *Node) resumeLeading(in *instance, term uint64) {
	defer n.transferMu.Unlock()
	defer n.transferring.Store(false)
	wait := time.NewTimer(n.cfg.FailoverTimeout + n.cfg.FailoverTimeout/10)
	defer wait.Stop()
	select {
	case <-wait.C:
	case <-in.done:
	}
	r := <-n.barrier(in)
	if r.stuck {
		n.restartRaft(in, "a failed leadership transfer blocks all writes", nil)
		return
	}
	if r.err != nil {
		n.log.Warn("leadership is not resumed after a failed transfer", "term", term, "error", r.err)
	}
}

// awaitOtherLeader waits for the first append of a new leader.
func (n *Node) awaitOtherLeader(ctx context.Context, in *instance) (id, addr string, err error) {
	end := time.NewTimer(4 * n.cfg.FailoverTimeout)
	defer end.Stop()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		if a, sid := in.raft.LeaderWithID(); sid != "" && string(sid) != n.nodeID {
			return string(sid), string(n.resolve(sid, a)), nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return "", "", ctx.Err()
		case <-end.C:
			return "", "", ErrNoLeader
		case <-in.done:
			return "", "", ErrStopped
		}
	}
}

// otherVoters counts the voters besides this node.
func (n *Node) otherVoters() int {
	count := 0
	for _, s := range n.inst.Load().raft.GetConfiguration().Configuration().Servers {
		if s.Suffrage == raft.Voter && string(s.ID) != n.nodeID {
			count++
		}
	}
	return count
}
