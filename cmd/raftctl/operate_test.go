package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"raftmaster/transport/webui"
)

// operated is a cluster whose leader writes down what it was asked to change; a dry run is none.
func operated(t *testing.T, token string) (ms []*fakeMaster, changed func() []string) {
	t.Helper()
	ms = newCluster(t)
	if token != "" {
		ms[0].token = token
		ms[0].serve(t)
		ms[0].status.Leader.WebURL = ms[0].url
	}
	var mu sync.Mutex
	var asked []string
	note := func(dry bool, req any) {
		mu.Lock()
		defer mu.Unlock()
		if !dry {
			asked = append(asked, fmt.Sprintf("%+v", req))
		}
	}
	ms[0].operate = func(req any) (any, error) {
		switch r := req.(type) {
		case webui.KillRequest:
			note(r.DryRun, r)
			k := webui.Kill{Kind: r.Kind, ID: r.ID, Name: "Pi", State: "RUNNING", Executors: 1, Cores: 4, DryRun: r.DryRun, Message: "killed " + r.ID}
			switch {
			case r.ID == "ended":
				k.Already, k.Message = true, "application ended has ended already, as FINISHED"
			case r.ID == "unknown":
				return nil, &webui.Error{Code: webui.CodeNotFound, Message: "no application has the id"}
			}
			if r.ID == "abort" && !r.DryRun {
				panic(http.ErrAbortHandler) // as where the master is killed
			}
			k.Done = r.Kind == webui.KindApp && !r.DryRun
			return k, nil
		case webui.DrainRequest:
			note(r.DryRun, r)
			if r.IdleOnly {
				return nil, &webui.Error{Code: webui.CodeRefused, Message: "worker w is not idle"}
			}
			state := map[bool]string{true: "ALIVE", false: "DECOMMISSIONED"}[r.Worker == "w"]
			return webui.WorkerChange{Workers: []webui.Worker{{ID: r.Worker, State: state, Executors: 1, Drivers: 2}}, Changed: 1, DryRun: r.DryRun}, nil
		case webui.DecommissionRequest:
			note(r.DryRun, r)
			return webui.WorkerChange{Workers: []webui.Worker{{ID: "worker-1", State: "ALIVE", Executors: 1}, {ID: "worker-2", State: "DECOMMISSIONED"}}, Changed: 1, DryRun: r.DryRun}, nil
		case webui.ClearIncompatibleRequest:
			note(r.DryRun, r)
			out := webui.ClearIncompatible{WorkerID: r.Worker, DryRun: r.DryRun}
			if r.Worker != "good" {
				out.Pairs = []webui.IncompatiblePair{{Kind: webui.KindApp, AppID: "app-1", AppName: "Pi"}, {Kind: webui.KindDriver, DriverFamily: "E"}}
			}
			return out, nil
		case webui.ClearRequest:
			note(r.DryRun, r)
			return webui.Clear{Apps: 1, Drivers: 2, DryRun: r.DryRun}, nil
		}
		return nil, fmt.Errorf("an unknown request %T", req)
	}
	return ms, func() []string { mu.Lock(); defer mu.Unlock(); return asked }
}

