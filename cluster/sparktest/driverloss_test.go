package sparktest

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// changeLeader kills the leader and returns the next one, with everybody attached.
// Spark's own lone master is started again, with what it had stored.
func changeLeader(t *testing.T, c *Cluster) *Master {
	t.Helper()
	old := c.WaitLeader()
	old.Kill()
	if MasterKind(*mastersFlag) == KindSpark {
		old.Start()
		return c.WaitLeader()
	}
	next := c.WaitLeader(old)
	waitAttached(t, next)
	old.Start()
	waitFollowing(t, c, old)
	return next
}

// successor waits until the driver is RELAUNCHING, and returns the id under which
// it goes on.
func successor(t *testing.T, c *Cluster, d *Driver) string {
	t.Helper()
	old := c.WaitDriver(d.ID, "RELAUNCHING")
	next := ""
	c.WaitState(startTimeout, "the successor of "+d.ID, func(s State) error {
		for _, x := range s.ActiveDrivers {
			if x.ID != d.ID && x.State == "RUNNING" {
				next = x.ID
				return nil
			}
		}
		return fmt.Errorf("%+v", s.ActiveDrivers)
	})
	if MasterKind(*mastersFlag) == KindRaft && !strings.Contains(old.Message, next) {
		t.Errorf("the status of %s does not name %s: %+v", d.ID, next, old)
	}
	return next
}

// The worker of two drivers is killed. The supervised one goes on elsewhere under
// a new id, the other one is in ERROR. Then the worker of the relaunched one stops
// for longer than its time-out: a third copy is started, and when the worker goes
// on, the copy that was written off is killed: its report ends nothing.
func TestWorkerOfDriversLost_B060_B138_S10(t *testing.T) {
	forReleases(t, func(t *testing.T, spark Spark) {
		needCompiler(t, spark)
		conf := restConf("spark.worker.timeout", "8")
		c, _ := newCluster(t, spark, conf)
		w1 := c.StartWorkers(1, WorkerOptions{Conf: conf})[0]
		supervised := c.SubmitDriver(light(DriverOptions{Supervise: true, AppOptions: AppOptions{Name: "supervised"}}))
		plain := c.SubmitDriver(light(DriverOptions{AppOptions: AppOptions{Name: "plain"}}))
		first, plainRun := supervised.NextRun(""), plain.NextRun("")
		c.WaitDriver(supervised.ID, "RUNNING")
		c.WaitDriver(plain.ID, "RUNNING")
		w2 := c.StartWorkers(1, WorkerOptions{Conf: conf})[0]

		w1.Kill()
		first.WaitGone() // drivers share the fate of their worker
		plainRun.WaitGone()
		s := c.WaitDriver(plain.ID, "ERROR")
		if MasterKind(*mastersFlag) == KindRaft && s.WorkerID == "" {
			t.Errorf("the lost driver has no worker: %+v", s)
		}
		second := successor(t, c, supervised)
		run := supervised.NextRun(second)
		if s := c.WaitDriver(second, "RUNNING"); !strings.HasPrefix(s.WorkerHostPort, w2.Host+":") {
			t.Errorf("the relaunched driver is on %s, want %s", s.WorkerHostPort, w2.Host)
		}
		checkSums(t, c, 1)

		w3 := c.StartWorkers(1, WorkerOptions{Conf: conf})[0]
		w2.Pause()
		w2.WaitState("DEAD")
		third := successor(t, c, &Driver{Control: supervised.Control, ID: second})
		runs := supervised.NextRun(third)
		if !run.Connected() {
			t.Error("the driver of the paused worker has ended: this test shows nothing")
		}
		w2.Resume()
		w2.WaitAlive()
		run.WaitGone()
		Eventually(t, startTimeout, "the old copy is killed", func() error {
			if len(w2.LogMatches("Asked to kill driver "+second)) == 0 {
				return errors.New("the log of its worker does not say so")
			}
			return nil
		})
		checkSums(t, c, 1)
		if s := c.WaitDriver(third, "RUNNING"); !strings.HasPrefix(s.WorkerHostPort, w3.Host+":") || !runs.Connected() {
			t.Errorf("the third copy: %+v, runs: %v", s, runs.Connected())
		}
		c.WaitDriver(second, "RELAUNCHING")
		if MasterKind(*mastersFlag) == KindRaft {
			c.KillDriver(supervised.ID) // by the first id of the chain
		} else {
			c.KillDriver(third)
		}
		c.WaitDriver(third, "KILLED")
		runs.WaitGone()
		checkSums(t, c, 0)
		supervised.None()
		plain.None()
	})
}

