package worker

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"raftmaster/transport/sparkmsg"
	"raftmaster/transport/sparkrpc"
)

// B-018: all masters are asked at once, and those that are there get the registration.
func TestRegistersAtAllMastersInParallel_B018(t *testing.T) {
	b := newBench(t, nil)
	if asks := take[*sparkmsg.CheckExistence](b); len(asks) != 3 {
		t.Fatalf("%d masters were asked at the start, want 3", len(asks))
	} else {
		for _, a := range asks[1:] { // the first one does not answer at all
			a.answer(&sparkmsg.Boolean{Value: true}, nil)
		}
	}
	said := take[*sparkmsg.RegisterWorker](b)
	if len(said) != 2 || said[0].to != masterB || said[1].to != masterC {
		t.Fatalf("registrations: %+v", said)
	}
	m := said[0].msg.(*sparkmsg.RegisterWorker)
	if m.MasterAddress != masterB || m.ID != "worker-1" || m.Host != "w" || m.Port != 4000 || m.Cores != 8 || m.Memory != 4096 ||
		m.WorkerWebUIURL != "http://w:8081" || m.Worker.Name != "Worker" || *m.Worker.Address != selfAt {
		t.Errorf("registration %+v", m)
	}
}

// Who has a wrong address is told what is there, and after a first registration nobody is sent looking for a wrong port.
func TestAMasterThatIsNotThereIsExplained(t *testing.T) {
	for _, c := range []struct {
		err        error
		registered bool
		want, not  string
	}{
		{sparkrpc.ErrConnClosed, false, "7077 by default", "no master"},
		{sparkrpc.ErrConnClosed, true, "connection closed", "7077 by default"},
		{errors.New("refused"), false, "refused", "7077 by default"},
		{nil, false, "it is no master", "7077 by default"},
	} {
		var text strings.Builder
		b := newBench(t, nil)
		b.log = logger{hclog.New(&hclog.LoggerOptions{Output: &text})}
		b.link.known = c.registered
		for _, ask := range take[*sparkmsg.CheckExistence](b) {
			ask.answer(&sparkmsg.Boolean{}, c.err)
		}
		if said := text.String(); !strings.Contains(said, "Failed to connect to master a:7077") || !strings.Contains(said, c.want) || strings.Contains(said, c.not) {
			t.Errorf("%+v: %s", c, said)
		}
	}
}

// B-023: six short and ten long pauses; the process ends with 1 at attempt 17.
func TestRetrySchedule_B023(t *testing.T) {
	b := newBench(t, nil)
	b.answerExistence()
	var tries []time.Duration
	began := b.clock
	for b.exits == 0 && b.clock.Sub(began) < time.Hour {
		b.pass(time.Second)
		if n := len(take[*sparkmsg.RegisterWorker](b)); n > 0 && b.clock != began.Add(time.Second) {
			tries = append(tries, b.clock.Sub(began))
			if n != 3 {
				t.Errorf("attempt %d went to %d masters", len(tries), n)
			}
		}
	}
	if len(tries) != 16 || b.exitCode != 1 || b.exits != 1 {
		t.Fatalf("%d attempts, %d exits, code %d: %v", len(tries), b.exits, b.exitCode, tries)
	}
	for i, at := range tries {
		want := time.Duration(i+1) * 10 * time.Second
		if i >= 6 {
			want = time.Minute + time.Duration(i-5)*time.Minute
		}
		if at != want {
			t.Errorf("attempt %d at %v, want %v", i+1, at, want)
		}
	}
	if total := b.clock.Sub(began); total != time.Minute+11*time.Minute {
		t.Errorf("gave up after %v", total)
	}
}

