package master

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"raftmaster/fsm"
	"raftmaster/transport/sparkmsg"
)

// B-137: each end that a worker reports frees its worker; anything else changes nothing.
func TestB137_B139_EndsFreeTheWorker(t *testing.T) {
	for _, state := range []sparkmsg.DriverState{sparkmsg.DriverFinished, sparkmsg.DriverKilled, sparkmsg.DriverFailed, sparkmsg.DriverError} {
		w := newWorld(t)
		fw := w.joined(1)
		id := w.submitted()
		for _, other := range []sparkmsg.DriverState{sparkmsg.DriverSubmitted, sparkmsg.DriverRunning, sparkmsg.DriverRelaunching} {
			fw.driverEnds(id, other)
		}
		w.wantDriver(id, fsm.DriverStateRunning)
		fw.driverEnds(id, state)
		w.wantDriver(id, fsm.DriverState(state))
		if e := fw.entry(); e.CoresUsed != 0 || e.DriverCount != 0 || e.MemoryUsedMB != 0 {
			t.Errorf("after %s the worker's books are %+v", state, e)
		}
		fw.driverEnds(id, sparkmsg.DriverKilled) // late, and ignored
		w.wantDriver(id, fsm.DriverState(state))
		if len(w.core.workers[fw.id].drivers) != 0 {
			t.Error("the launch of an ended driver is still watched")
		}
	}
}

// B-137, G-63: a driver ends by the word of its own worker alone.
func TestB137_ReportOfAStrangerIsIgnored(t *testing.T) {
	w := newWorld(t)
	one, two := w.joined(1), w.joined(2)
	id := w.submitted()
	holder, other := one, two
	if w.onWorker(id, one, two) == two {
		holder, other = two, one
	}
	other.driverEnds(id, sparkmsg.DriverKilled)
	w.core.OneWay(holder.conn, nil, famE, &sparkmsg.DriverStateChanged{DriverID: id, State: sparkmsg.DriverFailed})
	w.core.OneWay(holder.conn, &sparkmsg.Address{Host: "nowhere", Port: 9}, famE, &sparkmsg.DriverStateChanged{DriverID: id, State: sparkmsg.DriverFailed})
	w.settle()
	w.wantDriver(id, fsm.DriverStateRunning)
}

// The report is one-way: what Raft did not take is proposed again.
func TestB137_UncommittedReportIsProposedAgain(t *testing.T) {
	w := newWorld(t)
	fw := w.joined(1)
	id := w.submitted()
	w.held = true
	fw.driverEnds(id, sparkmsg.DriverFinished)
	w.fail(errors.New("overloaded"))
	w.held = false
	w.wantDriver(id, fsm.DriverStateRunning)
	w.advance(planRetry)
	w.wantDriver(id, fsm.DriverStateFinished)
}

// B-060, B-138: a supervised driver goes on under a new id elsewhere, another one ends in ERROR.
func TestB138_S10_SupervisedDriverIsRelaunchedUnderANewID(t *testing.T) {
	w := newWorld(t)
	fw := w.joined(1)
	kept, lost := w.submitted(supervised), w.submitted()
	w.net.reach[fw.addr] = ProbeRefused
	fw.close()
	fw.wantState(fsm.WorkerDead)
	w.wantDriver(lost, fsm.DriverStateError)
	old := w.wantDriver(kept, fsm.DriverStateRelaunching)
	if old.Successor == "" || old.Successor == kept {
		t.Fatalf("the successor is %q", old.Successor)
	}
	w.wantDriver(old.Successor, fsm.DriverStateSubmitted)
	next := w.joined(2)
	w.wantDriver(old.Successor, fsm.DriverStateRunning)
	wantLen(t, "launches", next.driverLaunches(), 1)
	if s, err := w.core.DriverStatus(kept); err != nil || s.Successor != old.Successor || s.State != sparkmsg.DriverRelaunching || s.Reason == "" {
		t.Errorf("the old id's status is %+v, %v", s, err)
	}
	if r := w.killDriver(kept); !r.Success { // S10: by either id
		t.Errorf("the kill by the old id was answered with %+v", r)
	}
	wantLen(t, "KillDriver", next.driverKills(), 1)
	if next.driverKills()[0].DriverID != old.Successor {
		t.Errorf("the kill is of %s", next.driverKills()[0].DriverID)
	}
}

