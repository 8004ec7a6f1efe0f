package sparktest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

var (
	mastersFlag = flag.String("masters", string(KindRaft),
		"masters under test: raftmaster, or spark to check the tests against Spark's own master")
	workersFlag = flag.String("workers", string(WorkerSpark),
		"workers of the tests that do not say whose they mean: spark, or raftmaster to run them with ours")
	longFlag = flag.Bool("long", false, "run the tests that take minutes as well")
	allFlag  = flag.Bool("all-releases", false, "run the tests with every supported line of Spark as well")
	raceFlag = flag.Bool("race-masters", false, "build the masters under test with the race detector")
)

// defaultReleases are the oldest and the newest supported line; see ReleasesEnv.
const defaultReleases = "3.5.9 4.3.0"

// releasesEnv chooses the Spark releases of the tests, separated by spaces.
const releasesEnv = "RAFTMASTER_SPARK_RELEASES"

func TestMain(m *testing.M) {
	flag.Parse()
	RaceMasters, QuickJVMs = *raceFlag, true
	code := m.Run()
	if err := RemoveBinaries(); err != nil {
		fmt.Fprintln(os.Stderr, "binaries under test:", err)
		code = max(code, 1)
	}
	if testing.Short() {
		fmt.Println("LEFT OUT: every test with real Spark (cluster/sparktest), because of -short")
	} else {
		if !*longFlag {
			fmt.Println("LEFT OUT: the long tests with real Spark (cluster/sparktest); flag -long runs them")
		}
		if !*allFlag {
			fmt.Println("LEFT OUT: the other releases of Spark (cluster/sparktest); flag -all-releases runs them")
		}
	}
	os.Exit(code)
}

func releases() []string {
	if list := releasesFromEnv(); len(list) > 0 {
		return list
	}
	return strings.Fields(defaultReleases)
}

func releasesFromEnv() []string { return strings.Fields(os.Getenv(releasesEnv)) }

func install(t *testing.T, release string) Spark {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	spark, err := Install(ctx, release, t.Logf)
	if err != nil {
		t.Fatalf("Spark %s: %v", release, err)
	}
	return spark
}

// forReleases runs the test once for each Spark release. Tests of this package
// do not run in parallel: each starts several JVMs.
func forReleases(t *testing.T, test func(t *testing.T, spark Spark)) {
	t.Helper()
	skipShort(t)
	for _, release := range releases() {
		t.Run(release, func(t *testing.T) { test(t, install(t, release)) })
	}
}

// forNewest is forReleases for what hardly depends on the release: the others have
// their turn with -long only.
func forNewest(t *testing.T, test func(t *testing.T, spark Spark)) {
	t.Helper()
	skipShort(t)
	list := releases()
	for i, release := range list {
		t.Run(release, func(t *testing.T) {
			if i < len(list)-1 && !*longFlag {
				t.Skip("LEFT OUT without -long: this test runs with the newest release only")
			}
			test(t, install(t, release))
		})
	}
}

func skipShort(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("LEFT OUT under -short: this test starts real Spark")
	}
}

func skipUnlessLong(t *testing.T) {
	t.Helper()
	if !*longFlag {
		t.Skip("LEFT OUT without -long: this test takes minutes")
	}
}

