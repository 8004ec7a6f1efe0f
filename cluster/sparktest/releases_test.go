package sparktest

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// allReleases are those of the extended stage: the newest of each line of Spark
// whose protocol is known.
const allReleases = "3.3.4 3.4.4 3.5.9 4.0.5 4.1.4 4.2.1 4.3.0"

func skipUnlessAll(t *testing.T) {
	t.Helper()
	skipShort(t)
	if !*allFlag {
		t.Skip("LEFT OUT without -all-releases: this test runs every supported line of Spark")
	}
	needSeveralMasters(t)
}

// everyRelease are the releases of the extended stage: RAFTMASTER_SPARK_RELEASES
// narrows them down.
func everyRelease() []string {
	if list := releasesFromEnv(); len(list) > 0 {
		return list
	}
	return strings.Fields(allReleases)
}

// hasPython tells whether the release's PySpark runs on the Pythons of today: its
// cloudpickle before 3.4 knows none newer than 3.10.
func hasPython(spark Spark) bool { return !strings.HasPrefix(spark.Release, "3.3.") }

// One release after the other: workers register and send heartbeats, a JVM
// application and, where the release can, a Python application run through the
// death of the leader without noticing, and drivers are submitted through both
// gateways.
func TestEachRelease_B013_B101_B134_S06(t *testing.T) {
	skipUnlessAll(t)
	for _, release := range everyRelease() {
		t.Run(release, func(t *testing.T) {
			spark := install(t, release)
			needCompiler(t, spark)
			conf := restConf("spark.worker.timeout", "20") // a heartbeat every 5 s
			c, leader := newCluster(t, spark, conf)
			workers := c.StartWorkers(2, WorkerOptions{Cores: 2, Conf: conf})
			for _, w := range workers {
				checkRegistered(t, c, w)
			}
			apps := []*App{c.StartApp(AppOptions{JVM: true, Name: "jvm", Cores: 2, ExecutorCores: 1})}
			if hasPython(spark) {
				apps = append(apps, c.StartApp(AppOptions{Name: "python", Cores: 2, ExecutorCores: 1}))
			}
			for _, a := range apps {
				waitExecutors(t, a.WaitStarted(), 2, 0)
				a.Run(4, 0.05)
			}
			leader = failover(t, c, leader, apps)
			for _, a := range apps {
				a.Finish()
				waitCompleted(t, c, a.ID, "FINISHED")
				checkUndisturbed(t, a, 2)
			}
			launched := 0
			for _, w := range workers {
				launched += w.Executors()
				if !w.Running() {
					t.Errorf("%s has ended", w.Name)
				}
			}
			if launched != 2*len(apps) {
				t.Errorf("the workers were asked to launch %d executors, want %d", launched, 2*len(apps))
			}
			// A worker may have asked the new leader by itself before that one reached it.
			c.WaitState(startTimeout, "each worker once, nothing in use", func(s State) error {
				if len(s.Workers) != 2 || s.AliveWorkers != 2 || s.CoresUsed != 0 || s.MemoryUsed != 0 {
					return fmt.Errorf("%+v", s)
				}
				return nil
			})
			checkClusterMode(t, c, spark, leader)
		})
	}
}

// checkClusterMode submits an application through REST, with spark-submit, and a
// driver through RPC, with deploy.Client, the leader last in the list.
func checkClusterMode(t *testing.T, c *Cluster, spark Spark, leader *Master) {
	t.Helper()
	list := leaderAt(c, leader, 2)
	for _, g := range []Gateway{GatewayREST, GatewayClient} {
		d := c.SubmitDriver(DriverOptions{AppOptions: AppOptions{Spark: spark, Name: string(g), Master: urlFor(g, list...), Cores: 2, ExecutorCores: 1}, Gateway: g})
		if d.Exit != 0 {
			t.Errorf("%s: the submitting client ended with %d:\n%s", g, d.Exit, lastLines(d.Client.Log(), 20))
		}
		run := d.NextRun("")
		c.WaitDriver(d.ID, "RUNNING")
		if g == GatewayREST {
			checkMasterList(t, c, run)
			run.StartContext()
			run.Run(4, 0.05)
			run.FinishProgram()
			waitCompleted(t, c, run.ID, "FINISHED")
			checkEachTaskOnce(t, run)
			c.WaitDriver(d.ID, "FINISHED")
			continue
		}
		if p, code := c.ClientKill(spark, URLOf(list...), d.ID); code != 0 {
			t.Errorf("deploy.Client kill ended with %d:\n%s", code, lastLines(p.Log(), 20))
		}
		c.WaitDriver(d.ID, "KILLED")
		run.WaitGone()
	}
	checkSums(t, c, 0)
}

