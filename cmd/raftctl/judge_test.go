package main

import (
	"encoding/json"
	"strings"
	"testing"

	"raftmaster/transport/webui"
)

// Endpoints of two clusters are no healthy cluster, whatever each says of itself.
func TestMastersOfTwoClusters(t *testing.T) {
	ms, others := newCluster(t), newCluster(t)
	for _, m := range others {
		m.status.ClusterID = "c2"
	}
	e := endpoints([]*fakeMaster{ms[0], ms[1], others[1]})
	for _, verb := range []string{"health", "status", "leader", "transfer-leadership --yes", "peers remove b --yes"} {
		r := ctl(t, nil, append([]string{"--endpoints", e}, strings.Fields(verb)...)...)
		check(t, r, exitUnhealthy, "these masters are not of one cluster: cluster c1: a:7077 ("+ms[0].url+")", "; cluster c2: b:7077 ("+others[1].url+")")
		if verb == "leader" && r.out != "" {
			t.Errorf("a leader is printed: %q", r.out)
		}
	}
	r := ctl(t, nil, "--endpoints", e, "-o", "json", "health")
	var v healthResult
	if err := json.Unmarshal([]byte(r.out), &v); err != nil || v.Healthy || !strings.Contains(v.Problem, "not of one cluster") || r.code != exitUnhealthy {
		t.Errorf("exit code %d, %v: %s", r.code, err, r.out)
	}
	// A master without a cluster is not of another one.
	others[1].status.ClusterID = ""
	check(t, ctl(t, nil, "--endpoints", e, "leader"), exitOK, "a:7077")
}

func TestTwoLeaders(t *testing.T) {
	ms := newCluster(t)
	ms[1].status.State, ms[1].status.Term = webui.StateAlive, 8
	for _, verb := range []string{"health", "status", "leader"} {
		check(t, ctl(t, nil, "--endpoints", endpoints(ms), verb), exitUnhealthy, "more than one master is ALIVE: a:7077 (", "term 7), b:7077 (", "term 8)")
	}
	// One master under two URLs is one.
	ms = newCluster(t)
	check(t, ctl(t, nil, "--endpoints", endpoints(ms[:1], strings.Replace(ms[0].url, "127.0.0.1", "localhost", 1)), "leader"), exitOK, "a:7077")
}

// A master that was removed is no voter, and to start others would not help.
func TestLeaderFromARemovedMaster(t *testing.T) {
	ms := newCluster(t)
	loseLeader(ms)
	ms[2].status.Quorum.Peers[2].Member, ms[2].status.Quorum.Peers[2].Voter = false, false
	r := ctl(t, nil, "--endpoints", endpoints(ms[2:]), "leader")
	check(t, r, exitNoLeader, "voters:     a:7077, b:7077\n", "no member:  c:7077 (node c)", "next: ask the members", "raftctl peers add c@c:7077")
	if strings.Contains(r.err, "start the missing") {
		t.Errorf("%s", r.err)
	}
	check(t, ctl(t, nil, "--endpoints", endpoints(ms[1:]), "leader"), exitNoLeader, "no member:  c:7077", "1 of 3 voters answered and 2 are needed")
}

// What nobody has announced is not added: a voter that does not exist costs the tolerance.
func TestPeersAddOfAStranger(t *testing.T) {
	ms, done := changing(t, webui.PeerChange{NodeID: "x", Address: "d:7077", Voter: true, Before: webui.VotesOf(3, 3), After: webui.VotesOf(4, 3)})
	e := endpoints(ms)
	for peer, want := range map[string]string{
		"n4@d:7077": "is no node id", "D4D4D4D4D4D4D4D4@d:7077": "is no node id", "d4d4d4d4d4d4d4d4f@d:7077": "is no node id",
		"d4d4d4d4d4d4d4d4@e:7077": "; node d4d4d4d4d4d4d4d4 is at d:7077", "eeeeeeeeeeeeeeee@d:7077": "; at d:7077 is node d4d4d4d4d4d4d4d4",
		"eeeeeeeeeeeeeeee@e:7077": "has heard of no node",
	} {
		for _, flag := range []string{"--yes", "--dry-run"} {
			check(t, ctl(t, nil, "--endpoints", e, "peers", "add", peer, flag), exitRefused, want, "--force")
		}
	}
	if len(*done) != 0 {
		t.Fatalf("%+v", *done)
	}
	check(t, ctl(t, nil, "--endpoints", e, "peers", "add", "n4@e:7077", "--yes", "--force"), exitOK)
	check(t, ctl(t, nil, "--endpoints", e, "peers", "add", "d4d4d4d4d4d4d4d4@d:7077", "--yes"), exitOK)
	if len(*done) != 2 {
		t.Errorf("%+v", *done)
	}
}

