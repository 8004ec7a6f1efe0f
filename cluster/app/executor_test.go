package app

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"raftmaster/transport/frame"
	"raftmaster/transport/sparkmsg"
)

// fakeExecutor is one connection of an executor: it has no address, asks, and is asked.
type fakeExecutor struct {
	t    testing.TB
	fam  sparkmsg.Family
	nc   net.Conn
	done chan struct{}

	mu      sync.Mutex
	next    int64
	waiting map[int64]chan frame.Frame
	pushed  []sparkmsg.Message
	dump    []byte // answer to TriggerThreadDump; nil: none
}

func dialExecutor(t testing.TB, a *App) *fakeExecutor {
	t.Helper()
	nc, err := net.Dial("tcp", a.ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	x := &fakeExecutor{t: t, fam: a.cfg.Family, nc: nc, done: make(chan struct{}), waiting: map[int64]chan frame.Frame{}}
	go x.read()
	t.Cleanup(x.close)
	return x
}

func (x *fakeExecutor) close() {
	_ = x.nc.Close()
	<-x.done
}

func (x *fakeExecutor) read() {
	defer close(x.done)
	r := frame.NewReader(x.nc)
	for {
		f, err := r.Next()
		if err != nil {
			return
		}
		switch f.Type {
		case frame.RPCResponse, frame.RPCFailure:
			x.mu.Lock()
			if ch := x.waiting[f.RequestID]; ch != nil {
				f.Body = bytes.Clone(f.Body)
				ch <- f
			}
			x.mu.Unlock()
		case frame.OneWayMessage, frame.RPCRequest:
			req, err := frame.ParseRequest(f.Body)
			if err != nil || req.Sender == nil || req.Receiver != nil {
				x.t.Errorf("frame of the driver: %+v, %v", req, err)
				return
			}
			d, err := sparkmsg.Decode(req.Content)
			if err != nil {
				x.t.Error(err)
				return
			}
			x.mu.Lock()
			x.pushed = append(x.pushed, d.Msg)
			dump := x.dump
			x.mu.Unlock()
			if f.Type == frame.RPCRequest && dump != nil {
				x.write(frame.Append(nil, frame.Frame{Type: frame.RPCResponse, RequestID: f.RequestID, Body: dump}))
			}
		}
	}
}

func (x *fakeExecutor) write(b []byte) {
	if _, err := x.nc.Write(b); err != nil {
		x.t.Logf("executor cannot write: %v", err)
	}
}

func (x *fakeExecutor) got(name string) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, m := range x.pushed {
		if m.MessageName() == name {
			return true
		}
	}
	return false
}

// ask sends a stream to an endpoint and returns the answer; a failure is an error.
func (x *fakeExecutor) askStream(endpoint string, content []byte) (sparkmsg.Message, error) {
	x.t.Helper()
	x.mu.Lock()
	x.next++
	id := x.next
	ch := make(chan frame.Frame, 1)
	x.waiting[id] = ch
	x.mu.Unlock()
	x.write(frame.Append(nil, frame.Frame{Type: frame.RPCRequest, RequestID: id,
		Body: frame.AppendRequest(nil, frame.Request{Endpoint: endpoint, Content: content})}))
	select {
	case f := <-ch:
		if f.Type == frame.RPCFailure {
			return nil, errors.New(string(f.Body))
		}
		d, err := sparkmsg.Decode(f.Body)
		return d.Msg, err
	case <-x.done:
		return nil, errors.New("connection closed")
	case <-time.After(patience):
		x.t.Fatalf("no answer of %s", endpoint)
		return nil, nil
	}
}

func (x *fakeExecutor) encode(msg sparkmsg.Message) []byte {
	x.t.Helper()
	content, err := sparkmsg.Encode(msg, x.fam)
	if err != nil {
		x.t.Fatal(err)
	}
	return content
}

func (x *fakeExecutor) ask(endpoint string, msg sparkmsg.Message) (sparkmsg.Message, error) {
	x.t.Helper()
	return x.askStream(endpoint, x.encode(msg))
}

func (x *fakeExecutor) send(endpoint string, msg sparkmsg.Message) {
	x.t.Helper()
	x.write(frame.Append(nil, frame.Frame{Type: frame.OneWayMessage,
		Body: frame.AppendRequest(nil, frame.Request{Endpoint: endpoint, Content: x.encode(msg)})}))
}

