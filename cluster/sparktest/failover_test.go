package sparktest

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"raftmaster/transport/webui"
)

// waitFollowing waits until the master answers, knows the leader and has applied
// everything that the leader had committed.
func waitFollowing(t *testing.T, c *Cluster, m *Master) {
	t.Helper()
	Eventually(t, startTimeout, m.Name()+" follows", func() error {
		leader, err := c.findLeader(nil)
		if err != nil {
			return err
		}
		want, err := leader.Status()
		if err != nil {
			return err
		}
		have, err := m.Status()
		if err != nil {
			return err
		}
		if have.Term != want.Term || have.Leader == nil || have.AppliedIndex < want.CommitIndex {
			return fmt.Errorf("term %d and index %d, the leader has %d and %d", have.Term, have.AppliedIndex, want.Term, want.CommitIndex)
		}
		return nil
	})
}

// waitAttached waits until the leader awaits nobody of the term before, and
// returns its status.
func waitAttached(t *testing.T, leader *Master) webui.Status {
	t.Helper()
	var s webui.Status
	Eventually(t, startTimeout, "everybody attached to "+leader.Name(), func() error {
		var err error
		if s, err = leader.Status(); err != nil {
			return err
		}
		if s.State != "ALIVE" {
			return fmt.Errorf("it is %s", s.State)
		}
		if s.TakeOver != nil && len(s.TakeOver.Awaited) > 0 {
			return fmt.Errorf("it awaits %+v", s.TakeOver.Awaited)
		}
		return nil
	})
	return s
}

// The leader dies while executors are being launched. The application gets
// exactly what it may have, under ids that are never used twice.
func TestLeaderKilledDuringLaunch_S16(t *testing.T) {
	needSeveralMasters(t)
	forReleases(t, func(t *testing.T, spark Spark) {
		c, leader := newCluster(t, spark, nil)
		workers := c.StartWorkers(2, WorkerOptions{})
		a := c.StartApp(AppOptions{Cores: 4, ExecutorCores: 1})
		a.WaitScript()
		deadline := time.Now().Add(startTimeout)
		for {
			list, err := leader.Executors()
			if err == nil && len(list) > 0 {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("no executor is being launched: %v", err)
			}
			time.Sleep(2 * time.Millisecond)
		}
		leader.Kill()
		next := c.WaitLeader(leader)
		leader.Start()
		a.WaitRegistered()
		waitLive(t, a, 4)
		waitAttached(t, next)
		a.Run(8, 0.2)
		waitCoresUsed(t, c, 4)
		checkExecutorIDs(t, a)
		Eventually(t, startTimeout, "four executors RUNNING", func() error {
			list, err := next.Executors() // of the replicated state: any master knows
			if err != nil {
				return err
			}
			running := 0
			for _, e := range list {
				if e.State == "RUNNING" {
					running++
				}
			}
			if running != 4 || len(list) != 4 {
				return fmt.Errorf("%+v", list)
			}
			return nil
		})
		a.Finish()
		waitCompleted(t, c, a.ID, "FINISHED")
		waitCoresUsed(t, c, 0)
		checkEachTaskOnce(t, a)
		for _, w := range workers {
			if !w.Running() {
				t.Errorf("%s has ended", w.Name)
			}
		}
	})
}

// The leader dies in the middle of a job: nobody but the masters notices.
func TestLeaderKilledDuringJob_S06(t *testing.T) {
	needSeveralMasters(t)
	forReleases(t, func(t *testing.T, spark Spark) {
		c, leader := newCluster(t, spark, nil)
		workers := c.StartWorkers(2, WorkerOptions{})
		a := c.StartApp(AppOptions{Cores: 2, ExecutorCores: 1}).WaitStarted()
		waitExecutors(t, a, 2, 0)
		a.Begin(8, 1)
		time.Sleep(1500 * time.Millisecond)
		leader.Kill()
		next := c.WaitLeader(leader)
		waitAttached(t, next)
		c.WaitState(startTimeout, "the application RUNNING with its cores", func(s State) error {
			app, err := s.App(a.ID)
			if err != nil {
				return err
			}
			if app.State != "RUNNING" || app.Cores != 2 || s.CoresUsed != 2 || s.AliveWorkers != 2 {
				return fmt.Errorf("%+v in %+v", app, s)
			}
			return nil
		})
		a.End(8)
		a.Finish()
		waitCompleted(t, c, a.ID, "FINISHED")
		checkUndisturbed(t, a, 2, workers...)
		waitCoresUsed(t, c, 0)
	})
}

