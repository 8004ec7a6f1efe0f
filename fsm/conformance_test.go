package fsm_test

import (
	"errors"
	"testing"

	"raftmaster/fsm"
)

// G-49: a pass costs what it decides. Applications that have what they want are not looked at, and of the workers only as many
// as are needed, however large the cluster is.
func TestG49_APassLooksOnlyAtWhatCanChange(t *testing.T) {
	m, index := fsm.NewMachine(), uint64(0)
	apply := func(cmd fsm.Command) fsm.Result {
		t.Helper()
		index++
		r := m.Apply(index, 1, cmd)
		if r.Err != nil {
			t.Fatal(r.Err)
		}
		return r
	}
	const workers, apps = 1000, 300
	for i := range workers {
		apply(benchWorker(i))
	}
	for i := range apps {
		apply(benchApp(i, 2, []byte("a payload")))
	}
	looked := map[string]int{}
	asked := map[string]bool{}
	params := fsm.PlanParams{SpreadOutApps: true,
		Usable:     func(w *fsm.Worker) bool { looked[w.ID]++; return true },
		Compatible: func(a *fsm.Application, _ *fsm.Worker) bool { asked[a.ID] = true; return true }}
	for {
		plan := fsm.Plan(m.View(), params)
		if len(plan.Placements) == 0 {
			break
		}
		apply(fsm.PlaceExecutors{Placements: plan.Placements})
	}
	if n := m.View().Totals().ExecutorsLaunching; n != 2*apps {
		t.Fatalf("%d executors", n)
	}
	clear(looked)
	clear(asked)
	if plan := fsm.Plan(m.View(), params); len(plan.Placements) != 0 || len(looked) != 0 || len(asked) != 0 {
		t.Errorf("with nothing to do: %d placements, %d workers and %d applications looked at", len(plan.Placements), len(looked), len(asked))
	}
	// One executor ends: one application wants one.
	var gone *fsm.Executor
	m.View().ExecutorsOfApp(benchAppID(7), func(e *fsm.Executor) bool { gone = e; return false })
	code := 0
	apply(fsm.ExecutorChanged{AppID: gone.AppID, ExecID: gone.ID, WorkerID: gone.WorkerID, State: fsm.ExecutorExited, ExitStatus: &code})
	plan := fsm.Plan(m.View(), params)
	if len(plan.Placements) != 1 || len(asked) != 1 || !asked[benchAppID(7)] {
		t.Errorf("%d placements, applications looked at: %v", len(plan.Placements), asked)
	}
	if len(looked) > 8 {
		t.Errorf("%d of %d workers were looked at for one executor", len(looked), workers)
	}
}

// B-133: the states of drivers have Spark's names and numbers; in five of them a driver is over.
func TestB133_StatesOfDriversAreSparks(t *testing.T) {
	names := []string{"SUBMITTED", "RUNNING", "FINISHED", "RELAUNCHING", "UNKNOWN", "KILLED", "FAILED", "ERROR"}
	final := map[string]bool{"FINISHED": true, "KILLED": true, "FAILED": true, "ERROR": true, "RELAUNCHING": true}
	for i, name := range names {
		if s := fsm.DriverState(i); s.String() != name || s.Finished() != final[name] {
			t.Errorf("state %d is %s, finished %v", i, s, s.Finished())
		}
	}
}

// G-60: the queue of drivers is bounded: one too many is refused, and accepted when there is room again.
func TestG60_WaitingDriversAreBounded(t *testing.T) {
	m := fsm.NewMachine()
	submit := func(i int) fsm.Result {
		return m.Apply(uint64(i+1), 1, fsm.SubmitDriver{Meta: fsm.Meta{Stamp: "20260102030405"}, Cores: 1, MemoryMB: 1, Payload: []byte("p")})
	}
	for i := range fsm.MaxWaitingDrivers {
		if r := submit(i); r.Err != nil {
			t.Fatalf("driver %d: %v", i, r.Err)
		}
	}
	if r := submit(fsm.MaxWaitingDrivers); !errors.Is(r.Err, fsm.ErrTooManyDrivers) {
		t.Errorf("one too many: %v", r.Err)
	}
	m.Apply(fsm.MaxWaitingDrivers+2, 1, fsm.RequestKillDriver{DriverID: "driver-20260102030405-0007"})
	if r := submit(fsm.MaxWaitingDrivers + 2); r.Err != nil {
		t.Errorf("with room again: %v", r.Err)
	}
}

// G-60: descriptions as large as they may be are refused long before there are too many drivers to wait.
func TestG60_PayloadsOfDriversAreBounded(t *testing.T) {
	m := fsm.NewMachine()
	index := uint64(0)
	apply := func(cmd fsm.Command) fsm.Result { index++; return m.Apply(index, 1, cmd) }
	meta, payload := fsm.Meta{NowMillis: 1, Stamp: "20260102030405"}, make([]byte, fsm.MaxPayloadBytes)
	submit := func() fsm.Result { return apply(fsm.SubmitDriver{Meta: meta, Cores: 1, Payload: payload}) }
	for range fsm.MaxDriverPayloads / fsm.MaxPayloadBytes {
		if r := submit(); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	if r := submit(); !errors.Is(r.Err, fsm.ErrTooManyDrivers) {
		t.Fatalf("beyond the limit: %v", r.Err)
	}
	apply(fsm.RequestKillDriver{Meta: meta, DriverID: "driver-20260102030405-0007"})
	if r := submit(); r.Err != nil {
		t.Errorf("after one has ended: %v", r.Err)
	}
	if err := fsm.Check(m.View()); err != nil {
		t.Error(err)
	}
}
