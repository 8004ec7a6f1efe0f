package worker

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"raftmaster/transport/sparkmsg"
	"raftmaster/transport/sparkrpc"
)

// disorder drives a Core through whatever masters, processes and the network can do to it.
type disorder struct {
	*bench
	r    *rapid.T
	live []*fakeProcess
}

// step is one event.
func (d *disorder) step() {
	r := d.r
	master := rapid.SampledFrom([]sparkmsg.Address{masterA, masterB}).Draw(r, "master")
	conn := &fakeConn{id: rapid.Uint64Range(1, 4).Draw(r, "conn"), peer: master}
	app := fmt.Sprintf("app-%d", rapid.IntRange(0, 2).Draw(r, "app"))
	id := rapid.Int32Range(0, 3).Draw(r, "id")
	before := len(d.procs)
	switch rapid.IntRange(0, 12).Draw(r, "event") {
	case 0:
		d.OneWay(conn, &master, &sparkmsg.RegisteredWorker{Master: ref(master), MasterAddress: master, Duplicate: id == 0})
	case 1:
		d.OneWay(conn, &master, &sparkmsg.MasterChanged{Master: ref(master)})
	case 2:
		d.Closed(conn.id, id == 0)
	case 3, 4:
		m := launch(app, id, master)
		m.Cores, m.Memory = rapid.Int32Range(-1, 4).Draw(r, "cores"), rapid.Int32Range(-1, 900).Draw(r, "memory")
		d.OneWay(conn, &master, m)
	case 5:
		m := driverLaunch(fmt.Sprintf("driver-%d", rapid.IntRange(0, 9).Draw(r, "driver")))
		m.DriverDesc.Cores = rapid.Int32Range(1, 3).Draw(r, "cores")
		d.OneWay(conn, &master, m)
	case 6:
		d.OneWay(conn, &master, &sparkmsg.KillExecutor{MasterURL: "spark://" + master.String(), AppID: app, ExecID: id})
	case 7:
		d.OneWay(conn, &master, &sparkmsg.ApplicationFinished{ID: app})
	case 8, 9:
		d.end()
	case 10:
		d.pass(time.Duration(rapid.IntRange(0, 40).Draw(r, "seconds")) * time.Second)
	case 11:
		d.answerReports(rapid.SampledFrom([]error{nil, sparkrpc.ErrConnClosed, sparkrpc.ErrTimeout}).Draw(r, "answer"))
		d.receipts(nil)
	case 12:
		if len(d.live) > 0 {
			rapid.SampledFrom(d.live).Draw(r, "started").started(int(id) + 2)
		}
	}
	d.live = append(d.live, d.procs[before:]...)
}

// end ends one of the processes.
func (d *disorder) end() {
	if len(d.live) == 0 {
		return
	}
	i := rapid.IntRange(0, len(d.live)-1).Draw(d.r, "which")
	p := d.live[i]
	d.live = slices.Delete(d.live, i, i+1)
	if p.exec != nil {
		p.ended(rapid.SampledFrom([]ExecutorEnd{exited(0), exited(137), {State: sparkmsg.ExecutorFailed, Message: "no space"},
			{State: sparkmsg.ExecutorKilled}}).Draw(d.r, "end"))
		return
	}
	p.over(DriverEnd{State: rapid.SampledFrom([]sparkmsg.DriverState{sparkmsg.DriverFinished, sparkmsg.DriverFailed,
		sparkmsg.DriverError, sparkmsg.DriverKilled}).Draw(d.r, "driver end")})
}

// check compares the accounts with what runs.
func (d *disorder) check() {
	var cores, memory int
	drivers := map[string]bool{}
	for _, p := range d.live {
		if p.exec != nil {
			cores, memory = cores+int(p.exec.Cores), memory+int(p.exec.MemoryMB)
			continue
		}
		if drivers[p.name] {
			d.r.Fatalf("%s runs twice", p.name)
		}
		drivers[p.name] = true
	}
	for _, v := range d.drivers {
		cores, memory = cores+int(v.cores), memory+int(v.memory)
	}
	s := d.Status()
	if s.CoresUsed != cores || s.MemoryUsedMB != memory || len(s.Executors)+len(s.Drivers) != len(d.live) || len(s.Drivers) != len(drivers) {
		d.r.Fatalf("%d cores and %d MiB are booked for %d executors and %d drivers; %d processes with %d cores and %d MiB run",
			s.CoresUsed, s.MemoryUsedMB, len(s.Executors), len(s.Drivers), len(d.live), cores, memory)
	}
}

// Whatever order launches, ends, failovers and lost answers come in, what is booked is what runs, no driver runs twice,
// and when all is over and told nothing is left.
func TestAccountsAreThoseOfWhatRuns(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		b, _ := registered(t, func(c *CoreConfig) { c.MaxTries = 1 << 20 })
		d := &disorder{bench: b, r: r}
		for range rapid.IntRange(1, 80).Draw(r, "steps") {
			d.step()
			d.check()
		}
		for len(d.live) > 0 {
			d.end()
		}
		d.check()
		last := &fakeConn{id: 99, peer: masterC}
		d.OneWay(last, &masterC, &sparkmsg.MasterChanged{Master: ref(masterC)})
		for i := range 3 {
			d.OneWay(last, &masterC, &sparkmsg.ApplicationFinished{ID: fmt.Sprintf("app-%d", i)})
		}
		for range 50 {
			d.answerReports(nil)
			d.receipts(nil)
			d.pass(time.Second)
		}
		if processes, reports := d.Drained(); processes != 0 || reports != 0 || len(d.apps) != 0 || len(d.reportOrder) != 0 {
			r.Fatalf("%d processes, %d reports (%v), %d applications are left", processes, reports, d.reportOrder, len(d.apps))
		}
	})
}

// Ten thousand launches leave no more behind than a few.
func TestTablesDoNotGrow(t *testing.T) {
	b, c := registered(t, nil)
	for i := range 10_000 {
		app := fmt.Sprintf("app-%d", i)
		p := b.launch(c, app, 0)
		p.started(5)
		p.ended(exited(0))
		b.launchDriver(c, fmt.Sprintf("driver-%d", i)).over(DriverEnd{State: sparkmsg.DriverFinished})
		b.OneWay(c, &masterA, &sparkmsg.ApplicationFinished{ID: app})
		for len(b.reports) > 0 {
			b.answerReports(nil)
		}
		b.receipts(nil)
		b.said, b.procs, b.forgot = nil, b.procs[:0], nil
	}
	b.pass(time.Minute)
	if n := len(b.apps) + len(b.executors) + len(b.drivers) + len(b.reports) + len(b.reportOrder); n != 0 {
		t.Errorf("%d entries are left", n)
	}
	if len(b.ended) > 20 || len(b.endedDrivers) > 20 || len(b.driverNews) > maxDriverNews || b.timers.Held() > 20 {
		t.Errorf("%d executors, %d drivers, %d news, %d timers are kept", len(b.ended), len(b.endedDrivers), len(b.driverNews), b.timers.Held())
	}
}