// SIGTERM makes a leader hand over before it goes, and end with exit code 0.
func TestLeaderStopsInOrder_SIGTERM(t *testing.T) {
	needSeveralMasters(t)
	forReleases(t, func(t *testing.T, spark Spark) {
		c, leader := newCluster(t, spark, nil)
		workers := c.StartWorkers(2, WorkerOptions{})
		a := c.StartApp(AppOptions{Cores: 2, ExecutorCores: 1}).WaitStarted()
		waitExecutors(t, a, 2, 0)
		a.Begin(6, 0.5)
		if code := leader.Stop(); code != 0 {
			t.Errorf("the leader ended with exit code %d", code)
		}
		next := c.WaitLeader(leader)
		waitAttached(t, next)
		a.End(6)
		leader.Start()
		waitFollowing(t, c, leader)
		a.Finish()
		waitCompleted(t, c, a.ID, "FINISHED")
		checkUndisturbed(t, a, 2, workers...)
	})
}

// Twenty leaders in a row are killed under one running application.
func TestTwentyLeaderKills_S08_S16(t *testing.T) {
	needSeveralMasters(t)
	forReleases(t, func(t *testing.T, spark Spark) { killLeaders(t, spark, 20, WorkerOptions{}, 2) })
}

// Fifty, with more workers.
func TestFiftyLeaderKills_S08(t *testing.T) {
	skipUnlessLong(t)
	needSeveralMasters(t)
	forReleases(t, func(t *testing.T, spark Spark) { killLeaders(t, spark, 50, WorkerOptions{}, 4) })
}

func killLeaders(t *testing.T, spark Spark, kills int, options WorkerOptions, nWorkers int) {
	c, _ := newCluster(t, spark, nil)
	workers := c.StartWorkers(nWorkers, options)
	a := c.StartApp(AppOptions{Cores: nWorkers, ExecutorCores: 1}).WaitStarted()
	waitExecutors(t, a, nWorkers, 0)
	a.Run(2*nWorkers, 0.1) // everything is up, the machine is calm
	processes := c.ExecutorPIDs(a.ID)
	leader := c.WaitLeader()
	settled := waitAttached(t, leader)
	for kill := range kills {
		a.Begin(2*nWorkers, 0.5)
		time.Sleep(200 * time.Millisecond) // so that tasks are running
		before, err := leader.Status()
		if err != nil {
			t.Fatalf("kill %d: status of %s: %v", kill+1, leader.Name(), err)
		}
		if before.Term != settled.Term || before.State != "ALIVE" {
			t.Errorf("before kill %d: the leadership changed by itself, from term %d to %d (%s)", kill+1, settled.Term, before.Term, before.State)
		}
		dead := leader
		dead.Kill()
		leader = c.WaitLeader(dead)
		settled = waitAttached(t, leader)
		dead.Start()
		waitFollowing(t, c, dead)
		a.End(2 * nWorkers)
	}
	list, err := leader.Executors()
	if err != nil || len(list) != nWorkers {
		t.Errorf("executors at the last leader: %+v (%v)", list, err)
	}
	checkDigests(t, c)
	if now := c.ExecutorPIDs(a.ID); !slices.Equal(now, processes) || len(now) != nWorkers {
		t.Errorf("executors are the processes %v, and were %v", now, processes)
	}
	a.Finish()
	waitCompleted(t, c, a.ID, "FINISHED")
	checkUndisturbed(t, a, nWorkers, workers...)
	c.WaitState(startTimeout, "each worker once, nothing in use", func(s State) error {
		if len(s.Workers) != nWorkers || s.AliveWorkers != nWorkers || s.CoresUsed != 0 || s.MemoryUsed != 0 {
			return fmt.Errorf("%+v", s)
		}
		return nil
	})
	checkDigests(t, c)
}

