package server

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"raftmaster/cluster/sparkpeer"
	"raftmaster/fsm"
	"raftmaster/transport/frame"
	"raftmaster/transport/sparkmsg"
)

// runs waits until an application has n executors, all RUNNING, and returns their ids, sorted. It asks the leader and the
// workers, not the driver: news of executors that a dying leader owes to a driver may be lost without harm, because
// Spark's drivers only log them (StandaloneAppClient) and learn of executors from themselves.
func (c *cluster) runs(a *sparkpeer.App, n int) []int32 {
	c.t.Helper()
	var ids []int32
	eventuallyNil(c.t, "executors of "+a.ID(), func() error {
		l := c.findLeader()
		if l == nil {
			return errors.New("no leader")
		}
		ids = ids[:0]
		var wrong error
		l.server().State().ExecutorsOfApp(a.ID(), func(e *fsm.Executor) bool {
			ids = append(ids, int32(e.ID))
			if e.State != fsm.ExecutorRunning {
				wrong = fmt.Errorf("%s is %s", e.Key(), e.State)
			}
			return true
		})
		slices.Sort(ids)
		if wrong == nil && len(ids) != n {
			wrong = fmt.Errorf("it has %v, want %d", ids, n)
		}
		for _, id := range ids {
			if key := fmt.Sprintf("%s/%d", a.ID(), id); wrong == nil && !c.onWorker(key) {
				wrong = fmt.Errorf("%s is RUNNING in the state, and on no worker", key)
			}
		}
		return wrong
	})
	return ids
}

// unregister ends an application. A driver says so once; here it is said until it is heard, because a busy machine may
// change its leader at that very moment.
func (c *cluster) unregister(a *sparkpeer.App) {
	c.t.Helper()
	eventuallyNil(c.t, "the end of "+a.ID(), func() error {
		l := c.findLeader()
		if l == nil {
			return errors.New("no leader")
		}
		known, ok := l.server().State().Application(a.ID())
		if !ok || known.State.Finished() {
			return nil
		}
		a.Unregister()
		time.Sleep(20 * time.Millisecond)
		return fmt.Errorf("it is %s", known.State)
	})
}

// onWorker tells whether some worker runs an executor.
func (c *cluster) onWorker(key string) bool {
	return slices.ContainsFunc(c.workers, func(w *worker) bool {
		s, ok := w.Executors()[key]
		return ok && s == sparkmsg.ExecutorRunning
	})
}

// ended counts the executors of an application whose end was reported to it.
func ended(a *sparkpeer.App) int {
	n := 0
	for _, e := range a.Log().All() {
		if m, ok := e.Msg.(*sparkmsg.ExecutorUpdated); ok && m.State.Finished() {
			n++
		}
	}
	return n
}

// followed waits until workers and applications have come to a leader.
func (c *cluster) followed(l *member) {
	c.t.Helper()
	at := func(m frame.Address, ok bool) bool { return ok && m == l.address() }
	eventuallyNil(c.t, "everybody follows "+l.address().String(), func() error {
		for _, w := range c.workers {
			if m, ok := w.Master(); !w.gone && !at(m, ok) {
				return fmt.Errorf("worker %s is at %s", w.ID(), m)
			}
		}
		st, err := l.server().svc.Status(c.t.Context())
		if err != nil {
			return err
		}
		for _, a := range st.Awaited {
			if !a.Dead {
				return fmt.Errorf("%s %s is awaited", a.Kind, a.ID)
			}
		}
		return nil
	})
}

func TestEachApplicationRunsOnItsOwnRelease(t *testing.T) {
	t.Parallel()
	c := start(t, 3, nil)
	wb, we := c.readyWorker(sparkmsg.FamilyB, 4), c.readyWorker(sparkmsg.FamilyE, 4)
	ab, ae := c.readyApp(sparkmsg.FamilyB, 0), c.readyApp(sparkmsg.FamilyE, 0)
	for _, p := range []struct {
		a *sparkpeer.App
		w *worker
	}{{ab, wb}, {ae, we}} {
		c.runs(p.a, 4)
		for id, e := range p.a.Executors() {
			if e.WorkerID != p.w.ID() {
				t.Errorf("executor %d of %s is on %s, which is of another release", id, p.a.ID(), e.WorkerID)
			}
		}
	}
	// A worker that joins later is used at once, and only by its own.
	late := c.readyWorker(sparkmsg.FamilyE, 2)
	c.runs(ae, 6)
	if n := len(late.Executors()); n != 2 || len(ab.Executors()) != 4 {
		t.Errorf("the new worker runs %d executors, the other release's application has %d", n, len(ab.Executors()))
	}
	c.unregister(ab)
	eventually(t, "the workers of a finished application are free", func() bool { return wb.CoresUsed() == 0 })
}

// A leader dies while everything is quiet: everybody comes to the next one, and nothing else happens.
func TestLeaderDiesInSteadyState(t *testing.T) {
	t.Parallel()
	c := start(t, 3, shortFailover)
	c.readyWorker(sparkmsg.FamilyB, 3)
	c.readyWorker(sparkmsg.FamilyE, 3)
	apps := []*sparkpeer.App{c.readyApp(sparkmsg.FamilyB, 3), c.readyApp(sparkmsg.FamilyE, 3)}
	want := [][]int32{c.runs(apps[0], 3), c.runs(apps[1], 3)}
	rounds := 4
	if testing.Short() {
		rounds = 1
	}
	for range rounds {
		old := c.leader()
		old.kill()
		l := c.leader()
		if l == old {
			t.Fatal("a dead master leads")
		}
		c.followed(l)
		old.start()
	}
	c.settle()
	for i, a := range apps {
		if got := c.runs(a, 3); !slices.Equal(got, want[i]) {
			t.Errorf("%s has the executors %v, had %v", a.ID(), got, want[i])
		}
		if n := ended(a); n != 0 {
			t.Errorf("%s was told of the end of %d executors", a.ID(), n)
		}
		if a.Log().Count("RegisteredApplication") != 1 || a.Removed() != "" {
			t.Errorf("%s: %v", a.ID(), a.Log().Kinds())
		}
	}
}

