package main

import (
	"encoding/json"
	"testing"
	"time"

	"raftmaster/transport/webui"
)

func TestHashOfEqualMasters(t *testing.T) {
	ms := newCluster(t)
	// One endpoint is enough: the other members are found through it.
	r := ctl(t, nil, "--endpoints", ms[1].url, "-o", "json", "hash")
	check(t, r, exitOK)
	var v hashResult
	if err := json.Unmarshal([]byte(r.out), &v); err != nil || !v.Same || v.Index != 40 || len(v.Masters) != 3 || v.Masters[2].Digest != "d1" {
		t.Errorf("%v: %s", err, r.out)
	}
	check(t, ctl(t, nil, "--endpoints", endpoints(ms), "hash"), exitOK, "3 masters, equal states", "c:7077", "d1")
}

func TestHashOfDifferentStates(t *testing.T) {
	ms := newCluster(t)
	ms[2].status.StateDigest = "d2"
	check(t, ctl(t, nil, "--endpoints", endpoints(ms), "hash"), exitUnhealthy, "d1", "d2", "the states differ after log entry 40")
}

// A digest of another index says nothing: "hash" waits until the one behind has come as far.
func TestHashWaitsForACommonIndex(t *testing.T) {
	ms := newCluster(t)
	ms[2].status.StateIndex, ms[2].status.StateDigest = 39, "d0"
	timer := time.AfterFunc(300*time.Millisecond, func() {
		ms[2].mu.Lock()
		defer ms[2].mu.Unlock()
		ms[2].status.StateIndex, ms[2].status.StateDigest = 40, "d1"
	})
	defer timer.Stop()
	check(t, ctl(t, nil, "--endpoints", endpoints(ms), "--timeout", "30s", "hash"), exitOK, "equal states")
	ms[2].mu.Lock()
	ms[2].status.StateIndex = 39
	ms[2].mu.Unlock()
	check(t, ctl(t, nil, "--endpoints", endpoints(ms), "--timeout", "400ms", "hash"), exitTimeout, "did not show a common index", "39")
}

// While entries come in, no two masters need show the same index at one instant: earlier answers count.
func TestHashRemembersEarlierAnswers(t *testing.T) {
	all := make([]hashes, 2)
	for i, indexes := range [][]uint64{{5, 7}, {6, 7, 8}} {
		for _, index := range indexes {
			st := newStatus(index)
			all[i].add(st)
		}
	}
	if index, ok := commonIndex(all); !ok || index != 7 {
		t.Errorf("common index %d, %v", index, ok)
	}
	all[1] = hashes{}
	all[1].add(newStatus(8))
	if index, ok := commonIndex(all); ok {
		t.Errorf("common index %d of masters that have shown none", index)
	}
}

func TestHashWithoutSome(t *testing.T) {
	ms := newCluster(t)
	dead := deadEndpoint(t)
	check(t, ctl(t, nil, "--endpoints", endpoints(ms, dead), "hash"), exitUnhealthy, dead, "1 of 4 masters did not answer")
	check(t, ctl(t, nil, "--endpoints", dead, "hash"), exitError, dead)
	ms[1].status.ClusterID = "c2"
	check(t, ctl(t, nil, "--endpoints", endpoints(ms), "hash"), exitUnhealthy, "not of one cluster", "c1, c2")
}

func newStatus(index uint64) webui.Status {
	return webui.Status{StateIndex: index, StateDigest: "d"}
}