// poller asks every master about a driver all the time, as Airflow does, and notes
// every answer that would mislead it.
type poller struct {
	stop chan struct{}
	done sync.WaitGroup
	mu   sync.Mutex
	bad  []string
	good int
}

func startPoller(c *Cluster, id, state string) *poller {
	p := &poller{stop: make(chan struct{})}
	for _, m := range c.Masters() {
		p.done.Go(func() {
			for {
				select {
				case <-p.stop:
					return
				case <-time.After(20 * time.Millisecond):
				}
				_, s, err := m.REST(http.MethodGet, "/status/"+id, nil)
				p.note(m, s, err, state)
			}
		})
	}
	return p
}

func (p *poller) note(m *Master, s Submission, err error, state string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ECONNRESET), errors.Is(err, io.EOF):
		// a master that is down, or went down under the request
	case err != nil:
		p.bad = append(p.bad, fmt.Sprintf("%s: %v", m.Name(), err))
	case !saneStatus(s, state):
		p.bad = append(p.bad, fmt.Sprintf("%s: %+v", m.Name(), s))
	default:
		p.good++
	}
}

// end fails the test when the poller was misled.
func (p *poller) end(t *testing.T) {
	t.Helper()
	close(p.stop)
	p.done.Wait()
	if len(p.bad) > 0 || p.good == 0 {
		t.Errorf("of %d answers %d mislead, the first: %.1000q", p.good+len(p.bad), len(p.bad), p.bad[:min(3, len(p.bad))])
	}
}

// Leaders die under a waiting, a running and a finished driver and under the
// application of one: nothing is lost, no id changes, the sums stay exact, whoever
// asks the gateways meanwhile is never misled, and the waiting driver runs, under
// its id, when there is room.
func TestDriversThroughFailover_S07_S12_S14_S17(t *testing.T) {
	needSeveralMasters(t)
	forReleases(t, func(t *testing.T, spark Spark) {
		needCompiler(t, spark)
		c, leader := newCluster(t, spark, restConf())
		workers := c.StartWorkers(2, WorkerOptions{Cores: 4})
		finished := c.SubmitDriver(light(DriverOptions{AppOptions: AppOptions{Name: "finished"}}))
		finished.NextRun("").FinishProgram()
		c.WaitDriver(finished.ID, "FINISHED")
		// The submitter knows one master only; the driver must know all of them.
		busy := c.SubmitDriver(DriverOptions{AppOptions: AppOptions{Name: "busy", Cores: 4, ExecutorCores: 2, Master: RESTURLOf(leader)}})
		app := busy.NextRun("")
		checkMasterList(t, c, app)
		app.StartContext()
		waitExecutors(t, app, 2, 0)
		app.Run(4, 0.1)
		idle := c.SubmitDriver(light(DriverOptions{AppOptions: AppOptions{Name: "idle"}}))
		idleRun := idle.NextRun("")
		waiting := c.SubmitDriver(light(DriverOptions{AppOptions: AppOptions{Name: "waiting"}, DriverCores: 4}))
		last := c.SubmitDriver(light(DriverOptions{AppOptions: AppOptions{Name: "last"}, DriverCores: 4}))
		checkSums(t, c, 6)

		poll := startPoller(c, busy.ID, "RUNNING")
		for range 2 {
			app.Begin(8, 0.5)
			changeLeader(t, c)
			for id, state := range map[string]string{finished.ID: "FINISHED", busy.ID: "RUNNING", idle.ID: "RUNNING", waiting.ID: "SUBMITTED", last.ID: "SUBMITTED"} {
				c.WaitDriver(id, state)
			}
			checkSums(t, c, 6)
			app.End(8)
		}
		poll.end(t)
		if s, err := c.DriverStatus(finished.ID); err != nil || s.WorkerID == "" {
			t.Errorf("the finished driver has lost its worker: %+v (%v)", s, err)
		}
		app.FinishProgram()
		waitCompleted(t, c, app.ID, "FINISHED")
		checkUndisturbed(t, app, 2, workers...)
		c.WaitDriver(busy.ID, "FINISHED")

		run := waiting.NextRun("") // the first in the queue
		c.WaitDriver(last.ID, "SUBMITTED")
		c.KillDriver(last.ID)
		c.WaitDriver(last.ID, "KILLED")
		changeLeader(t, c)
		c.KillDriver(waiting.ID)
		c.WaitDriver(waiting.ID, "KILLED")
		run.WaitGone()
		if !idleRun.Connected() {
			t.Error("the idle driver has ended")
		}
		idleRun.FinishProgram()
		c.WaitDriver(idle.ID, "FINISHED")
		checkSums(t, c, 0)
		for _, d := range []*Driver{finished, busy, idle, waiting, last} {
			d.None()
		}
		checkDigests(t, c)
	})
}

