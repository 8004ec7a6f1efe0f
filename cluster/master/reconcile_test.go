package master

import (
	"testing"
	"time"

	"raftmaster/fsm"
	"raftmaster/transport/sparkmsg"
)

// B-042: what a worker lists and we do not hold is killed.
func TestB042_LatestStateKillsWhatIsNotHeld(t *testing.T) {
	w := newWorld(t)
	fw := w.joined(1)
	a := w.joinedApp(1, maxCores(1))
	fw.runAll()
	fw.latestState(running(a.id, 0), running(a.id, 7), running("app-unknown", 3))
	kills := fw.kills()
	wantLen(t, "kills", kills, 2)
	if kills[0].AppID != a.id || kills[0].ExecID != 7 || kills[1].AppID != "app-unknown" || kills[0].MasterURL != "spark://master1:7077" {
		t.Errorf("kills are %+v, %+v", kills[0], kills[1])
	}
	wantLen(t, "executors", a.executors(), 1)
}

func TestB042_ExecutorOfAnotherWorkerIsKilled(t *testing.T) {
	w := newWorld(t)
	one, two := w.joined(1), w.joined(2)
	a := w.joinedApp(1, maxCores(1))
	holder, other := one, two
	if len(one.launches()) == 0 {
		holder, other = two, one
	}
	holder.runAll()
	other.latestState(running(a.id, 0))
	wantLen(t, "kills at the other worker", other.kills(), 1)
	wantLen(t, "kills at the holder", holder.kills(), 0)
	wantLen(t, "executors", a.executors(), 1)
}

func TestB042_LatestStateOfAStrangerAsksItToRegister(t *testing.T) {
	w := newWorld(t)
	fw := w.worker(1)
	fw.latestState(running("app-x", 0))
	wantLen(t, "ReconnectWorker", pushed[*sparkmsg.ReconnectWorker](fw.conn), 1)
	wantLen(t, "kills", fw.kills(), 0)
}

func TestB042_StandbyTakesNoLists(t *testing.T) {
	w := newStandby(t)
	fw := w.worker(1)
	fw.latestState(running("app-x", 0))
	fw.schedulerState(running("app-x", 0))
	wantLen(t, "pushes", fw.conn.pushes, 0)
	wantLen(t, "messages", w.net.order, 0)
}

// G-35: what we hold and the worker does not list is ended, the driver is told, and the work is planned again. A list
// that matches changes nothing.
func TestG35_LatestStateEndsWhatTheWorkerNoLongerHas(t *testing.T) {
	w := newWorld(t)
	fw := w.joined(1)
	a := w.joinedApp(1, maxCores(2))
	fw.runAll()
	fw.register()
	fw.latestState(running(a.id, 1))
	if ids := a.executors(); len(ids) != 2 || ids[0] != 1 || ids[1] != 2 {
		t.Errorf("executors are %v, want 1 and the replacement 2", ids)
	}
	last := a.updates()[len(a.updates())-1]
	if last.ID != 0 || last.State != sparkmsg.ExecutorLost {
		t.Errorf("the driver was told %+v", last)
	}
	if a.entry().RetryCount != 0 {
		t.Error("an executor that the worker lost counts as a failure")
	}
}

// A list made before a launch ends nothing: the outbox sequence tells.
func TestListMadeBeforeALaunchEndsNothing(t *testing.T) {
	w := newWorld(t)
	w.net.receipts[sparkmsg.Address{Host: "host1", Port: 7001}] = false
	fw := w.worker(1)
	fw.register() // asks for the list
	a := w.joinedApp(1, maxCores(2))
	wantLen(t, "launches", fw.launches(), 2)
	fw.latestState() // made when RegisteredWorker came, before the launches
	wantLen(t, "executors", a.executors(), 2)
	wantLen(t, "launches", fw.launches(), 2)
	fw.runAll()
	wantLen(t, "executors", a.executors(), 2)
}

