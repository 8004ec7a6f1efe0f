package drill

import (
	"slices"
	"strings"
	"testing"

	"raftmaster/transport/webui"
)

// sample state: two workers, two applications with three executors, a running and a waiting driver.
func sampleState() state {
	return state{
		StateIndex: 100, StateDigest: "d", NextApp: 7, NextDriver: 3,
		Workers: []webui.DrillWorker{
			{ID: "w1", Address: "h1:1", State: "ALIVE", Cores: 4, CoresUsed: 3, MemoryMB: 4096, MemoryUsedMB: 2560},
			{ID: "w2", Address: "h2:1", State: "ALIVE", Cores: 4, CoresUsed: 1, MemoryMB: 4096, MemoryUsedMB: 1024, Draining: true},
			{ID: "w3", Address: "h3:1", State: "DEAD", Cores: 4, MemoryMB: 4096},
		},
		Apps: []webui.DrillApp{
			{ID: "a5", Number: 5, State: "RUNNING", Driver: "d:1", Cores: 2, MaxCores: 2, Executors: 2, NextExecutor: 4, Targets: []webui.DrillTarget{{Target: webui.Unlimited}}},
			{ID: "a6", Number: 6, State: "RUNNING", Driver: "d:2", Cores: 1, MaxCores: 9, Executors: 1, NextExecutor: 1, Targets: []webui.DrillTarget{{Target: 3}}},
		},
		Executors: []webui.DrillExecutor{
			{AppID: "a5", ID: 1, WorkerID: "w1", State: "RUNNING", Cores: 1, MemoryMB: 1024, LaunchedMillis: 11},
			{AppID: "a5", ID: 3, WorkerID: "w2", State: "RUNNING", Cores: 1, MemoryMB: 1024, LaunchedMillis: 12},
			{AppID: "a6", ID: 0, WorkerID: "w1", State: "LAUNCHING", Cores: 1, MemoryMB: 1024, LaunchedMillis: 13},
		},
		Drivers: []webui.DrillDriver{
			{ID: "d1", Number: 1, State: "RUNNING", WorkerID: "w1", Cores: 1, MemoryMB: 512},
			{ID: "d2", Number: 2, State: "SUBMITTED", Cores: 1, MemoryMB: 512},
		},
	}
}

func entry(command, detail string, subjects ...string) webui.DrillEntry {
	return webui.DrillEntry{Index: 105, Command: command, Detail: detail, Subjects: subjects}
}

// drop removes an executor and what is booked for it.
func drop(s *state, name string) {
	i := slices.IndexFunc(s.Executors, func(e webui.DrillExecutor) bool { return executorName(&e) == name })
	e := s.Executors[i]
	s.Executors = slices.Delete(s.Executors, i, i+1)
	for j := range s.Workers {
		if s.Workers[j].ID == e.WorkerID {
			s.Workers[j].CoresUsed -= e.Cores
			s.Workers[j].MemoryUsedMB -= e.MemoryMB
		}
	}
	for j := range s.Apps {
		if s.Apps[j].ID == e.AppID {
			s.Apps[j].Cores -= e.Cores
			s.Apps[j].Executors--
		}
	}
}

func dropApp(s *state, id string) {
	for _, e := range slices.Clone(s.Executors) {
		if e.AppID == id {
			drop(s, executorName(&e))
		}
	}
	s.Apps = slices.DeleteFunc(s.Apps, func(a webui.DrillApp) bool { return a.ID == id })
}

