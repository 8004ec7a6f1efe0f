package sparktest

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"syscall"
	"testing"
	"time"
)

var csrfPattern = regexp.MustCompile(`name="csrfToken"\s+value="([^"]+)"`)

// PostForm presses a button of the master's page: it fetches the page for its
// token, where it has one, and sends the form. It returns the status code.
func (m *Master) PostForm(path string, form url.Values) (int, error) {
	_, page, err := m.Get("/")
	if err != nil {
		return 0, err
	}
	if match := csrfPattern.FindStringSubmatch(page); match != nil {
		form.Set("csrfToken", match[1])
	}
	response, err := client.PostForm(m.WebURL()+path, form)
	if err != nil {
		return 0, err
	}
	return response.StatusCode, response.Body.Close()
}

// waitDecommissioned waits until the leader lists the workers as DECOMMISSIONED.
func waitDecommissioned(t *testing.T, c *Cluster, workers ...*Worker) {
	t.Helper()
	c.WaitState(startTimeout, fmt.Sprintf("%d workers DECOMMISSIONED", len(workers)), func(s State) error {
		for _, w := range workers {
			if _, err := s.Worker(w.Host, "DECOMMISSIONED"); err != nil {
				return err
			}
		}
		return nil
	})
}

// checkNoneLaunching demands that no executor waits for a worker that ignores it
// (S33): every unfinished one becomes RUNNING, on one of the given workers.
func checkNoneLaunching(t *testing.T, c *Cluster, want int, on ...*Worker) {
	t.Helper()
	if MasterKind(*mastersFlag) != KindRaft {
		return
	}
	Eventually(t, startTimeout, fmt.Sprintf("%d executors RUNNING", want), func() error {
		leader, err := c.findLeader(nil)
		if err != nil {
			return err
		}
		list, err := leader.Executors()
		if err != nil {
			return err
		}
		running := 0
		for _, e := range list {
			known := false
			for _, w := range on {
				known = known || e.Worker == fmt.Sprintf("%s:%d", w.Host, w.Port)
			}
			if e.State == "RUNNING" && known {
				running++
			} else if e.State != "DECOMMISSIONED" {
				return fmt.Errorf("%+v", e)
			}
		}
		if running != want {
			return fmt.Errorf("%d are RUNNING: %+v", running, list)
		}
		return nil
	})
}

// A worker is decommissioned by the form of the web UI, another one by its own
// signal. Their executors are replaced elsewhere, and they stay decommissioned
// through failovers: no launch is sent to a worker that would ignore it.
func TestDecommission_B064_B065_S33(t *testing.T) {
	forReleases(t, func(t *testing.T, spark Spark) {
		conf := map[string]string{"spark.decommission.enabled": "true"}
		c, leader := newCluster(t, spark, conf)
		workers := c.StartWorkers(3, WorkerOptions{Cores: 2, Conf: conf})
		a := c.StartApp(AppOptions{Cores: 3, ExecutorCores: 1, Conf: conf}).WaitStarted()
		waitExecutors(t, a, 3, 0) // one on each
		a.Run(6, 0.05)

		code, err := leader.PostForm("/workers/kill/", url.Values{"host": {workers[0].Host}})
		if err != nil || code != http.StatusOK {
			t.Fatalf("POST /workers/kill/: %d (%v)", code, err)
		}
		if code, err = leader.PostForm("/workers/kill/", url.Values{"host": {"nobody.example"}}); err != nil || code != http.StatusNotFound {
			t.Errorf("POST /workers/kill/ for a strange host: %d (%v)", code, err)
		}
		waitDecommissioned(t, c, workers[0])
		waitLog(t, workers[0].Process, `Decommission worker `)
		waitLive(t, a, 3)
		checkNoneLaunching(t, c, 3, workers[1:]...)
		a.Run(6, 0.05)
		if MasterKind(*mastersFlag) == KindRaft { // Spark's own forgets it (G-29)
			changeLeader(t, c)
			waitDecommissioned(t, c, workers[0])
			a.Run(6, 0.05)
		}

		workers[1].send(syscall.SIGPWR)
		waitDecommissioned(t, c, workers[1])
		waitCoresUsedBy(t, c, a, 2) // what fits on the last worker
		checkNoneLaunching(t, c, 2, workers[2])
		if MasterKind(*mastersFlag) == KindRaft {
			changeLeader(t, c)
			waitDecommissioned(t, c, workers[0], workers[1])
			waitCoresUsedBy(t, c, a, 2)
			checkNoneLaunching(t, c, 2, workers[2])
		}
		a.Run(6, 0.05)
		checkExecutorIDs(t, a)
		for _, w := range workers {
			if n := len(w.LogMatches(`Asked to launch an executor while decommissioned`)); n != 0 {
				t.Errorf("%s was asked to launch %d executors while decommissioned", w.Name, n)
			}
		}
		a.Finish()
		waitCompleted(t, c, a.ID, "FINISHED")
		checkEachTaskOnce(t, a)
		workers[0].Kill()
		workers[0].WaitState("DEAD")
	})
}

