package sparktest

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// A worker registers once, with what its command line says, and its heartbeats
// arrive.
func TestRegistrationAndHeartbeats_B013_B019_B030_B033(t *testing.T) {
	forReleases(t, func(t *testing.T, spark Spark) {
		conf := map[string]string{"spark.worker.timeout": "8"} // a heartbeat every 2 s
		c, leader := newCluster(t, spark, conf)
		w := c.StartWorker(WorkerOptions{Cores: 3, Memory: "1500m", Conf: conf})
		entry := w.WaitAlive()
		if !regexp.MustCompile(`^worker-[0-9]{14}-` + regexp.QuoteMeta(w.Host) + `-7078$`).MatchString(entry.ID) {
			t.Errorf("worker id %q", entry.ID)
		}
		if entry.Cores != 3 || entry.Memory != 1500 || entry.CoresUsed != 0 || entry.MemoryUsed != 0 || entry.Port != w.Port {
			t.Errorf("worker entry %+v", entry)
		}
		if want := "http://" + w.Host + ":8081"; entry.WebUIAddress != want {
			t.Errorf("web address %q, want %q", entry.WebUIAddress, want)
		}
		Eventually(t, startTimeout, "the worker's own word", func() error {
			if n := w.Registrations(); n != 1 {
				return fmt.Errorf("%d registrations in its log", n)
			}
			return nil
		})
		if got := w.LogMatches(registeredPattern)[0]; !strings.HasSuffix(got, "spark://"+leader.Address()) {
			t.Errorf("the worker says %q, the leader is %s", got, leader.Address())
		}
		last := entry.LastHeartbeat
		for beat := range 3 {
			c.WaitState(startTimeout, fmt.Sprintf("heartbeat %d", beat+1), func(s State) error {
				now, err := s.Worker(w.Host, "ALIVE")
				if err != nil {
					return err
				}
				if now.LastHeartbeat <= last {
					return fmt.Errorf("last heartbeat is still %d", last)
				}
				last = now.LastHeartbeat
				return nil
			})
		}
		if n := w.Registrations(); n != 1 {
			t.Errorf("the worker registered %d times", n)
		}
	})
}

// Capacity is added to a running cluster by starting a worker: an application
// that wants more gets it at once, and runs to completion with the right sum.
func TestWorkerJoinsRunningCluster_B010_B101_B113(t *testing.T) {
	forReleases(t, func(t *testing.T, spark Spark) {
		c, _ := newCluster(t, spark, nil)
		first := c.StartWorkers(1, WorkerOptions{Cores: 1})[0]
		a := c.StartApp(AppOptions{Cores: 2, ExecutorCores: 1}).WaitStarted()
		a.Run(4, 0.05)
		waitCoresUsed(t, c, 1)
		second := c.StartWorkers(1, WorkerOptions{Cores: 1})[0]
		waitExecutors(t, a, 2, 0)
		waitCoresUsed(t, c, 2)
		a.Run(20, 0.2)
		h := checkExecutorIDs(t, a)
		for _, w := range []*Worker{first, second} {
			if n := w.Executors(); n != 1 {
				t.Errorf("%s was asked to launch %d executors, want 1 (%v)", w.Name, n, h.AddedHosts)
			}
		}
		a.Finish()
		waitCompleted(t, c, a.ID, "FINISHED")
		waitCoresUsed(t, c, 0)
		checkEachTaskOnce(t, a)
	})
}

// An application without Python and without an event log, submitted as a jar.
func TestJVMApplication_B101_B113(t *testing.T) {
	forReleases(t, func(t *testing.T, spark Spark) {
		needCompiler(t, spark)
		c, _ := newCluster(t, spark, nil)
		c.StartWorkers(1, WorkerOptions{})
		a := c.StartApp(AppOptions{JVM: true, Conf: map[string]string{"spark.eventLog.enabled": "false"}}).WaitStarted()
		a.Run(50, 0)
		a.Finish()
		waitCompleted(t, c, a.ID, "FINISHED")
		waitCoresUsed(t, c, 0)
		checkEachTaskOnce(t, a)
	})
}

