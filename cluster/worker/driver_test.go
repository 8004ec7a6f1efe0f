package worker

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"raftmaster/transport/sparkmsg"
	"raftmaster/transport/sparkrpc"
)

// news are the ends of drivers that were said.
func (b *bench) news() string {
	var lines []string
	for _, s := range take[*sparkmsg.DriverStateChanged](b) {
		m := s.msg.(*sparkmsg.DriverStateChanged)
		lines = append(lines, fmt.Sprintf("%s %s to %s", m.DriverID, m.State, s.to.Host))
	}
	return strings.Join(lines, "; ")
}

// receipts answers the questions behind the news.
func (b *bench) receipts(err error) (n int) {
	for _, s := range take[*sparkmsg.CheckExistence](b) {
		if s.msg.(*sparkmsg.CheckExistence).Name == "receipt" {
			n++
			s.answer(nil, err)
		}
	}
	return n
}

func TestDriverLife_B140(t *testing.T) {
	b, c := registered(t, nil)
	p := b.launchDriver(c, "driver-1")
	p.started(5)
	s := b.Status()
	if s.CoresUsed != 1 || s.MemoryUsedMB != 256 || len(s.Drivers) != 1 || s.Drivers[0].PID != 5 || s.Drivers[0].MainClass != "my.Main" || s.Drivers[0].Attempts != 1 {
		t.Errorf("status %+v", s)
	}
	b.OneWay(c, &masterA, driverLaunch("driver-1")) // a launch comes twice
	if len(b.procs) != 1 {
		t.Fatal("a driver runs twice")
	}
	p.over(DriverEnd{State: sparkmsg.DriverFinished})
	expect(t, "end", b.news(), "driver-1 FINISHED to a")
	if b.receipts(nil) != 1 {
		t.Error("no receipt was asked for")
	}
	if s = b.Status(); s.CoresUsed != 0 || len(s.FinishedDrivers) != 1 {
		t.Errorf("status %+v", s)
	}
}

// ERROR carries the reason.
func TestDriverError_B144(t *testing.T) {
	b, c := registered(t, nil)
	b.launchDriver(c, "driver-1").over(DriverEnd{State: sparkmsg.DriverError, Error: "no such jar"})
	m := take[*sparkmsg.DriverStateChanged](b)[0].msg.(*sparkmsg.DriverStateChanged)
	if m.State != sparkmsg.DriverError || m.Exception == nil || m.Exception.Message != "no such jar" {
		t.Errorf("%+v", m)
	}
	b.OneWay(c, &masterA, driverLaunch("../x"))
	expect(t, "a driver whose id is a path", b.news(), "../x ERROR to a")
}

// G-23: LaunchDriver and KillDriver of a stale or unknown master are refused, whatever address they claim.
func TestFencing_G23(t *testing.T) {
	b, c := registered(t, nil)
	p := b.launchDriver(c, "driver-1")
	b.OneWay(&fakeConn{id: 2, peer: masterB}, &masterB, &sparkmsg.MasterChanged{Master: ref(masterB)})
	b.said = nil
	b.OneWay(c, &masterA, driverLaunch("driver-2"))                                  // deposed
	b.OneWay(c, &masterA, &sparkmsg.KillDriver{DriverID: "driver-1"})                // deposed
	b.OneWay(c, &masterB, driverLaunch("driver-2"))                                  // the deposed master's connection
	b.OneWay(&fakeConn{id: 3}, nil, driverLaunch("driver-2"))                        // nobody
	b.OneWay(&fakeConn{id: 4}, &masterB, &sparkmsg.KillDriver{DriverID: "driver-1"}) // a stranger's connection
	if len(b.procs) != 1 || p.kills != 0 {
		t.Fatalf("%d processes, %d kills", len(b.procs), p.kills)
	}
	if said := b.news(); said != "" {
		t.Errorf("a refusal was reported: %s", said)
	}
	b.OneWay(&fakeConn{id: 2}, &masterB, &sparkmsg.KillDriver{DriverID: "driver-1"})
	if p.kills != 1 {
		t.Error("the active master's kill was refused")
	}
}

