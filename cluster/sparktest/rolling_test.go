package sparktest

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"raftmaster/cluster/drill"
)

var (
	drillSeedFlag   = flag.Uint("drill-seed", 0, "seed of the random drills; 0: a random one, which is printed")
	drillResultFlag = flag.String("drill-results", "", "directory for the report of the random drills; \"\": none is written")
)

// Rounds without and with -long.
const (
	ciRestartRounds, longRestartRounds = 3, 20
	ciDrills, longDrills               = 5, 100
)

func rounds(ci, long int) int {
	if *longFlag {
		return long
	}
	return ci
}

// quorumSampler looks at all masters, again and again, until it is stopped.
type quorumSampler struct {
	stop           chan struct{}
	done           sync.WaitGroup
	samples, alone atomic.Int64 // looks at one master that answered; how many answered at the worst moment
	mu             sync.Mutex
	wrong          []string
}

func sampleQuorum(c *Cluster) *quorumSampler {
	s := &quorumSampler{stop: make(chan struct{})}
	s.alone.Store(int64(len(c.masters)))
	s.done.Go(func() {
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-s.stop:
				return
			case <-tick.C:
			}
			s.look(c)
		}
	})
	return s
}

// look: whoever answers has three voters in its configuration, and at most one master is away.
func (s *quorumSampler) look(c *Cluster) {
	answered := int64(0)
	for _, m := range c.masters {
		st, err := m.Status()
		if err != nil {
			continue
		}
		answered++
		s.samples.Add(1)
		// A process that has just started has read its log, but knows no configuration before it is replayed.
		if v := st.Quorum.Voters; v != len(c.masters) && v != 0 {
			s.complain(fmt.Sprintf("%s has %d voters in term %d", m.Name(), v, st.Term))
		}
	}
	if answered < s.alone.Load() {
		s.alone.Store(answered)
	}
	if answered < int64(len(c.masters)/2+1) {
		s.complain(fmt.Sprintf("only %d masters answer", answered))
	}
}

func (s *quorumSampler) complain(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.wrong) < 20 {
		s.wrong = append(s.wrong, text)
	}
}

// end stops the sampling and reports.
func (s *quorumSampler) end(t *testing.T) {
	t.Helper()
	close(s.stop)
	s.done.Wait()
	t.Logf("%d looks at masters; at the worst moment %d of them answered", s.samples.Load(), s.alone.Load())
	for _, text := range s.wrong {
		t.Error(text)
	}
	if s.samples.Load() == 0 {
		t.Error("no master was looked at")
	}
}

// R06: every master is restarted, one after the other, round after round, under a job that never pauses: no executor is lost, and
// the configuration has three voters at every moment.
func TestRollingRestartTwentyRounds_R06(t *testing.T) {
	needSeveralMasters(t)
	forNewest(t, func(t *testing.T, spark Spark) {
		c, _ := newCluster(t, spark, nil)
		workers := c.StartWorkers(2, WorkerOptions{})
		a := c.StartApp(AppOptions{Cores: 2, ExecutorCores: 1}).WaitStarted()
		waitExecutors(t, a, 2, 0)
		s := sampleQuorum(c)
		began, count := time.Now(), rounds(ciRestartRounds, longRestartRounds)
		for round := range count {
			a.Begin(6, 0.5)
			for _, m := range c.masters {
				if code := m.Stop(); code != 0 {
					t.Errorf("round %d: %s ends with %d", round+1, m.Name(), code)
				}
				m.Start()
				waitFollowing(t, c, m)
			}
			waitAttached(t, c.WaitLeader())
			a.End(6)
		}
		t.Logf("%d rounds, %d restarts in %v", count, count*len(c.masters), time.Since(began).Round(time.Second))
		s.end(t)
		a.Finish()
		waitCompleted(t, c, a.ID, "FINISHED")
		checkUndisturbed(t, a, 2, workers...)
		waitCoresUsed(t, c, 0)
	})
}

// supervise starts masters again whenever they end, as systemd does, until the returned function is called. Nobody else may start
// or stop them meanwhile.
func supervise(t *testing.T, c *Cluster) (end func()) {
	t.Helper()
	stop := make(chan struct{})
	var done sync.WaitGroup
	done.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(100 * time.Millisecond):
			}
			for _, m := range c.masters {
				if m.Running() {
					continue
				}
				if err := m.startRaft(); err != nil {
					t.Errorf("%s is not started again: %v", m.Name(), err)
					return
				}
			}
		}
	})
	return func() { close(stop); done.Wait() }
}

// TestRandomDrills: drills of random kinds at random masters, in a row, with real executors: the
// invariants hold after each.
func TestRandomDrills(t *testing.T) {
	needSeveralMasters(t)
	skipShort(t)
	list := releases()
	spark := install(t, list[len(list)-1])
	seed := uint32(*drillSeedFlag)
	if seed == 0 {
		seed = rand.Uint32()
	}
	count := rounds(ciDrills, longDrills)
	t.Logf("%d random drills with seed %d (flag -drill-seed)", count, seed)
	c := NewCluster(t, Options{Kind: KindRaft, Workers: WorkerKind(*workersFlag), Spark: spark, MasterArgs: []string{"--enable-drills"}})
	c.StartMasters()
	workers := c.StartWorkers(2, WorkerOptions{})
	a := c.StartApp(AppOptions{Cores: 2, ExecutorCores: 1}).WaitStarted()
	waitExecutors(t, a, 2, 0)
	end := supervise(t, c)
	defer end()

	var r drill.Report
	code, err := c.RaftctlWithin(time.Duration(count)*2*time.Minute, &r, "drill", "all", "--random", "--seed", fmt.Sprint(seed), "--repeat", fmt.Sprint(count), "--duration", "2s",
		"--between", "200ms", "--no-history", "--probe-host", c.ClientHost(0), "--yes")
	if err != nil {
		t.Fatalf("raftctl ends with %d: %v", code, err)
	}
	if *drillResultFlag != "" {
		writeDrills(t, r)
	}
	for _, p := range r.Percentiles {
		t.Logf("%-16s %-20s n=%-3d min %5d  median %5d  p95 %5d  max %5d ms", p.Kind, p.Step, p.Count, p.Min, p.Median, p.P95, p.Max)
	}
	for _, d := range r.Rounds {
		if d.Outcome != drill.Passed {
			b, _ := json.MarshalIndent(d, "", " ")
			t.Errorf("round %d of seed %d: %s", d.Number, seed, b)
		}
	}
	if code != 0 || r.Outcome != drill.Passed || len(r.Rounds) != count || r.Seed != uint64(seed) {
		t.Errorf("exit code %d, outcome %s, %d rounds, seed %d, problems %q, preflight %+v", code, r.Outcome, len(r.Rounds), r.Seed, r.Problems, r.Preflight)
	}
	a.Run(4, 0.1)
	a.Finish()
	waitCompleted(t, c, a.ID, "FINISHED")
	checkUndisturbed(t, a, 2, workers...)
}

// writeDrills keeps the report without its timelines: what was done, how long it took, and whether anything was lost.
func writeDrills(t *testing.T, r drill.Report) {
	t.Helper()
	for i := range r.Rounds {
		r.Rounds[i].Timeline, r.Rounds[i].ProbeApps = nil, nil
	}
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprintf("%s-drills-%d.json", time.UnixMilli(r.StartedMillis).UTC().Format("2006-01-02T150405Z"), r.Seed)
	if err := os.WriteFile(filepath.Join(*drillResultFlag, name), append(b, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
}
