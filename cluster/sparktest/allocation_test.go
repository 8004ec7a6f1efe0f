package sparktest

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// executorPID finds the process of an executor by its command line.
func executorPID(appID, executorID string) (int, error) {
	paths, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return 0, err
	}
	wants := [][]byte{[]byte("\x00--app-id\x00" + appID + "\x00"), []byte("\x00--executor-id\x00" + executorID + "\x00")}
	for _, path := range paths {
		line, err := os.ReadFile(path)
		if err != nil || !bytes.Contains(line, wants[0]) || !bytes.Contains(line, wants[1]) {
			continue // ended meanwhile, or another process
		}
		return strconv.Atoi(strings.Split(path, "/")[2])
	}
	return 0, fmt.Errorf("no process of executor %s/%s", appID, executorID)
}

// killExecutor ends the process of an executor with SIGKILL.
func killExecutor(t *testing.T, appID, executorID string) {
	t.Helper()
	pid, err := executorPID(appID, executorID)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatalf("kill executor %s/%s: %v", appID, executorID, err)
	}
}

// liveExecutors lists the ids of the executors that the application has now.
func liveExecutors(t *testing.T, p program) []string {
	t.Helper()
	h, err := p.session().History()
	if err != nil {
		t.Fatal(err)
	}
	var live []string
	for _, id := range h.ExecutorsAdded {
		if _, gone := h.ExecutorsRemoved[id]; !gone {
			live = append(live, id)
		}
	}
	return live
}

// dynamic is the configuration of dynamic allocation that keeps at least that many
// executors, and gives up idle ones slowly enough for the test to look at them.
func dynamic(atLeast, atMost int) map[string]string {
	return map[string]string{
		"spark.dynamicAllocation.enabled":                 "true",
		"spark.dynamicAllocation.shuffleTracking.enabled": "true",
		"spark.dynamicAllocation.initialExecutors":        "0",
		"spark.dynamicAllocation.minExecutors":            strconv.Itoa(atLeast),
		"spark.dynamicAllocation.maxExecutors":            strconv.Itoa(atMost),
		"spark.dynamicAllocation.executorIdleTimeout":     "3s",
		"spark.dynamicAllocation.schedulerBacklogTimeout": "1s",
	}
}

// The targets of dynamic allocation, of two resource profiles, outlive the leader:
// an executor that is lost afterwards is replaced although the driver does not
// say again how many it wants (G-13), and the driver can still let executors go.
func TestDynamicAllocationThroughFailover_B114_B115(t *testing.T) {
	forReleases(t, func(t *testing.T, spark Spark) {
		needCompiler(t, spark)
		c, _ := newCluster(t, spark, nil)
		c.StartWorkers(2, WorkerOptions{Cores: 3, Memory: "3g"})
		a := c.StartApp(AppOptions{JVM: true, ExecutorCores: 1, Conf: dynamic(2, 3)}).WaitStarted()
		waitLive(t, a, 2)
		changeLeader(t, c)
		waitCoresUsed(t, c, 2)
		lost := liveExecutors(t, a)[0]
		killExecutor(t, a.ID, lost)
		waitExecutors(t, a, 3, 1)
		if live := liveExecutors(t, a); live[0] == lost || len(live) != 2 {
			t.Errorf("executors %v after the end of %s", live, lost)
		}

		// A job of another profile has executors of its own beside them.
		before := liveExecutors(t, a)
		a.BeginWithProfile(6, 2, "600m")
		waitLive(t, a, 2+3)
		changeLeader(t, c)
		waitCoresUsed(t, c, 5)
		a.End(6)
		checkProfile(t, c, a, before, "-Xmx600M")
		// The idle ones go, down to the least of each profile.
		waitLive(t, a, 4)
		waitCoresUsed(t, c, 4)
		checkExecutorIDs(t, a)
		a.Finish()
		waitCompleted(t, c, a.ID, "FINISHED")
		checkEachTaskOnce(t, a)
		waitCoresUsed(t, c, 0)
	})
}

// checkProfile demands that the tasks so far ran on executors that were not there
// before and were started with the heap.
func checkProfile(t *testing.T, c *Cluster, a *App, before []string, heap string) {
	t.Helper()
	for _, entry := range a.Entries() {
		for _, id := range before {
			if entry.Executor == id {
				t.Errorf("task %d ran on executor %s of the other profile", entry.Task, id)
			}
		}
		logs, err := filepath.Glob(filepath.Join(c.Dir(), "work", "*", a.ID, entry.Executor, "stderr"))
		if err != nil || len(logs) != 1 {
			t.Errorf("log of executor %s: %v (%v)", entry.Executor, logs, err)
			continue
		}
		if data, err := os.ReadFile(logs[0]); err != nil || !bytes.Contains(data, []byte(`"`+heap+`"`)) {
			t.Errorf("executor %s was not started with %s (%v)", entry.Executor, heap, err)
		}
	}
}

