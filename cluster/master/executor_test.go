package master

import (
	"errors"
	"testing"
	"time"

	"raftmaster/fsm"
	"raftmaster/transport/sparkmsg"
)

// B-121: the worker gets LaunchExecutor, the driver ExecutorAdded, at once; the books say LAUNCHING.
func TestB121_LaunchTellsWorkerAndDriver(t *testing.T) {
	w := newWorld(t)
	fw := w.joined(1)
	a := w.joinedApp(1, maxCores(1))
	l, added := fw.launches(), a.added()
	wantLen(t, "launches", l, 1)
	wantLen(t, "ExecutorAdded", added, 1)
	if l[0].AppID != a.id || l[0].ExecID != 0 || l[0].RPID != 0 || l[0].Cores != 1 || l[0].Memory != 1024 {
		t.Errorf("the launch is %+v", l[0])
	}
	if x := added[0]; x.ID != 0 || x.WorkerID != fw.id || x.HostPort != "host1:7001" || x.Cores != 1 || x.Memory != 1024 {
		t.Errorf("ExecutorAdded is %+v", x)
	}
	if e := w.view().Executor(fsm.ExecutorKey{AppID: a.id}); e.State != fsm.ExecutorLaunching || !e.Delivered {
		t.Errorf("the executor is %+v; the receipt says that its launch arrived", e)
	}
	wantLen(t, "LaunchReceipts commands", committed[fsm.LaunchReceipts](w), 1)
}

// A RUNNING that comes before the receipt says that the launch arrived: nothing more is committed for that.
func TestAReceiptBehindARunningReportIsNotCommitted(t *testing.T) {
	w := newWorld(t)
	fw := w.joined(1)
	delete(w.net.receipts, fw.addr) // the test answers
	a := w.joinedApp(1, maxCores(1))
	q := w.net.receiptFor(t, fw.addr)
	fw.report(a.id, 0, sparkmsg.ExecutorRunning, nil)
	q.receipt(Receipt{First: 1, Last: q.seq + 1, Exists: true}, nil)
	w.settle()
	wantLen(t, "LaunchReceipts commands", committed[fsm.LaunchReceipts](w), 0)
	if e := w.view().Executor(fsm.ExecutorKey{AppID: a.id}); !e.Delivered {
		t.Errorf("the executor is %+v; its report says that its launch arrived", e)
	}
}

// Nothing is launched that is not committed, and an uncommitted plan is made again.
func TestB121_UncommittedPlanLaunchesNothingAndIsMadeAgain(t *testing.T) {
	w := newWorld(t)
	fw := w.joined(1)
	w.held = true
	a := w.app(1, maxCores(1))
	a.register()
	w.core.Applied(w.commit(w.take()...))
	wantLen(t, "plans that wait for their commit", w.queue, 1)
	wantLen(t, "launches before the commit", fw.launches(), 0)
	w.held = false
	w.fail(errors.New("disk full"))
	wantLen(t, "launches of a plan that was not committed", fw.launches(), 0)
	w.advance(time.Second)
	wantLen(t, "launches of the next plan", fw.launches(), 1)
}

// take gives the commands that wait for their commit.
func (w *world) take() []fsm.Command {
	q := w.queue
	w.queue = nil
	return q
}

func TestB122_StateChangesAreForwardedAndEndsFreeTheWorker(t *testing.T) {
	w := newWorld(t)
	fw := w.joined(1)
	a := w.joinedApp(1, maxCores(1))
	fw.report(a.id, 0, sparkmsg.ExecutorRunning, nil)
	u := a.updates()
	wantLen(t, "updates", u, 1)
	if u[0].State != sparkmsg.ExecutorRunning || u[0].WorkerHost != nil {
		t.Errorf("the update is %+v", u[0])
	}
	msg := "Command exited with code 1"
	if !w.askBool(&fw.addr, &sparkmsg.ExecutorStateChanged{AppID: a.id, State: sparkmsg.ExecutorExited, Message: &msg, ExitStatus: ptr[int32](1)}) {
		t.Error("the report was answered with false")
	}
	u = a.updates()
	wantLen(t, "updates", u, 2)
	if x := u[1]; x.State != sparkmsg.ExecutorExited || x.Message == nil || *x.Message != msg || x.ExitStatus == nil || *x.ExitStatus != 1 || x.WorkerHost != nil {
		t.Errorf("the update is %+v", x)
	}
	if ids := a.executors(); len(ids) != 1 || ids[0] != 1 {
		t.Errorf("executors are %v, want the replacement 1", ids)
	}
	if e := fw.entry(); e.CoresUsed != 1 {
		t.Errorf("the worker has %d cores in use", e.CoresUsed)
	}
}