// A host names the one master there.
func TestHostWithoutPort(t *testing.T) {
	ms, asked := transferring(t, "")
	check(t, ctl(t, nil, "--endpoints", endpoints(ms), "transfer-leadership", "--to", "b", "--yes"), exitOK)
	if to := (*asked)[len(*asked)-1].To; to != "b" { // "b" is the node id as well, which wins
		t.Errorf("%q", to)
	}
	ms[0].status.Quorum.Peers[1].NodeID = "2222222222222222"
	check(t, ctl(t, nil, "--endpoints", endpoints(ms), "transfer-leadership", "--to", "B", "--yes"), exitOK)
	if to := (*asked)[len(*asked)-1].To; to != "b:7077" {
		t.Errorf("%q", to)
	}
	ms[0].status.Quorum.Peers = append(ms[0].status.Quorum.Peers, webui.Peer{NodeID: "3333333333333333", Address: "b:7177", Member: true, Voter: true})
	check(t, ctl(t, nil, "--endpoints", endpoints(ms), "transfer-leadership", "--to", "b", "--yes"), exitUsage, "name one of b:7077, b:7177")
	ms, done := changing(t, webui.PeerChange{NodeID: "n3", Address: "c:7077", Before: webui.VotesOf(3, 3), After: webui.VotesOf(2, 2)})
	ms[0].status.Quorum.Peers[2].NodeID = "3333333333333333"
	check(t, ctl(t, nil, "--endpoints", endpoints(ms), "peers", "remove", "c", "--yes"), exitOK)
	check(t, ctl(t, nil, "--endpoints", endpoints(ms), "peers", "promote", "c", "--yes"), exitOK)
	if len(*done) != 2 || (*done)[0].(webui.RemovePeerRequest).Peer != "c:7077" || (*done)[1].(webui.PromotePeerRequest).Peer != "c:7077" {
		t.Errorf("%+v", *done)
	}
}

// With -o json there is one object on standard output whatever happens: the result, or what went wrong.
func TestJSONOnFailure(t *testing.T) {
	ms := newCluster(t)
	loseLeader(ms)
	led, lost, dead := endpoints(newCluster(t)), endpoints(ms), deadEndpoint(t)
	for _, c := range []struct {
		endpoints, verb string
		code            int
	}{
		{lost, "leader", exitNoLeader},
		{lost, "transfer-leadership --yes", exitNoLeader},
		{dead, "leader", exitError},
		{dead, "status", exitError},
		{dead, "workers", exitError},
		{dead, "events --follow", exitError},
		{dead, "kill app app-1 --yes", exitError},
		{led, "driver-status driver-9", exitError},
		{led, "no-such-verb", exitUsage},
		{led, "peers add x", exitUsage},
	} {
		r := ctl(t, nil, append([]string{"--endpoints", c.endpoints, "-o", "json"}, strings.Fields(c.verb)...)...)
		var v failureResult
		if err := json.Unmarshal([]byte(r.out), &v); err != nil || v.Error == "" || v.ExitCode != r.code || r.code != c.code || !strings.Contains(r.err, v.Error) {
			t.Errorf("%s: exit code %d, want %d; %v: %s%s", c.verb, r.code, c.code, err, r.out, r.err)
		}
	}
	for _, verb := range []string{"status", "health"} { // they show what is wrong
		r := ctl(t, nil, "--endpoints", lost, "-o", "json", verb)
		var v map[string]any
		if err := json.Unmarshal([]byte(r.out), &v); err != nil || r.code == exitOK || v["exit_code"] != nil {
			t.Errorf("%s: exit code %d, %v: %s", verb, r.code, err, r.out)
		}
	}
	if r := ctl(t, nil, "--endpoints", dead, "leader"); r.out != "" {
		t.Errorf("without -o json: %s", r.out)
	}
}

// Nobody was named, so nobody is missed.
func TestVersionWithoutEndpoints(t *testing.T) {
	check(t, ctl(t, nil, "version"), exitOK, "raftctl")
	check(t, ctl(t, nil, "--endpoints", deadEndpoint(t), "version"), exitUnhealthy, "raftctl", "1 of 1 endpoints did not answer")
}

func TestEmptyAndMalformedFlags(t *testing.T) {
	check(t, ctl(t, nil, "--endpoints", "", "status"), exitUsage, "--endpoints is given and empty")
	check(t, ctl(t, nil, "--token-file=", "peers", "remove", "x"), exitUsage, "--token-file is given and empty")
	r := ctl(t, nil, "--timeout", "5", "status")
	check(t, r, exitUsage, "must be a time with a unit")
	if strings.Contains(r.err, "time: ") {
		t.Errorf("%s", r.err)
	}
}
