package worker

import (
	"strings"
	"testing"
	"time"

	"raftmaster/transport/sparkmsg"
	"raftmaster/transport/sparkrpc"
)

// An executor from its launch to its end: accounts, states, reports in order, and what is forgotten.
func TestExecutorLife_B121(t *testing.T) {
	b, c := registered(t, nil)
	p := b.launch(c, "app", 0)
	if s := b.Status(); s.CoresUsed != 2 || s.MemoryUsedMB != 512 || s.Executors[0].State != "LAUNCHING" {
		t.Errorf("status %+v", s)
	}
	p.started(42)
	expect(t, "first report", b.answerReports(nil), "app/0 RUNNING to a")
	if s := b.Status(); s.Executors[0].PID != 42 || s.Executors[0].State != "RUNNING" {
		t.Errorf("status %+v", s)
	}
	p.ended(exited(0))
	expect(t, "last report", b.answerReports(nil), "app/0 EXITED to a")
	s := b.Status()
	if s.CoresUsed != 0 || s.MemoryUsedMB != 0 || len(s.Executors) != 0 || len(s.FinishedExecutors) != 1 || *s.FinishedExecutors[0].ExitCode != 0 {
		t.Errorf("status %+v", s)
	}
	if text := s.FinishedExecutors[0].App.Command; strings.Contains(text, "hush") || !strings.Contains(text, "x.Main") {
		t.Errorf("the command is shown as %s", text)
	}
	if len(b.forgot) != 0 {
		t.Error("the application's directories went before it was finished")
	}
	b.OneWay(c, &masterA, &sparkmsg.ApplicationFinished{ID: "app"})
	expect(t, "forgotten", strings.Join(b.forgot, " "), "app")
}

// The directories of an application stay until its last executor is gone.
func TestApplicationFinishedBeforeItsExecutors(t *testing.T) {
	b, c := registered(t, nil)
	p, q := b.launch(c, "app", 0), b.launch(c, "app", 1)
	b.OneWay(c, &masterA, &sparkmsg.ApplicationFinished{ID: "app"})
	p.ended(exited(1))
	if len(b.forgot) != 0 {
		t.Fatal("its directories went under a running executor")
	}
	q.ended(exited(1))
	expect(t, "forgotten", strings.Join(b.forgot, " "), "app")
}

// B-047: launches and kills of a master that is not the active one are refused; nobody is told.
func TestInvalidMaster_B047(t *testing.T) {
	b, c := registered(t, nil)
	b.OneWay(c, &masterA, launch("app", 0, masterB))
	b.OneWay(&fakeConn{id: 3}, &masterB, launch("app", 0, masterA))
	if len(b.procs) != 0 || b.reported() != "" {
		t.Fatalf("%d processes for an invalid master", len(b.procs))
	}
	p := b.launch(c, "app", 0)
	b.OneWay(c, &masterA, &sparkmsg.KillExecutor{MasterURL: "spark://b:7077", AppID: "app", ExecID: 0})
	b.OneWay(&fakeConn{id: 3}, &masterB, &sparkmsg.KillExecutor{MasterURL: "spark://a:7077", AppID: "app", ExecID: 0})
	b.OneWay(&fakeConn{id: 3}, &masterA, &sparkmsg.KillExecutor{MasterURL: "spark://a:7077", AppID: "app", ExecID: 0})
	if p.kills != 0 {
		t.Error("an invalid master killed an executor")
	}
	b.OneWay(c, &masterA, &sparkmsg.KillExecutor{MasterURL: "spark://a:7077", AppID: "app", ExecID: 0})
	if p.kills != 1 {
		t.Error("the active master's kill was refused")
	}
}

// A launch before any master has accepted the worker is nobody's.
func TestLaunchBeforeRegistration(t *testing.T) {
	b := newBench(t, nil)
	b.OneWay(&fakeConn{id: 1}, &masterA, launch("app", 0, masterA))
	b.OneWay(&fakeConn{id: 1}, &masterA, driverLaunch("d"))
	if len(b.procs) != 0 {
		t.Errorf("%d processes were started", len(b.procs))
	}
}

