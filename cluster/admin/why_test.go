package admin

import (
	"fmt"
	"strings"
	"testing"

	"raftmaster/fsm"
	"raftmaster/transport/webui"
)

// waiting is an application that wants executors of 2 cores, 1024 MiB and a gpu on a cluster of one worker that has them.
type waiting struct {
	t    *testing.T
	n    *fakeNode
	soft Soft
	app  string
}

func newWaiting(t *testing.T) *waiting {
	w := &waiting{t: t, n: newNode(), soft: Soft{WorkerNotes: map[string]string{}}}
	w.n.apply(t, fsm.LeaderElected{Meta: fsm.Meta{NowMillis: 600}, NodeID: "n1", Settings: fsm.DefaultSettings()})
	w.worker("worker-1", func(*fsm.RegisterWorker) {})
	cores, max := 2, 4
	res := w.n.apply(t, fsm.RegisterApplication{Meta: fsm.Meta{NowMillis: 600, Stamp: "20261130120000"}, Name: "Pi", Driver: fsm.Address{Host: "d", Port: 1},
		MaxCores: &max, DefaultCores: fsm.UnlimitedCores, Payload: []byte{1}, Families: 0b10000,
		DefaultProfile: fsm.Profile{Cores: &cores, MemoryMB: 1024, Resources: []fsm.ResourceAmount{{Name: "gpu", Amount: 1}}}})
	w.app = res.(fsm.RegisterApplicationResult).AppID
	return w
}

func (w *waiting) worker(id string, change func(*fsm.RegisterWorker)) {
	w.t.Helper()
	r := fsm.RegisterWorker{Meta: fsm.Meta{NowMillis: 600}, ID: id, Host: id, Port: 9, Address: fsm.Address{Host: id, Port: 9}, Cores: 8, MemoryMB: 4096,
		Families: 0b10000, Resources: []fsm.Resource{{Name: "gpu", Addresses: []string{"0"}}}}
	change(&r)
	w.n.apply(w.t, r)
}

func (w *waiting) why() webui.WhyWaiting {
	w.t.Helper()
	out, ok := newBackend(w.n, w.soft).WhyWaiting(w.app)
	if !ok {
		w.t.Fatal("the application is not known")
	}
	return out
}

func (w *waiting) place() {
	w.t.Helper()
	w.n.apply(w.t, fsm.PlaceExecutors{Meta: fsm.Meta{NowMillis: 700}, Placements: []fsm.Placement{{AppID: w.app, WorkerID: "worker-1", Cores: 2, MemoryMB: 1024,
		Resources: []fsm.Resource{{Name: "gpu", Addresses: []string{"0"}}}}}})
}

