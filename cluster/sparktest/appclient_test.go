package sparktest

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"raftmaster/cluster/app"
	"raftmaster/transport/sparkmsg"
)

// appClientKinds are the masters that the application client is tried with: both, because it must not depend on ours.
func appClientKinds() []MasterKind {
	if MasterKind(*mastersFlag) == KindSpark {
		return []MasterKind{KindSpark}
	}
	return []MasterKind{KindRaft, KindSpark}
}

// newAppClient makes an application client on an address of its own; its log is among those of the cluster.
func newAppClient(t *testing.T, c *Cluster, spark Spark, tune func(*app.Config)) *app.App {
	t.Helper()
	host := c.host(firstApp + len(c.apps))
	log, err := os.Create(filepath.Join(c.dir, "log", "appclient.log"))
	if err != nil {
		t.Fatal(err)
	}
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(host)}}
	cfg := app.Config{
		Masters: []string{c.URL()}, Release: spark.Release, Host: host, Name: "appclient", CoresPerExecutor: 1, MemoryMB: 512,
		Properties: []sparkmsg.Property{{Key: "spark.executor.heartbeatInterval", Value: "1s"}},
		Dial:       dialer.DialContext,
		Timers:     app.Timers{Leave: startTimeout},
		Log:        hclog.New(&hclog.LoggerOptions{Name: "app", Level: hclog.Debug, Output: log}),
	}
	if tune != nil {
		tune(&cfg)
	}
	a, err := app.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		a.Close()
		if err := log.Close(); err != nil {
			t.Error(err)
		}
	})
	return a
}

// processesWith counts the processes that have the text among their arguments.
func processesWith(t *testing.T, text string) int {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, f := range files {
		if data, err := os.ReadFile(f); err == nil && bytes.Contains(data, []byte(text)) { // it may have ended
			n++
		}
	}
	return n
}

// allReached is a condition on exactly n executors.
func allReached(n int, s app.Step) func([]app.Executor) bool {
	return func(list []app.Executor) bool {
		for i := range list {
			if !list[i].Alive() || !list[i].Reached(s) {
				return false
			}
		}
		return len(list) == n
	}
}

// Two executor JVMs register with a driver in Go, heartbeat, show their threads and leave with exit status 0.
func TestAppClientHoldsRealExecutors(t *testing.T) {
	forReleases(t, func(t *testing.T, spark Spark) {
		for _, kind := range appClientKinds() {
			t.Run(string(kind), func(t *testing.T) { holdExecutors(t, kind, spark) })
		}
	})
}

// The same with every supported line of Spark: there is hardly a message that all of them have in one form.
func TestAppClientHoldsExecutorsOfEveryRelease(t *testing.T) {
	skipUnlessAll(t)
	for _, release := range everyRelease() {
		t.Run(release, func(t *testing.T) { holdExecutors(t, KindRaft, install(t, release)) })
	}
}

func holdExecutors(t *testing.T, kind MasterKind, spark Spark) {
	c := NewCluster(t, Options{Kind: kind, Workers: WorkerKind(*workersFlag), Spark: spark})
	c.StartMasters()
	workers := c.StartWorkers(2, WorkerOptions{Cores: 1})
	ctx, cancel := context.WithTimeout(t.Context(), 2*startTimeout)
	defer cancel()
	a := newAppClient(t, c, spark, func(cfg *app.Config) { cfg.MaxCores = 2 })
	if err := a.Start(ctx); err != nil {
		t.Fatal(err)
	}
	list, err := a.Driver().Wait(ctx, allReached(2, app.StepHeartbeat))
	if err != nil {
		t.Fatalf("%v: %+v", err, list)
	}
	for _, e := range list {
		checkSteps(t, e)
		dump, err := a.Driver().ThreadDump(ctx, e.ID)
		if err != nil || len(dump.Threads) == 0 || len(dump.Threads[0].Stack) == 0 {
			t.Errorf("executor %d: thread dump %+v, %v", e.ID, dump, err)
		} else {
			t.Logf("executor %d: %d threads", e.ID, len(dump.Threads))
		}
	}
	if n := processesWith(t, a.ID()); n != 2 {
		t.Errorf("%d executor processes", n)
	}
	if err := a.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	for _, e := range a.Driver().Executors() {
		if e.State != sparkmsg.ExecutorExited || e.ExitStatus == nil || *e.ExitStatus != 0 || e.Failure != nil {
			t.Errorf("executor %d ended as %+v", e.ID, e)
		}
	}
	for _, w := range workers {
		Eventually(t, startTimeout, "EXITED 0 in the log of "+w.Name, func() error {
			pattern := `Executor ` + a.ID() + `/\d+ finished with state EXITED message Command exited with code 0 exitStatus 0`
			if n := len(w.LogMatches(pattern)); n != 1 {
				return fmt.Errorf("%d executors reported it", n)
			}
			return nil
		})
		if w.Executors() != 1 {
			t.Errorf("%s launched %d executors", w.Name, w.Executors())
		}
	}
	waitCompleted(t, c, a.ID(), "FINISHED")
	waitCoresUsed(t, c, 0)
	Eventually(t, startTimeout, "no process is left", func() error {
		if n := processesWith(t, a.ID()); n != 0 {
			return fmt.Errorf("%d", n)
		}
		return nil
	})
}

