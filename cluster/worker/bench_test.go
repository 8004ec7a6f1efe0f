package worker

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"raftmaster/transport/sparkmsg"
	"raftmaster/transport/sparkrpc"
)

var (
	masterA = sparkmsg.Address{Host: "a", Port: 7077}
	masterB = sparkmsg.Address{Host: "b", Port: 7077}
	masterC = sparkmsg.Address{Host: "c", Port: 7077}
	selfAt  = sparkmsg.Address{Host: "w", Port: 4000}
)

// sent is something that the Core has said.
type sent struct {
	to       sparkmsg.Address
	endpoint string
	msg      sparkmsg.Message
	answer   func(sparkmsg.Message, error) // nil for a one-way message
}

// bench is a Core with a clock, a network and processes that the test moves.
type bench struct {
	*Core
	t     *testing.T
	clock time.Time
	said  []sent
	// masters answer CheckExistence with true unless deaf.
	deaf     map[sparkmsg.Address]bool
	procs    []*fakeProcess
	forgot   []string
	cleaned  int
	prepared int
	exitCode int
	exits    int
}

// Now implements Clock.
func (b *bench) Now() time.Time { return b.clock }

// Send implements Network.
func (b *bench) Send(to sparkmsg.Address, endpoint string, msg sparkmsg.Message) {
	b.said = append(b.said, sent{to: to, endpoint: endpoint, msg: msg})
}

// Ask implements Network.
func (b *bench) Ask(to sparkmsg.Address, endpoint string, msg sparkmsg.Message, _ time.Duration, done func(sparkmsg.Message, error)) {
	b.said = append(b.said, sent{to, endpoint, msg, done})
}

// Receipt implements Network.
func (b *bench) Receipt(to sparkmsg.Address, _ time.Duration, done func(bool)) {
	b.said = append(b.said, sent{to, endpointVerifier, &sparkmsg.CheckExistence{Name: "receipt"}, func(_ sparkmsg.Message, err error) { done(err == nil) }})
}

// fakeProcess is an executor or driver that ends when the test says so.
type fakeProcess struct {
	name    string
	exec    *ExecutorLaunch
	driver  *DriverLaunch
	started func(int)
	ended   func(ExecutorEnd)
	over    func(DriverEnd)
	kills   int
}

func (p *fakeProcess) Kill() { p.kills++ }

// Prepare implements Processes.
func (b *bench) Prepare() { b.prepared++ }

// StartExecutor implements Processes.
func (b *bench) StartExecutor(l ExecutorLaunch, started func(int), ended func(ExecutorEnd)) Process {
	p := &fakeProcess{name: fmt.Sprintf("%s/%d", l.AppID, l.ExecutorID), exec: &l, started: started, ended: ended}
	b.procs = append(b.procs, p)
	return p
}

// StartDriver implements Processes.
func (b *bench) StartDriver(l DriverLaunch, started func(int), over func(DriverEnd)) Process {
	p := &fakeProcess{name: l.DriverID, driver: &l, started: started, over: over}
	b.procs = append(b.procs, p)
	return p
}

// ForgetApplication implements Processes.
func (b *bench) ForgetApplication(id string) { b.forgot = append(b.forgot, id) }

// CleanWorkDir implements Processes.
func (b *bench) CleanWorkDir() { b.cleaned++ }

// fakeConn is a connection; peer is the name under which it is written to.
type fakeConn struct {
	id      uint64
	peer    sparkmsg.Address
	trusted bool
}

func (c *fakeConn) ID() uint64                            { return c.id }
func (c *fakeConn) PeerAddress() (sparkmsg.Address, bool) { return c.peer, c.peer.Host != "" }
func (c *fakeConn) SetTrusted()                           { c.trusted = true }

func newBench(t *testing.T, tune func(*CoreConfig)) *bench {
	t.Helper()
	b := &bench{t: t, clock: time.Unix(1_700_000_000, 0), deaf: map[sparkmsg.Address]bool{}}
	cfg := CoreConfig{ID: "worker-1", Self: selfAt, Cores: 8, MemoryMB: 4096, WebUIURL: "http://w:8081",
		Masters: []sparkmsg.Address{masterA, masterB, masterC}, Heartbeat: 15 * time.Second, RetryShort: 10 * time.Second, RetryLong: time.Minute,
		ShortTries: 6, MaxTries: 16, AskTimeout: 2 * time.Minute, ReportTries: 5, MasterPatience: 20 * time.Second,
		DecommissionEnabled: true, RetainedExecutors: 20, RetainedDrivers: 20}
	if tune != nil {
		tune(&cfg)
	}
	b.Core = NewCore(cfg, Deps{Clock: b, Network: b, Processes: b, Log: hclog.NewNullLogger(),
		Exit: func(code int, _ string) { b.exitCode = code; b.exits++ }})
	b.Start()
	return b
}

