package main

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"raftmaster/transport/webui"
)

// changing makes the leader record what it is asked; dry runs are kept apart.
func changing(t *testing.T, out webui.PeerChange) (ms []*fakeMaster, done *[]any) {
	t.Helper()
	ms = newCluster(t)
	ms[0].status.Quorum.Peers = append(ms[0].status.Quorum.Peers, webui.Peer{NodeID: "d4d4d4d4d4d4d4d4", Address: "d:7077"})
	done = &[]any{}
	ms[0].peers = func(req any) (webui.PeerChange, error) {
		answer := out
		switch r := req.(type) {
		case webui.AddPeerRequest:
			answer.DryRun = r.DryRun
		case webui.RemovePeerRequest:
			answer.DryRun = r.DryRun
		case webui.PromotePeerRequest:
			answer.DryRun = r.DryRun
		}
		if !answer.DryRun {
			*done = append(*done, req)
		}
		return answer, nil
	}
	return ms, done
}

func TestPeersAdd(t *testing.T) {
	ms, done := changing(t, webui.PeerChange{NodeID: "d4d4d4d4d4d4d4d4", Address: "d:7077", Voter: true, Reachable: true, Before: webui.VotesOf(2, 2), After: webui.VotesOf(3, 3)})
	e := endpoints(ms)
	check(t, ctl(t, nil, "--endpoints", e, "peers", "add", "d4d4d4d4d4d4d4d4@d:7077", "--dry-run"), exitOK, "would add d4d4d4d4d4d4d4d4 at d:7077 as a voter", "nothing was changed",
		"2 of 2 voters in contact, 2 needed, tolerance left 0", "3 of 3 voters in contact, 2 needed, tolerance left 1")
	check(t, ctl(t, nil, "--endpoints", e, "peers", "add", "d4d4d4d4d4d4d4d4@d:7077"), exitRefused, "--yes", "Add d4d4d4d4d4d4d4d4 at d:7077 as a voter?", "tolerance left 1")
	if len(*done) != 0 {
		t.Fatalf("done without a yes: %+v", *done)
	}
	check(t, ctl(t, nil, "--endpoints", endpoints(ms[1:]), "peers", "add", "d4d4d4d4d4d4d4d4@d:7077", "--wait", "90s", "--yes"), exitOK, "d4d4d4d4d4d4d4d4 at d:7077 is a voter", "undo: raftctl peers remove d4d4d4d4d4d4d4d4")
	if diff := cmp.Diff([]any{webui.AddPeerRequest{NodeID: "d4d4d4d4d4d4d4d4", Address: "d:7077", Voter: true, WaitMillis: 90000}}, *done); diff != "" {
		t.Errorf("asked of the leader (-want +got):\n%s", diff)
	}
	ms, done = changing(t, webui.PeerChange{NodeID: "d4d4d4d4d4d4d4d4", Address: "d:7077", Before: webui.VotesOf(3, 3), After: webui.VotesOf(3, 3)})
	r := ctlOn(t, terminal{interactive: true, in: strings.NewReader("y\n")}, nil, "--endpoints", endpoints(ms), "peers", "add", "d4d4d4d4d4d4d4d4@d:7077", "--non-voter")
	check(t, r, exitOK, "Add d4d4d4d4d4d4d4d4 at d:7077 without a vote? [y/N]", "is a member without a vote", "raftctl peers promote d4d4d4d4d4d4d4d4")
	if len(*done) != 1 || (*done)[0].(webui.AddPeerRequest).Voter {
		t.Errorf("%+v", *done)
	}
}

func TestPeersRemove(t *testing.T) {
	ms, done := changing(t, webui.PeerChange{NodeID: "n3", Address: "c:7077", Voter: true, Reachable: true, Before: webui.VotesOf(3, 3), After: webui.VotesOf(2, 2)})
	e := endpoints(ms)
	for _, answer := range []string{"\n", "n\n"} {
		check(t, ctlOn(t, terminal{interactive: true, in: strings.NewReader(answer)}, nil, "--endpoints", e, "peers", "remove", "n3"), exitRefused, "Remove n3?", "nothing was changed")
	}
	if len(*done) != 0 {
		t.Fatalf("done without a yes: %+v", *done)
	}
	check(t, ctl(t, nil, "--endpoints", e, "peers", "remove", "c:7077", "--force", "--yes"), exitOK, "n3 at c:7077 is no member any more", "tolerance left 1", "tolerance left 0",
		"the loss of one more master stops the cluster", "undo: raftctl peers add n3@c:7077", "stop the master at c:7077")
	if diff := cmp.Diff([]any{webui.RemovePeerRequest{Peer: "c:7077", Force: true}}, *done); diff != "" {
		t.Errorf("asked of the leader (-want +got):\n%s", diff)
	}
	r := ctl(t, nil, "--endpoints", e, "-o", "json", "peers", "remove", "n3", "--yes")
	var v webui.PeerChange
	if err := json.Unmarshal([]byte(r.out), &v); err != nil || v.NodeID != "n3" || v.After.Tolerance != 0 || v.Before.Tolerance != 1 {
		t.Errorf("%v: %s", err, r.out)
	}
}