// A killed worker takes its executors with it: the application hears that they
// are LOST and that the worker is gone, and gets new ones elsewhere.
func TestWorkerKilled_B040_B060_S24(t *testing.T) {
	forReleases(t, func(t *testing.T, spark Spark) {
		c, _ := newCluster(t, spark, nil)
		workers := c.StartWorkers(2, WorkerOptions{})
		a := c.StartApp(AppOptions{Cores: 2, ExecutorCores: 1}).WaitStarted()
		waitExecutors(t, a, 2, 0)
		a.Run(4, 0.05)
		id := workers[0].WaitAlive().ID

		workers[0].Kill()
		workers[0].WaitState("DEAD")
		for what, pattern := range map[string]string{
			"LOST":          `Executor updated: \S+ is now LOST`,
			"WorkerRemoved": `Worker ` + regexp.QuoteMeta(id) + ` removed`,
		} {
			Eventually(t, startTimeout, what+" at the driver", func() error {
				if len(a.LogMatches(pattern)) == 0 {
					return fmt.Errorf("its log has no %q", pattern)
				}
				return nil
			})
		}
		waitExecutors(t, a, 3, 1)
		waitCoresUsed(t, c, 2)
		if n := workers[1].Executors(); n != 2 {
			t.Errorf("the surviving worker was asked to launch %d executors, want 2", n)
		}
		a.Run(8, 0.05)
		h := checkExecutorIDs(t, a)
		if len(h.ExecutorsAdded) != 3 || len(h.ExecutorsRemoved) != 1 {
			t.Errorf("executors added %v, removed %v", h.ExecutorsAdded, h.ExecutorsRemoved)
		}
		a.Finish()
		waitCompleted(t, c, a.ID, "FINISHED")
	})
}

// A worker that stops answering is DEAD after its time-out and its executors are
// replaced; when it goes on it comes back, and what was written off is killed.
func TestWorkerPausedThenBack_B031_B034_B042(t *testing.T) {
	forReleases(t, func(t *testing.T, spark Spark) {
		conf := map[string]string{"spark.worker.timeout": "6"}
		c, _ := newCluster(t, spark, conf)
		workers := c.StartWorkers(2, WorkerOptions{Conf: conf})
		a := c.StartApp(AppOptions{Cores: 2, ExecutorCores: 1}).WaitStarted()
		waitExecutors(t, a, 2, 0)
		id := workers[0].WaitAlive().ID

		workers[0].Pause()
		workers[0].WaitState("DEAD")
		Eventually(t, startTimeout, "the replacement", func() error {
			if n := workers[1].Executors(); n != 2 {
				return fmt.Errorf("the other worker was asked to launch %d executors", n)
			}
			return nil
		})
		a.Run(4, 0.05)
		workers[0].Resume()
		if back := workers[0].WaitAlive(); back.ID != id {
			t.Errorf("the worker came back as %s, was %s", back.ID, id)
		}
		Eventually(t, startTimeout, "the old executor is killed", func() error {
			if len(workers[0].LogMatches(`Asked to kill executor \S+`)) == 0 && len(workers[0].LogMatches(`Executor \S+ finished with state`)) == 0 {
				return errors.New("the log of the worker does not say so")
			}
			return nil
		})
		waitCoresUsed(t, c, 2)
		c.WaitState(startTimeout, "one entry for each worker", func(s State) error {
			if len(s.Workers) != 2 || s.AliveWorkers != 2 {
				return fmt.Errorf("%+v", s.Workers)
			}
			return nil
		})
		a.Run(8, 0.05)
		checkExecutorIDs(t, a)
		a.Finish()
		waitCoresUsed(t, c, 0)
	})
}