// compareCases are changes of sampleState, and what is to be said of them.
var compareCases = []struct {
	name   string
	change func(*state)
	log    []webui.DrillEntry
	// damage and explained are the differences wanted, as "kind subject change".
	damage, explained []string
}{
	{name: "nothing", change: func(*state) {}},
	{name: "a lost executor", change: func(s *state) { drop(s, "a5/1") }, damage: []string{"executor a5/1 lost"}},
	{name: "an executor that a worker does not know any more", change: func(s *state) { drop(s, "a5/1") },
		log: []webui.DrillEntry{entry("ReconcileWorker", "", "w1", "a5/1")}, damage: []string{"executor a5/1 lost"}},
	{name: "a launch that had not arrived", change: func(s *state) { drop(s, "a6/0") },
		log: []webui.DrillEntry{entry("ReconcileWorker", "", "w1", "a6/0")}, explained: []string{"executor a6/0 ended"}},
	{name: "an executor that ended by itself", change: func(s *state) { drop(s, "a5/1") },
		log: []webui.DrillEntry{entry("ExecutorChanged", "EXITED: 0", "a5/1")}, explained: []string{"executor a5/1 ended"}},
	{name: "an executor that the masters had killed", change: func(s *state) { drop(s, "a5/1") },
		log: []webui.DrillEntry{entry("ExecutorChanged", "KILLED", "a5/1")}, damage: []string{"executor a5/1 lost"}},
	{name: "an executor that its application gave up", change: func(s *state) { drop(s, "a5/1") },
		log:       []webui.DrillEntry{entry("KillExecutors", "", "a5/1"), entry("ExecutorChanged", "KILLED", "a5/1")},
		explained: []string{"executor a5/1 ended"}},
	{name: "an entry from before explains nothing", change: func(s *state) { drop(s, "a5/1") },
		log: []webui.DrillEntry{{Index: 100, Command: "ExecutorChanged", Detail: "EXITED", Subjects: []string{"a5/1"}}}, damage: []string{"executor a5/1 lost"}},
	{name: "a reused id: the same one again", change: func(s *state) { s.Executors[0].WorkerID, s.Executors[0].LaunchedMillis = "w1", 99 },
		damage: []string{"executor a5/1 another executor"}},
	{name: "a reused id: one of an executor that had ended", change: func(s *state) {
		s.Executors = append(s.Executors, webui.DrillExecutor{AppID: "a5", ID: 2, WorkerID: "w1", State: "RUNNING", Cores: 1, MemoryMB: 1024})
		s.Workers[0].CoresUsed, s.Workers[0].MemoryUsedMB, s.Apps[0].Cores = 4, 3584, 3
	}, damage: []string{"executor a5/2 new"}},
	{name: "a new executor", change: func(s *state) {
		s.Executors = append(s.Executors, webui.DrillExecutor{AppID: "a5", ID: 4, WorkerID: "w1", State: "RUNNING", Cores: 1, MemoryMB: 1024})
		s.Workers[0].CoresUsed, s.Workers[0].MemoryUsedMB, s.Apps[0].Cores, s.Apps[0].NextExecutor = 4, 3584, 3, 5
	}, explained: []string{"executor a5/4 new"}},
	{name: "an executor that came up", change: func(s *state) { s.Executors[2].State = "RUNNING" }},
	{name: "an executor that went back", change: func(s *state) { s.Executors[0].State = "LAUNCHING" }, damage: []string{"executor a5/1 state"}},
	{name: "a counter that went back", change: func(s *state) { s.Apps[0].NextExecutor, s.NextApp = 3, 6 },
		damage: []string{"application a5 next executor id", "counter next application went back"}},
	{name: "a worker given up by a time-out", change: func(s *state) { drop(s, "a5/3"); s.Workers[1].State = "DEAD" },
		log:    []webui.DrillEntry{entry("RemoveWorker", "Not receiving heartbeat for 60 seconds", "w2")},
		damage: []string{"worker w2 state", "executor a5/3 lost"}},
	{name: "a worker given up and back", change: func(*state) {},
		log:    []webui.DrillEntry{entry("RemoveWorker", "Not responding for recovery", "w2"), entry("RegisterWorker", "revived", "w2")},
		damage: []string{"worker w2 was given up in between"}},
	{name: "a worker whose process has ended", change: func(s *state) { drop(s, "a5/3"); s.Workers[1].State = "DEAD" },
		log:       []webui.DrillEntry{entry("RemoveWorker", "h2:1 got disassociated", "w2")},
		explained: []string{"worker w2 state", "executor a5/3 ended"}},
	{name: "a lost drain mark", change: func(s *state) { s.Workers[1].Draining = false }, damage: []string{"worker w2 drain mark"}},
	{name: "a drain mark taken away", change: func(s *state) { s.Workers[1].Draining = false },
		log: []webui.DrillEntry{entry("DrainWorkers", "draining: false", "w2")}, explained: []string{"worker w2 drain mark"}},
	{name: "an application that ended", change: func(s *state) { dropApp(s, "a5") },
		log:       []webui.DrillEntry{entry("FinishApplication", "FINISHED: unregistered", "a5")},
		explained: []string{"application a5 ended", "executor a5/1 ended", "executor a5/3 ended"}},
	{name: "an application given up", change: func(s *state) { dropApp(s, "a6") },
		log:    []webui.DrillEntry{entry("FinishApplication", "FAILED: driver d:2 gave no answer for 120 s", "a6")},
		damage: []string{"application a6 ended", "executor a6/0 lost"}},
	{name: "a lost application", change: func(s *state) { dropApp(s, "a6") }, damage: []string{"application a6 ended", "executor a6/0 lost"}},
	{name: "a new application", change: func(s *state) {
		s.Apps = append(s.Apps, webui.DrillApp{ID: "a7", Number: 7, State: "WAITING"})
		s.NextApp = 8
	}, log: []webui.DrillEntry{entry("RegisterApplication", "", "a7")}, explained: []string{"application a7 new"}},
	{name: "an application with a number that was given before", change: func(s *state) { s.Apps = append(s.Apps, webui.DrillApp{ID: "a4", Number: 4}) },
		log: []webui.DrillEntry{entry("RegisterApplication", "", "a4")}, damage: []string{"application a4 new"}},
	{name: "the queue in another order", change: func(s *state) { s.Apps[0], s.Apps[1] = s.Apps[1], s.Apps[0] }, damage: []string{"queue applications order"}},
	{name: "a target that nobody changed", change: func(s *state) { s.Apps[1].Targets = []webui.DrillTarget{{Target: 2}} }, damage: []string{"application a6 targets"}},
	{name: "a target that was asked for", change: func(s *state) { s.Apps[1].Targets = []webui.DrillTarget{{Target: 2}} },
		log: []webui.DrillEntry{entry("SetTargets", "", "a6")}, explained: []string{"application a6 targets"}},
	{name: "a state without a reason", change: func(s *state) { s.Apps[1].State = "WAITING" }, damage: []string{"application a6 state"}},
	{name: "a sum that is wrong", change: func(s *state) { s.Workers[0].CoresUsed = 2 }, damage: []string{"worker w1 booked"}},
	{name: "a lost driver", change: func(s *state) {
		s.Drivers = s.Drivers[1:]
		s.Workers[0].CoresUsed, s.Workers[0].MemoryUsedMB = 2, 2048
	}, damage: []string{"driver d1 lost"}},
	{name: "a driver that ended", change: func(s *state) {
		s.Drivers = s.Drivers[1:]
		s.Workers[0].CoresUsed, s.Workers[0].MemoryUsedMB = 2, 2048
	}, log: []webui.DrillEntry{entry("DriverChanged", "FINISHED", "d1")}, explained: []string{"driver d1 ended"}},
	{name: "a running driver elsewhere", change: func(s *state) {
		s.Drivers[0].WorkerID = "w2"
		s.Workers[0].CoresUsed, s.Workers[0].MemoryUsedMB, s.Workers[1].CoresUsed, s.Workers[1].MemoryUsedMB = 2, 2048, 2, 1536
	}, damage: []string{"driver d1 moved"}},
	{name: "a restored snapshot", change: func(s *state) { s.Workers, s.Apps, s.Executors = nil, nil, nil },
		log: []webui.DrillEntry{entry("CommitRestore", "")}, explained: []string{"state all restored"}},
	{name: "a forgotten dead worker", change: func(s *state) { s.Workers = s.Workers[:2] },
		log: []webui.DrillEntry{entry("ReapWorkers", "", "w3")}, explained: []string{"worker w3 missing"}},
}