// S10, B-142: the id that the submitter knows is good for status and kill when its entry was cleared while a successor
// runs.
func TestB142_S10_ClearedIDOfARelaunchedDriverStillCounts(t *testing.T) {
	w := newWorld(t)
	fw := w.joined(1)
	id := w.submitted(supervised)
	w.net.reach[fw.addr] = ProbeRefused
	fw.close()
	successor := w.wantDriver(id, fsm.DriverStateRelaunching).Successor
	next := w.joined(2)
	w.wantDriver(successor, fsm.DriverStateRunning)
	w.core.ClearCompleted(func(err error) {
		if err != nil {
			t.Error(err)
		}
	})
	w.settle()
	if d := w.view().Driver(id); d != nil {
		t.Fatalf("the old entry is still there: %+v", d)
	}
	if s, err := w.core.DriverStatus(id); err != nil || !s.Found || s.State != sparkmsg.DriverRelaunching || s.Successor != successor {
		t.Errorf("the cleared id's status is %+v, %v", s, err)
	}
	if s, err := w.core.DriverStatus("driver-0-0000"); err != nil || s.Found {
		t.Errorf("the status of nobody is %+v, %v", s, err)
	}
	if r := w.killDriver(id); !r.Success {
		t.Errorf("the kill by the cleared id was answered with %+v", r)
	}
	wantLen(t, "KillDriver", next.driverKills(), 1)
}

// S10, G-45: when the old worker is heard again its copy is killed at once, and what it reports changes nothing.
func TestS10_G45_OldCopyIsKilledWhenItsWorkerIsHeardAgain(t *testing.T) {
	for name, heard := range map[string]func(*fakeWorker, string){
		"it answers MasterChanged": func(fw *fakeWorker, id string) { fw.schedulerDrivers(id) },
		"it registers again":       func(fw *fakeWorker, id string) { fw.register(); fw.latestDrivers(id) },
		"it sends a heartbeat": func(fw *fakeWorker, id string) {
			fw.heartbeat()
			wantLen(fw.w.t, "ReconnectWorker", pushed[*sparkmsg.ReconnectWorker](fw.conn), 1)
			fw.register()
			fw.latestDrivers(id)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			old := w.joined(1)
			id := w.submitted(supervised)
			w.beating = nil // partitioned
			w.net.reach[old.addr] = ProbeUnreachable
			w.advance(61 * time.Second)
			old.wantState(fsm.WorkerDead)
			next := w.joined(2)
			successor := w.wantDriver(id, fsm.DriverStateRelaunching).Successor
			w.wantDriver(successor, fsm.DriverStateRunning)
			old.online()
			heard(old, id)
			old.wantState(fsm.WorkerAlive)
			kills := old.driverKills()
			if len(kills) == 0 || kills[0].DriverID != id {
				t.Fatalf("the kills are %+v", kills)
			}
			old.driverEnds(id, sparkmsg.DriverKilled)
			w.wantDriver(id, fsm.DriverStateRelaunching)
			w.wantDriver(successor, fsm.DriverStateRunning)
			wantLen(t, "launches of the successor", next.driverLaunches(), 1)
		})
	}
}

// spark.raftmaster.driver.relaunchDelay trades time for safety; nothing but a timer ends the wait.
func TestG45_RelaunchWaitsForItsDelay(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.RelaunchDelay = 20 * time.Second })
	fw := w.joined(1)
	id := w.submitted(supervised)
	next := w.joined(2)
	w.net.reach[fw.addr] = ProbeRefused
	fw.close()
	successor := w.wantDriver(id, fsm.DriverStateRelaunching).Successor
	w.advance(19 * time.Second)
	w.wantDriver(successor, fsm.DriverStateSubmitted)
	w.advance(2 * time.Second)
	w.wantDriver(successor, fsm.DriverStateRunning)
	wantLen(t, "launches", next.driverLaunches(), 1)
}

// G-44: the pause of a crash loop ends by a timer as well.
func TestG44_ApplicationInACrashLoopIsServedAfterItsPause(t *testing.T) {
	w := newWorld(t)
	fw := w.joined(1)
	a := w.joinedApp(1, maxCores(1))
	for i := range int32(3) {
		fw.report(a.id, i, sparkmsg.ExecutorRunning, nil)
		fw.report(a.id, i, sparkmsg.ExecutorFailed, nil)
	}
	wantLen(t, "launches during the pause", fw.launches(), 3)
	w.advance(2 * time.Second)
	wantLen(t, "launches after it", fw.launches(), 4)
}