// B-022: whatever arrives, there is one retry loop, and one question to a master at a time.
func TestNoSecondLoop_B022(t *testing.T) {
	b, c := registered(t, func(cfg *CoreConfig) { cfg.MasterPatience = -1 })
	b.Closed(c.id, false)
	for range 5 {
		b.OneWay(c, &masterA, &sparkmsg.ReconnectWorker{MasterURL: "spark://a:7077"})
		b.OneWay(&fakeConn{id: 9}, &masterB, &sparkmsg.MasterInStandby{})
		b.OneWay(c, &masterA, &sparkmsg.LaunchDriver{DriverID: "d"})
		b.Closed(c.id, false)
	}
	if n := len(take[*sparkmsg.CheckExistence](b)); n != 3 {
		t.Errorf("%d questions, want one to each master", n)
	}
	b.pass(10 * time.Second)
	if timers := b.timers.Len(); timers != 2 { // the heartbeat and the retry
		t.Errorf("%d timers run, want 2", timers)
	}
	if b.attempts != 1 {
		t.Errorf("%d attempts in one interval", b.attempts)
	}
}

// B-019 and G-39: one heartbeat timer however often it registers, the first beat at once, and none without contact.
func TestHeartbeat_B019(t *testing.T) {
	b := newBench(t, func(cfg *CoreConfig) { cfg.MasterPatience = -1 })
	c := &fakeConn{id: 1, peer: masterA}
	for range 4 {
		b.accept(c, masterA)
		b.OneWay(c, &masterA, &sparkmsg.MasterChanged{Master: ref(masterA)})
	}
	b.pass(0)
	if n := len(take[*sparkmsg.Heartbeat](b)); n != 1 {
		t.Errorf("%d heartbeats at the start", n)
	}
	b.pass(time.Minute)
	if n := len(take[*sparkmsg.Heartbeat](b)); n != 4 {
		t.Errorf("%d heartbeats in a minute, want 4", n)
	}
	b.Closed(c.id, false)
	b.pass(time.Minute)
	if n := len(take[*sparkmsg.Heartbeat](b)); n != 0 {
		t.Errorf("%d heartbeats without a master", n)
	}
	if b.prepared != 1 {
		t.Errorf("launches were prepared %d times", b.prepared)
	}
	if !c.trusted {
		t.Error("the master's connection keeps the limits of strangers")
	}
}

// B-020: a refusal ends a worker that is not registered, and only such a one.
func TestRegisterWorkerFailed_B020(t *testing.T) {
	b, c := registered(t, nil)
	b.OneWay(c, &masterB, &sparkmsg.RegisterWorkerFailed{Message: "no"})
	if b.exits != 0 {
		t.Fatal("a registered worker ended")
	}
	b = newBench(t, nil)
	b.answerExistence()
	b.OneWay(c, &masterA, &sparkmsg.RegisterWorkerFailed{Message: "no"})
	if b.exits != 1 || b.exitCode != 1 {
		t.Fatalf("%d exits, code %d", b.exits, b.exitCode)
	}
	b.OneWay(c, &masterA, &sparkmsg.RegisterWorkerFailed{Message: "no"})
	if b.exits != 1 {
		t.Error("it ended twice")
	}
}

// B-041: without work the worker registers again at once when its master is lost; the other masters are asked too.
func TestMasterLost_B041(t *testing.T) {
	b, c := registered(t, nil)
	b.Closed(77, false) // somebody else's connection
	if n := len(take[*sparkmsg.CheckExistence](b)); n != 0 {
		t.Fatal("the end of another connection counts")
	}
	b.Closed(c.id, false)
	if n := len(take[*sparkmsg.CheckExistence](b)); n != 3 {
		t.Errorf("%d masters asked, want 3", n)
	}
	if s := b.Status(); s.Connected || s.Registered || len(s.Problems) == 0 {
		t.Errorf("status %+v", s)
	}
}

