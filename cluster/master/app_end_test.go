package master

import (
	"testing"
	"time"

	"raftmaster/fsm"
	"raftmaster/transport/sparkmsg"
)

func TestB110_UnregisterApplicationFinishesIt(t *testing.T) {
	w := newWorld(t)
	fw := w.joined(1)
	a := w.joinedApp(1)
	fw.runAll()
	a.say(&sparkmsg.UnregisterApplication{AppID: a.id})
	a.wantState(fsm.AppFinished)
	wantLen(t, "ApplicationRemoved after a clean end", got[*sparkmsg.ApplicationRemoved](w.net, a.addr), 0)
	wantLen(t, "kills", fw.kills(), 4)
	a.say(&sparkmsg.UnregisterApplication{AppID: "app-nobody"})
	a.say(&sparkmsg.UnregisterApplication{AppID: a.id})
	wantLen(t, "FinishApplication commands", committed[fsm.FinishApplication](w), 1)
	// B-118: after its stop the driver's process ends; nothing more follows from that.
	a.close()
	w.advance(5 * time.Minute)
	a.wantState(fsm.AppFinished)
	wantLen(t, "pushes", a.conn.pushes, 0)
}

// B-111 beaten as G-31 and G-32 say: a closed connection is a question, and only a driver that is really gone ends its
// application, as FAILED and not as FINISHED.
func TestB111_G32_DriverThatIsGoneFailsItsApplication(t *testing.T) {
	for name, result := range map[string]ProbeResult{"no AppClient there": ProbeFalse, "nobody listens": ProbeRefused} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			fw := w.joined(1)
			a := w.joinedApp(1)
			fw.runAll()
			w.net.reach[a.addr] = result
			a.close()
			a.wantState(fsm.AppFailed)
			wantLen(t, "kills", fw.kills(), 4)
		})
	}
}

func TestG31_ClosedConnectionOfALivingDriverIsNoEnd(t *testing.T) {
	w := newWorld(t)
	fw := w.joined(1)
	a := w.joinedApp(1)
	fw.runAll()
	w.advance(time.Minute) // the take-over is long past
	a.close()
	a.wantState(fsm.AppRunning)
	// B-116: a driver that saw its connection close waits for MasterChanged, and asks nobody.
	wantLen(t, "MasterChanged", got[*sparkmsg.MasterChanged](w.net, a.addr), 1)
	w.advance(300 * time.Millisecond)
	if n := len(got[*sparkmsg.MasterChanged](w.net, a.addr)); n < 2 {
		t.Errorf("MasterChanged was sent %d times; it is repeated until it is acknowledged", n)
	}
	wantLen(t, "awaited", w.core.Status().Awaited, 1)
	a.online()
	a.acknowledge()
	wantLen(t, "awaited", w.core.Status().Awaited, 0)
	n := len(got[*sparkmsg.MasterChanged](w.net, a.addr))
	w.advance(time.Minute)
	wantLen(t, "MasterChanged after the acknowledgement", got[*sparkmsg.MasterChanged](w.net, a.addr), n)
	wantLen(t, "executors", a.executors(), 4)
}

func TestG31_OtherConnectionsOfTheDriverMakeTheHintWorthless(t *testing.T) {
	w := newWorld(t)
	a := w.joinedApp(1)
	probes := w.net.probed[a.addr]
	w.core.ConnClosed(a.addr, false)
	w.settle()
	if w.net.probed[a.addr] != probes {
		t.Error("the driver was asked although it has another connection")
	}
}

// Another application answers at the address: the one that we hold there is gone (DESIGN: "false, another id, or refused").
func TestG31_AnotherIDAtTheAddressEndsTheApplication(t *testing.T) {
	w := newWorld(t)
	a := w.joinedApp(1)
	a.close()
	id := a.id
	a.online()
	a.id = "app-20200101000000-0007"
	a.acknowledge()
	if e := w.view().Application(id); e.State != fsm.AppFailed {
		t.Errorf("the application that nobody answers for is %s", e.State)
	}
	// B-115: the stranger is told that its application is over.
	wantLen(t, "ApplicationRemoved for the stranger", pushed[*sparkmsg.ApplicationRemoved](a.conn), 1)
}

