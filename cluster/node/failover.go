package node

import (
	"time"

	"github.com/hashicorp/raft"

	"raftmaster/transport/raftnet"
)

// Fast failover. A killed process says so: its kernel closes its sockets, and refuses whoever dials. With that proof,
// and a majority that has it too, a follower need not wait for raft's heartbeat time-out. It gives its own raft a
// TimeoutNow, raft's order to campaign at the end of a leadership transfer. That skips pre-vote, and others vote though
// they still believe in the old leader; so all the conditions of mayCampaign must hold.

const (
	redialProof = 5 * time.Millisecond   // between attempts to prove that a process is gone
	proofDial   = 100 * time.Millisecond // for one attempt
	askAgain    = 5 * time.Millisecond   // between rounds of questions
	askGrace    = 15 * time.Millisecond  // for answers beyond the majority's
)

// observed is what raft said at one moment.
type observed struct {
	leader string
	term   uint64
	role   raft.RaftState
}

func (n *Node) observeLeader() observed {
	in := n.inst.Load()
	_, id := in.raft.LeaderWithID()
	return observed{leader: string(id), term: in.raft.CurrentTerm(), role: in.raft.State()}
}

// proveGone dials a leader whose watch connection has closed. Refused, or answered by a new process: it is gone, and a
// campaign may begin. It returns the next watch connection if there is one.
func (n *Node) proveGone(addr string, lost raftnet.Hello, seen observed) *watchConn {
	end := time.Now().Add(n.cfg.FailoverTimeout) // after it raft decides by itself
	for n.ctx.Err() == nil && time.Now().Before(end) {
		w, err := n.dialWatch(addr, proofDial)
		switch {
		case err == nil && w.peer.NodeID == lost.NodeID && w.peer.BootID == lost.BootID:
			return w // it lives: only the connection had ended
		case err == nil || raftnet.IsRefusedDial(err):
			n.log.Info("the leader's process is gone", "node_id", lost.NodeID, "address", addr, "term", seen.term)
			n.peers.update(addr, func(p *peer) { p.goneBoot = lost.BootID })
			if seen.role == raft.Follower && !n.cfg.seams.noFastFailover {
				n.spawn(func() { n.failover(lost, seen, end) })
			}
			return w
		}
		select {
		case <-n.ctx.Done():
		case <-time.After(redialProof):
		}
	}
	return nil
}

// isGone tells whether that process is proven to have ended, without a goodbye.
func (n *Node) isGone(nodeID, bootID string) bool {
	for _, p := range n.peers.list() {
		if p.goneBoot == bootID && bootID != "" && p.leftBoot != bootID {
			return true
		}
	}
	return false
}

// answer answers another voter's question about a leader.
func (n *Node) answer(q raftnet.Ask) raftnet.Answer {
	a := raftnet.Answer{Seq: q.Seq, NodeID: n.nodeID, Lost: n.isGone(q.LeaderID, q.LeaderBoot)}
	a.LastIndex, a.LastTerm = n.lastEntry()
	a.Term = n.inst.Load().raft.CurrentTerm()
	return a
}

// lastEntry is the end of this node's log, or its snapshot when that is newer.
func (n *Node) lastEntry() (index, term uint64) {
	s := n.inst.Load().raft.Stats()
	index, term = stat(s, "last_log_index"), stat(s, "last_log_term")
	if snap := stat(s, "last_snapshot_index"); snap > index {
		index, term = snap, stat(s, "last_snapshot_term")
	}
	return index, term
}

// failover campaigns when the others agree and it is this node's turn.
func (n *Node) failover(lost raftnet.Hello, seen observed, end time.Time) {
	began := time.Now()
	answers, ok := n.askVoters(lost, seen, end)
	if !ok {
		n.log.Debug("no fast failover: the majority has not lost the leader, or raft has moved on", "leader", lost.NodeID, "term", seen.term)
		return
	}
	rank := n.rank(answers)
	if rank > 0 {
		select {
		case <-n.ctx.Done():
			return
		case <-time.After(time.Duration(rank) * rankDelay):
		}
	}
	in := n.inst.Load()
	if !n.mayCampaign(in, seen) {
		n.log.Debug("no fast failover: raft has moved on", "leader", lost.NodeID, "term", seen.term, "rank", rank)
		return
	}
	n.log.Info("campaigning at once: the leader's process is gone", "leader", lost.NodeID, "term", seen.term, "rank", rank, "after", time.Since(began))
	n.cfg.OnEvent(Event{Kind: "failover", NodeID: lost.NodeID, Term: seen.term, Detail: "the leader's process is gone; campaigning at once"})
	n.announceCampaign(answers, seen.term+1)
	if err := in.trans.InjectTimeoutNow(); err != nil {
		n.log.Warn("fast failover failed", "error", err)
	}
}

