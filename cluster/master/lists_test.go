package master

import (
	"errors"
	"testing"
	"time"

	"raftmaster/fsm"
	"raftmaster/transport/sparkmsg"
)

// betweenBookingAndLaunch registers an application and calls fn where the state machine holds the bookings of its
// executors and the leader service has not heard of them yet.
func (w *world) betweenBookingAndLaunch(a *fakeApp, fn func()) {
	w.t.Helper()
	called := false
	w.held = true
	a.register()
	for len(w.queue) > 0 {
		batch := w.queue
		w.queue = nil
		applied := w.commit(batch...)
		if _, placed := batch[0].(fsm.PlaceExecutors); placed && !called {
			called = true
			fn()
		}
		w.core.Applied(applied)
	}
	w.held = false
	w.settle()
	if !called {
		w.t.Fatal("nothing was placed")
	}
	a.id = a.ids()[0]
}

// The state machine is ahead of the leader service by a moment: a list that comes in between cannot name an executor whose
// launch is about to be sent. Were it ended, its launch would be followed by a kill and by another one under a new id.
func TestListBetweenABookingAndItsLaunchEndsNoExecutor(t *testing.T) {
	strangers := map[string]int{"with one that is not ours": 1}
	for name, list := range map[string]func(*fakeWorker){
		"after its registration":      func(fw *fakeWorker) { fw.latestState() },
		"as an answer":                func(fw *fakeWorker) { fw.schedulerState() },
		"twice":                       func(fw *fakeWorker) { fw.latestState(); fw.schedulerState() },
		"before it registers again":   func(fw *fakeWorker) { fw.latestState(); fw.register() },
		"with one that is not ours":   func(fw *fakeWorker) { fw.latestState(running("app-unknown", 3)) },
		"of a worker that then beats": func(fw *fakeWorker) { fw.latestState(); fw.heartbeat() },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			fw := w.worker(1)
			fw.register()
			a := w.app(1, maxCores(2))
			w.betweenBookingAndLaunch(a, func() { list(fw) })
			wantLen(t, "kills", fw.kills(), strangers[name])
			wantLen(t, "launches", fw.launches(), 2)
			fw.runAll()
			w.beating = append(w.beating, fw)
			w.advance(40 * time.Second)
			wantLen(t, "launches", fw.launches(), 2)
			if ids := a.executors(); len(ids) != 2 || ids[0] != 0 || ids[1] != 1 {
				t.Errorf("executors are %v, want 0 and 1", ids)
			}
			fw.register()
			fw.latestState(running(a.id, 1)) // a later list is taken at its word
			if ids := a.executors(); len(ids) != 2 || ids[0] != 1 || ids[1] != 2 {
				t.Errorf("executors are %v, want 1 and the replacement 2", ids)
			}
		})
	}
}

// What an earlier leader booked and no worker lists is ended, also by a list that has to wait for the leader service.
func TestListThatWaitsEndsWhatAnEarlierLeaderBooked(t *testing.T) {
	w := newWorld(t)
	fw := w.joined(1)
	w.net.receipts[fw.addr] = false
	a := w.joinedApp(1, maxCores(1))
	w.failover()
	fw.online()
	a.online()
	applied := w.commit(fsm.ConfirmApplication{Meta: w.meta(), AppID: a.id})
	fw.schedulerState()
	wantLen(t, "launches while the list waits", fw.launches(), 0)
	w.core.Applied(applied)
	w.settle()
	if ids := a.executors(); len(ids) != 1 || ids[0] != 1 {
		t.Errorf("executors are %v, want the replacement 1", ids)
	}
	wantLen(t, "launches", fw.launches(), 1)
}

// A launch that could not be sent, and whose end was not committed, is put back by the worker's next list.
func TestListEndsWhatWasBookedAndNeverSent(t *testing.T) {
	w := newWorld(t)
	fw := w.joined(1)
	a := w.app(1, maxCores(1))
	w.held = true
	a.register()
	for len(w.queue) > 0 {
		batch := w.queue
		w.queue = nil
		applied := w.commit(batch...)
		_, placed := batch[0].(fsm.PlaceExecutors)
		w.net.attached[fw.addr] = !placed
		w.core.Applied(applied)
		if placed {
			break
		}
	}
	w.fail(errors.New("no quorum"))
	w.held = false
	wantLen(t, "launches without a connection", fw.launches(), 0)
	wantLen(t, "executors booked", w.view().executorsOn(fw.id), 1)
	fw.register()
	fw.schedulerState()
	a.id = a.ids()[0]
	if ids := a.executors(); len(ids) != 1 || ids[0] != 1 {
		t.Errorf("executors are %v, want 1", ids)
	}
	if l := fw.launches(); len(l) != 1 || l[0].ExecID != 1 {
		t.Errorf("launches are %+v, want number 1", l)
	}
}

// A connection that closes while its worker's list waits is not forgotten over the list: the worker gets no work.
func TestConnectionThatClosesWhileAListWaits(t *testing.T) {
	w := newWorld(t)
	fw := w.joined(1)
	applied := w.commit(fsm.ClearCompleted{Meta: w.meta()})
	fw.register()
	fw.latestState()
	w.net.reach[fw.addr] = ProbeUnreachable
	fw.close()
	w.core.Applied(applied)
	w.settle()
	if soft := w.core.workers[fw.id]; soft.unreachableSince.IsZero() {
		t.Error("the worker counts as reachable")
	}
	w.joinedApp(1)
	wantLen(t, "launches", got[*sparkmsg.LaunchExecutor](w.net, fw.addr), 0)
}

// A list that waits when its leader is deposed says nothing to anybody.
func TestListThatWaitsDiesWithTheTerm(t *testing.T) {
	w := newWorld(t)
	fw := w.joined(1)
	a := w.joinedApp(1, maxCores(1))
	fw.runAll()
	applied := w.commit(fsm.ClearCompleted{Meta: w.meta()})
	fw.register()
	fw.latestState()
	old, _ := w.failover()
	old.Applied(applied)
	w.settle()
	wantLen(t, "executors", a.executors(), 1)
	wantLen(t, "lists", old.lists, 0)
}
