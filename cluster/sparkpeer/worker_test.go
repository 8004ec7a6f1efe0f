package sparkpeer

import (
	"strings"
	"testing"
	"time"

	"raftmaster/transport/sparkmsg"
)

func TestWorkerRegistersHeartbeatsAndRunsExecutors(t *testing.T) {
	for _, fam := range []sparkmsg.Family{sparkmsg.FamilyA, sparkmsg.FamilyB, sparkmsg.FamilyC, sparkmsg.FamilyD, sparkmsg.FamilyE} {
		t.Run(fam.String(), func(t *testing.T) {
			m := newMaster(t, "127.0.0.1:0")
			m.fam = fam
			w := testWorker(t, func(c *WorkerConfig) { c.Family = fam }, m)
			waitFor(t, w.Log(), "RegisteredWorker")
			eventually(t, "heartbeats", func() bool { m.mu.Lock(); defer m.mu.Unlock(); return m.heartbeats[w.ID()] > 3 })
			eventually(t, "latest state", func() bool { return len(m.seen("WorkerLatestState")) == 1 })
			a := testApp(t, func(c *AppConfig) { c.Family = fam }, m)
			if _, err := a.WaitRegistered(patience); err != nil {
				t.Fatal(err)
			}
			reg := m.seen("RegisterApplication")[0].(*sparkmsg.RegisterApplication)
			launch := &sparkmsg.LaunchExecutor{MasterURL: m.url(), AppID: a.ID(), ExecID: 3, AppDesc: reg.AppDescription, Cores: 2, Memory: 512}
			m.ep.Send(w.Address(), "Worker", fam, launch)
			waitFor(t, w.Log(), DidReport)
			m.ep.Send(w.Address(), "Worker", fam, &sparkmsg.KillExecutor{MasterURL: m.url(), AppID: a.ID(), ExecID: 3})
			eventually(t, "two reports", func() bool { return len(m.seen("ExecutorStateChanged")) == 2 })
			var states []sparkmsg.ExecutorState
			for _, msg := range m.seen("ExecutorStateChanged") {
				states = append(states, msg.(*sparkmsg.ExecutorStateChanged).State)
			}
			if states[0] != sparkmsg.ExecutorRunning || states[1] != sparkmsg.ExecutorKilled {
				t.Errorf("states %v", states)
			}
			if n := len(w.Executors()); n != 0 {
				t.Errorf("%d executors left", n)
			}
		})
	}
}

// B-047: launches and kills that name another master are ignored.
func TestWorkerRefusesAWrongMaster(t *testing.T) {
	m := newMaster(t, "127.0.0.1:0")
	w := testWorker(t, nil, m)
	waitFor(t, w.Log(), "RegisteredWorker")
	a := testApp(t, nil, m)
	if _, err := a.WaitRegistered(patience); err != nil {
		t.Fatal(err)
	}
	desc := m.seen("RegisterApplication")[0].(*sparkmsg.RegisterApplication).AppDescription
	m.ep.Send(w.Address(), "Worker", m.fam, &sparkmsg.LaunchExecutor{MasterURL: "spark://other:7077", AppID: "a", AppDesc: desc, Cores: 1, Memory: 1})
	waitFor(t, w.Log(), DidRefuse)
	for range 2 {
		m.ep.Send(w.Address(), "Worker", m.fam, &sparkmsg.LaunchExecutor{MasterURL: m.url(), AppID: "a", AppDesc: desc, Cores: 1, Memory: 1})
	}
	waitFor(t, w.Log(), DidDuplicate)
	m.ep.Send(w.Address(), "Worker", m.fam, &sparkmsg.DecommissionWorker{})
	waitFor(t, w.Log(), DidDecommission)
	m.ep.Send(w.Address(), "Worker", m.fam, &sparkmsg.LaunchExecutor{MasterURL: m.url(), AppID: "a", ExecID: 7, AppDesc: desc, Cores: 1, Memory: 1})
	if err := w.Log().WaitCount(DidRefuse, 2, patience); err != nil {
		t.Fatal(err)
	}
}

// B-041, B-023, B-168: a worker registers again after a lost connection, first with all masters, then with its last one.
func TestWorkerFollowsItsMasters(t *testing.T) {
	m1, m2 := newMaster(t, "127.0.0.1:0"), newMaster(t, "127.0.0.1:0")
	m2.standby = true
	w := testWorker(t, nil, m1, m2)
	waitFor(t, w.Log(), "RegisteredWorker")
	waitFor(t, w.Log(), "MasterInStandby")
	mark := w.Log().Mark()
	m1.stop()
	if _, err := w.Log().WaitAfter(mark, DidLoseMaster, nil, patience); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Log().WaitAfter(mark, "MasterInStandby", nil, patience); err != nil {
		t.Fatal("did not ask all masters:", err)
	}
	m2.set(func() { m2.standby = false })
	m2.ep.Send(w.Address(), "Worker", m2.fam, &sparkmsg.MasterChanged{Master: m2.ref(), MasterWebUIURL: "http://m2"})
	eventually(t, "list", func() bool { return len(m2.seen("WorkerSchedulerStateResponse")) == 1 })
	eventually(t, "heartbeats", func() bool { return len(m2.seen("Heartbeat")) > 0 })
	if master, _ := w.Master(); master != m2.addr {
		t.Errorf("master is %v", master)
	}
	m2.ep.Send(w.Address(), "Worker", m2.fam, &sparkmsg.ReconnectWorker{MasterURL: m2.url()})
	eventually(t, "registration", func() bool { return w.Registered() })
}

