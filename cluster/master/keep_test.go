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

// S22, G-03, B-106: a driver that asked in an outage, and will not ask again before it gives up, is registered by the
// master that is elected.
func TestS22_G03_RegistrationOfAnOutageIsTakenUp(t *testing.T) {
	w := newStandby(t)
	a := w.app(1)
	for range 3 { // at 0, 20 and 40 s
		a.register()
		w.advance(20 * time.Second)
	}
	w.clock.now = w.clock.now.Add(-15 * time.Second) // 45 s after the first
	w.elect()
	wantLen(t, "answers before the driver was asked", a.ids(), 0)
	wantLen(t, "questions", pushed[*sparkmsg.MasterChanged](a.conn), 1)
	a.answerQuestion() // it has no id yet
	wantLen(t, "answers", a.ids(), 1)
	a.id = a.ids()[0]
	a.wantState(fsm.AppWaiting)
	a.acknowledge()
	wantLen(t, "registrations", committed[fsm.RegisterApplication](w), 1)
	if len(w.core.kept) != 0 || w.core.keptBytes != 0 {
		t.Errorf("%d registrations, %d bytes are still kept", len(w.core.kept), w.core.keptBytes)
	}
}

// inTheBooks commits the registration of an application as an earlier leader did.
func inTheBooks(w *world, a *fakeApp) {
	w.t.Helper()
	payload, err := a.desc.MarshalPayload()
	if err != nil {
		w.t.Fatal(err)
	}
	w.commit(fsm.RegisterApplication{Meta: w.meta(), Name: a.desc.Name, Driver: toFSMAddress(a.addr), DefaultCores: fsm.UnlimitedCores,
		DefaultProfile: fsm.Profile{MemoryMB: 1}, Payload: payload})
}

// S22, G-01: a new driver at the address of one that never named its id says that it has none. What it has registered
// meanwhile shows that it is not the one of the books: it gets an id of its own, and the old application ends.
func TestS22_NewDriverDoesNotGetTheIDOfAnother(t *testing.T) {
	w := newStandby(t)
	first, second := w.app(1), w.app(2)
	inTheBooks(w, first)
	second.addr, second.conn = first.addr, w.conn(first.addr)
	second.register()
	w.elect()
	old := w.view().ApplicationByDriver(toFSMAddress(first.addr))
	if old == nil || old.Confirmed {
		t.Fatalf("the books have %+v", old)
	}
	second.acknowledge()
	if now := w.view().Application(old.ID); now == nil || now.State != fsm.AppFailed {
		t.Errorf("the first application is %+v", now)
	}
	ids := second.ids()
	wantLen(t, "answers", ids, 1)
	if ids[0] == old.ID {
		t.Error("the new driver was given the id of the old one")
	}
	if len(w.core.kept) != 0 {
		t.Errorf("%d registrations are still kept", len(w.core.kept))
	}
}

// B-106, G-01: a driver without an answer gives up after 60 s. Whoever says later that it has no application, at the
// address of one that nobody ever named, is another driver, also when this master has not seen its registration.
func TestB106_AnswerOfADriverThatMustHaveGivenUpIsAnothers(t *testing.T) {
	for age, want := range map[time.Duration]int{keepFor: 1, keepFor + lateAnswer + time.Second: 0} {
		w := newStandby(t)
		a := w.app(1)
		inTheBooks(w, a)
		w.advance(age)
		a.online()
		w.elect()
		a.acknowledge()
		wantLen(t, fmt.Sprintf("answers after %v", age), a.ids(), want)
	}
}

