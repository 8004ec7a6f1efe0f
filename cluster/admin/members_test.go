package admin

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"raftmaster/cluster/node"
	"raftmaster/fsm"
	"raftmaster/transport/webui"
)

func codeOf(err error) string {
	var e *webui.Error
	if errors.As(err, &e) {
		return e.Code
	}
	return fmt.Sprint(err)
}

// mutable is a leader of three, all well, that does what it is told and writes it down.
func mutable(t *testing.T, change func(*NodeStatus)) (*fakeNode, *Backend, *[]string) {
	t.Helper()
	n := newNode()
	n.status.Peers[0].Reachable, n.status.Peers[0].Sure, n.status.Peers[0].LastContact = true, true, time.Millisecond
	if change != nil {
		change(&n.status)
	}
	did := &[]string{}
	n.onAdd = func(n *fakeNode, id, address string, voter bool) error {
		*did = append(*did, fmt.Sprintf("add %s %s %v", id, address, voter))
		n.set(func(s *NodeStatus) {
			for i := range s.Peers {
				if s.Peers[i].NodeID == id {
					s.Peers[i].Member, s.Peers[i].Voter = true, voter
					return
				}
			}
			s.Peers = append(s.Peers, PeerStatus{NodeID: id, Address: address, Member: true, Voter: voter, LastContact: -1})
		})
		return nil
	}
	n.onRemove = func(_ *fakeNode, id string, force bool) error {
		*did = append(*did, fmt.Sprintf("remove %s %v", id, force))
		return nil
	}
	return n, newBackend(n, Soft{}), did
}

func TestAddPeerGivesTheLogFirst(t *testing.T) {
	n, b, did := mutable(t, nil)
	req := webui.AddPeerRequest{NodeID: "n4", Address: "d:7077", Voter: true, DryRun: true}
	want := webui.PeerChange{NodeID: "n4", Address: "d:7077", Voter: true, Before: webui.VotesOf(3, 3), After: webui.VotesOf(4, 4), DryRun: true}
	got, err := b.AddPeer(context.Background(), req)
	if diff := cmp.Diff(want, got); err != nil || diff != "" || len(*did) != 0 {
		t.Fatalf("dry run: %v, did %v:\n%s", err, *did, diff)
	}
	// It answers after a while, far behind at first; its vote waits for the log.
	go func() {
		for _, lastIndex := range []uint64{0, 1, 101} {
			time.Sleep(3 * memberPoll)
			n.set(func(s *NodeStatus) {
				for i := range s.Peers {
					if p := &s.Peers[i]; p.NodeID == "n4" {
						if p.Voter {
							t.Error("it has its vote before it holds the log")
						}
						p.Reachable, p.LastContact, p.LastIndex = true, 0, lastIndex
					}
				}
				s.LastLogIndex = 300
				if lastIndex > 1 {
					s.LastLogIndex = lastIndex + voterMaxLag
				}
			})
		}
	}()
	req.DryRun, want.DryRun, want.Reachable = false, false, true
	got, err = b.AddPeer(context.Background(), req)
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v:\n%s", err, diff)
	}
	if diff := cmp.Diff([]string{"add n4 d:7077 false", "add n4 d:7077 true"}, *did); diff != "" {
		t.Error(diff)
	}
}

// A new master that does not come stays without a vote, and the error says so and what to do.
func TestAddPeerThatDoesNotComeHasNoVote(t *testing.T) {
	_, b, did := mutable(t, nil)
	_, err := b.AddPeer(context.Background(), webui.AddPeerRequest{NodeID: "n4", Address: "d:7077", Voter: true, WaitMillis: 30})
	if codeOf(err) != webui.CodeTimeout || !strings.Contains(err.Error(), "raftctl peers promote n4") || !strings.Contains(err.Error(), "not in contact") {
		t.Error(err)
	}
	if diff := cmp.Diff([]string{"add n4 d:7077 false"}, *did); diff != "" {
		t.Error(diff)
	}
	if _, err := b.PromotePeer(context.Background(), webui.PromotePeerRequest{Peer: "n4"}); codeOf(err) != webui.CodeRefused {
		t.Errorf("promoted although it is not there: %v", err)
	}
}