// The leader dies in the moment in which it has accepted a driver: the driver runs
// once, under the id that was answered.
func TestLeaderKilledAfterSubmit_S19(t *testing.T) {
	needSeveralMasters(t)
	forNewest(t, func(t *testing.T, spark Spark) {
		needCompiler(t, spark)
		c, _ := newCluster(t, spark, restConf())
		workers := c.StartWorkers(2, WorkerOptions{Cores: 4})
		for i := range 5 {
			leader := c.WaitLeader()
			d := c.SubmitDriver(light(DriverOptions{}))
			if i%2 == 0 {
				leader.Kill()
			} else {
				leader.Pause()
			}
			next := c.WaitLeader(leader)
			run := d.NextRun("")
			waitAttached(t, next)
			c.WaitDriver(d.ID, "RUNNING")
			if i%2 == 0 {
				leader.Start()
			} else {
				leader.Resume()
			}
			waitFollowing(t, c, leader)
			checkSums(t, c, 1)
			run.FinishProgram()
			c.WaitDriver(d.ID, "FINISHED")
			d.None()
			launches := 0
			for _, w := range workers {
				launches += len(w.LogMatches("Asked to launch driver " + d.ID))
			}
			if launches != 1 {
				t.Errorf("%s was launched %d times", d.ID, launches)
			}
		}
		checkSums(t, c, 0)
	})
}

// Executors and a driver end while there is no leader to be told. The next one
// believes the workers' lists: it keeps no ghost, tells the application, and
// replaces what it lacks.
func TestEndsWithoutLeader_S37(t *testing.T) {
	skipUnlessLong(t)
	needSeveralMasters(t)
	forReleases(t, func(t *testing.T, spark Spark) {
		needCompiler(t, spark)
		c, leader := newCluster(t, spark, restConf())
		c.StartWorkers(2, WorkerOptions{Cores: 3})
		a := c.StartApp(AppOptions{JVM: true, Cores: 4, ExecutorCores: 1}).WaitStarted()
		waitExecutors(t, a, 4, 0)
		a.Run(8, 0.05)
		d := c.SubmitDriver(light(DriverOptions{}))
		run := d.NextRun("")
		c.WaitDriver(d.ID, "RUNNING")
		other := c.Standbys(leader)[0]
		leader.Kill()
		other.Kill()
		for _, id := range liveExecutors(t, a)[:2] {
			killExecutor(t, a.ID, id)
		}
		run.Exit(0)
		time.Sleep(2 * time.Second) // the workers notice, and have nobody to tell
		leader.Start()
		other.Start()
		waitAttached(t, c.WaitLeader())
		waitLive(t, a, 4)
		checkSums(t, c, 4)
		Eventually(t, startTimeout, "the end of the driver", func() error {
			s, err := c.DriverStatus(d.ID)
			if err == nil && s.DriverState != "ERROR" && s.DriverState != "FINISHED" {
				err = fmt.Errorf("%+v", s)
			}
			return err
		})
		a.Run(8, 0.05)
		checkExecutorIDs(t, a)
		a.Finish()
		waitCompleted(t, c, a.ID, "FINISHED")
		checkEachTaskOnce(t, a)
		checkSums(t, c, 0)
		d.None()
	})
}
