package fsm_test

import (
	"errors"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"raftmaster/fsm"
)

func TestNamesAreSparks(t *testing.T) {
	var got []string
	for s := fsm.WorkerAlive; s <= fsm.WorkerDecommissioned; s++ {
		got = append(got, s.String())
	}
	for s := fsm.AppWaiting; s <= fsm.AppKilled; s++ {
		got = append(got, s.String())
	}
	for s := fsm.ExecutorLaunching; s.Valid(); s++ {
		got = append(got, s.String())
	}
	for s := fsm.DriverStateSubmitted; s.Valid(); s++ {
		got = append(got, s.String())
	}
	want := "ALIVE DEAD DECOMMISSIONED WAITING RUNNING FINISHED FAILED KILLED " +
		"LAUNCHING RUNNING KILLED FAILED LOST EXITED DECOMMISSIONED " +
		"SUBMITTED RUNNING FINISHED RELAUNCHING UNKNOWN KILLED FAILED ERROR"
	if diff := cmp.Diff(want, strings.Join(got, " ")); diff != "" {
		t.Error(diff)
	}
	for _, unknown := range []string{fsm.WorkerState(77).String(), fsm.AppState(77).String(), fsm.ExecutorState(77).String(), fsm.DriverState(77).String(),
		fsm.CommandType(77).String(), fsm.SelectionPolicy(77).String(), fsm.DropReason(77).String(), fsm.WorkerOutcome(77).String(),
		fsm.AppOutcome(77).String()} {
		if !strings.HasSuffix(unknown, "(77)") {
			t.Errorf("an unknown value is called %q", unknown)
		}
	}
}

func TestFinishedStatesB120(t *testing.T) {
	for s := fsm.ExecutorLaunching; s.Valid(); s++ {
		want := s == fsm.ExecutorKilled || s == fsm.ExecutorFailed || s == fsm.ExecutorLost || s == fsm.ExecutorExited
		if s.Finished() != want {
			t.Errorf("%s: finished is %t", s, s.Finished())
		}
	}
}

func TestFinishedDriverStatesB133(t *testing.T) {
	for s := fsm.DriverStateSubmitted; s.Valid(); s++ {
		want := s != fsm.DriverStateSubmitted && s != fsm.DriverStateRunning && s != fsm.DriverStateUnknown
		if s.Finished() != want {
			t.Errorf("%s: finished is %t", s, s.Finished())
		}
	}
}

func TestViewOfDrivers(t *testing.T) {
	v := machineOf(t, driverLife()).View()
	list := func(each func(func(*fsm.Driver) bool)) string {
		var out []string
		each(func(d *fsm.Driver) bool { out = append(out, d.ID[len(d.ID)-1:]+":"+d.State.String()); return true })
		return strings.Join(out, " ")
	}
	worker := benchWorker(1).ID
	for name, c := range map[string]struct{ got, want string }{
		"unfinished": {list(v.Drivers), "0:RUNNING 1:RUNNING 5:SUBMITTED 6:SUBMITTED"},
		"waiting":    {list(v.WaitingDrivers), "5:SUBMITTED 6:SUBMITTED"},
		"completed":  {list(v.CompletedDrivers), "2:FAILED 3:RELAUNCHING 4:KILLED"},
		"on worker":  {list(func(fn func(*fsm.Driver) bool) { v.DriversOnWorker(worker, fn) }), "0:RUNNING 1:RUNNING"},
		"on prefix":  {list(func(fn func(*fsm.Driver) bool) { v.DriversOnWorker(worker[:len(worker)-1], fn) }), ""},
	} {
		if c.got != c.want {
			t.Errorf("%s: %q instead of %q", name, c.got, c.want)
		}
	}
	d, ok := v.Driver("driver-20260102030405-0002")
	if !ok || d.Exception != "boom" || d.WorkerHostPort() != "10.0.0.1:7078" || d.Payload != nil || d.Release != "4.3.0" {
		t.Errorf("the failed driver is %+v", d)
	}
	if waiting, _ := v.Driver("driver-20260102030405-0005"); waiting.WorkerHostPort() != "" || string(waiting.Payload) != "payload" {
		t.Errorf("the waiting driver is %+v", waiting)
	}
	if w, _ := v.Worker(worker); w.DriverCount != 2 || w.CoresUsed != 2 {
		t.Errorf("the worker is %+v", w)
	}
}

func TestSelectionPolicyNames(t *testing.T) {
	for p := fsm.CoresFreeDesc; p <= fsm.WorkerID; p++ {
		if got, ok := fsm.ParseSelectionPolicy(p.String()); !ok || got != p {
			t.Errorf("%s is read as %s, %t", p, got, ok)
		}
	}
	if _, ok := fsm.ParseSelectionPolicy("cores_free_desc"); ok {
		t.Error("a policy in lower case was accepted")
	}
}

func panics(fn func()) (panicked bool) {
	defer func() { panicked = recover() != nil }()
	fn()
	return false
}

func TestProgrammersErrorsPanic(t *testing.T) {
	m := machineOf(t, []fsm.Command{benchWorker(1)})
	if !panics(func() { m.Apply(1, 1, benchWorker(2)) }) {
		t.Error("an index was applied twice")
	}
	if !panics(func() { m.Apply(2, 1, &fsm.CheckDigest{}) }) {
		t.Error("a pointer to a command was accepted")
	}
}

