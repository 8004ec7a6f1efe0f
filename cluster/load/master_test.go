package load

import (
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/hashicorp/go-hclog"

	"raftmaster/transport/frame"
	"raftmaster/transport/sparkmsg"
	"raftmaster/transport/sparkrpc"
)

// fakeMaster is the least of a master: it registers everybody, places executors round robin, and replaces those that
// exit, or it stands by.
type fakeMaster struct {
	t    testing.TB
	ep   *sparkrpc.Endpoint
	ln   net.Listener
	addr frame.Address
	fam  sparkmsg.Family
	wg   sync.WaitGroup

	mu         sync.Mutex
	standby    bool
	noLaunch   bool
	wrongURL   bool
	workers    []sparkmsg.RegisterWorker
	apps       map[string]*fakeApp
	next       int
	execs      int
	heartbeats map[string]int
	closed     map[frame.Address]bool
	finished   []string
	killed     int
	drivers    int
	jobs       map[string]string // ids of drivers by their arguments: the same again is no new one
}

type fakeApp struct {
	id     string
	reg    *sparkmsg.RegisterApplication
	nextID int32
	live   map[int32]frame.Address // executor id -> worker
}

func newFakeMaster(t testing.TB, fam sparkmsg.Family) *fakeMaster {
	t.Helper()
	m := &fakeMaster{t: t, fam: fam, apps: map[string]*fakeApp{}, heartbeats: map[string]int{}, closed: map[frame.Address]bool{},
		jobs: map[string]string{}}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
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
	t.Cleanup(func() {
		_ = m.ln.Close()
		m.ep.Close()
		m.wg.Wait()
	})
	return m
}

func (m *fakeMaster) ref() sparkmsg.EndpointRef {
	addr := m.addr
	return sparkmsg.EndpointRef{Name: "Master", Address: &addr}
}

func (m *fakeMaster) OneWay(_ *sparkrpc.Conn, in sparkrpc.Inbound) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch r := in.Msg.(type) {
	case *sparkmsg.RegisterWorker:
		if m.standby {
			m.ep.Send(*r.Worker.Address, "Worker", m.fam, &sparkmsg.MasterInStandby{})
			return
		}
		m.workers = append(m.workers, *r)
		m.ep.Send(*r.Worker.Address, "Worker", m.fam, &sparkmsg.RegisteredWorker{Master: m.ref(), MasterWebUIURL: "http://m:8080", MasterAddress: r.MasterAddress})
	case *sparkmsg.Heartbeat:
		m.heartbeats[r.WorkerID]++
	case *sparkmsg.RegisterApplication:
		a := &fakeApp{id: fmt.Sprintf("app-20200101000000-%04d", len(m.apps)), reg: r, live: map[int32]frame.Address{}}
		m.apps[a.id] = a
		m.ep.Send(*r.Driver.Address, "AppClient", m.fam, &sparkmsg.RegisteredApplication{AppID: a.id, Master: m.ref()})
		if limit := r.AppDescription.InitialExecutorLimit; limit == nil || *limit > 0 {
			m.place(a, int(*r.AppDescription.MaxCores))
		}
	case *sparkmsg.UnregisterApplication:
		m.finished = append(m.finished, r.AppID)
		if a := m.apps[r.AppID]; a != nil {
			for id, w := range a.live {
				m.ep.Send(w, "Worker", m.fam, &sparkmsg.KillExecutor{MasterURL: "spark://" + m.addr.String(), AppID: a.id, ExecID: id})
			}
		}
	case *sparkmsg.DriverStateChanged:
		m.drivers--
	}
}

// place launches executors; m.mu is held.
func (m *fakeMaster) place(a *fakeApp, n int) {
	for range n {
		if m.noLaunch {
			return
		}
		w := m.workers[m.next%len(m.workers)]
		m.next++
		url := "spark://" + m.addr.String()
		if m.wrongURL {
			url = "spark://other:1"
		}
		m.ep.Send(*w.Worker.Address, "Worker", m.fam, &sparkmsg.LaunchExecutor{MasterURL: url, AppID: a.id, ExecID: a.nextID,
			AppDesc: a.reg.AppDescription, Cores: 1, Memory: 512})
		a.live[a.nextID] = *w.Worker.Address
		a.nextID++
		m.execs++
	}
}

func (m *fakeMaster) Ask(_ *sparkrpc.Conn, in sparkrpc.Inbound, reply func(sparkmsg.Message, error)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch r := in.Msg.(type) {
	case *sparkmsg.RequestDriverStatus:
		answer := &sparkmsg.DriverStatusResponse{}
		if m.standby {
			answer.Exception = &sparkmsg.Exception{Class: "java.lang.Exception", Message: "Current state is not alive: STANDBY. x"}
		}
		reply(answer, nil)
	case *sparkmsg.RequestExecutors:
		a := m.apps[r.AppID]
		m.place(a, int(r.ResourceProfileToTotalExecs[0].Total)-len(a.live))
		reply(&sparkmsg.Boolean{Value: true}, nil)
	case *sparkmsg.ExecutorStateChanged:
		if a := m.apps[r.AppID]; a != nil && r.State.Finished() {
			delete(a.live, r.ExecID)
			if r.State == sparkmsg.ExecutorKilled {
				m.killed++
			} else {
				m.place(a, 1)
			}
		}
		reply(&sparkmsg.Boolean{Value: true}, nil)
	case *sparkmsg.RequestSubmitDriver:
		job := strings.Join(r.DriverDescription.Command.Arguments, " ")
		if id, again := m.jobs[job]; again {
			reply(&sparkmsg.SubmitDriverResponse{Success: true, DriverID: &id, Message: "ok"}, nil)
			return
		}
		id := fmt.Sprintf("driver-20200101000000-%04d", m.drivers)
		m.jobs[job] = id
		m.drivers++
		w := m.workers[m.next%len(m.workers)]
		m.next++
		m.ep.Send(*w.Worker.Address, "Worker", m.fam, &sparkmsg.LaunchDriver{DriverID: id, DriverDesc: r.DriverDescription})
		reply(&sparkmsg.SubmitDriverResponse{Success: true, DriverID: &id, Message: "ok"}, nil)
	case *sparkmsg.RequestKillDriver:
		for _, w := range m.workers {
			m.ep.Send(*w.Worker.Address, "Worker", m.fam, &sparkmsg.KillDriver{DriverID: r.DriverID})
		}
		reply(&sparkmsg.KillDriverResponse{DriverID: r.DriverID, Success: true, Message: "ok"}, nil)
	default:
		reply(nil, fmt.Errorf("unexpected %T", in.Msg))
	}
}

func (m *fakeMaster) Closed(_ *sparkrpc.Conn, peer frame.Address, last bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if last {
		m.closed[peer] = true
	}
}