func TestAddPeerRefusals(t *testing.T) {
	fresh := func(p PeerStatus) func(*NodeStatus) {
		return func(s *NodeStatus) { s.Peers = append(s.Peers, p) }
	}
	for _, c := range []struct {
		id, address string
		voter       bool
		change      func(*NodeStatus)
		code, text  string
	}{
		{"", "d:7077", true, nil, webui.CodeBadRequest, "no node id"},
		{"a b", "d:7077", true, nil, webui.CodeBadRequest, "no node id"},
		{"n4", "d", true, nil, webui.CodeBadRequest, "host:port"},
		{"n4", ":7077", true, nil, webui.CodeBadRequest, "host:port"},
		{"n4", "d:0", true, nil, webui.CodeBadRequest, "host:port"},
		{"n4", "d:65536", true, nil, webui.CodeBadRequest, "host:port"},
		{"n4", "http://d:80", true, nil, webui.CodeBadRequest, "host:port"},
		{"n2", "b:7077", true, nil, webui.CodeRefused, "a voter already"},
		{"n2", "d:7077", true, nil, webui.CodeRefused, "a voter already"},
		{"n4", "c:7077", true, nil, webui.CodeRefused, "raftctl peers remove n3"},
		{"n4", "d:7077", false, fresh(PeerStatus{NodeID: "n4", Address: "d:7077", Member: true}), webui.CodeRefused, "without a vote already"},
		{"n4", "d:7077", true, fresh(PeerStatus{NodeID: "n5", Address: "d:7077", Reachable: true}), webui.CodeRefused, "is n5, not n4"},
		{"n4", "d:7077", true, fresh(PeerStatus{NodeID: "n4", Address: "e:7077", Reachable: true}), webui.CodeRefused, "answers at e:7077"},
		{"n4", "d:7077", true, fresh(PeerStatus{Address: "d:7077", Problem: "refused"}), webui.CodeRefused, "start the master there first"},
		{"n4", "d:7077", true, func(s *NodeStatus) { s.Role = webui.RoleFollower }, webui.CodeNotLeader, "not the leader"},
		{"n4", "d:7077", true, func(s *NodeStatus) { s.Role, s.LeaderID, s.LeaderAddress = webui.RoleFollower, "", "" }, webui.CodeNoLeader, "no leader"},
	} {
		_, b, did := mutable(t, c.change)
		_, err := b.AddPeer(context.Background(), webui.AddPeerRequest{NodeID: c.id, Address: c.address, Voter: c.voter})
		if codeOf(err) != c.code || !strings.Contains(err.Error(), c.text) || len(*did) != 0 {
			t.Errorf("%s@%s: %v, did %v; want %s %q", c.id, c.address, err, *did, c.code, c.text)
		}
	}
}

// The lost master of the runbook: its address still belongs to the old id, and both are known.
func TestAddPeerInPlaceOfALostOne(t *testing.T) {
	lost := func(s *NodeStatus) {
		s.Peers[0].Reachable, s.Peers[0].Sure = false, false
		s.Peers = append(s.Peers, PeerStatus{NodeID: "n9", Address: "c:7077", Reachable: true, LastContact: -1})
	}
	_, b, _ := mutable(t, lost)
	if _, err := b.AddPeer(context.Background(), webui.AddPeerRequest{NodeID: "n9", Address: "c:7077", Voter: true}); codeOf(err) != webui.CodeRefused {
		t.Errorf("beside the old one: %v", err)
	}
	// By address only the member can be meant.
	got, err := b.RemovePeer(context.Background(), webui.RemovePeerRequest{Peer: "c:7077"})
	want := webui.PeerChange{NodeID: "n3", Address: "c:7077", Voter: true, Before: webui.VotesOf(3, 2), After: webui.VotesOf(2, 2)}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v:\n%s", err, diff)
	}
	_, b, did := mutable(t, func(s *NodeStatus) { lost(s); s.Peers = s.Peers[1:] })
	got, err = b.AddPeer(context.Background(), webui.AddPeerRequest{NodeID: "n9", Address: "c:7077"})
	if err != nil || got.Voter || !got.Reachable || got.After != webui.VotesOf(2, 2) || len(*did) != 1 {
		t.Errorf("%+v, %v, did %v", got, err, *did)
	}
}