// checkSteps checks that a healthy executor has its times in order. A worker may report LAUNCHING or not.
func checkSteps(t *testing.T, e app.Executor) {
	t.Helper()
	text, last := "", e.Times[app.StepGranted]
	for s := range app.StepCount {
		if !e.Reached(s) {
			if s != app.StepLaunching {
				t.Errorf("executor %d: no time of step %s", e.ID, s)
			}
			continue
		}
		// What the master tells and what the executor says come on different connections.
		if s > app.StepConfigAsked && e.Times[s].Before(last) {
			t.Errorf("executor %d: %s came before what precedes it", e.ID, s)
		}
		last = e.Times[s]
		text += fmt.Sprintf(" %s %d", s, last.Sub(e.Times[app.StepGranted]).Milliseconds())
	}
	t.Logf("executor %d on %s, ms after its grant:%s", e.ID, e.WorkerAddr, text)
}

// The leader dies under the executors: they stay, and the application goes on with the new leader.
func TestAppClientKeepsItsExecutorsThroughAFailover(t *testing.T) {
	forNewest(t, func(t *testing.T, spark Spark) {
		needSeveralMasters(t)
		c, leader := newCluster(t, spark, nil)
		c.StartWorkers(1, WorkerOptions{Cores: 2})
		ctx, cancel := context.WithTimeout(t.Context(), 2*startTimeout)
		defer cancel()
		zero := int32(0)
		a := newAppClient(t, c, spark, func(cfg *app.Config) { cfg.InitialExecutors = &zero })
		if err := a.Start(ctx); err != nil {
			t.Fatal(err)
		}
		if err := a.RequestExecutors(ctx, map[int32]int32{0: 1}); err != nil {
			t.Fatal(err)
		}
		if list, err := a.Driver().Wait(ctx, allReached(1, app.StepLaunched)); err != nil {
			t.Fatalf("%v: %+v", err, list)
		}
		leader.Kill()
		// Asked while nobody leads: the next leader answers.
		if err := a.RequestExecutors(ctx, map[int32]int32{0: 2}); err != nil {
			t.Fatal(err)
		}
		list, err := a.Driver().Wait(ctx, allReached(2, app.StepLaunched))
		if err != nil {
			t.Fatalf("%v: %+v", err, list)
		}
		if list[0].ID != 0 || list[1].ID != 1 {
			t.Errorf("executors %d and %d", list[0].ID, list[1].ID)
		}
		if addr, up := a.Master(); addr == leader.Address() || !up {
			t.Errorf("master %s, connected %v", addr, up)
		}
		// One is decommissioned, the other is killed by the master; neither is replaced.
		if err := a.RequestExecutors(ctx, map[int32]int32{0: 0}); err != nil {
			t.Fatal(err)
		}
		if err := a.Driver().DecommissionExecutor(0); err != nil {
			t.Fatal(err)
		}
		if err := a.KillExecutors(ctx, []int32{1}); err != nil {
			t.Fatal(err)
		}
		list, err = a.Driver().Wait(ctx, func(list []app.Executor) bool {
			return len(list) == 2 && !list[0].Ended.IsZero() && !list[1].Ended.IsZero()
		})
		if err != nil {
			t.Fatalf("%v: %+v", err, list)
		}
		if e := list[0]; e.State != sparkmsg.ExecutorExited || e.ExitStatus == nil || *e.ExitStatus != 0 || e.Failure != nil {
			t.Errorf("decommissioned executor: %+v", e)
		}
		if e := list[1]; e.State != sparkmsg.ExecutorKilled || e.Failure != nil {
			t.Errorf("killed executor: %+v", e)
		}
		if err := a.Stop(ctx); err != nil {
			t.Fatal(err)
		}
		waitCompleted(t, c, a.ID(), "FINISHED")
		waitCoresUsed(t, c, 0)
	})
}

// An executor that cannot start says in which step it failed.
func TestAppClientNamesTheStepThatFailed(t *testing.T) {
	forNewest(t, func(t *testing.T, spark Spark) {
		c, _ := newCluster(t, spark, nil)
		c.StartWorkers(1, WorkerOptions{Cores: 1})
		ctx, cancel := context.WithTimeout(t.Context(), 2*startTimeout)
		defer cancel()
		a := newAppClient(t, c, spark, func(cfg *app.Config) {
			cfg.MaxCores = 1
			cfg.JavaOpts = []string{"-XX:NoSuchCollector", "-XX:-IgnoreUnrecognizedVMOptions"}
		})
		if err := a.Start(ctx); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		list, err := a.Driver().Wait(ctx, func(list []app.Executor) bool { return len(list) > 0 && list[0].Failure != nil })
		if err != nil {
			t.Fatalf("%v: %+v", err, list)
		}
		if f := list[0].Failure; f.Step != app.StepConfigAsked || list[0].ExitStatus == nil || *list[0].ExitStatus != 1 {
			t.Errorf("failure %+v of %+v", f, list[0])
		}
		t.Logf("after %s: %+v", time.Since(start), *list[0].Failure)
		if err := a.Stop(ctx); err != nil {
			t.Fatal(err)
		}
		waitCoresUsed(t, c, 0)
	})
}
