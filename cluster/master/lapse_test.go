package master

import (
	"testing"
	"time"

	"raftmaster/fsm"
	"raftmaster/transport/sparkmsg"
)

// The lease lapsed for a moment and came back in the same term: nobody else has led, so that no take-over brings back
// what was dropped. Every peer is asked again, and what lists do not bring back is repeated.
func TestLapseOfTheLeaseIsMadeGood(t *testing.T) {
	w := newWorld(t)
	fw := w.joined(1)
	a := w.joinedApp(1, maxCores(2))
	fw.runAll()
	w.advance(time.Minute)
	// While the lease is over, an executor ends and is planned again: neither message is written.
	*w.lease = false
	w.core.Ask(nil, &fw.addr, &sparkmsg.ExecutorStateChanged{AppID: a.id, ExecID: 0, State: sparkmsg.ExecutorExited, ExitStatus: ptr[int32](1)},
		func(sparkmsg.Message, error) {})
	w.settle()
	if w.net.dropped == 0 {
		t.Fatal("nothing was dropped")
	}
	updates := len(a.updates())
	*w.lease = true
	w.core.PushesDropped()
	w.advance(2 * time.Second)
	for _, peer := range []sparkmsg.Address{fw.addr, a.addr} {
		if len(got[*sparkmsg.MasterChanged](w.net, peer)) == 0 {
			t.Errorf("%s was not called", peer.String())
		}
	}
	if len(a.updates()) == updates {
		t.Error("the end of the executor was not repeated to the driver")
	}
	fw.schedulerState(running(a.id, 1))
	a.acknowledge()
	if ids := a.executors(); len(ids) != 2 || ids[0] != 1 {
		t.Errorf("executors are %v, want 1 and a replacement", ids)
	}
	fw.wantState(fsm.WorkerAlive)
	for _, aw := range w.core.Status().Awaited {
		t.Errorf("still awaited: %+v", aw)
	}
	if launches := fw.launches(); launches[len(launches)-1].ExecID < 2 {
		t.Errorf("the replacement was not launched: %+v", launches[len(launches)-1])
	}
}

func TestLapseAtAStandbyMeansNothing(t *testing.T) {
	w := newStandby(t)
	w.core.PushesDropped()
	w.elect()
	w.advance(3 * time.Second)
	wantLen(t, "messages", w.net.order, 0)
}

// What is booked while messages are being dropped is never written: the list that every worker is about to be asked for
// puts it right. A launch beside it would start what that list ends.
func TestLapseOfTheLeaseLaunchesNothingBeforeTheLists(t *testing.T) {
	w := newWorld(t)
	fw := w.joined(1)
	w.held = true
	a := w.app(1, maxCores(1))
	a.register()
	var driver string
	w.core.Ask(nil, nil, &sparkmsg.RequestSubmitDriver{DriverDescription: bound(t, driverDesc(), sparkmsg.FamilyE)},
		func(m sparkmsg.Message, _ error) { driver = *m.(*sparkmsg.SubmitDriverResponse).DriverID })
	w.core.Applied(w.commit(w.take()...)) // both are known now, and their placements are on the way
	w.core.PushesDropped()
	w.held = false
	w.settle()
	wantLen(t, "executors booked", w.view().executorsOn(fw.id), 1)
	w.wantDriver(driver, fsm.DriverStateRunning)
	wantLen(t, "executor launches", fw.launches(), 0)
	wantLen(t, "driver launches", fw.driverLaunches(), 0)
	w.advance(2 * time.Second)
	fw.schedulerState()
	w.advance(2 * time.Second)
	if l := fw.launches(); len(l) != 1 || l[0].ExecID != 1 {
		t.Errorf("executor launches after the list are %+v, want number 1", l)
	}
	if l := fw.driverLaunches(); len(l) != 1 || l[0].DriverID != driver {
		t.Errorf("driver launches after the list are %+v", l)
	}
}

func (s state) executorsOn(worker string) (keys []fsm.ExecutorKey) {
	s.ExecutorsOfWorker(worker, func(e *fsm.Executor) bool {
		keys = append(keys, e.Key())
		return true
	})
	return keys
}
