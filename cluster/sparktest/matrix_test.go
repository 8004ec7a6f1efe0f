package sparktest

import (
	"context"
	"errors"
	"fmt"
	"html"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"raftmaster/cluster/app"
	"raftmaster/transport/sparkmsg"
)

// Every job on every pair of master and worker, ours and Spark's own: registered, ran, finished, logs readable, nothing
// left running. The three jobs of a pair run on one cluster at the same time.
func TestMatrix_B013_B101_B121_B134(t *testing.T) {
	forReleases(t, func(t *testing.T, spark Spark) {
		needCompiler(t, spark)
		for _, masters := range appClientKinds() {
			for _, worker := range []WorkerKind{WorkerRaft, WorkerSpark} {
				name := fmt.Sprintf("masters-%s_worker-%s", masters, worker)
				t.Run(name, func(t *testing.T) { runMatrix(t, spark, masters, worker) })
			}
		}
	})
}

// matrixCell is one pair of master and worker with its jobs.
type matrixCell struct {
	c       *Cluster
	w       *Worker
	ports   []string // listened on before the jobs came
	python  *App
	driver  *Driver
	run     *Session // of the driver
	client  *app.App
	dirs    []string // that the jobs leave in the work directory
	logURLs []string // of all logs, to be read again after the end
}

func runMatrix(t *testing.T, spark Spark, masters MasterKind, worker WorkerKind) {
	m := &matrixCell{c: NewCluster(t, Options{Kind: masters, Workers: worker, Spark: spark, Conf: restConf()})}
	m.c.StartMasters()
	m.w = m.c.StartWorkers(1, WorkerOptions{Cores: 4, Memory: "4g"})[0]
	steps := []struct {
		name string
		run  func(t *testing.T)
	}{
		{"registered", m.registered},
		{"pyspark", m.pyspark},
		{"cluster-mode jar", m.clusterMode},
		{"application client", m.applicationClient},
		{"nothing is left", m.nothingLeft},
		{"worker stops", m.workerStops},
	}
	var err error
	if m.ports, err = m.c.Listeners(); err != nil || len(m.ports) == 0 {
		t.Fatalf("listeners %q: %v", m.ports, err)
	}
	m.startJobs(t, spark)
	for _, s := range steps {
		ok := t.Run(s.name, func(t *testing.T) {
			defer m.c.For(t)()
			s.run(t)
		})
		if !ok {
			t.FailNow() // what follows would only repeat it
		}
	}
}

func (m *matrixCell) startJobs(t *testing.T, spark Spark) {
	m.python = m.c.StartApp(AppOptions{Name: "python", Cores: 1, ExecutorCores: 1})
	m.driver = m.c.SubmitDriver(DriverOptions{AppOptions: AppOptions{Name: "jar", Cores: 1, ExecutorCores: 1}})
	m.client = newAppClient(t, m.c, spark, func(cfg *app.Config) { cfg.MaxCores = 1 })
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	if err := m.client.Start(ctx); err != nil {
		t.Fatal(err)
	}
}

// registered: both sides say the same of each other.
func (m *matrixCell) registered(t *testing.T) {
	entry := m.w.WaitAlive()
	if entry.Cores != 4 || entry.Memory != 4096 || entry.Port != m.w.Port || entry.WebUIAddress != m.w.WebURL() {
		t.Errorf("worker at the master: %+v", entry)
	}
	if n := m.w.Registrations(); n != 1 {
		t.Errorf("the worker was registered %d times", n)
	}
	v, err := m.w.View()
	if err != nil {
		t.Fatal(err)
	}
	if v.ID != entry.ID || v.MasterURL != "spark://"+m.c.WaitLeader().Address() || v.Cores != 4 {
		t.Errorf("worker of itself: %+v", v)
	}
}

func (m *matrixCell) pyspark(t *testing.T) {
	a := m.python.WaitStarted()
	waitExecutors(t, a, 1, 0)
	a.Run(4, 0.05)
	history := checkExecutorIDs(t, a)
	m.checkRunning(t, a.ID)
	m.checkExecutorLogs(t, a.ID, history.LogURLs["0"])
	a.Finish()
	waitCompleted(t, m.c, a.ID, "FINISHED")
	checkEachTaskOnce(t, a)
	m.checkEnded(t, a.ID)
}