// G-36: a lost KillDriver is repeated until the worker says that the driver has ended, also by the next leader.
func TestG36_KillIsRepeatedUntilTheWorkerAnswers(t *testing.T) {
	w := newWorld(t)
	fw := w.joined(1)
	id := w.submitted()
	w.killDriver(id)
	w.advance(killRepeat + 2*time.Second)
	wantLen(t, "KillDriver", fw.driverKills(), 2)
	w.beating = nil
	fw.close() // nothing is queued for whoever comes up at its address
	delete(w.net.reach, fw.addr)
	w.advance(killRepeat)
	wantLen(t, "KillDriver without a connection", fw.driverKills(), 2)
	w.failover()
	fw.online()
	before := len(fw.driverKills())
	fw.schedulerDrivers(id)
	w.advance(2 * time.Second)
	if len(fw.driverKills()) == before {
		t.Error("the next leader does not ask")
	}
	fw.driverEnds(id, sparkmsg.DriverKilled)
	before = len(fw.driverKills())
	w.advance(2 * killRepeat)
	wantLen(t, "KillDriver after the end", fw.driverKills()[before:], 0)
	w.wantDriver(id, fsm.DriverStateKilled)
}

// B-042, G-35: lists work both ways. A driver that its worker no longer has has ended, whatever became of the report.
func TestB042_G35_ListsOfDriversBothWays(t *testing.T) {
	w := newWorld(t)
	fw := w.joined(1)
	stays, gone, again := w.submitted(), w.submitted(), w.submitted(supervised)
	fw.register()
	fw.latestDrivers(stays, "driver-stranger")
	w.wantDriver(stays, fsm.DriverStateRunning)
	w.wantDriver(gone, fsm.DriverStateError)
	if s := w.wantDriver(again, fsm.DriverStateRelaunching).Successor; s == "" {
		t.Error("the supervised driver has no successor")
	}
	stranger := 0
	for _, k := range fw.driverKills() {
		if k.DriverID == "driver-stranger" {
			stranger++
		}
		if k.DriverID == stays {
			t.Error("a driver that is in the books was killed")
		}
	}
	if stranger != 1 {
		t.Errorf("the stranger was killed %d times", stranger)
	}
}

// A list that was made before a launch ends nothing.
func TestListMadeBeforeALaunchEndsNoDriver(t *testing.T) {
	w := newWorld(t)
	fw := w.joined(1)
	w.net.receipts[fw.addr] = false
	id := w.submitted()
	fw.latestDrivers() // answers the registration, which was before the launch
	w.wantDriver(id, fsm.DriverStateRunning)
	wantLen(t, "launches", fw.driverLaunches(), 1)
}

// A list after the launch, on the same connection: the worker has read the launch, or could not read it. It is not
// started under the same id again.
func TestListBehindALaunchEndsADriverThatItDoesNotName(t *testing.T) {
	w := newWorld(t)
	fw := w.joined(1)
	w.net.receipts[fw.addr] = false
	id := w.submitted()
	fw.register()
	fw.latestDrivers()
	w.wantDriver(id, fsm.DriverStateError)
	wantLen(t, "launches", fw.driverLaunches(), 1)
}

// A list on another connection than the launch proves nothing while the launch may be on its way. After its time the
// driver waits again, under its own id: nobody has seen it.
func TestListOnAnotherConnectionEndsNoDriverBeforeItsTime(t *testing.T) {
	w := newWorld(t)
	fw := w.joined(1)
	w.net.receipts[fw.addr] = false
	id := w.submitted()
	fw.conn = w.conn(fw.addr)
	fw.register()
	fw.latestDrivers()
	w.wantDriver(id, fsm.DriverStateRunning)
	w.advance(runningTimeout + time.Second)
	fw.schedulerDrivers()
	w.wantDriver(id, fsm.DriverStateSubmitted)
	w.advance(w.core.lease() + 10*time.Millisecond)
	w.wantDriver(id, fsm.DriverStateRunning)
	wantLen(t, "launches", fw.driverLaunches(), 2)
}

// A worker never says that a driver runs. One that could not read the launch is asked for its list.
func TestDriverThatIsNeverListedIsAskedFor(t *testing.T) {
	w := newWorld(t)
	fw := w.joined(1)
	listed, unread := w.submitted(), w.submitted()
	before := len(got[*sparkmsg.MasterChanged](w.net, fw.addr))
	w.advance(runningTimeout + time.Second)
	if len(got[*sparkmsg.MasterChanged](w.net, fw.addr)) == before {
		t.Fatal("the worker was not asked for its list")
	}
	fw.schedulerDrivers(listed)
	w.wantDriver(listed, fsm.DriverStateRunning)
	w.wantDriver(unread, fsm.DriverStateError)
	before = len(got[*sparkmsg.MasterChanged](w.net, fw.addr))
	w.advance(2 * runningTimeout)
	wantLen(t, "questions after the list", got[*sparkmsg.MasterChanged](w.net, fw.addr)[before:], 0)
}

