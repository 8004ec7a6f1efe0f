package server

import (
	"errors"
	"slices"
	"testing"
	"time"

	"raftmaster/cluster/config"
	"raftmaster/cluster/sparkpeer"
	"raftmaster/transport/frame"
	"raftmaster/transport/sparkmsg"
)

// S37: executors end while nobody leads. The workers drop that news; their lists bring it to the next leader.
func TestExecutorsEndWhileNobodyLeads(t *testing.T) {
	t.Parallel()
	c := start(t, 3, nil)
	w1, w2 := c.readyWorker(sparkmsg.FamilyB, 2), c.readyWorker(sparkmsg.FamilyB, 2)
	a := c.readyApp(sparkmsg.FamilyB, 4)
	c.runs(a, 4)
	w1.Switches.NoReport.Store(true) // as the real worker does without a connection to a master
	w2.Switches.NoReport.Store(true)
	c.settle()
	l, other := c.leader(), c.standbys()[0]
	other.kill() // first, so that nobody can succeed the leader
	l.kill()
	var gone []string
	for _, w := range []*worker{w1, w2} {
		for key := range w.Executors() {
			id := int32(key[len(key)-1] - '0')
			w.EndExecutor(a.ID(), id, 137)
			gone = append(gone, key)
			break
		}
	}
	if l := c.findLeader(); l != nil {
		t.Fatalf("%s leads alone", l.address())
	}
	w1.Switches.NoReport.Store(false)
	w2.Switches.NoReport.Store(false)
	c.startAll()
	c.followed(c.leader())
	ids := c.runs(a, 4)
	if ids[2] != 4 || ids[3] != 5 {
		t.Errorf("executors %v after %v ended: two must be new", ids, gone)
	}
	eventually(t, "the driver knows of both ends", func() bool { return ended(a) == 2 })
	var s sparkState
	c.leader().into(t, "/json/", &s)
	if s.CoresUsed != 4 {
		t.Errorf("coresused %d", s.CoresUsed)
	}
}

// S24, S43: a worker dies together with the leader. Its executor is replaced on the other worker, whether or not the new
// leader has ever reached it.
func TestWorkerDiesWithItsLeader(t *testing.T) {
	slow(t)
	t.Parallel()
	c := start(t, 3, func(cfg *config.Config) {
		cfg.Deploy.WorkerTimeout, cfg.Deploy.RecoveryTimeout = 15*time.Second, 3*time.Second
	})
	w1 := c.readyWorker(sparkmsg.FamilyB, 1)
	a := c.readyApp(sparkmsg.FamilyB, 1)
	c.runs(a, 1)
	w2 := c.readyWorker(sparkmsg.FamilyB, 1)
	l := c.leader()
	w1.kill()
	l.kill()
	eventually(t, "a replacement on the other worker", func() bool { return len(w2.Executors()) == 1 })
	if got := c.runs(a, 1); got[0] != 1 {
		t.Errorf("the replacement is executor %d", got[0])
	}
	c.startAll()
}

// S41: workers and applications that are started before any master register as soon as there is a quorum.
func TestWorkersStartFirst(t *testing.T) {
	slow(t)
	t.Parallel()
	c := prepare(t, 3, nil)
	w := c.worker(sparkmsg.FamilyB, 1, nil)
	a := c.app(sparkmsg.FamilyB, 1, nil)
	c.startAll() // the quorum is formed under their eyes
	wait(t, w.Log(), "RegisteredWorker")
	registered(t, a)
	c.runs(a, 1)
	c.settle()
	for _, m := range c.masters {
		m.stop()
	}
	late := c.worker(sparkmsg.FamilyB, 1, nil)
	b := c.app(sparkmsg.FamilyB, 1, nil)
	c.masters[0].start()
	wait(t, late.Log(), "MasterInStandby") // one of three answers, and does not lead
	if status, body := c.masters[0].get("/leader"); status != 503 || late.Registered() || b.ID() != "" {
		t.Errorf("without a quorum: /leader %d %s, registered %v %q", status, body, late.Registered(), b.ID())
	}
	c.masters[1].start()
	wait(t, late.Log(), "RegisteredWorker")
	registered(t, b)
	c.runs(b, 1)
	c.followed(c.leader())
}