// TestS35_EachLimitIsNamed: for each reason why an application waits, its name and its words.
func TestS35_EachLimitIsNamed(t *testing.T) {
	for _, c := range []struct {
		name  string
		setup func(w *waiting)
		limit string
		text  string
	}{
		{"nothing", func(*waiting) {}, webui.LimitNone, "1 worker could take an executor of 2 cores and 1024 MiB and 1 gpu"},
		{"no worker", func(w *waiting) {
			w.n.apply(t, fsm.RemoveWorker{Meta: fsm.Meta{NowMillis: 700}, ID: "worker-1", Reason: "gone"})
		}, webui.LimitNoWorker, "no worker is ALIVE"},
		{"decommissioned", func(w *waiting) {
			w.n.apply(t, fsm.DecommissionWorkers{Meta: fsm.Meta{NowMillis: 700}, IDs: []string{"worker-1"}})
		}, webui.LimitDecommission, "1 decommissioned"},
		{"drained", func(w *waiting) {
			w.n.apply(t, fsm.DrainWorkers{Meta: fsm.Meta{NowMillis: 700}, IDs: []string{"worker-1"}, On: true})
		}, webui.LimitDrain, "1 drained by an operator"},
		{"not reconciled", func(w *waiting) { w.soft.WorkerNotes["worker-1"] = "awaiting its list" }, webui.LimitReconcile, "1 not ready for work"},
		{"other family", func(w *waiting) {
			w.n.apply(t, fsm.SetRelease{Meta: fsm.Meta{NowMillis: 700}, WorkerID: "worker-1", Release: "3.5.9", Families: 0b1000})
		}, webui.LimitRelease, "1 on another Spark release"},
		{"marked incompatible", func(w *waiting) {
			w.place()
			w.n.apply(t, fsm.MarkIncompatible{Meta: fsm.Meta{NowMillis: 700}, AppID: w.app, ExecID: 0, WorkerID: "worker-1", Reason: "silent"})
		}, webui.LimitIncompatible, "1 where such work never came up"},
		{"resources", func(w *waiting) { w.place() }, webui.LimitResources, "1 without enough free custom resources"},
		{"cores in use", func(w *waiting) {
			w.place()
			w.worker("worker-1", func(r *fsm.RegisterWorker) {
				r.Cores, r.Resources = 3, []fsm.Resource{{Name: "gpu", Addresses: []string{"0", "1"}}}
			})
		}, webui.LimitCores, "1 without enough free cores"},
		{"memory in use", func(w *waiting) {
			w.place()
			w.worker("worker-1", func(r *fsm.RegisterWorker) {
				r.MemoryMB, r.Resources = 1500, []fsm.Resource{{Name: "gpu", Addresses: []string{"0", "1"}}}
			})
		}, webui.LimitMemory, "1 without enough free memory"},
		{"target", func(w *waiting) {
			w.n.apply(t, fsm.SetTargets{Meta: fsm.Meta{NowMillis: 700}, AppID: w.app, Targets: []fsm.ProfileTarget{{Profile: fsm.Profile{ID: 0}, Total: 0}}})
		}, webui.LimitTarget, "it asks for no executor"},
		{"cores.max", func(w *waiting) {
			w.worker("worker-1b", func(r *fsm.RegisterWorker) {})
			w.place()
			w.n.apply(t, fsm.PlaceExecutors{Meta: fsm.Meta{NowMillis: 700}, Placements: []fsm.Placement{{AppID: w.app, WorkerID: "worker-1b", Cores: 2, MemoryMB: 1024,
				Resources: []fsm.Resource{{Name: "gpu", Addresses: []string{"0"}}}}}})
		}, webui.LimitMaxCores, "it holds 4 of the 4 cores that it may have, and another executor takes 2 cores"},
		{"ended", func(w *waiting) {
			w.n.apply(t, fsm.FinishApplication{Meta: fsm.Meta{NowMillis: 700}, AppID: w.app, State: fsm.AppFinished})
		}, webui.LimitEnded, "it has ended, as FINISHED"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWaiting(t)
			w.t = t
			c.setup(w)
			got := w.why()
			if got.Limit != c.limit || !strings.Contains(got.Text, c.text) {
				t.Errorf("%s: %q (want %s: %q)", got.Limit, got.Text, c.limit, c.text)
			}
			if wants := c.limit != webui.LimitTarget && c.limit != webui.LimitMaxCores && c.limit != webui.LimitEnded; got.Waiting != wants || (got.QueuePosition == 1) != wants {
				t.Errorf("waiting %v at %d", got.Waiting, got.QueuePosition)
			}
		})
	}
}

// TestS35_TheClosestWorkerDecides: of several limits the one of the worker that comes closest is named first, and all are
// counted; a request that no worker could ever meet is said to be one (G-54).
func TestS35_TheClosestWorkerDecides(t *testing.T) {
	w := newWaiting(t)
	w.place()
	w.worker("worker-2", func(r *fsm.RegisterWorker) { r.Cores = 1 })
	w.worker("worker-3", func(r *fsm.RegisterWorker) { r.MemoryMB = 512 })
	w.worker("worker-4", func(r *fsm.RegisterWorker) { r.Families = 0b1 })
	got := w.why()
	if got.Limit != webui.LimitResources || !strings.HasSuffix(got.Text, ": 1 without enough free custom resources, 1 without enough free memory, 1 without enough free cores, 1 on another Spark release") {
		t.Errorf("%s: %s", got.Limit, got.Text)
	}
	counts := got.Profiles[0].Workers
	for _, limit := range []string{webui.LimitResources, webui.LimitMemory, webui.LimitCores, webui.LimitRelease} {
		if counts[limit] != 1 {
			t.Errorf("%s: %v", limit, counts)
		}
	}
	w.n.apply(t, fsm.RemoveWorker{Meta: fsm.Meta{NowMillis: 700}, ID: "worker-1", Reason: "gone"})
	if got := w.why(); got.Limit != webui.LimitMemory || !strings.Contains(got.Text, "none is large enough even when it is empty") {
		t.Errorf("%s: %s", got.Limit, got.Text)
	}
}