// pass lets time pass, timer by timer.
func (b *bench) pass(d time.Duration) {
	end := b.clock.Add(d)
	for {
		at, ok := b.NextDeadline()
		if !ok || at.After(end) {
			break
		}
		if at.After(b.clock) {
			b.clock = at
		}
		b.Tick()
		b.answerExistence()
	}
	b.clock = end
	b.Tick()
}

// answerExistence answers every open question whether there is a master.
func (b *bench) answerExistence() {
	for i := range b.said {
		s := &b.said[i]
		m, ok := s.msg.(*sparkmsg.CheckExistence)
		if !ok || s.answer == nil || m.Name != endpointMaster {
			continue
		}
		answer := s.answer
		s.answer = nil
		if b.deaf[s.to] {
			answer(nil, sparkrpc.ErrDropped)
			continue
		}
		answer(&sparkmsg.Boolean{Value: true}, nil)
	}
}

// take returns and forgets what was said of one kind.
func take[M sparkmsg.Message](b *bench) (out []sent) {
	rest := b.said[:0:0]
	for _, s := range b.said {
		if _, ok := s.msg.(M); ok {
			out = append(out, s)
		} else {
			rest = append(rest, s)
		}
	}
	b.said = rest
	return out
}

func ref(a sparkmsg.Address) sparkmsg.EndpointRef {
	return sparkmsg.EndpointRef{Name: "Master", Address: &a}
}

// accept lets a master accept the worker on a connection.
func (b *bench) accept(c *fakeConn, master sparkmsg.Address) {
	b.answerExistence()
	b.OneWay(c, &master, &sparkmsg.RegisteredWorker{Master: ref(master), MasterWebUIURL: "http://" + master.Host, MasterAddress: master})
}

// registered is a worker that master A has accepted on connection 1; what was said so far is forgotten.
func registered(t *testing.T, tune func(*CoreConfig)) (*bench, *fakeConn) {
	b := newBench(t, tune)
	c := &fakeConn{id: 1, peer: masterA}
	b.accept(c, masterA)
	b.pass(0)
	b.said = nil
	return b, c
}

func launch(app string, id int32, master sparkmsg.Address) *sparkmsg.LaunchExecutor {
	return &sparkmsg.LaunchExecutor{MasterURL: "spark://" + master.String(), AppID: app, ExecID: id, Cores: 2, Memory: 512,
		AppDesc: &sparkmsg.ApplicationDescription{Name: "test", User: "u", Command: sparkmsg.Command{MainClass: "x.Main",
			JavaOpts: []string{"-Dmy.password=hush"}, Environment: []sparkmsg.EnvVar{{Name: "TOKEN", Value: "hush"}}}}}
}

func (b *bench) launch(c Conn, app string, id int32) *fakeProcess {
	b.t.Helper()
	n := len(b.procs)
	b.OneWay(c, &masterA, launch(app, id, masterA))
	if len(b.procs) != n+1 {
		b.t.Fatalf("%d processes after the launch of %s/%d, want %d", len(b.procs), app, id, n+1)
	}
	return b.procs[n]
}

func driverLaunch(id string) *sparkmsg.LaunchDriver {
	return &sparkmsg.LaunchDriver{DriverID: id, DriverDesc: &sparkmsg.DriverDescription{JarURL: "file:/x.jar", Mem: 256, Cores: 1,
		Command: sparkmsg.Command{MainClass: "org.apache.spark.deploy.worker.DriverWrapper", Arguments: []string{"{{WORKER_URL}}", "{{USER_JAR}}", "my.Main"}}}}
}

func (b *bench) launchDriver(c Conn, id string) *fakeProcess {
	b.t.Helper()
	n := len(b.procs)
	b.OneWay(c, &masterA, driverLaunch(id))
	if len(b.procs) != n+1 {
		b.t.Fatalf("driver %s was not started", id)
	}
	return b.procs[n]
}

// reported are the states asked to be taken, as "app/id STATE to master".
func (b *bench) reported() string {
	var lines []string
	for _, s := range take[*sparkmsg.ExecutorStateChanged](b) {
		m := s.msg.(*sparkmsg.ExecutorStateChanged)
		lines = append(lines, fmt.Sprintf("%s/%d %s to %s", m.AppID, m.ExecID, m.State, s.to.Host))
	}
	return strings.Join(lines, "; ")
}

// answerReports answers all open reports and returns them as reported does.
func (b *bench) answerReports(err error) string {
	var open []sent
	for _, s := range b.said {
		if _, ok := s.msg.(*sparkmsg.ExecutorStateChanged); ok {
			open = append(open, s)
		}
	}
	text := b.reported()
	for _, s := range open {
		if err != nil {
			s.answer(nil, err)
		} else {
			s.answer(&sparkmsg.Boolean{Value: true}, nil)
		}
	}
	return text
}

func exited(code int32) ExecutorEnd {
	return ExecutorEnd{State: sparkmsg.ExecutorExited, Message: fmt.Sprintf("Command exited with code %d", code), ExitStatus: &code}
}

func expect(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}
