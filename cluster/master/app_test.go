package master

import (
	"errors"
	"strings"
	"testing"
	"time"

	"raftmaster/fsm"
	"raftmaster/transport/sparkmsg"
)

// B-100: a standby is silent to drivers, and so is a leader whose lease has run out (B-107: of several masters one alone
// may answer).
func TestB100_RegisterApplicationAtStandbyGetsNoAnswer(t *testing.T) {
	w := newStandby(t)
	a := w.app(1)
	a.register()
	wantLen(t, "messages", w.net.order, 0)
	wantLen(t, "pushes", a.conn.pushes, 0)
	wantLen(t, "commands", w.proposed, 0)
}

func TestB100_RegisterApplicationWithoutLeaseGetsNoAnswer(t *testing.T) {
	w := newWorld(t)
	*w.lease = false
	a := w.app(1)
	a.register()
	wantLen(t, "messages", w.net.order, 0)
	wantLen(t, "pushes", a.conn.pushes, 0)
}

// B-101: stored, then answered at the listening address in the reference, then given executors.
func TestB101_RegisterApplicationIsStoredAnsweredAndScheduled(t *testing.T) {
	w := newWorld(t)
	fw := w.joined(1)
	a := w.app(1)
	w.held = true
	a.register()
	wantLen(t, "messages before the commit", w.net.outbox[a.addr], 0)
	w.held = false
	w.settle()
	msgs := w.net.outbox[a.addr]
	first, ok := msgs[0].msg.(*sparkmsg.RegisteredApplication)
	if !ok || msgs[0].endpoint != "AppClient" || first.Master.Address.String() != "master1:7077" {
		t.Fatalf("the first message is %+v", msgs[0])
	}
	a.id = first.AppID
	e := a.entry()
	if e == nil || e.Name != "app 1" || e.User != "someone" || e.Driver != toFSMAddress(a.addr) || e.Families != uint8(famE) {
		t.Fatalf("the entry is %+v", e)
	}
	wantLen(t, "launches", fw.launches(), 4)
	if l := fw.launches()[0]; l.AppDesc == nil || l.AppDesc.Command.MainClass != a.desc.Command.MainClass || l.Memory != 1024 || l.Cores != 1 {
		t.Errorf("the launch says %+v", l)
	}
	if !a.conn.trusted {
		t.Error("a registered driver keeps the frame limit of a stranger")
	}
}

func TestB101_ApplicationThatCanNeverBeRegisteredIsTold(t *testing.T) {
	w := newWorld(t)
	a := w.app(1, func(d *sparkmsg.ApplicationDescription) { d.Name = strings.Repeat("n", fsm.MaxTextBytes+1) })
	a.register()
	wantLen(t, "RegisteredApplication", a.ids(), 0)
	wantLen(t, "ApplicationRemoved", pushed[*sparkmsg.ApplicationRemoved](a.conn), 1)
}

func TestB101_RegistrationWithoutReferenceOrDescriptionIsDropped(t *testing.T) {
	w := newWorld(t)
	a := w.app(1)
	a.say(&sparkmsg.RegisterApplication{AppDescription: a.desc, Driver: sparkmsg.EndpointRef{Name: "AppClient"}})
	addr := a.addr
	a.say(&sparkmsg.RegisterApplication{Driver: sparkmsg.EndpointRef{Name: "AppClient", Address: &addr}})
	wantLen(t, "RegisterApplication commands", committed[fsm.RegisterApplication](w), 0)
}

// What Raft did not commit says nothing about the application: its driver tries again (B-106) and is not ended.
func TestB101_UncommittedRegistrationIsSilent(t *testing.T) {
	w := newWorld(t)
	w.held = true
	a := w.app(1)
	a.register()
	w.held = false
	w.fail(errors.New("outcome unknown"))
	wantLen(t, "pushes", a.conn.pushes, 0)
	a.register()
	wantLen(t, "ids", a.ids(), 1)
}