// A driver that an earlier leader has answered, here or elsewhere, is not registered a second time.
func TestS22_DriverThatWasAnsweredMeanwhileGetsNoSecondID(t *testing.T) {
	for name, between := range map[string]func(w *world, a *fakeApp){
		"it is in the books": func(w *world, a *fakeApp) {
			inTheBooks(w, a)
		},
		"its application has ended and was forgotten": func(w *world, a *fakeApp) { a.id = "app-forgotten" },
		"it is gone":                  func(w *world, a *fakeApp) { w.core.ConnClosed(a.addr, false) },
		"it has given up long ago":    func(w *world, a *fakeApp) { w.advance(keepFor) },
		"it asks on a new connection": func(w *world, a *fakeApp) { a.online() },
	} {
		t.Run(name, func(t *testing.T) {
			w := newStandby(t)
			a := w.app(1)
			a.register()
			between(w, a)
			w.elect()
			a.acknowledge()
			wantLen(t, "registrations", committed[fsm.RegisterApplication](w), 0)
		})
	}
}

// A registration that a leader could not commit is kept as well: the next election may be won by the same master.
func TestS22_UncommittedRegistrationIsKept(t *testing.T) {
	w := newWorld(t)
	a := w.app(1)
	w.held = true
	a.register()
	w.queue = nil
	w.core.Deposed(1)
	w.held = false
	w.term = 2
	w.elect()
	a.answerQuestion()
	wantLen(t, "answers", a.ids(), 1)
	wantLen(t, "applications", activeIDs(w), 1)
}

// The same when its outcome was unknown and it was committed after all: one application, and the driver learns its id.
func TestS22_RegistrationWithAnUnknownOutcomeGetsOneID(t *testing.T) {
	w := newWorld(t)
	a := w.app(1)
	w.held = true
	a.register()
	late := w.take()
	w.core.Deposed(1)
	w.commit(late...)
	w.held = false
	w.term = 2
	w.elect()
	a.answerQuestion()
	wantLen(t, "answers", a.ids(), 1)
	wantLen(t, "applications", activeIDs(w), 1)
}

// answerQuestion answers what the master has asked on the driver's own connection.
func (a *fakeApp) answerQuestion() {
	a.claims = len(pushed[*sparkmsg.MasterChanged](a.conn))
	a.acknowledge()
}

func activeIDs(w *world) (ids []string) {
	w.view().ActiveApplications(func(a *fsm.Application) bool {
		ids = append(ids, a.ID)
		return true
	})
	return ids
}

// A leader answers itself and keeps nothing; a refused registration is not kept either.
func TestS22_LeaderKeepsNothing(t *testing.T) {
	w := newWorld(t)
	w.joinedApp(1)
	b := w.app(2)
	w.held = true
	b.register()
	w.fail(errors.New("overloaded"))
	if len(w.core.kept) != 0 {
		t.Errorf("%d registrations are kept", len(w.core.kept))
	}
}

// What a standby keeps is bounded, whoever asks.
func TestS22_KeptRegistrationsAreBounded(t *testing.T) {
	w := newStandby(t)
	for n := range maxKept + 10 {
		reg := &registration{conn: w.conn(sparkmsg.Address{}), addr: sparkmsg.Address{Host: fmt.Sprintf("d%d", n), Port: 1},
			desc: &sparkmsg.ApplicationDescription{}, payload: []byte("p")}
		w.core.keepRegistration(reg)
		w.core.keepRegistration(reg)
	}
	if len(w.core.kept) != maxKept || w.core.keptBytes != maxKept {
		t.Errorf("%d registrations, %d bytes are kept", len(w.core.kept), w.core.keptBytes)
	}
	for addr, k := range w.core.kept {
		if k.reg.desc != nil {
			t.Fatalf("the registration of %s is kept as objects, whose size nobody counts", addr)
		}
	}
	w.core.ConnClosed(sparkmsg.Address{Host: "d0", Port: 1}, true)
	big := &registration{conn: w.conn(sparkmsg.Address{}), addr: sparkmsg.Address{Host: "big", Port: 1}, payload: []byte(strings.Repeat("x", maxKeptBytes))}
	w.core.keepRegistration(big)
	if w.core.kept[big.addr] != nil {
		t.Error("a registration beyond the bytes allowed is kept")
	}
	w.advance(keepFor)
	if len(w.core.kept) != 0 || w.core.keptBytes != 0 {
		t.Errorf("%d registrations, %d bytes are kept after their time", len(w.core.kept), w.core.keptBytes)
	}
}
