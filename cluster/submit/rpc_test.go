package submit

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"raftmaster/transport/frame"
	"raftmaster/transport/sparkmsg"
	"raftmaster/transport/sparkrpc"
)

// fakeMaster answers on the cluster port as Spark's master does.
type fakeMaster struct {
	addr frame.Address
	ep   *sparkrpc.Endpoint
	ln   net.Listener
	wg   sync.WaitGroup

	mu       sync.Mutex
	standby  bool
	families sparkmsg.FamilySet // that it can read
	onSubmit func(c *sparkrpc.Conn, reply func(sparkmsg.Message, error))
	got      []string
	desc     *sparkmsg.DriverDescription
	senders  map[frame.Address]bool // of submissions
	status   sparkmsg.DriverStatusResponse
}

func startMaster(t *testing.T) *fakeMaster {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	m := &fakeMaster{ln: ln, families: sparkmsg.AllFamilies, senders: map[frame.Address]bool{}}
	m.addr = frame.Address{Host: "127.0.0.1", Port: int32(ln.Addr().(*net.TCPAddr).Port)}
	m.ep = sparkrpc.New(sparkrpc.Config{Self: m.addr, Log: hclog.NewNullLogger(), Exists: func(n string) bool { return n == masterEndpoint }}, m)
	m.wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			m.wg.Go(func() { m.ep.ServeConn(c) })
		}
	})
	t.Cleanup(m.stop)
	return m
}

func (m *fakeMaster) stop() {
	m.ln.Close() // closing twice is harmless
	m.ep.Close()
	m.wg.Wait()
}

func (m *fakeMaster) set(f func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f()
}

func (m *fakeMaster) OneWay(*sparkrpc.Conn, sparkrpc.Inbound)    {}
func (m *fakeMaster) Closed(*sparkrpc.Conn, frame.Address, bool) {}

func (m *fakeMaster) Ask(c *sparkrpc.Conn, in sparkrpc.Inbound, reply func(sparkmsg.Message, error)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if in.Families.Intersect(m.families).IsEmpty() {
		reply(nil, errors.New("java.io.InvalidClassException: local class incompatible"))
		return
	}
	m.got = append(m.got, in.Msg.MessageName())
	no := "Current state is not alive: STANDBY. Can only do that in ALIVE state."
	switch q := in.Msg.(type) {
	case *sparkmsg.RequestDriverStatus:
		if m.standby {
			reply(&sparkmsg.DriverStatusResponse{Exception: &sparkmsg.Exception{Class: "java.lang.Exception", Message: no}}, nil)
			return
		}
		if q.DriverID != "driver-1" {
			reply(&sparkmsg.DriverStatusResponse{}, nil)
			return
		}
		s := m.status
		reply(&s, nil)
	case *sparkmsg.RequestSubmitDriver:
		m.desc, m.senders[*in.Sender] = q.DriverDescription, true
		id := "driver-1"
		switch {
		case m.onSubmit != nil:
			m.onSubmit(c, reply)
		case m.standby:
			reply(&sparkmsg.SubmitDriverResponse{Message: no}, nil)
		default:
			reply(&sparkmsg.SubmitDriverResponse{Success: true, DriverID: &id, Message: "Driver successfully submitted as driver-1"}, nil)
		}
	case *sparkmsg.RequestKillDriver:
		reply(&sparkmsg.KillDriverResponse{DriverID: q.DriverID, Success: q.DriverID == "driver-1", Message: "kill"}, nil)
	case *sparkmsg.RequestKillAllDrivers:
		reply(&sparkmsg.KillAllDriversResponse{Success: true, Message: "all"}, nil)
	case *sparkmsg.RequestClearCompletedDriversAndApps:
		reply(&sparkmsg.Boolean{Value: true}, nil)
	default:
		reply(nil, errors.New("unsupported"))
	}
}

func (m *fakeMaster) count(name string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := 0
	for _, g := range m.got {
		if g == name {
			n++
		}
	}
	return n
}

