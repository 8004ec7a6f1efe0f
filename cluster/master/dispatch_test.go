package master

import (
	"errors"
	"strings"
	"testing"

	"raftmaster/fsm"
	"raftmaster/transport/sparkmsg"
)

// standbyAsks lists every ask that a master gets.
func standbyAsks() []sparkmsg.Message {
	return []sparkmsg.Message{
		&sparkmsg.RequestSubmitDriver{DriverDescription: &sparkmsg.DriverDescription{}}, &sparkmsg.RequestKillDriver{DriverID: "driver-1"},
		&sparkmsg.RequestKillAllDrivers{}, &sparkmsg.RequestDriverStatus{DriverID: "driver-1"}, &sparkmsg.RequestReadyz{},
		&sparkmsg.RequestClearCompletedDriversAndApps{}, &sparkmsg.ExecutorStateChanged{AppID: "app-1"},
		&sparkmsg.RequestExecutors{AppID: "app-1"}, &sparkmsg.KillExecutors{AppID: "app-1"},
	}
}

// A standby answers every ask, once and at once: an unanswered one costs the peer its connection after 120 s.
func TestStandbyAnswersEveryAsk(t *testing.T) {
	w := newStandby(t)
	for _, m := range standbyAsks() {
		answer, err := w.ask(nil, m)()
		if (answer == nil) == (err == nil) {
			t.Errorf("%s: answer %+v, error %v; want one of them", m.MessageName(), answer, err)
		}
	}
	wantLen(t, "commands", w.proposed, 0)
}

// B-134 to B-141: submission clients pass over a master whose text begins with this prefix; any other text ends them.
func TestB134_StandbyTellsSubmissionClientsToAskAnotherMaster(t *testing.T) {
	const prefix = "Current state is not alive: STANDBY."
	w := newStandby(t)
	text := func(m sparkmsg.Message) string {
		answer, err := w.ask(nil, m)()
		if err != nil {
			t.Fatalf("%s failed: %v", m.MessageName(), err)
		}
		switch r := answer.(type) {
		case *sparkmsg.SubmitDriverResponse:
			if !r.Success && r.DriverID == nil {
				return r.Message
			}
		case *sparkmsg.KillDriverResponse:
			if !r.Success && r.DriverID == "driver-1" {
				return r.Message
			}
		case *sparkmsg.KillAllDriversResponse:
			if !r.Success {
				return r.Message
			}
		case *sparkmsg.DriverStatusResponse:
			if !r.Found && r.State == nil && r.Exception != nil {
				return r.Exception.Message
			}
		}
		t.Fatalf("%s was answered with %+v", m.MessageName(), answer)
		return ""
	}
	want := map[string]string{
		"RequestSubmitDriver":   prefix + " Can only accept driver submissions in ALIVE state.",
		"RequestKillDriver":     prefix + " Can only kill drivers in ALIVE state.",
		"RequestKillAllDrivers": prefix + " Can only kill drivers in ALIVE state.",
		"RequestDriverStatus":   prefix + " Can only request driver status in ALIVE state.",
	}
	for _, m := range standbyAsks() {
		if expected, ok := want[m.MessageName()]; ok {
			if s := text(m); s != expected {
				t.Errorf("%s: %q, want %q", m.MessageName(), s, expected)
			}
		}
	}
}

// A leader without a lease answers nothing from its state alone.
func TestLeaderWithoutLeaseAnswersAsAStandby(t *testing.T) {
	w := newWorld(t)
	*w.lease = false
	w.held = true // nothing can be committed
	for _, m := range standbyAsks() {
		answer, err := w.ask(nil, m)()
		if r, ok := answer.(*sparkmsg.SubmitDriverResponse); ok && !strings.HasPrefix(r.Message, "Current state is not alive: STANDBY") {
			t.Errorf("the text is %q", r.Message)
		}
		if b, ok := answer.(*sparkmsg.Boolean); ok && b.Value {
			t.Errorf("%s was answered with true", m.MessageName())
		}
		if answer == nil && err == nil {
			t.Errorf("%s was not answered", m.MessageName())
		}
	}
	if w.core.Status().Leading {
		t.Error("the status says that it leads")
	}
}