// Refused and unreachable prove something only for an address that this master has reached before (proxies, NAT and
// firewalls refuse and swallow too).
func TestReachedBefore_RefusedDriverThatWasNeverReachedIsOnlyUnreachable(t *testing.T) {
	w := newWorld(t)
	a := w.app(1)
	w.net.reach[a.addr] = ProbeRefused
	a.register()
	probes := w.net.probed[a.addr]
	a.close()
	a.wantState(fsm.AppWaiting)
	w.advance(26 * time.Second)
	if n := w.net.probed[a.addr] - probes; n != 10 {
		t.Errorf("it was asked %d times in 26 s, want 10: after pauses that double from 0.1 s to 5 s", n)
	}
	a.wantState(fsm.AppWaiting)
	w.advance(95 * time.Second)
	a.wantState(fsm.AppFailed)
}

func TestReachedBefore_TimeOutProvesNothingAtOnce(t *testing.T) {
	w := newWorld(t)
	a := w.joinedApp(1)
	w.net.reach[a.addr] = ProbeUnreachable
	a.close()
	a.wantState(fsm.AppWaiting)
	w.advance(20 * time.Second)
	a.wantState(fsm.AppWaiting)
	w.net.reach[a.addr] = ProbeTrue
	w.advance(6 * time.Second)
	if n := len(got[*sparkmsg.MasterChanged](w.net, a.addr)); n == 0 {
		t.Error("the driver is reachable again, but was not called")
	}
	a.online()
	a.acknowledge()
	w.advance(3 * time.Minute)
	a.wantState(fsm.AppWaiting)
}

// Applications send no heartbeats: idle drivers are asked every 15 s.
func TestIdleDriverIsAskedEvery15Seconds(t *testing.T) {
	w := newWorld(t)
	a := w.joinedApp(1)
	w.advance(5 * time.Minute)
	if n := w.net.asked[a.addr]; n < 17 || n > 20 {
		t.Errorf("the driver was asked %d times in 300 s, want one every 15 to 17 s", n)
	}
	a.wantState(fsm.AppWaiting)
}

func TestIdleDriverThatSpeaksIsNotAsked(t *testing.T) {
	w := newWorld(t)
	a := w.joinedApp(1)
	for i := range 10 {
		w.advance(10 * time.Second)
		a.target(int32(i))
	}
	if n := w.net.asked[a.addr]; n != 0 {
		t.Errorf("a driver that speaks every 10 s was asked %d times", n)
	}
}

func TestIdleDriverWithoutAppClientFailsAtOnce(t *testing.T) {
	w := newWorld(t)
	a := w.joinedApp(1)
	w.net.asks[a.addr] = func(sparkmsg.Message) (sparkmsg.Message, error) { return &sparkmsg.Boolean{Value: false}, nil }
	w.advance(17 * time.Second)
	a.wantState(fsm.AppFailed)
}

// spark.raftmaster.app.timeout without an answer: FAILED, and the driver is told so, should it still be there.
func TestSilentDriverFailsAfterTheAppTimeout(t *testing.T) {
	w := newWorld(t)
	a := w.joinedApp(1)
	w.net.asks[a.addr] = func(sparkmsg.Message) (sparkmsg.Message, error) { return nil, errNoReference }
	w.net.reach[a.addr] = ProbeUnreachable
	w.advance(119 * time.Second)
	a.wantState(fsm.AppWaiting)
	w.advance(3 * time.Second)
	a.wantState(fsm.AppFailed)
	removed := got[*sparkmsg.ApplicationRemoved](w.net, a.addr)
	wantLen(t, "ApplicationRemoved", removed, 1)
	if removed[0].Message != "FAILED" {
		t.Errorf("B-114: ApplicationRemoved says %q", removed[0].Message)
	}
}

// A SIGSTOPped driver does not answer its connection, but its kernel accepts new ones: it waits for the time-out.
func TestSilentDriverIsAskedOnAFreshConnectionEvery5SecondsInTheEnd(t *testing.T) {
	w := newWorld(t)
	a := w.joinedApp(1)
	w.net.asks[a.addr] = func(sparkmsg.Message) (sparkmsg.Message, error) { return nil, errNoReference }
	w.net.reach[a.addr] = ProbeUnreachable
	w.advance(46 * time.Second) // the pauses have grown to their full length
	probes := w.net.probed[a.addr]
	w.advance(30 * time.Second)
	if n := w.net.probed[a.addr] - probes; n > 7 {
		t.Errorf("a silent driver was probed %d times in 30 s", n)
	}
	a.wantState(fsm.AppWaiting)
}

func TestSilentDriverEndThatWasNotCommittedIsTriedAgain(t *testing.T) {
	w := newWorld(t)
	a := w.joinedApp(1)
	w.net.reach[a.addr] = ProbeRefused
	w.held = true
	a.close()
	wantLen(t, "FinishApplication", committed[fsm.FinishApplication](w), 1)
	w.held = false
	w.net.asks[a.addr] = func(sparkmsg.Message) (sparkmsg.Message, error) { return nil, errNoReference }
	w.fail(errNotLeader)
	w.advance(20 * time.Second)
	a.wantState(fsm.AppFailed)
}

