package app

import (
	"bytes"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"raftmaster/transport/sparkmsg"
)

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

// An executor that ignores StopExecutor does not keep the application from being unregistered: the master kills it.
func TestStopUnregistersInAnyCase(t *testing.T) {
	m := newMaster(t, sparkmsg.FamilyB)
	a := startApp(t, func(c *Config) { c.Timers.Leave = 2 * time.Second }, m)
	m.grant(a, 0, "127.0.0.1:1")
	x := dialExecutor(t, a)
	if err := x.register(a, 0); err != nil {
		t.Fatal(err)
	}
	if err := a.Stop(within(t)); err == nil || !strings.HasPrefix(err.Error(), "app: executors [0] have not ended") {
		t.Error(err)
	}
	if len(m.seen("UnregisterApplication")) != 1 {
		t.Error("not unregistered")
	}
}

func TestDecommissionedWorkerTakesItsExecutors(t *testing.T) {
	m := newMaster(t, sparkmsg.FamilyE)
	a := startApp(t, nil, m)
	m.grant(a, 0, "127.0.0.1:1")
	x := dialExecutor(t, a)
	if err := x.register(a, 0); err != nil {
		t.Fatal(err)
	}
	m.push(a, &sparkmsg.ExecutorUpdated{ID: 0, State: sparkmsg.ExecutorDecommissioned})
	eventually(t, "executor told", func() bool { return x.got("DecommissionExecutor") })
	if answer, err := x.ask("CoarseGrainedScheduler", &sparkmsg.ExecutorDecommissioning{ExecutorID: "0"}); err != nil || !answer.(*sparkmsg.Boolean).Value {
		t.Errorf("%v, %v", answer, err)
	}
	x.close()
	m.end(a, 0, sparkmsg.ExecutorExited, 0)
	list := waitExecutors(t, a, func(l []Executor) bool { return !l[0].Ended.IsZero() })
	if list[0].Failure != nil {
		t.Errorf("%+v", list[0].Failure)
	}
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

// What a deposed master or an executor says of executors and of the application's end is not believed.
func TestOnlyTheLeaderIsBelieved(t *testing.T) {
	old, leader := newMaster(t, sparkmsg.FamilyE), newMaster(t, sparkmsg.FamilyE)
	a := startApp(t, nil, old)
	leader.push(a, &sparkmsg.MasterChanged{Master: leader.ref()})
	eventually(t, "the leader is followed", func() bool { m, _ := a.Master(); return m == leader.addr.String() })
	leader.grant(a, 0, "127.0.0.1:1")
	x := dialExecutor(t, a)
	waitExecutors(t, a, passed(1, StepGranted))
	if err := x.register(a, 0); err != nil {
		t.Fatal(err)
	}
	x.send("AppClient", &sparkmsg.ApplicationRemoved{Message: "executor"})
	old.end(a, 0, sparkmsg.ExecutorFailed, 1)
	old.push(a, &sparkmsg.ApplicationRemoved{Message: "deposed"})
	leader.grant(a, 1, "127.0.0.1:1")
	waitExecutors(t, a, func(l []Executor) bool { return len(l) == 2 })
	if err := x.beat(0); err != nil { // behind what it has said before
		t.Error(err)
	}
	// The deposed master's connection is served by now: it is asked behind its messages.
	old.push(a, &sparkmsg.MasterChanged{Master: old.ref()})
	eventually(t, "the old one introduces itself", func() bool { m, _ := a.Master(); return m != leader.addr.String() })
	if l := a.Driver().Executors(); len(l) != 2 || !l[0].Ended.IsZero() || a.Err() != nil {
		t.Errorf("%+v, %v", l, a.Err())
	}
	old.end(a, 1, sparkmsg.ExecutorFailed, 1)
	waitExecutors(t, a, func(l []Executor) bool { return len(l) == 2 && !l[1].Ended.IsZero() })
}
