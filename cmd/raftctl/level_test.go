package main

import (
	"strings"
	"testing"
)

// status and peers list show the level of commands, and who keeps the cluster from a higher one.
func TestLevelsOfCommandsAreShown(t *testing.T) {
	ms := newCluster(t)
	for _, m := range ms {
		m.status.CommandLevel = 1
		for i := range m.status.Quorum.Peers {
			m.status.Quorum.Peers[i].CommandLevel, m.status.Quorum.Peers[i].Version = 2, "1.1"
		}
		m.status.Quorum.Peers[2].CommandLevel, m.status.Quorum.Peers[2].Version = 1, "1.0"
	}
	const want = "level 1, until these are upgraded to level 2: c:7077 (release 1.0)"
	if got := levels(ms[0].status); got != want {
		t.Errorf("%q", got)
	}
	check(t, ctl(t, nil, "status", "--endpoints", endpoints(ms)), exitOK, "Commands", want)
	ms[0].status.Quorum.Peers[2].CommandLevel = 0
	ms[0].status.Quorum.Peers[2].Version = ""
	if got := level(ms[0].status.Quorum.Peers[2]); got != "-" {
		t.Errorf("peers list: %q", got)
	}
	if got := levels(ms[0].status); !strings.HasSuffix(got, "c:7077 (release not known)") {
		t.Errorf("%q", got)
	}
	ms[0].status.CommandLevel = 2
	if got := levels(ms[0].status); got != "level 2" {
		t.Errorf("%q", got)
	}
}