// EXECUTOR trap: with children running, the worker waits for the next master to call before it registers by itself.
func TestWaitsForMasterChangedWithChildren(t *testing.T) {
	b, c := registered(t, nil)
	p := b.launch(c, "app", 0)
	p.started(1)
	b.answerReports(nil)
	b.Closed(c.id, false)
	b.pass(19 * time.Second)
	if n := len(take[*sparkmsg.CheckExistence](b)); n != 0 {
		t.Fatalf("%d questions before its patience ended", n)
	}
	b.OneWay(&fakeConn{id: 2, peer: masterB}, &masterB, &sparkmsg.MasterChanged{Master: ref(masterB)})
	b.pass(time.Hour)
	if n := len(take[*sparkmsg.CheckExistence](b)); n != 0 {
		t.Errorf("%d questions although the new master has called", n)
	}
	b.Closed(2, false)
	b.pass(21 * time.Second)
	if n := len(take[*sparkmsg.CheckExistence](b)); n != 3 {
		t.Errorf("%d masters were looked for after its patience", n)
	}
	b.OneWay(&fakeConn{id: 3, peer: masterA}, &masterA, &sparkmsg.MasterChanged{Master: ref(masterA)})
	b.pass(time.Minute)
	if n := len(take[*sparkmsg.RegisterWorker](b)); n != 0 {
		t.Errorf("%d registrations although the master that was found has called", n)
	}
	b.Closed(3, false)
	b.pass(23 * time.Second)
	if n := len(take[*sparkmsg.RegisterWorker](b)); n != 3 {
		t.Errorf("%d registrations at masters that do not call, want 3", n)
	}
}

// B-168: MasterChanged is answered with all that runs, on the connection that it came on, and ends the search.
func TestMasterChanged_B168(t *testing.T) {
	b, c := registered(t, nil)
	b.launch(c, "app", 3).started(1)
	d := b.launchDriver(c, "driver-1")
	d.started(2)
	b.answerReports(nil)
	b.Closed(c.id, false)
	b.said = nil
	b.OneWay(&fakeConn{id: 2, peer: sparkmsg.Address{Host: "alias", Port: 1}}, &masterB, &sparkmsg.MasterChanged{Master: ref(masterB), MasterWebUIURL: "http://b"})
	lists := take[*sparkmsg.WorkerSchedulerStateResponse](b)
	if len(lists) != 1 || lists[0].to.Host != "alias" {
		t.Fatalf("lists: %+v", lists)
	}
	m := lists[0].msg.(*sparkmsg.WorkerSchedulerStateResponse)
	if len(m.ExecResponses) != 1 || m.ExecResponses[0].Desc.AppID != "app" || m.ExecResponses[0].Desc.State != sparkmsg.ExecutorRunning ||
		m.ExecResponses[0].Desc.Cores != 2 || len(m.DriverResponses) != 1 || m.DriverResponses[0].DriverID != "driver-1" {
		t.Errorf("list %+v", m)
	}
	if s := b.Status(); !s.Connected || s.MasterURL != "spark://b:7077" || s.MasterWebURL != "http://b" {
		t.Errorf("status %+v", s)
	}
}

// B-042: after a registration the worker lists what runs; a duplicate one's list comes a little later, so that a master
// that is recovering can ask for its own first.
func TestLatestState_B042(t *testing.T) {
	b, c := registered(t, nil)
	b.launch(c, "app", 0).started(1)
	b.answerReports(nil)
	b.OneWay(c, &masterA, &sparkmsg.RegisteredWorker{Master: ref(masterA), MasterAddress: masterA})
	list := take[*sparkmsg.WorkerLatestState](b)
	if len(list) != 1 || len(list[0].msg.(*sparkmsg.WorkerLatestState).Executors) != 1 {
		t.Fatalf("lists: %+v", list)
	}
	b.OneWay(c, &masterA, &sparkmsg.RegisteredWorker{Master: ref(masterA), MasterAddress: masterA, Duplicate: true})
	if n := len(take[*sparkmsg.WorkerLatestState](b)); n != 0 {
		t.Error("the list after a duplicate registration came at once")
	}
	b.pass(lateListPause)
	if n := len(take[*sparkmsg.WorkerLatestState](b)); n != 1 {
		t.Errorf("%d lists after the pause", n)
	}
}