// register does what an executor does up to LaunchedExecutor.
func (x *fakeExecutor) register(a *App, id int32) error {
	x.t.Helper()
	name := strconv.Itoa(int(id))
	for _, endpoint := range []string{"CoarseGrainedScheduler", "MapOutputTracker", "BlockManagerMaster", "AnythingAtAll"} {
		if m, err := x.ask("endpoint-verifier", &sparkmsg.CheckExistence{Name: endpoint}); err != nil || !m.(*sparkmsg.Boolean).Value {
			x.t.Errorf("%s does not exist: %v", endpoint, err)
		}
	}
	m, err := x.ask("CoarseGrainedScheduler", &sparkmsg.RegisterExecutor{ExecutorID: name, Hostname: "127.0.0.1", Cores: 1,
		Executor: sparkmsg.EndpointRef{Name: "Executor"}, Attributes: []sparkmsg.StringPair{{Key: runAttribute, Value: a.run}}})
	if err != nil {
		return err
	}
	if !m.(*sparkmsg.Boolean).Value {
		x.t.Error("registration answered false")
	}
	bm := sparkmsg.BlockManagerID{ExecutorID: name, Host: "127.0.0.1", Port: 4711}
	if m, err = x.ask("BlockManagerMaster", &sparkmsg.RegisterBlockManager{ID: bm, Sender: sparkmsg.EndpointRef{Name: "BlockManagerEndpoint1"}}); err != nil {
		return err
	}
	if got := m.(*sparkmsg.RegisteredBlockManager).ID; got.ExecutorID != name || got.Port != 4711 {
		x.t.Errorf("block manager %+v", got)
	}
	x.send("CoarseGrainedScheduler", &sparkmsg.LaunchedExecutor{ExecutorID: name})
	return nil
}

func (x *fakeExecutor) beat(id int32) error {
	x.t.Helper()
	m, err := x.ask("HeartbeatReceiver", &sparkmsg.ExecutorHeartbeat{ExecutorID: strconv.Itoa(int(id)),
		BlockManager: sparkmsg.BlockManagerID{ExecutorID: strconv.Itoa(int(id)), Host: "h"}})
	if err != nil {
		return err
	}
	if m.(*sparkmsg.HeartbeatResponse).ReregisterBlockManager {
		x.t.Error("asked to register again")
	}
	return nil
}

func waitExecutors(t testing.TB, a *App, cond func([]Executor) bool) []Executor {
	t.Helper()
	list, err := a.Driver().Wait(within(t), cond)
	if err != nil {
		t.Fatalf("%v: %+v", err, list)
	}
	return list
}

func passed(n int, s Step) func([]Executor) bool {
	return func(list []Executor) bool {
		count := 0
		for i := range list {
			if list[i].Reached(s) {
				count++
			}
		}
		return count >= n
	}
}

// grant makes the master tell of an executor up to RUNNING.
func (m *fakeMaster) grant(a *App, id int32, hostPort string) {
	m.push(a, &sparkmsg.ExecutorAdded{ID: id, WorkerID: "worker-" + hostPort, HostPort: hostPort, Cores: 1, Memory: 512})
	m.push(a, &sparkmsg.ExecutorUpdated{ID: id, State: sparkmsg.ExecutorLaunching})
	m.push(a, &sparkmsg.ExecutorUpdated{ID: id, State: sparkmsg.ExecutorRunning})
}

func (m *fakeMaster) end(a *App, id int32, state sparkmsg.ExecutorState, status int32) {
	text := "Command exited with code " + strconv.Itoa(int(status))
	m.push(a, &sparkmsg.ExecutorUpdated{ID: id, State: state, Message: &text, ExitStatus: &status})
}

