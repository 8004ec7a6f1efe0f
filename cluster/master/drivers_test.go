package master

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"raftmaster/fsm"
	"raftmaster/transport/sparkmsg"
)

// B-134: a driver is stored, answered in Spark's words after the commit, and scheduled.
func TestB134_SubmissionIsStoredAnsweredAndScheduled(t *testing.T) {
	w := newWorld(t)
	fw := w.joined(1)
	w.held = true
	var answer sparkmsg.Message
	desc := bound(t, driverDesc(), sparkmsg.FamilyE)
	w.core.Ask(nil, nil, &sparkmsg.RequestSubmitDriver{DriverDescription: desc}, func(m sparkmsg.Message, err error) {
		if err != nil {
			t.Errorf("the submission failed: %v", err)
		}
		answer = m
	})
	w.settle()
	if answer != nil {
		t.Fatal("it was answered before it was committed")
	}
	w.held = false
	w.settle()
	const id = "driver-20260301123045-0000" // B-203
	r := answer.(*sparkmsg.SubmitDriverResponse)
	if !r.Success || r.DriverID == nil || *r.DriverID != id || r.Message != "Driver successfully submitted as "+id {
		t.Errorf("the answer is %+v", r)
	}
	if r.Master != nil {
		t.Error("the answer names a master: clients of another release could not read it")
	}
	d := w.wantDriver(id, fsm.DriverStateRunning) // B-140: at once
	if d.MainClass != "com.example.Job" || d.JarURL != "file:/jobs/job.jar" || d.Cores != 1 || d.MemoryMB != 1024 {
		t.Errorf("the driver is %+v", d)
	}
	launches := fw.driverLaunches()
	wantLen(t, "B-140: launches", launches, 1)
	if l := launches[0]; l.DriverID != id || l.DriverDesc.JarURL != desc.JarURL || l.DriverDesc.Command.Arguments[3] != "7" {
		t.Errorf("the launch is %+v", l)
	}
	if !d.Delivered {
		t.Error("the receipt behind the launch was not recorded")
	}
	if e := fw.entry(); e.CoresUsed != 1 || e.MemoryUsedMB != 1024 || e.DriverCount != 1 {
		t.Errorf("the worker's books are %+v", e)
	}
}

// B-134: what can never be accepted is refused with the reason, and no text makes a client look for another master.
func TestB134_UnusableSubmissionsAreRefused(t *testing.T) {
	w := newWorld(t)
	bad := bound(t, driverDesc(driverSize(-1, 1024)), sparkmsg.FamilyE)
	long := bound(t, driverDesc(func(d *sparkmsg.DriverDescription) { d.Command.JavaOpts = []string{strings.Repeat("x", 600<<10)} }), sparkmsg.FamilyE)
	for name, desc := range map[string]*sparkmsg.DriverDescription{"nothing": nil, "negative cores": bad, "too long": long} {
		answer, err := w.ask(nil, &sparkmsg.RequestSubmitDriver{DriverDescription: desc})()
		r, ok := answer.(*sparkmsg.SubmitDriverResponse)
		if err != nil || !ok || r.Success || r.DriverID != nil || r.Message == "" || strings.HasPrefix(r.Message, "Current state is not alive") {
			t.Errorf("%s: the answer is %+v, %v", name, answer, err)
		}
	}
}

// G-74: a standby says who leads, behind the words that clients test.
func TestG74_StandbyNamesTheLeader(t *testing.T) {
	w := newStandby(t)
	w.core.deps.Leader = func() (sparkmsg.Address, bool) { return sparkmsg.Address{Host: "other", Port: 7077}, true }
	answer, _ := w.ask(nil, &sparkmsg.RequestKillDriver{DriverID: "d"})()
	const want = "Current state is not alive: STANDBY. Can only kill drivers in ALIVE state. The leader is spark://other:7077."
	if r := answer.(*sparkmsg.KillDriverResponse); r.Message != want {
		t.Errorf("it says %q, want %q", r.Message, want)
	}
	w.core.deps.Leader = func() (sparkmsg.Address, bool) { return w.core.cfg.Self, true } // deposed a moment ago
	if e := w.core.notLeader(); strings.Contains(e.Error(), "leader is") {
		t.Errorf("a standby names itself: %q", e.Error())
	}
}