// What waits for a connection may reach another process: a driver is not launched on a worker without one.
func TestS19_DriverOfAWorkerWithoutAConnectionWaitsAgain(t *testing.T) {
	w := newWorld(t)
	fw := w.joined(1)
	w.held = true
	id := ""
	w.core.Ask(nil, nil, &sparkmsg.RequestSubmitDriver{DriverDescription: bound(t, driverDesc(), sparkmsg.FamilyE)},
		func(m sparkmsg.Message, _ error) { id = *m.(*sparkmsg.SubmitDriverResponse).DriverID })
	w.core.Applied(w.commit(w.take()...)) // the submission; its placement is on the way
	w.net.attached[fw.addr] = false
	delete(w.net.reach, fw.addr)
	w.core.ConnClosed(fw.addr, true)
	w.held = false
	w.settle()
	wantLen(t, "launches", fw.driverLaunches(), 0)
	w.wantDriver(id, fsm.DriverStateSubmitted)
	w.joined(2)
	w.wantDriver(id, fsm.DriverStateRunning)
}

// S19: a leader without its lease launches and kills nothing; the next one does, under the same id.
func TestS19_NothingIsLaunchedWithoutTheLease(t *testing.T) {
	w := newWorld(t)
	fw := w.joined(1)
	id := w.submitted()
	oldLaunches := len(fw.driverLaunches())
	waits := w.submitted(driverSize(4, 1024))
	fw.driverEnds(id, sparkmsg.DriverFinished) // frees the worker for the second one
	if len(fw.driverLaunches()) != oldLaunches+1 {
		t.Fatal("the second driver was not launched")
	}
	third := w.submitted(driverSize(4, 1024))
	*w.lease = false
	old, oldNet := w.core, w.net
	old.OneWay(fw.conn, &fw.addr, famE, &sparkmsg.DriverStateChanged{DriverID: waits, State: sparkmsg.DriverFinished})
	w.settle()
	if l := got[*sparkmsg.LaunchDriver](oldNet, fw.addr); len(l) != oldLaunches+1 {
		t.Errorf("%d launches without a lease", len(l)-oldLaunches-1)
	}
	w.failover()
	fw.online()
	fw.schedulerDrivers()
	w.wantDriver(third, fsm.DriverStateRunning)
	wantLen(t, "launches by the next leader", fw.driverLaunches(), 1)
}

// G-12, S17: what waited before a take-over waits after it, under the same ids and in the same order.
func TestG12_S17_QueuedDriversSurviveInOrder(t *testing.T) {
	w := newWorld(t)
	var ids []string
	for range 5 {
		ids = append(ids, w.submitted(driverSize(4, 1024)))
	}
	w.failover()
	fw := w.joined(1)
	for i, id := range ids {
		launches := fw.driverLaunches()
		wantLen(t, fmt.Sprintf("launches before the end of driver %d", i), launches, i+1)
		if launches[i].DriverID != id {
			t.Errorf("launch %d is %s, want %s", i, launches[i].DriverID, id)
		}
		fw.driverEnds(id, sparkmsg.DriverFinished)
	}
}

// A driver whose launch died with the last leader: with a receipt and unlisted it has ended. Without a receipt the launch
// may still arrive, as long as the last leader's kernel tries: only then is it placed again, under its own id.
func TestTakeOver_UnlistedDriverWithAndWithoutReceipt(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Lease = time.Second })
	fw := w.joined(1)
	received := w.submitted()
	w.net.receipts[fw.addr] = false
	lost := w.submitted()
	w.failover(func(c *Config) { c.Lease = time.Second })
	fw.online()
	fw.schedulerDrivers()
	w.wantDriver(received, fsm.DriverStateError)
	w.advance(lateMessages - time.Second)
	w.wantDriver(lost, fsm.DriverStateRunning)
	wantLen(t, "launches while the first one may arrive", fw.driverLaunches(), 0)
	w.advance(2 * time.Second)
	fw.schedulerDrivers()
	w.wantDriver(lost, fsm.DriverStateSubmitted)
	w.advance(1100 * time.Millisecond)
	w.wantDriver(lost, fsm.DriverStateRunning)
	wantLen(t, "launches", fw.driverLaunches(), 1)
}

