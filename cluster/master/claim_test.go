package master

import (
	"testing"

	"raftmaster/fsm"
	"raftmaster/transport/sparkmsg"
)

// B-102: the same driver on another connection, after its id was named: it is asked on that connection which id it has,
// names its own, and keeps it.
func TestB102_SameDriverOnAnotherConnectionIsAskedAndKeepsItsID(t *testing.T) {
	w := newWorld(t)
	fw := w.joined(1)
	a := w.joinedApp(1)
	a.target(4)
	fw.runAll()
	id := a.id
	a.conn, a.claims = w.conn(a.addr), 0
	a.register()
	if a.claims != 1 {
		t.Errorf("it was asked %d times", a.claims)
	}
	if a.id != id {
		t.Errorf("the driver has id %s, then %s", id, a.id)
	}
	a.wantState(fsm.AppRunning)
	wantLen(t, "kills", fw.kills(), 0)
}

// B-102: a static application never names its id. A receipt behind RegisteredApplication confirms that it got it.
func TestB102_ReceiptOfTheAnswerConfirmsTheID(t *testing.T) {
	w := newWorld(t)
	a := w.joinedApp(1)
	if a.entry().Confirmed {
		t.Fatal("confirmed before anything arrived")
	}
	q := w.net.receiptFor(t, a.addr)
	q.receipt(Receipt{First: q.seq, Last: q.seq + 1, Exists: true}, nil)
	w.settle()
	if !a.entry().Confirmed {
		t.Error("the answer arrived, but the id is not confirmed")
	}
	young := w.app(1)
	young.register()
	if young.id == a.id {
		t.Error("a new driver on the old port got the old id")
	}
	a.wantState(fsm.AppFailed)
}

func TestB102_ReceiptThatDoesNotCoverTheAnswerConfirmsNothing(t *testing.T) {
	w := newWorld(t)
	a := w.joinedApp(1)
	q := w.net.receiptFor(t, a.addr)
	q.receipt(Receipt{First: q.seq + 1, Last: q.seq + 5, Exists: true}, nil)
	w.settle()
	if a.entry().Confirmed {
		t.Error("a receipt for later messages confirms the id")
	}
}

// B-102: before the id is confirmed the description tells drivers apart: another one at the address is another driver.
func TestB102_AnotherDescriptionBeforeTheIDWasNamedIsANewDriver(t *testing.T) {
	w := newWorld(t)
	old := w.joinedApp(1)
	young := w.app(1, func(d *sparkmsg.ApplicationDescription) { d.Name = "something else" })
	young.register()
	if young.id == old.id {
		t.Fatalf("both drivers have id %s", old.id)
	}
	old.wantState(fsm.AppFailed)
	if young.entry().Name != "something else" {
		t.Errorf("the new application is called %q", young.entry().Name)
	}
}

// A driver that does not answer the question gets nothing, and its next try asks again.
func TestB102_UnansweredQuestionIsAskedAgain(t *testing.T) {
	w := newWorld(t)
	old := w.joinedApp(1)
	old.target(1)
	young := w.app(1)
	addr := young.addr
	m := &sparkmsg.RegisterApplication{AppDescription: young.desc, Driver: sparkmsg.EndpointRef{Name: "AppClient", Address: &addr}}
	for range 2 {
		w.core.OneWay(young.conn, &addr, famE, m)
		w.settle()
	}
	wantLen(t, "questions", pushed[*sparkmsg.MasterChanged](young.conn), 2)
	old.wantState(fsm.AppWaiting)
	young.claims = 2
	young.acknowledge()
	old.wantState(fsm.AppFailed)
	wantLen(t, "RegisteredApplication", young.ids(), 2) // the old driver's and the new one's
}

// A leader without a lease asks nobody, refuses nobody and ends nobody: another master may lead.
func TestS19_NothingIsSaidOnConnectionsWithoutALease(t *testing.T) {
	w := newWorld(t)
	a := w.joinedApp(1)
	a.target(1)
	fw := w.worker(1)
	*w.lease = false
	w.held = true
	young := w.app(1)
	young.register()                                                    // would be asked
	young.say(&sparkmsg.MasterChangeAcknowledged{AppID: "app-unknown"}) // would be ended
	fw.heartbeat()                                                      // would be asked to register
	fw.schedulerState()
	m := fw.registration()
	m.Cores = -1
	fw.say(m) // would be refused, and exit
	wantLen(t, "pushes to the driver", young.conn.pushes, 0)
	wantLen(t, "pushes to the worker", fw.conn.pushes, 0)
	w.fail(errNotLeader)
}