// TestG71_Operations: each verb asks the leader, through the endpoint of a standby too, and says what it did.
func TestG71_Operations(t *testing.T) {
	for _, c := range []struct {
		args []string
		want []string
		sent string
	}{
		{[]string{"kill", "app", "app-1"}, []string{"killed app-1"}, "{Kind:app ID:app-1 DryRun:false}"},
		{[]string{"kill", "driver", "driver-1"}, []string{"killed driver-1", "raftctl driver-status driver-1"}, "{Kind:driver ID:driver-1 DryRun:false}"},
		{[]string{"drain", "w"}, []string{"w gets no new work; it holds 1 executor and 2 drivers", "undo: raftctl undrain w"}, "{Worker:w On:true IdleOnly:false DryRun:false}"},
		{[]string{"undrain", "w"}, []string{"w gets new work again", "undo: raftctl drain w"}, "{Worker:w On:false IdleOnly:false DryRun:false}"},
		{[]string{"decommission", "worker-1"}, []string{"worker-1 is DECOMMISSIONED; 1 executor and 0 drivers were there", "worker-2 was decommissioned already"}, "{Worker:worker-1 Hosts:[] DryRun:false}"},
		{[]string{"decommission", "--host", "h1", "--host", "h2"}, []string{"worker-1 is DECOMMISSIONED"}, "{Worker: Hosts:[h1 h2] DryRun:false}"},
		{[]string{"compat", "clear", "w"}, []string{"w may be given again: app-1 (Pi), drivers of family E"}, "{Worker:w AppID: DryRun:false}"},
		{[]string{"compat", "clear", "w", "--app", "app-1"}, []string{"app-1 (Pi)"}, "{Worker:w AppID:app-1 DryRun:false}"},
		{[]string{"clear"}, []string{"forgotten: 1 completed application and 2 completed drivers"}, "{DryRun:false}"},
	} {
		t.Run(strings.Join(c.args, " "), func(t *testing.T) {
			ms, changed := operated(t, "")
			standby := ms[1].url
			check(t, ctl(t, nil, append([]string{"--endpoints", standby}, append(c.args, "--dry-run")...)...), exitOK, "would ", "nothing was changed")
			if len(changed()) != 0 {
				t.Fatalf("a dry run changed %v", changed())
			}
			check(t, ctl(t, nil, append([]string{"--endpoints", standby}, append(c.args, "--yes")...)...), exitOK, c.want...)
			if got := changed(); len(got) != 1 || got[0] != c.sent {
				t.Errorf("sent %v, want %s", got, c.sent)
			}
			r := ctl(t, nil, append([]string{"--endpoints", standby, "-o", "json"}, append(c.args, "--yes")...)...)
			var v map[string]any
			if err := json.Unmarshal([]byte(r.out), &v); err != nil || r.code != exitOK || v["dry_run"] != false {
				t.Errorf("%d %s: %v", r.code, r.out, err)
			}
		})
	}
}

// TestG71_OperationsAskFirst: what cannot be undone asks on a terminal, and without one needs --yes; draining can be undone
// and asks nobody.
func TestG71_OperationsAskFirst(t *testing.T) {
	ms, changed := operated(t, "")
	e := endpoints(ms)
	for verb, question := range map[string]string{
		"kill app app-1":         "Kill application app-1 (Pi, RUNNING), which holds 1 executor and 4 cores? This cannot be undone.",
		"kill driver driver-1":   "Kill driver driver-1 (Pi, RUNNING)?",
		"decommission worker-1":  "Decommission worker-1, worker-2 (1 executor and 0 drivers there)? They never take work again",
		"decommission --host h1": "cannot be undone",
		"clear":                  "Forget 1 completed application and 2 completed drivers?",
	} {
		args := append([]string{"--endpoints", e}, strings.Fields(verb)...)
		check(t, ctl(t, nil, args...), exitRefused, question, "--yes", "--dry-run")
		check(t, ctlOn(t, terminal{interactive: true, in: strings.NewReader("n\n")}, nil, args...), exitRefused, question, "nothing was changed")
		if len(changed()) != 0 {
			t.Fatalf("%s without a yes: %v", verb, changed())
		}
	}
	check(t, ctlOn(t, terminal{interactive: true, in: strings.NewReader("y\n")}, nil, "--endpoints", e, "kill", "app", "app-1"), exitOK, "killed app-1")
	check(t, ctl(t, nil, "--endpoints", e, "drain", "w"), exitOK, "gets no new work")
	check(t, ctl(t, nil, "--endpoints", e, "compat", "clear", "good"), exitOK, "nothing is held against good")
	check(t, ctl(t, nil, "--endpoints", e, "kill", "app", "ended"), exitOK, "has ended already, as FINISHED")
}

// TestOperationsThatLeaveAQuestion: what was asked for is not all that is said.
func TestOperationsThatLeaveAQuestion(t *testing.T) {
	ms, _ := operated(t, "")
	e := endpoints(ms)
	check(t, ctl(t, nil, "--endpoints", e, "undrain", "decommissioned"), exitOK, "never gets new work")
	check(t, ctl(t, nil, "--endpoints", e, "kill", "app", "abort", "--yes"), exitError, "went away before it answered", "may still happen")
}