func (m *matrixCell) clusterMode(t *testing.T) {
	m.run = m.driver.NextRun("")
	m.c.WaitDriver(m.driver.ID, "RUNNING")
	m.run.StartContext()
	waitExecutors(t, m.run, 1, 0)
	m.run.Run(4, 0.05)
	history := checkExecutorIDs(t, m.run)
	m.checkRunning(t, m.run.ID)
	m.checkExecutorLogs(t, m.run.ID, history.LogURLs["0"])
	m.checkDriverLogs(t)
	m.run.FinishProgram()
	m.run.WaitGone()
	waitCompleted(t, m.c, m.run.ID, "FINISHED")
	m.c.WaitDriver(m.driver.ID, "FINISHED")
	checkEachTaskOnce(t, m.run)
	m.checkEnded(t, m.run.ID)
	m.driver.None()
	m.dirs = append(m.dirs, m.driver.ID)
}

func (m *matrixCell) applicationClient(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	a := m.client
	list, err := a.Driver().Wait(ctx, allReached(1, app.StepHeartbeat))
	if err != nil {
		t.Fatalf("%v: %+v", err, list)
	}
	checkSteps(t, list[0])
	if dump, err := a.Driver().ThreadDump(ctx, list[0].ID); err != nil || len(dump.Threads) == 0 {
		t.Errorf("thread dump %+v, %v", dump, err)
	}
	m.checkRunning(t, a.ID())
	m.checkExecutorLogs(t, a.ID(), list[0].LogURLs)
	if err := a.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	e := a.Driver().Executors()[0]
	if e.State != sparkmsg.ExecutorExited || e.ExitStatus == nil || *e.ExitStatus != 0 || e.Failure != nil {
		t.Errorf("the executor ended as %+v", e)
	}
	a.Close()
	waitCompleted(t, m.c, a.ID(), "FINISHED")
	m.checkEnded(t, a.ID())
}

// checkRunning: master and worker agree that the application runs with one executor.
func (m *matrixCell) checkRunning(t *testing.T, id string) {
	t.Helper()
	Eventually(t, startTimeout, id+" RUNNING with one core", func() error {
		s, err := m.c.State()
		if err != nil {
			return err
		}
		if a, err := s.App(id); err != nil || a.State != "RUNNING" || a.Cores != 1 {
			return fmt.Errorf("at the master: %+v, %v", a, err)
		}
		v, err := m.w.View()
		if err != nil || !slices.Contains(v.Executors, WorkerExecutor{ID: 0, AppID: id}) {
			return fmt.Errorf("at the worker: %+v, %v", v, err)
		}
		return nil
	})
}

// checkEnded: the worker has ended the application's executor, its processes are gone, and its logs are still there.
func (m *matrixCell) checkEnded(t *testing.T, id string) {
	t.Helper()
	Eventually(t, startTimeout, "end of "+id+" at the worker", func() error {
		v, err := m.w.View()
		if err != nil || !slices.Contains(v.FinishedExecutors, WorkerExecutor{ID: 0, AppID: id}) {
			return fmt.Errorf("%+v, %v", v, err)
		}
		if n := processesWith(t, id); n != 0 {
			return fmt.Errorf("%d processes", n)
		}
		return nil
	})
	if n := len(m.w.LogMatches(`Executor ` + id + `/0 finished with state (EXITED|KILLED)`)); n != 1 {
		t.Errorf("the end of executor %s/0 is %d times in the worker's log", id, n)
	}
	m.dirs = append(m.dirs, filepath.Join(id, "0"))
}

// checkExecutorLogs reads both logs of executor 0 in every way there is; urls are those that the executor told its driver.
func (m *matrixCell) checkExecutorLogs(t *testing.T, id string, urls map[string]string) {
	t.Helper()
	query, dir := "appId="+id+"&executorId=0", filepath.Join(id, "0")
	m.checkLogs(t, query, dir, `Spark Executor Command: "`, urls)
}

func (m *matrixCell) checkDriverLogs(t *testing.T) {
	t.Helper()
	urls := map[string]string{}
	for _, logType := range []string{"stdout", "stderr"} {
		url, err := environmentOf(m.run.PID, "SPARK_DRIVER_LOG_URL_"+strings.ToUpper(logType))
		if err != nil {
			t.Fatal(err)
		}
		urls[logType] = url
	}
	m.checkLogs(t, "driverId="+m.driver.ID, m.driver.ID, `Launch Command: "`, urls)
}

