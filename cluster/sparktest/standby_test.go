package sparktest

import (
	"fmt"
	"net/http"
	"testing"
	"time"
)

// A standby says so on every route, and neither registers a worker nor makes it
// give up: the worker is taken on its next try once that master leads.
func TestStandbyAnswers_B011_B021_S31(t *testing.T) {
	needSeveralMasters(t)
	forReleases(t, func(t *testing.T, spark Spark) {
		c, leader := newCluster(t, spark, nil)
		standby := c.Standbys(leader)[0]
		checkRoutes(t, leader, "ALIVE", http.StatusOK)
		checkRoutes(t, standby, "STANDBY", http.StatusServiceUnavailable)

		w := c.StartWorker(WorkerOptions{Master: URLOf(standby)})
		Eventually(t, startTimeout, "a second try of the worker", func() error {
			if len(w.LogMatches(`Retrying connection to master \(attempt # 1\)`)) == 0 {
				return fmt.Errorf("not in its log; running: %v", w.Running())
			}
			return nil
		})
		if n := w.Registrations(); n != 0 {
			t.Fatalf("a standby registered the worker (%d times)", n)
		}
		for _, m := range c.Masters() {
			if s, err := m.JSON(); err != nil || len(s.Workers) != 0 {
				t.Errorf("%s lists workers %+v (%v)", m.Name(), s.Workers, err)
			}
		}
		if code, err := c.Raftctl(nil, "transfer-leadership", "--to", standby.Address(), "--yes"); err != nil || code != 0 {
			t.Fatalf("transfer-leadership: exit code %d, %v", code, err)
		}
		if now := c.WaitLeader(); now != standby {
			t.Fatalf("%s leads, want %s", now.Name(), standby.Name())
		}
		w.WaitAlive()
		if !w.Running() {
			t.Error("the worker has ended")
		}
	})
}

func checkRoutes(t *testing.T, m *Master, state string, leaderCode int) {
	t.Helper()
	Eventually(t, startTimeout, m.Name()+" as "+state, func() error {
		s, err := m.JSON()
		if err != nil {
			return err
		}
		if s.Status != state || s.URL != "spark://"+m.Address() {
			return fmt.Errorf("/json/ says %q at %q", s.Status, s.URL)
		}
		for path, want := range map[string]int{"/leader": leaderCode, "/healthz": http.StatusOK, "/readyz": http.StatusOK} {
			if code, body, err := m.Get(path); err != nil || code != want {
				return fmt.Errorf("%s: %d %.100q (%v), want %d", path, code, body, err, want)
			}
		}
		return nil
	})
}

// A list that names two standbys before the leader costs nobody anything.
func TestTwoStandbysFirst_B018_B106_R23(t *testing.T) {
	needSeveralMasters(t)
	forReleases(t, func(t *testing.T, spark Spark) {
		c, leader := newCluster(t, spark, nil)
		url := URLOf(append(c.Standbys(leader), leader)...)
		w := c.StartWorker(WorkerOptions{Master: url})
		w.WaitAlive()
		if tries := w.LogMatches(`Retrying connection to master`); len(tries) != 0 {
			t.Errorf("the worker needed %d more tries", len(tries))
		}
		a := c.StartApp(AppOptions{Master: url, Cores: 2}).WaitStarted()
		a.Run(4, 0.05)
		checkExecutorIDs(t, a)
		a.Finish()
		waitCompleted(t, c, a.ID, "FINISHED")
		checkEachTaskOnce(t, a)
	})
}

// The leader dies while workers, and then an application, are registering. They
// end up registered, once.
func TestLeaderKilledDuringRegistration_B102_B107_S08(t *testing.T) {
	needSeveralMasters(t)
	forReleases(t, func(t *testing.T, spark Spark) {
		c, leader := newCluster(t, spark, nil)
		var workers []*Worker
		for range 2 {
			workers = append(workers, c.StartWorker(WorkerOptions{}))
		}
		waitLog(t, workers[0].Process, `Connecting to master `+leader.Host)
		leader.Kill()
		next := c.WaitLeader(leader)
		for _, w := range workers {
			w.WaitAlive()
		}
		leader.Start()
		waitFollowing(t, c, leader)

		a := c.StartApp(AppOptions{Cores: 2, ExecutorCores: 1})
		a.WaitScript()
		waitLog(t, a.Process, `Connecting to master spark://`+next.Host)
		next.Kill()
		c.WaitLeader(next)
		a.WaitRegistered()
		next.Start()
		a.Run(8, 0.05)
		c.WaitState(startTimeout, "one application, each worker once", func(s State) error {
			if len(s.ActiveApps) != 1 || s.ActiveApps[0].ID != a.ID || len(s.CompletedApps) != 0 || len(s.Workers) != 2 {
				return fmt.Errorf("the application knows itself as %s; %+v", a.ID, s)
			}
			return nil
		})
		waitExecutors(t, a, 2, 0)
		waitCoresUsed(t, c, 2)
		a.Finish()
		waitCompleted(t, c, a.ID, "FINISHED")
		checkEachTaskOnce(t, a)
		for _, w := range workers {
			if !w.Running() {
				t.Errorf("%s has ended", w.Name)
			}
		}
	})
}

func waitLog(t *testing.T, p *Process, pattern string) {
	t.Helper()
	deadline := time.Now().Add(startTimeout)
	for len(p.LogMatches(pattern)) == 0 { // no growing pause: what follows must come at once
		if time.Now().After(deadline) {
			t.Fatalf("%s did not log %q within %v", p.Name, pattern, startTimeout)
		}
		time.Sleep(2 * time.Millisecond)
	}
}