// S02: a worker that MasterChanged cannot reach comes by itself, and is used at once.
func TestWorkerComesByItself(t *testing.T) {
	slow(t)
	t.Parallel()
	c := start(t, 3, nil)
	w := c.readyWorker(sparkmsg.FamilyB, 1)
	w.Switches.NoList.Store(true) // MasterChanged is lost on it
	c.leader().kill()
	c.leader()
	c.startAll()
	a := c.readyApp(sparkmsg.FamilyB, 1)
	time.Sleep(50 * time.Millisecond)
	w.Switches.NoList.Store(false)
	c.runs(a, 1)
}

// R23, B-211: a standby tells workers that it is one and says nothing to applications; the order of the list does not matter.
func TestStandbysFirstInTheList(t *testing.T) {
	t.Parallel()
	c := start(t, 3, steadyFailover)
	l := c.leader()
	standbys := c.standbys()
	isStandby := func(a frame.Address) bool { return a == standbys[0].address() || a == standbys[1].address() }
	for at := range 3 {
		var order []frame.Address
		for i, k := 0, 0; i < 3; i++ {
			if i == at {
				order = append(order, l.address())
			} else {
				order = append(order, standbys[k].address())
				k++
			}
		}
		w := c.worker(sparkmsg.FamilyB, 1, func(cfg *sparkpeer.WorkerConfig) { cfg.Masters = order })
		a := c.app(sparkmsg.FamilyB, 1, func(cfg *sparkpeer.AppConfig) { cfg.Masters = order })
		wait(t, w.Log(), "RegisteredWorker")
		registered(t, a)
		if err := w.Log().WaitCount("MasterInStandby", 2, patience); err != nil {
			t.Fatal(err)
		}
		c.runs(a, 1)
		for _, e := range a.Log().All() {
			if e.Msg != nil && isStandby(e.From) {
				t.Errorf("the standby %s told an application %s", e.From, e.Kind)
			}
		}
		for _, e := range w.Log().All() {
			if e.Msg != nil && isStandby(e.From) != (e.Kind == "MasterInStandby") {
				t.Errorf("%s told a worker %s", e.From, e.Kind)
			}
		}
		if m, _ := w.Master(); m != l.address() {
			t.Errorf("the worker follows %s", m)
		}
	}
}

// S40: a master comes back at another address, which no worker or application has in its list. When it leads, it finds
// them, and they follow it.
func TestMovedMasterIsFollowed(t *testing.T) {
	slow(t)
	t.Parallel()
	c := start(t, 3, steadyFailover)
	w := c.readyWorker(sparkmsg.FamilyB, 2)
	a := c.readyApp(sparkmsg.FamilyB, 1)
	want := c.runs(a, 1)
	c.settle()
	moved := c.standbys()[0]
	moved.stop()
	host := newHost()
	list := slices.Clone(moved.cfg.Cluster)
	for i := range list {
		if list[i].Host == moved.cfg.Host {
			list[i].Host = host
		}
	}
	moved.cfg.Host, moved.cfg.AdvertiseHost, moved.cfg.PublicHost, moved.cfg.WebUIHost = host, host, host, host
	moved.cfg.Cluster = list
	moved.start()
	eventuallyNil(t, "the moved master leads", func() error {
		if leads(moved.server()) {
			return nil
		}
		l := c.findLeader()
		if l == nil {
			return errors.New("nobody leads")
		}
		_, err := l.server().node.TransferLeadership(t.Context(), moved.address().String())
		return err
	})
	c.followed(moved)
	if got := c.runs(a, 1); !slices.Equal(got, want) || ended(a) != 0 {
		t.Errorf("executors %v, had %v", got, want)
	}
	if ok, err := a.RequestExecutors(1); !ok || err != nil {
		t.Errorf("the application at the moved master: %v, %v", ok, err)
	}
	if m, _ := w.Master(); m.Host != host {
		t.Errorf("the worker follows %s", m)
	}
}
