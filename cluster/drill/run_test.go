package drill

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"raftmaster/transport/webui"
)

func run(t *testing.T, cfg Config) *Report {
	t.Helper()
	r, err := Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func text(t *testing.T, v any) string {
	t.Helper()
	b, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestEveryKindPassesOnAHealthyCluster(t *testing.T) {
	for _, kind := range append(Kinds(), All) {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			f := newFake()
			cfg := f.config(kind)
			cfg.Limit = 20 * time.Second
			r := run(t, cfg)
			want := 1
			if kind == All {
				want = len(Kinds())
			}
			if r.Outcome != Passed || len(r.Rounds) != want {
				t.Errorf("%s", text(t, r))
			}
			f.idle(t)
		})
	}
}

// TestADrillFindsPlantedDamage: a cluster that loses something at the fault does not pass.
func TestADrillFindsPlantedDamage(t *testing.T) {
	for name, c := range map[string]struct {
		plant func(f *fakeCluster)
		want  string
	}{
		"a lost executor": {func(f *fakeCluster) { drop(&f.st, "a5/3") }, "executor a5/3 lost"},
		"a reused id": {func(f *fakeCluster) {
			f.st.Executors[1].WorkerID, f.st.Executors[1].LaunchedMillis = "w1", 500
		}, "executor a5/3 another executor"},
		"another order": {func(f *fakeCluster) { f.st.Apps[0], f.st.Apps[1] = f.st.Apps[1], f.st.Apps[0] }, "queue applications order"},
		"a lost mark":   {func(f *fakeCluster) { f.st.Workers[1].Draining = false }, "worker w2 drain mark"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake()
			f.onFault = func(string, string) { f.st.StateIndex = 120; c.plant(f) }
			cfg := f.config(KillLeader)
			cfg.Limit = 20 * time.Second
			cfg.Rounds = 3
			r := run(t, cfg)
			if r.Outcome != Damage || len(r.Rounds) != 1 {
				t.Fatalf("%s", text(t, r))
			}
			if !slices.ContainsFunc(r.Rounds[0].Differences, func(d Difference) bool {
				return !d.Explained && d.Kind+" "+d.Subject+" "+d.Change == c.want
			}) {
				t.Errorf("no damage %q in %s", c.want, text(t, r.Rounds[0].Differences))
			}
			f.idle(t)
		})
	}
}

func TestTwoLeadersAtOnceAreDamage(t *testing.T) {
	f := newFake()
	f.broken = func(at string, st *webui.Status) {
		if at == "a:1" && f.leader == "b:1" { // the old one does not know that its time is over
			st.State, st.Role, st.LeaseValid, st.Term = webui.StateAlive, webui.RoleLeader, true, 3
		}
	}
	r := run(t, f.config(Partition))
	if r.Outcome != Damage || !strings.Contains(text(t, r), "claimed to lead term 3 with a lease after a leader of term 4 was ALIVE") {
		t.Errorf("%s", text(t, r))
	}
}

func TestReplicasThatDifferAreDamage(t *testing.T) {
	f := newFake()
	f.broken = func(at string, st *webui.Status) {
		if at == "c:1" {
			st.StateDigest = "other"
		}
	}
	if r := run(t, f.config(Transfer)); r.Outcome != Damage || r.Rounds[0].ReplicasEqual == nil || *r.Rounds[0].ReplicasEqual {
		t.Errorf("%s", text(t, r))
	}
}