// A leader that is told to stop hands over first: nobody has to look for a leader, and nothing ends.
func TestStopHandsOver(t *testing.T) {
	t.Parallel()
	c := start(t, 3, nil)
	w := c.readyWorker(sparkmsg.FamilyB, 2)
	a := c.readyApp(sparkmsg.FamilyB, 2)
	want := c.runs(a, 2)
	c.settle()
	old := c.leader()
	old.stop()
	l := c.leader()
	if l == old {
		t.Fatal("a stopped master leads")
	}
	c.followed(l)
	if got := c.runs(a, 2); !slices.Equal(got, want) || ended(a) != 0 || len(w.Executors()) != 2 {
		t.Errorf("executors %v, had %v", got, want)
	}
	// The next one too, and the last one stops although nobody is left to hand over to.
	old.start()
	c.followed(c.leader())
	for range c.masters {
		if l := c.findLeader(); l != nil {
			l.stop()
		}
	}
	for _, m := range c.masters {
		m.stop()
	}
	c.startAll()
	c.followed(c.leader())
	if got := c.runs(a, 2); !slices.Equal(got, want) || ended(a) != 0 {
		t.Errorf("after the stop of all: executors %v, had %v", got, want)
	}
}

// B-102, B-107, S18: whatever moment a leader dies in, a driver ends with one id, and there is one application for it.
func TestLeaderDiesDuringRegistration(t *testing.T) {
	t.Parallel()
	c := start(t, 3, shortFailover)
	rounds := 8
	if testing.Short() {
		rounds = 2
	}
	rng := rand.New(rand.NewPCG(3, 9))
	for i := range rounds {
		fam := []sparkmsg.Family{sparkmsg.FamilyB, sparkmsg.FamilyE}[i%2]
		old := c.leader()
		a := c.app(fam, 1, nil)
		c.worker(fam, 1, nil)
		time.Sleep(time.Duration(rng.Int64N(15_000)) * time.Microsecond) // a different moment of the registration each time
		old.kill()
		registered(t, a)
		old.start()
	}
	for _, a := range c.apps {
		c.runs(a, 1)
	}
	c.settle()
	n := 0
	c.leader().server().State().ActiveApplications(func(a *fsm.Application) bool {
		n++
		return true
	})
	if n != rounds {
		t.Errorf("%d applications are registered by %d drivers", n, rounds)
	}
}

// A leader dies between the launches of one application: in the end it has all its executors, and none was launched twice.
func TestLeaderDiesDuringLaunch(t *testing.T) {
	slow(t)
	t.Parallel()
	c := start(t, 3, shortFailover)
	c.worker(sparkmsg.FamilyB, 16, func(w *sparkpeer.WorkerConfig) { w.StartTime = 50 * time.Millisecond })
	c.worker(sparkmsg.FamilyB, 16, func(w *sparkpeer.WorkerConfig) { w.StartTime = 50 * time.Millisecond })
	for _, w := range c.workers {
		wait(t, w.Log(), "RegisteredWorker")
	}
	rng := rand.New(rand.NewPCG(3, 10))
	for range 5 {
		old := c.leader()
		a := c.app(sparkmsg.FamilyB, 0, nil)
		registered(t, a)
		time.Sleep(time.Duration(rng.Int64N(20_000)) * time.Microsecond) // before, between and after the launches
		old.kill()
		c.runs(a, 32)
		if len(a.IDs()) == 0 {
			t.Fatal("no id")
		}
		old.start()
		c.settle()
		c.unregister(a)
		eventually(t, "cores are free", func() bool { return c.workers[0].CoresUsed()+c.workers[1].CoresUsed() == 0 })
	}
}

// A whole cluster that is stopped, or killed, comes back with its applications, whatever the order of the starts.
func TestAllMastersStoppedAndStarted(t *testing.T) {
	t.Parallel()
	c := start(t, 3, shortFailover)
	c.readyWorker(sparkmsg.FamilyB, 2)
	a := c.readyApp(sparkmsg.FamilyB, 2)
	want := c.runs(a, 2)
	orders := [][3]int{{0, 1, 2}, {2, 1, 0}, {1, 2, 0}, {2, 0, 1}, {1, 0, 2}, {0, 2, 1}}
	if testing.Short() {
		orders = orders[1:2]
	}
	for i, order := range orders {
		for _, m := range c.masters {
			if i%2 == 0 {
				m.stop()
			} else {
				m.kill()
			}
		}
		for _, k := range order {
			c.masters[k].start()
		}
		c.followed(c.leader())
		if got := c.runs(a, 2); !slices.Equal(got, want) {
			t.Errorf("order %v: executors %v, had %v", order, got, want)
		}
	}
	if ended(a) != 0 || a.Log().Count("RegisteredApplication") != 1 {
		t.Errorf("the application noticed: %v", a.Log().Kinds())
	}
}
