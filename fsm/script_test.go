package fsm_test

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"raftmaster/fsm"
)

// TestScripts runs testdata/scripts: commands, and what they answer, send and leave behind. After every command the
// invariants, the digest and a snapshot round trip are verified too. "go test ./fsm -run TestScripts -rewrite"
// regenerates the expectations; commit only what you can explain.
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/scripts", func(t *testing.T, path string) {
		s := &script{t: t, machine: fsm.NewMachine(), now: 1000}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			s.t, s.d = t, d
			return s.run()
		})
	})
}

type script struct {
	t       *testing.T
	d       *datadriven.TestData
	machine *fsm.Machine
	index   uint64
	now     int64
}

func (s *script) run() string {
	switch s.d.Cmd {
	case "wait":
		s.now += int64(s.number("ms", 0))
		return ""
	case "state":
		return dump(s.machine.View())
	case "plan":
		return s.plan()
	}
	cmd := s.command()
	if cmd == nil {
		s.d.Fatalf(s.t, "unknown command %s", s.d.Cmd)
	}
	return s.apply(cmd)
}

func (s *script) plan() string {
	plan := fsm.Plan(s.machine.View(), fsm.PlanParams{SpreadOutApps: !s.has("fill"), SpreadOutDrivers: !s.has("fill"),
		MaxDrivers: s.number("max-drivers", 0), NowMillis: s.now})
	if len(plan.Hopeless) > 0 {
		return "hopeless: " + strings.Join(plan.Hopeless, " ") + "\n"
	}
	var out strings.Builder
	for _, id := range plan.HopelessDrivers {
		fmt.Fprintln(&out, "hopeless:", id)
	}
	if plan.DriversOverLimit > 0 {
		fmt.Fprintln(&out, "over the limit:", plan.DriversOverLimit)
	}
	if plan.WakeAtMillis > 0 {
		fmt.Fprintln(&out, "again at", plan.WakeAtMillis)
	}
	if len(plan.Drivers) > 0 {
		out.WriteString(s.apply(fsm.PlaceDrivers{Meta: s.meta(), Placements: plan.Drivers}))
	}
	if s.has("running") {
		out.WriteString(s.placeRunning(plan.Placements))
	} else {
		out.WriteString(s.apply(fsm.PlaceExecutors{Meta: s.meta(), Placements: plan.Placements}))
	}
	return out.String()
}

// placeRunning also answers every launch with RUNNING, to keep scripts short.
func (s *script) placeRunning(placements []fsm.Placement) string {
	out := s.apply(fsm.PlaceExecutors{Meta: s.meta(), Placements: placements})
	var keys []fsm.ExecutorKey
	s.machine.View().ActiveApplications(func(a *fsm.Application) bool {
		s.machine.View().ExecutorsOfApp(a.ID, func(e *fsm.Executor) bool {
			if e.State == fsm.ExecutorLaunching {
				keys = append(keys, e.Key())
			}
			return true
		})
		return true
	})
	for _, k := range keys {
		s.apply(fsm.ExecutorChanged{Meta: s.meta(), AppID: k.AppID, ExecID: k.ExecID, WorkerID: holderOf(s.machine, k), State: fsm.ExecutorRunning})
	}
	return out
}

// holderOf names the worker on which an executor is booked; "" if there is none.
func holderOf(m *fsm.Machine, k fsm.ExecutorKey) string {
	if e, ok := m.View().Executor(k); ok {
		return e.WorkerID
	}
	return ""
}

func (s *script) apply(cmd fsm.Command) string {
	s.index++
	s.now += 1000
	entry, err := fsm.EncodeCommand(cmd)
	if err != nil {
		return "cannot encode: " + err.Error() + "\n"
	}
	decoded, err := fsm.DecodeCommand(entry)
	if err != nil {
		s.d.Fatalf(s.t, "decode: %v", err)
	}
	result := s.machine.Apply(s.index, 1, decoded)
	s.verify()
	var out strings.Builder
	if result.Err != nil {
		fmt.Fprintf(&out, "refused: %v\n", result.Err)
	} else if text := valueText(result.Value); text != "" {
		fmt.Fprintln(&out, text)
	}
	for _, effect := range result.Effects {
		fmt.Fprintln(&out, " >", effectText(effect))
	}
	return out.String()
}

