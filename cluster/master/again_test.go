package master

import (
	"errors"
	"slices"
	"testing"
	"time"

	"raftmaster/fsm"
	"raftmaster/transport/sparkmsg"
)

// uncommitted lets Raft refuse what an event makes the master propose, and gives it time for another try.
func (w *world) uncommitted(event func()) {
	w.t.Helper()
	w.held = true
	event()
	if len(w.queue) == 0 {
		w.t.Fatal("nothing was proposed")
	}
	w.fail(errors.New("too many commands are in flight"))
	w.held = false
	w.advance(planRetry + time.Second)
}

func TestUncommittedDecommissionSignalIsProposedAgain(t *testing.T) {
	w := newWorld(t)
	fw := w.joined(1)
	w.uncommitted(func() { fw.say(&sparkmsg.WorkerDecommissioning{ID: fw.id, WorkerRef: fw.ref()}) })
	fw.wantState(fsm.WorkerDecommissioned)
}

// A driver says once that it is done, and is gone before anything can be done about it.
func TestUncommittedUnregistrationIsProposedAgain(t *testing.T) {
	w := newWorld(t)
	a := w.joinedApp(1)
	w.uncommitted(func() {
		a.say(&sparkmsg.UnregisterApplication{AppID: a.id})
		w.net.reach[a.addr] = ProbeFalse
		a.close()
	})
	a.wantState(fsm.AppFinished)
}

// The clocks of an application whose driver is known to be gone have two minutes to go, whichever way that became known.
func TestUncommittedEndOfAnApplicationWhoseDriverIsGoneIsProposedAgain(t *testing.T) {
	for name, gone := range map[string]func(*world, *fakeApp){
		"its connection closed": func(_ *world, a *fakeApp) { a.close() },
		"it says so itself": func(w *world, a *fakeApp) {
			w.net.asks[a.addr] = func(sparkmsg.Message) (sparkmsg.Message, error) { return &sparkmsg.Boolean{}, nil }
			w.advance(askEvery + 2*time.Second)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			a := w.joinedApp(1)
			w.net.reach[a.addr] = ProbeFalse
			w.uncommitted(func() {
				gone(w, a)
				if !w.core.gone[a.id] {
					t.Fatal("the driver is not known to be gone")
				}
			})
			a.wantState(fsm.AppFailed)
			if len(w.core.gone) > 0 {
				t.Errorf("%v are still remembered", w.core.gone)
			}
		})
	}
}

// A driver that is heard of before its end could be committed goes on.
func TestUncommittedEndOfAnApplicationWhoseDriverIsBackIsForgotten(t *testing.T) {
	w := newWorld(t)
	a := w.joinedApp(1)
	w.net.reach[a.addr] = ProbeFalse
	w.held = true
	a.close()
	w.fail(errors.New("too many commands are in flight"))
	w.held = false
	a.online()
	a.acknowledge()
	w.advance(planRetry + time.Second)
	a.wantState(fsm.AppWaiting)
	if len(w.core.gone) > 0 {
		t.Errorf("%v are still remembered", w.core.gone)
	}
}

// The clocks of a worker that is known to be gone have a minute to go.
func TestUncommittedRemovalOfAWorkerThatIsGoneIsProposedAgain(t *testing.T) {
	w := newWorld(t)
	fw := w.joined(1)
	w.beating = nil
	w.net.reach[fw.addr] = ProbeRefused
	w.uncommitted(fw.close)
	fw.wantState(fsm.WorkerDead)
}

// A worker lists what it runs when it is asked, and not again by itself.
func TestUncommittedListIsAskedForAgain(t *testing.T) {
	w := newWorld(t)
	fw := w.joined(1)
	a := w.joinedApp(1, maxCores(1))
	fw.runAll()
	fw.register()
	asked := len(got[*sparkmsg.MasterChanged](w.net, fw.addr))
	w.uncommitted(func() { fw.latestState() })
	if len(got[*sparkmsg.MasterChanged](w.net, fw.addr)) == asked {
		t.Fatal("the worker is not asked for its list again")
	}
	fw.schedulerState()
	if slices.Contains(a.executors(), 0) {
		t.Error("the executor that the worker does not list is still on its books")
	}
}

func TestUncommittedEndOfALaunchThatIsOverdueIsProposedAgain(t *testing.T) {
	w := newWorld(t)
	fw := w.joined(1)
	w.net.receipts[fw.addr] = false
	a := w.joinedApp(1, maxCores(1))
	wantLen(t, "launches", fw.launches(), 1)
	w.uncommitted(func() { w.advance(runningTimeout + time.Second) })
	if slices.Contains(a.executors(), 0) {
		t.Error("the executor whose launch was never received is still on the books")
	}
}

// A worker that has read a launch and does not list the driver has run it, or cannot: whichever of the commands that say so
// is not committed, the driver is not started once more under its id.
func TestUncommittedReceiptOfAListedLaunchStartsNoDriverAgain(t *testing.T) {
	for name, lost := range map[string]func(fsm.Command) bool{
		"the receipt": func(cmd fsm.Command) bool { _, is := cmd.(fsm.LaunchReceipts); return is },
		"the list":    func(cmd fsm.Command) bool { _, is := cmd.(fsm.ReconcileWorker); return is },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			fw := w.joined(1)
			w.net.receipts[fw.addr] = false
			id := w.submitted()
			fw.register()
			asked := len(got[*sparkmsg.MasterChanged](w.net, fw.addr))
			w.held = true
			fw.latestDrivers()
			failed := 0
			for len(w.queue) > 0 {
				batch := w.queue
				w.queue = nil
				for _, cmd := range batch {
					if lost(cmd) {
						w.core.ProposeFailed(cmd, errors.New("too many commands are in flight"))
						failed++
					} else {
						w.core.Applied(w.commit(cmd))
					}
				}
			}
			w.held = false
			if failed == 0 {
				t.Fatal("nothing was lost")
			}
			w.wantDriver(id, fsm.DriverStateRunning)
			w.advance(planRetry + w.core.lease() + time.Second)
			if len(got[*sparkmsg.MasterChanged](w.net, fw.addr)) == asked {
				t.Fatal("the worker is not asked for its list again")
			}
			fw.schedulerDrivers()
			w.wantDriver(id, fsm.DriverStateError)
			w.advance(w.core.lease() + time.Second)
			wantLen(t, "launches", fw.driverLaunches(), 1)
		})
	}
}
