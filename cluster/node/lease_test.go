package node

import (
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"raftmaster/transport/raftnet"
)

func configuration(voters ...raft.ServerID) raft.Configuration {
	var c raft.Configuration
	for _, id := range voters {
		c.Servers = append(c.Servers, raft.Server{Suffrage: raft.Voter, ID: id, Address: raft.ServerAddress(id)})
	}
	return c
}

func TestLeaseFollowsTheMajoritysSendTimes(t *testing.T) {
	l := newLease(100 * time.Millisecond)
	length := l.length
	l.setVoters("a", configuration("a", "b", "c", "d", "e"))
	l.beginTerm(7)
	ms := time.Millisecond
	steps := []struct {
		ack  raftnet.Ack
		want time.Duration // end of the lease, 0 for none
	}{
		{raftnet.Ack{Peer: "b", Term: 7, Sent: 1000 * ms}, 0},
		{raftnet.Ack{Peer: "x", Term: 7, Sent: 1005 * ms}, 0},                // no voter
		{raftnet.Ack{Peer: "c", Term: 6, Sent: 1010 * ms}, 0},                // an older term
		{raftnet.Ack{Peer: "c", Term: 7, Sent: 1010 * ms}, 1000*ms + length}, // b and c and this node
		{raftnet.Ack{Peer: "d", Term: 7, Sent: 1020 * ms}, 1010*ms + length},
		{raftnet.Ack{Peer: "b", Term: 7, Sent: 990 * ms}, 1010*ms + length}, // late and older: no step back
		{raftnet.Ack{Peer: "e", Term: 7, Sent: 1030 * ms}, 1020*ms + length},
		{raftnet.Ack{Peer: "b", Term: 8, Sent: 1040 * ms}, 0}, // a new term begins without a lease
	}
	for i, s := range steps {
		l.acked(s.ack, s.ack.Sent+ms)
		if got := l.now.Load().end; got != s.want {
			t.Fatalf("step %d: lease ends at %v, want %v", i, got, s.want)
		}
	}
	if l.remaining(7, 0) != 0 {
		t.Error("the lease of term 7 is still good in term 8")
	}
}

func TestLeaseOfALoneVoterNeedsNobody(t *testing.T) {
	l := newLease(100 * time.Millisecond)
	l.setVoters("a", configuration("a"))
	l.beginTerm(3)
	if l.remaining(3, time.Hour) == 0 {
		t.Error("a lone voter has no lease")
	}
	l.setVoters("a", configuration("b", "c"))
	if l.remaining(3, 0) != 0 {
		t.Error("a node that has no vote has a lease")
	}
	l.setVoters("a", configuration("a", "b"))
	if l.remaining(3, 0) != 0 {
		t.Error("one of two voters has a lease without the other")
	}
}