// TestG44_BackOffIsSaid: an application whose executors fail soon waits for its pause to end.
func TestG44_BackOffIsSaid(t *testing.T) {
	w := newWaiting(t)
	status := 1
	for i := range 3 {
		w.place()
		w.n.apply(t, fsm.ExecutorChanged{Meta: fsm.Meta{NowMillis: 710}, AppID: w.app, ExecID: i, WorkerID: "worker-1", State: fsm.ExecutorRunning})
		w.n.apply(t, fsm.ExecutorChanged{Meta: fsm.Meta{NowMillis: 720}, AppID: w.app, ExecID: i, WorkerID: "worker-1", State: fsm.ExecutorExited, ExitStatus: &status})
	}
	got := w.why()
	if got.Limit != webui.LimitBackOff || !strings.Contains(got.Text, "3 in a row: the next one is started in 0.7 s") || got.Profiles[0].UntilMillis != 1720 {
		t.Errorf("%s: %s, until %d", got.Limit, got.Text, got.Profiles[0].UntilMillis)
	}
	// The list says the same.
	if all := newBackend(w.n, w.soft).Explain(); all[w.app] != got.Text {
		t.Errorf("the list says %q", all[w.app])
	}
}

// TestB141_DriversInTheViews: what the lists, the call about one driver and the totals say of drivers.
func TestB141_DriversInTheViews(t *testing.T) {
	n, _, _, _, _ := operated(t)
	b := newBackend(n, Soft{})
	waiting, running, killed := submit(t, n, true), submit(t, n, false), submit(t, n, false)
	n.apply(t, fsm.PlaceDrivers{Meta: fsm.Meta{NowMillis: 700}, Placements: []fsm.DriverPlacement{{DriverID: running, WorkerID: "worker-1"}}})
	n.apply(t, fsm.RequestKillDriver{Meta: fsm.Meta{NowMillis: 900}, DriverID: killed})
	var ids, states []string
	for _, d := range b.Cluster().Drivers {
		ids, states = append(ids, d.ID), append(states, d.State)
	}
	if strings.Join(ids, " ") != strings.Join([]string{waiting, running, killed}, " ") || strings.Join(states, " ") != "SUBMITTED RUNNING KILLED" {
		t.Errorf("%v %v", ids, states)
	}
	d, ok := b.Driver(running)
	if !ok || d.Worker != "h:9" || d.WorkerWebURL != "http://h:8081" || d.MainClass != "org.example.Main" || !d.Active || d.Waiting || d.LaunchedMillis != 700 || !d.LaunchUnconfirmed {
		t.Errorf("%+v", d)
	}
	n.apply(t, fsm.LaunchReceipts{Meta: fsm.Meta{NowMillis: 800}, WorkerID: "worker-1", Drivers: []string{running}})
	if d, _ := b.Driver(running); d.LaunchUnconfirmed {
		t.Errorf("%+v", d)
	}
	if d, _ := b.Driver(waiting); d.LaunchUnconfirmed || !d.Waiting || !d.Supervise || d.WorkerID != "" {
		t.Errorf("%+v", d)
	}
	c := b.Status().Counts
	if c.WaitingDrivers != 1 || c.DriversByState["SUBMITTED"] != 1 || c.DriversByState["RUNNING"] != 1 || c.DriversByState["COMPLETED"] != 1 {
		t.Errorf("%+v", c)
	}
	if w := b.Cluster().Workers[0]; w.Drivers != 1 || w.Executors != 1 {
		t.Errorf("%+v", w)
	}
	if _, ok := b.Driver("driver-9"); ok {
		t.Error("an unknown driver is known")
	}
}

// TestDriverShowsNoCredentialsOfItsJar: neither a password nor a signature.
func TestDriverShowsNoCredentialsOfItsJar(t *testing.T) {
	n, _, _, _, _ := operated(t)
	id := n.apply(t, fsm.SubmitDriver{Meta: fsm.Meta{NowMillis: 600, Stamp: "20261130120000"}, Cores: 1, MemoryMB: 1024, MainClass: "Main",
		JarURL: "https://me:s3cret@host/a.jar?sig=s3cret"}).(fsm.DriverSubmitted).ID
	if d, _ := newBackend(n, Soft{}).Driver(id); d.JarURL != "https://...@host/a.jar?..." {
		t.Errorf("the jar is shown as %s", d.JarURL)
	}
}