// A launch that went out on an earlier connection and has no receipt may still be on its way: this list says nothing
// about it. The 30 s of a launch settle it.
func TestListOnAnotherConnectionEndsOnlyReceivedLaunches(t *testing.T) {
	for _, received := range []bool{false, true} {
		w := newWorld(t)
		fw := w.joined(1)
		w.net.receipts[fw.addr] = received
		a := w.joinedApp(1, maxCores(1))
		wantLen(t, "launches", fw.launches(), 1)
		fw.conn = w.conn(fw.addr)
		fw.register()
		fw.latestState()
		want := 0 // still the first executor
		if received {
			want = 1 // ended, and planned again
		}
		if ids := a.executors(); len(ids) != 1 || ids[0] != want {
			t.Errorf("receipt %v: executors are %v, want %d", received, ids, want)
		}
	}
}

// A launch on the connection of the list, before the message that the list answers, must be in it.
func TestListOnTheSameConnectionEndsWhatItDoesNotName(t *testing.T) {
	w := newWorld(t)
	fw := w.joined(1)
	w.net.receipts[fw.addr] = false
	a := w.joinedApp(1, maxCores(1))
	fw.register()
	fw.latestState()
	if ids := a.executors(); len(ids) != 1 || ids[0] != 1 {
		t.Errorf("executors are %v; 0 was refused silently and is planned again as 1", ids)
	}
}

// B-157, G-17: a second list changes nothing more.
func TestB157_G17_SchedulerStateConfirmsAndIsIdempotent(t *testing.T) {
	w := newWorld(t)
	fw := w.joined(1)
	a := w.joinedApp(1, maxCores(3))
	fw.runAll()
	w.failover()
	fw.online()
	a.online()
	list := []sparkmsg.ExecutorDescription{running(a.id, 0), running(a.id, 1), running(a.id, 2)}
	for range 3 {
		fw.schedulerState(list...)
	}
	if e := fw.entry(); e.CoresUsed != 3 || e.MemoryUsedMB != 3*1024 {
		t.Errorf("the worker has %d cores and %d MB in use", e.CoresUsed, e.MemoryUsedMB)
	}
	if e := a.entry(); e.CoresGranted != 3 || e.ExecutorCount != 3 {
		t.Errorf("the application has %d cores in %d executors", e.CoresGranted, e.ExecutorCount)
	}
	wantLen(t, "ReconcileWorker for lists without news", committed[fsm.ReconcileWorker](w), 0)
	wantLen(t, "news for the driver", a.updates(), 0)
}

func TestB157_SchedulerStateOfAStrangerAsksItToRegister(t *testing.T) {
	w := newWorld(t)
	fw := w.worker(1)
	fw.schedulerState(running("app-x", 0))
	wantLen(t, "ReconnectWorker", pushed[*sparkmsg.ReconnectWorker](fw.conn), 1)
}

// G-19: executors of applications that nobody knows are killed, not skipped.
func TestG19_ExecutorsOfUnknownApplicationsAreKilled(t *testing.T) {
	w := newWorld(t)
	fw := w.joined(1)
	w.failover()
	fw.online()
	fw.schedulerState(running("app-unknown", 0))
	wantLen(t, "kills", fw.kills(), 1)
	fw.wantState(fsm.WorkerAlive)
}

// A worker sends WorkerLatestState early, before it has heard of the new leader: it kills and ends nothing (G-09).
func TestG09_EarlyLatestStateKillsAndEndsNothing(t *testing.T) {
	w := newWorld(t)
	fw := w.joined(1)
	a := w.joinedApp(1, maxCores(2))
	fw.runAll()
	w.failover()
	fw.online()
	fw.register()
	fw.latestState(running("app-unknown", 3)) // names neither of our executors, and a foreign one
	wantLen(t, "kills", fw.kills(), 0)
	wantLen(t, "executors", a.executors(), 2)
	b := w.joinedApp(2)
	wantLen(t, "new work before the list", b.executors(), 0)
	fw.schedulerState(running(a.id, 0), running(a.id, 1), running("app-unknown", 3))
	wantLen(t, "kills by the list", fw.kills(), 1)
	wantLen(t, "executors", a.executors(), 2)
	wantLen(t, "new work after the list", b.executors(), 2)
}

