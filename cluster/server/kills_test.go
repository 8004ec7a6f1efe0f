package server

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"raftmaster/cluster/sparkpeer"
	"raftmaster/fsm"
	"raftmaster/transport/sparkmsg"
)

// queue gives the ids of the active applications in queue order.
func (m *member) queue() []string {
	var ids []string
	m.server().State().ActiveApplications(func(a *fsm.Application) bool {
		ids = append(ids, a.ID)
		return true
	})
	return ids
}

// S16, S17, S18: leaders die one after the other, most of them before the one before has caught up again. In each round
// an application registers, as soon as it can. No id comes twice, and the queue is in the order of registration.
func TestManyLeaderKills(t *testing.T) {
	t.Parallel()
	c := start(t, 3, shortFailover)
	c.readyWorker(sparkmsg.FamilyB, 1)
	first := c.readyApp(sparkmsg.FamilyB, 1)
	c.runs(first, 1)
	rounds := leaderKills
	if testing.Short() {
		rounds = 3
	}
	ids := []string{first.ID()}
	for range rounds {
		old := c.leader()
		a := c.app(sparkmsg.FamilyB, 1, func(cfg *sparkpeer.AppConfig) { cfg.RegisterEvery = 50 * time.Millisecond })
		old.kill()
		ids = append(ids, registered(t, a))
		old.start()
	}
	if slices.Sort(ids); len(slices.Compact(ids)) != rounds+1 {
		t.Errorf("ids came twice: %v", ids)
	}
	c.settle()
	// What counts is the order of commit, which is that of the numbers in the ids: each registered after the one before.
	want := make([]string, len(c.apps))
	for i, a := range c.apps {
		want[i] = a.ID()
	}
	for _, m := range c.masters {
		if got := m.queue(); !slices.Equal(got, want) {
			t.Errorf("the queue of %s is\n%v, want\n%v", m.cfg.Advertise(), got, want)
		}
	}
	if got := c.runs(first, 1); got[0] != 0 || ended(first) != 0 {
		t.Errorf("the first application has executor %v now", got)
	}
	for i := range 3 { // a core becomes free: it goes to the next in the queue, over one more failover each
		old := c.leader()
		old.kill()
		c.followed(c.leader())
		old.start()
		c.unregister(c.apps[i])
		c.runs(c.apps[i+1], 1)
	}
}

// S05, S06: after a failover an application is RUNNING if it has executors, and WAITING if it has none.
func TestStatesAreTrueAfterFailover(t *testing.T) {
	t.Parallel()
	c := start(t, 3, nil)
	c.readyWorker(sparkmsg.FamilyE, 2)
	a := c.readyApp(sparkmsg.FamilyE, 2)
	c.runs(a, 2)
	b := c.readyApp(sparkmsg.FamilyE, 2)
	look := func() {
		t.Helper()
		eventuallyNil(t, "/json/ of the leader", func() error {
			var s sparkState
			c.leader().into(t, "/json/", &s)
			if len(s.ActiveApps) != 2 || s.CoresUsed != 2 {
				return fmt.Errorf("%+v", s)
			}
			if x := s.ActiveApps[0]; x.ID != a.ID() || x.State != "RUNNING" || x.Cores != 2 {
				return fmt.Errorf("first %+v", x)
			}
			if x := s.ActiveApps[1]; x.ID != b.ID() || x.State != "WAITING" || x.Cores != 0 {
				return fmt.Errorf("second %+v", x)
			}
			return nil
		})
	}
	look()
	c.leader().kill()
	c.followed(c.leader())
	look()
	c.startAll()
}

// S16: the number of an executor that ended before the failover is not given again after it.
func TestExecutorNumbersGoOnAfterFailover(t *testing.T) {
	slow(t)
	t.Parallel()
	c := start(t, 3, nil)
	c.readyWorker(sparkmsg.FamilyB, 2)
	w2 := c.readyWorker(sparkmsg.FamilyB, 1)
	a := c.readyApp(sparkmsg.FamilyB, 0)
	c.runs(a, 3)
	w2.kill()
	c.runs(a, 2)
	c.leader().kill()
	c.followed(c.leader())
	c.startAll()
	c.readyWorker(sparkmsg.FamilyB, 1)
	if got := c.runs(a, 3); got[2] != 3 {
		t.Errorf("the executors are %v, the new one must be 3", got)
	}
}

// G-13: the number of executors that an application has asked for outlives the leader that was asked.
func TestTargetsAreKept(t *testing.T) {
	slow(t)
	t.Parallel()
	c := start(t, 3, nil)
	w := c.readyWorker(sparkmsg.FamilyB, 8)
	none := int32(0)
	a := c.app(sparkmsg.FamilyB, 0, func(cfg *sparkpeer.AppConfig) { cfg.InitialLimit = &none })
	idle := c.app(sparkmsg.FamilyB, 0, func(cfg *sparkpeer.AppConfig) { cfg.InitialLimit = &none })
	registered(t, a)
	registered(t, idle)
	if ok, err := a.RequestExecutors(3); !ok || err != nil {
		t.Fatal(ok, err)
	}
	c.runs(a, 3)
	c.leader().kill()
	c.followed(c.leader())
	c.startAll()
	w.EndExecutor(a.ID(), 1, 1)
	eventually(t, "a replacement", func() bool { return slices.Equal(c.runs(a, 3), []int32{0, 2, 3}) })
	if n := len(c.runs(idle, 0)); n != 0 {
		t.Errorf("the idle application got %d executors", n)
	}
	// A lower target ends nothing by itself; what is killed after it is not replaced, here or by the next leader.
	if ok, err := a.RequestExecutors(2); !ok || err != nil {
		t.Fatal(ok, err)
	}
	if ok, err := a.KillExecutors("0"); !ok || err != nil {
		t.Fatal(ok, err)
	}
	c.leader().kill()
	c.followed(c.leader())
	c.startAll()
	if got := c.runs(a, 2); !slices.Equal(got, []int32{2, 3}) {
		t.Errorf("executors %v", got)
	}
}
