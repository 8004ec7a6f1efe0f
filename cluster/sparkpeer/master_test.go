package sparkpeer

import (
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"raftmaster/transport/frame"
	"raftmaster/transport/sparkmsg"
	"raftmaster/transport/sparkrpc"
)

const patience = 20 * time.Second

// fakeMaster is the least of a master: it accepts, or refuses as a standby, and pushes what a test tells it.
type fakeMaster struct {
	t    testing.TB
	ep   *sparkrpc.Endpoint
	ln   net.Listener
	addr frame.Address
	wg   sync.WaitGroup

	mu         sync.Mutex
	standby    bool
	silent     bool // answers no registration
	refuse     string
	workers    map[string]sparkmsg.RegisterWorker
	apps       map[frame.Address]string
	heartbeats map[string]int
	got        []sparkmsg.Message
	failAsks   int
	fam        sparkmsg.Family
}

func newMaster(t testing.TB, addr string) *fakeMaster {
	t.Helper()
	m := &fakeMaster{t: t, workers: map[string]sparkmsg.RegisterWorker{}, apps: map[frame.Address]string{},
		heartbeats: map[string]int{}, fam: sparkmsg.FamilyB}
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	m.ln = ln
	m.addr = frame.Address{Host: "127.0.0.1", Port: int32(ln.Addr().(*net.TCPAddr).Port)}
	m.ep = sparkrpc.New(sparkrpc.Config{
		Self: m.addr, Exists: func(n string) bool { return n == "Master" || n == sparkrpc.VerifierEndpoint }, Log: hclog.NewNullLogger(),
	}, m)
	m.wg.Go(func() {
		for {
			nc, err := ln.Accept()
			if err != nil {
				return
			}
			m.wg.Go(func() { m.ep.ServeConn(nc) })
		}
	})
	t.Cleanup(m.stop)
	return m
}

func (m *fakeMaster) stop() {
	_ = m.ln.Close()
	m.ep.Close()
	m.wg.Wait()
}

func (m *fakeMaster) url() string { return "spark://" + m.addr.String() }

func (m *fakeMaster) ref() sparkmsg.EndpointRef {
	addr := m.addr
	return sparkmsg.EndpointRef{Name: "Master", Address: &addr}
}

func (m *fakeMaster) set(f func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f()
}

func (m *fakeMaster) OneWay(_ *sparkrpc.Conn, in sparkrpc.Inbound) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.got = append(m.got, in.Msg)
	switch r := in.Msg.(type) {
	case *sparkmsg.RegisterWorker:
		switch {
		case m.silent:
		case m.standby:
			m.ep.Send(*r.Worker.Address, "Worker", m.fam, &sparkmsg.MasterInStandby{})
		case m.refuse != "":
			m.ep.Send(*r.Worker.Address, "Worker", m.fam, &sparkmsg.RegisterWorkerFailed{Message: m.refuse})
		default:
			_, known := m.workers[r.ID]
			m.workers[r.ID] = *r
			m.ep.Send(*r.Worker.Address, "Worker", m.fam, &sparkmsg.RegisteredWorker{
				Master: m.ref(), MasterWebUIURL: "http://m:8080", MasterAddress: r.MasterAddress, Duplicate: known,
			})
		}
	case *sparkmsg.Heartbeat:
		m.heartbeats[r.WorkerID]++
	case *sparkmsg.RegisterApplication:
		if m.standby || m.silent {
			return
		}
		id := m.apps[*r.Driver.Address]
		if id == "" {
			id = fmt.Sprintf("app-20200101000000-%04d", len(m.apps))
			m.apps[*r.Driver.Address] = id
		}
		m.ep.Send(*r.Driver.Address, "AppClient", m.fam, &sparkmsg.RegisteredApplication{AppID: id, Master: m.ref()})
	}
}

func (m *fakeMaster) Ask(_ *sparkrpc.Conn, in sparkrpc.Inbound, reply func(sparkmsg.Message, error)) {
	m.mu.Lock()
	m.got = append(m.got, in.Msg)
	fail := m.failAsks > 0
	m.failAsks--
	m.mu.Unlock()
	if fail {
		reply(nil, fmt.Errorf("not now"))
		return
	}
	reply(m.driverAnswer(in.Msg), nil)
}

// driverAnswer knows one driver, driver-1; everything else is answered with true.
func (m *fakeMaster) driverAnswer(msg sparkmsg.Message) sparkmsg.Message {
	m.mu.Lock()
	defer m.mu.Unlock()
	const standby = "Current state is not alive: STANDBY. Can only do that in ALIVE state."
	id, state := "driver-1", sparkmsg.DriverRunning
	switch r := msg.(type) {
	case *sparkmsg.RequestSubmitDriver:
		if m.standby {
			return &sparkmsg.SubmitDriverResponse{Message: standby}
		}
		return &sparkmsg.SubmitDriverResponse{Success: true, DriverID: &id}
	case *sparkmsg.RequestKillDriver:
		if m.standby {
			return &sparkmsg.KillDriverResponse{DriverID: r.DriverID, Message: standby}
		}
		return &sparkmsg.KillDriverResponse{DriverID: r.DriverID, Success: r.DriverID == id}
	case *sparkmsg.RequestKillAllDrivers:
		if m.standby {
			return &sparkmsg.KillAllDriversResponse{Message: standby}
		}
		return &sparkmsg.KillAllDriversResponse{Success: true}
	case *sparkmsg.RequestDriverStatus:
		if m.standby {
			return &sparkmsg.DriverStatusResponse{Exception: &sparkmsg.Exception{Message: standby}}
		}
		return &sparkmsg.DriverStatusResponse{Found: r.DriverID == id, State: &state}
	}
	return &sparkmsg.Boolean{Value: true}
}

func (m *fakeMaster) Closed(*sparkrpc.Conn, frame.Address, bool) {}

// seen returns the messages of one name.
func (m *fakeMaster) seen(name string) []sparkmsg.Message {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []sparkmsg.Message
	for _, msg := range m.got {
		if msg.MessageName() == name {
			out = append(out, msg)
		}
	}
	return out
}

func eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !cond() {
		if time.Now().After(deadline) {
			t.Fatalf("timed out: %s", what)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

func testWorker(t testing.TB, tune func(*WorkerConfig), masters ...*fakeMaster) *Worker {
	t.Helper()
	cfg := WorkerConfig{Heartbeat: 10 * time.Millisecond, RetryShort: 30 * time.Millisecond, RetryLong: 60 * time.Millisecond,
		AskTimeout: 200 * time.Millisecond}
	for _, m := range masters {
		cfg.Masters = append(cfg.Masters, m.addr)
	}
	if tune != nil {
		tune(&cfg)
	}
	w, err := NewWorker(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	return w
}

func waitFor(t testing.TB, l *EventLog, kind string) Event {
	t.Helper()
	e, err := l.Wait(kind, patience)
	if err != nil {
		t.Fatal(err)
	}
	return e
}