// B-122: the answer comes after the commit. B-128: a report that was not committed is answered with a failure, so that the
// worker sends it again.
func TestB128_ReportIsAnsweredAfterItsCommitOrFails(t *testing.T) {
	w := newWorld(t)
	fw := w.joined(1)
	a := w.joinedApp(1, maxCores(1))
	fw.runAll()
	report := &sparkmsg.ExecutorStateChanged{AppID: a.id, State: sparkmsg.ExecutorExited, ExitStatus: ptr[int32](0)}
	w.held = true
	var errs []error
	w.core.Ask(nil, &fw.addr, report, func(_ sparkmsg.Message, err error) { errs = append(errs, err) })
	wantLen(t, "answers before the commit", errs, 0)
	w.held = false
	w.fail(errors.New("outcome unknown"))
	if len(errs) != 1 || errs[0] == nil {
		t.Fatalf("the answers are %v, want one failure", errs)
	}
	fw.report(a.id, 0, sparkmsg.ExecutorExited, ptr[int32](0))
	fw.report(a.id, 0, sparkmsg.ExecutorExited, ptr[int32](0)) // and once more: unknown by now, and still true
}

func TestB123_WhatCountsAsAFailure(t *testing.T) {
	cases := []struct {
		name  string
		state sparkmsg.ExecutorState
		exit  *int32
		want  int
	}{
		{"exit 0", sparkmsg.ExecutorExited, ptr[int32](0), 0},
		{"exit 1", sparkmsg.ExecutorExited, ptr[int32](1), 1},
		{"killed without status", sparkmsg.ExecutorKilled, nil, 1},
		{"failed without status", sparkmsg.ExecutorFailed, nil, 1},
		{"lost without status", sparkmsg.ExecutorLost, nil, 1},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			fw := w.joined(1)
			a := w.joinedApp(1, maxCores(1))
			fw.report(a.id, 0, c.state, c.exit)
			if n := a.entry().RetryCount; n != c.want {
				t.Errorf("%d failures are counted, want %d", n, c.want)
			}
		})
	}
}

func TestB124_TenFailuresWithoutRunningEndTheApplication(t *testing.T) {
	w := newWorld(t)
	fw := w.joined(1)
	a := w.joinedApp(1, maxCores(1))
	for i := range int32(9) {
		fw.report(a.id, i, sparkmsg.ExecutorFailed, nil)
		a.wantState(fsm.AppRunning)
	}
	fw.report(a.id, 9, sparkmsg.ExecutorFailed, nil)
	a.wantState(fsm.AppFailed)
	removed := got[*sparkmsg.ApplicationRemoved](w.net, a.addr)
	wantLen(t, "B-114: ApplicationRemoved", removed, 1)
	if removed[0].Message != "FAILED" {
		t.Errorf("ApplicationRemoved says %q", removed[0].Message)
	}
	if _, ok := w.core.apps[a.id]; ok {
		t.Error("the leader still looks after the failed application")
	}
}

func TestB124_ARunningExecutorOrANegativeLimitKeepsTheApplication(t *testing.T) {
	w := newWorld(t)
	fw := w.joined(1)
	a := w.joinedApp(1, maxCores(2))
	fw.report(a.id, 0, sparkmsg.ExecutorRunning, nil)
	for i := range int32(20) {
		fw.awaitLaunch(int(i) + 1)
		fw.report(a.id, i+1, sparkmsg.ExecutorFailed, nil)
	}
	a.wantState(fsm.AppRunning)
	w = newWorld(t, func(c *Config) { c.Settings.MaxExecutorRetries = -1 })
	fw = w.joined(1)
	a = w.joinedApp(1, maxCores(1))
	for i := range int32(30) {
		fw.awaitLaunch(int(i))
		fw.report(a.id, i, sparkmsg.ExecutorFailed, nil)
	}
	fw.awaitLaunch(30)
	a.wantState(fsm.AppRunning)
}

// awaitLaunch lets time pass until the worker was told to start an executor of this id: after failures the next one waits
// (G-44).
func (fw *fakeWorker) awaitLaunch(id int) {
	fw.w.t.Helper()
	for range 100 {
		if all := fw.launches(); len(all) > 0 && int(all[len(all)-1].ExecID) == id {
			return
		}
		fw.w.advance(time.Second)
	}
	fw.w.t.Fatalf("executor %d was never launched", id)
}

// B-125: RUNNING forgives what failed before. G-44: here only once it has lasted, see fsm/crashloop.go.
func TestB125_G44_RunningThatLastsResetsTheCount(t *testing.T) {
	w := newWorld(t)
	fw := w.joined(1)
	a := w.joinedApp(1, maxCores(1))
	for i := range int32(5) {
		fw.report(a.id, i, sparkmsg.ExecutorFailed, nil)
	}
	fw.report(a.id, 5, sparkmsg.ExecutorRunning, nil)
	if n := a.entry().RetryCount; n != 5 {
		t.Errorf("%d failures are counted at the moment of RUNNING, want 5", n)
	}
	w.advance(31 * time.Second)
	fw.report(a.id, 5, sparkmsg.ExecutorFailed, nil)
	if n := a.entry().RetryCount; n != 1 {
		t.Errorf("%d failures are counted, want the last one only", n)
	}
}