func TestRemovePeer(t *testing.T) {
	for _, c := range []struct {
		name, peer string
		force      bool
		change     func(*NodeStatus)
		code, text string
		did        string
	}{
		{"one of three", "n3", false, nil, "", "", "remove n3 false"},
		{"unknown", "n9", false, nil, webui.CodeNotFound, `"n9"`, ""},
		{"nameless", "", false, nil, webui.CodeNotFound, "", ""},
		{"stranger", "n8", false, func(s *NodeStatus) { s.Peers = append(s.Peers, PeerStatus{NodeID: "n8", Address: "x:1"}) }, webui.CodeNotFound, "is no member", ""},
		{"the leader", "a:7077", false, nil, webui.CodeRefused, "raftctl transfer-leadership", ""},
		{"the leader, by force", "n1", true, nil, "", "", "remove n1 true"},
		{"the majority rests on it", "n2", false, func(s *NodeStatus) { s.Peers[0].Reachable, s.Peers[0].Sure = false, false }, webui.CodeRefused, "the cluster would stop", ""},
		{"one that may have gone just now does not count", "n2", false, func(s *NodeStatus) { s.Peers[0].Sure = false }, webui.CodeRefused, "1 are in contact and 2 are needed", ""},
		{"by force", "n2", true, func(s *NodeStatus) { s.Peers[0].Reachable, s.Peers[0].Sure = false, false }, "", "", "remove n2 true"},
		{"the only voter", "n1", true, func(s *NodeStatus) { s.Peers = s.Peers[1:2] }, webui.CodeRefused, "only voter", ""},
		{"elsewhere", "n3", false, func(s *NodeStatus) { s.Role, s.LeaderID, s.LeaderAddress = webui.RoleFollower, "n2", "b:7077" }, webui.CodeNotLeader, "b:7077", ""},
	} {
		_, b, did := mutable(t, c.change)
		for _, dry := range []bool{true, false} {
			_, err := b.RemovePeer(context.Background(), webui.RemovePeerRequest{Peer: c.peer, Force: c.force, DryRun: dry})
			if (err != nil || c.code != "") && (codeOf(err) != c.code || !strings.Contains(err.Error(), c.text)) {
				t.Errorf("%s, dry %v: %v, want %s %q", c.name, dry, err, c.code, c.text)
			}
			if dry && len(*did) != 0 {
				t.Errorf("%s: a dry run did %v", c.name, *did)
			}
		}
		if got := strings.Join(*did, ";"); got != c.did {
			t.Errorf("%s: did %q, want %q", c.name, got, c.did)
		}
	}
}

func TestPromotePeer(t *testing.T) {
	learner := PeerStatus{NodeID: "n4", Address: "d:7077", Member: true, Reachable: true, LastIndex: 101}
	for _, c := range []struct {
		name       string
		edit       func(*PeerStatus)
		code, text string
	}{
		{"ready", func(*PeerStatus) {}, "", ""},
		{"voter", func(p *PeerStatus) { p.Voter = true }, webui.CodeRefused, "a voter already"},
		{"down", func(p *PeerStatus) { p.Reachable, p.Problem = false, "refused" }, webui.CodeRefused, "not in contact (refused)"},
		{"silent", func(p *PeerStatus) { p.LastIndex = 0 }, webui.CodeRefused, "not acknowledged"},
		{"behind", func(p *PeerStatus) { p.LastIndex = 1 }, webui.CodeRefused, "499 entries behind"},
		{"no member", func(p *PeerStatus) { p.Member = false }, webui.CodeNotFound, "is no member"},
	} {
		_, b, did := mutable(t, func(s *NodeStatus) {
			p := learner
			c.edit(&p)
			s.Peers = append(s.Peers, p)
			if c.name == "behind" {
				s.LastLogIndex = 500
			}
		})
		got, err := b.PromotePeer(context.Background(), webui.PromotePeerRequest{Peer: "n4", DryRun: true})
		if c.code != "" {
			if codeOf(err) != c.code || !strings.Contains(err.Error(), c.text) {
				t.Errorf("%s: %v, want %s %q", c.name, err, c.code, c.text)
			}
			continue
		}
		if err != nil || len(*did) != 0 || got.After != webui.VotesOf(4, 4) {
			t.Errorf("%s: %+v, %v, did %v", c.name, got, err, *did)
		}
		if _, err := b.PromotePeer(context.Background(), webui.PromotePeerRequest{Peer: "d:7077"}); err != nil || strings.Join(*did, ";") != "add n4 d:7077 true" {
			t.Errorf("%v, did %v", err, *did)
		}
	}
}

// TestOneChangeAtATime: the second of two changes is refused while the first is under way, and not afterwards.
func TestOneChangeAtATime(t *testing.T) {
	n, b, did := mutable(t, nil)
	n.onRemove = func(_ *fakeNode, id string, _ bool) error {
		*did = append(*did, id)
		_, remove := b.RemovePeer(context.Background(), webui.RemovePeerRequest{Peer: "n2"})
		_, add := b.AddPeer(context.Background(), webui.AddPeerRequest{NodeID: "n4", Address: "d:7077"})
		_, promote := b.PromotePeer(context.Background(), webui.PromotePeerRequest{Peer: "n2"})
		for _, err := range []error{remove, add, promote} {
			if codeOf(err) != webui.CodeRefused || !strings.Contains(err.Error(), "one at a time") {
				t.Errorf("beside another change: %v", err)
			}
		}
		if _, err := b.RemovePeer(context.Background(), webui.RemovePeerRequest{Peer: "n2", DryRun: true}); err != nil {
			t.Errorf("a dry run beside a change: %v", err)
		}
		return nil
	}
	for _, id := range []string{"n3", "n2"} {
		if _, err := b.RemovePeer(context.Background(), webui.RemovePeerRequest{Peer: id}); err != nil {
			t.Errorf("%s: %v", id, err)
		}
	}
	if got := strings.Join(*did, " "); got != "n3 n2" {
		t.Errorf("removed %s", got)
	}
}