// All masters are stopped at once and started again: the application is still
// there, goes on and finishes.
func TestAllMastersRestart_R15_S03(t *testing.T) {
	forReleases(t, func(t *testing.T, spark Spark) {
		c, _ := newCluster(t, spark, nil)
		workers := c.StartWorkers(2, WorkerOptions{})
		a := c.StartApp(AppOptions{Cores: 2, ExecutorCores: 1}).WaitStarted()
		waitExecutors(t, a, 2, 0)
		a.Begin(8, 1)
		for _, m := range c.Masters() {
			m.Kill()
		}
		time.Sleep(500 * time.Millisecond) // the time in which there is no master at all
		c.StartMasters()
		c.WaitState(startTimeout, "the application with its executors", func(s State) error {
			app, err := s.App(a.ID)
			if err != nil {
				return err
			}
			if app.State != "RUNNING" || app.Cores != 2 || s.AliveWorkers != 2 || s.CoresUsed != 2 {
				return fmt.Errorf("%+v in %+v", app, s)
			}
			return nil
		})
		a.End(8)
		a.Run(4, 0.1)
		a.Finish()
		waitCompleted(t, c, a.ID, "FINISHED")
		checkUndisturbed(t, a, 2, workers...)
		if MasterKind(*mastersFlag) == KindRaft {
			checkDigests(t, c)
		}
	})
}

// Two of three masters are away for 45 s: the data plane does not notice, and
// the application is attached again afterwards.
func TestQuorumLostFor45Seconds_S22_R21(t *testing.T) {
	skipUnlessLong(t)
	needSeveralMasters(t)
	forReleases(t, func(t *testing.T, spark Spark) {
		c, leader := newCluster(t, spark, nil)
		workers := c.StartWorkers(2, WorkerOptions{})
		a := c.StartApp(AppOptions{Cores: 2, ExecutorCores: 1}).WaitStarted()
		waitExecutors(t, a, 2, 0)
		other := c.Standbys(leader)[0]
		leader.Kill()
		other.Kill()
		var late *App
		for i := range 15 {
			if i == 5 {
				// A driver asks when it starts, 20 s and 40 s later, and gives up after 60 s (B-106): the last time that it
				// asks must be after the outage.
				late = c.StartApp(AppOptions{Name: "late"})
				late.WaitScript()
			}
			a.Run(2, 3)
			if n := len(c.Leaders()); n != 0 {
				t.Fatalf("%d masters say that they lead, without a majority", n)
			}
		}
		leader.Start()
		other.Start()
		waitAttached(t, c.WaitLeader())
		late.WaitRegistered()
		a.Run(4, 0.1)
		a.Finish()
		checkUndisturbed(t, a, 2) // the workers launch executors of the other application as well
		for _, w := range workers {
			if !w.Running() {
				t.Errorf("%s has ended", w.Name)
			}
		}
		late.Run(4, 0.1)
		late.Finish()
	})
}

// A paused leader is replaced; when it goes on it follows, and never for a
// moment says beside the new one that it leads.
func TestLeaderPausedThenBack_R19_R20(t *testing.T) {
	needSeveralMasters(t)
	forReleases(t, func(t *testing.T, spark Spark) {
		c, leader := newCluster(t, spark, nil)
		workers := c.StartWorkers(2, WorkerOptions{})
		a := c.StartApp(AppOptions{Cores: 2, ExecutorCores: 1}).WaitStarted()
		waitExecutors(t, a, 2, 0)
		a.Begin(8, 0.5)
		leader.Pause()
		next := c.WaitLeader(leader)
		waitAttached(t, next)
		leader.Resume()
		for range 100 {
			if leaders := c.Leaders(); len(leaders) > 1 {
				t.Fatalf("%d masters lead at once", len(leaders))
			}
			time.Sleep(10 * time.Millisecond)
		}
		waitFollowing(t, c, leader)
		a.End(8)
		a.Run(4, 0.1)
		a.Finish()
		waitCompleted(t, c, a.ID, "FINISHED")
		checkUndisturbed(t, a, 2, workers...)
		checkDigests(t, c)
	})
}

// checkDigests waits until all masters have applied the same and demands one
// digest of all of them.
func checkDigests(t *testing.T, c *Cluster) {
	t.Helper()
	Eventually(t, startTimeout, "one digest on all masters", func() error {
		var first digest
		for i, m := range c.Masters() {
			d, err := m.digest()
			if err != nil {
				return err
			}
			if d.Digest == "" {
				return errors.New(m.Name() + " gives no digest")
			}
			if i == 0 {
				first = d
			}
			if d != first {
				return fmt.Errorf("%s has %+v, %s has %+v", c.Masters()[0].Name(), first, m.Name(), d)
			}
		}
		return nil
	})
}

// digest is the hash of the replicated state of one master at an index.
type digest struct {
	Index  uint64 `json:"state_index"`
	Digest string `json:"state_digest"`
}

func (m *Master) digest() (digest, error) {
	var d digest
	return d, m.getJSON("/v1/status", &d)
}
