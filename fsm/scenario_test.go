package fsm_test

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"raftmaster/fsm"
)

// The scenarios in testdata/scheduling.jsonl.gz are what a real Spark 4.3.0 master decided for 600 random clusters.

type scenario struct {
	Seed         int
	SpreadOut    bool
	Policy       string
	DefaultCores *int
	Steps        []struct {
		Do   scenarioAction
		Then []scenarioOutcome
	}
}

type scenarioAction struct {
	AddWorker *struct {
		ID, Host        string
		Cores, MemoryMB int
		GPUs            []string
	}
	AddApp *struct {
		App                  int
		MaxCores             *int
		ExecutorCores        *int
		ExecutorMemoryMB     int
		GPUsPerExecutor      int
		InitialExecutorLimit *int
	}
	Request *struct {
		App, Profile    int
		ProfileCores    *int
		ProfileMemoryMB int
		Total           int
	}
	KillExecutors *struct {
		App   int
		Execs []int
	}
	Exit             *struct{ App, Exec, Code int }
	Finish           *struct{ App int }
	DecommissionHost *string
}

type scenarioOutcome struct {
	Launch *struct {
		App, Exec, Profile int
		Worker             string
		Cores, MemoryMB    int
		Resources          map[string][]string
	}
	Kill *struct {
		App, Exec int
		Worker    string
	}
}

func (o scenarioOutcome) String() string {
	if l := o.Launch; l != nil {
		return fmt.Sprintf("launch %d/%d profile %d on %s: %d cores, %d MB, gpu %v", l.App, l.Exec, l.Profile, l.Worker,
			l.Cores, l.MemoryMB, l.Resources["gpu"])
	}
	return fmt.Sprintf("kill %d/%d on %s", o.Kill.App, o.Kill.Exec, o.Kill.Worker)
}

// replay runs one scenario.
type replay struct {
	t       *testing.T
	machine *fsm.Machine
	index   uint64
	params  fsm.PlanParams
	apps    map[int]string
	numbers map[string]int
	seen    []string
	now     int64
}

func (r *replay) apply(cmd fsm.Command) fsm.Result {
	r.t.Helper()
	r.index++
	before := r.machine.View()
	result := r.machine.Apply(r.index, 1, atTime(cmd, r.now))
	if result.Err != nil {
		r.t.Fatalf("%s: %v", cmd.Type(), result.Err)
	}
	for _, effect := range result.Effects {
		r.observe(before, effect)
	}
	return result
}

// atTime gives the command another time.
func atTime(cmd fsm.Command, now int64) fsm.Command {
	changed := reflect.New(reflect.TypeOf(cmd)).Elem()
	changed.Set(reflect.ValueOf(cmd))
	changed.FieldByName("NowMillis").SetInt(now)
	return changed.Interface().(fsm.Command)
}

func (r *replay) observe(before fsm.View, effect fsm.Effect) {
	switch e := effect.(type) {
	case fsm.LaunchExecutor:
		var gpus []string
		for _, resource := range e.Resources {
			gpus = append(gpus, resource.Addresses...)
		}
		r.seen = append(r.seen, fmt.Sprintf("launch %d/%d profile %d on %s: %d cores, %d MB, gpu %v", r.numbers[e.AppID],
			e.ExecID, e.ProfileID, e.Worker.ID, e.Cores, e.MemoryMB, gpus))
	case fsm.KillExecutor:
		// Spark has forgotten executors on decommissioned workers and leaves them running (B-066, G-41); we end them.
		held, ok := before.Executor(fsm.ExecutorKey{AppID: e.AppID, ExecID: e.ExecID})
		if ok && held.State == fsm.ExecutorDecommissioned {
			return
		}
		r.seen = append(r.seen, fmt.Sprintf("kill %d/%d on %s", r.numbers[e.AppID], e.ExecID, e.Worker.ID))
	}
}

// settle plans until nothing more can be placed; each launch is answered with RUNNING.
func (r *replay) settle() {
	for {
		plan := fsm.Plan(r.machine.View(), r.params)
		if len(plan.Placements) == 0 {
			return
		}
		result := r.apply(fsm.PlaceExecutors{Placements: plan.Placements}).Value.(fsm.PlaceResult)
		if len(result.Dropped) > 0 {
			r.t.Fatalf("a plan for the current state was not booked: %+v", result.Dropped)
		}
		for _, placed := range result.Placed {
			r.apply(fsm.ExecutorChanged{AppID: placed.Key.AppID, ExecID: placed.Key.ExecID, WorkerID: placed.WorkerID,
				State: fsm.ExecutorRunning})
		}
	}
}

