package app

import (
	"errors"
	"slices"
	"strconv"
	"testing"
	"time"

	"raftmaster/transport/sparkmsg"
)

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
			content := func(name string) []byte { return recordedStream(t, release, name) }
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
			profile := slices.Contains(a.desc.Command.Arguments, "{{RESOURCE_PROFILE_ID}}")
			if profile != (fam != sparkmsg.FamilyA) { // 3.4 brought the placeholder
				t.Errorf("arguments %q", a.desc.Command.Arguments)
			}
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
	if _, err := a.Driver().ThreadDump(within(t), 2); !errors.Is(err, ErrNoExecutor) {
		t.Error(err)
	}
	if err := a.Driver().StopExecutor(99); !errors.Is(err, ErrNoExecutor) {
		t.Error(err)
	}
	if _, ok := a.Driver().Executor(99); ok {
		t.Error("executor 99")
	}
}

// Its worker is gone: nobody reports how it ended.
func TestLostExecutorWithoutExitStatus(t *testing.T) {
	m := newMaster(t, sparkmsg.FamilyB)
	a := startApp(t, func(c *Config) { c.Timers.ExitWait = 100 * time.Millisecond }, m)
	m.grant(a, 0, "127.0.0.1:1")
	waitExecutors(t, a, passed(1, StepRunning))
	x := dialExecutor(t, a)
	if err := x.register(a, 0); err != nil {
		t.Fatal(err)
	}
	x.close()
	list := waitExecutors(t, a, func(l []Executor) bool { return l[0].Failure != nil })
	if f := list[0].Failure; f.Reason != "connection lost, and no exit status came within 100ms" {
		t.Errorf("%+v", f)
	}
	host := "h"
	m.push(a, &sparkmsg.ExecutorUpdated{ID: 0, State: sparkmsg.ExecutorLost, WorkerHost: &host})
	waitExecutors(t, a, func(l []Executor) bool { return l[0].Failure.Reason == "LOST" })
}

func TestSilentExecutorIsGivenUp(t *testing.T) {
	m := newMaster(t, sparkmsg.FamilyB)
	a := startApp(t, func(c *Config) { c.Timers.Silence, c.Timers.ExitWait = 50*time.Millisecond, 100*time.Millisecond }, m)
	m.grant(a, 0, "127.0.0.1:1")
	waitExecutors(t, a, passed(1, StepRunning))
	x := dialExecutor(t, a)
	if _, err := x.ask("CoarseGrainedScheduler", &sparkmsg.RegisterExecutor{ExecutorID: "0", Executor: sparkmsg.EndpointRef{Name: "Executor"}}); err != nil {
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