// TestNodeErrorsHaveCodes: what the node refuses after all keeps its meaning.
func TestNodeErrorsHaveCodes(t *testing.T) {
	for err, want := range map[error]string{
		node.ErrUnsafe: webui.CodeRefused, node.ErrUnknownPeer: webui.CodeNotFound, node.ErrNotLeader: webui.CodeNotLeader, node.ErrTransferring: webui.CodeNotLeader,
		node.ErrUnknownOutcome: webui.CodeTimeout, context.DeadlineExceeded: webui.CodeTimeout, node.ErrStorage: webui.CodeInternal,
	} {
		n, b, _ := mutable(t, nil)
		n.onRemove = func(*fakeNode, string, bool) error { return fmt.Errorf("deep: %w", err) }
		if _, got := b.RemovePeer(context.Background(), webui.RemovePeerRequest{Peer: "n3"}); codeOf(got) != want || !strings.Contains(got.Error(), err.Error()) {
			t.Errorf("%v: %v", err, got)
		}
	}
}

// TestPeerStatusOfANode: a member whose place another master has taken is not in contact, however fresh its last word.
func TestPeerStatusOfANode(t *testing.T) {
	st := node.Status{NodeID: "n1", Address: "a:1", Role: node.RoleLeader, Peers: []node.Peer{
		{NodeID: "n2", Address: "b:1", Connected: true, Member: true, Voter: true, LastContact: time.Millisecond},
		{NodeID: "n3", Address: "c:1", Member: true, Voter: true, LastContact: time.Millisecond},
		{NodeID: "old", Address: "d:1", Member: true, Voter: true, LastContact: time.Millisecond},
		{NodeID: "new", Address: "d:1", Connected: true, LastContact: -1},
		{NodeID: "n5", Address: "e:1", Connected: true, Member: true, LastContact: time.Hour},
	}}
	want := map[string][2]bool{"n2": {true, true}, "n3": {true, false}, "old": {false, false}, "new": {true, false}, "n5": {true, false}}
	for _, p := range st.Peers {
		got := peerStatus(p, st)
		if [2]bool{got.Reachable, got.Sure} != want[p.NodeID] || got.Member != p.Member {
			t.Errorf("%s: %+v", p.NodeID, got)
		}
	}
}

// TestStateDigest: index and digest of one and the same view.
func TestStateDigest(t *testing.T) {
	n := newNode()
	n.apply(t, fsm.LeaderElected{Meta: fsm.Meta{NowMillis: 900}, NodeID: "n2", Settings: fsm.DefaultSettings()})
	b := newBackend(n, Soft{})
	if st := b.Status(); st.StateIndex != 1 || st.StateDigest != n.View().Digest().String() {
		t.Errorf("%d %s", st.StateIndex, st.StateDigest)
	}
	if st := b.Brief(); st.StateDigest != "" {
		t.Error("a probe pays for the digest")
	}
}

// TestLeaderChanges: leaders of all masters count, each once, however rarely somebody looks; elections of before the
// start of this process do not.
func TestLeaderChanges(t *testing.T) {
	n := newNode()
	c := leaderCount{b: newBackend(n, Soft{})} // started at 500 ms
	for _, step := range []struct {
		terms    []uint64
		atMillis int64
		want     uint64
	}{{nil, 0, 0}, {[]uint64{2, 3, 5}, 499, 0}, {[]uint64{6}, 500, 1}, {nil, 0, 1}, {[]uint64{7, 9}, 900, 3}, {nil, 0, 3}} {
		for _, term := range step.terms {
			n.index++
			if res := n.machine.Apply(n.index, term, fsm.LeaderElected{Meta: fsm.Meta{NowMillis: step.atMillis}, NodeID: "n2", Settings: fsm.DefaultSettings()}); res.Err != nil {
				t.Fatal(res.Err)
			}
		}
		if got := c.look(); got != step.want {
			t.Errorf("%+v: %d", step, got)
		}
	}
}