// recorded returns the frame that a real process sent.
func recorded(t testing.TB, release, name string) []byte {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("..", "..", "transport", "sparkmsg", "testdata", "executor-"+release, name+".bin"))
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// The frames of real executors, as they were recorded, from the first question to the answer with a thread dump.
func TestRecordedExecutorsAreServed(t *testing.T) {
	for release, app := range map[string]string{"3.5.9": recordedApp, "4.3.0": "app-20261130125928-0000"} {
		t.Run(release, func(t *testing.T) {
			fam, _ := sparkmsg.FamilyForRelease(release)
			m := newMaster(t, fam)
			m.ids = []string{app}
			a := startApp(t, func(c *Config) { c.Release = release }, m)
			m.grant(a, 0, "127.0.0.1:7078")
			waitExecutors(t, a, passed(1, StepRunning))
			content := func(name string) []byte {
				f, err := frame.NewReader(bytes.NewReader(recorded(t, release, name))).Next()
				if err != nil {
					t.Fatal(err)
				}
				if f.Type == frame.RPCResponse {
					return bytes.Clone(f.Body)
				}
				req, err := frame.ParseRequest(f.Body)
				if err != nil {
					t.Fatal(err)
				}
				return bytes.Clone(req.Content)
			}
			fetcher := dialExecutor(t, a)
			answer, err := fetcher.askStream("CoarseGrainedScheduler", content("executor-to-driver-RetrieveSparkAppConfig"))
			if err != nil {
				t.Fatal(err)
			}
			cfg := answer.(*sparkmsg.SparkAppConfig)
			if p := cfg.SparkProperties; p[0] != (sparkmsg.Property{Key: "spark.driver.host", Value: "127.0.0.1"}) ||
				p[1] != (sparkmsg.Property{Key: "spark.driver.port", Value: strconv.Itoa(int(a.self.Port))}) {
				t.Errorf("properties %v", p)
			}
			fetcher.close()
			x := dialExecutor(t, a)
			x.dump = content("executor-to-driver-ThreadDump")
			for _, step := range []struct{ endpoint, frame, answer string }{
				{"endpoint-verifier", "executor-to-driver-CheckExistence", "Boolean"},
				{"CoarseGrainedScheduler", "executor-to-driver-RegisterExecutor", "Boolean"},
				{"BlockManagerMaster", "executor-to-driver-RegisterBlockManager", "BlockManagerId"},
				{"HeartbeatReceiver", "executor-to-driver-Heartbeat-2", "HeartbeatResponse"},
				{"HeartbeatReceiver", "executor-to-driver-Heartbeat", "HeartbeatResponse"},
			} {
				answer, err := x.askStream(step.endpoint, content(step.frame))
				if err != nil || answer.MessageName() != step.answer {
					t.Fatalf("%s: %v, %v", step.frame, answer, err)
				}
			}
			x.write(recorded(t, release, "executor-to-driver-LaunchedExecutor"))
			list := waitExecutors(t, a, func(l []Executor) bool { return l[0].Next() == StepCount && l[0].Reached(StepLaunched) })
			e := list[0]
			for s := range StepCount {
				if !e.Reached(s) {
					t.Errorf("step %s has no time", s)
				}
			}
			if !e.Alive() || e.Host != "127.0.0.1" || e.Cores != 1 || len(e.LogURLs) != 2 || e.BlockManager.Port == 0 || e.Heartbeats != 2 ||
				e.WorkerAddr != "127.0.0.1:7078" || e.Failure != nil {
				t.Errorf("%+v", e)
			}
			dump, err := a.Driver().ThreadDump(within(t), 0)
			if err != nil || len(dump.Threads) < 16 || len(dump.Threads[0].Stack) == 0 {
				t.Errorf("%v", err)
			}
			if err := a.Driver().DecommissionExecutor(0); err != nil {
				t.Error(err)
			}
			x.write(recorded(t, release, "executor-to-driver-RemoveExecutor"))
			eventually(t, "stop after decommission", func() bool { return x.got("DecommissionExecutor") && x.got("StopExecutor") })
			x.close()
			m.end(a, 0, sparkmsg.ExecutorExited, 0)
			list = waitExecutors(t, a, func(l []Executor) bool { return !l[0].Ended.IsZero() })
			if e := list[0]; e.Failure != nil || *e.ExitStatus != 0 || e.Alive() {
				t.Errorf("%+v", e)
			}
		})
	}
}