func TestCompareTellsDamageFromLife(t *testing.T) {
	for _, c := range compareCases {
		t.Run(c.name, func(t *testing.T) {
			after := sampleState()
			after.StateIndex = 110
			c.change(&after)
			var damage, explained []string
			for _, d := range Compare(sampleState(), after, c.log, nil) {
				text := strings.TrimSpace(d.Kind + " " + d.Subject + " " + d.Change)
				if d.Explained {
					explained = append(explained, text)
				} else {
					damage = append(damage, text)
				}
				if d.Why == "" {
					t.Errorf("%s: without a reason", text)
				}
			}
			if !slices.Equal(damage, c.damage) {
				t.Errorf("damage %q, want %q", damage, c.damage)
			}
			if !slices.Equal(explained, c.explained) {
				t.Errorf("explained %q, want %q", explained, c.explained)
			}
		})
	}
}

func TestCompareIgnoresTheDrillsOwnApplications(t *testing.T) {
	after := sampleState()
	after.StateIndex = 110
	after.Apps = append(after.Apps, webui.DrillApp{ID: "probe", Number: 7})
	if d := Compare(sampleState(), after, nil, []string{"probe"}); len(d) > 0 {
		t.Errorf("got %+v", d)
	}
}

func TestCoversAll(t *testing.T) {
	for _, c := range []struct {
		spans    []span
		from, to uint64
		want     bool
	}{
		{nil, 5, 5, true}, {nil, 5, 6, false}, {[]span{{0, 6}}, 5, 6, true}, {[]span{{0, 7}, {9, 12}}, 5, 10, false},
		{[]span{{7, 12}, {0, 7}}, 5, 12, true}, {[]span{{6, 12}}, 5, 12, false},
	} {
		if got := coversAll(c.spans, c.from, c.to); got != c.want {
			t.Errorf("%v from %d to %d: %t", c.spans, c.from, c.to, got)
		}
	}
}

func TestPercentilesAreNearestRank(t *testing.T) {
	var rounds []Round
	for i := range 20 {
		v := int64(20 - i)
		rounds = append(rounds, Round{Kind: KillLeader, Steps: Steps{LeaderAlive: &v}})
	}
	rounds = append(rounds, Round{Kind: Transfer})
	got := percentiles(rounds)
	want := Percentiles{Kind: KillLeader, Step: "leader_alive", Count: 20, Min: 1, Median: 10, P95: 19, Max: 20}
	if len(got) != 1 || got[0] != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
