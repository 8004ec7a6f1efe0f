package admin

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"raftmaster/cluster/node"
	"raftmaster/transport/webui"
)

const (
	// memberPoll is how often the wait for a new voter looks at how far it is.
	memberPoll = 50 * time.Millisecond
	// voterMaxLag is how many entries a member may be behind when it gets its vote: the rest takes no longer than one
	// round trip, while a voter that is far behind makes every commit wait for it once another one is lost.
	voterMaxLag = 100
	// maxNodeID bounds a node id as cluster/node does.
	maxNodeID = 64
)

// errChanging: every change is judged by the masters that there are; two at once, each harmless, could cost the majority.
var errChanging = &webui.Error{Code: webui.CodeRefused, Message: "another change of the masters is under way: one at a time"}

func failure(code, format string, args ...any) error {
	return &webui.Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// leading gives the node's status if this master is the leader, and else an error that names the leader.
func (b *Backend) leading(what string) (NodeStatus, error) {
	ns := b.node.Status()
	if ns.Role == webui.RoleLeader {
		return ns, nil
	}
	l := b.leader(ns)
	if l == nil {
		return ns, failure(webui.CodeNoLeader, "there is no leader to %s", what)
	}
	return ns, &webui.Error{Code: webui.CodeNotLeader, Leader: l,
		Message: fmt.Sprintf("this master is not the leader; the leader is %s", l.Address)}
}

// writable is leading for what needs a commit: it is refused at once, with the reason, while nothing can be committed.
func (b *Backend) writable(what string) (NodeStatus, error) {
	ns, err := b.leading(what)
	if err == nil && ns.Stalled {
		return ns, failure(webui.CodeRefused, "cannot %s: %s", what, webui.StalledReason(ns.Alarms))
	}
	return ns, err
}

// AddPeer implements webui.Leadership. The new master gets the log first, and its vote when it holds it: a voter that is
// down or empty would count for the majority without being able to help.
func (b *Backend) AddPeer(ctx context.Context, req webui.AddPeerRequest) (webui.PeerChange, error) {
	if !req.DryRun {
		if !b.changing.TryLock() {
			return webui.PeerChange{}, errChanging
		}
		defer b.changing.Unlock()
	}
	ns, err := b.leading("add a master")
	if err != nil {
		return webui.PeerChange{}, err
	}
	learner, err := checkNewPeer(ns, req)
	if err != nil {
		return webui.PeerChange{}, err
	}
	votes := b.votes(ns)
	out := webui.PeerChange{NodeID: req.NodeID, Address: req.Address, Voter: req.Voter, Before: votes, After: votes, DryRun: req.DryRun}
	out.Reachable = answers(ns, req.NodeID)
	if req.Voter {
		out.After = webui.VotesOf(votes.Voters+1, votes.Reachable+1)
	}
	if req.DryRun {
		return out, nil
	}
	if !learner {
		if err := b.node.AddPeer(ctx, req.NodeID, req.Address, false); err != nil {
			return webui.PeerChange{}, changeFailed("add "+req.NodeID, err)
		}
	}
	if !req.Voter {
		return out, nil
	}
	if err := b.awaitCaughtUp(ctx, req); err != nil {
		return webui.PeerChange{}, err
	}
	out.Reachable = true
	if err := b.node.AddPeer(ctx, req.NodeID, req.Address, true); err != nil {
		return webui.PeerChange{}, changeFailed("promote "+req.NodeID, err)
	}
	return out, nil
}

func answers(ns NodeStatus, nodeID string) bool {
	for _, p := range ns.Peers {
		if p.NodeID == nodeID {
			return p.Reachable
		}
	}
	return false
}

// checkNewPeer refuses what would go wrong: an address that belongs to a member, an id that another master answers to,
// a master of the cluster list that is down. learner: it is a member already and only its vote is missing.
func checkNewPeer(ns NodeStatus, req webui.AddPeerRequest) (learner bool, err error) {
	if req.NodeID == "" || len(req.NodeID) > maxNodeID || strings.ContainsAny(req.NodeID, "@ \t\r\n") {
		return false, failure(webui.CodeBadRequest, "%q is no node id: it is the id that the new master logs at its start, and that raftctl peers list shows", req.NodeID)
	}
	if err := checkAddress(req.Address); err != nil {
		return false, err
	}
	for _, p := range ns.Peers {
		switch {
		case p.Member && p.NodeID == req.NodeID && p.Voter:
			return false, failure(webui.CodeRefused, "%s is a voter already, at %s", p.NodeID, p.Address)
		case p.Member && p.NodeID == req.NodeID && !req.Voter:
			return false, failure(webui.CodeRefused, "%s is a member without a vote already, at %s", p.NodeID, p.Address)
		case p.Member && p.NodeID == req.NodeID && p.Address == req.Address:
			learner = true
		case p.Member && p.Address == req.Address:
			return false, failure(webui.CodeRefused, "%s belongs to member %s: remove that one first (raftctl peers remove %s)", p.Address, p.NodeID, p.NodeID)
		}
	}
	for _, p := range ns.Peers {
		switch {
		case p.Member || p.NodeID == "" && p.Address != req.Address:
		case p.NodeID == req.NodeID && p.Address != req.Address:
			return false, failure(webui.CodeRefused, "%s answers at %s, not at %s", p.NodeID, p.Address, req.Address)
		case p.Address == req.Address && p.Reachable && p.NodeID != req.NodeID:
			return false, failure(webui.CodeRefused, "the master at %s is %s, not %s", p.Address, p.NodeID, req.NodeID)
		case p.Address == req.Address && !p.Reachable:
			return false, failure(webui.CodeRefused, "%s is not in contact (%s): start the master there first", p.Address, p.Problem)
		}
	}
	return learner, nil
}

func checkAddress(address string) error {
	host, port, err := net.SplitHostPort(address)
	n, numErr := strconv.Atoi(port)
	if err != nil || numErr != nil || host == "" || n < 1 || n > 65535 || strings.ContainsAny(host, " \t\r\n@/,") {
		return failure(webui.CodeBadRequest, "%q is no address: give host:port of the new master's cluster port, as its own --cluster names it", address)
	}
	return nil
}

// awaitCaughtUp waits until the new member holds the log of the leader.
func (b *Backend) awaitCaughtUp(ctx context.Context, req webui.AddPeerRequest) error {
	ctx, cancel := context.WithTimeout(ctx, req.Wait())
	defer cancel()
	tick := time.NewTicker(memberPoll)
	defer tick.Stop()
	for {
		ns, err := b.leading("go on")
		if err != nil {
			var e *webui.Error
			if errors.As(err, &e) {
				e.Message = fmt.Sprintf("leadership was lost before %s had its vote; it may be a member without one (look with raftctl peers list): %s", req.NodeID, e.Message)
			}
			return err
		}
		why := notReady(ns, req.NodeID)
		if why == "" {
			return nil
		}
		select {
		case <-ctx.Done():
			return failure(webui.CodeTimeout, "%s is a member without a vote now, and was not ready for one within %v: %s; "+
				"raftctl peers promote %s gives it its vote later, raftctl peers remove %s takes it out again", req.NodeID, req.Wait(), why, req.NodeID, req.NodeID)
		case <-tick.C:
		}
	}
}

// notReady says why a member cannot have a vote yet, "" when it can.
func notReady(ns NodeStatus, nodeID string) string {
	for _, p := range ns.Peers {
		if !p.Member || p.NodeID != nodeID {
			continue
		}
		switch behind := lag(p, ns, false); {
		case !p.Reachable && p.Problem != "":
			return "it is not in contact (" + p.Problem + ")"
		case !p.Reachable:
			return "it is not in contact"
		case behind == webui.Unknown:
			return "it has not acknowledged anything yet"
		case behind > voterMaxLag:
			return fmt.Sprintf("it is %d entries behind", behind)
		}
		return ""
	}
	return "it is no member"
}

// PromotePeer implements webui.Leadership.
func (b *Backend) PromotePeer(ctx context.Context, req webui.PromotePeerRequest) (webui.PeerChange, error) {
	if !req.DryRun {
		if !b.changing.TryLock() {
			return webui.PeerChange{}, errChanging
		}
		defer b.changing.Unlock()
	}
	ns, err := b.leading("promote a master")
	if err != nil {
		return webui.PeerChange{}, err
	}
	p, err := member(ns, req.Peer)
	if err != nil {
		return webui.PeerChange{}, err
	}
	if p.Voter {
		return webui.PeerChange{}, failure(webui.CodeRefused, "%s is a voter already", req.Peer)
	}
	if why := notReady(ns, p.NodeID); why != "" {
		return webui.PeerChange{}, failure(webui.CodeRefused, "%s cannot have a vote yet: %s", req.Peer, why)
	}
	votes := b.votes(ns)
	out := webui.PeerChange{NodeID: p.NodeID, Address: p.Address, Voter: true, Reachable: true, Before: votes,
		After: webui.VotesOf(votes.Voters+1, votes.Reachable+1), DryRun: req.DryRun}
	if req.DryRun {
		return out, nil
	}
	if err := b.node.AddPeer(ctx, p.NodeID, p.Address, true); err != nil {
		return webui.PeerChange{}, changeFailed("promote "+p.NodeID, err)
	}
	return out, nil
}

// RemovePeer implements webui.Leadership. The rules are those of cluster/node, which has the last word; here they serve
// the dry run.
func (b *Backend) RemovePeer(ctx context.Context, req webui.RemovePeerRequest) (webui.PeerChange, error) {
	if !req.DryRun {
		if !b.changing.TryLock() {
			return webui.PeerChange{}, errChanging
		}
		defer b.changing.Unlock()
	}
	ns, err := b.leading("remove a master")
	if err != nil {
		return webui.PeerChange{}, err
	}
	p, err := member(ns, req.Peer)
	if err != nil {
		return webui.PeerChange{}, err
	}
	self, votes := p.NodeID == ns.NodeID, b.votes(ns)
	out := webui.PeerChange{NodeID: p.NodeID, Address: p.Address, Voter: p.Voter, Reachable: self || p.Reachable,
		Before: votes, After: votes, DryRun: req.DryRun}
	if p.Voter {
		out.After = webui.VotesOf(votes.Voters-1, sureWithout(ns, p.NodeID))
	}
	switch {
	case p.Voter && votes.Voters == 1:
		return webui.PeerChange{}, failure(webui.CodeRefused, "%s is the only voter", req.Peer)
	case self && !req.Force:
		return webui.PeerChange{}, failure(webui.CodeRefused, "%s is the leader: hand leadership to another master first (raftctl transfer-leadership)", req.Peer)
	case p.Voter && out.After.Tolerance < 0 && !req.Force:
		return webui.PeerChange{}, failure(webui.CodeRefused, "of the %d voters that would remain, %d are in contact and %d are needed: the cluster would stop",
			out.After.Voters, out.After.Reachable, out.After.Needed)
	}
	if req.DryRun {
		return out, nil
	}
	if err := b.node.RemovePeer(ctx, p.NodeID, req.Force); err != nil {
		return webui.PeerChange{}, changeFailed("remove "+p.NodeID, err)
	}
	return out, nil
}

// sureWithout counts the voters but one that are certainly there: one that went down a moment ago still counts as in
// contact elsewhere, and must not be what the remaining majority rests on.
func sureWithout(ns NodeStatus, nodeID string) int {
	n := 0
	for _, p := range ns.Peers {
		if p.Voter && p.NodeID != nodeID && (p.Sure || p.NodeID == ns.NodeID) {
			n++
		}
	}
	return n
}

// member finds a member by its id, or by its address.
func member(ns NodeStatus, name string) (PeerStatus, error) {
	stranger := ""
	for _, p := range ns.Peers {
		if name == "" || (p.NodeID != name && p.Address != name) {
			continue
		}
		if p.Member {
			return p, nil
		}
		stranger = fmt.Sprintf("; %s at %s is known, but is no member", p.NodeID, p.Address)
	}
	return PeerStatus{}, failure(webui.CodeNotFound, "no member of the cluster has the id or address %q%s", name, stranger)
}

func (b *Backend) votes(ns NodeStatus) webui.Votes {
	q := b.quorum(ns)
	return webui.Votes{Voters: q.Voters, Needed: q.Needed, Reachable: q.Reachable, Tolerance: q.Tolerance}
}

// changeFailed gives an error of the node its code.
func changeFailed(what string, err error) error {
	code := webui.CodeInternal
	switch {
	case errors.Is(err, node.ErrUnsafe), errors.Is(err, node.ErrLevel):
		code = webui.CodeRefused
	case errors.Is(err, node.ErrUnknownPeer):
		code = webui.CodeNotFound
	case errors.Is(err, node.ErrNotLeader), errors.Is(err, node.ErrTransferring):
		code = webui.CodeNotLeader
	case errors.Is(err, node.ErrUnknownOutcome), errors.Is(err, context.DeadlineExceeded):
		return failure(webui.CodeTimeout, "%s: %v; it may have been done, or be done later: look with raftctl peers list", what, err)
	}
	return failure(code, "%s: %v", what, err)
}