func newRPC(t *testing.T, cfg Config) Client {
	t.Helper()
	c, err := NewRPC(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

var submitMessage = (&sparkmsg.RequestSubmitDriver{}).MessageName()

// TestRPCFindsTheLeader: the submission goes to the leader alone, whatever else is in the list (B-134, B-135, B-136, B-141,
// B-142).
func TestRPCFindsTheLeader(t *testing.T) {
	lead, stand, dead := startMaster(t), startMaster(t), deadAddress(t)
	stand.set(func() { stand.standby = true })
	running, worker, at := sparkmsg.DriverRunning, "w", "h:1"
	lead.set(func() {
		lead.status = sparkmsg.DriverStatusResponse{Found: true, State: &running, WorkerID: &worker, WorkerHostPort: &at}
	})
	for i, list := range [][]string{{lead.addr.String(), stand.addr.String(), dead}, {dead, stand.addr.String(), lead.addr.String()}} {
		c := newRPC(t, Config{Masters: list, SparkVersion: "4.3.0"})
		s, err := c.Submit(t.Context(), plainJob)
		if err != nil || s.ID != "driver-1" || s.Master != lead.addr.String() {
			t.Fatalf("submit: %+v, %v", s, err)
		}
		if lead.count(submitMessage) != i+1 || stand.count(submitMessage) != 0 {
			t.Errorf("%d and %d submissions", lead.count(submitMessage), stand.count(submitMessage))
		}
		st, err := c.Status(t.Context(), "driver-1")
		if want := (Status{ID: "driver-1", Found: true, State: "RUNNING", WorkerID: "w", WorkerAddress: "h:1", Master: lead.addr.String()}); err != nil || st != want {
			t.Errorf("status: %+v, %v", st, err)
		}
		if st, err = c.Status(t.Context(), "driver-2"); err != nil || st.Found {
			t.Errorf("status of nobody: %+v, %v", st, err)
		}
		if k, err := c.Kill(t.Context(), "driver-2"); err != nil || k.Accepted {
			t.Errorf("kill of nobody: %+v, %v", k, err)
		}
		if k, err := c.KillAll(t.Context()); err != nil || !k.Accepted {
			t.Errorf("kill all: %+v, %v", k, err)
		}
		if err := c.Clear(t.Context()); err != nil {
			t.Errorf("clear: %v", err)
		}
	}
	if got := lead.desc.Command.JavaOpts; !strings.Contains(strings.Join(got, " "), "-Dspark.master=spark://"+dead+",") {
		t.Errorf("spark.master is not the whole list: %v", got)
	}
}

// TestRPCSubmissionsHaveTheirOwnAddresses: a master takes what comes from one address for one driver.
func TestRPCSubmissionsHaveTheirOwnAddresses(t *testing.T) {
	m := startMaster(t)
	c := newRPC(t, Config{Masters: []string{m.addr.String()}, SparkVersion: "4.3.0"})
	for range 3 {
		if _, err := c.Submit(t.Context(), plainJob); err != nil {
			t.Fatal(err)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.senders) != 3 {
		t.Errorf("three submissions came from %v", m.senders)
	}
}

// TestRPCUnknownOutcome: a lost answer to a submission is not asked for again.
func TestRPCUnknownOutcome(t *testing.T) {
	for name, lose := range map[string]func(*sparkrpc.Conn, func(sparkmsg.Message, error)){
		"closed": func(c *sparkrpc.Conn, _ func(sparkmsg.Message, error)) { c.Close("test") },
		"late":   func(*sparkrpc.Conn, func(sparkmsg.Message, error)) {},
		"failed": func(_ *sparkrpc.Conn, reply func(sparkmsg.Message, error)) { reply(nil, errors.New("lost leadership")) },
		"wrong":  func(_ *sparkrpc.Conn, reply func(sparkmsg.Message, error)) { reply(&sparkmsg.Boolean{}, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			m := startMaster(t)
			m.set(func() { m.onSubmit = lose })
			c := newRPC(t, Config{Masters: []string{m.addr.String(), deadAddress(t)}, SparkVersion: "3.5.9", AskTimeout: 300 * time.Millisecond, Patience: 3 * time.Second})
			_, err := c.Submit(t.Context(), plainJob)
			var unknown *UnknownError
			if !errors.As(err, &unknown) || m.count(submitMessage) != 1 {
				t.Errorf("%d submissions, %v", m.count(submitMessage), err)
			}
		})
	}
}

// TestRPCStandbyRefusesAndAnotherLeads: leadership moves between the question who leads and the submission.
func TestRPCStandbyRefusesAndAnotherLeads(t *testing.T) {
	a, b := startMaster(t), startMaster(t)
	b.set(func() { b.standby = true })
	a.set(func() {
		a.onSubmit = func(_ *sparkrpc.Conn, reply func(sparkmsg.Message, error)) {
			a.standby = true
			b.set(func() { b.standby = false })
			reply(&sparkmsg.SubmitDriverResponse{Message: "Current state is not alive: STANDBY. Can only accept driver submissions in ALIVE state."}, nil)
		}
	})
	c := newRPC(t, Config{Masters: []string{a.addr.String(), b.addr.String()}, SparkVersion: "4.0.1"})
	s, err := c.Submit(t.Context(), plainJob)
	if err != nil || s.Master != b.addr.String() || a.count(submitMessage) != 1 || b.count(submitMessage) != 1 {
		t.Errorf("%+v, %v", s, err)
	}
}

func TestRPCOfAnotherRelease(t *testing.T) {
	m := startMaster(t)
	m.set(func() { m.families = sparkmsg.SetOf(sparkmsg.FamilyA, sparkmsg.FamilyB) })
	c := newRPC(t, Config{Masters: []string{m.addr.String()}, SparkVersion: "4.3.0"})
	_, err := c.Submit(t.Context(), plainJob)
	var wrong *GatewayError
	if !errors.As(err, &wrong) || !strings.Contains(err.Error(), "another Spark release") {
		t.Errorf("got %v", err)
	}
	if _, err := newRPC(t, Config{Masters: []string{m.addr.String()}, SparkVersion: "3.5.9"}).KillAll(t.Context()); !errors.Is(err, ErrUnsupported) {
		t.Errorf("kill all with Spark 3: %v", err)
	}
	var invalid *InvalidError
	for _, v := range []string{"", "2.4.0", "latest"} {
		if _, err := NewRPC(Config{Masters: []string{"h:1"}, SparkVersion: v}); !errors.As(err, &invalid) {
			t.Errorf("release %q: %v", v, err)
		}
	}
}

func TestRPCWrongPort(t *testing.T) {
	web := serve(t, http.NotFoundHandler())
	c := newRPC(t, Config{Masters: []string{web}, SparkVersion: "4.3.0", Patience: time.Second})
	_, err := c.Submit(t.Context(), plainJob)
	var wrong *GatewayError
	if !errors.As(err, &wrong) || !strings.Contains(err.Error(), "speaks HTTP") {
		t.Errorf("got %v", err)
	}
}

func TestRPCHugeJob(t *testing.T) {
	m := startMaster(t)
	c := newRPC(t, Config{Masters: []string{m.addr.String()}, SparkVersion: "4.3.0"})
	job := plainJob
	job.Args = []string{strings.Repeat("x", sparkmsg.MaxPayload)}
	var invalid *InvalidError
	if _, err := c.Submit(t.Context(), job); !errors.As(err, &invalid) || !strings.Contains(err.Error(), "shorten") {
		t.Errorf("got %v", err)
	}
	if m.count(submitMessage) != 0 {
		t.Error("it was sent")
	}
}

func TestFindRelease(t *testing.T) {
	workers := func(body string) string {
		return "http://" + serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/v1/workers" {
				http.NotFound(w, r)
				return
			}
			w.Write([]byte(body))
		}))
	}
	spark := "http://" + serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/" {
			http.NotFound(w, r)
			return
		}
		w.Write([]byte(`<span class="version me-3">3.5.9</span>`))
	}))
	four, any := startMaster(t), startMaster(t)
	four.set(func() { four.families = sparkmsg.SetOf(sparkmsg.FamilyC, sparkmsg.FamilyD, sparkmsg.FamilyE) })
	one := `{"workers":[{"state":"ALIVE","spark_version":"4.3.0"},{"state":"DEAD","spark_version":"3.5.9"}]}`
	two := `{"workers":[{"state":"ALIVE","spark_version":"4.3.0"},{"state":"ALIVE","spark_version":"","family":"B"}]}`
	for name, c := range map[string]struct {
		s         Sources
		want, err string
	}{
		"workers":      {Sources{Web: []string{workers(one)}}, "4.3.0", ""},
		"two releases": {Sources{Web: []string{workers(two)}}, "", "3.5.0, 4.3.0"},
		"no worker":    {Sources{Web: []string{workers(`{"workers":[]}`)}, RPC: []string{four.addr.String()}}, "", "no live worker"},
		"Spark's page": {Sources{Web: []string{"http://" + deadAddress(t), spark}}, "3.5.9", ""},
		"REST":         {Sources{REST: []string{deadAddress(t), startREST(t, &fakeBackend{}, "spark://m:1")}}, "4.3.0", ""},
		"RPC":          {Sources{RPC: []string{four.addr.String()}}, "4.1.0", ""},
		"raftmaster":   {Sources{RPC: []string{any.addr.String()}}, "", "serves every release"},
		"dead":         {Sources{RPC: []string{deadAddress(t)}}, "", "could not be found out"},
	} {
		got, err := FindRelease(t.Context(), c.s)
		if got.Version != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

// script is a Client whose statuses are given.
type script struct {
	Client
	steps []func() (Status, error)
}

func TestWait(t *testing.T) {
	at := func(id, state string) func() (Status, error) {
		return func() (Status, error) {
			s := Status{ID: id, Found: true, State: state}
			if state == StateRelaunching {
				s.Message = "Relaunched as driver-2."
			}
			return s, nil
		}
	}
	fails := func() (Status, error) { return Status{}, &NoLeaderError{} }
	missing := func() (Status, error) { return Status{ID: "driver-1"}, nil }
	for name, c := range map[string]struct {
		steps   []func() (Status, error)
		changes string
		last    string
		err     error
	}{
		"finishes":   {[]func() (Status, error){at("driver-1", StateSubmitted), at("driver-1", StateSubmitted), fails, missing, at("driver-1", StateRunning), at("driver-1", StateFinished)}, "SUBMITTED RUNNING FINISHED", StateFinished, nil},
		"relaunched": {[]func() (Status, error){at("driver-1", StateRelaunching), at("driver-2", StateRunning), at("driver-2", StateKilled)}, "RELAUNCHING RUNNING KILLED", StateKilled, nil},
		"missing":    {[]func() (Status, error){missing, missing, missing}, "", "", ErrNotFound},
	} {
		var changes []string
		w := &script{steps: c.steps}
		s, err := Wait(t.Context(), w, "driver-1", WaitOptions{Poll: time.Millisecond, Missing: 3 * time.Millisecond, OnChange: func(s Status) { changes = append(changes, s.State) }})
		if s.State != c.last || !errors.Is(err, c.err) || strings.Join(changes, " ") != c.changes {
			t.Errorf("%s: %+v, %v, %v", name, s, err, changes)
		}
	}
}

// Status gives the next step; the last one is repeated.
func (s *script) Status(context.Context, string) (Status, error) {
	step := s.steps[0]
	if len(s.steps) > 1 {
		s.steps = s.steps[1:]
	}
	return step()
}

// loop is a master whose driver is its own successor.
type loop struct {
	Client
	asked int
	stop  func()
}

func (l *loop) Status(_ context.Context, id string) (Status, error) {
	if l.asked++; l.asked == 1000 {
		l.stop()
	}
	return Status{ID: id, Found: true, State: StateRelaunching, Message: "Relaunched as driver-2."}, nil
}

// TestWaitDoesNotSpin: drivers that are each other's successors are asked about with pauses.
func TestWaitDoesNotSpin(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	l := &loop{stop: cancel}
	if _, err := Wait(ctx, l, "driver-1", WaitOptions{Poll: time.Hour}); err == nil || l.asked > maxHops {
		t.Errorf("%v after %d questions", err, l.asked)
	}
}