func (s *script) verify() {
	v := s.machine.View()
	if err := fsm.Check(v); err != nil {
		s.d.Fatalf(s.t, "%v", err)
	}
	if v.Digest() != fsm.RecomputeDigest(v) {
		s.d.Fatalf(s.t, "the incremental digest is wrong")
	}
	var b bytes.Buffer
	if err := s.machine.Snapshot().Write(&b); err != nil {
		s.d.Fatalf(s.t, "%v", err)
	}
	restored, err := fsm.Restore(&b)
	if err != nil {
		s.d.Fatalf(s.t, "%v", err)
	}
	if restored.View().Digest() != v.Digest() || dump(restored.View()) != dump(v) {
		s.d.Fatalf(s.t, "the restored state differs")
	}
}

func (s *script) has(key string) bool { return s.d.HasArg(key) }

func (s *script) text(key, otherwise string) string {
	if values := s.list(key); len(values) > 0 {
		return strings.Join(values, ",")
	}
	return otherwise
}

func (s *script) list(key string) []string {
	for _, arg := range s.d.CmdArgs {
		if arg.Key == key {
			return arg.Vals
		}
	}
	return nil
}

func (s *script) number(key string, otherwise int) int {
	text := s.text(key, "")
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		s.d.Fatalf(s.t, "%s: %v", key, err)
	}
	return n
}

func (s *script) numberOrNil(key string) *int {
	if !s.has(key) {
		return nil
	}
	n := s.number(key, 0)
	return &n
}

func (s *script) address(key, otherwise string) fsm.Address {
	host, port, ok := strings.Cut(s.text(key, otherwise), ":")
	n, err := strconv.Atoi(port)
	if !ok || err != nil {
		s.d.Fatalf(s.t, "%s is no address", key)
	}
	return fsm.Address{Host: host, Port: n}
}

// app expands "0" to the id of the application with that number.
func (s *script) app() string { return appID(s.text("app", "0")) }

func appID(number string) string { return "app-20260102030405-" + fmt.Sprintf("%04s", number) }

// keys reads app/exec pairs.
func (s *script) keys(key string) []fsm.ExecutorKey {
	var out []fsm.ExecutorKey
	for _, text := range s.list(key) {
		out = append(out, s.key(text))
	}
	return out
}

func (s *script) key(text string) fsm.ExecutorKey {
	app, exec, _ := strings.Cut(text, "/")
	n, err := strconv.Atoi(exec)
	if err != nil {
		s.d.Fatalf(s.t, "%q is no app/exec", text)
	}
	return fsm.ExecutorKey{AppID: appID(app), ExecID: n}
}

func (s *script) executorState(name string) fsm.ExecutorState {
	for state := fsm.ExecutorLaunching; state.Valid(); state++ {
		if state.String() == name {
			return state
		}
	}
	s.d.Fatalf(s.t, "unknown state %q", name)
	return 0
}

func (s *script) meta() fsm.Meta {
	return fsm.Meta{NowMillis: s.now, Stamp: s.text("stamp", "20260102030405")}
}

func (s *script) profile() fsm.Profile {
	p := fsm.Profile{ID: s.number("profile", 0), Cores: s.numberOrNil("cores"), MemoryMB: s.number("mem", 0)}
	if n := s.number("gpus", 0); n > 0 {
		p.Resources = []fsm.ResourceAmount{{Name: "gpu", Amount: n}}
	}
	return p
}

func (s *script) command() fsm.Command {
	m := s.meta()
	switch s.d.Cmd {
	case "register-worker":
		c := fsm.RegisterWorker{Meta: m, ID: s.text("id", ""), Cores: s.number("cores", 4), MemoryMB: s.number("mem", 4096),
			Address: s.address("at", "h:1"), WebUIURL: s.text("ui", ""), ReplaceHolder: s.text("replace", ""),
			Families: uint8(s.number("families", 0))}
		c.Host, c.Port = c.Address.Host, c.Address.Port
		if gpus := s.list("gpu"); len(gpus) > 0 {
			c.Resources = []fsm.Resource{{Name: "gpu", Addresses: gpus}}
		}
		return c
	case "remove-worker":
		return fsm.RemoveWorker{Meta: m, ID: s.text("id", ""), Reason: "no heartbeat"}
	case "reap":
		return fsm.ReapWorkers{Meta: m, IDs: s.list("ids")}
	case "register-app":
		return fsm.RegisterApplication{Meta: m, Name: s.text("name", "name"), User: "user", Driver: s.address("driver", "d:1"),
			MaxCores: s.numberOrNil("max"), DefaultCores: s.number("default-cores", 0), DefaultProfile: s.profile(),
			InitialExecutorLimit: s.numberOrNil("limit"), KeepID: s.has("keep"), Payload: []byte("payload"),
			IDPattern: s.text("pattern", ""), NumberModulo: s.number("modulo", 0), NameAsID: s.has("name-as-id")}
	case "finish":
		return fsm.FinishApplication{Meta: m, AppID: s.app(), State: s.appState(), Reason: "asked"}
	case "confirm":
		return fsm.ConfirmApplication{Meta: m, AppID: s.app()}
	case "place":
		p := fsm.Placement{AppID: s.app(), ProfileID: s.number("profile", 0), WorkerID: s.text("worker", ""),
			Cores: s.number("cores", 1), MemoryMB: s.number("mem", 1024)}
		if gpus := s.list("gpu"); len(gpus) > 0 {
			p.Resources = []fsm.Resource{{Name: "gpu", Addresses: gpus}}
		}
		return fsm.PlaceExecutors{Meta: m, Placements: []fsm.Placement{p}}
	case "set-targets":
		return fsm.SetTargets{Meta: m, AppID: s.app(), Targets: []fsm.ProfileTarget{{Profile: s.profile(), Total: s.number("total", 0)}}}
	}
	return s.executorCommand(m)
}