func (m *matrixCell) checkLogs(t *testing.T, query, dir, header string, urls map[string]string) {
	t.Helper()
	if len(urls) != 2 {
		t.Errorf("URLs of the logs of %s: %v", query, urls)
	}
	for _, logType := range []string{"stdout", "stderr"} {
		text, err := m.w.ReadLog(query, dir, logType)
		if err != nil {
			t.Error(err)
		}
		if logType == "stderr" && (!strings.HasPrefix(text, header) || len(strings.Split(text, "\n")) < 4) {
			t.Errorf("%s of %s: %.500q", logType, query, text)
		}
		page := m.w.WebURL() + "/logPage/?" + query + "&logType=" + logType
		m.logURLs = append(m.logURLs, page)
		if u := urls[logType]; u != page && u != strings.Replace(page, "/logPage/?", "/logPage?", 1) {
			t.Errorf("URL of %s of %s is %q, want %q", logType, query, u, page)
		}
		for _, u := range []string{page, urls[logType]} {
			body, err := fetch(u)
			if err != nil {
				t.Error(err)
			}
			if logType == "stderr" && !strings.Contains(html.UnescapeString(body), lastLines(text, 1)) && !strings.Contains(html.UnescapeString(body), header) {
				t.Errorf("%s shows neither the beginning nor the end of the log", u)
			}
		}
	}
}

// nothingLeft: nothing is booked, no process but masters and worker is there, no port is open that was not before, and the
// work directory holds what it should.
func (m *matrixCell) nothingLeft(t *testing.T) {
	checkSums(t, m.c, 0)
	v, err := m.w.View()
	launched := m.launched()
	if err != nil || v.CoresUsed != 0 || v.MemoryUsed != 0 || len(v.Executors) != 0 || len(v.FinishedExecutors) != len(launched) || len(launched) < 3 {
		t.Errorf("worker %+v, %v", v, err)
	}
	Eventually(t, startTimeout, "no process and no port left", func() error {
		if strays := m.c.Strays(m.c.Daemons()...); len(strays) > 0 {
			return fmt.Errorf("processes:\n%s", strings.Join(strays, "\n"))
		}
		now, err := m.c.Listeners()
		if err != nil {
			return err
		}
		if open := more(m.ports, now); len(open) > 0 {
			return fmt.Errorf("ports %v are open", open)
		}
		return nil
	})
	for _, u := range m.logURLs {
		if _, err := fetch(u); err != nil {
			t.Errorf("after the end: %v", err)
		}
	}
	checkWorkDir(t, m.w, m.dirs, launched)
	if left := m.localDirs(t, "executor-*"); len(left) > 0 {
		t.Errorf("local directories of ended applications: %v", left)
	}
}

// launched lists the executors that the worker was asked to launch. An application that ends tells its executors before
// its master, which may start another one in place of the first, and then ends it with the application.
func (m *matrixCell) launched() []string {
	var out []string
	for _, line := range m.w.LogMatches(`Asked to launch executor \S+`) {
		out = append(out, line[strings.LastIndexByte(line, ' ')+1:])
	}
	return out
}

// checkWorkDir: there are the wanted directories with their logs, and no others but those that may be there.
func checkWorkDir(t *testing.T, w *Worker, want, may []string) {
	t.Helper()
	var have []string
	for _, pattern := range []string{"app-*/*", "driver-*"} {
		found, err := filepath.Glob(filepath.Join(w.WorkDir(), pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, dir := range found {
			name, err := filepath.Rel(w.WorkDir(), dir)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Contains(want, name) {
				if !slices.Contains(may, name) {
					t.Errorf("%s is in the work directory", dir)
				}
				continue // it may have been ended before it began
			}
			have = append(have, name)
			for _, log := range []string{"stdout", "stderr"} {
				if _, err := os.Stat(filepath.Join(dir, log)); err != nil {
					t.Error(err)
				}
			}
		}
	}
	slices.Sort(have)
	want = slices.Sorted(slices.Values(want))
	if !slices.Equal(have, want) {
		t.Errorf("work directory has %v, want %v", have, want)
	}
}

// localDirs lists what is in the local directories of workers, where the pattern fits.
func (m *matrixCell) localDirs(t *testing.T, pattern string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(m.c.Dir(), "tmp", "spark-*", pattern))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// workerStops: SIGTERM ends it, the master knows, and its ports and local directories are gone.
func (m *matrixCell) workerStops(t *testing.T) {
	m.w.send(syscall.SIGTERM)
	want := 0
	if m.w.opts.Kind == WorkerSpark {
		want = 128 + int(syscall.SIGTERM) // as the JVM ends
	}
	if code, err := m.w.Wait(startTimeout); err != nil || code != want {
		t.Errorf("the worker ended with %d, want %d (%v)", code, want, err)
	}
	m.w.WaitState("DEAD")
	Eventually(t, startTimeout, "the worker's ports are closed", func() error {
		now, err := m.c.Listeners()
		if err == nil && slices.ContainsFunc(now, func(a string) bool { return strings.HasPrefix(a, m.w.Host+":") }) {
			err = errors.New(strings.Join(now, " "))
		}
		return err
	})
	if left := m.localDirs(t, ""); len(left) > 0 {
		t.Errorf("local directories of the worker: %v", left)
	}
}