// waitCoresUsedBy waits until the application holds that many cores.
func waitCoresUsedBy(t *testing.T, c *Cluster, a *App, n int) {
	t.Helper()
	c.WaitState(startTimeout, fmt.Sprintf("%s with %d cores", a.ID, n), func(s State) error {
		app, err := s.App(a.ID)
		if err == nil && app.Cores != n {
			err = fmt.Errorf("%+v", app)
		}
		return err
	})
}

// The kill buttons of the web UI end an application and drivers, waiting and
// running; and where decommissioning is off, its form changes nothing.
func TestKillForms_B065_B069_B112_B135(t *testing.T) {
	forNewest(t, func(t *testing.T, spark Spark) {
		needCompiler(t, spark)
		c, leader := newCluster(t, spark, restConf())
		w := c.StartWorkers(1, WorkerOptions{Cores: 4})[0]
		code, err := leader.PostForm("/workers/kill/", url.Values{"host": {w.Host}})
		// 3.5.9 refuses; Spark 4's own has no such route then, and answers with its main page or 405.
		if err != nil || code == http.StatusOK && MasterKind(*mastersFlag) == KindRaft {
			t.Errorf("POST /workers/kill/ while decommissioning is off: %d (%v)", code, err)
		}
		running, waiting := c.SubmitDriver(light(DriverOptions{})), c.SubmitDriver(light(DriverOptions{DriverCores: 64}))
		run := running.NextRun("")
		a := c.StartApp(AppOptions{JVM: true, Cores: 2, ExecutorCores: 1}).WaitStarted()
		waitExecutors(t, a, 2, 0)
		c.WaitDriver(running.ID, "RUNNING")
		for path, id := range map[string]string{"/app/kill/": a.ID, "/driver/kill/": running.ID} {
			if code, err := leader.PostForm(path, url.Values{"id": {id}, "terminate": {"true"}}); err != nil || code != http.StatusFound {
				t.Errorf("POST %s: %d (%v)", path, code, err)
			}
		}
		if code, err := leader.PostForm("/driver/kill/", url.Values{"id": {waiting.ID}, "terminate": {"true"}}); err != nil || code != http.StatusFound {
			t.Errorf("POST /driver/kill/ for a waiting driver: %d (%v)", code, err)
		}
		waitCompleted(t, c, a.ID, "KILLED")
		c.WaitDriver(running.ID, "KILLED")
		c.WaitDriver(waiting.ID, "KILLED")
		run.WaitGone()
		waitLog(t, a.Process, `Application has been killed`)
		checkSums(t, c, 0)
		if entry := w.WaitAlive(); entry.State != "ALIVE" {
			t.Errorf("the worker is %+v", entry)
		}
		time.Sleep(200 * time.Millisecond)
		if n := w.Executors(); n != 2 {
			t.Errorf("the worker was asked to launch %d executors, want 2", n)
		}
	})
}
