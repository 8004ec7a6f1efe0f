package master

import (
	"testing"
	"time"

	"raftmaster/fsm"
	"raftmaster/transport/sparkmsg"
)

func TestB030_HeartbeatKeepsAWorkerWithoutAnAnswer(t *testing.T) {
	w := newWorld(t)
	fw := w.joined(1)
	commands, pushes, messages := len(w.proposed), len(fw.conn.pushes), len(w.net.order)
	w.advance(10 * time.Minute)
	fw.wantState(fsm.WorkerAlive)
	if len(w.proposed) != commands || len(fw.conn.pushes) != pushes || len(w.net.order) != messages {
		t.Errorf("heartbeats were committed or answered: %+v %+v", w.proposed[commands:], fw.conn.pushes[pushes:])
	}
	if at := w.core.Status().LastHeartbeats[fw.id]; w.clock.now.Sub(at) > 15*time.Second {
		t.Errorf("the last heartbeat is %s old", w.clock.now.Sub(at))
	}
	if w.shortcuts < 30 {
		t.Errorf("only %d heartbeats were noted without the Core", w.shortcuts)
	}
}

func TestB030_HeartbeatKeepsTheDecommissionedState(t *testing.T) {
	w := newWorld(t)
	fw := w.joined(1)
	fw.say(&sparkmsg.WorkerDecommissioning{ID: fw.id, WorkerRef: fw.ref()})
	w.advance(3 * time.Minute)
	fw.wantState(fsm.WorkerDecommissioned)
}

func TestB031_HeartbeatOfADeadWorkerIsAskedToReconnect(t *testing.T) {
	w := newWorld(t)
	fw := w.worker(1)
	fw.register()
	w.advance(61 * time.Second)
	fw.wantState(fsm.WorkerDead)
	fw.heartbeat()
	asked := pushed[*sparkmsg.ReconnectWorker](fw.conn)
	wantLen(t, "ReconnectWorker", asked, 1)
	if asked[0].MasterURL != "spark://master1:7077" {
		t.Errorf("ReconnectWorker names %s", asked[0].MasterURL)
	}
	fw.wantState(fsm.WorkerDead)
	fw.register()
	fw.wantState(fsm.WorkerAlive)
}

// B-032 beaten as G-33 says: a worker whose entry is gone, or that never had one, is asked to register too.
func TestB032_HeartbeatOfAnUnknownWorkerIsAskedToReconnect(t *testing.T) {
	w := newWorld(t)
	fw := w.worker(1)
	fw.heartbeat()
	wantLen(t, "ReconnectWorker", pushed[*sparkmsg.ReconnectWorker](fw.conn), 1)
	wantLen(t, "commands that name a worker", committed[fsm.RegisterWorker](w), 0)
}

func TestG33_ZombieWorkerComesBackAfterItsEntryWasDropped(t *testing.T) {
	w := newWorld(t)
	fw := w.worker(1)
	fw.register()
	w.advance(20 * time.Minute)
	if fw.entry() != nil {
		t.Fatalf("the entry is still there: %+v", fw.entry())
	}
	fw.heartbeat()
	wantLen(t, "ReconnectWorker", pushed[*sparkmsg.ReconnectWorker](fw.conn), 1)
	fw.register()
	fw.wantState(fsm.WorkerAlive)
}

// B-033: a heartbeat comes every quarter of the time-out; three lost ones do no harm.
func TestB033_ThreeLostHeartbeatsDoNoHarm(t *testing.T) {
	w := newWorld(t)
	fw := w.worker(1)
	fw.register()
	for range 10 {
		w.advance(59 * time.Second)
		fw.heartbeat()
		fw.wantState(fsm.WorkerAlive)
	}
}

func TestB034_SilentWorkerIsRemovedAfterTheTimeout(t *testing.T) {
	w := newWorld(t)
	fw := w.worker(1)
	fw.register()
	w.net.receipts[fw.addr] = false
	a := w.joinedApp(1)
	w.advance(59 * time.Second)
	fw.wantState(fsm.WorkerAlive)
	// G-37: Spark looks once in a time-out; here it takes no longer than the time-out and one look.
	w.advance(3 * time.Second)
	fw.wantState(fsm.WorkerDead)
	removed := got[*sparkmsg.WorkerRemoved](w.net, a.addr)
	wantLen(t, "WorkerRemoved", removed, 1)
	if removed[0].Message != "Not receiving heartbeat for 60 seconds" {
		t.Errorf("WorkerRemoved says %q", removed[0].Message)
	}
}

func TestB034_TimeoutAppliesToDecommissionedWorkers(t *testing.T) {
	w := newWorld(t)
	fw := w.worker(1)
	fw.register()
	fw.say(&sparkmsg.WorkerDecommissioning{ID: fw.id, WorkerRef: fw.ref()})
	w.advance(62 * time.Second)
	fw.wantState(fsm.WorkerDead)
}

func TestB034_RemovalThatWasNotCommittedIsTriedAgain(t *testing.T) {
	w := newWorld(t)
	fw := w.worker(1)
	fw.register()
	w.held = true
	w.advance(62 * time.Second)
	wantLen(t, "RemoveWorker", committed[fsm.RemoveWorker](w), 1)
	w.held = false
	w.fail(errNotLeader)
	w.advance(3 * time.Second)
	fw.wantState(fsm.WorkerDead)
}