// Every family: what a driver says can be read by an executor of that family.
func TestExecutorsOfEveryFamily(t *testing.T) {
	for _, fam := range sparkmsg.AllFamilies.Families() {
		t.Run(fam.String(), func(t *testing.T) {
			m := newMaster(t, fam)
			a := startApp(t, nil, m)
			m.grant(a, 7, "127.0.0.1:1")
			waitExecutors(t, a, passed(1, StepRunning))
			x := dialExecutor(t, a)
			cfg, err := x.ask("CoarseGrainedScheduler", &sparkmsg.RetrieveSparkAppConfig{ResourceProfileID: 0})
			if err != nil || cfg.(*sparkmsg.SparkAppConfig).ResourceProfile.ID != 0 {
				t.Fatal(err)
			}
			if err := x.register(a, 7); err != nil {
				t.Fatal(err)
			}
			if err := x.beat(7); err != nil {
				t.Fatal(err)
			}
			waitExecutors(t, a, passed(1, StepHeartbeat))
			if err := a.Driver().StopExecutor(7); err != nil {
				t.Fatal(err)
			}
			eventually(t, "stop", func() bool { return x.got("StopExecutor") })
		})
	}
}

func TestExecutorsThatAreRefused(t *testing.T) {
	m := newMaster(t, sparkmsg.FamilyB)
	a := startApp(t, nil, m)
	m.grant(a, 1, "127.0.0.1:1")
	waitExecutors(t, a, passed(1, StepRunning))
	register := func(id string, attributes, urls []sparkmsg.StringPair) error {
		x := dialExecutor(t, a)
		_, err := x.ask("CoarseGrainedScheduler", &sparkmsg.RegisterExecutor{ExecutorID: id, Executor: sparkmsg.EndpointRef{Name: "Executor"},
			Attributes: attributes, LogURLs: urls})
		return err
	}
	pairs := func(k, v string) []sparkmsg.StringPair { return []sparkmsg.StringPair{{Key: k, Value: v}} }
	for what, err := range map[string]error{
		"no number":       register("driver", nil, nil),
		"negative":        register("-1", nil, nil),
		"never granted":   register("2", nil, nil),
		"other run":       register("1", pairs(runAttribute, "x"), nil),
		"other app":       register("1", nil, pairs("stdout", "http://w/logPage/?appId=app-2&executorId=1&logType=stdout")),
		"huge number":     register("4294967297", nil, nil),
		"nothing at all":  register("", nil, nil),
		"not yet granted": register("3", pairs("OTHER", a.run), nil),
	} {
		if err == nil {
			t.Errorf("%s: accepted", what)
		}
	}
	// Its run shows that it is ours, even if the master's word comes later.
	if err := register("5", pairs(runAttribute, a.run), pairs("stdout", "%zz")); err != nil {
		t.Error(err)
	}
	x := dialExecutor(t, a)
	if err := x.register(a, 1); err != nil {
		t.Fatal(err)
	}
	if err := register("1", nil, nil); err == nil || err.Error() != "duplicate executor ID: 1" {
		t.Errorf("duplicate: %v", err)
	}
	for what, err := range map[string]error{
		"twice on a connection": x.register(a, 5),
		"other id":              x.beat(5),
		"stranger":              dialExecutor(t, a).beat(1),
	} {
		if err == nil {
			t.Errorf("%s: accepted", what)
		}
	}
	if _, err := x.ask("MapOutputTracker", &sparkmsg.TriggerThreadDump{}); err == nil {
		t.Error("an unknown ask was answered")
	}
	if err := x.beat(1); err != nil {
		t.Errorf("after all that: %v", err)
	}
	m.end(a, 1, sparkmsg.ExecutorExited, 1)
	waitExecutors(t, a, func(l []Executor) bool { return !l[0].Ended.IsZero() })
	if err := register("1", pairs(runAttribute, a.run), nil); err == nil {
		t.Error("an executor that had ended came back")
	}
}

// An executor of another Spark line could not read the answer, and would wait in silence.
func TestExecutorOfAnotherFamilyIsToldSo(t *testing.T) {
	m := newMaster(t, sparkmsg.FamilyE)
	a := startApp(t, nil, m)
	m.grant(a, 0, "127.0.0.1:1")
	waitExecutors(t, a, passed(1, StepRunning))
	x := dialExecutor(t, a)
	x.fam = sparkmsg.FamilyB
	if _, err := x.ask("CoarseGrainedScheduler", &sparkmsg.RetrieveSparkAppConfig{}); err == nil {
		t.Fatal("answered")
	}
	m.end(a, 0, sparkmsg.ExecutorExited, 1)
	list := waitExecutors(t, a, func(l []Executor) bool { return !l[0].Ended.IsZero() })
	if f := list[0].Failure; f == nil || f.Step != StepConfigAsked ||
		f.Reason != "EXITED: Command exited with code 1 (exit status 1); it said: executor is of Spark family AB, the application of family E" {
		t.Errorf("%+v", f)
	}
}