func TestB126_KilledExecutorIsFreeAtOnceAndItsDriverIsNotTold(t *testing.T) {
	w := newWorld(t)
	fw := w.joined(1)
	a := w.joinedApp(1, maxCores(2))
	fw.runAll()
	a.target(1)
	updates := len(a.updates())
	if !w.askBool(&a.addr, &sparkmsg.KillExecutors{AppID: a.id, ExecutorIDs: []string{"0"}}) {
		t.Error("KillExecutors was answered with false")
	}
	kills := fw.kills()
	wantLen(t, "kills", kills, 1)
	if kills[0].ExecID != 0 || kills[0].MasterURL != "spark://master1:7077" {
		t.Errorf("the kill is %+v", kills[0])
	}
	if e := fw.entry(); e.CoresUsed != 1 {
		t.Errorf("%d cores are in use", e.CoresUsed)
	}
	// B-127: its own report comes later and is answered with true.
	fw.report(a.id, 0, sparkmsg.ExecutorKilled, ptr[int32](143))
	wantLen(t, "updates", a.updates(), updates)
}

func TestB127_UnknownExecutorIsAnsweredWithTrue(t *testing.T) {
	w := newWorld(t)
	fw := w.joined(1)
	commands := len(w.proposed)
	fw.report("app-unknown", 3, sparkmsg.ExecutorExited, ptr[int32](1))
	if len(w.proposed) != commands {
		t.Errorf("an unknown executor was committed: %+v", w.proposed[commands:])
	}
	wantLen(t, "kills for one that has ended", fw.kills(), 0)
}

// A launch that was written off arrives after all: the executor is killed, or it would run for ever beside its
// replacement.
func TestB127_UnknownExecutorThatRunsIsKilled(t *testing.T) {
	w := newWorld(t)
	fw := w.joined(1)
	fw.report("app-unknown", 3, sparkmsg.ExecutorRunning, nil)
	wantLen(t, "kills", fw.kills(), 1)
	stranger := w.worker(2)
	stranger.report("app-unknown", 3, sparkmsg.ExecutorRunning, nil)
	wantLen(t, "kills at a stranger", stranger.kills(), 0)
}

func TestB127_ReportOfAWorkerThatDoesNotHoldTheExecutorChangesNothing(t *testing.T) {
	w := newWorld(t)
	fw := w.joined(1)
	a := w.joinedApp(1, maxCores(1))
	fw.runAll()
	other := w.joined(2)
	other.report(a.id, 0, sparkmsg.ExecutorExited, ptr[int32](1))
	wantLen(t, "executors", a.executors(), 1)
	if a.entry().RunningCount != 1 {
		t.Error("another worker ended the executor")
	}
}

// B-129, G-15, S16: executor ids are never reused in an application, whatever happens.
func TestG15_S16_ExecutorIDsAreNeverReused(t *testing.T) {
	w := newWorld(t)
	one, two := w.worker(1), w.worker(2)
	one.cores, two.cores = 2, 1
	one.register()
	two.register()
	one.latestState()
	two.latestState()
	w.beating = []*fakeWorker{one, two}
	a := w.joinedApp(1)
	one.runAll()
	two.runAll()
	wantLen(t, "executors", a.executors(), 3)
	w.net.reach[two.addr] = ProbeRefused
	w.beating = []*fakeWorker{one}
	two.close()
	w.failover()
	one.online()
	a.online()
	three := w.worker(3)
	three.cores = 1
	three.register()
	launches := three.launches()
	wantLen(t, "launches", launches, 1)
	if launches[0].ExecID != 3 {
		t.Errorf("the new executor has id %d, want 3: 0, 1 and 2 are used up", launches[0].ExecID)
	}
}

// G-16: RUNNING once more, after a take-over or after a lost answer, is no error.
func TestG16_RepeatedRunningIsIdempotent(t *testing.T) {
	w := newWorld(t)
	fw := w.joined(1)
	a := w.joinedApp(1, maxCores(1))
	fw.runAll()
	fw.report(a.id, 0, sparkmsg.ExecutorRunning, nil)
	w.failover()
	fw.online()
	fw.report(a.id, 0, sparkmsg.ExecutorRunning, nil)
	if e := a.entry(); e.RunningCount != 1 || e.CoresGranted != 1 {
		t.Errorf("%d executors run on %d cores", e.RunningCount, e.CoresGranted)
	}
	wantLen(t, "updates of the new leader", a.updates(), 0)
}

// G-38: an executor that ends during the take-over leaves the books of its application.
func TestG38_ExecutorThatEndsDuringTheTakeOverIsOffTheBooks(t *testing.T) {
	w := newWorld(t)
	fw := w.joined(1)
	a := w.joinedApp(1, maxCores(2))
	fw.runAll()
	w.failover()
	fw.report(a.id, 0, sparkmsg.ExecutorExited, ptr[int32](0))
	if e := a.entry(); e.CoresGranted != 1 || e.ExecutorCount != 1 {
		t.Errorf("the application still has %d cores in %d executors", e.CoresGranted, e.ExecutorCount)
	}
	wantLen(t, "updates, whether the driver has answered or not", a.updates(), 1)
}