// A client asks every master at once; one that was slow to hear it may lead by then. The same description from the same
// process runs once, also while the first is on its way.
func TestB134_RepeatedSubmissionRunsOnce(t *testing.T) {
	w := newWorld(t)
	client := sparkmsg.Address{Host: "client", Port: 50001}
	var ids []string
	ask := func(from sparkmsg.Address) {
		w.core.Ask(nil, &from, &sparkmsg.RequestSubmitDriver{DriverDescription: bound(t, driverDesc(), sparkmsg.FamilyE)},
			func(m sparkmsg.Message, err error) {
				if err != nil {
					t.Errorf("a submission failed: %v", err)
					return
				}
				ids = append(ids, *m.(*sparkmsg.SubmitDriverResponse).DriverID)
			})
	}
	ask(client)
	ask(client)
	w.settle()
	ask(client)
	w.settle()
	if len(ids) != 3 || ids[0] != ids[1] || ids[1] != ids[2] {
		t.Fatalf("the ids are %v, want the same three times", ids)
	}
	w.failover()
	ask(client) // to the master that was slow
	w.settle()
	if ids[3] != ids[0] {
		t.Errorf("the next leader gave %s, want %s", ids[3], ids[0])
	}
	other := bound(t, driverDesc(driverSize(2, 512)), sparkmsg.FamilyE)
	if answer, err := w.ask(&client, &sparkmsg.RequestSubmitDriver{DriverDescription: other})(); err != nil || *answer.(*sparkmsg.SubmitDriverResponse).DriverID == ids[0] {
		t.Errorf("another driver of that client was answered with %+v, %v", answer, err)
	}
	ask(sparkmsg.Address{Host: "client", Port: 50002})
	w.settle()
	if len(ids) != 5 || ids[4] == ids[0] {
		t.Errorf("another client was given %v", ids)
	}
	w.advance(submissionLife + time.Second)
	ask(client)
	w.settle()
	if ids[5] == ids[0] {
		t.Error("a submission long after the first was taken for its repetition")
	}
}

// A submission whose commit failed may be repeated, and is then a new one.
func TestB134_FailedSubmissionMayBeRepeated(t *testing.T) {
	w := newWorld(t)
	client := sparkmsg.Address{Host: "client", Port: 50001}
	req := func() *sparkmsg.RequestSubmitDriver {
		return &sparkmsg.RequestSubmitDriver{DriverDescription: bound(t, driverDesc(), sparkmsg.FamilyE)}
	}
	w.held = true
	var failures []error
	for range 2 {
		w.core.Ask(nil, &client, req(), func(_ sparkmsg.Message, err error) { failures = append(failures, err) })
	}
	w.fail(errors.New("no quorum"))
	if len(failures) != 2 || failures[0] == nil || failures[1] == nil {
		t.Fatalf("the answers are %v, want two failures", failures)
	}
	w.held = false
	answer, err := w.ask(&client, req())()
	if r, ok := answer.(*sparkmsg.SubmitDriverResponse); err != nil || !ok || !r.Success {
		t.Errorf("the repetition was answered with %+v, %v", answer, err)
	}
}

// G-60: a full queue is told from a driver that can never be accepted.
func TestG60_FullQueueIsNoFaultOfTheDriver(t *testing.T) {
	w := newWorld(t)
	w.held = true
	for _, full := range []bool{true, false} {
		var got *DriverSubmission
		w.core.SubmitDriver(DriverRequest{Desc: bound(t, driverDesc(), sparkmsg.FamilyE), Families: sparkmsg.AllFamilies}, func(s DriverSubmission, _ error) { got = &s })
		why := fmt.Errorf("apply: %w", fsm.ErrTooManyDrivers)
		if !full {
			why = fmt.Errorf("apply: %w", fsm.ErrInvalidCommand)
		}
		w.fail(why)
		if got == nil || got.Success || got.Full != full || got.Message == "" {
			t.Errorf("%v was answered with %+v", why, got)
		}
	}
}