// do applies a step; false means that Spark does not schedule after it.
func (r *replay) do(step int, a scenarioAction, defaultCores *int) bool {
	switch {
	case a.AddWorker != nil:
		w := a.AddWorker
		cmd := fsm.RegisterWorker{ID: w.ID, Host: w.Host, Port: 7000, Address: fsm.Address{Host: w.Host, Port: 7000},
			Cores: w.Cores, MemoryMB: w.MemoryMB}
		if len(w.GPUs) > 0 {
			cmd.Resources = []fsm.Resource{{Name: "gpu", Addresses: w.GPUs}}
		}
		r.apply(cmd)
	case a.AddApp != nil:
		r.addApp(a, defaultCores)
	case a.Request != nil:
		q := a.Request
		profile := fsm.Profile{ID: q.Profile, Cores: q.ProfileCores, MemoryMB: q.ProfileMemoryMB}
		r.apply(fsm.SetTargets{AppID: r.apps[q.App], Targets: []fsm.ProfileTarget{{Profile: profile, Total: q.Total}}})
	case a.KillExecutors != nil:
		r.apply(fsm.KillExecutors{AppID: r.apps[a.KillExecutors.App], IDs: a.KillExecutors.Execs})
	case a.Exit != nil:
		key := fsm.ExecutorKey{AppID: r.apps[a.Exit.App], ExecID: a.Exit.Exec}
		held, ok := r.machine.View().Executor(key)
		r.apply(fsm.ExecutorChanged{AppID: key.AppID, ExecID: key.ExecID, WorkerID: holderOf(r.machine, key), State: fsm.ExecutorExited, ExitStatus: &a.Exit.Code})
		return ok && held.State != fsm.ExecutorDecommissioned // B-127
	case a.Finish != nil:
		r.apply(fsm.FinishApplication{AppID: r.apps[a.Finish.App], State: fsm.AppFinished})
	case a.DecommissionHost != nil:
		var ids []string
		r.machine.View().WorkersByHost(*a.DecommissionHost, func(w *fsm.Worker) bool {
			ids = append(ids, w.ID)
			return true
		})
		r.apply(fsm.DecommissionWorkers{IDs: ids, Notify: true})
		return false // G-42; our leader does plan then
	default:
		r.t.Fatalf("step %d: unknown action", step)
	}
	return true
}

func (r *replay) addApp(a scenarioAction, defaultCores *int) {
	app := a.AddApp
	cmd := fsm.RegisterApplication{Meta: fsm.Meta{Stamp: "20260102030405"}, Name: fmt.Sprintf("app %d", app.App),
		Driver: fsm.Address{Host: "driver", Port: 40000 + app.App}, MaxCores: app.MaxCores,
		InitialExecutorLimit: app.InitialExecutorLimit,
		DefaultProfile:       fsm.Profile{Cores: app.ExecutorCores, MemoryMB: app.ExecutorMemoryMB}}
	if defaultCores != nil {
		cmd.DefaultCores = *defaultCores
	}
	if app.GPUsPerExecutor > 0 {
		cmd.DefaultProfile.Resources = []fsm.ResourceAmount{{Name: "gpu", Amount: app.GPUsPerExecutor}}
	}
	id := r.apply(cmd).Value.(fsm.RegisterApplicationResult).AppID
	r.apps[app.App], r.numbers[id] = id, app.App
}

func TestRecordedSchedulingB160toB184(t *testing.T) {
	scenarios := readScenarios(t)
	if len(scenarios) != 600 {
		t.Fatalf("read %d scenarios instead of 600", len(scenarios))
	}
	for _, sc := range scenarios {
		t.Run(fmt.Sprintf("seed%d", sc.Seed), func(t *testing.T) { runScenario(t, sc) })
	}
}

func runScenario(t *testing.T, sc scenario) {
	policy, ok := fsm.ParseSelectionPolicy(sc.Policy)
	if !ok {
		t.Fatalf("unknown policy %q", sc.Policy)
	}
	r := &replay{t: t, machine: fsm.NewMachine(), params: fsm.PlanParams{SpreadOutApps: sc.SpreadOut, Policy: policy},
		apps: map[int]string{}, numbers: map[string]int{}}
	for i, step := range sc.Steps {
		r.seen = nil
		// A minute passes, so that no exit looks like a part of a crash loop (G-44): those Spark does not know.
		r.now += 60_000
		r.params.NowMillis = r.now
		if r.do(i, step.Do, sc.DefaultCores) {
			r.settle()
		}
		var want []string
		for _, outcome := range step.Then {
			want = append(want, outcome.String())
		}
		slices.Sort(want)
		slices.Sort(r.seen)
		if diff := cmp.Diff(want, r.seen); diff != "" {
			t.Fatalf("step %d: Spark against us (-/+):\n%s", i, diff)
		}
		if err := fsm.Check(r.machine.View()); err != nil {
			t.Fatalf("step %d: %v", i, err)
		}
	}
}

func readScenarios(t *testing.T) []scenario {
	t.Helper()
	file, err := os.Open("testdata/scheduling.jsonl.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	unzipped, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	var out []scenario
	lines := bufio.NewScanner(unzipped)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var sc scenario
		if err := json.Unmarshal(lines.Bytes(), &sc); err != nil {
			t.Fatalf("line %d: %v", len(out)+1, err)
		}
		out = append(out, sc)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}