// The same launch, when it arrives late: the worker lists it, and the driver is not started anywhere else.
func TestTakeOver_LateLaunchIsTheOnlyOne(t *testing.T) {
	w := newWorld(t)
	fw := w.joined(1)
	w.net.receipts[fw.addr] = false
	id := w.submitted()
	w.failover()
	fw.online()
	fw.schedulerDrivers()
	w.advance(lateMessages + time.Second)
	fw.schedulerDrivers(id)
	w.advance(5 * time.Second)
	w.wantDriver(id, fsm.DriverStateRunning)
	wantLen(t, "launches by the next leader", fw.driverLaunches(), 0)
	wantLen(t, "kills", fw.driverKills(), 0)
}

// A worker that cannot read the launches of a driver's release says nothing at all. A supervised driver does not come
// back to it for ever.
func TestSupervisedDriverIsNotRelaunchedWhereItCannotBeRead(t *testing.T) {
	w := newWorld(t)
	silent := w.joined(1)
	id := w.submitted(supervised)
	w.advance(runningTimeout + time.Second)
	silent.schedulerDrivers()
	d := w.wantDriver(id, fsm.DriverStateRelaunching)
	w.advance(2 * time.Minute)
	w.wantDriver(d.Successor, fsm.DriverStateSubmitted)
	wantLen(t, "launches on the silent worker", silent.driverLaunches(), 1)
	other := w.joined(2)
	w.wantDriver(d.Successor, fsm.DriverStateRunning)
	wantLen(t, "launches on the other worker", other.driverLaunches(), 1)
}

// S37: a driver that ended while nobody led: its worker's list wins.
func TestS37_DriverThatEndedWithoutALeader(t *testing.T) {
	w := newWorld(t)
	fw := w.joined(1)
	plain, kept, runs := w.submitted(), w.submitted(supervised), w.submitted()
	w.failover()
	fw.online()
	fw.schedulerDrivers(runs)
	w.wantDriver(plain, fsm.DriverStateError)
	w.wantDriver(runs, fsm.DriverStateRunning)
	next := w.wantDriver(kept, fsm.DriverStateRelaunching).Successor
	w.wantDriver(next, fsm.DriverStateRunning)
	if used := fw.entry().CoresUsed; used != 2 {
		t.Errorf("%d cores are booked, want 2", used)
	}
}

// A launch that finds no connection is taken back. Where the worker has been removed meanwhile, that is no word of the
// worker's and does not bring it back.
func TestS19_LaunchThatIsTakenBackRevivesNobody(t *testing.T) {
	w := newWorld(t)
	fw := w.joined(1)
	w.held = true
	w.core.Ask(nil, nil, &sparkmsg.RequestSubmitDriver{DriverDescription: bound(t, driverDesc(), sparkmsg.FamilyE)},
		func(sparkmsg.Message, error) {})
	w.core.Applied(w.commit(w.take()...)) // the submission; its placement is on the way
	w.net.reach[fw.addr] = ProbeRefused
	fw.close() // the removal of the worker is proposed behind the placement
	behind := w.take()
	w.core.Applied(w.commit(behind[0]))
	w.queue = append(behind[1:], w.queue...)
	w.held = false
	w.settle()
	fw.wantState(fsm.WorkerDead)
}

// Where taking a launch back cannot be committed, the worker's next list puts the driver back to the queue.
func TestS19_UncommittedReturnToTheQueueIsMadeGoodByTheNextList(t *testing.T) {
	w := newWorld(t)
	fw := w.joined(1)
	w.held = true
	id := ""
	w.core.Ask(nil, nil, &sparkmsg.RequestSubmitDriver{DriverDescription: bound(t, driverDesc(), sparkmsg.FamilyE)},
		func(m sparkmsg.Message, _ error) { id = *m.(*sparkmsg.SubmitDriverResponse).DriverID })
	w.core.Applied(w.commit(w.take()...)) // the submission; its placement is on the way
	w.net.attached[fw.addr] = false
	w.core.Applied(w.commit(w.take()...))
	w.fail(errors.New("the log cannot be written"))
	w.held = false
	w.wantDriver(id, fsm.DriverStateRunning)
	fw.register()
	fw.schedulerDrivers() // it was asked
	w.advance(time.Second)
	w.wantDriver(id, fsm.DriverStateRunning)
	wantLen(t, "launches", fw.driverLaunches(), 1)
}