// B-135: the four cases of a kill.
func TestB135_KillOfWaitingRunningEndedAndUnknownDrivers(t *testing.T) {
	w := newWorld(t)
	waiting := w.submitted()
	if r := w.killDriver(waiting); !r.Success || r.Message != "Kill request for "+waiting+" submitted" {
		t.Errorf("the answer is %+v", r)
	}
	w.wantDriver(waiting, fsm.DriverStateKilled)
	fw := w.joined(1)
	wantLen(t, "launches of a killed driver", fw.driverLaunches(), 0)
	runs := w.submitted()
	if r := w.killDriver(runs); !r.Success || r.Message != "Kill request for "+runs+" submitted" {
		t.Errorf("the answer is %+v", r)
	}
	kills := fw.driverKills()
	wantLen(t, "KillDriver", kills, 1)
	if kills[0].DriverID != runs {
		t.Errorf("the kill is of %s", kills[0].DriverID)
	}
	w.wantDriver(runs, fsm.DriverStateRunning) // until its worker says so
	fw.driverEnds(runs, sparkmsg.DriverKilled)
	w.wantDriver(runs, fsm.DriverStateKilled)
	commands := len(w.proposed)
	for _, id := range []string{runs, "driver-unknown", ""} {
		if r := w.killDriver(id); r.Success || r.Message != "Driver "+id+" has already finished or does not exist" {
			t.Errorf("the answer is %+v", r)
		}
	}
	if len(w.proposed) != commands {
		t.Error("a kill that changes nothing went into the log")
	}
}

// B-136: all drivers at once.
func TestB136_KillAllDrivers(t *testing.T) {
	w := newWorld(t)
	fw := w.joined(1)
	runs, waits := w.submitted(), w.submitted(driverSize(64, 1024))
	answer, err := w.ask(nil, &sparkmsg.RequestKillAllDrivers{})()
	if r, ok := answer.(*sparkmsg.KillAllDriversResponse); err != nil || !ok || !r.Success || r.Message != "Kill request for all drivers submitted" {
		t.Errorf("the answer is %+v, %v", answer, err)
	}
	w.wantDriver(waits, fsm.DriverStateKilled)
	wantLen(t, "KillDriver", fw.driverKills(), 1)
	if fw.driverKills()[0].DriverID != runs {
		t.Error("another driver was killed")
	}
}

// B-141: what a client is told in each case.
func TestB141_DriverStatus(t *testing.T) {
	w := newWorld(t)
	if r := w.status("driver-unknown", nil); r.Found || r.State != nil || r.Exception != nil || r.WorkerID != nil {
		t.Errorf("an unknown driver is %+v", r)
	}
	id := w.submitted()
	if r := w.status(id, nil); !r.Found || *r.State != sparkmsg.DriverSubmitted || r.WorkerID != nil || r.WorkerHostPort != nil {
		t.Errorf("a waiting driver is %+v", r)
	}
	fw := w.joined(1)
	if r := w.status(id, nil); *r.State != sparkmsg.DriverRunning || *r.WorkerID != fw.id || *r.WorkerHostPort != "host1:7001" {
		t.Errorf("a running driver is %+v", r)
	}
	fw.driverEnds(id, sparkmsg.DriverFinished)
	if r := w.status(id, nil); *r.State != sparkmsg.DriverFinished || *r.WorkerID != fw.id || *r.WorkerHostPort != "host1:7001" || r.Exception != nil {
		t.Errorf("a finished driver is %+v", r)
	}
	w.failover()
	if r := w.status(id, nil); !r.Found || *r.State != sparkmsg.DriverFinished || *r.WorkerID != fw.id {
		t.Errorf("G-28: after a failover it is %+v", r)
	}
}