// TestThePreflightRefuses: one case for each reason; nothing is done then.
func TestThePreflightRefuses(t *testing.T) {
	on := func(where string, change func(*webui.Status)) func(*fakeCluster) {
		return func(f *fakeCluster) {
			f.broken = func(at string, st *webui.Status) {
				if at == where {
					change(st)
				}
			}
		}
	}
	for name, c := range map[string]struct {
		spoil   func(*fakeCluster)
		want    string
		outcome string
	}{
		"no endpoint answers":      {func(f *fakeCluster) { f.down["b:1"] = true }, "no endpoint answered", Refused},
		"nobody leads":             {func(f *fakeCluster) { f.leader = "" }, "nobody leads", NoLeader},
		"a lease that is over":     {on("a:1", func(st *webui.Status) { st.LeaseValid = false }), "nobody leads", NoLeader},
		"a master is down":         {func(f *fakeCluster) { f.down["c:1"] = true }, "c:1 does not answer", Refused},
		"no tolerance":             {func(f *fakeCluster) { f.down["c:1"] = true }, "not one may fail", Refused},
		"a master is not ready":    {on("c:1", func(st *webui.Status) { st.Leader = nil }), "c:1 is not ready", Refused},
		"an alarm":                 {on("c:1", func(st *webui.Status) { st.Alarms = []string{"disk"} }), "c:1 raises an alarm: disk", Refused},
		"another cluster":          {on("c:1", func(st *webui.Status) { st.ClusterID = "y" }), "c:1 is of another cluster", Refused},
		"a log that is not whole":  {on("a:1", func(st *webui.Status) { st.Quorum.Peers[2].Lag = 5000 }), "5000 entries behind", Refused},
		"out of contact":           {on("a:1", func(st *webui.Status) { st.Quorum.Peers[1].Reachable = false }), "b:1 is not in contact", Refused},
		"a take-over":              {on("a:1", func(st *webui.Status) { st.TakeOver = &webui.TakeOver{Awaited: make([]webui.Awaited, 2)} }), "2 peers have not answered", Refused},
		"a hand-over":              {on("a:1", func(st *webui.Status) { st.Transferring = true }), "being handed over", Refused},
		"drills are off somewhere": {func(f *fakeCluster) { f.noDrill["b:1"] = true }, "b:1: start it with --enable-drills", Refused},
		"another drill":            {func(f *fakeCluster) { f.claims["c:1"] = "other" }, "c:1 is claimed by somebody", Refused},
		"a fault that is active":   {func(f *fakeCluster) { f.faults["c:1"] = &webui.DrillFault{Kind: "pause"} }, "c:1 has a fault: pause", Refused},
		"a silent worker":          {func(f *fakeCluster) { f.workers[0].LastHeartbeatMillis -= 60_000 }, "w1: no heartbeat for 60 s", Refused},
		"a worker that is awaited": {func(f *fakeCluster) { f.workers[0].Note = "awaiting its list" }, "w1: awaiting its list", Refused},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake()
			c.spoil(f)
			faults := 0
			f.onFault = func(string, string) { faults++ }
			claims := len(f.claims)
			for what, do := range map[string]func(context.Context, Config) (*Report, error){"run": Run, "preview": Preview} {
				r, err := do(t.Context(), f.config(KillLeader))
				if err != nil {
					t.Fatal(err)
				}
				if r.Outcome != c.outcome || !strings.Contains(strings.Join(r.Problems, "; "), c.want) || len(r.Rounds) > 0 {
					t.Errorf("%s: %s, want %q", what, text(t, r), c.want)
				}
			}
			if faults > 0 || len(f.claims) != claims {
				t.Errorf("%d faults, claims %v", faults, f.claims)
			}
		})
	}
}

func TestAPreviewChangesNothing(t *testing.T) {
	f := newFake()
	f.onFault = func(string, string) { t.Error("a fault") }
	r, err := Preview(t.Context(), f.config(All))
	if err != nil || r.Outcome != Passed || len(r.Plan) != len(Kinds()) || len(f.claims) > 0 {
		t.Errorf("%s, %v", text(t, r), err)
	}
}

// A master that nothing starts again: the report says what to type.
func TestAMasterThatStaysAwayIsReported(t *testing.T) {
	f := newFake()
	f.onFault = func(kind, at string) { f.down[at] = true }
	r := run(t, f.config(KillLeader))
	if r.Outcome != Incomplete || !strings.Contains(strings.Join(r.Rounds[0].Advice, ";"), "start a:1") || r.Rounds[0].Steps.TargetBack != nil {
		t.Errorf("%s", text(t, r))
	}
}