// TestG71_OperationsRefused: exit codes and the next step.
func TestG71_OperationsRefused(t *testing.T) {
	ms, changed := operated(t, "")
	e := endpoints(ms)
	check(t, ctl(t, nil, "--endpoints", e, "kill", "app", "unknown", "--yes"), exitError, "no application has the id", "raftctl apps")
	check(t, ctl(t, nil, "--endpoints", e, "drain", "w", "--idle-only"), exitRefused, "is not idle")
	for _, verb := range []string{"kill", "kill worker w", "kill app", "kill app a b", "drain", "undrain w --idle-only", "decommission", "decommission w --host h", "clear all", "compat", "compat clear", "compat list w", "why-waiting", "driver-status"} {
		check(t, ctl(t, nil, append([]string{"--endpoints", e}, strings.Fields(verb)...)...), exitUsage)
	}
	loseLeader(ms)
	for _, verb := range []string{"kill app a", "kill driver d", "drain w", "undrain w", "decommission w", "clear", "compat clear w"} {
		check(t, ctl(t, nil, append([]string{"--endpoints", e}, strings.Fields(verb+" --yes")...)...), exitNoLeader, "the cluster has no leader", "voters:")
	}
	if len(changed()) != 0 {
		t.Errorf("changed: %v", changed())
	}
}

// TestG71_OperationsNeedTheToken: from everywhere once one is configured.
func TestG71_OperationsNeedTheToken(t *testing.T) {
	ms, changed := operated(t, "s3cret")
	e := endpoints(ms)
	check(t, ctl(t, nil, "--endpoints", e, "kill", "app", "a", "--yes"), exitError, "needs the admin token", "RAFTCTL_TOKEN")
	if len(changed()) != 0 {
		t.Errorf("changed: %v", changed())
	}
	check(t, ctl(t, map[string]string{"RAFTCTL_TOKEN": "s3cret"}, "--endpoints", e, "kill", "app", "a", "--yes"), exitOK)
}

// withDrivers is a cluster whose masters hold drivers.
func withDrivers(t *testing.T) []*fakeMaster {
	ms := newCluster(t)
	now := time.Now().UnixMilli()
	for _, m := range ms {
		m.cluster.Drivers = []webui.Driver{
			{ID: "driver-2", State: "SUBMITTED", Active: true, Waiting: true, Supervise: true, Cores: 1, MemoryMB: 512, MainClass: "org.example.Main", Attempt: 1, Predecessor: "driver-1",
				SubmittedMillis: now - 5000, NotBeforeMillis: now + 3_600_000, Requests: []webui.ResourceRequest{{Name: "gpu", Amount: 2}}},
			{ID: "driver-1", State: "RELAUNCHING", WorkerID: "worker-1", Worker: "h:9", Successor: "driver-2", SubmittedMillis: now - 9000, EndedMillis: now - 5000},
			{ID: "driver-3", State: "RUNNING", Active: true, LaunchUnconfirmed: true, WorkerID: "worker-1", SubmittedMillis: now - 4000},
			{ID: "driver-0", State: "ERROR", WorkerWebURL: "http://worker:8081", Exception: "java.lang.Oops\x1b[31m", SubmittedMillis: now - 9000, EndedMillis: now - 5000},
		}
		m.why = map[string]webui.WhyWaiting{"app-1": {Kind: webui.KindApp, ID: "app-1", AskedID: "app-1", Name: "Pi", SubjectState: "WAITING", Waiting: true, Limit: webui.LimitMemory, Text: "no worker can take an executor",
			Next: "Wait.", MaxCores: webui.Unlimited, QueuePosition: 2, Profiles: []webui.WhyProfile{{ID: 0, Target: webui.Unlimited,
				WhyNeed: webui.WhyNeed{Cores: 1, MemoryMB: 9216, Limit: webui.LimitMemory, Workers: map[string]int{"memory": 3}}}}},
			"driver-1": {Kind: webui.KindDriver, ID: "driver-2", AskedID: "driver-1", Name: "org.example.Main", SubjectState: "SUBMITTED", Waiting: true, Limit: webui.LimitDrain,
				Text: "no worker can take the driver", QueuePosition: 1, Driver: &webui.WhyNeed{Cores: 1, MemoryMB: 512, Workers: map[string]int{"drain": 2}}}}
	}
	return ms
}