// B-102, G-01: repeated from the same connection, even after the id was named: the same id again.
func TestB102_G01_RepeatedRegistrationOnTheSameConnectionKeepsItsID(t *testing.T) {
	w := newWorld(t)
	fw := w.joined(1)
	a := w.joinedApp(1)
	id := a.id
	if !a.target(2) {
		t.Fatal("RequestExecutors was answered with false")
	}
	if !a.entry().Confirmed {
		t.Fatal("the driver has named its id, but is not confirmed")
	}
	a.register()
	wantLen(t, "answers", a.ids(), 2)
	if a.id != id {
		t.Fatalf("the driver has id %s, then %s", id, a.id)
	}
	a.wantState(fsm.AppRunning)
	wantLen(t, "executors", a.executors(), 4)
	wantLen(t, "kills", fw.kills(), 0)
	if n := w.machine.View().Totals().AppsWaiting + w.machine.View().Totals().AppsRunning; n != 1 {
		t.Errorf("%d applications are active", n)
	}
}

// B-102: two registrations that are both under way before the first is committed.
func TestB102_RegistrationsInFlightTogetherGetOneID(t *testing.T) {
	w := newWorld(t)
	a := w.app(1)
	w.held = true
	a.register()
	a.register()
	w.held = false
	w.settle()
	ids := a.ids()
	wantLen(t, "answers", ids, 2)
	if ids[0] != ids[1] {
		t.Errorf("the driver was given %v", ids)
	}
}

// B-102: repeated on another connection, before any message has named the id (its answer was lost).
func TestB102_RepeatedRegistrationBeforeTheIDWasNamedKeepsItsID(t *testing.T) {
	w := newWorld(t)
	a := w.joinedApp(1)
	id := a.id
	a.conn = w.conn(a.addr)
	a.register()
	if a.id != id {
		t.Fatalf("the driver has id %s, then %s", id, a.id)
	}
	w.failover() // and the same at a leader that has not seen the first one
	a.online()
	a.register()
	if a.id != id {
		t.Fatalf("after a take-over the driver has id %s, then %s", id, a.id)
	}
}

// B-102: a driver that registers on another connection although the id of its address has been named is a new driver on
// an old port: the old application has FAILED, and the new one is not told so.
func TestB102_NewDriverOnAnOldPortGetsANewID(t *testing.T) {
	w := newWorld(t)
	fw := w.joined(1)
	old := w.joinedApp(1)
	old.target(4)
	fw.runAll()
	young := w.app(1)
	young.register()
	young.say(&sparkmsg.MasterChangeAcknowledged{}) // asked which application it has, it names none
	if young.id == old.id {
		t.Fatalf("both drivers have id %s", old.id)
	}
	old.wantState(fsm.AppFailed)
	young.wantState(fsm.AppRunning)
	wantLen(t, "executors of the old driver", old.executors(), 0)
	wantLen(t, "kills", fw.kills(), 4)
	wantLen(t, "ApplicationRemoved", got[*sparkmsg.ApplicationRemoved](w.net, young.addr), 0)
	if _, ok := w.core.apps[old.id]; ok {
		t.Error("the leader still looks after the old application")
	}
}

func TestB103_ApplicationAtBirth(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.DefaultCores = 3 })
	a := w.joinedApp(1)
	e := a.entry()
	p, _ := e.Profile(fsm.DefaultProfileID)
	if e.State != fsm.AppWaiting || e.CoresGranted != 0 || e.EndMillis != 0 || e.NextExecutorID != 0 || p.Target != fsm.UnlimitedExecutors {
		t.Errorf("the application is born as %s with %d cores, next executor %d, target %d", e.State, e.CoresGranted, e.NextExecutorID, p.Target)
	}
	if e.RequestedCores != 3 {
		t.Errorf("without spark.cores.max it may have %d cores, want spark.deploy.defaultCores", e.RequestedCores)
	}
	b := w.joinedApp(2, maxCores(7), initialLimit(2))
	p, _ = b.entry().Profile(fsm.DefaultProfileID)
	if b.entry().RequestedCores != 7 || p.Target != 2 {
		t.Errorf("cores.max 7 and limit 2 gave %d cores and target %d", b.entry().RequestedCores, p.Target)
	}
	if c := newWorld(t).joinedApp(1); c.entry().RequestedCores != fsm.UnlimitedCores {
		t.Errorf("without any limit it may have %d cores", c.entry().RequestedCores)
	}
}