// B-137, B-141: an exception reaches the client as it came, if it has the classes, else as text.
func TestB141_ExceptionIsPassedThrough(t *testing.T) {
	w := newWorld(t)
	fw := w.joined(1)
	id := w.submitted()
	raw, err := sparkmsg.Encode(&sparkmsg.DriverStateChanged{DriverID: id, State: sparkmsg.DriverError,
		Exception: &sparkmsg.Exception{Class: "java.lang.Exception", Message: "no such jar"}}, sparkmsg.FamilyE)
	if err != nil {
		t.Fatal(err)
	}
	m, err := sparkmsg.Decode(raw)
	if err != nil {
		t.Fatal(err)
	}
	fw.say(m.Msg)
	if d := w.wantDriver(id, fsm.DriverStateError); d.Exception != "java.lang.Exception: no such jar" {
		t.Errorf("the text is %q", d.Exception)
	}
	client := w.conn(sparkmsg.Address{Host: "client", Port: 1})
	client.fams = famE
	if e := w.status(id, client).Exception; e == nil || e.Graph == nil || e.Message != "no such jar" {
		t.Errorf("a client of the same release is given %+v", e)
	}
	if e := w.status(id, nil).Exception; e == nil || e.Graph != nil || !strings.Contains(e.Message, "no such jar") {
		t.Errorf("an unknown client is given %+v", e)
	}
	w.failover()
	if e := w.status(id, client).Exception; e == nil || e.Graph != nil || !strings.Contains(e.Message, "no such jar") {
		t.Errorf("the next leader gives %+v", e)
	}
}

// B-142, G-73: completed drivers go as well; a standby, which would clear nothing, does not say that it has.
func TestB142_G73_ClearForgetsCompletedDriversAtTheLeaderAlone(t *testing.T) {
	w := newWorld(t)
	fw := w.joined(1)
	ended, runs := w.submitted(), w.submitted()
	fw.driverEnds(ended, sparkmsg.DriverFailed)
	if !w.askBool(nil, &sparkmsg.RequestClearCompletedDriversAndApps{}) {
		t.Error("the answer is false")
	}
	if w.view().Driver(ended) != nil || w.view().Driver(runs) == nil {
		t.Error("the wrong drivers are left")
	}
	if _, err := newStandby(t).ask(nil, &sparkmsg.RequestClearCompletedDriversAndApps{})(); refuses(err) == nil {
		t.Errorf("a standby answers with %v", err)
	}
}

// B-143, G-73: ready means that work is served at this very moment.
func TestB143_G73_ReadyNeedsTheLease(t *testing.T) {
	w := newWorld(t)
	ready := w.core.ready()
	if !ready() {
		t.Error("a leader is not ready")
	}
	*w.lease = false
	if ready() || w.readyz() {
		t.Error("a leader without a lease is ready")
	}
	*w.lease = true
	w.core.PushesDropped()
	if ready() || w.readyz() {
		t.Error("it is ready although its peers are to be asked again first")
	}
	w.advance(2 * time.Second)
	if !ready() || !w.readyz() {
		t.Error("it is not ready although everybody was asked again")
	}
	w.core.Deposed(1)
	if ready() {
		t.Error("a deposed leader is ready")
	}
}

// B-201 to B-203, 4.x: patterns of ids are the operator's.
func TestB201_B203_PatternsOfIdentifiers(t *testing.T) {
	w := newWorld(t, func(c *Config) {
		c.DriverIDPattern, c.AppIDPattern, c.AppNumberModulo = "job-%s-%05d", "run-%s-%06d", 1000
	})
	if id := w.submitted(); id != "job-20260301123045-00000" {
		t.Errorf("the driver is %s", id)
	}
	if a := w.joinedApp(1); a.id != "run-20260301123045-000000" {
		t.Errorf("the application is %s", a.id)
	}
}