// GPU addresses that workers announce, one by a resources file and one by a
// discovery script, are given to executors and drivers, each to one at a time, and
// stay given through a failover; a replacement gets the address that became free.
func TestGPUAddresses_B061_B062(t *testing.T) {
	forNewest(t, func(t *testing.T, spark Spark) {
		needCompiler(t, spark)
		c, _ := newCluster(t, spark, restConf())
		byFile := c.StartWorker(WorkerOptions{Cores: 4, Conf: resourcesFile(t, c, "gpu", "f0", "f1")})
		byScript := c.StartWorker(WorkerOptions{Cores: 4, Conf: discoveryScript(t, c, "gpu", "s0", "s1")})
		byFile.WaitAlive()
		byScript.WaitAlive()
		conf := map[string]string{"spark.executor.resource.gpu.amount": "1", "spark.task.resource.gpu.amount": "1"}
		d := c.SubmitDriver(light(DriverOptions{AppOptions: AppOptions{Name: "gpudriver", Conf: map[string]string{"spark.driver.resource.gpu.amount": "1"}}}))
		driver := d.NextRun("")
		held := c.WorkerOf(c.WaitDriver(d.ID, "RUNNING").WorkerHostPort)
		a := c.StartApp(AppOptions{JVM: true, ExecutorCores: 1, Cores: 4, Conf: conf}).WaitStarted()
		waitExecutors(t, a, 3, 0) // the driver has the fourth
		a.Run(12, 0.3)
		want := []string{"f0", "f1", "s1"}
		if held == byFile {
			want = []string{"f1", "s0", "s1"}
		}
		checkAddresses(t, a, 0, want)

		changeLeader(t, c)
		seen := len(a.Entries())
		killExecutor(t, a.ID, liveExecutors(t, a)[0])
		waitExecutors(t, a, 4, 1)
		a.Run(12, 0.3)
		checkAddresses(t, a, seen, want)
		driver.FinishProgram()
		c.WaitDriver(d.ID, "FINISHED")
		waitExecutors(t, a, 5, 1) // the address of the driver is free
		seen = len(a.Entries())
		a.Run(16, 0.3)
		checkAddresses(t, a, seen, []string{"f0", "f1", "s0", "s1"})
		a.Finish()
		waitCompleted(t, c, a.ID, "FINISHED")
		waitCoresUsed(t, c, 0)
	})
}

// checkAddresses demands that the tasks noted after the first entries had exactly
// the addresses, each held by one executor.
func checkAddresses(t *testing.T, a *App, from int, want []string) {
	t.Helper()
	holders := map[string]string{}
	for _, entry := range a.Entries()[from:] {
		if len(entry.GPU) != 1 {
			t.Fatalf("task %d has the addresses %v", entry.Task, entry.GPU)
		}
		address := entry.GPU[0]
		if other, held := holders[address]; held && other != entry.Executor {
			t.Errorf("%s is given to executors %s and %s", address, other, entry.Executor)
		}
		holders[address] = entry.Executor
	}
	var got []string
	for address := range holders {
		got = append(got, address)
	}
	sort.Strings(got)
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("the executors have the addresses %v, want %v", got, want)
	}
}

// resourcesFile configures a worker by spark.worker.resourcesFile.
func resourcesFile(t *testing.T, c *Cluster, name string, addresses ...string) map[string]string {
	t.Helper()
	path := filepath.Join(c.Dir(), "conf", "resources.json")
	text := fmt.Sprintf(`[{"id": {"componentName": "spark.worker", "resourceName": %q}, "addresses": ["%s"]}]`, name, strings.Join(addresses, `", "`))
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return map[string]string{"spark.worker.resource." + name + ".amount": strconv.Itoa(len(addresses)), "spark.worker.resourcesFile": path}
}

// discoveryScript configures a worker by a script that prints its addresses.
func discoveryScript(t *testing.T, c *Cluster, name string, addresses ...string) map[string]string {
	t.Helper()
	path := filepath.Join(c.Dir(), "conf", "discover")
	text := fmt.Sprintf("#!/bin/sh\necho '{\"name\": \"%s\", \"addresses\": [\"%s\"]}'\n", name, strings.Join(addresses, `", "`))
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	return map[string]string{"spark.worker.resource." + name + ".amount": strconv.Itoa(len(addresses)), "spark.worker.resource." + name + ".discoveryScript": path}
}

// An application whose executors start and die at once is slowed down and ends as
// FAILED at the limit, whoever leads meanwhile. Spark's own master starts a new
// one for ever (G-44).
func TestCrashLoopEnds_B124_B125(t *testing.T) {
	forNewest(t, func(t *testing.T, spark Spark) {
		needCompiler(t, spark)
		const limit = 5
		c, _ := newCluster(t, spark, map[string]string{"spark.deploy.maxExecutorRetries": strconv.Itoa(limit)})
		w := c.StartWorkers(1, WorkerOptions{Cores: 1})[0]
		// The process starts, and its JVM ends with 1.
		a := c.StartApp(AppOptions{JVM: true, Cores: 1, Conf: map[string]string{"spark.executor.extraJavaOptions": "-agentlib:nosuchagent"}}).WaitStarted()
		launched := func(n int) {
			Eventually(t, startTimeout, fmt.Sprintf("%d launches", n), func() error {
				if got := w.Executors(); got < n {
					return fmt.Errorf("%d so far", got)
				}
				return nil
			})
		}
		if MasterKind(*mastersFlag) == KindSpark {
			launched(4 * limit)
			return
		}
		launched(3)
		changeLeader(t, c)
		waitCompleted(t, c, a.ID, "FAILED")
		waitLog(t, a.Process, `Application has been killed|Master removed our application`)
		time.Sleep(time.Second) // in which nothing more may be launched
		if n := w.Executors(); n != limit {
			t.Errorf("%d executors were launched, want %d", n, limit)
		}
		checkSums(t, c, 0)
		if !w.Running() {
			t.Error("the worker has ended")
		}
	})
}