func TestB103_MemoryOfTheDefaultProfileIsSparksDefault(t *testing.T) {
	w := newWorld(t)
	a := w.joinedApp(1, func(d *sparkmsg.ApplicationDescription) { d.DefaultProfile.ExecutorResources = nil })
	if p, _ := a.entry().Profile(fsm.DefaultProfileID); p.Profile.MemoryMB != 1024 || p.Profile.Cores != nil {
		t.Errorf("the profile is %+v", p.Profile)
	}
}

// B-104: RUNNING from the first allocation on. S05, S06: the state follows the executors, also over a take-over.
func TestB104_StateFollowsTheExecutors(t *testing.T) {
	w := newWorld(t)
	a := w.joinedApp(1, maxCores(1))
	a.wantState(fsm.AppWaiting)
	fw := w.joined(1)
	a.wantState(fsm.AppRunning)
	fw.wantState(fsm.WorkerAlive)
}

func TestB105_ApplicationIDsAreStampedAndNumbered(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Location = time.FixedZone("east", 2*3600) })
	a, b := w.joinedApp(1), w.joinedApp(2)
	if a.id != "app-20260301143045-0000" || b.id != "app-20260301143045-0001" {
		t.Errorf("B-200, B-201: ids are %s and %s; the stamp is the local time of the master", a.id, b.id)
	}
}

// B-106: a client registers three times, every 20 s; each try is answered with one id.
func TestB106_ThreeTriesGetOneID(t *testing.T) {
	w := newWorld(t)
	a := w.app(1)
	for range 3 {
		a.register()
		w.advance(20 * time.Second)
	}
	ids := a.ids()
	wantLen(t, "answers", ids, 3)
	if ids[0] != ids[1] || ids[1] != ids[2] {
		t.Errorf("ids are %v", ids)
	}
	wantLen(t, "executors", a.executors(), 0)
}

// B-106: the tries that found no leader do no harm; the one that finds it counts.
func TestB106_TriesThatMeetNoLeaderLeaveNothingInTheLog(t *testing.T) {
	w := newStandby(t)
	a := w.app(1)
	a.register()
	w.advance(20 * time.Second)
	w.core.ConnClosed(a.addr, true) // the kept registration is gone with its connection
	w.elect()
	wantLen(t, "answers before the second try", a.ids(), 0)
	a.register()
	wantLen(t, "answers", a.ids(), 1)
	if want := "app-20260301123105-0000"; a.id != want {
		t.Errorf("the id is %s, want %s: the first one ever given", a.id, want)
	}
}

// B-107, G-02: a driver that hears from several masters ends with one id: standbys are silent, an old leader is stopped by
// its lease, and the new leader confirms the id.
func TestB107_G02_DriverThatHearsFromSeveralMastersEndsWithOneID(t *testing.T) {
	w := newWorld(t)
	a := w.app(1)
	a.register()
	first := a.id
	old, oldNet := w.failover()
	a.online()
	// The old leader gets the driver's second try: its lease is over.
	addr := a.addr
	again := &sparkmsg.RegisterApplication{AppDescription: a.desc, Driver: sparkmsg.EndpointRef{Name: "AppClient", Address: &addr}}
	before := len(oldNet.order)
	old.OneWay(w.conn(a.addr), &addr, a.families, again)
	if len(oldNet.order) != before {
		t.Fatalf("the old leader answered: %+v", oldNet.order[before:])
	}
	// The new leader gets it too, before and after its MasterChanged is acknowledged.
	a.register()
	a.acknowledge()
	a.register()
	for _, id := range a.ids() {
		if id != first {
			t.Errorf("the new leader named %s, the old one %s", id, first)
		}
	}
	wantLen(t, "answers of the new leader", a.ids(), 2)
}

