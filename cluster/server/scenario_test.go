package server

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"raftmaster/cluster/config"
	"raftmaster/cluster/sparkpeer"
	"raftmaster/fsm"
	"raftmaster/transport/sparkmsg"
)

// The scenarios are what a real Spark 4.3.0 master decided for 600 random clusters; fsm replays them all through the
// planner. Here workers and drivers play them over TCP against a whole master: messages, commits and launches included.
// A scenario is played up to its first decommission, after which Spark plans nothing until the next event (G-42), and up
// to the third exit in one application, from which on ours pauses (G-44).
const scenarioFile = "../../fsm/testdata/scheduling.jsonl.gz"

// scenarios is how many of them are played, evenly chosen: the sample is the same each time. All 600 take minutes with the
// race detector, and the planner replays them all anyway.
var scenarios = flag.Int("scenarios", 0, "recorded scheduling scenarios to play over TCP, 1 to 600 (0: 150, or 40 with -short)")

type scenario struct {
	Seed         int
	SpreadOut    bool
	Policy       string
	DefaultCores *int
	Steps        []struct {
		Do   scenarioStep
		Then []struct {
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
	}
}

type scenarioStep struct {
	AddWorker *struct {
		ID, Host        string
		Cores, MemoryMB int32
		GPUs            []string
	}
	AddApp *struct {
		App                  int
		MaxCores             *int32
		ExecutorCores        *int32
		ExecutorMemoryMB     int32
		GPUsPerExecutor      int64
		InitialExecutorLimit *int32
	}
	Request *struct {
		App             int
		Profile         int32
		ProfileCores    *int32
		ProfileMemoryMB int32
		Total           int32
	}
	KillExecutors *struct {
		App   int
		Execs []int
	}
	Exit             *struct{ App, Exec, Code int }
	Finish           *struct{ App int }
	DecommissionHost *string
}

// scene plays one scenario.
type scene struct {
	*cluster
	hosts   map[string]string
	byID    map[string]*worker
	peers   map[int]*sparkpeer.App
	numbers map[string]int // of applications by id
	exits   map[int]int
}

func TestRecordedSchedulingOverTheWireB160toB184(t *testing.T) {
	t.Parallel()
	all := readScenarios(t)
	stride := len(all) / sampleSize(len(all))
	slots := make(chan struct{}, 4)
	for i := 0; i < len(all); i += stride {
		sc := all[i]
		t.Run(fmt.Sprintf("seed%d", sc.Seed), func(t *testing.T) {
			t.Parallel()
			slots <- struct{}{}
			t.Cleanup(func() { <-slots })
			playScenario(t, &sc)
		})
	}
}

func sampleSize(most int) int {
	switch {
	case *scenarios > 0:
		return min(*scenarios, most)
	case testing.Short():
		return 40
	}
	return 150
}

func readScenarios(t *testing.T) (out []scenario) {
	t.Helper()
	file, err := os.Open(scenarioFile)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	unzipped, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(unzipped)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var sc scenario
		if err := json.Unmarshal(lines.Bytes(), &sc); err != nil {
			t.Fatal(err)
		}
		out = append(out, sc)
	}
	if err := lines.Err(); err != nil || len(out) != 600 {
		t.Fatalf("read %d scenarios, %v", len(out), err)
	}
	return out
}

func playScenario(t *testing.T, sc *scenario) {
	policy, ok := fsm.ParseSelectionPolicy(sc.Policy)
	if !ok {
		t.Fatalf("unknown policy %q", sc.Policy)
	}
	s := &scene{hosts: map[string]string{}, byID: map[string]*worker{}, peers: map[int]*sparkpeer.App{}, numbers: map[string]int{}, exits: map[int]int{}}
	s.cluster = start(t, 1, func(cfg *config.Config) {
		cfg.Deploy.SpreadOutApps, cfg.Deploy.WorkerSelectionPolicy, cfg.Deploy.DefaultCores = sc.SpreadOut, policy, math.MaxInt32
		if sc.DefaultCores != nil {
			cfg.Deploy.DefaultCores = *sc.DefaultCores
		}
	})
	want := []string{}
	for i := range sc.Steps {
		step := &sc.Steps[i]
		if !s.do(&step.Do) {
			return
		}
		for _, o := range step.Then {
			if l := o.Launch; l != nil {
				want = append(want, fmt.Sprintf("launch %d/%d profile %d on %s: %d cores, %d MB, gpu %q", l.App, l.Exec, l.Profile, l.Worker, l.Cores, l.MemoryMB, l.Resources["gpu"]))
			} else {
				want = append(want, fmt.Sprintf("kill %d/%d on %s", o.Kill.App, o.Kill.Exec, o.Kill.Worker))
			}
		}
		slices.Sort(want)
		s.awaitOutcome(i, want)
	}
}

// do plays a step and waits until the master has taken it; false ends the scenario.
func (s *scene) do(a *scenarioStep) bool {
	s.t.Helper()
	ok := true
	var err error
	switch {
	case a.AddWorker != nil:
		s.addWorker(a)
	case a.AddApp != nil:
		s.addApp(a)
	case a.Request != nil:
		q := a.Request
		profile := sparkmsg.ResourceProfile{ID: q.Profile, ExecutorResources: resources(q.ProfileMemoryMB, q.ProfileCores, 0)}
		ok, err = s.peers[q.App].RequestTargets(sparkmsg.ProfileTotal{Profile: profile, Total: q.Total})
	case a.KillExecutors != nil:
		var ids []string
		for _, id := range a.KillExecutors.Execs {
			ids = append(ids, strconv.Itoa(id))
		}
		ok, err = s.peers[a.KillExecutors.App].KillExecutors(ids...)
	case a.Exit != nil:
		if s.exits[a.Exit.App]++; s.exits[a.Exit.App] > 2 {
			return false
		}
		s.exit(a)
	case a.Finish != nil:
		s.unregister(s.peers[a.Finish.App])
	default:
		return false // a decommission
	}
	if !ok || err != nil {
		s.t.Fatalf("%+v was answered with %t, %v", a, ok, err)
	}
	return true
}

