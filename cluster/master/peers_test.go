package master

import (
	"fmt"
	"testing"
	"time"

	"raftmaster/fsm"
	"raftmaster/transport/sparkmsg"
)

var (
	famB  = sparkmsg.SetOf(sparkmsg.FamilyB)
	famE  = sparkmsg.SetOf(sparkmsg.FamilyE)
	famDE = sparkmsg.SetOf(sparkmsg.FamilyD, sparkmsg.FamilyE)
)

// fakeWorker is a Spark worker as a master sees it.
type fakeWorker struct {
	w        *world
	id, host string
	addr     sparkmsg.Address
	cores    int32
	memory   int32
	url      string
	families sparkmsg.FamilySet
	conn     *fakeConn
	beatAt   time.Time
}

// worker makes worker number n, with 4 cores and 8 GiB; it has said nothing yet. Probes reach it and it gives receipts.
func (w *world) worker(n int) *fakeWorker {
	host := fmt.Sprintf("host%d", n)
	fw := &fakeWorker{w: w, id: fmt.Sprintf("worker-20260301120000-%s-%d", host, 7000+n), host: host,
		addr: sparkmsg.Address{Host: host, Port: int32(7000 + n)}, cores: 4, memory: 8192,
		url: fmt.Sprintf("http://%s:8081", host), families: famE}
	fw.online()
	return fw
}

// online scripts what the network finds at the worker's address.
func (fw *fakeWorker) online() {
	fw.w.net.reach[fw.addr] = ProbeTrue
	fw.w.net.receipts[fw.addr] = true
	fw.conn = fw.w.conn(fw.addr)
}

// joined makes worker number n, registers it and lets it send its empty list; it heartbeats while the clock advances.
func (w *world) joined(n int) *fakeWorker {
	w.t.Helper()
	fw := w.worker(n)
	fw.register()
	fw.latestState()
	w.beating = append(w.beating, fw)
	fw.beatAt = w.clock.now
	return fw
}

func (fw *fakeWorker) ref() sparkmsg.EndpointRef {
	addr := fw.addr
	return sparkmsg.EndpointRef{Name: "Worker", Address: &addr}
}

func (fw *fakeWorker) registration() *sparkmsg.RegisterWorker {
	return &sparkmsg.RegisterWorker{ID: fw.id, Host: fw.host, Port: fw.addr.Port, Worker: fw.ref(), Cores: fw.cores,
		Memory: fw.memory, WorkerWebUIURL: fw.url, MasterAddress: sparkmsg.Address{Host: "configured-master", Port: 7077}}
}

func (fw *fakeWorker) say(msg sparkmsg.Message) {
	fw.w.net.attached[fw.addr] = true // it speaks on a connection
	fw.w.core.OneWay(fw.conn, &fw.addr, fw.families, msg)
	fw.w.settle()
}

func (fw *fakeWorker) register() { fw.say(fw.registration()) }

func (fw *fakeWorker) heartbeat() {
	fw.beatAt = fw.w.clock.now
	if take := fw.conn.take; take != nil && take() { // as the RPC endpoint does with one that comes again
		fw.w.shortcuts++
		return
	}
	fw.say(&sparkmsg.Heartbeat{WorkerID: fw.id, Worker: fw.ref()})
}

// running describes an executor as its worker lists it.
func running(app string, exec int32) sparkmsg.ExecutorDescription {
	return sparkmsg.ExecutorDescription{AppID: app, ExecID: exec, Cores: 1, MemoryMB: 1024, State: sparkmsg.ExecutorRunning}
}

func (fw *fakeWorker) latestState(list ...sparkmsg.ExecutorDescription) {
	fw.say(&sparkmsg.WorkerLatestState{ID: fw.id, Executors: list})
}

func (fw *fakeWorker) schedulerState(list ...sparkmsg.ExecutorDescription) {
	msg := &sparkmsg.WorkerSchedulerStateResponse{ID: fw.id}
	for _, d := range list {
		msg.ExecResponses = append(msg.ExecResponses, sparkmsg.WorkerExecutorStateResponse{Desc: d})
	}
	fw.say(msg)
}