// A DEAD worker that answers is revived, and what was written off on it is killed.
func TestDeadWorkerThatAnswersIsRevivedAndItsExecutorsAreKilled(t *testing.T) {
	w := newWorld(t)
	fw := w.joined(1)
	a := w.joinedApp(1, maxCores(2))
	fw.runAll()
	w.beating = nil
	w.advance(62 * time.Second)
	fw.wantState(fsm.WorkerDead)
	w.failover() // the next leader calls DEAD workers as well
	fw.online()
	a.online()
	wantLen(t, "MasterChanged to the DEAD worker", got[*sparkmsg.MasterChanged](w.net, fw.addr), 1)
	fw.schedulerState(running(a.id, 0), running(a.id, 1))
	fw.wantState(fsm.WorkerAlive)
	wantLen(t, "kills", fw.kills(), 2)
	if ids := a.executors(); len(ids) != 2 || ids[0] != 2 || ids[1] != 3 {
		t.Errorf("executors are %v, want 2 and 3", ids)
	}
}

func TestDeadWorkerThatRegistersIsRevivedAndItsExecutorsAreKilled(t *testing.T) {
	w := newWorld(t)
	fw := w.joined(1)
	a := w.joinedApp(1, maxCores(2))
	fw.runAll()
	w.beating = nil
	w.advance(62 * time.Second)
	fw.register()
	answers := got[*sparkmsg.RegisteredWorker](w.net, fw.addr)
	if last := answers[len(answers)-1]; last.Duplicate {
		t.Error("a worker that was DEAD is told that it is a duplicate")
	}
	fw.latestState(running(a.id, 0), running(a.id, 1))
	wantLen(t, "kills", fw.kills(), 2)
	if ids := a.executors(); len(ids) != 2 || ids[0] != 2 {
		t.Errorf("executors are %v, want 2 and 3", ids)
	}
}

// S37: executors that ended while nobody led. The worker's list wins: no ghost, the driver is told, replacements start.
func TestS37_ExecutorsThatEndedWithoutALeaderAreReplaced(t *testing.T) {
	w := newWorld(t)
	fw := w.joined(1)
	a := w.joinedApp(1)
	fw.runAll()
	w.failover()
	fw.online()
	a.online()
	a.acknowledge()
	fw.schedulerState(running(a.id, 1), running(a.id, 3))
	if ids := a.executors(); len(ids) != 4 || ids[0] != 1 || ids[1] != 3 || ids[2] != 4 || ids[3] != 5 {
		t.Errorf("executors are %v, want 1, 3 and the replacements 4, 5", ids)
	}
	lost := 0
	for _, u := range a.updates() {
		if u.State == sparkmsg.ExecutorLost && (u.ID == 0 || u.ID == 2) {
			lost++
		}
	}
	if lost != 2 {
		t.Errorf("the driver heard of %d ends", lost)
	}
	if e := fw.entry(); e.CoresUsed != 4 {
		t.Errorf("the worker has %d cores in use", e.CoresUsed)
	}
}

// An unlisted LAUNCHING executor after a take-over is ended without counting as a failure, and planned again under a new
// id: the launch itself is never repeated.
func TestUnlistedLaunchAfterTakeOverIsPlannedAgainUnderANewID(t *testing.T) {
	w := newWorld(t)
	fw := w.joined(1)
	a := w.joinedApp(1, maxCores(1))
	w.failover()
	fw.online()
	a.online()
	wantLen(t, "launches before the list", fw.launches(), 0)
	fw.schedulerState()
	launches := fw.launches()
	wantLen(t, "launches", launches, 1)
	if launches[0].ExecID != 1 || a.entry().RetryCount != 0 {
		t.Errorf("executor %d was launched, %d failures are counted", launches[0].ExecID, a.entry().RetryCount)
	}
}

// A listed LAUNCHING executor stays, and becomes RUNNING when the worker says so.
func TestListedLaunchAfterTakeOverStays(t *testing.T) {
	w := newWorld(t)
	fw := w.joined(1)
	a := w.joinedApp(1, maxCores(1))
	w.failover()
	fw.online()
	fw.schedulerState(running(a.id, 0))
	if e := w.view().Executor(fsm.ExecutorKey{AppID: a.id, ExecID: 0}); e == nil || e.State != fsm.ExecutorRunning {
		t.Errorf("the executor is %+v", e)
	}
	wantLen(t, "launches", fw.launches(), 0)
}