// What a commit answers is taken while the lease has lapsed for a moment: the commit shows who leads.
func TestLeaderWithoutLeaseAnswersByCommit(t *testing.T) {
	w := newWorld(t)
	fw := w.joined(1)
	a := w.joinedApp(1, maxCores(1))
	*w.lease = false
	w.held = true
	report := &sparkmsg.ExecutorStateChanged{AppID: a.id, State: sparkmsg.ExecutorRunning}
	var errs []error
	w.core.Ask(nil, &fw.addr, report, func(_ sparkmsg.Message, err error) { errs = append(errs, err) })
	wantLen(t, "answers before the commit", errs, 0)
	w.fail(errors.New("no quorum"))
	if len(errs) != 1 || errs[0] == nil {
		t.Errorf("the answers are %v, want one failure", errs)
	}
	w.held = false
	fw.report(a.id, 0, sparkmsg.ExecutorRunning, nil)
}

// S37: what a worker reports to a standby must not be lost: a failure makes it ask again.
func TestS37_StandbyFailsReportsInsteadOfSayingTrue(t *testing.T) {
	w := newStandby(t)
	if _, err := w.ask(nil, &sparkmsg.ExecutorStateChanged{AppID: "app-1", State: sparkmsg.ExecutorExited})(); !errors.Is(err, errNotLeader) {
		t.Errorf("the failure is %v", err)
	}
}

func TestB142_ClearCompletedForgetsFinishedApplications(t *testing.T) {
	w := newWorld(t)
	a := w.joinedApp(1)
	b := w.joinedApp(2)
	a.say(&sparkmsg.UnregisterApplication{AppID: a.id})
	if !w.askBool(nil, &sparkmsg.RequestClearCompletedDriversAndApps{}) {
		t.Error("the answer is false")
	}
	if a.entry() != nil || b.entry() == nil {
		t.Errorf("left: %+v and %+v", a.entry(), b.entry())
	}
}

// B-143 beaten as G-73 says: ready means that work is served.
func TestB143_ReadyzIsTrueAtTheLeaderAlone(t *testing.T) {
	if newStandby(t).readyz() {
		t.Error("a standby is ready")
	}
	if !newWorld(t).readyz() {
		t.Error("a leader is not ready")
	}
}

func (w *world) readyz() bool { return w.askBool(nil, &sparkmsg.RequestReadyz{}) }

// B-002: an unknown ask is answered with a failure, an unknown one-way message with nothing.
func TestB002_UnsupportedMessages(t *testing.T) {
	w := newWorld(t)
	if answer, err := w.ask(nil, &sparkmsg.RegisterWorker{})(); answer != nil || !errors.Is(err, errNotServed) {
		t.Errorf("the answer is %+v, %v", answer, err)
	}
	fw := w.worker(1)
	for _, m := range []sparkmsg.Message{&sparkmsg.KillDriver{DriverID: "d"}, &sparkmsg.RequestReadyz{}, &sparkmsg.DriverStateChanged{DriverID: "d"}} {
		fw.say(m)
	}
	wantLen(t, "pushes", fw.conn.pushes, 0)
	wantLen(t, "messages", w.net.order, 0)
}

// A command that the state machine refuses changes nothing and fails its ask.
func TestRefusedCommandFailsItsAsk(t *testing.T) {
	w := newWorld(t)
	a := w.joinedApp(1, initialLimit(0))
	_, err := w.ask(&a.addr, &sparkmsg.RequestExecutors{AppID: a.id, ResourceProfileToTotalExecs: []sparkmsg.ProfileTotal{{Profile: a.desc.DefaultProfile, Total: -1}}})()
	if !errors.Is(err, fsm.ErrInvalidCommand) {
		t.Errorf("a target of -1 gave %v", err)
	}
	if p, _ := a.entry().Profile(0); p.Target != 0 {
		t.Errorf("the target is %d", p.Target)
	}
}

// Commands and their latency are reported to the observer, events too.
func TestObserverIsTold(t *testing.T) {
	w := newWorld(t)
	o := &recordingObserver{}
	w.core.deps.Observer = o
	fw := w.joined(1)
	a := w.joinedApp(1)
	a.say(&sparkmsg.UnregisterApplication{AppID: a.id})
	for _, want := range []string{"committed RegisterWorker", "event worker " + fw.id + " registered", "committed RegisterApplication",
		"event app " + a.id + " registered: app 1", "committed PlaceExecutors", "event app " + a.id + " FINISHED: unregistered"} {
		if !strings.Contains(o.text.String(), want+"\n") {
			t.Errorf("%q is missing in:\n%s", want, o.text.String())
		}
	}
}
