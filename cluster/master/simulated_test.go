package master

import (
	"testing"
	"time"

	"raftmaster/fsm"
	"raftmaster/transport/sparkmsg"
)

// What the simulation of whole clusters (cluster/clustertest) has found, as small as it gets.

// B-019, B-168: heartbeats begin with RegisteredWorker, and MasterChanged ends the attempts to register. A worker that got
// only the latter never speaks again by itself, although it answers receipts.
func TestB019_WorkerWithoutHeartbeatsIsAskedToRegister(t *testing.T) {
	w := newWorld(t)
	fw := w.joined(1)
	w.beating = nil
	w.advance(25 * time.Second)
	fw.latestState() // a sign of life, but no heartbeat
	wantLen(t, "ReconnectWorker before half the time-out", got[*sparkmsg.ReconnectWorker](w.net, fw.addr), 0)
	w.advance(10 * time.Second)
	wantLen(t, "ReconnectWorker", got[*sparkmsg.ReconnectWorker](w.net, fw.addr), 1)
}

// B-023: after its first try a worker asks its last master alone. One that was written off for its silence may have
// another one for its last.
func TestB023_WorkerWrittenOffForItsSilenceIsStillTold(t *testing.T) {
	w := newWorld(t)
	fw := w.joined(1)
	w.beating = nil
	w.advance(62 * time.Second)
	fw.wantState(fsm.WorkerDead)
	before := len(got[*sparkmsg.MasterChanged](w.net, fw.addr))
	w.advance(20 * time.Second)
	if after := len(got[*sparkmsg.MasterChanged](w.net, fw.addr)); after < before+3 {
		t.Errorf("%d MasterChanged in 20 s, want one every 5 s", after-before)
	}
	fw.schedulerState()
	fw.wantState(fsm.WorkerAlive)
}

// B-116: a driver that loses the connection to its master waits for MasterChanged, also when another one is left.
func TestB116_DriverThatLostOneOfTwoConnectionsIsCalled(t *testing.T) {
	w := newWorld(t)
	a := w.joinedApp(1)
	a.acknowledge()
	before := len(got[*sparkmsg.MasterChanged](w.net, a.addr))
	w.core.ConnClosed(a.addr, false)
	w.settle()
	wantLen(t, "MasterChanged", got[*sparkmsg.MasterChanged](w.net, a.addr)[before:], 1)
	a.acknowledge()
	before = len(got[*sparkmsg.MasterChanged](w.net, a.addr))
	w.advance(2 * time.Minute)
	if after := len(got[*sparkmsg.MasterChanged](w.net, a.addr)) - before; after > 2 {
		t.Errorf("%d MasterChanged after the answer, want its two reminders at most", after)
	}
}

// B-113, B-115: what is queued for the address of a driver that is gone may reach a new driver there, which would take the
// end of the old application for its own.
func TestB113_EndOfAnApplicationWhoseDriverIsGoneIsToldNobody(t *testing.T) {
	w := newWorld(t)
	a := w.joinedApp(1)
	w.net.reach[a.addr] = ProbeFalse
	a.close()
	a.wantState(fsm.AppFailed)
	wantLen(t, "ApplicationRemoved", got[*sparkmsg.ApplicationRemoved](w.net, a.addr), 0)
	w.failover()
	wantLen(t, "ApplicationRemoved after a take-over", got[*sparkmsg.ApplicationRemoved](w.net, a.addr), 0)
}

// Nothing is queued for a driver whose connections are gone; when it comes back it learns what it has missed.
func TestB122_DriverThatWasAwayLearnsHowItsExecutorsEnded(t *testing.T) {
	w := newWorld(t)
	fw := w.joined(1)
	a := w.joinedApp(1, maxCores(2))
	fw.runAll()
	delete(w.net.reach, a.addr)
	a.close()
	before := len(a.updates())
	exit := int32(1)
	fw.report(a.id, 0, sparkmsg.ExecutorExited, &exit)
	wantLen(t, "updates while away", a.updates()[before:], 0)
	a.online()
	a.acknowledge()
	for _, u := range a.updates()[before:] {
		if u.ID == 0 && u.State == sparkmsg.ExecutorExited {
			return
		}
	}
	t.Errorf("the driver never learned of the end: %v", a.updates()[before:])
}

// B-068, G-34: a launch that meets a worker which has just been decommissioned is refused in silence. Its executor is
// then DECOMMISSIONED in the books and must leave them.
func TestB068_LaunchRefusedByADecommissionedWorkerLeavesTheBooks(t *testing.T) {
	w := newWorld(t)
	fw := w.joined(1)
	a := w.joinedApp(1, maxCores(1))
	wantLen(t, "launches", fw.launches(), 1)
	fw.say(&sparkmsg.WorkerDecommissioning{ID: fw.id, WorkerRef: fw.ref()})
	w.advance(runningTimeout + time.Second)
	wantLen(t, "executors", a.executors(), 0)
	if used := fw.entry().CoresUsed; used != 0 {
		t.Errorf("%d cores are still booked", used)
	}
}

