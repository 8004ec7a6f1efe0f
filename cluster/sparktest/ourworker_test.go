package sparktest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"raftmaster/cluster/app"
	"raftmaster/transport/sparkmsg"
)

// Twenty leaders in a row are killed under a PySpark job on our workers: no executor is lost, and each is the same process
// as before.
func TestTwentyLeaderKillsUnderOurWorkers_S08_S16(t *testing.T) {
	needSeveralMasters(t)
	forReleases(t, func(t *testing.T, spark Spark) { killLeaders(t, spark, 20, WorkerOptions{Kind: WorkerRaft}, 2) })
}

// Our worker is killed with SIGKILL, under a job whose one executor cannot even hear a signal, and started again: what it
// had started is ended, its cores come back, and the job goes on with other executors.
func TestOurWorkerKilledAndStartedAgain(t *testing.T) {
	forReleases(t, func(t *testing.T, spark Spark) {
		c, _ := newCluster(t, spark, nil)
		w := c.StartWorkers(1, WorkerOptions{Kind: WorkerRaft, Cores: 2})[0]
		a := c.StartApp(AppOptions{Cores: 2, ExecutorCores: 1}).WaitStarted()
		waitExecutors(t, a, 2, 0)
		a.Run(4, 0.05)
		before := c.ExecutorPIDs(a.ID)
		if len(before) != 2 {
			t.Fatalf("executors are the processes %v", before)
		}
		locals := localDirsOf(t, c)
		a.Begin(8, 0.5)
		time.Sleep(300 * time.Millisecond) // tasks are running
		if err := syscall.Kill(before[0], syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		w.Kill()
		w.StartAgain()
		// Perhaps twice: the master that has lost the first process looks for it at the same address.
		Eventually(t, startTimeout, "registration of the worker", func() error {
			if w.Registrations() == 0 {
				return errors.New("none")
			}
			return nil
		})
		// They are ended before the worker offers their cores.
		for _, pid := range before {
			if command := commandLine(pid); command != "" {
				t.Errorf("an executor of the killed worker is left: %d %s", pid, command)
			}
		}
		waitLive(t, a, 2)
		a.End(8)
		// The first process is in the list as DEAD when the second has taken its place, and not when its loss was seen before
		// (B-014, B-015).
		c.WaitState(startTimeout, "one worker ALIVE, with its two cores in use", func(s State) error {
			if s.AliveWorkers != 1 || s.Cores != 2 || s.CoresUsed != 2 {
				return fmt.Errorf("%+v", s)
			}
			return nil
		})
		if h := checkExecutorIDs(t, a); len(h.ExecutorsAdded) < 4 || h.ExecutorsRemoved["0"] == "" || h.ExecutorsRemoved["1"] == "" {
			t.Errorf("executors added %v, removed %v", h.ExecutorsAdded, h.ExecutorsRemoved)
		}
		for dir := range localDirsOf(t, c) {
			if locals[dir] {
				t.Errorf("local directory of the killed worker is left: %s", dir)
			}
		}
		a.Finish()
		waitCompleted(t, c, a.ID, "FINISHED")
		waitCoresUsed(t, c, 0)
		waitNoStrays(t, c)
	})
}

// localDirsOf are the local directories of applications that are there, of whatever worker.
func localDirsOf(t *testing.T, c *Cluster) map[string]bool {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(c.Dir(), "tmp", "spark-*", "executor-*"))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]bool{}
	for _, dir := range found {
		out[dir] = true
	}
	return out
}

// waitNoStrays waits until there is no process of the cluster but masters and workers.
func waitNoStrays(t *testing.T, c *Cluster) {
	t.Helper()
	Eventually(t, startTimeout, "no process is left", func() error {
		if strays := c.Strays(c.Daemons()...); len(strays) > 0 {
			return fmt.Errorf("%s", strings.Join(strays, "\n"))
		}
		return nil
	})
}