// B-112: killed by an operator, through the log and not beside it.
func TestB112_KilledApplicationIsToldAndFreesItsCores(t *testing.T) {
	w := newWorld(t)
	fw := w.joined(1)
	a, b := w.joinedApp(1), w.joinedApp(2)
	b.wantState(fsm.AppWaiting)
	w.operator(fsm.FinishApplication{Meta: w.meta(), AppID: a.id, State: fsm.AppKilled, Reason: "operator"})
	a.wantState(fsm.AppKilled)
	removed := got[*sparkmsg.ApplicationRemoved](w.net, a.addr)
	wantLen(t, "ApplicationRemoved", removed, 1)
	if removed[0].Message != "KILLED" {
		t.Errorf("ApplicationRemoved says %q", removed[0].Message)
	}
	wantLen(t, "executors of the next application", b.executors(), 4)
	w.advance(3 * time.Second)
	if _, ok := w.core.apps[a.id]; ok {
		t.Error("the leader still looks after the killed application")
	}
	fw.wantState(fsm.WorkerAlive)
}

// B-113: all its executors are killed, the others get the cores, and all workers are told, DEAD ones included.
func TestB113_EndOfAnApplicationReachesEverybody(t *testing.T) {
	w := newWorld(t)
	dead := w.worker(2)
	dead.register()
	w.advance(61 * time.Second)
	dead.wantState(fsm.WorkerDead)
	fw := w.joined(1)
	a, b := w.joinedApp(1), w.joinedApp(2)
	a.say(&sparkmsg.UnregisterApplication{AppID: a.id})
	for _, x := range []*fakeWorker{fw, dead} {
		finished := got[*sparkmsg.ApplicationFinished](w.net, x.addr)
		wantLen(t, "ApplicationFinished at "+x.id, finished, 1)
		if finished[0].ID != a.id {
			t.Errorf("ApplicationFinished names %s", finished[0].ID)
		}
	}
	if e := a.entry(); e.EndMillis != w.clock.now.UnixMilli() || e.CoresGranted != 4 {
		t.Errorf("the finished application has end %d and %d cores; its last count stays", e.EndMillis, e.CoresGranted)
	}
	wantLen(t, "executors of the next application", b.executors(), 4)
	var killed, finished bool
	for _, m := range w.net.outbox[fw.addr] { // the kills come first
		switch m.msg.(type) {
		case *sparkmsg.KillExecutor:
			killed = true
			if finished {
				t.Error("a kill comes behind ApplicationFinished")
			}
		case *sparkmsg.ApplicationFinished:
			finished = true
		}
	}
	if !killed {
		t.Error("no executor was killed")
	}
}

// B-115, B-117: a driver that acknowledges an application which has ended is told once more.
func TestB115_AcknowledgementOfAFailedApplicationIsToldItsEnd(t *testing.T) {
	w := newWorld(t)
	a := w.joinedApp(1)
	w.operator(fsm.FinishApplication{Meta: w.meta(), AppID: a.id, State: fsm.AppKilled})
	a.acknowledge()
	removed := pushed[*sparkmsg.ApplicationRemoved](a.conn)
	wantLen(t, "ApplicationRemoved", removed, 1)
	if removed[0].Message != "KILLED" {
		t.Errorf("ApplicationRemoved says %q", removed[0].Message)
	}
}

// A driver that has unregistered and still answers MasterChanged is stopping by itself: ApplicationRemoved would make an
// error out of a clean end.
func TestB115_AcknowledgementOfAFinishedApplicationIsNoError(t *testing.T) {
	w := newWorld(t)
	a := w.joinedApp(1)
	a.say(&sparkmsg.UnregisterApplication{AppID: a.id})
	a.acknowledge()
	wantLen(t, "ApplicationRemoved", pushed[*sparkmsg.ApplicationRemoved](a.conn), 0)
}

// B-109: a client whose start fails stops before it has registered: nothing is left behind, and its closed connection
// means nothing.
func TestB109_ClientThatNeverRegisteredLeavesNothing(t *testing.T) {
	w := newWorld(t)
	commands := len(w.proposed)
	a := w.app(1)
	a.close()
	w.advance(time.Minute)
	if len(w.proposed) != commands || w.net.probed[a.addr] != 0 {
		t.Errorf("a stranger's connection had consequences: %+v", w.proposed[commands:])
	}
}