// A DEAD worker that registers again still runs what was written off: it gets nothing before its list.
func TestRevivedWorkerGetsNoWorkBeforeItsList(t *testing.T) {
	w := newWorld(t)
	fw := w.joined(1)
	w.beating = nil
	w.advance(62 * time.Second)
	fw.wantState(fsm.WorkerDead)
	w.joinedApp(1)
	fw.register()
	fw.wantState(fsm.WorkerAlive)
	w.advance(3 * time.Second)
	wantLen(t, "launches before the list", fw.launches(), 0)
	fw.latestState()
	if len(fw.launches()) == 0 {
		t.Error("no launches after the list")
	}
}

// A message of an earlier leader may arrive late and lead a driver back to it: the new one says it is the leader twice
// more.
func TestLateMessagesOfAnEarlierLeaderAreOverruled(t *testing.T) {
	w := newWorld(t)
	a := w.joinedApp(1)
	w.failover()
	a.online()
	a.acknowledge()
	before := len(got[*sparkmsg.MasterChanged](w.net, a.addr))
	w.advance(10 * time.Second)
	wantLen(t, "MasterChanged within 10 s", got[*sparkmsg.MasterChanged](w.net, a.addr)[before:], 1)
	w.advance(lateMessages)
	wantLen(t, "MasterChanged within the time of late messages", got[*sparkmsg.MasterChanged](w.net, a.addr)[before:], 2)
}

// A RUNNING that is held up by the network says nothing about the release of the worker: its list decides.
func TestSlowLaunchThatIsListedMarksNoPair(t *testing.T) {
	w := newWorld(t)
	fw := w.joined(1)
	a := w.joinedApp(1, maxCores(1))
	w.advance(runningTimeout + time.Second)
	d := running(a.id, 0)
	fw.schedulerState(d)
	if marked := a.entry().IncompatibleWorkers; len(marked) != 0 {
		t.Errorf("marked incompatible: %v", marked)
	}
	wantLen(t, "executors", a.executors(), 1)
}

// B-102: the acknowledgement that names the id and a repeated registration on another connection come at once. Whatever
// is committed first, the driver keeps its id.
func TestB102_RegistrationWhileTheIDIsBeingConfirmedKeepsIt(t *testing.T) {
	w := newWorld(t)
	a := w.app(1)
	w.net.receipts[a.addr] = false
	a.register()
	id := a.id
	w.failover()
	a.online()
	w.held = true
	a.acknowledge()
	a.conn, a.claims = w.conn(a.addr), 0
	a.register()
	w.held = false
	w.settle()
	for _, got := range a.ids() {
		if got != id {
			t.Errorf("the driver has id %s and is told %s", id, got)
		}
	}
}

// A launch that waits for a connection may reach another process at the worker's address. Nothing is queued for a worker
// without one; the executor leaves the books and is planned again.
func TestNoLaunchIsQueuedForAWorkerWithoutAConnection(t *testing.T) {
	w := newWorld(t)
	fw := w.joined(1)
	w.held = true
	a := w.app(1, maxCores(1))
	a.register()
	w.net.attached[fw.addr] = false
	w.held = false
	w.settle()
	for _, l := range fw.launches() {
		t.Errorf("a launch was queued: %s/%d", l.AppID, l.ExecID)
	}
}

// The same news by way of the commit: the end of an application whose driver is gone is not sent on the connection of the
// new driver that has just come up at its address.
func TestB113_NewDriverAtTheAddressIsNotToldTheEndOfTheOldOne(t *testing.T) {
	w := newWorld(t)
	a := w.joinedApp(1)
	w.net.reach[a.addr] = ProbeFalse
	w.net.attached[a.addr] = true // by the new one, which has not registered yet
	w.core.ConnClosed(a.addr, true)
	w.settle()
	a.wantState(fsm.AppFailed)
	wantLen(t, "ApplicationRemoved", got[*sparkmsg.ApplicationRemoved](w.net, a.addr), 0)
}

// A driver that is gone before its registration is committed is looked for: the answer would reach whoever comes up at its
// address next, with an id that is not its own.
func TestB101_AnswerIsNotQueuedForADriverWithoutAConnection(t *testing.T) {
	w := newWorld(t)
	a := w.app(1)
	w.held = true
	a.register()
	w.net.attached[a.addr] = false
	w.held = false
	w.settle()
	wantLen(t, "answers", a.ids(), 0)
	a.online() // it lives after all
	w.advance(10 * time.Second)
	a.acknowledge()
	wantLen(t, "answers", a.ids(), 1)
}

// B-047, B-068, G-34: a worker that has sent no heartbeat here since a launch may have refused it, because another master
// was its own: that says nothing about its release.
func TestG34_LaunchWithoutAHeartbeatAfterItMarksNobody(t *testing.T) {
	w := newWorld(t)
	fw := w.joined(1)
	w.beating = nil
	a := w.joinedApp(1, maxCores(1))
	wantLen(t, "launches", fw.launches(), 1)
	if e := w.view().Executor(fsm.ExecutorKey{AppID: a.id, ExecID: 0}); e == nil || !e.Delivered {
		t.Fatal("the launch was not received")
	}
	w.advance(runningTimeout + time.Second)
	if ids := a.executors(); len(ids) != 1 || ids[0] != 1 {
		t.Errorf("executors are %v, want the replacement 1 without another list", ids)
	}
	fw.schedulerState()
	if bad := a.entry().IncompatibleWorkers; len(bad) != 0 {
		t.Errorf("marked as incompatible: %v", bad)
	}
}
