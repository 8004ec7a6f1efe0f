package worker

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"raftmaster/transport/frame"
	"raftmaster/transport/sparkmsg"
	"raftmaster/transport/sparkrpc"
)

// fakeMaster is a master that says what the test says, over TCP.
type fakeMaster struct {
	t    *testing.T
	addr frame.Address
	rpc  *sparkrpc.Endpoint
	in   chan sparkmsg.Message
	// onRegister is called on the goroutine of the connection.
	onRegister func(m *fakeMaster, c *sparkrpc.Conn, r *sparkmsg.RegisterWorker)
}

func newFakeMaster(t *testing.T, onRegister func(*fakeMaster, *sparkrpc.Conn, *sparkmsg.RegisterWorker)) *fakeMaster {
	t.Helper()
	host := newHost()
	ln, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		t.Fatal(err)
	}
	m := &fakeMaster{t: t, addr: frame.Address{Host: host, Port: int32(ln.Addr().(*net.TCPAddr).Port)}, in: make(chan sparkmsg.Message, 4096), onRegister: onRegister}
	m.rpc = sparkrpc.New(sparkrpc.Config{Self: m.addr, Exists: func(name string) bool { return name == "Master" }, Log: hclog.NewNullLogger()}, m)
	accepting := make(chan struct{})
	go func() {
		defer close(accepting)
		for {
			nc, err := ln.Accept()
			if err != nil {
				return
			}
			go m.rpc.ServeConn(nc)
		}
	}()
	t.Cleanup(func() {
		if err := ln.Close(); err != nil {
			t.Error(err)
		}
		<-accepting
		m.rpc.Close()
	})
	return m
}

// OneWay implements sparkrpc.Handler.
func (m *fakeMaster) OneWay(c *sparkrpc.Conn, in sparkrpc.Inbound) {
	if r, ok := in.Msg.(*sparkmsg.RegisterWorker); ok && m.onRegister != nil {
		m.onRegister(m, c, r)
	}
	m.in <- in.Msg
}

// Ask implements sparkrpc.Handler.
func (m *fakeMaster) Ask(_ *sparkrpc.Conn, in sparkrpc.Inbound, reply func(sparkmsg.Message, error)) {
	m.in <- in.Msg
	reply(&sparkmsg.Boolean{Value: true}, nil)
}

// Closed implements sparkrpc.Handler.
func (m *fakeMaster) Closed(*sparkrpc.Conn, frame.Address, bool) {}

func (m *fakeMaster) ref() sparkmsg.EndpointRef {
	addr := m.addr
	return sparkmsg.EndpointRef{Name: "Master", Address: &addr}
}

func (m *fakeMaster) send(w *testWorker, msg sparkmsg.Message) {
	m.rpc.Send(w.Address(), "Worker", sparkmsg.FamilyB, msg)
}

// next waits for a message of one kind and drops the others.
func next[M sparkmsg.Message](m *fakeMaster) M {
	m.t.Helper()
	timeout := time.After(patience)
	for {
		select {
		case msg := <-m.in:
			if want, ok := msg.(M); ok {
				return want
			}
		case <-timeout:
			var want M
			m.t.Fatalf("no %T within %v", want, patience)
		}
	}
}

// accepting registers whoever asks.
func accepting(m *fakeMaster, c *sparkrpc.Conn, r *sparkmsg.RegisterWorker) {
	c.Push("Worker", sparkmsg.FamilyB, &sparkmsg.RegisteredWorker{Master: m.ref(), MasterWebUIURL: "http://m", MasterAddress: r.MasterAddress})
}

// standby says so to whoever asks.
func standby(_ *fakeMaster, c *sparkrpc.Conn, _ *sparkmsg.RegisterWorker) {
	c.Push("Worker", sparkmsg.FamilyB, &sparkmsg.MasterInStandby{})
}