func TestFailuresNameTheStep(t *testing.T) {
	m := newMaster(t, sparkmsg.FamilyB)
	a := startApp(t, nil, m)
	failure := func(id int32) Failure {
		var out Failure
		waitExecutors(t, a, func(l []Executor) bool {
			for _, e := range l {
				if e.ID == id && e.Failure != nil {
					out = *e.Failure
				}
			}
			return out.Reason != ""
		})
		return out
	}
	m.push(a, &sparkmsg.ExecutorAdded{ID: 0, HostPort: "h:1"})
	m.end(a, 0, sparkmsg.ExecutorFailed, 1)
	if f := failure(0); f.Step != StepLaunching || f.Reason != "FAILED: Command exited with code 1 (exit status 1)" {
		t.Errorf("%+v", f)
	}
	m.grant(a, 1, "h:1")
	m.end(a, 1, sparkmsg.ExecutorExited, 1)
	if f := failure(1); f.Step != StepConfigAsked {
		t.Errorf("%+v", f)
	}
	m.grant(a, 2, "127.0.0.1:1")
	waitExecutors(t, a, passed(2, StepRunning))
	x := dialExecutor(t, a)
	if err := x.register(a, 2); err != nil {
		t.Fatal(err)
	}
	x.send("CoarseGrainedScheduler", &sparkmsg.RemoveExecutor{ExecutorID: "2", Reason: "Unable to create executor due to disk"})
	eventually(t, "told to stop", func() bool { return x.got("StopExecutor") })
	x.close()
	m.end(a, 2, sparkmsg.ExecutorExited, 1)
	if f := failure(2); f.Step != StepHeartbeat || f.Reason != "EXITED: Command exited with code 1 (exit status 1); it said: Unable to create executor due to disk" {
		t.Errorf("%+v", f)
	}
	// Its worker is gone: nobody reports how it ended.
	m.grant(a, 3, "127.0.0.1:1")
	y := dialExecutor(t, a)
	if err := y.register(a, 3); err != nil {
		t.Fatal(err)
	}
	y.close()
	if f := failure(3); f.Reason != "connection lost, and no exit status came within 100ms" {
		t.Errorf("%+v", f)
	}
	host := "h"
	m.push(a, &sparkmsg.ExecutorUpdated{ID: 3, State: sparkmsg.ExecutorLost, WorkerHost: &host})
	waitExecutors(t, a, func(l []Executor) bool { return len(l) == 4 && l[3].Failure.Reason == "LOST" })
	if _, err := a.Driver().ThreadDump(within(t), 3); !errors.Is(err, ErrNoExecutor) {
		t.Error(err)
	}
	if err := a.Driver().StopExecutor(99); !errors.Is(err, ErrNoExecutor) {
		t.Error(err)
	}
	if _, ok := a.Driver().Executor(99); ok {
		t.Error("executor 99")
	}
}

func TestSilentExecutorIsGivenUp(t *testing.T) {
	m := newMaster(t, sparkmsg.FamilyB)
	a := startApp(t, func(c *Config) { c.Timers.Silence = 50 * time.Millisecond }, m)
	m.grant(a, 0, "127.0.0.1:1")
	x := dialExecutor(t, a)
	if err := x.register(a, 0); err != nil {
		t.Fatal(err)
	}
	<-x.done
	list := waitExecutors(t, a, func(l []Executor) bool { return l[0].Failure != nil })
	if f := list[0].Failure; f.Reason != "connection lost, and no exit status came within 100ms; no heartbeat came for 50ms" {
		t.Errorf("%+v", f)
	}
}