func TestWorkerGivesUpOrIsRefused(t *testing.T) {
	m := newMaster(t, "127.0.0.1:0")
	m.silent = true
	w := testWorker(t, func(c *WorkerConfig) { c.RetryShort, c.RetryLong, c.MaxTries = time.Millisecond, time.Millisecond, 3 }, m)
	<-w.Exited()
	if e := waitFor(t, w.Log(), DidExit); !strings.Contains(e.Note, "unresponsive") {
		t.Error(e.Note)
	}
	m.set(func() { m.silent, m.refuse = false, "no" })
	w = testWorker(t, nil, m)
	<-w.Exited()
	if e := waitFor(t, w.Log(), DidExit); e.Note != "Worker registration failed: no" {
		t.Error(e.Note)
	}
}

func TestReportsAreRepeated(t *testing.T) {
	m := newMaster(t, "127.0.0.1:0")
	m.failAsks = 2
	w := testWorker(t, func(c *WorkerConfig) { c.AskTimeout = 20 * time.Millisecond; c.RunTime = time.Hour }, m)
	waitFor(t, w.Log(), "RegisteredWorker")
	a := testApp(t, nil, m)
	if _, err := a.WaitRegistered(patience); err != nil {
		t.Fatal(err)
	}
	desc := m.seen("RegisterApplication")[0].(*sparkmsg.RegisterApplication).AppDescription
	m.ep.Send(w.Address(), "Worker", m.fam, &sparkmsg.LaunchExecutor{MasterURL: m.url(), AppID: "a", ExecID: 1, AppDesc: desc, Cores: 1, Memory: 1})
	waitFor(t, w.Log(), DidReport)
	if n := w.Log().Count(DidReportFail); n != 2 {
		t.Errorf("%d failed reports", n)
	}
	w.EndExecutor("a", 1, 5)
	eventually(t, "exit", func() bool { return len(m.seen("ExecutorStateChanged")) == 4 })
	last := m.seen("ExecutorStateChanged")[3].(*sparkmsg.ExecutorStateChanged)
	if last.State != sparkmsg.ExecutorExited || *last.ExitStatus != 5 || *last.Message != "Command exited with code 5" {
		t.Errorf("%+v", last)
	}
}

func TestFaults(t *testing.T) {
	m := newMaster(t, "127.0.0.1:0")
	w := testWorker(t, nil, m)
	waitFor(t, w.Log(), "RegisteredWorker")
	count := func() int { m.mu.Lock(); defer m.mu.Unlock(); return m.heartbeats[w.ID()] }
	eventually(t, "heartbeats", func() bool { return count() > 0 })
	w.Faults().Mute.Store(true)
	time.Sleep(50 * time.Millisecond)
	before := count()
	time.Sleep(100 * time.Millisecond)
	if n := count(); n != before {
		t.Errorf("%d heartbeats of a mute worker", n-before)
	}
	w.Faults().Mute.Store(false)
	eventually(t, "heartbeats", func() bool { return count() > before })
	w.Faults().Frozen.Store(true)
	m.ep.Send(w.Address(), "Worker", m.fam, &sparkmsg.ApplicationFinished{ID: "a"}) // taken by the read under way
	m.ep.Send(w.Address(), "Worker", m.fam, &sparkmsg.ApplicationFinished{ID: "b"})
	time.Sleep(50 * time.Millisecond)
	frozen := w.Log().Count("ApplicationFinished")
	w.Faults().Frozen.Store(false)
	if err := w.Log().WaitCount("ApplicationFinished", 2, patience); err != nil {
		t.Error(err)
	}
	if frozen > 2 {
		t.Errorf("%d messages read while frozen", frozen)
	}
	w.CutConnection(m.addr)
	waitFor(t, w.Log(), DidLoseMaster)
	eventually(t, "second registration", func() bool { return w.Log().Count("RegisteredWorker") >= 2 })
}

func TestFleet(t *testing.T) {
	m := newMaster(t, "127.0.0.1:0")
	n := 300
	if testing.Short() {
		n = 60
	}
	cfg := FleetConfig{N: n, Worker: WorkerConfig{Heartbeat: 500 * time.Millisecond}}
	cfg.Worker.Masters = append(cfg.Worker.Masters, m.addr)
	cfg.Worker.Plain, cfg.Worker.Events = true, -1
	f, err := NewFleet(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.WaitRegistered(patience); err != nil {
		t.Fatal(err)
	}
	s := f.Sampler()
	hosts := map[string]bool{}
	for _, w := range f.Workers {
		hosts[w.Address().Host] = true
		eventually(t, "heartbeats of all", func() bool { m.mu.Lock(); defer m.mu.Unlock(); return m.heartbeats[w.ID()] > 1 })
	}
	if len(hosts) != n {
		t.Errorf("%d hosts for %d workers", len(hosts), n)
	}
	if r := s.Next(); r.Heartbeats <= 0 {
		t.Errorf("rates %+v", r)
	}
	if f.Counters.Registered.Load() < int64(n) {
		t.Errorf("%d registrations", f.Counters.Registered.Load())
	}
}
