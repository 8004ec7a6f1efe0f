package admin

import (
	"strings"
	"testing"
	"time"

	"raftmaster/fsm"
	"raftmaster/transport/webui"
)

// waitingDriver is a driver of family E that wants 2 cores, 1024 MiB and a gpu on a cluster of one worker that has them.
type waitingDriver struct {
	*waiting
	id         string
	maxDrivers int
}

func newWaitingDriver(t *testing.T) *waitingDriver {
	w := &waitingDriver{waiting: newWaiting(t)}
	w.n.apply(t, fsm.FinishApplication{Meta: fsm.Meta{NowMillis: 600}, AppID: w.app, State: fsm.AppFinished})
	w.id = w.submit()
	return w
}

func (w *waitingDriver) submit() string {
	w.t.Helper()
	return w.n.apply(w.t, fsm.SubmitDriver{Meta: fsm.Meta{NowMillis: 600, Stamp: "20261130120000"}, Cores: 2, MemoryMB: 1024, Supervise: true,
		ResourceReqs: []fsm.ResourceAmount{{Name: "gpu", Amount: 1}}, MainClass: "org.example.Main", Payload: []byte{1}, Families: 0b10000}).(fsm.DriverSubmitted).ID
}

func (w *waitingDriver) runs(id string) {
	w.t.Helper()
	w.n.apply(w.t, fsm.PlaceDrivers{Meta: fsm.Meta{NowMillis: 700}, Placements: []fsm.DriverPlacement{{DriverID: id, WorkerID: "worker-1"}}})
	if d, _ := w.n.View().Driver(id); d.State != fsm.DriverStateRunning {
		w.t.Fatalf("driver %s is %s", id, d.State)
	}
}

func (w *waitingDriver) backend() *Backend {
	id := identity
	id.MaxDrivers = w.maxDrivers
	return NewBackend(id, w.n, &fakeMaster{w.soft}, nil, func() time.Time { return time.UnixMilli(1000) })
}

func (w *waitingDriver) explained(id string) webui.WhyWaiting {
	w.t.Helper()
	out, ok := w.backend().WhyWaiting(id)
	if !ok {
		w.t.Fatal("the driver is not known")
	}
	return out
}

// agrees compares the explanation with what the planner decides on the same state.
func (w *waitingDriver) agrees(got webui.WhyWaiting) {
	w.t.Helper()
	plan := fsm.Plan(w.n.View(), fsm.PlanParams{NowMillis: 1000, MaxDrivers: w.maxDrivers,
		Usable: func(x *fsm.Worker) bool { return w.soft.WorkerNotes[x.ID] == "" },
		DriverCompatible: func(d *fsm.Driver, x *fsm.Worker) bool {
			return d.Families&x.Families != 0 && len(w.soft.UnreadableDrivers[x.ID]) == 0
		}})
	placed := false
	for _, p := range plan.Drivers {
		placed = placed || p.DriverID == got.ID
	}
	if placed != (got.Waiting && got.Limit == webui.LimitNone) {
		w.t.Errorf("the planner places %+v, the explanation is %s: %s", plan.Drivers, got.Limit, got.Text)
	}
	for _, id := range plan.HopelessDrivers {
		if id == got.ID && !got.Driver.Hopeless && got.Limit != webui.LimitNoWorker {
			w.t.Errorf("the planner has no hope, the explanation is %s: %s", got.Limit, got.Text)
		}
	}
}