func testExecutor(m *fakeMaster, app string, id int32) *sparkmsg.LaunchExecutor {
	l := launch(app, id, m.addr)
	if err := l.AppDesc.Bind(sparkmsg.FamilyB); err != nil {
		m.t.Fatal(err)
	}
	return l
}

func testDriver(m *fakeMaster, id string) *sparkmsg.LaunchDriver {
	l := driverLaunch(id)
	l.DriverDesc.JarURL = ""
	if err := l.DriverDesc.Bind(sparkmsg.FamilyB); err != nil {
		m.t.Fatal(err)
	}
	return l
}

// The receipt of a launch: when CheckExistence("Worker") is answered, a list that is asked for next names the executor.
func TestReceiptComesAfterTheLaunchIsTaken(t *testing.T) {
	m := newFakeMaster(t, accepting)
	w := startWorker(t, settings(t, []frame.Address{m.addr}, 4), fakeJava(t, "exec sleep 600"), nil)
	next[*sparkmsg.WorkerLatestState](m)
	for i := range int32(20) {
		answered := make(chan error, 1)
		m.send(w, testExecutor(m, "app", i))
		m.rpc.Ask(w.Address(), sparkrpc.VerifierEndpoint, sparkmsg.FamilyB, &sparkmsg.CheckExistence{Name: "Worker"}, patience,
			func(answer sparkmsg.Message, err error) {
				if yes, ok := answer.(*sparkmsg.Boolean); err == nil && (!ok || !yes.Value) {
					err = errors.New("there is no worker")
				}
				answered <- err
			})
		if err := <-answered; err != nil {
			t.Fatal(err)
		}
		m.send(w, &sparkmsg.MasterChanged{Master: m.ref()})
		if list := next[*sparkmsg.WorkerSchedulerStateResponse](m); len(list.ExecResponses) != int(i)+1 {
			t.Fatalf("after %d launches the list names %d executors", i+1, len(list.ExecResponses))
		}
	}
}

// S19 and G-23 over TCP: a master that was deposed cannot start, kill or decommission anything.
func TestDeposedMasterIsRefused_G23(t *testing.T) {
	old, young := newFakeMaster(t, accepting), newFakeMaster(t, standby)
	w := startWorker(t, settings(t, []frame.Address{old.addr, young.addr}, 4), fakeJava(t, "exec sleep 600"), nil)
	next[*sparkmsg.WorkerLatestState](old)
	old.send(w, testDriver(old, "driver-1"))
	eventually(t, "a driver", func() bool { d := w.Status().Drivers; return len(d) == 1 && d[0].PID != 0 })
	young.send(w, &sparkmsg.MasterChanged{Master: young.ref()})
	if list := next[*sparkmsg.WorkerSchedulerStateResponse](young); len(list.DriverResponses) != 1 {
		t.Fatalf("list %+v", list)
	}
	old.send(w, testDriver(old, "driver-2"))
	old.send(w, &sparkmsg.KillDriver{DriverID: "driver-1"})
	old.send(w, testExecutor(old, "app", 0))
	old.send(w, &sparkmsg.DecommissionWorker{})
	old.send(w, &sparkmsg.ReconnectWorker{MasterURL: "spark://" + old.addr.String()})
	eventually(t, "refusals", func() bool {
		return strings.Count(w.log.String(), "an order is refused") == 3 && strings.Contains(w.log.String(), "it is not the active master")
	})
	if s := w.Status(); len(s.Drivers) != 1 || s.Drivers[0].ID != "driver-1" || len(s.Executors) != 0 || s.Decommissioned || s.MasterURL != "spark://"+young.addr.String() {
		t.Errorf("status %+v", s)
	}
	young.send(w, testDriver(young, "driver-2"))
	young.send(w, &sparkmsg.KillDriver{DriverID: "driver-1"})
	if end := next[*sparkmsg.DriverStateChanged](young); end.DriverID != "driver-1" || end.State != sparkmsg.DriverKilled {
		t.Errorf("%+v", end)
	}
	eventually(t, "the new master's driver", func() bool { d := w.Status().Drivers; return len(d) == 1 && d[0].ID == "driver-2" })
}