func (s *script) executorCommand(m fsm.Meta) fsm.Command {
	switch s.d.Cmd {
	case "executor":
		k := s.key(s.text("key", ""))
		c := fsm.ExecutorChanged{Meta: m, AppID: k.AppID, ExecID: k.ExecID, WorkerID: s.text("worker", holderOf(s.machine, k)),
			State: s.executorState(s.text("state", "")), ExitStatus: s.numberOrNil("exit")}
		if s.has("message") {
			message := s.text("message", "")
			c.Message = &message
		}
		return c
	case "kill":
		c := fsm.KillExecutors{Meta: m, AppID: s.app()}
		for _, id := range s.list("ids") {
			n, err := strconv.Atoi(id)
			if err != nil {
				s.d.Fatalf(s.t, "ids: %v", err)
			}
			c.IDs = append(c.IDs, n)
		}
		return c
	case "reconcile":
		c := fsm.ReconcileWorker{Meta: m, WorkerID: s.text("id", ""), Missing: s.keys("missing"), ReportedDrivers: s.drivers("drivers"),
			MissingDrivers: s.drivers("missing-drivers"), RequeueAtMillis: int64(s.number("requeue-at", 0)),
			Unasked: s.has("unasked")}
		for _, state := range []string{"RUNNING", "LAUNCHING"} {
			for _, k := range s.keys(strings.ToLower(state)) {
				c.Reported = append(c.Reported, fsm.ReportedExecutor{AppID: k.AppID, ExecID: k.ExecID, State: s.executorState(state)})
			}
		}
		return c
	case "decommission":
		return fsm.DecommissionWorkers{Meta: m, IDs: s.list("ids"), Notify: s.has("notify")}
	case "receipts":
		return fsm.LaunchReceipts{Meta: m, WorkerID: s.text("id", ""), Executors: s.keys("keys"), Drivers: s.drivers("drivers")}
	case "incompatible":
		k := s.key(s.text("key", ""))
		return fsm.MarkIncompatible{Meta: m, AppID: k.AppID, ExecID: k.ExecID, WorkerID: s.text("worker", ""), Reason: "no RUNNING"}
	case "set-release":
		c := fsm.SetRelease{Meta: m, WorkerID: s.text("worker", ""), Release: s.text("release", ""), Families: uint8(s.number("families", 0))}
		if s.has("app") {
			c.AppID = s.app()
		}
		if s.has("driver") {
			c.DriverID = driverID(s.text("driver", ""))
		}
		return c
	case "elected":
		return fsm.LeaderElected{Meta: m, NodeID: s.text("node", "n1"), Reason: "timeout", Settings: fsm.Settings{
			MaxExecutorRetries: s.number("retries", 10), RetainedApplications: s.number("apps", 200), RetainedDrivers: s.number("drivers", 200),
			DriverRelaunchDelayMillis: int64(s.number("relaunch-delay", 0)),
			RetainedExecutors:         s.number("executors", 100), LeaderHistory: s.number("leaders", 10)}}
	case "init":
		return fsm.InitCluster{Meta: m, ClusterID: s.text("id", "")}
	case "clear":
		return fsm.ClearCompleted{Meta: m}
	}
	return s.driverCommand(m)
}

func (s *script) appState() fsm.AppState {
	name := s.text("state", "FINISHED")
	for state := fsm.AppWaiting; state <= fsm.AppKilled; state++ {
		if state.String() == name {
			return state
		}
	}
	s.d.Fatalf(s.t, "unknown state %q", name)
	return 0
}