// TestB113_ApplicationDetail: limits, executors that it has, and executors that it had.
func TestB113_ApplicationDetail(t *testing.T) {
	w := newWaiting(t)
	w.place()
	status := 3
	w.n.apply(t, fsm.ExecutorChanged{Meta: fsm.Meta{NowMillis: 720}, AppID: w.app, ExecID: 0, WorkerID: "worker-1", State: fsm.ExecutorFailed, ExitStatus: &status})
	w.place()
	d, ok := newBackend(w.n, w.soft).App(w.app)
	if !ok || d.CoreLimit != 4 || d.CoresLeft != 2 || d.ExecutorLimit != webui.Unlimited || len(d.Executors) != 1 || len(d.Removed) != 1 || d.RemovedTotal != 1 ||
		d.Removed[0].State != "FAILED" || *d.Removed[0].ExitStatus != 3 {
		t.Errorf("%+v", d)
	}
	w.n.apply(t, fsm.SetTargets{Meta: fsm.Meta{NowMillis: 730}, AppID: w.app, Targets: []fsm.ProfileTarget{{Profile: fsm.Profile{ID: 0}, Total: 3}}})
	if d, _ := newBackend(w.n, w.soft).App(w.app); d.ExecutorLimit != 3 {
		t.Errorf("limit %d", d.ExecutorLimit)
	}
	if _, ok := newBackend(w.n, w.soft).App("app-9"); ok {
		t.Error("an unknown application is known")
	}
}

// TestG69_PeerUI: only live workers and unfinished applications have pages to forward to.
func TestG69_PeerUI(t *testing.T) {
	n, _, _, appID, doneID := operated(t)
	b := newBackend(n, Soft{})
	if ui, ok := b.PeerUI("worker-1"); !ok || ui != "http://h:8081" {
		t.Errorf("%s %v", ui, ok)
	}
	if ui, ok := b.PeerUI(appID); !ok || ui != "http://d:4040" {
		t.Errorf("%s %v", ui, ok)
	}
	n.apply(t, fsm.RemoveWorker{Meta: fsm.Meta{NowMillis: 900}, ID: "worker-1", Reason: "gone"})
	for _, id := range []string{"worker-1", doneID, "", "http://evil.example"} {
		if ui, ok := b.PeerUI(id); ok {
			t.Errorf("%q: %s", id, ui)
		}
	}
}

// BenchmarkLists is what a page or a scrape costs with 10,000 full workers and as many waiting applications as are explained.
func BenchmarkLists(b *testing.B) {
	n := newNode()
	apply := func(cmd fsm.Command) any {
		n.index++
		return n.machine.Apply(n.index, 7, cmd).Value
	}
	apply(fsm.LeaderElected{Meta: fsm.Meta{NowMillis: 600}, NodeID: "n1", Settings: fsm.DefaultSettings()})
	for i := range 10_000 {
		host := fmt.Sprintf("10.0.%d.%d", i/250, i%250)
		apply(fsm.RegisterWorker{Meta: fsm.Meta{NowMillis: 600}, ID: "worker-" + host, Host: host, Port: 9, Address: fsm.Address{Host: host, Port: 9},
			Cores: 1, MemoryMB: 4096, Families: 0b10000})
	}
	cores := 2
	for i := range 2 * maxExplained {
		apply(fsm.RegisterApplication{Meta: fsm.Meta{NowMillis: 600, Stamp: "20261130120000"}, Name: "Pi", Driver: fsm.Address{Host: "d", Port: 1 + i},
			DefaultCores: fsm.UnlimitedCores, Payload: []byte{1}, Families: 0b10000, DefaultProfile: fsm.Profile{Cores: &cores, MemoryMB: 1024}})
	}
	backend := newBackend(n, Soft{})
	b.Run("Cluster", func(b *testing.B) {
		for b.Loop() {
			backend.Cluster()
		}
	})
	b.Run("Explain", func(b *testing.B) {
		for b.Loop() {
			backend.Explain()
		}
	})
}