// needCompiler leaves the test out where there is no javac, and builds the jar.
func needCompiler(t *testing.T, spark Spark) string {
	t.Helper()
	jar, err := ControlJar(spark)
	if errors.Is(err, ErrNoCompiler) {
		t.Skipf("LEFT OUT: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return jar
}

// newCluster starts the masters of the chosen kind and waits for their leader.
func newCluster(t *testing.T, spark Spark, conf map[string]string) (*Cluster, *Master) {
	t.Helper()
	c := NewCluster(t, Options{Kind: MasterKind(*mastersFlag), Workers: WorkerKind(*workersFlag), Spark: spark, Conf: conf})
	return c, c.StartMasters()
}

// needSeveralMasters leaves the test out when the masters are Spark's own.
func needSeveralMasters(t *testing.T) {
	t.Helper()
	if MasterKind(*mastersFlag) != KindRaft {
		t.Skip("LEFT OUT with -masters=spark: Spark's own master has no standby without ZooKeeper")
	}
}

// program is an application or a cluster-mode driver.
type program interface{ session() *Session }

// checkEachTaskOnce fails when a task has begun or ended other than once.
func checkEachTaskOnce(t *testing.T, a program) {
	t.Helper()
	s := a.session()
	begun, ended, executors := s.TaskRuns()
	if len(begun) != s.next {
		t.Errorf("%s ran %d different tasks, want %d", s.label, len(begun), s.next)
	}
	for task := range s.next {
		if begun[task] != 1 || ended[task] != 1 {
			t.Errorf("%s: task %d began %d times and ended %d times, on %v", s.label, task, begun[task], ended[task], executors[task])
		}
	}
}

// checkExecutorIDs fails when the application has met one executor id twice, and
// returns what it has seen.
func checkExecutorIDs(t *testing.T, a program) History {
	t.Helper()
	h, err := a.session().History()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, id := range h.ExecutorsAdded {
		if seen[id] {
			t.Errorf("%s met executor id %s twice: %v", a.session().label, id, h.ExecutorsAdded)
		}
		seen[id] = true
	}
	return h
}

// checkUndisturbed is the closing check after failovers: the application lost no
// executor and repeated no task, and no worker has ended or started anything new.
func checkUndisturbed(t *testing.T, a program, wantExecutors int, workers ...*Worker) {
	t.Helper()
	checkEachTaskOnce(t, a)
	h := checkExecutorIDs(t, a)
	if len(h.ExecutorsAdded) != wantExecutors || len(h.ExecutorsRemoved) != 0 {
		t.Errorf("%s: executors added %v, removed %v; want %d and none", a.session().label, h.ExecutorsAdded, h.ExecutorsRemoved, wantExecutors)
	}
	if h.Retries != 0 || len(h.FailedTasks) != 0 {
		t.Errorf("%s: %d task attempts were repeated, failed: %v", a.session().label, h.Retries, h.FailedTasks)
	}
	launched := 0
	for _, w := range workers {
		launched += w.Executors()
		if !w.Running() {
			t.Errorf("%s has ended", w.Name)
		}
	}
	if len(workers) > 0 && launched != wantExecutors {
		t.Errorf("the workers were asked to launch %d executors, want %d", launched, wantExecutors)
	}
}

// waitExecutors waits until the application has seen that many executors join
// and that many go.
func waitExecutors(t *testing.T, a program, added, removed int) {
	t.Helper()
	Eventually(t, startTimeout, fmt.Sprintf("%s: %d executors added, %d removed", a.session().label, added, removed), func() error {
		h, err := a.session().History()
		if err != nil {
			return err
		}
		if len(h.ExecutorsAdded) != added || len(h.ExecutorsRemoved) != removed {
			return fmt.Errorf("added %v, removed %v", h.ExecutorsAdded, h.ExecutorsRemoved)
		}
		return nil
	})
}

// waitLive waits until the application has exactly that many executors. Others
// may have been written off before they could join.
func waitLive(t *testing.T, a program, n int) {
	t.Helper()
	Eventually(t, startTimeout, fmt.Sprintf("%s: %d live executors", a.session().label, n), func() error {
		h, err := a.session().History()
		if err != nil {
			return err
		}
		live := 0
		for _, id := range h.ExecutorsAdded {
			if _, gone := h.ExecutorsRemoved[id]; !gone {
				live++
			}
		}
		if live != n {
			return fmt.Errorf("added %v, removed %v", h.ExecutorsAdded, h.ExecutorsRemoved)
		}
		return nil
	})
}

// waitCoresUsed waits until the leader books exactly that many cores.
func waitCoresUsed(t *testing.T, c *Cluster, n int) {
	t.Helper()
	c.WaitState(startTimeout, fmt.Sprintf("%d cores in use", n), func(s State) error {
		if s.CoresUsed != n {
			return fmt.Errorf("%d cores in use: %+v", s.CoresUsed, s.Workers)
		}
		return nil
	})
}

// waitCompleted waits until the leader lists the application as completed in the
// given state.
func waitCompleted(t *testing.T, c *Cluster, id, state string) {
	t.Helper()
	c.WaitState(startTimeout, id+" "+state, func(s State) error {
		for _, a := range s.CompletedApps {
			if a.ID == id && a.State == state {
				return nil
			}
		}
		return fmt.Errorf("active %+v, completed %+v", s.ActiveApps, s.CompletedApps)
	})
}