// A child's connection stays open however long it is silent: its end would be the child's.
func TestChildConnectionStaysOpen(t *testing.T) {
	m := newFakeMaster(t, accepting)
	w := startWorker(t, settings(t, []frame.Address{m.addr}, 1), fakeJava(t, "exec sleep 600"), nil)
	w.registered()
	// Like an executor, this one asks on a connection of its own and has no server (no sender address counts here).
	ask := newFakeMaster(t, nil)
	answered := make(chan error, 1)
	ask.rpc.Ask(w.Address(), sparkrpc.VerifierEndpoint, sparkmsg.FamilyB, &sparkmsg.CheckExistence{Name: "Worker"}, patience,
		func(_ sparkmsg.Message, err error) { answered <- err })
	if err := <-answered; err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	for ctx.Err() == nil {
		if !ask.rpc.Attached(w.Address()) {
			t.Fatal("the worker closed it")
		}
		time.Sleep(50 * time.Millisecond)
	}
	w.stop()
	eventually(t, "its end with the worker", func() bool { return !ask.rpc.Attached(w.Address()) })
}

// B-020 and B-023 over TCP: the worker ends with code 1 when it is refused, and when no master ever accepts it.
func TestWorkerGivesUp_B020_B023(t *testing.T) {
	for name, m := range map[string]*fakeMaster{
		"refused": newFakeMaster(t, func(_ *fakeMaster, c *sparkrpc.Conn, _ *sparkmsg.RegisterWorker) {
			c.Push("Worker", sparkmsg.FamilyB, &sparkmsg.RegisterWorkerFailed{Message: "Attempted to re-register worker at same address"})
		}),
		"standby for ever": newFakeMaster(t, standby),
	} {
		t.Run(name, func(t *testing.T) {
			log, _ := newLog(t, "worker")
			s := settings(t, []frame.Address{m.addr}, 1)
			w, err := New(Config{Settings: s, Home: fakeHome(t, "3.5.9"), Log: log, RetryShort: 10 * time.Millisecond, RetryLong: 10 * time.Millisecond,
				Environ: func(context.Context) ([]string, error) { return nil, nil }})
			if err != nil {
				t.Fatal(err)
			}
			err = w.Run(context.Background())
			var exit *ExitError
			if !errors.As(err, &exit) || exit.Code != 1 {
				t.Errorf("%v", err)
			}
		})
	}
}

// The decommissioned worker tells its master, takes nothing new and keeps what runs.
func TestDecommissionedWorker(t *testing.T) {
	m := newFakeMaster(t, accepting)
	w := startWorker(t, settings(t, []frame.Address{m.addr}, 4), fakeJava(t, "exec sleep 600"), nil)
	next[*sparkmsg.WorkerLatestState](m)
	m.send(w, testExecutor(m, "app", 0))
	eventually(t, "an executor", func() bool { return len(w.pids()) == 1 })
	w.Decommission()
	next[*sparkmsg.WorkerDecommissioning](m)
	m.send(w, testExecutor(m, "app", 1))
	for {
		r := next[*sparkmsg.ExecutorStateChanged](m)
		if r.ExecID == 1 {
			if r.State != sparkmsg.ExecutorFailed || !strings.Contains(*r.Message, "decommissioned") {
				t.Errorf("%+v", r)
			}
			break
		}
	}
	if s := w.Status(); len(s.Executors) != 1 || !s.Decommissioned {
		t.Errorf("status %+v", s)
	}
	w.stop()
	r := next[*sparkmsg.ExecutorStateChanged](m)
	if r.ExecID != 0 || r.State != sparkmsg.ExecutorFailed || *r.Message != "Worker shutting down" || r.ExitStatus == nil || *r.ExitStatus != 143 {
		t.Errorf("the last report is %+v", r)
	}
}