// TestB141_DriverVerbs: lists and single drivers, with a leader and without.
func TestB141_DriverVerbs(t *testing.T) {
	ms := withDrivers(t)
	e := endpoints(ms)
	check(t, ctl(t, nil, "--endpoints", e, "drivers"), exitOK, "driver-2", "SUBMITTED", "supervised; relaunch 1 of driver-1; placed in 1h0m", "goes on as driver-2", `java.lang.Oops\x1b`, "answered by a:7077")
	check(t, ctl(t, nil, "--endpoints", e, "driver-status", "driver-2"), exitOK, "org.example.Main", "1 core, 512 MiB, 2 gpu", "Supervised  yes")
	check(t, ctl(t, nil, "--endpoints", e, "driver-status", "driver-3"), exitOK, "RUNNING", "launch not confirmed yet")
	check(t, ctl(t, nil, "--endpoints", e, "driver-status", "driver-0"), exitOK, "http://worker:8081/logPage/?driverId=driver-0&logType=stderr")
	check(t, ctl(t, nil, "--endpoints", e, "driver-status", "driver-9"), exitError, "no driver has the id", "raftctl drivers")
	for _, verb := range []string{"drivers", "driver-status driver-1", "why-waiting app-1"} {
		r := ctl(t, nil, append([]string{"--endpoints", e, "-o", "json"}, strings.Fields(verb)...)...)
		var v map[string]any
		if err := json.Unmarshal([]byte(r.out), &v); err != nil || r.code != exitOK || v["node"] != "a:7077" {
			t.Errorf("%s: %d %s", verb, r.code, r.out)
		}
	}
	loseLeader(ms)
	check(t, ctl(t, nil, "--endpoints", e, "drivers"), exitOK, "driver-2", "may be out of date")
}

// TestS35_WhyWaiting: the limit, in words, with what helps.
func TestS35_WhyWaiting(t *testing.T) {
	e := endpoints(withDrivers(t))
	check(t, ctl(t, nil, "--endpoints", e, "why-waiting", "app-1"), exitOK, "app-1 (Pi)", "WAITING", "0 of no limit", "number 2", "memory", "no worker can take an executor", "Wait.", "1 core, 9.0 GiB", "3 memory")
	check(t, ctl(t, nil, "--endpoints", e, "why-waiting", "app-9"), exitError, "no application or driver has the id", "raftctl apps and raftctl drivers")
	driver := ctl(t, nil, "--endpoints", e, "why-waiting", "driver-1")
	check(t, driver, exitOK, "driver-2 (org.example.Main)", "Goes on for  driver-1", "SUBMITTED", "number 1 of the drivers that wait", "no worker can take the driver", "1 core, 512 MiB", "2 drain")
	if strings.Contains(driver.out, "PROFILE") || strings.Contains(driver.out, "Cores") {
		t.Errorf("a driver has no profiles and no limit of cores: %s", driver.out)
	}
}

// TestS35_CompatList: what a worker gets no more of.
func TestS35_CompatList(t *testing.T) {
	ms := newCluster(t)
	for _, m := range ms {
		m.pairs = []webui.IncompatiblePair{{WorkerID: "worker-1", Worker: "h:9", SparkVersion: "3.4.1", Kind: webui.KindApp, AppID: "app-1", AppName: "evil\x1b[2J"},
			{WorkerID: "worker-1", Worker: "h:9", Family: "E", Kind: webui.KindDriver, DriverFamily: "DE"}}
	}
	e := endpoints(ms)
	check(t, ctl(t, nil, "--endpoints", e, "compat", "list"), exitOK, "worker-1", "h:9", "3.4.1", `app-1 (evil\x1b`, "drivers of family DE", "answered by a:7077")
	var v webui.IncompatibleAnswer
	if r := ctl(t, nil, "--endpoints", e, "-o", "json", "compat", "list"); json.Unmarshal([]byte(r.out), &v) != nil || len(v.Pairs) != 2 || v.Pairs[0].AppID != "app-1" {
		t.Errorf("%s", r.out)
	}
}
