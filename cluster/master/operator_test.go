package master

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"raftmaster/fsm"
	"raftmaster/transport/sparkmsg"
)

// B-112: an operator's kill ends an application as KILLED, and its driver is told.
func TestB112_KillApplication(t *testing.T) {
	w := newWorld(t)
	fw := w.joined(1)
	a := w.joinedApp(1, maxCores(1))
	fw.runAll()
	kill := func(id string) (found bool, err error) {
		w.core.KillApplication(id, func(f bool, e error) { found, err = f, e })
		w.settle()
		return found, err
	}
	if found, err := kill(a.id); !found || err != nil {
		t.Fatalf("the kill gave %t, %v", found, err)
	}
	a.wantState(fsm.AppKilled)
	removed := got[*sparkmsg.ApplicationRemoved](w.net, a.addr)
	wantLen(t, "ApplicationRemoved", removed, 1)
	if removed[0].Message != "KILLED" {
		t.Errorf("the driver is told %q", removed[0].Message)
	}
	wantLen(t, "KillExecutor", fw.kills(), 1)
	for _, id := range []string{a.id, "app-unknown"} {
		if found, err := kill(id); found || err != nil {
			t.Errorf("the kill of %s gave %t, %v", id, found, err)
		}
	}
	if _, err := newStandby(t).killApplication("x"); refuses(err) == nil {
		t.Errorf("a standby answers %v", err)
	}
}

func (w *world) killApplication(id string) (found bool, err error) {
	w.core.KillApplication(id, func(f bool, e error) { found, err = f, e })
	w.settle()
	return found, err
}

func decommissionOn(c *Config) { c.DecommissionEnabled = true }

// B-065: hosts match without case, whatever the port, decommissioned workers included; each worker is told.
func TestB065_DecommissionHosts(t *testing.T) {
	w := newWorld(t, decommissionOn)
	one, two := w.joined(1), w.joined(2)
	ask := func(hosts ...string) int {
		n, failure := -1, error(nil)
		w.core.DecommissionHosts(hosts, func(got int, err error) { n, failure = got, err })
		w.settle()
		if failure != nil {
			t.Errorf("%v: %v", hosts, failure)
		}
		return n
	}
	if n := ask("HOST1", "nowhere", "host1"); n != 1 {
		t.Errorf("%d workers match, want 1", n)
	}
	one.wantState(fsm.WorkerDecommissioned)
	two.wantState(fsm.WorkerAlive)
	wantLen(t, "DecommissionWorker", got[*sparkmsg.DecommissionWorker](w.net, one.addr), 1)
	if n := ask("host1", "host2"); n != 2 {
		t.Errorf("%d workers match, want 2: one of them again", n)
	}
	if n := ask("nowhere"); n != 0 {
		t.Errorf("%d workers match nowhere", n)
	}
}

// B-066, G-42: what an application lost is planned again at once, elsewhere.
func TestG42_DecommissionByIDPlansAtOnce(t *testing.T) {
	w := newWorld(t, decommissionOn)
	one := w.joined(1)
	a := w.joinedApp(1, maxCores(1))
	one.runAll()
	two := w.joined(2)
	n := 0
	w.core.DecommissionWorkers([]string{one.id, one.id, "worker-unknown"}, func(got int, err error) { n = got })
	w.settle()
	if n != 1 {
		t.Errorf("%d workers match, want 1", n)
	}
	wantLen(t, "launches elsewhere", two.launches(), 1)
	wantLen(t, "executors", a.executors(), 2) // the old one runs on until it ends
}

// B-069, S33: while it is off nothing is marked: the worker would ignore the order and run on.
func TestS33_DecommissionThatIsOffIsRefused(t *testing.T) {
	w := newWorld(t)
	fw := w.joined(1)
	var off *DecommissionOffError
	var failure error
	w.core.DecommissionHosts([]string{"host1"}, func(_ int, err error) { failure = err })
	w.settle()
	if !errors.As(failure, &off) {
		t.Errorf("it is answered with %v", failure)
	}
	fw.wantState(fsm.WorkerAlive)
}

// A drained worker keeps what it runs and gets nothing new; the mark survives a failover.
func TestDrainedWorkerGetsNoNewWork(t *testing.T) {
	w := newWorld(t)
	fw := w.joined(1)
	runs := w.submitted()
	drain := func(on, idleOnly bool) (n int) {
		w.core.DrainWorkers([]string{fw.id}, on, idleOnly, func(got int, err error) { n = got })
		w.settle()
		return n
	}
	if n := drain(true, true); n != 0 {
		t.Errorf("a busy worker was drained although only idle ones were meant: %d", n)
	}
	if n := drain(true, false); n != 1 {
		t.Errorf("%d workers are drained, want 1", n)
	}
	w.wantDriver(runs, fsm.DriverStateRunning)
	waits := w.submitted()
	w.wantDriver(waits, fsm.DriverStateSubmitted)
	w.failover()
	fw.online()
	fw.schedulerDrivers(runs)
	w.wantDriver(waits, fsm.DriverStateSubmitted)
	drain(false, false)
	w.wantDriver(waits, fsm.DriverStateRunning)
}

func (w *world) unmark(workerID, appID string) (n int, err error) {
	n = -1
	w.core.UnmarkIncompatible(workerID, appID, func(got int, e error) { n, err = got, e })
	w.settle()
	return n, err
}