// The active master on a connection on which it has not introduced itself is made to do so.
func TestUnknownConnectionOfTheActiveMaster(t *testing.T) {
	b, c := registered(t, nil)
	other := &fakeConn{id: 2, peer: masterA}
	b.OneWay(other, &masterA, driverLaunch("d"))
	if len(b.procs) != 0 {
		t.Fatal("a driver was started")
	}
	b.accept(other, masterA)
	b.OneWay(other, &masterA, driverLaunch("d"))
	if len(b.procs) != 1 {
		t.Error("the driver is refused although the master has introduced itself")
	}
	b.Closed(c.id, true)
	if s := b.Status(); !s.Connected {
		t.Error("one of two connections ended, and the master counts as lost")
	}
}

// Two instances under one id: both are killed, and only the last end is reported.
func TestSameExecutorTwice(t *testing.T) {
	b, c := registered(t, nil)
	old, young := b.launch(c, "app", 0), b.launch(c, "app", 0)
	if b.Status().CoresUsed != 4 {
		t.Error("the second instance is not booked")
	}
	young.started(7)
	expect(t, "report", b.answerReports(nil), "app/0 RUNNING to a")
	old.ended(exited(255))
	expect(t, "report of the old instance", b.answerReports(nil), "")
	b.OneWay(c, &masterA, &sparkmsg.KillExecutor{MasterURL: "spark://a:7077", AppID: "app", ExecID: 0})
	if young.kills != 1 || old.kills != 0 {
		t.Errorf("kills: old %d, young %d", old.kills, young.kills)
	}
	young.ended(ExecutorEnd{State: sparkmsg.ExecutorKilled})
	expect(t, "report of the young instance", b.answerReports(nil), "app/0 KILLED to a")
}

// Ids that could leave the work directory, and launches that cannot be read, are FAILED with the reason.
func TestRefusedLaunchesAreReported_G34(t *testing.T) {
	b, c := registered(t, nil)
	for _, id := range []string{"..", "a/../../b", "", ".hidden", "a\x00b", strings.Repeat("x", 300)} {
		b.OneWay(c, &masterA, launch(id, 0, masterA))
	}
	bad := launch("app", 0, masterA)
	bad.AppDesc = nil
	b.OneWay(c, &masterA, bad)
	bad = launch("app2", 0, masterA)
	bad.AppDesc.Command.Unread = []string{"environment"}
	b.OneWay(c, &masterA, bad)
	if len(b.procs) != 0 {
		t.Fatalf("%d processes were started", len(b.procs))
	}
	if said := take[*sparkmsg.ExecutorStateChanged](b); len(said) != 8 {
		t.Errorf("%d refusals were reported, want 8", len(said))
	} else if m := said[7].msg.(*sparkmsg.ExecutorStateChanged); m.State != sparkmsg.ExecutorFailed || m.Message == nil || !strings.Contains(*m.Message, "environment") {
		t.Errorf("%+v", m)
	}
}

// B-128: a report is kept until a master has answered it, one at a time for each executor, across masters.
func TestReportsAreKept_B128(t *testing.T) {
	b, c := registered(t, nil)
	p := b.launch(c, "app", 0)
	p.started(1)
	p.ended(exited(3))
	expect(t, "while RUNNING is open", b.answerReports(sparkrpc.ErrTimeout), "app/0 RUNNING to a")
	b.pass(time.Second)
	expect(t, "again", b.answerReports(nil), "app/0 RUNNING to a")
	for range 40 { // for ever, not only maxAttempts times
		if got := b.answerReports(&sparkrpc.RemoteError{Text: "not leader"}); got != "app/0 EXITED to a" {
			t.Fatalf("report %q", got)
		}
		b.pass(lastReportPause)
	}
	if b.exits != 0 {
		t.Fatal("the worker gave up, and all its executors with it")
	}
	b.reported()
	b.Closed(c.id, false)
	b.pass(5 * time.Minute)
	expect(t, "without a master", b.reported(), "")
	b.OneWay(&fakeConn{id: 2, peer: masterB}, &masterB, &sparkmsg.MasterChanged{Master: ref(masterB)})
	expect(t, "to the new master", b.answerReports(nil), "app/0 EXITED to b")
	b.pass(time.Hour)
	expect(t, "after the answer", b.reported(), "")
	if _, reports := b.Drained(); reports != 0 {
		t.Errorf("%d reports are left", reports)
	}
}