func TestB035_DeadEntryIsShownAndDroppedAfterSixteenTimeouts(t *testing.T) {
	w := newWorld(t)
	fw := w.worker(1)
	fw.register()
	w.advance(62 * time.Second)
	fw.wantState(fsm.WorkerDead)
	w.advance(15*time.Minute + 50*time.Second)
	fw.wantState(fsm.WorkerDead)
	w.advance(15 * time.Second)
	if fw.entry() != nil {
		t.Errorf("the DEAD entry is older than 960 s: %+v", fw.entry())
	}
	wantLen(t, "soft state of workers", sortedKeys(w.core.workers), 0)
}

// R19: a new leader gives every worker a full, fresh time-out, and every driver too.
func TestR19_NewLeaderStartsEveryClockAfresh(t *testing.T) {
	w := newWorld(t)
	fw := w.worker(1)
	fw.register()
	a := w.joinedApp(1)
	fw.runAll()
	w.advance(55 * time.Second)
	w.failover()
	w.advance(59 * time.Second)
	fw.wantState(fsm.WorkerAlive)
	a.wantState(fsm.AppRunning)
	w.advance(3 * time.Second)
	fw.wantState(fsm.WorkerDead)
}

func TestR19_TenTakeOversInAMinuteKillNobody(t *testing.T) {
	w := newWorld(t)
	fw := w.joined(1)
	a := w.joinedApp(1)
	fw.runAll()
	for range 10 {
		w.failover()
		fw.online()
		a.online()
		w.advance(6 * time.Second)
	}
	fw.wantState(fsm.WorkerAlive)
	wantLen(t, "executors", a.executors(), 4)
}

// A pause of this process (SIGSTOP, a suspended machine) makes all peers look silent. What they said meanwhile waits in
// the sockets, so nobody is judged by that time (DESIGN: testability; R19, R20).
func TestR19_OwnPauseKillsNoWorkerAndNoApplication(t *testing.T) {
	w := newWorld(t)
	fw := w.worker(1)
	fw.register()
	fw.latestState()
	a := w.joinedApp(1)
	fw.runAll()
	w.advance(2 * time.Second)
	w.net.asks[a.addr] = nil // its answers wait in the socket, too
	w.clock.now = w.clock.now.Add(10 * time.Minute)
	w.core.Tick()
	w.settle()
	fw.wantState(fsm.WorkerAlive)
	a.wantState(fsm.AppRunning)
	w.advance(55 * time.Second)
	fw.wantState(fsm.WorkerAlive)
	w.advance(10 * time.Second)
	fw.wantState(fsm.WorkerDead)
}

// The same for launches: the report that they run is in the socket.
func TestR19_OwnPauseDoesNotJudgeLaunches(t *testing.T) {
	w := newWorld(t)
	fw := w.joined(1)
	a := w.joinedApp(1, maxCores(1))
	wantLen(t, "launches", fw.launches(), 1)
	w.clock.now = w.clock.now.Add(40 * time.Second)
	w.core.Tick()
	w.settle()
	wantLen(t, "incompatible workers", a.entry().IncompatibleWorkers, 0)
	wantLen(t, "kills", fw.kills(), 0)
	fw.report(a.id, 0, sparkmsg.ExecutorRunning, nil)
	w.advance(time.Minute)
	wantLen(t, "executors", a.executors(), 1)
	wantLen(t, "incompatible workers", a.entry().IncompatibleWorkers, 0)
}

func TestR19_OwnPauseDoesNotEndTheRecovery(t *testing.T) {
	w := newWorld(t)
	fw := w.worker(1)
	fw.register()
	w.failover(func(c *Config) { c.RecoveryTimeout = 10 * time.Second })
	w.advance(5 * time.Second)
	w.clock.now = w.clock.now.Add(30 * time.Second)
	w.core.Tick()
	w.settle()
	fw.wantState(fsm.WorkerAlive)
	w.advance(8 * time.Second)
	fw.wantState(fsm.WorkerDead)
}

// Every heartbeat that means more than "still here" reaches the Core, also behind a row of those that do not.
func TestHeartbeatsThatMeanSomethingReachTheCore(t *testing.T) {
	w := newWorld(t)
	fw := w.joined(1)
	fw.heartbeat()
	fw.heartbeat()
	if w.shortcuts == 0 {
		t.Fatal("no heartbeat was noted without the Core")
	}
	w.net.reach[fw.addr] = ProbeUnreachable
	w.core.ConnClosed(fw.addr, true)
	w.settle()
	if soft := w.core.workers[fw.id]; soft.unreachableSince.IsZero() {
		t.Fatal("the worker counts as reachable")
	}
	fw.heartbeat()
	if soft := w.core.workers[fw.id]; !soft.unreachableSince.IsZero() {
		t.Error("a heartbeat has not shown that the worker is there again")
	}
	fw.heartbeat()
	take := fw.conn.take
	w.core.Deposed(w.term)
	if take() {
		t.Error("a master that does not lead still takes heartbeats without a look")
	}
}