// TestS35_EachLimitOfADriverIsNamed: for each reason why a driver waits, its name and its words; and the planner sees it so.
func TestS35_EachLimitOfADriverIsNamed(t *testing.T) {
	at := fsm.Meta{NowMillis: 700}
	for _, c := range []struct {
		name     string
		setup    func(w *waitingDriver)
		limit    string
		text     string
		hopeless bool
	}{
		{"nothing", func(*waitingDriver) {}, webui.LimitNone, "1 worker could take the driver of 2 cores and 1024 MiB and 1 gpu: it should be started in a moment", false},
		{"no worker", func(w *waitingDriver) {
			w.n.apply(w.t, fsm.RemoveWorker{Meta: at, ID: "worker-1", Reason: "gone"})
		}, webui.LimitNoWorker, "no worker is ALIVE", false},
		{"decommissioned", func(w *waitingDriver) {
			w.n.apply(w.t, fsm.DecommissionWorkers{Meta: at, IDs: []string{"worker-1"}})
		}, webui.LimitDecommission, "1 decommissioned", true},
		{"drained", func(w *waitingDriver) {
			w.n.apply(w.t, fsm.DrainWorkers{Meta: at, IDs: []string{"worker-1"}, On: true})
		}, webui.LimitDrain, "1 drained by an operator", false},
		{"after a take-over", func(w *waitingDriver) { w.soft.WorkerNotes["worker-1"] = "awaiting its list" }, webui.LimitReconcile, "1 not ready for work", false},
		{"other family", func(w *waitingDriver) {
			w.n.apply(w.t, fsm.SetRelease{Meta: at, WorkerID: "worker-1", Release: "3.5.9", Families: 0b1000})
		}, webui.LimitRelease, "1 on another Spark release", true},
		{"never started there", func(w *waitingDriver) { w.soft.UnreadableDrivers = map[string][]uint8{"worker-1": {0b10000}} }, webui.LimitIncompatible, "1 where such work never came up", true},
		{"resources in use", func(w *waitingDriver) { w.runs(w.submit()) }, webui.LimitResources, "1 without enough free custom resources", false},
		{"cores", func(w *waitingDriver) { w.worker("worker-1", func(r *fsm.RegisterWorker) { r.Cores = 1 }) }, webui.LimitCores,
			"1 without enough free cores; none is large enough even when it is empty", true},
		{"memory", func(w *waitingDriver) { w.worker("worker-1", func(r *fsm.RegisterWorker) { r.MemoryMB = 1000 }) }, webui.LimitMemory,
			"1 without enough free memory; none is large enough even when it is empty", true},
		{"a drained worker is large enough", func(w *waitingDriver) {
			w.worker("worker-1", func(r *fsm.RegisterWorker) { r.Cores = 1 })
			w.worker("worker-2", func(*fsm.RegisterWorker) {})
			w.n.apply(w.t, fsm.DrainWorkers{Meta: at, IDs: []string{"worker-2"}, On: true})
		}, webui.LimitCores, "no worker can take the driver of 2 cores and 1024 MiB and 1 gpu: 1 without enough free cores, 1 drained by an operator", false},
		{"the one worker of its release is drained", func(w *waitingDriver) {
			w.worker("worker-2", func(r *fsm.RegisterWorker) { r.Families = 0b1 })
			w.n.apply(w.t, fsm.DrainWorkers{Meta: at, IDs: []string{"worker-1"}, On: true})
		}, webui.LimitDrain, ": 1 drained by an operator, 1 on another Spark release", false},
		{"every drained worker is of another release", func(w *waitingDriver) {
			w.worker("worker-1", func(r *fsm.RegisterWorker) { r.Families = 0b1 })
			w.n.apply(w.t, fsm.DrainWorkers{Meta: at, IDs: []string{"worker-1"}, On: true})
		}, webui.LimitRelease, ": 1 on another Spark release", true},
		{"drained, and too small", func(w *waitingDriver) {
			w.worker("worker-1", func(r *fsm.RegisterWorker) { r.Cores = 1 })
			w.n.apply(w.t, fsm.DrainWorkers{Meta: at, IDs: []string{"worker-1"}, On: true})
		}, webui.LimitDrain, ": 1 drained by an operator; none is large enough even when it is empty", true},
		{"maxDrivers", func(w *waitingDriver) {
			w.worker("worker-1", func(r *fsm.RegisterWorker) {
				r.Resources = []fsm.Resource{{Name: "gpu", Addresses: []string{"0", "1"}}}
			})
			w.runs(w.submit())
			w.maxDrivers = 1
		}, webui.LimitMaxDrivers, "1 run of the 1 driver that may at once (spark.deploy.maxDrivers)", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWaitingDriver(t)
			c.setup(w)
			got := w.explained(w.id)
			if got.Limit != c.limit || !strings.Contains(got.Text, c.text) || got.Driver.Hopeless != c.hopeless {
				t.Errorf("%s, hopeless %t: %q (want %s: %q)", got.Limit, got.Driver.Hopeless, got.Text, c.limit, c.text)
			}
			if !got.Waiting || got.QueuePosition != 1 || got.Kind != webui.KindDriver || got.ID != w.id || got.AskedID != w.id || got.Next == "" && got.Limit != webui.LimitNone ||
				strings.Contains(got.Next, "Waiting does not help") != (c.hopeless && (c.limit == webui.LimitCores || c.limit == webui.LimitMemory)) {
				t.Errorf("%+v", got)
			}
			if all := w.backend().Explain(); all[w.id] != got.Text {
				t.Errorf("the list says %q, the answer %q", all[w.id], got.Text)
			}
			w.agrees(got)
		})
	}
}

// TestS35_S10_ReplacedDriverIsFollowed: by its first id, whether its entry is there or cleared, a relaunched driver is
// explained: it waits for the end of its pause.
func TestS35_S10_ReplacedDriverIsFollowed(t *testing.T) {
	w := newWaitingDriver(t)
	settings := fsm.DefaultSettings()
	settings.DriverRelaunchDelayMillis = 2000
	w.n.apply(t, fsm.LeaderElected{Meta: fsm.Meta{NowMillis: 600}, NodeID: "n1", Settings: settings})
	w.runs(w.id)
	if got := w.explained(w.id); got.Waiting || got.Limit != webui.LimitNone || got.Text != "it runs on worker-1" {
		t.Errorf("%s: %s", got.Limit, got.Text)
	}
	w.n.apply(t, fsm.RemoveWorker{Meta: fsm.Meta{NowMillis: 900}, ID: "worker-1", Reason: "gone"})
	old, _ := w.n.View().Driver(w.id)
	check := func() {
		t.Helper()
		got := w.explained(w.id)
		if got.ID != old.Successor || got.AskedID != w.id || !got.Waiting || got.Limit != webui.LimitPause || got.Driver.UntilMillis <= 1000 ||
			!strings.Contains(got.Text, "(relaunch 1, after "+w.id+")") {
			t.Errorf("%+v", got)
		}
		w.agrees(got)
	}
	check()
	w.n.apply(t, fsm.ClearCompleted{Meta: fsm.Meta{NowMillis: 950}})
	if _, ok := w.n.View().Driver(w.id); ok {
		t.Fatal("the old entry is still there")
	}
	check()
	if d, ok := w.backend().Driver(w.id); !ok || d.ID != old.Successor {
		t.Errorf("the first id gives %+v", d)
	}
	w.n.apply(t, fsm.RequestKillDriver{Meta: fsm.Meta{NowMillis: 960}, DriverID: old.Successor})
	if got := w.explained(old.Successor); got.Waiting || got.Limit != webui.LimitEnded || got.Text != "it has ended, as KILLED" {
		t.Errorf("%+v", got)
	}
	if _, ok := w.backend().WhyWaiting("driver-9"); ok {
		t.Error("an unknown driver is known")
	}
}