// checkRegistered waits for two heartbeats of a worker and checks its entry.
func checkRegistered(t *testing.T, c *Cluster, w *Worker) {
	t.Helper()
	entry := w.WaitAlive()
	if entry.Cores != w.opts.Cores || entry.Memory != 2048 || entry.Port != w.Port || entry.WebUIAddress != "http://"+w.Host+":8081" {
		t.Errorf("worker entry %+v", entry)
	}
	last := entry.LastHeartbeat
	for beat := range 2 {
		c.WaitState(startTimeout, fmt.Sprintf("heartbeat %d of %s", beat+1, w.Name), func(s State) error {
			now, err := s.Worker(w.Host, "ALIVE")
			if err == nil && now.LastHeartbeat <= last {
				err = fmt.Errorf("last heartbeat is still %d", last)
			}
			if err == nil {
				last = now.LastHeartbeat
			}
			return err
		})
	}
}

// failover kills the leader in the middle of a job of every application and
// returns the next one once everybody is attached and the jobs have ended.
func failover(t *testing.T, c *Cluster, leader *Master, apps []*App) *Master {
	t.Helper()
	for _, a := range apps {
		a.Begin(8, 0.7)
	}
	time.Sleep(500 * time.Millisecond) // tasks are running
	leader.Kill()
	next := c.WaitLeader(leader)
	waitAttached(t, next)
	leader.Start()
	for _, a := range apps {
		a.End(8)
	}
	waitFollowing(t, c, leader)
	for _, a := range apps {
		a.Run(4, 0.05)
	}
	return next
}

// Workers and applications of all lines of Spark share one cluster: everyone gets
// executors on workers of its own line only, before and after a failover.
func TestAllReleasesInOneCluster(t *testing.T) {
	skipUnlessAll(t)
	var sparks []Spark
	for _, release := range everyRelease() {
		spark := install(t, release)
		needCompiler(t, spark)
		sparks = append(sparks, spark)
	}
	shareCluster(t, sparks, WorkerKind(*workersFlag), true)
}

// shareCluster runs one worker and one application of each release, lets the
// leader die under them, and lets every application ask for one executor more
// afterwards.
func shareCluster(t *testing.T, sparks []Spark, kind WorkerKind, jvm bool) {
	t.Helper()
	c, leader := newCluster(t, sparks[0], nil)
	workers := map[string]*Worker{} // by release
	for _, spark := range sparks {
		workers[spark.Release] = c.StartWorkers(1, WorkerOptions{Kind: kind, Spark: spark, Cores: 2})[0]
	}
	var apps []*App
	for _, spark := range sparks {
		a := c.StartApp(AppOptions{Spark: spark, JVM: jvm, Name: "app-" + spark.Release, Cores: 2, ExecutorCores: 1}).WaitStarted()
		waitExecutors(t, a, 2, 0)
		a.Run(2, 0.05)
		apps = append(apps, a)
	}
	next := failover(t, c, leader, apps)
	for i, a := range apps {
		own := workers[sparks[i].Release]
		checkOwnRelease(t, a, own)
		if n := own.Executors(); n != 2 {
			t.Errorf("%s was asked to launch %d executors, want 2", own.Name, n)
		}
	}
	// What the new leader knows of each release must do for launches, too.
	for i, a := range apps {
		own := workers[sparks[i].Release]
		own.Kill()
		own.WaitState("DEAD")
		again := c.StartWorkers(1, WorkerOptions{Kind: kind, Spark: sparks[i], Cores: 2})[0]
		waitExecutors(t, a, 4, 2)
		a.Run(4, 0.05)
		checkOwnRelease(t, a, own, again)
		if n := again.Executors(); n != 2 {
			t.Errorf("%s was asked to launch %d executors, want 2", again.Name, n)
		}
	}
	if now := c.WaitLeader(); now != next {
		t.Errorf("%s leads in place of %s", now.Name(), next.Name())
	}
	for _, a := range apps {
		a.Finish()
		waitCompleted(t, c, a.ID, "FINISHED")
		checkEachTaskOnce(t, a)
	}
	waitCoresUsed(t, c, 0)
}

// checkOwnRelease fails when the application has met an executor on another host
// than those of the given workers.
func checkOwnRelease(t *testing.T, a *App, own ...*Worker) {
	t.Helper()
	for id, host := range checkExecutorIDs(t, a).AddedHosts {
		known := false
		for _, w := range own {
			known = known || w.Host == host
		}
		if !known {
			t.Errorf("%s has executor %s on %s, which is no worker of its own release", a.Name, id, host)
		}
	}
}