// Two executors start on one host: each must get a time for its question, whichever was meant.
func TestConfigAsksFindTheirExecutors(t *testing.T) {
	m := newMaster(t, sparkmsg.FamilyB)
	a := startApp(t, nil, m)
	m.grant(a, 0, "elsewhere:1")
	m.grant(a, 1, "127.0.0.1:1")
	m.grant(a, 2, "127.0.0.1:2")
	waitExecutors(t, a, passed(3, StepRunning))
	ask := func() {
		x := dialExecutor(t, a)
		if _, err := x.ask("CoarseGrainedScheduler", &sparkmsg.RetrieveSparkAppConfig{}); err != nil {
			t.Fatal(err)
		}
		x.close()
	}
	ask()
	if err := dialExecutor(t, a).register(a, 2); err != nil {
		t.Fatal(err)
	}
	list := a.Driver().Executors()
	if list[0].Reached(StepConfigAsked) || list[1].Reached(StepConfigAsked) || !list[2].Reached(StepConfigAsked) {
		t.Errorf("%+v", list)
	}
	ask()
	if err := dialExecutor(t, a).register(a, 1); err != nil {
		t.Fatal(err)
	}
	if e, _ := a.Driver().Executor(1); !e.Reached(StepConfigAsked) {
		t.Errorf("%+v", e)
	}
}

func TestStopLeavesInOrder(t *testing.T) {
	m := newMaster(t, sparkmsg.FamilyE)
	a := startApp(t, nil, m)
	m.set(func() {
		m.answer = func(msg sparkmsg.Message) (sparkmsg.Message, error) {
			if k, ok := msg.(*sparkmsg.KillExecutors); ok {
				if len(k.ExecutorIDs) != 1 || k.ExecutorIDs[0] != "1" {
					t.Errorf("killed %v", k.ExecutorIDs)
				}
			}
			return &sparkmsg.Boolean{Value: true}, nil
		}
	})
	if err := a.RequestExecutors(within(t), map[int32]int32{0: 2, 4: 1}); err != nil {
		t.Fatal(err)
	}
	m.grant(a, 0, "127.0.0.1:1")
	m.grant(a, 1, "127.0.0.1:1") // never registers
	waitExecutors(t, a, passed(2, StepRunning))
	x := dialExecutor(t, a)
	if err := x.register(a, 0); err != nil {
		t.Fatal(err)
	}
	stopped := make(chan error, 1)
	ctx := within(t)
	go func() { stopped <- a.Stop(ctx) }()
	eventually(t, "stop", func() bool { return x.got("StopExecutor") })
	if len(m.seen("UnregisterApplication")) > 0 {
		t.Error("unregistered before the executor had ended")
	}
	x.close()
	m.end(a, 0, sparkmsg.ExecutorExited, 0)
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	r := m.seen("RequestExecutors")
	if last := r[len(r)-1].(*sparkmsg.RequestExecutors).ResourceProfileToTotalExecs; len(last) != 2 || last[0].Total != 0 || last[1].Total != 0 {
		t.Errorf("%+v", last)
	}
	if len(m.seen("UnregisterApplication")) != 1 {
		t.Error("not unregistered")
	}
	list := a.Driver().Executors()
	if e := list[0]; e.Failure != nil || *e.ExitStatus != 0 || e.State != sparkmsg.ExecutorExited {
		t.Errorf("%+v", e)
	}
	if e := list[1]; e.Failure != nil || e.ExitStatus != nil || e.State != sparkmsg.ExecutorKilled {
		t.Errorf("%+v", e)
	}
	if a.Err() != nil {
		t.Error(a.Err())
	}
}

// The master says nothing of the end of executors that it was asked to kill.
func TestKilledExecutorEndsWithItsConnection(t *testing.T) {
	m := newMaster(t, sparkmsg.FamilyB)
	a := startApp(t, func(c *Config) { c.Timers.ExitWait = patience }, m)
	m.grant(a, 0, "127.0.0.1:1")
	x := dialExecutor(t, a)
	if err := x.register(a, 0); err != nil {
		t.Fatal(err)
	}
	if err := a.KillExecutors(within(t), []int32{0, 77}); err != nil {
		t.Fatal(err)
	}
	if e, _ := a.Driver().Executor(0); !e.Alive() || !e.Stopping {
		t.Errorf("before its connection ended: %+v", e)
	}
	x.close()
	list := waitExecutors(t, a, func(l []Executor) bool { return !l[0].Ended.IsZero() })
	if e := list[0]; e.State != sparkmsg.ExecutorKilled || e.Failure != nil {
		t.Errorf("%+v", e)
	}
}