// report sends ExecutorStateChanged, which must be answered with true.
func (fw *fakeWorker) report(app string, exec int32, state sparkmsg.ExecutorState, exit *int32) {
	fw.w.t.Helper()
	if !fw.w.askBool(&fw.addr, &sparkmsg.ExecutorStateChanged{AppID: app, ExecID: exec, State: state, ExitStatus: exit}) {
		fw.w.t.Fatalf("the report %s of %s/%d was answered with false", state, app, exec)
	}
}

// close breaks the worker's only connection.
func (fw *fakeWorker) close() {
	fw.w.net.attached[fw.addr] = false
	fw.w.core.ConnClosed(fw.addr, true)
	fw.w.settle()
}

func (fw *fakeWorker) entry() *fsm.Worker { return fw.w.view().Worker(fw.id) }

// wantState fails the test when the replicated entry has another state.
func (fw *fakeWorker) wantState(want fsm.WorkerState) {
	fw.w.t.Helper()
	if e := fw.entry(); e == nil || e.State != want {
		fw.w.t.Fatalf("worker %s is %s, want %s", fw.id, workerState(e), want)
	}
}

func (fw *fakeWorker) launches() []*sparkmsg.LaunchExecutor {
	return got[*sparkmsg.LaunchExecutor](fw.w.net, fw.addr)
}

func (fw *fakeWorker) kills() []*sparkmsg.KillExecutor {
	return got[*sparkmsg.KillExecutor](fw.w.net, fw.addr)
}

// fakeApp is the application client in a driver.
type fakeApp struct {
	w        *world
	addr     sparkmsg.Address
	desc     *sparkmsg.ApplicationDescription
	families sparkmsg.FamilySet
	conn     *fakeConn
	id       string
	claims   int // MasterChanged that came on conn and were acknowledged
}

// app makes the application of driver number n: executors of one core and 1 GiB. It has said nothing yet.
func (w *world) app(n int, change ...func(*sparkmsg.ApplicationDescription)) *fakeApp {
	w.t.Helper()
	a := &fakeApp{w: w, addr: sparkmsg.Address{Host: fmt.Sprintf("driver%d", n), Port: int32(40000 + n)}, families: famE,
		desc: description(fmt.Sprintf("app %d", n))}
	for _, c := range change {
		c(a.desc)
	}
	if err := a.desc.Bind(sparkmsg.FamilyE); err != nil {
		w.t.Fatal(err)
	}
	a.online()
	return a
}

func description(name string) *sparkmsg.ApplicationDescription {
	return &sparkmsg.ApplicationDescription{Name: name, User: "someone", AppUIURL: "",
		DefaultProfile: sparkmsg.ResourceProfile{ExecutorResources: []sparkmsg.ExecutorResourceRequest{
			{ResourceName: "cores", Amount: 1}, {ResourceName: "memory", Amount: 1024}}},
		Command: sparkmsg.Command{MainClass: "org.apache.spark.executor.CoarseGrainedExecutorBackend"}}
}

func maxCores(n int32) func(*sparkmsg.ApplicationDescription) {
	return func(d *sparkmsg.ApplicationDescription) { d.MaxCores = &n }
}

func initialLimit(n int32) func(*sparkmsg.ApplicationDescription) {
	return func(d *sparkmsg.ApplicationDescription) { d.InitialExecutorLimit = &n }
}

func (a *fakeApp) online() {
	a.w.net.reach[a.addr] = ProbeTrue
	a.w.net.attached[a.addr] = true
	a.w.net.asks[a.addr] = func(sparkmsg.Message) (sparkmsg.Message, error) { return &sparkmsg.Boolean{Value: true}, nil }
	a.conn, a.claims = a.w.conn(a.addr), 0
}