// G-16: Spark's master answers a second RUNNING with a failure; the worker goes on to what comes next.
func TestRunningThatIsKnownAlready_G16(t *testing.T) {
	b, c := registered(t, nil)
	p := b.launch(c, "app", 0)
	p.started(1)
	for range runningTries {
		b.answerReports(&sparkrpc.RemoteError{Text: "state transfer from RUNNING to RUNNING is illegal"})
		b.pass(lastReportPause)
	}
	expect(t, "after its tries", b.reported(), "")
	p.ended(exited(0))
	expect(t, "the end", b.answerReports(nil), "app/0 EXITED to a")
}

// An answer to a report that was given up with its master counts for nothing.
func TestLateAnswerOfALostMaster(t *testing.T) {
	b, c := registered(t, nil)
	p := b.launch(c, "app", 0)
	p.ended(exited(0))
	old := take[*sparkmsg.ExecutorStateChanged](b)
	b.Closed(c.id, false)
	b.OneWay(&fakeConn{id: 2, peer: masterB}, &masterB, &sparkmsg.MasterChanged{Master: ref(masterB)})
	old[0].answer(nil, sparkrpc.ErrConnClosed)
	expect(t, "to the new master", b.answerReports(nil), "app/0 EXITED to b")
	b.pass(time.Hour)
	expect(t, "again", b.reported(), "")
}

// What is remembered of ended executors is bounded.
func TestFinishedExecutorsAreBounded(t *testing.T) {
	b, c := registered(t, nil)
	for i := range int32(100) {
		b.launch(c, "app", i).ended(exited(0))
		b.answerReports(nil)
		if n := len(b.Status().FinishedExecutors); n > 20 {
			t.Fatalf("%d ended executors are remembered", n)
		}
	}
	if list := b.Status().FinishedExecutors; list[len(list)-1].ID != 99 || len(list) < 18 {
		t.Errorf("%d are left, the last one is %d", len(list), list[len(list)-1].ID)
	}
}

// The end of the worker: everything is killed, executors are reported as FAILED, launches are ignored.
func TestStop(t *testing.T) {
	b, c := registered(t, nil)
	p := b.launch(c, "app", 0)
	p.started(1)
	d, s := b.launchDriver(c, "driver-1"), b.launchDriver(c, "driver-2")
	b.findDriver("driver-2").supervise = true
	b.answerReports(nil)
	b.Stop()
	b.Stop()
	if p.kills != 1 || d.kills != 1 || s.kills != 1 {
		t.Errorf("kills: %d %d %d", p.kills, d.kills, s.kills)
	}
	b.OneWay(c, &masterA, launch("app", 1, masterA))
	b.OneWay(c, &masterA, driverLaunch("driver-3"))
	if len(b.procs) != 3 {
		t.Error("a worker that ends launched something")
	}
	status := int32(143)
	p.ended(ExecutorEnd{State: sparkmsg.ExecutorKilled, ExitStatus: &status})
	d.over(DriverEnd{State: sparkmsg.DriverKilled})
	s.over(DriverEnd{State: sparkmsg.DriverKilled})
	said := take[*sparkmsg.ExecutorStateChanged](b)
	if len(said) != 1 {
		t.Fatalf("%d reports", len(said))
	}
	m := said[0].msg.(*sparkmsg.ExecutorStateChanged)
	if m.State != sparkmsg.ExecutorFailed || *m.Message != "Worker shutting down" || *m.ExitStatus != 143 {
		t.Errorf("report %+v", m)
	}
	news := take[*sparkmsg.DriverStateChanged](b)
	if len(news) != 1 || news[0].msg.(*sparkmsg.DriverStateChanged).DriverID != "driver-1" {
		t.Errorf("the end of the supervised driver was reported: %+v", news)
	}
	if processes, reports := b.Drained(); processes != 0 || reports != 2 {
		t.Errorf("%d processes and %d reports are left", processes, reports)
	}
}

// Old directories are cleaned at each interval.
func TestCleanup(t *testing.T) {
	b, _ := registered(t, func(cfg *CoreConfig) { cfg.CleanupInterval = 30 * time.Minute })
	b.pass(2 * time.Hour)
	if b.cleaned != 4 {
		t.Errorf("%d passes in two hours, want 4", b.cleaned)
	}
}
