package clustertest

import (
	"flag"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var (
	seedsFlag    = flag.Int("seeds", 0, "number of simulated clusters; 0 means 380, or 38 with -short")
	seedFlag     = flag.Uint64("seed", 0, "first seed")
	scenarioFlag = flag.String("scenario", "", "run this scenario with every seed instead of all in turn")
	allFlag      = flag.Bool("all", false, "report every failed seed, not only three")
	linesFlag    = flag.Int("lines", 60, "lines of trace that a failure prints; -1 means all that are kept")
)

// optionsOf gives the options of a seed under the flags.
func optionsOf(seed uint64) Options {
	if *scenarioFlag != "" {
		return ScenarioOptions(*scenarioFlag, seed)
	}
	return OptionsFor(seed)
}

// TestSimulation runs seeds on all processors and reports those that fail.
func TestSimulation(t *testing.T) {
	n := *seedsFlag
	if n == 0 {
		n = 380
		if testing.Short() {
			n = 38
		}
	}
	start := time.Now()
	var next atomic.Uint64
	var mu sync.Mutex
	var failed []uint64
	var events, commands int
	var longest time.Duration
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for {
				i := next.Add(1) - 1
				if i >= uint64(n) {
					return
				}
				seed := *seedFlag + i
				r := NewSim(seed, optionsOf(seed), false).Run()
				mu.Lock()
				events += r.Events
				commands += r.Commands
				longest = max(longest, r.Settled)
				if r.Err != nil {
					failed = append(failed, seed)
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	took := time.Since(start)
	t.Logf("%d seeds in %v: %.0f a minute; %d events, %d commands, longest settling %v",
		n, took.Round(time.Millisecond), float64(n)/took.Minutes(), events, commands, longest)
	for i, seed := range failed {
		if i == 3 && !*allFlag {
			t.Errorf("and %d more: %v", len(failed)-i, failed[i:])
			break
		}
		reportSeed(t, seed)
	}
}

// reportSeed runs a failed seed again with its trace.
func reportSeed(t *testing.T, seed uint64) {
	t.Helper()
	opt := optionsOf(seed)
	r := NewSim(seed, opt, true).Run()
	t.Errorf("seed %d (%s): %v\noptions: %v\nlast events:\n%s\nrun again: go test ./cluster/clustertest -run TestSimulation -seeds 1 -seed %d%s -lines -1",
		seed, opt.Scenario, r.Err, opt, tail(r.Trace, *linesFlag), seed, scenarioArgument())
}

func scenarioArgument() string {
	if *scenarioFlag == "" {
		return ""
	}
	return " -scenario " + *scenarioFlag
}

func tail(text string, n int) string {
	lines := strings.Split(text, "\n")
	if n >= 0 && len(lines) > n {
		lines = lines[len(lines)-n:]
	}
	return strings.Join(lines, "\n")
}

// TestSameSeedSameRun: a failure must come again, whatever the machine is doing.
func TestSameSeedSameRun(t *testing.T) {
	for seed := range uint64(len(Scenarios)) {
		if testing.Short() && seed%2 == 1 {
			continue
		}
		opt := OptionsFor(seed)
		a, b := NewSim(seed, opt, true).Run(), NewSim(seed, opt, true).Run()
		if a.Trace != b.Trace || a.Events != b.Events {
			t.Errorf("seed %d (%s) ran differently: %d and %d events\n%s", seed, opt.Scenario, a.Events, b.Events, firstDifference(a.Trace, b.Trace))
		}
	}
}

func firstDifference(a, b string) string {
	x, y := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range min(len(x), len(y)) {
		if x[i] != y[i] {
			return fmt.Sprintf("line %d:\n%s\n%s", i, x[i], y[i])
		}
	}
	return "one is longer"
}