func TestCheckDigestReportsTheStateBeforeItself(t *testing.T) {
	m := machineOf(t, []fsm.Command{benchWorker(1)})
	before := m.View().Digest()
	got := m.Apply(9, 3, fsm.CheckDigest{}).Value
	if want := (fsm.DigestReport{Index: 9, Digest: before}); got != want {
		t.Errorf("got %+v", got)
	}
	if m.View().Digest() != before || m.View().Index() != 9 || m.View().Term() != 3 {
		t.Error("the command changed more than the position in the log")
	}
}

func TestRefusalChangesOnlyThePosition(t *testing.T) {
	m := machineOf(t, []fsm.Command{benchWorker(1)})
	before := m.View()
	r := m.Apply(5, 2, fsm.RegisterWorker{ID: "w\x00"})
	if !errors.Is(r.Err, fsm.ErrInvalidCommand) || r.Value != nil || r.Effects != nil {
		t.Errorf("got %+v", r)
	}
	after := m.View()
	if after.Digest() != before.Digest() || after.Totals() != before.Totals() || after.Index() != 5 || after.Term() != 2 {
		t.Error("the state has changed")
	}
}

func TestZeroViewIsEmpty(t *testing.T) {
	var v fsm.View
	if v.Digest() != fsm.NewMachine().View().Digest() || v.Settings() != fsm.DefaultSettings() {
		t.Error("it differs from a new machine's view")
	}
	if err := fsm.Check(v); err != nil {
		t.Error(err)
	}
	if plan := fsm.Plan(v, fsm.PlanParams{}); len(plan.Placements) != 0 {
		t.Errorf("planned %+v", plan)
	}
}

func TestViewLookups(t *testing.T) {
	second := benchWorker(2)
	second.Host, second.Address.Host = "Node-A", "Node-A"
	third := benchWorker(3)
	third.Host, third.Address.Host = "node-a", "node-a"
	m := machineOf(t, []fsm.Command{benchWorker(1), second, third, benchApp(1, 1, nil), benchApp(2, 1, nil), benchApp(3, 1, nil),
		fsm.FinishApplication{AppID: "app-20260102030405-0002", State: fsm.AppFinished},
		fsm.FinishApplication{AppID: "app-20260102030405-0000", State: fsm.AppFinished},
		fsm.DecommissionWorkers{IDs: []string{third.ID}}})
	v := m.View()
	var hosts, apps []string
	v.WorkersByHost("NODE-a", func(w *fsm.Worker) bool { hosts = append(hosts, w.ID); return true }) // B-065
	if diff := cmp.Diff([]string{second.ID, third.ID}, hosts); diff != "" {
		t.Error(diff)
	}
	v.WorkersByHost("node", func(w *fsm.Worker) bool { t.Errorf("a prefix of a host found %s", w.ID); return true })
	v.ActiveApplications(func(a *fsm.Application) bool { apps = append(apps, a.ID); return true })
	v.CompletedApplications(func(a *fsm.Application) bool { apps = append(apps, a.ID); return true })
	want := []string{"app-20260102030405-0001", "app-20260102030405-0002", "app-20260102030405-0000"}
	if diff := cmp.Diff(want, apps); diff != "" {
		t.Error(diff)
	}
	if w, ok := v.WorkerByAddress(benchWorker(1).Address); !ok || w.ID != benchWorker(1).ID {
		t.Errorf("found %+v", w)
	}
	if _, ok := v.WorkerByAddress(fsm.Address{Host: "Node-A", Port: 1}); ok {
		t.Error("found a worker at another port")
	}
	if a, ok := v.ApplicationByDriver(benchApp(2, 1, nil).Driver); !ok || a.ID != "app-20260102030405-0001" {
		t.Errorf("found %+v", a)
	}
	if _, ok := v.ApplicationByDriver(benchApp(1, 1, nil).Driver); ok {
		t.Error("a finished application was found by its driver")
	}
	if got, want := v.WorkerCounts(), (fsm.Counts{Alive: 2, Decommissioned: 1}); got != want {
		t.Errorf("counts %+v", got)
	}
	if got := v.Totals(); got.Cores != 32 || got.AppsWaiting != 1 || got.AppsCompleted != 2 {
		t.Errorf("totals %+v", got)
	}
}

// TestReadersDoNotDisturb is for the race detector: views and snapshots from other goroutines while commands apply.
func TestReadersDoNotDisturb(t *testing.T) {
	m := machineOf(t, []fsm.Command{benchApp(0, 100, nil)})
	stop := make(chan struct{})
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				v := m.View()
				if fsm.RecomputeDigest(v) != v.Digest() {
					t.Error("a view is torn")
					return
				}
				fsm.Plan(v, fsm.PlanParams{})
				if err := m.Snapshot().Write(io.Discard); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for i := range 100 {
		index := uint64(2 + 2*i)
		m.Apply(index, 1, benchWorker(i))
		m.Apply(index+1, 1, fsm.PlaceExecutors{Placements: fsm.Plan(m.View(), fsm.PlanParams{}).Placements})
	}
	close(stop)
	readers.Wait()
}
