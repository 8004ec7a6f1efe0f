package main

import (
	"context"
	"encoding/json"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"raftmaster/cluster/drill"
	"raftmaster/transport/webui"
)

// fakeDrills is the drill interface of a fakeMaster; act is called at each fault.
type fakeDrills struct {
	mu    sync.Mutex
	m     *fakeMaster
	claim string
	fault *webui.DrillFault
	calls []string
	act   func(kind string)
}

func (d *fakeDrills) DrillStatus() webui.DrillStatus {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.status()
}

func (d *fakeDrills) status() webui.DrillStatus {
	st := webui.DrillStatus{Node: d.m.Status().Address, BootID: d.m.Status().BootID, Fault: d.fault, Supervisor: "systemd unit x.service", StartCommand: "systemctl start x.service"}
	if d.claim != "" {
		st.Claim = &webui.DrillClaim{Drill: d.claim, By: "ann@ops", Caller: "local"}
	}
	return st
}

func (d *fakeDrills) DrillState() webui.DrillState {
	return webui.DrillState{StateIndex: 40, StateDigest: "d1"}
}
func (d *fakeDrills) DrillLog(after uint64, _ int) webui.DrillLog {
	return webui.DrillLog{From: after, To: 40}
}

func (d *fakeDrills) Claim(_ context.Context, r webui.DrillClaimRequest) (webui.DrillStatus, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.claim == "" {
		d.calls = append(d.calls, "claim by "+r.By)
	}
	d.claim = r.Drill
	return d.status(), nil
}

func (d *fakeDrills) Release(context.Context, webui.DrillReleaseRequest) (webui.DrillStatus, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.claim, d.fault = "", nil
	d.calls = append(d.calls, "release")
	return d.status(), nil
}

func (d *fakeDrills) Inject(_ context.Context, r webui.DrillFaultRequest) (webui.DrillStatus, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.calls = append(d.calls, r.Kind)
	if d.act != nil {
		d.act(r.Kind)
	}
	st := d.status()
	st.Fault = &webui.DrillFault{Kind: r.Kind, Detail: "fake"}
	return st, nil
}

// drillCluster is a healthy cluster whose masters have drills.
func drillCluster(t *testing.T) ([]*fakeMaster, []*fakeDrills) {
	t.Helper()
	ms := newCluster(t)
	ds := make([]*fakeDrills, len(ms))
	for i, m := range ms {
		ds[i] = &fakeDrills{m: m}
		s := httptest.NewServer(webui.NewHandler(webui.Options{State: m, Events: m, Leadership: m, Operations: m, Details: m, Drills: ds[i], Log: hclog.NewNullLogger()}))
		t.Cleanup(s.Close)
		m.url, m.status.BootID = s.URL, "boot"
	}
	for _, m := range ms {
		for j := range m.status.Quorum.Peers {
			m.status.Quorum.Peers[j].WebURL = ms[j].url
		}
	}
	return ms, ds
}

// moveLeader has the second master lead.
func moveLeader(ms []*fakeMaster) {
	for i, m := range ms {
		m.mu.Lock()
		m.status.Term++
		m.status.Leader = &webui.Leader{NodeID: "b", Address: "b:7077", WebURL: ms[1].url}
		m.status.State, m.status.Role, m.status.LeaseValid = webui.StateStandby, webui.RoleFollower, false
		if i == 1 {
			m.status.State, m.status.Role, m.status.LeaseValid = webui.StateAlive, webui.RoleLeader, true
		}
		m.mu.Unlock()
	}
}

func TestDrillIsRefusedWhereDrillsAreOff(t *testing.T) {
	ms := newCluster(t)
	check(t, ctl(t, nil, "--endpoints", endpoints(ms), "drill", "kill-leader", "--yes", "--no-history"), exitRefused, "start it with --enable-drills", "drill interface", "nothing was changed")
	check(t, ctl(t, nil, "--endpoints", endpoints(ms), "drill", "status"), exitUnhealthy, "drills are not enabled there")
}

func TestDrillNeedsTheToken(t *testing.T) {
	ms, ds := drillCluster(t)
	for i, m := range ms {
		s := httptest.NewServer(webui.NewHandler(webui.Options{State: m, Events: m, Leadership: m, Operations: m, Details: m, Drills: ds[i], Token: "right", Log: hclog.NewNullLogger()}))
		t.Cleanup(s.Close)
		m.url = s.URL
	}
	for _, m := range ms {
		for j := range m.status.Quorum.Peers {
			m.status.Quorum.Peers[j].WebURL = ms[j].url
		}
	}
	r := ctl(t, map[string]string{"RAFTCTL_TOKEN": "wrong"}, "--endpoints", endpoints(ms), "drill", "kill-leader", "--yes", "--no-history", "--no-probe")
	check(t, r, exitRefused, "this call needs the admin token", "next: ")
	if strings.Contains(r.err, `\n`) || strings.Contains(r.out+r.err, "wrong") {
		t.Errorf("%s%s", r.out, r.err)
	}
	for _, d := range ds {
		if len(d.calls) > 0 {
			t.Errorf("calls %q", d.calls)
		}
	}
}

func TestDrillWithoutALeader(t *testing.T) {
	ms, _ := drillCluster(t)
	loseLeader(ms)
	check(t, ctl(t, nil, "--endpoints", endpoints(ms), "drill", "transfer", "--yes"), exitNoLeader, "nobody leads")
}