// An executor that does not end, and a master that is not there, are named; nothing waits for ever.
func TestStopSaysWhatItCouldNotConfirm(t *testing.T) {
	m := newMaster(t, sparkmsg.FamilyB)
	a := startApp(t, func(c *Config) { c.Timers.Leave = 150 * time.Millisecond }, m)
	m.grant(a, 0, "127.0.0.1:1")
	x := dialExecutor(t, a)
	if err := x.register(a, 0); err != nil {
		t.Fatal(err)
	}
	m.stop()
	err := a.Stop(within(t))
	if err == nil {
		t.Fatal("nothing was missing")
	}
	for _, part := range []string{"executors could not be given up", "executors [0] have not ended", "could not be unregistered"} {
		if !bytes.Contains([]byte(err.Error()), []byte(part)) {
			t.Errorf("%q is not in: %v", part, err)
		}
	}
	<-x.done // its driver is gone
}

func TestSlowCallbackLosesEventsNotMemory(t *testing.T) {
	release := make(chan struct{})
	var log eventLog
	q := newEventQueue(4, func(e Event) { <-release; log.add(e) })
	for i := range 100 {
		q.add(Event{Executor: int32(i)})
	}
	close(release)
	q.close()
	q.add(Event{})
	delivered, lost := 0, 0
	last := int32(-1)
	for _, e := range log.list {
		delivered++
		lost += e.Lost
		if e.Executor <= last {
			t.Errorf("event %d after %d", e.Executor, last)
		}
		last = e.Executor
	}
	if delivered+lost != 100 || last != 99 || delivered > 9 {
		t.Errorf("%d delivered, %d lost", delivered, lost)
	}
	one := newEventQueue(1, func(e Event) { log.add(e) })
	for range 3 {
		one.add(Event{})
	}
	one.close()
}

func TestRecordsAreBounded(t *testing.T) {
	m := newMaster(t, sparkmsg.FamilyB)
	a := startApp(t, func(c *Config) { c.Limits = Limits{Executors: 3, Ended: 2} }, m)
	for i := range int32(6) {
		m.push(a, &sparkmsg.ExecutorAdded{ID: i})
	}
	m.end(a, 7, sparkmsg.ExecutorExited, 1) // not followed
	for i := range int32(3) {
		m.end(a, i, sparkmsg.ExecutorExited, 1)
	}
	m.push(a, &sparkmsg.ExecutorAdded{ID: 10})
	list := waitExecutors(t, a, func(l []Executor) bool { return len(l) > 0 && l[len(l)-1].ID == 10 })
	if len(list) != 3 || list[0].ID != 1 || list[1].ID != 2 {
		t.Errorf("%+v", list)
	}
}

// Garbage from executors, whole and damaged messages in any order, never panics and never costs another executor.
func TestGarbageFromExecutors(t *testing.T) {
	m := newMaster(t, sparkmsg.FamilyB)
	a := startApp(t, nil, m)
	m.grant(a, 0, "127.0.0.1:1")
	good := dialExecutor(t, a)
	if err := good.register(a, 0); err != nil {
		t.Fatal(err)
	}
	var frames [][]byte
	for _, release := range []string{"3.5.9", "4.3.0"} {
		files, err := filepath.Glob(filepath.Join("..", "..", "transport", "sparkmsg", "testdata", "executor-"+release, "*.bin"))
		if err != nil || len(files) == 0 {
			t.Fatal(err)
		}
		for _, f := range files {
			raw, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			frames = append(frames, raw)
		}
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 60 {
		nc, err := net.Dial("tcp", a.ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		for range 20 {
			raw := bytes.Clone(frames[rng.IntN(len(frames))])
			if rng.IntN(3) > 0 {
				for range 1 + rng.IntN(4) {
					raw[13+rng.IntN(len(raw)-13)] ^= byte(1 << rng.IntN(8))
				}
			}
			if _, err := nc.Write(raw); err != nil {
				break // cut off
			}
		}
		_ = nc.Close()
	}
	if err := good.beat(0); err != nil {
		t.Errorf("the good executor: %v", err)
	}
	if e, _ := a.Driver().Executor(0); !e.Alive() {
		t.Errorf("%+v", e)
	}
}
