package app

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"raftmaster/transport/frame"
	"raftmaster/transport/sparkmsg"
	"raftmaster/transport/sparkrpc"
)

const patience = 20 * time.Second

// recordedApp is the application of the recorded executors of 3.5.9.
const recordedApp = "app-20261130125750-0000"

// fakeMaster accepts applications, or is silent as a standby, and says what a test tells it.
type fakeMaster struct {
	t    testing.TB
	ep   *sparkrpc.Endpoint
	ln   net.Listener
	addr frame.Address
	fam  sparkmsg.Family
	wg   sync.WaitGroup

	mu      sync.Mutex
	standby bool
	ids     []string // given to registrations in turn; the last one again and again
	driver  *frame.Address
	got     []sparkmsg.Message
	answer  func(sparkmsg.Message) (sparkmsg.Message, error) // nil: true
	hold    chan struct{}                                    // asks are answered when it is closed; nil: at once
}

func newMaster(t testing.TB, fam sparkmsg.Family) *fakeMaster {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	m := &fakeMaster{t: t, ln: ln, fam: fam, ids: []string{recordedApp},
		addr: frame.Address{Host: "127.0.0.1", Port: int32(ln.Addr().(*net.TCPAddr).Port)}}
	m.ep = sparkrpc.New(sparkrpc.Config{Self: m.addr, Log: hclog.NewNullLogger(),
		Exists: func(n string) bool { return n == "Master" || n == sparkrpc.VerifierEndpoint }}, m)
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

func (m *fakeMaster) set(f func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f()
}

func (m *fakeMaster) ref() sparkmsg.EndpointRef {
	addr := m.addr
	return sparkmsg.EndpointRef{Name: "Master", Address: &addr}
}

// push tells the application something.
func (m *fakeMaster) push(to *App, msg sparkmsg.Message) { m.ep.Send(to.self, "AppClient", m.fam, msg) }

func (m *fakeMaster) OneWay(_ *sparkrpc.Conn, in sparkrpc.Inbound) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.got = append(m.got, in.Msg)
	r, ok := in.Msg.(*sparkmsg.RegisterApplication)
	if !ok || m.standby {
		return
	}
	id := m.ids[0]
	if len(m.ids) > 1 {
		m.ids = m.ids[1:]
	}
	m.driver = r.Driver.Address
	m.ep.Send(*r.Driver.Address, "AppClient", m.fam, &sparkmsg.RegisteredApplication{AppID: id, Master: m.ref()})
}

func (m *fakeMaster) Ask(_ *sparkrpc.Conn, in sparkrpc.Inbound, reply func(sparkmsg.Message, error)) {
	m.mu.Lock()
	m.got = append(m.got, in.Msg)
	answer, hold := m.answer, m.hold
	m.mu.Unlock()
	respond := func() {
		if answer == nil {
			reply(&sparkmsg.Boolean{Value: true}, nil)
			return
		}
		reply(answer(in.Msg))
	}
	if hold == nil {
		respond()
		return
	}
	m.wg.Go(func() { <-hold; respond() })
}

func (m *fakeMaster) Closed(*sparkrpc.Conn, frame.Address, bool) {}

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

// eventLog keeps what an application told.
type eventLog struct {
	mu   sync.Mutex
	list []Event
}

func (l *eventLog) add(e Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = append(l.list, e)
}

func (l *eventLog) kinds() []EventKind {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []EventKind
	for _, e := range l.list {
		out = append(out, e.Kind)
	}
	return out
}

func (l *eventLog) has(kind EventKind) bool { return slices.Contains(l.kinds(), kind) }

// newApp makes an application with fast timers that knows the masters.
func newApp(t testing.TB, tune func(*Config), masters ...*fakeMaster) *App {
	t.Helper()
	cfg := Config{Host: "127.0.0.1", Family: sparkmsg.FamilyB, Timers: Timers{RegisterEvery: patience,
		AskRetry: 5 * time.Millisecond, ExitWait: patience, Leave: patience}}
	for _, m := range masters {
		cfg.Masters = append(cfg.Masters, m.addr.String())
		cfg.Family = m.fam
	}
	if tune != nil {
		tune(&cfg)
	}
	a, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	return a
}