// joinedApp makes an application and registers it.
func (w *world) joinedApp(n int, change ...func(*sparkmsg.ApplicationDescription)) *fakeApp {
	w.t.Helper()
	a := w.app(n, change...)
	a.register()
	if a.id == "" {
		w.t.Fatalf("application %d got no id", n)
	}
	return a
}

func (a *fakeApp) say(msg sparkmsg.Message) {
	a.w.core.OneWay(a.conn, &a.addr, a.families, msg)
	a.w.settle()
	// A question on its own connection is answered at once, with the id that the driver has.
	if n := len(pushed[*sparkmsg.MasterChanged](a.conn)); n > a.claims {
		a.claims = n
		a.acknowledge()
	}
}

// register sends RegisterApplication and, like Spark's client, believes the last answer.
func (a *fakeApp) register() {
	addr := a.addr
	a.say(&sparkmsg.RegisterApplication{AppDescription: a.desc, Driver: sparkmsg.EndpointRef{Name: "AppClient", Address: &addr}})
	if ids := a.ids(); len(ids) > 0 {
		a.id = ids[len(ids)-1]
	}
}

func (a *fakeApp) ids() (out []string) {
	for _, m := range got[*sparkmsg.RegisteredApplication](a.w.net, a.addr) {
		out = append(out, m.AppID)
	}
	return out
}

func (a *fakeApp) acknowledge() { a.say(&sparkmsg.MasterChangeAcknowledged{AppID: a.id}) }

// target asks for a number of executors of the default profile.
func (a *fakeApp) target(n int32) bool {
	a.w.t.Helper()
	return a.w.askBool(&a.addr, &sparkmsg.RequestExecutors{AppID: a.id,
		ResourceProfileToTotalExecs: []sparkmsg.ProfileTotal{{Profile: a.desc.DefaultProfile, Total: n}}})
}

func (a *fakeApp) close() {
	a.w.net.attached[a.addr] = false
	a.w.core.ConnClosed(a.addr, true)
	a.w.settle()
}

func (a *fakeApp) entry() *fsm.Application { return a.w.view().Application(a.id) }

func (a *fakeApp) wantState(want fsm.AppState) {
	a.w.t.Helper()
	if e := a.entry(); e == nil || e.State != want {
		a.w.t.Fatalf("application %s is %s, want %s", a.id, appState(e), want)
	}
}

func (a *fakeApp) updates() []*sparkmsg.ExecutorUpdated {
	return got[*sparkmsg.ExecutorUpdated](a.w.net, a.addr)
}

func (a *fakeApp) added() []*sparkmsg.ExecutorAdded {
	return got[*sparkmsg.ExecutorAdded](a.w.net, a.addr)
}

// executors lists the ids of the executors that the application holds or that run on decommissioned workers.
func (a *fakeApp) executors() (out []int) {
	a.w.view().ExecutorsOfApp(a.id, func(e *fsm.Executor) bool {
		out = append(out, e.ID)
		return true
	})
	return out
}

// runAll reports every executor of a worker that is LAUNCHING as RUNNING.
func (fw *fakeWorker) runAll() {
	fw.w.t.Helper()
	var keys []fsm.ExecutorKey
	fw.w.view().ExecutorsOfWorker(fw.id, func(e *fsm.Executor) bool {
		if e.State == fsm.ExecutorLaunching {
			keys = append(keys, e.Key())
		}
		return true
	})
	for _, k := range keys {
		fw.report(k.AppID, int32(k.ExecID), sparkmsg.ExecutorRunning, nil)
	}
}

func workerState(e *fsm.Worker) string {
	if e == nil {
		return "unknown"
	}
	return e.State.String() + " " + e.DiedReason
}

func appState(e *fsm.Application) string {
	if e == nil {
		return "unknown"
	}
	return e.State.String() + " " + e.EndReason
}

func ptr[T any](v T) *T { return &v }

// wantLen fails the test when a list has another length.
func wantLen[T any](t *testing.T, what string, list []T, want int) {
	t.Helper()
	if len(list) != want {
		t.Fatalf("%s: got %d, want %d: %+v", what, len(list), want, list)
	}
}