func TestDrillAsksFirst(t *testing.T) {
	ms, ds := drillCluster(t)
	e := endpoints(ms[1:2])
	check(t, ctl(t, nil, "--endpoints", e, "drill", "pause-leader"), exitRefused, "a:7077 (the leader) is stopped for 5s", "--yes")
	check(t, ctl(t, nil, "--endpoints", e, "drill", "kill-leader", "--dry-run"), exitOK, "would do round 1, kill-leader: a:7077 (the leader) is killed", "nothing was changed")
	if r := ctl(t, nil, "--endpoints", e, "-o", "json", "drill", "all", "--random", "--seed", "9", "--rounds", "2", "--dry-run"); r.code != exitOK {
		t.Errorf("%+v", r)
	} else {
		var rep drill.Report
		if err := json.Unmarshal([]byte(r.out), &rep); err != nil || !rep.DryRun || rep.Seed != 9 || len(rep.Plan) != 2 || len(rep.Preflight) == 0 {
			t.Errorf("%v: %s", err, r.out)
		}
	}
	for _, d := range ds {
		if len(d.calls) > 0 {
			t.Errorf("calls %q", d.calls)
		}
	}
}

func TestDrillUsage(t *testing.T) {
	for _, args := range [][]string{
		{"drill"}, {"drill", "melt"}, {"drill", "transfer", "x"}, {"drill", "transfer", "--repeat", "0", "--duration", "1s"}, {"drill", "pause-leader", "--duration", "3h", "--yes"},
		{"drill", "slow-disk", "--delay", "1h", "--yes"}, {"drill", "transfer", "--repeat", "-1", "--yes"},
	} {
		check(t, ctl(t, nil, args...), exitUsage)
	}
}

func TestDrillRunsAndIsKept(t *testing.T) {
	ms, ds := drillCluster(t)
	for _, d := range ds {
		d.act = func(string) { moveLeader(ms) }
	}
	state := t.TempDir()
	env := map[string]string{"XDG_STATE_HOME": state}
	e := endpoints(ms)
	r := ctl(t, env, "--endpoints", e, "drill", "kill-leader", "--yes", "--no-probe", "--limit", "1500ms")
	// The fake's boot id stays: the master does not come back.
	check(t, r, exitUnhealthy, "new leader ALIVE", "a:7077 (term 7) -> b:7077 (term 8)", "equal: workers", "all masters have equal states", "has not come back within",
		"systemd unit x.service was to start it again", "systemctl start x.service", "INCOMPLETE")
	for _, d := range ds {
		if d.claim != "" {
			t.Error("a claim is left")
		}
	}
	file := filepath.Join(state, "raftmaster", "drills.jsonl")
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("history: %v", err)
	}
	check(t, ctl(t, env, "drill", "history"), exitOK, "kill-leader", "incomplete")
	r = ctl(t, env, "-o", "json", "drill", "history", "--history", file)
	var h drillHistoryResult
	if err := json.Unmarshal([]byte(r.out), &h); err != nil || len(h.Reports) != 1 || h.Reports[0].Rounds[0].Steps.LeaderAlive == nil || h.File != file {
		t.Errorf("%v: %s", err, r.out)
	}
	check(t, ctl(t, map[string]string{}, "drill", "history"), exitUsage, "--history")
}

func TestDrillTransferPassesAsJSON(t *testing.T) {
	ms, _ := drillCluster(t)
	ms[0].transfer = func(webui.TransferRequest) (webui.Transfer, error) {
		moveLeader(ms)
		return webui.Transfer{To: webui.Leader{Address: "b:7077"}, DurationMillis: 12}, nil
	}
	r := ctl(t, nil, "--endpoints", endpoints(ms), "-o", "json", "drill", "transfer", "--yes", "--no-history", "--no-probe", "--limit", "20s")
	if r.code != exitOK {
		t.Fatalf("%+v", r)
	}
	var v map[string]any
	if err := json.Unmarshal([]byte(r.out), &v); err != nil {
		t.Fatal(err)
	}
	round := v["rounds"].([]any)[0].(map[string]any)
	steps := round["steps_millis"].(map[string]any)
	for _, name := range drill.StepNames() {
		if _, ok := steps[name]; !ok {
			t.Errorf("no field %s in steps_millis", name)
		}
	}
	for _, name := range []string{"drill", "kind", "by", "cluster_id", "seed", "outcome", "percentiles", "preflight", "problems"} {
		if _, ok := v[name]; !ok {
			t.Errorf("no field %s", name)
		}
	}
	if v["outcome"] != drill.Passed || round["compared"] != true {
		t.Errorf("%s", r.out)
	}
}

func TestDrillStatusShowsWhoDrills(t *testing.T) {
	ms, ds := drillCluster(t)
	ds[2].claim = "x"
	ds[2].fault = &webui.DrillFault{Kind: "pause", Detail: "the master stops for 9s", EndsMillis: time.Now().Add(time.Minute).UnixMilli()}
	r := ctl(t, nil, "--endpoints", endpoints(ms[:1]), "drill", "status")
	check(t, r, exitOK, "ann@ops", "the master stops for 9s", "systemd unit x.service")
	if n := strings.Count(r.out, ":7077"); n != 3 {
		t.Errorf("%d masters in %s", n, r.out)
	}
}