// B-044: spark.worker.preferConfiguredMasterAddress.
func TestReconnectAddress_B044(t *testing.T) {
	for _, prefer := range []bool{false, true} {
		b := newBench(t, func(cfg *CoreConfig) {
			cfg.PreferConfiguredMaster, cfg.Masters = prefer, []sparkmsg.Address{{Host: "alias", Port: 7077}}
		})
		b.answerExistence()
		c := &fakeConn{id: 1, peer: sparkmsg.Address{Host: "alias", Port: 7077}}
		b.OneWay(c, &masterA, &sparkmsg.RegisteredWorker{Master: ref(masterA), MasterAddress: sparkmsg.Address{Host: "alias", Port: 7077}})
		b.said = nil
		b.Closed(1, false)
		want := 2
		if prefer {
			want = 1
		}
		if n := len(take[*sparkmsg.CheckExistence](b)); n != want {
			t.Errorf("prefer %v: %d addresses tried, want %d", prefer, n, want)
		}
	}
}

// B-046: ReconnectWorker makes the worker register; from another master than the active one it does not.
func TestReconnectWorker_B046(t *testing.T) {
	b, c := registered(t, nil)
	b.OneWay(&fakeConn{id: 4}, &masterB, &sparkmsg.ReconnectWorker{MasterURL: "spark://b:7077"})
	if n := len(take[*sparkmsg.CheckExistence](b)); n != 0 {
		t.Error("it left its master because another one asked")
	}
	b.OneWay(c, &masterA, &sparkmsg.ReconnectWorker{MasterURL: "spark://a:7077"})
	if n := len(take[*sparkmsg.CheckExistence](b)); n != 3 {
		t.Errorf("%d masters asked", n)
	}
}

// A master that speaks for another one, and a late answer of a master that is not the active one, change nothing.
func TestIntroductionsAreChecked(t *testing.T) {
	b, _ := registered(t, nil)
	evil := sparkmsg.Address{Host: "evil", Port: 1}
	b.OneWay(&fakeConn{id: 5}, &evil, &sparkmsg.MasterChanged{Master: ref(masterB)})
	b.OneWay(&fakeConn{id: 5}, nil, &sparkmsg.MasterChanged{Master: ref(masterB)})
	b.OneWay(&fakeConn{id: 5}, &masterB, &sparkmsg.MasterChanged{})
	b.OneWay(&fakeConn{id: 5}, &masterB, &sparkmsg.RegisteredWorker{Master: ref(masterB)})
	if s := b.Status(); s.MasterURL != "spark://a:7077" {
		t.Errorf("its master is %s", s.MasterURL)
	}
}

// B-066: decommissioning by message and by signal; a new master is told, and nothing is launched any more.
func TestDecommission_B066(t *testing.T) {
	b, c := registered(t, nil)
	b.OneWay(&fakeConn{id: 5}, &masterB, &sparkmsg.DecommissionWorker{})
	if b.Status().Decommissioned {
		t.Fatal("a stranger decommissioned it")
	}
	b.DecommissionSignal()
	b.DecommissionSignal()
	if n := len(take[*sparkmsg.WorkerDecommissioning](b)); n != 1 {
		t.Errorf("%d messages for two signals", n)
	}
	b.OneWay(c, &masterA, launch("app", 0, masterA))
	if len(b.procs) != 0 {
		t.Fatal("a decommissioned worker launched an executor")
	}
	expect(t, "report of the refusal", b.answerReports(nil), "app/0 FAILED to a")
	b.OneWay(&fakeConn{id: 6, peer: masterB}, &masterB, &sparkmsg.MasterChanged{Master: ref(masterB)})
	if _, last := b.said[len(b.said)-1].msg.(*sparkmsg.WorkerDecommissioning); !last {
		t.Errorf("the new master heard %T last", b.said[len(b.said)-1].msg)
	}
	if said := take[*sparkmsg.WorkerDecommissioning](b); len(said) != 1 || said[0].to != masterB {
		t.Errorf("the new master was told %+v", said)
	}
	b, c = registered(t, func(cfg *CoreConfig) { cfg.DecommissionEnabled = false })
	b.OneWay(c, &masterA, &sparkmsg.DecommissionWorker{})
	if b.Status().Decommissioned {
		t.Error("it is decommissioned although that is not enabled")
	}
}