// A worker that is started again on the address of one that was killed is taken
// at once, under its new id.
func TestWorkerReplacedAtSameAddress_B014_B015(t *testing.T) {
	forReleases(t, func(t *testing.T, spark Spark) {
		c, _ := newCluster(t, spark, nil)
		old := c.StartWorkers(1, WorkerOptions{})[0]
		oldID := old.WaitAlive().ID
		old.Kill()
		time.Sleep(1100 * time.Millisecond) // ids have a resolution of one second
		fresh := c.StartWorker(WorkerOptions{Host: old.Host})
		c.WaitState(startTimeout, "the new worker in place of the old one", func(s State) error {
			// A master that had not noticed the death replaces the old worker (B-015) and lists it as DEAD, as Spark's
			// does; one that had drops the DEAD entry (B-014).
			alive := 0
			for _, w := range s.Workers {
				if (w.ID == oldID) != (w.State == "DEAD") {
					return fmt.Errorf("%+v", s.Workers)
				}
				if w.State == "ALIVE" {
					alive++
				}
			}
			if alive != 1 {
				return fmt.Errorf("%+v", s.Workers)
			}
			return nil
		})
		if !fresh.Running() {
			t.Error("the new worker has ended")
		}
	})
}

// A second worker that says it is at the address of one that lives is refused
// and ends; the first is not disturbed. Once the first is dead, it is taken.
//
// Two processes cannot listen at one address, so the second one has a hosts file
// of its own in which localhost is another address: a JVM alone can be given that,
// so these are Spark's workers always.
func TestSameAddressRefusedWhileFirstLives_B016_B020(t *testing.T) {
	forReleases(t, func(t *testing.T, spark Spark) {
		c, _ := newCluster(t, spark, nil)
		at := WorkerOptions{Kind: WorkerSpark, Host: "localhost", Port: freePort(t), IP: "127.0.0.1"}
		first := c.StartWorkers(1, at)[0]
		id := first.WaitAlive().ID

		hosts := filepath.Join(c.Dir(), "hosts")
		at.IP = c.host(firstWorker + 50)
		if err := os.WriteFile(hosts, []byte(at.IP+" localhost\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		at.Conf = map[string]string{"jdk.net.hosts.file": hosts}
		time.Sleep(1100 * time.Millisecond) // ids have a resolution of one second
		second := c.StartWorker(at)
		code, err := second.Wait(startTimeout)
		if err != nil || code != 1 {
			t.Fatalf("the second worker ended with code %d (%v), want 1", code, err)
		}
		refusal := fmt.Sprintf("Attempted to re-register worker at same address: localhost:%d", at.Port)
		if len(second.LogMatches("Worker registration failed: "+refusal)) == 0 {
			t.Errorf("its log does not say %q", refusal)
		}
		c.WaitState(startTimeout, "only the first worker", func(s State) error {
			if len(s.Workers) != 1 || s.Workers[0].ID != id || s.Workers[0].State != "ALIVE" {
				return fmt.Errorf("%+v", s.Workers)
			}
			return nil
		})
		// Spark's own master takes the end of the refused worker for the end of the
		// first one, because both have announced one address (B-040), and loses its
		// executors. Here a closed connection is no proof.
		n := first.Registrations()
		if !first.Running() || n != 1 && MasterKind(*mastersFlag) == KindRaft {
			t.Errorf("the first worker runs: %v, registered %d times", first.Running(), n)
		}

		first.Kill()
		first.WaitState("DEAD")
		third := c.StartWorker(at)
		c.WaitState(startTimeout, "the newcomer", func(s State) error {
			if len(s.Workers) != 1 || s.Workers[0].ID == id || s.Workers[0].State != "ALIVE" {
				return fmt.Errorf("%+v", s.Workers)
			}
			return nil
		})
		if !third.Running() {
			t.Error("the newcomer has ended")
		}
	})
}

// freePort returns a port below the ephemeral range that nobody listens on at
// any address.
func freePort(t *testing.T) int {
	t.Helper()
	for i := range 10_000 {
		port := 12_000 + (os.Getpid()+i)%8_000
		ln, err := net.Listen("tcp", fmt.Sprintf(":%d", port))
		if err != nil {
			continue
		}
		if err := ln.Close(); err != nil {
			t.Fatal(err)
		}
		return port
	}
	t.Fatal("no free port between 12000 and 20000")
	return 0
}