// What cannot work under our worker becomes a state that says why, and leaves nothing behind.
func TestOurWorkerBadInput(t *testing.T) {
	forNewest(t, func(t *testing.T, spark Spark) {
		c, _ := newCluster(t, spark, restConf())
		w := c.StartWorkers(1, WorkerOptions{Kind: WorkerRaft, Cores: 1})[0]
		for _, step := range []struct {
			name string
			run  func(t *testing.T, c *Cluster, w *Worker)
		}{
			{"jar that is not there", missingJar},
			{"no java", missingJava},
			{"executor that hears no signal", deafExecutor},
		} {
			t.Run(step.name, func(t *testing.T) {
				defer c.For(t)()
				step.run(t, c, w)
				waitCoresUsed(t, c, 0)
				waitNoStrays(t, c)
			})
		}
	})
}

func missingJar(t *testing.T, c *Cluster, _ *Worker) {
	server := http.Server{Handler: http.NotFoundHandler()}
	listener, err := net.Listen("tcp", net.JoinHostPort(c.host(harnessHost), "0"))
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = server.Serve(listener) }() // ends with the server
	defer func() { _ = server.Close() }()
	closed := net.JoinHostPort(c.host(harnessHost), "9") // nobody listens there
	for jar, want := range map[string]string{
		"http://" + listener.Addr().String() + "/job.jar": "404",
		"http://" + closed + "/job.jar":                   "refused",
		"file:///no/such/job.jar":                         "no such file",
		"hdfs://somewhere/job.jar":                        "hdfs",
	} {
		d := c.SubmitDriver(light(DriverOptions{Jar: jar}))
		if s := c.WaitDriver(d.ID, "ERROR"); !strings.Contains(strings.ToLower(s.Message), want) {
			t.Errorf("%s: %+v", jar, s)
		} else {
			t.Logf("%s: %s", jar, s.Message)
		}
		d.None()
	}
}

func missingJava(t *testing.T, c *Cluster, w *Worker) {
	a := newAppClient(t, c, w.opts.Spark, func(cfg *app.Config) {
		cfg.MaxCores = 1
		cfg.Environment = []sparkmsg.EnvVar{{Name: "JAVA_HOME", Value: "/no/such/java"}}
	})
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	if err := a.Start(ctx); err != nil {
		t.Fatal(err)
	}
	list, err := a.Driver().Wait(ctx, func(list []app.Executor) bool { return len(list) > 0 && list[0].Failure != nil })
	if err != nil {
		t.Fatalf("%v: %+v", err, list)
	}
	if e := list[0]; e.State != sparkmsg.ExecutorFailed || !strings.Contains(e.Failure.Reason, "/no/such/java") {
		t.Errorf("executor %+v failed as %+v", e, *e.Failure)
	}
	t.Logf("%+v", *list[0].Failure)
	if err := a.Stop(ctx); err != nil && a.Err() == nil { // the master may have given it up by now
		t.Fatal(err)
	}
}

func deafExecutor(t *testing.T, c *Cluster, w *Worker) {
	a := newAppClient(t, c, w.opts.Spark, func(cfg *app.Config) { cfg.MaxCores = 1 })
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	if err := a.Start(ctx); err != nil {
		t.Fatal(err)
	}
	if list, err := a.Driver().Wait(ctx, allReached(1, app.StepLaunched)); err != nil {
		t.Fatalf("%v: %+v", err, list)
	}
	pids := c.ExecutorPIDs(a.ID())
	if len(pids) != 1 {
		t.Fatalf("executors are the processes %v", pids)
	}
	if err := syscall.Kill(pids[0], syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if err := a.RequestExecutors(ctx, map[int32]int32{0: 0}); err != nil { // no other in its place
		t.Fatal(err)
	}
	if err := a.KillExecutors(ctx, []int32{0}); err != nil {
		t.Fatal(err)
	}
	pattern := `Executor ` + a.ID() + `/0 finished with state KILLED .*exitStatus 137`
	Eventually(t, startTimeout, "its end by SIGKILL", func() error {
		if n := len(w.LogMatches(pattern)); n != 1 {
			return fmt.Errorf("%d times", n)
		}
		return nil
	})
	if err := a.Stop(ctx); err != nil {
		t.Fatal(err)
	}
}