func startApp(t testing.TB, tune func(*Config), masters ...*fakeMaster) *App {
	t.Helper()
	a := newApp(t, tune, masters...)
	if err := a.Start(within(t)); err != nil {
		t.Fatal(err)
	}
	return a
}

// within is a context that ends when the patience of a test does.
func within(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// B-106: every master is asked, one says nothing, the leader's answer counts.
func TestRegistersWithAllMasters(t *testing.T) {
	var log eventLog
	standby, leader := newMaster(t, sparkmsg.FamilyB), newMaster(t, sparkmsg.FamilyB)
	standby.standby, leader.standby = true, true // until both have been asked
	a := newApp(t, func(c *Config) {
		c.Name, c.MaxCores, c.CoresPerExecutor, c.MemoryMB, c.JavaOpts = "pi", 8, 2, 700, []string{"-Dx=y"}
		c.Masters, c.Events = []string{"spark://" + standby.addr.String() + "," + leader.addr.String()}, log.add
	}, standby, leader)
	started := make(chan error, 1)
	ctx := within(t)
	go func() { started <- a.Start(ctx) }()
	for _, m := range []*fakeMaster{standby, leader} {
		eventually(t, "registration", func() bool { return len(m.seen("RegisterApplication")) == 1 })
	}
	leader.push(a, &sparkmsg.RegisteredApplication{AppID: recordedApp, Master: leader.ref()})
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	if a.ID() != recordedApp || a.Err() != nil {
		t.Errorf("id %q, error %v", a.ID(), a.Err())
	}
	if m, up := a.Master(); m != leader.addr.String() || !up {
		t.Errorf("master %s %v", m, up)
	}
	d := leader.seen("RegisterApplication")[0].(*sparkmsg.RegisterApplication).AppDescription
	if d.Name != "pi" || *d.MaxCores != 8 || *d.DefaultProfile.CoresPerExecutor() != 2 || d.DefaultProfile.MemoryPerExecutorMB() != 700 {
		t.Errorf("description %+v", d)
	}
	if args := d.Command.Arguments; args[0] != "--driver-url" || args[1] != a.DriverURL() || len(args) != 14 {
		t.Errorf("arguments %q", args)
	}
	if opts := d.Command.JavaOpts; len(opts) != 3 || opts[1] != "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED" || opts[2] != "-Dx=y" {
		t.Errorf("java options %q", opts)
	}
	eventually(t, "event", func() bool { return log.has(EventRegistered) })
	if err := a.Start(within(t)); err == nil {
		t.Error("started twice")
	}
}

func TestGivesUpAfterAllAttempts(t *testing.T) {
	m := newMaster(t, sparkmsg.FamilyE)
	m.standby = true
	a := newApp(t, func(c *Config) { c.Timers.RegisterEvery, c.Timers.RegisterTries = 10*time.Millisecond, 4 }, m)
	err := a.Start(within(t))
	if !errors.Is(err, ErrNoMaster) || !errors.Is(err, ErrEnded) || !errors.Is(a.Err(), ErrNoMaster) {
		t.Fatal(err)
	}
	if n := len(m.seen("RegisterApplication")); n < 1 || n > 4 {
		t.Errorf("%d registrations", n)
	}
	if err := a.RequestExecutors(within(t), map[int32]int32{0: 1}); !errors.Is(err, ErrNoMaster) {
		t.Error(err)
	}
	if err := a.Stop(within(t)); err != nil {
		t.Error(err)
	}
}

func TestRegistrationEndsWithItsContext(t *testing.T) {
	m := newMaster(t, sparkmsg.FamilyB)
	m.standby = true
	a := newApp(t, nil, m)
	if err := a.KillExecutors(within(t), []int32{1}); !errors.Is(err, ErrNotRegistered) {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := a.Start(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// A master may answer two registrations with two ids (B-102): the first one stays, the other is given back.
func TestOneIDWhateverArrives(t *testing.T) {
	m := newMaster(t, sparkmsg.FamilyB)
	a := startApp(t, nil, m)
	m.push(a, &sparkmsg.RegisteredApplication{AppID: "app-other", Master: m.ref()})
	eventually(t, "second registration undone", func() bool { return len(m.seen("UnregisterApplication")) == 1 })
	if u := m.seen("UnregisterApplication")[0].(*sparkmsg.UnregisterApplication); u.AppID != "app-other" {
		t.Errorf("unregistered %q", u.AppID)
	}
	m.push(a, &sparkmsg.RegisteredApplication{AppID: recordedApp, Master: m.ref()})
	m.push(a, &sparkmsg.RegisteredApplication{Master: m.ref()})
	m.push(a, &sparkmsg.RegisteredApplication{AppID: "no master"})
	m.push(a, &sparkmsg.ExecutorAdded{ID: 3})
	waitExecutors(t, a, func(l []Executor) bool { return len(l) == 1 })
	if a.ID() != recordedApp || len(m.seen("UnregisterApplication")) != 1 {
		t.Errorf("id %q", a.ID())
	}
}

func TestFollowsItsMaster(t *testing.T) {
	var log eventLog
	m1, m2 := newMaster(t, sparkmsg.FamilyE), newMaster(t, sparkmsg.FamilyE)
	m2.standby = true
	a := startApp(t, func(c *Config) { c.Events = log.add }, m1, m2)
	m1.stop()
	eventually(t, "loss noticed", func() bool { _, up := a.Master(); return !up && log.has(EventMasterLost) })
	if a.Err() != nil {
		t.Error("a lost master ended the application")
	}
	m2.push(a, &sparkmsg.MasterChanged{Master: m2.ref(), MasterWebUIURL: "http://m2"})
	eventually(t, "acknowledgement", func() bool { return len(m2.seen("MasterChangeAcknowledged")) == 1 })
	if ack := m2.seen("MasterChangeAcknowledged")[0].(*sparkmsg.MasterChangeAcknowledged); ack.AppID != recordedApp {
		t.Errorf("acknowledged %q", ack.AppID)
	}
	if m, up := a.Master(); m != m2.addr.String() || !up {
		t.Errorf("master %s %v", m, up)
	}
	if err := a.RequestExecutors(within(t), map[int32]int32{0: 5, 2: 1}); err != nil {
		t.Error(err)
	}
	r := m2.seen("RequestExecutors")[0].(*sparkmsg.RequestExecutors)
	if r.AppID != recordedApp || len(r.ResourceProfileToTotalExecs) != 2 || r.ResourceProfileToTotalExecs[0].Total != 5 ||
		r.ResourceProfileToTotalExecs[1].Profile.ID != 2 {
		t.Errorf("%+v", r)
	}
	if err := a.KillExecutors(within(t), []int32{4, 1}); err != nil {
		t.Error(err)
	}
	if k := m2.seen("KillExecutors")[0].(*sparkmsg.KillExecutors); !slices.Equal(k.ExecutorIDs, []string{"4", "1"}) {
		t.Errorf("%+v", k)
	}
	if err := a.KillExecutors(within(t), nil); err != nil || len(m2.seen("KillExecutors")) != 1 {
		t.Errorf("nothing to kill: %v", err)
	}
	if err := a.RequestExecutors(within(t), map[int32]int32{0: -1}); err == nil {
		t.Error("a negative total was asked for")
	}
	m2.push(a, &sparkmsg.WorkerRemoved{ID: "w", Host: "h", Message: "lost"})
	m2.push(a, &sparkmsg.ApplicationRemoved{Message: "KILLED"})
	<-a.Done()
	if err := a.Err(); !errors.Is(err, ErrEnded) || err.Error() != "app: application has ended: master removed it: KILLED" {
		t.Error(err)
	}
	if err := a.RequestExecutors(within(t), nil); !errors.Is(err, ErrEnded) {
		t.Error(err)
	}
	if err := a.Stop(within(t)); err != nil {
		t.Error(err)
	}
	want := []EventKind{EventRegistered, EventMasterLost, EventMasterChanged, EventWorkerRemoved, EventEnded}
	if got := log.kinds(); !slices.Equal(got, want) {
		t.Errorf("events %v", got)
	}
}

// An ask that is under way when the leader goes is asked again at the next one.
func TestAsksMoveToTheNextLeader(t *testing.T) {
	for _, how := range []string{"leader dies", "leader hangs", "leader fails"} {
		t.Run(how, func(t *testing.T) {
			m1, m2 := newMaster(t, sparkmsg.FamilyB), newMaster(t, sparkmsg.FamilyB)
			m2.standby = true
			a := startApp(t, nil, m1, m2)
			hold := make(chan struct{})
			t.Cleanup(func() { close(hold) })
			m1.set(func() {
				if how == "leader fails" {
					m1.answer = func(sparkmsg.Message) (sparkmsg.Message, error) { return nil, errors.New("not the leader any more") }
				} else {
					m1.hold = hold
				}
			})
			result := make(chan error, 1)
			ctx := within(t)
			go func() { result <- a.RequestExecutors(ctx, map[int32]int32{0: 3}) }()
			eventually(t, "ask at the first leader", func() bool { return len(m1.seen("RequestExecutors")) > 0 })
			if how == "leader dies" {
				_ = m1.ln.Close()
				m1.ep.CloseConn(a.self, "dies")
			}
			m2.push(a, &sparkmsg.MasterChanged{Master: m2.ref()})
			if err := <-result; err != nil {
				t.Error(err)
			}
			if len(m2.seen("RequestExecutors")) != 1 {
				t.Error("the new leader was not asked")
			}
		})
	}
}

func TestAskOutcomes(t *testing.T) {
	m := newMaster(t, sparkmsg.FamilyB)
	a := startApp(t, nil, m)
	m.set(func() {
		m.answer = func(sparkmsg.Message) (sparkmsg.Message, error) { return &sparkmsg.Boolean{}, nil }
	})
	if err := a.RequestExecutors(within(t), map[int32]int32{0: 1}); !errors.Is(err, ErrRefused) {
		t.Error(err)
	}
	m.set(func() {
		m.answer = func(sparkmsg.Message) (sparkmsg.Message, error) { return &sparkmsg.MasterInStandby{}, nil }
	})
	if err := a.RequestExecutors(within(t), map[int32]int32{0: 1}); err == nil || errors.Is(err, ErrRefused) {
		t.Error(err)
	}
	// A failure as an object is no answer.
	m.set(func() {
		m.answer = func(sparkmsg.Message) (sparkmsg.Message, error) { return &sparkmsg.RpcFailure{Message: "thrown"}, nil }
	})
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	err := a.RequestExecutors(ctx, map[int32]int32{0: 1})
	if remote := (*sparkrpc.RemoteError)(nil); !errors.Is(err, context.DeadlineExceeded) || !errors.As(err, &remote) {
		t.Error(err)
	}
}

func TestConfigurationsThatAreRefused(t *testing.T) {
	good := Config{Masters: []string{"m:7077"}, Host: "127.0.0.1", Family: sparkmsg.FamilyB}
	for what, spoil := range map[string]func(*Config){
		"no master":      func(c *Config) { c.Masters = nil },
		"bad master":     func(c *Config) { c.Masters = []string{"m"} },
		"no family":      func(c *Config) { c.Family = 0 },
		"alien release":  func(c *Config) { c.Release = "2.4.8" },
		"no host":        func(c *Config) { c.Host = "" },
		"bad host":       func(c *Config) { c.Host = "a b" },
		"bad port":       func(c *Config) { c.Port = 70000 },
		"negative cores": func(c *Config) { c.MaxCores = -1 },
		"own property":   func(c *Config) { c.Properties = []sparkmsg.Property{{Key: "spark.driver.port", Value: "1"}} },
		"no description": func(c *Config) { c.Describe = func(string) *sparkmsg.ApplicationDescription { return nil } },
		"unbindable": func(c *Config) {
			c.Describe = func(string) *sparkmsg.ApplicationDescription {
				return &sparkmsg.ApplicationDescription{Command: sparkmsg.Command{Unread: []string{"x"}}}
			}
		},
	} {
		c := good
		spoil(&c)
		if a, err := New(c); err == nil {
			a.Close()
			t.Errorf("%s was accepted", what)
		}
	}
	good.Release = "4.1.0"
	a, err := New(good)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if a.cfg.Family != sparkmsg.FamilyD {
		t.Errorf("family %s", a.cfg.Family)
	}
}
