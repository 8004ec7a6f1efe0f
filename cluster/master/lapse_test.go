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