// The end of a driver while nobody leads is told to the next master, before the list; and to each new one for a while.
func TestDriverEndsWhileNobodyLeads(t *testing.T) {
	b, c := registered(t, nil)
	p := b.launchDriver(c, "driver-1")
	b.Closed(c.id, false)
	p.over(DriverEnd{State: sparkmsg.DriverFinished})
	expect(t, "without a master", b.news(), "")
	b.said = nil
	b.OneWay(&fakeConn{id: 2, peer: masterB}, &masterB, &sparkmsg.MasterChanged{Master: ref(masterB)})
	if _, ok := b.said[0].msg.(*sparkmsg.DriverStateChanged); !ok {
		t.Errorf("the new master heard %T first", b.said[0].msg)
	}
	expect(t, "to the new master", b.news(), "driver-1 FINISHED to b")
	b.receipts(nil)
	b.OneWay(&fakeConn{id: 3, peer: masterC}, &masterC, &sparkmsg.MasterChanged{Master: ref(masterC)})
	expect(t, "to one soon after", b.news(), "driver-1 FINISHED to c")
	b.pass(driverNewsLife)
	b.OneWay(&fakeConn{id: 4, peer: masterA}, &masterA, &sparkmsg.MasterChanged{Master: ref(masterA)})
	expect(t, "to one much later", b.news(), "")
}

// Without a receipt the end of a driver is never forgotten.
func TestDriverNewsWithoutReceipt(t *testing.T) {
	b, c := registered(t, nil)
	b.launchDriver(c, "driver-1").over(DriverEnd{State: sparkmsg.DriverFailed})
	b.news()
	b.receipts(sparkrpc.ErrConnClosed)
	b.pass(24 * time.Hour)
	b.OneWay(&fakeConn{id: 4, peer: masterB}, &masterB, &sparkmsg.MasterChanged{Master: ref(masterB)})
	expect(t, "a day later", b.news(), "driver-1 FAILED to b")
}

// G-36: a kill that is repeated for a driver that has ended brings the end again.
func TestKillOfADriverThatHasEnded_G36(t *testing.T) {
	b, c := registered(t, nil)
	p := b.launchDriver(c, "driver-1")
	b.OneWay(c, &masterA, &sparkmsg.KillDriver{DriverID: "driver-1"})
	b.OneWay(c, &masterA, &sparkmsg.KillDriver{DriverID: "driver-1"})
	if p.kills != 2 {
		t.Errorf("%d kills", p.kills)
	}
	p.over(DriverEnd{State: sparkmsg.DriverKilled})
	expect(t, "end", b.news(), "driver-1 KILLED to a")
	b.OneWay(c, &masterA, &sparkmsg.KillDriver{DriverID: "driver-1"})
	expect(t, "again", b.news(), "driver-1 KILLED to a")
	b.OneWay(c, &masterA, &sparkmsg.KillDriver{DriverID: "driver-9"})
	expect(t, "an unknown one", b.news(), "")
}

// A driver that has ended here is not run a second time by a leader that has not heard of its end: it hears it again.
func TestEndedDriverIsNotRunAgain(t *testing.T) {
	b, c := registered(t, nil)
	b.launchDriver(c, "driver-1").over(DriverEnd{State: sparkmsg.DriverFinished})
	b.news()
	next := &fakeConn{id: 2, peer: masterB}
	b.OneWay(next, &masterB, &sparkmsg.MasterChanged{Master: ref(masterB)})
	b.news()
	b.OneWay(next, &masterB, driverLaunch("driver-1"))
	if len(b.procs) != 1 {
		t.Fatal("the driver runs a second time")
	}
	expect(t, "the answer", b.news(), "driver-1 FINISHED to b")
}