// announceCampaign tells the voters that answered that this node asks for their votes in a moment.
func (n *Node) announceCampaign(answers map[string]*raftnet.Answer, term uint64) {
	for id := range answers {
		p, ok := n.peers.byID(id)
		if !ok || p.conn == nil {
			continue
		}
		if err := p.conn.send(&raftnet.Campaign{Term: term}); err != nil {
			n.log.Debug("campaign not announced", "to", id, "error", err)
		}
	}
}

// sawVoteRequest notes that somebody asks, or is about to ask, for votes of a term.
func (n *Node) sawVoteRequest(term uint64) {
	for old := n.voteTerm.Load(); term > old && !n.voteTerm.CompareAndSwap(old, term); old = n.voteTerm.Load() {
	}
}

// mayCampaign checks that nothing has changed since the leader's connection closed: this node is a voting follower of
// the same leader in the same term, and nobody else has asked for votes.
func (n *Node) mayCampaign(in *instance, seen observed) bool {
	now := n.observeLeader()
	return !n.stopping.Load() && now == seen && now.role == raft.Follower && n.voteTerm.Load() <= seen.term &&
		n.store.Health() == nil && isVoter(in, n.nodeID)
}

func isVoter(in *instance, id string) bool {
	for _, s := range in.raft.GetConfiguration().Configuration().Servers {
		if string(s.ID) == id && s.Suffrage == raft.Voter {
			return true
		}
	}
	return false
}

// askVoters asks the other voters until a majority, this node included, has lost the leader too. It gives up when one
// knows a higher term, when raft moves on, or at the end.
func (n *Node) askVoters(lost raftnet.Hello, seen observed, end time.Time) (map[string]*raftnet.Answer, bool) {
	in := n.inst.Load()
	voters, others := 0, make([]string, 0, 4)
	for _, s := range in.raft.GetConfiguration().Configuration().Servers {
		if s.Suffrage != raft.Voter {
			continue
		}
		voters++
		if id := string(s.ID); id != n.nodeID && id != lost.NodeID {
			others = append(others, id)
		}
	}
	agreed := make(map[string]*raftnet.Answer)
	var enough time.Time
	for time.Now().Before(end) && n.mayCampaign(in, seen) {
		answers := n.askOnce(others, raftnet.Ask{LeaderID: lost.NodeID, LeaderBoot: lost.BootID, Term: seen.term})
		for id, a := range answers {
			if a.Term > seen.term {
				return nil, false
			}
			if a.Lost {
				agreed[id] = a
			}
		}
		if len(agreed)+1 > voters/2 {
			if enough.IsZero() {
				enough = time.Now()
			}
			if len(agreed) == len(others) || time.Since(enough) > askGrace {
				return agreed, true
			}
		}
		select {
		case <-n.ctx.Done():
			return nil, false
		case <-time.After(askAgain):
		}
	}
	return nil, false
}

// askOnce asks voters over the watch connections that are up and collects what comes back soon.
func (n *Node) askOnce(ids []string, q raftnet.Ask) map[string]*raftnet.Answer {
	pending := make(map[string]<-chan *raftnet.Answer)
	for _, id := range ids {
		p, ok := n.peers.byID(id)
		if !ok || p.conn == nil {
			continue
		}
		if c, err := p.conn.ask(q); err == nil {
			pending[id] = c
		}
	}
	answers := make(map[string]*raftnet.Answer)
	timeout := time.NewTimer(askGrace)
	defer timeout.Stop()
	for id, c := range pending {
		select {
		case a := <-c:
			answers[id] = a
		case <-timeout.C:
			timeout.Reset(0) // collect what is there, wait for no more
		case <-n.ctx.Done():
			return answers
		}
	}
	return answers
}

// rank counts the voters that should go first: those with a longer log, then those with the smaller id.
func (n *Node) rank(answers map[string]*raftnet.Answer) int {
	index, term := n.lastEntry()
	before := 0
	for id, a := range answers {
		switch {
		case a.LastTerm != term:
			if a.LastTerm > term {
				before++
			}
		case a.LastIndex != index:
			if a.LastIndex > index {
				before++
			}
		case id < n.nodeID:
			before++
		}
	}
	return before
}