func TestPeersPromote(t *testing.T) {
	ms, done := changing(t, webui.PeerChange{NodeID: "d4d4d4d4d4d4d4d4", Address: "d:7077", Voter: true, Reachable: true, Before: webui.VotesOf(3, 3), After: webui.VotesOf(4, 4)})
	check(t, ctl(t, nil, "--endpoints", endpoints(ms), "peers", "promote", "d4d4d4d4d4d4d4d4", "--yes"), exitOK, "d4d4d4d4d4d4d4d4 at d:7077 is a voter", "4 of 4 voters in contact, 3 needed", "undo: raftctl peers remove d4d4d4d4d4d4d4d4")
	if diff := cmp.Diff([]any{webui.PromotePeerRequest{Peer: "d4d4d4d4d4d4d4d4"}}, *done); diff != "" {
		t.Errorf("asked of the leader (-want +got):\n%s", diff)
	}
}

// What the leader refuses for safety is exit code 5, before anybody is asked; other codes follow the answer.
func TestPeersErrors(t *testing.T) {
	for code, want := range map[string]int{webui.CodeRefused: exitRefused, webui.CodeNotFound: exitError, webui.CodeNotLeader: exitNoLeader,
		webui.CodeTimeout: exitTimeout, webui.CodeBadRequest: exitUsage} {
		ms := newCluster(t)
		ms[0].peers = func(any) (webui.PeerChange, error) {
			return webui.PeerChange{}, &webui.Error{Code: code, Message: "the reason"}
		}
		for _, verb := range []string{"add x@d:1", "remove x", "promote x"} {
			r := ctl(t, nil, append([]string{"--endpoints", endpoints(ms), "peers"}, strings.Fields(verb)...)...)
			check(t, r, want, "the reason")
			if strings.Contains(r.err, "--dry-run") {
				t.Errorf("peers %s: somebody was asked although it is refused: %s", verb, r.err)
			}
		}
	}
	for _, args := range []string{"add", "add d4d4d4d4d4d4d4d4", "add @d:7077", "add d4d4d4d4d4d4d4d4@", "add d4d4d4d4d4d4d4d4@d:1 --wait 0s", "add d4d4d4d4d4d4d4d4@d:1 --wait 1h", "remove", "remove a b", "promote"} {
		check(t, ctl(t, map[string]string{"RAFTCTL_ENDPOINTS": "http://127.0.0.1:1"}, append([]string{"peers"}, strings.Fields(args)...)...), exitUsage)
	}
	ms := newCluster(t)
	ms[0].peers = func(any) (webui.PeerChange, error) { return webui.PeerChange{}, errors.New("disk") }
	check(t, ctl(t, nil, "--endpoints", endpoints(ms), "peers", "remove", "x", "--yes"), exitError, "disk")
	loseLeader(ms)
	check(t, ctl(t, nil, "--endpoints", endpoints(ms), "peers", "remove", "x", "--yes"), exitNoLeader, "no leader")
}

// TestPeersList tells voters, learners and strangers apart.
func TestPeersList(t *testing.T) {
	ms := newCluster(t)
	ms[0].status.Quorum.Peers = append(ms[0].status.Quorum.Peers,
		webui.Peer{NodeID: "learner", Address: "d:7077", Member: true}, webui.Peer{NodeID: "fresh", Address: "c:7077"})
	r := ctl(t, nil, "--endpoints", endpoints(ms), "peers", "list")
	check(t, r, exitOK)
	for _, line := range strings.Split(r.out, "\n") {
		if strings.Contains(line, "fresh") != strings.Contains(line, "no member") {
			t.Errorf("wrong membership in %q", line)
		}
	}
}

func TestUnknownCommandIsNamed(t *testing.T) {
	check(t, ctl(t, nil, "frob"), exitUsage, `unknown command "frob" for raftctl`, "raftctl --help")
	check(t, ctl(t, nil, "helth"), exitUsage, `unknown command "helth"`, "did you mean health?")
	check(t, ctl(t, nil, "peers", "ad", "x@y:1"), exitUsage, `unknown command "ad" for raftctl peers`, "add")
	check(t, ctl(t, nil, "peers"), exitUsage, "peers list, add, remove or promote")
	check(t, ctl(t, nil), exitUsage, "name a command", "Available Commands")
}

// TestTokenHints: what helps depends on whether the master has a token, and on whether one was given.
func TestTokenHints(t *testing.T) {
	unauthorized := &apiError{status: 401, body: webui.Error{Code: webui.CodeUnauthorized}}
	forbidden := &apiError{status: 403, body: webui.Error{Code: webui.CodeUnauthorized}}
	for _, c := range []struct {
		err   *apiError
		given bool
		want  string
		not   string
	}{
		{unauthorized, false, "give the token with --token-file or RAFTCTL_TOKEN", "run raftctl on"},
		{unauthorized, true, "is not the one of that master", "run raftctl on"},
		{forbidden, false, "run raftctl on the leader's own machine", "RAFTCTL_TOKEN"},
		{forbidden, true, "run raftctl on the leader's own machine", "RAFTCTL_TOKEN"},
	} {
		if got := hint(c.err, c.given); !strings.Contains(got, c.want) || strings.Contains(got, c.not) {
			t.Errorf("status %d, token given %v: %q", c.err.status, c.given, got)
		}
	}
	ms, _ := changing(t, webui.PeerChange{})
	ms[0].token = "s3cret"
	ms[0].serve(t)
	r := ctl(t, nil, "--endpoints", endpoints(ms), "peers", "remove", "n3", "--yes")
	check(t, r, exitError, "needs the admin token", "own machine too")
	check(t, ctl(t, map[string]string{"RAFTCTL_TOKEN": "old"}, "--endpoints", endpoints(ms), "peers", "remove", "n3", "--yes"), exitError, "not the one of that master")
}