// B-107: the answer of the old leader was lost with it; the acknowledgement with a null id says so.
func TestB107_AcknowledgementWithoutIDGetsTheSameID(t *testing.T) {
	w := newWorld(t)
	a := w.app(1)
	a.register()
	first := a.id
	w.failover()
	a.online()
	a.id = ""
	a.acknowledge()
	ids := a.ids()
	wantLen(t, "RegisteredApplication", ids, 1)
	if ids[0] != first {
		t.Errorf("the driver is told %s, its application is %s", ids[0], first)
	}
	wantLen(t, "awaited", w.core.Status().Awaited, 0)
	if a.w.view().Application(first).Confirmed {
		t.Error("a null id counts as a name")
	}
	a.id = first
	a.acknowledge()
	if !a.entry().Confirmed {
		t.Error("the id was named, but is not confirmed")
	}
}

func TestB107_AcknowledgementWithoutIDOfAStrangerIsIgnored(t *testing.T) {
	w := newWorld(t)
	a := w.app(1)
	a.acknowledge()
	w.core.OneWay(a.conn, nil, famE, &sparkmsg.MasterChangeAcknowledged{})
	w.settle()
	wantLen(t, "messages", w.net.order, 0)
}

// G-06, S18: numbers come from a replicated counter: no id twice in one second, on any number of leaders, nor when the
// clock of the next leader is an hour behind.
func TestG06_S18_IdentifiersAreNeverReused(t *testing.T) {
	w := newWorld(t)
	seen := map[string]bool{}
	for i := range 40 {
		a := w.joinedApp(i)
		if seen[a.id] {
			t.Fatalf("the id %s was given twice", a.id)
		}
		seen[a.id] = true
		w.failover()
		if i == 20 {
			w.clock.now = w.clock.now.Add(-time.Hour)
		}
	}
	if !seen["app-20260301123045-0000"] || !seen["app-20260301113045-0039"] {
		t.Errorf("ids are %v", sortedKeys(seen))
	}
}

func TestB201_NumbersBeyondFourDigits(t *testing.T) {
	w := newWorld(t)
	w.machine.Apply(2, w.term, fsm.LeaderElected{Meta: w.meta(), NodeID: "m1", Settings: fsm.Settings{RetainedApplications: 1}})
	w.index = 2
	for range 10001 { // each replaces the one before it: the state stays small
		w.index++
		w.machine.Apply(w.index, w.term, fsm.RegisterApplication{Meta: w.meta(), Name: "x", Driver: fsm.Address{Host: "d", Port: 1}})
		id, _ := w.machine.View().ApplicationByDriver(fsm.Address{Host: "d", Port: 1})
		w.index++
		w.machine.Apply(w.index, w.term, fsm.ConfirmApplication{Meta: w.meta(), AppID: id.ID})
	}
	if a := w.joinedApp(1); a.id != "app-20260301123045-10001" {
		t.Errorf("the id is %s", a.id)
	}
}

// B-202, B-203: names and submissions give no ids here. An application's name never becomes its id (G-07).
func TestB202_NameIsNotTheID(t *testing.T) {
	w := newWorld(t)
	named := func(d *sparkmsg.ApplicationDescription) { d.Name = "same name" }
	a, b := w.joinedApp(1, named), w.joinedApp(2, named)
	if a.id == b.id || !strings.HasPrefix(a.id, "app-") {
		t.Errorf("ids are %s and %s", a.id, b.id)
	}
}