// S35: a worker that was marked for an application wrongly gets its executors again at an operator's word; so it does under
// the next leader, and the mark of another application stays.
func TestS35_OperatorUnmarksAPair(t *testing.T) {
	events := &recordingObserver{}
	w := newStandby(t)
	w.core.deps.Observer = events
	w.elect()
	fw := w.joined(1)
	one, two := w.joinedApp(1, maxCores(1)), w.joinedApp(2, maxCores(1))
	w.advance(31 * time.Second)
	fw.schedulerState() // lists neither executor
	for _, a := range []*fakeApp{one, two} {
		if got := a.entry().IncompatibleWorkers; len(got) != 1 {
			t.Fatalf("incompatible workers of %s are %v", a.id, got)
		}
		wantLen(t, "executors", a.executors(), 0)
	}
	for _, who := range [][2]string{{"worker-unknown", ""}, {fw.id, "app-unknown"}} {
		if n, err := w.unmark(who[0], who[1]); n != 0 || err != nil {
			t.Errorf("%v gave %d, %v", who, n, err)
		}
	}
	if n, err := w.unmark(fw.id, one.id); n != 1 || err != nil {
		t.Fatalf("the mark was taken back with %d, %v", n, err)
	}
	wantLen(t, "marks", one.entry().IncompatibleWorkers, 0)
	wantLen(t, "marks of the other application", two.entry().IncompatibleWorkers, 1)
	wantLen(t, "executors, at once", one.executors(), 1)
	if n, err := w.unmark(fw.id, ""); n != 1 || err != nil {
		t.Errorf("all marks were taken back with %d, %v", n, err)
	}
	wantLen(t, "executors, at once", two.executors(), 1)
	for _, what := range []string{"application " + one.id, "all applications and drivers"} {
		if text := "an operator lets work of " + what; strings.Count(events.text.String(), text) != 1 {
			t.Errorf("one event should say %q: %s", text, events.text.String())
		}
	}
	standby := newStandby(t)
	if _, err := standby.unmark("x", ""); refuses(err) == nil {
		t.Errorf("a standby answers %v", err)
	}
}

// S35: so does a worker that got no more drivers, which only this leader knows.
func TestS35_OperatorUnmarksDrivers(t *testing.T) {
	w := newWorld(t)
	fw := w.joined(1)
	id := w.submitted(supervised)
	w.advance(runningTimeout + time.Second)
	fw.schedulerDrivers()
	d := w.wantDriver(id, fsm.DriverStateRelaunching)
	w.advance(2 * time.Minute)
	w.wantDriver(d.Successor, fsm.DriverStateSubmitted)
	if got := w.core.Status().UnreadableDrivers[fw.id]; len(got) != 1 || got[0] != d.Families {
		t.Fatalf("the status has %v", got)
	}
	if n, err := w.unmark(fw.id, "app-unknown"); n != 0 || err != nil {
		t.Errorf("an application's mark was taken back with %d, %v", n, err)
	}
	w.wantDriver(d.Successor, fsm.DriverStateSubmitted)
	if n, err := w.unmark(fw.id, ""); n != 1 || err != nil {
		t.Errorf("the marks were taken back with %d, %v", n, err)
	}
	w.wantDriver(d.Successor, fsm.DriverStateRunning)
	wantLen(t, "drivers that do not start there", w.core.Status().UnreadableDrivers[fw.id], 0)
}

// The methods of Service reach the Core and come back, and end with it.
func TestServiceAnswersOtherFrontEnds(t *testing.T) {
	svc, p, stop := startService(t)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	svc.Deposed(1)
	if _, err := svc.KillDriver(ctx, "d"); refuses(err) == nil {
		t.Errorf("a standby answers with %v", err)
	}
	if svc.Ready() {
		t.Error("a standby is ready")
	}
	svc.Elected(1, "test")
	waitFor(t, "ready", svc.Ready)
	s, err := svc.SubmitDriver(ctx, driverDesc(), famE, "4.3.0")
	if err != nil || !s.Success {
		t.Fatalf("the submission gave %+v, %v", s, err)
	}
	if st, err := svc.DriverStatus(ctx, s.ID); err != nil || !st.Found || st.State != sparkmsg.DriverSubmitted {
		t.Errorf("the status is %+v, %v", st, err)
	}
	if k, err := svc.KillDriver(ctx, s.ID); err != nil || !k.Success {
		t.Errorf("the kill gave %+v, %v", k, err)
	}
	if k, err := svc.KillAllDrivers(ctx); err != nil || !k.Success {
		t.Errorf("the kill of all gave %+v, %v", k, err)
	}
	if found, err := svc.KillApplication(ctx, "x"); err != nil || found {
		t.Errorf("the kill of an application gave %t, %v", found, err)
	}
	if _, err := svc.DecommissionHosts(ctx, []string{"x"}); err == nil {
		t.Error("decommissioning is off and was done")
	}
	if _, err := svc.DecommissionWorkers(ctx, []string{"x"}); err == nil {
		t.Error("decommissioning is off and was done")
	}
	if n, err := svc.UnmarkIncompatible(ctx, "x", ""); err != nil || n != 0 {
		t.Errorf("nothing is held against nobody: %d, %v", n, err)
	}
	if n, err := svc.DrainWorkers(ctx, []string{"x"}, true, false); err != nil || n != 0 {
		t.Errorf("draining nobody gave %d, %v", n, err)
	}
	if err := svc.ClearCompleted(ctx); err != nil {
		t.Errorf("clearing failed: %v", err)
	}
	p.hold()
	done := make(chan error, 1)
	go func() {
		_, err := svc.KillAllDrivers(ctx)
		done <- err
	}()
	waitFor(t, "the command", func() bool { st, err := svc.Status(ctx); return err == nil && st.Pending > 0 })
	stop()
	if err := <-done; !errors.Is(err, ErrUnknownOutcome) {
		t.Errorf("a request on its way ended with %v", err)
	}
	if _, err := svc.KillDriver(ctx, s.ID); err == nil || svc.Ready() {
		t.Errorf("an ended service answers %v", err)
	}
}