func TestNoNewLeaderIsReported(t *testing.T) {
	f := newFake()
	f.onFault = func(string, string) { f.leader = "" }
	r := run(t, f.config(KillLeader))
	if r.Outcome != NoLeader {
		t.Errorf("%s", text(t, r))
	}
}

// TestAnInterruptionEndsTheFault: as Ctrl-C does.
func TestAnInterruptionEndsTheFault(t *testing.T) {
	f := newFake()
	ctx, cancel := context.WithCancel(t.Context())
	f.onFault = func(string, string) { time.AfterFunc(30*time.Millisecond, cancel) }
	cfg := f.config(Partition)
	cfg.Duration, cfg.Limit = time.Minute, time.Minute
	began := time.Now()
	r, err := Run(ctx, cfg)
	if err != nil || r.Outcome != Interrupted || len(r.Rounds) != 1 || !r.Rounds[0].Compared {
		t.Errorf("%s, %v", text(t, r), err)
	}
	if time.Since(began) > 40*time.Second {
		t.Errorf("it took %s", time.Since(began))
	}
	f.idle(t)
}

func TestRandomChoicesFollowTheSeed(t *testing.T) {
	kinds := func(seed uint64) []string {
		f := newFake()
		cfg := f.config(All)
		cfg.Random, cfg.Seed, cfg.Rounds, cfg.Limit = true, seed, 4, 20*time.Second
		var out []string
		for _, x := range run(t, cfg).Rounds {
			out = append(out, x.Kind+" "+x.Target.Address)
		}
		return out
	}
	a, b := kinds(5), kinds(5)
	if len(a) != 4 || !slices.Equal(a, b) {
		t.Errorf("one seed gave %q and %q", a, b)
	}
}

func TestABadConfigIsRefused(t *testing.T) {
	f := newFake()
	for name, change := range map[string]func(*Config){
		"kind": func(c *Config) { c.Kind = "melt" }, "rounds": func(c *Config) { c.Rounds = -1 }, "duration": func(c *Config) { c.Duration = time.Hour },
		"delay": func(c *Config) { c.Delay = time.Hour }, "random": func(c *Config) { c.Random = true }, "client": func(c *Config) { c.Client = nil },
		"limit": func(c *Config) { c.Limit = -1 },
	} {
		cfg := f.config(Transfer)
		change(&cfg)
		if _, err := Run(t.Context(), cfg); !errors.Is(err, ErrUsage) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestHistoryKeepsReports(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "drills.jsonl")
	if got, broken, err := History(path, 0); len(got) > 0 || broken > 0 || err != nil {
		t.Errorf("before the first: %v %d %v", got, broken, err)
	}
	for _, id := range []string{"1", "2", "3"} {
		if err := Append(path, &Report{Drill: id, Rounds: []Round{*newRound(1, Transfer)}}); err != nil {
			t.Fatal(err)
		}
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString("{\"drill\": \"half\n"); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	got, broken, err := History(path, 2)
	if err != nil || broken != 1 || len(got) != 2 || got[0].Drill != "2" || got[1].Drill != "3" || len(got[1].Rounds) != 1 {
		t.Errorf("got %+v, %d broken, %v", got, broken, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

// A paused process that its supervisor's watchdog has ended is another one afterwards.
func TestAProcessThatAWatchdogEndedIsNoted(t *testing.T) {
	f := newFake()
	f.onFault = func(kind, at string) { f.boots[at]++ }
	cfg := f.config(PauseLeader)
	cfg.Limit = 20 * time.Second
	if r := run(t, cfg); r.Outcome != Passed || !strings.Contains(strings.Join(r.Rounds[0].Notes, ";"), "watchdog") {
		t.Errorf("%s", text(t, r))
	}
}