func (s *scene) addWorker(a *scenarioStep) {
	s.t.Helper()
	q := a.AddWorker
	if s.hosts[q.Host] == "" {
		s.hosts[q.Host] = newHost()
	}
	w := s.worker(sparkmsg.FamilyE, q.Cores, func(cfg *sparkpeer.WorkerConfig) {
		cfg.Host, cfg.Port, cfg.ID, cfg.MemoryMB = s.hosts[q.Host], 0, q.ID, q.MemoryMB
		if len(q.GPUs) > 0 {
			cfg.Resources = []sparkmsg.ResourceInformation{{Name: "gpu", Addresses: q.GPUs}}
		}
	})
	s.byID[q.ID] = w
	wait(s.t, w.Log(), "RegisteredWorker")
	eventuallyNil(s.t, "use of worker "+q.ID, func() error {
		st, err := s.masters[0].server().svc.Status(s.t.Context())
		if err == nil && st.WorkerNotes[q.ID] != "" {
			err = errors.New(st.WorkerNotes[q.ID])
		}
		return err
	})
}

// resources describes an executor.
func resources(memory int32, cores *int32, gpus int64) []sparkmsg.ExecutorResourceRequest {
	out := []sparkmsg.ExecutorResourceRequest{{ResourceName: "memory", Amount: int64(memory)}}
	if cores != nil {
		out = append(out, sparkmsg.ExecutorResourceRequest{ResourceName: "cores", Amount: int64(*cores)})
	}
	if gpus > 0 {
		out = append(out, sparkmsg.ExecutorResourceRequest{ResourceName: "gpu", Amount: gpus})
	}
	return out
}

func (s *scene) addApp(a *scenarioStep) {
	s.t.Helper()
	q := a.AddApp
	desc := &sparkmsg.ApplicationDescription{Name: "scenario", User: "spark", MaxCores: q.MaxCores, InitialExecutorLimit: q.InitialExecutorLimit,
		DefaultProfile: sparkmsg.ResourceProfile{ExecutorResources: resources(q.ExecutorMemoryMB, q.ExecutorCores, q.GPUsPerExecutor)},
		Command:        sparkmsg.Command{MainClass: "org.apache.spark.executor.CoarseGrainedExecutorBackend"}}
	if err := desc.Bind(sparkmsg.FamilyE); err != nil {
		s.t.Fatal(err)
	}
	app := s.app(sparkmsg.FamilyE, 0, func(cfg *sparkpeer.AppConfig) { cfg.Description = desc })
	s.numbers[registered(s.t, app)] = q.App
	s.peers[q.App] = app
}

// exit lets an executor end, if it is there.
func (s *scene) exit(a *scenarioStep) {
	s.t.Helper()
	q := a.Exit
	key := fsm.ExecutorKey{AppID: s.peers[q.App].ID(), ExecID: q.Exec}
	e, held := s.masters[0].server().State().Executor(key)
	if !held {
		return
	}
	s.byID[e.WorkerID].EndExecutor(key.AppID, int32(q.Exec), int32(q.Code))
	eventually(s.t, "the end of "+key.String(), func() bool {
		_, held := s.masters[0].server().State().Executor(key)
		return !held
	})
}

// awaitOutcome waits until the master has nothing left to do and the workers have seen these messages, and no other.
func (s *scene) awaitOutcome(step int, want []string) {
	s.t.Helper()
	end := time.Now().Add(patience / 3)
	for {
		srv := s.masters[0].server()
		st, err := srv.svc.Status(s.t.Context())
		busy := err != nil || st.Pending > 0 || srv.State().Totals().ExecutorsLaunching > 0
		diff := ""
		if !busy {
			if diff = cmp.Diff(want, s.seen()); diff == "" {
				return
			}
		}
		if time.Now().After(end) {
			s.t.Fatalf("step %d: busy %t, %v; Spark against us (-/+):\n%s", step, busy, err, diff)
		}
		time.Sleep(time.Millisecond)
	}
}

// seen lists what the workers were told, sorted.
func (s *scene) seen() []string {
	out := []string{}
	for id, w := range s.byID {
		for _, e := range w.Log().All() {
			switch m := e.Msg.(type) {
			case *sparkmsg.LaunchExecutor:
				var gpus []string
				for _, r := range m.Resources {
					gpus = append(gpus, r.Addresses...)
				}
				out = append(out, fmt.Sprintf("launch %d/%d profile %d on %s: %d cores, %d MB, gpu %q", s.numbers[m.AppID], m.ExecID, m.RPID, id, m.Cores, m.Memory, gpus))
			case *sparkmsg.KillExecutor:
				out = append(out, fmt.Sprintf("kill %d/%d on %s", s.numbers[m.AppID], m.ExecID, id))
			}
		}
	}
	slices.Sort(out)
	return out
}
