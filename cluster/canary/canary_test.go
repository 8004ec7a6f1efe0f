package canary

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

func alive(id, release string) *fakeWorker {
	return &fakeWorker{id: "worker-" + id, state: "ALIVE", cores: 4, release: release}
}

// try runs a canary with short patience.
func try(t *testing.T, c *fakeCluster, tune func(*Config)) (*Report, error) {
	t.Helper()
	cfg := Config{WebURLs: []string{c.web.URL}, Timeout: 20 * time.Second, Settle: 300 * time.Millisecond, StepTimeout: 5 * time.Second, Host: "127.0.0.1"}
	if tune != nil {
		tune(&cfg)
	}
	r, err := Run(t.Context(), cfg)
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.gone) != len(c.apps) {
		t.Errorf("%d of %d applications unregistered", len(c.gone), len(c.apps))
	}
	for _, a := range c.apps {
		if len(a.execs) != 0 || a.total != 0 {
			t.Errorf("%s is left with %d executors, and a total of %d", a.id, len(a.execs), a.total)
		}
	}
	return r, err
}

func outcomes(r *Report) string {
	var out []string
	for _, w := range r.Workers {
		out = append(out, strings.TrimPrefix(w.ID, "worker-")+"="+string(w.Outcome))
	}
	return strings.Join(out, " ")
}

// TestEveryWorkerOfEveryRelease: one application a release, one executor a worker, every step with its time.
func TestEveryWorkerOfEveryRelease(t *testing.T) {
	c := newCluster(t, true, alive("a:1", "4.3.0"), alive("b:1", "3.5.9"), alive("c:1", "4.3.1"), alive("d:1", "3.5.9"))
	r, err := try(t, c, nil)
	if err != nil || r.OK != 4 || len(r.Apps) != 2 || !r.Clean {
		t.Fatalf("%+v, %v", r, err)
	}
	for _, w := range r.Workers {
		var names []string
		sum := int64(0)
		for _, s := range w.Steps {
			names = append(names, s.Name)
			sum += s.Millis
		}
		// Which of the executors of one host asked for its configuration cannot be told when they come at once.
		names = slices.DeleteFunc(names, func(n string) bool { return n == StepConfig })
		if len(names) != 7 || names[0] != StepRegistered || names[6] != StepThreadDump || sum != w.TotalMillis {
			t.Errorf("%s: steps %q with %d of %d ms", w.ID, names, sum, w.TotalMillis)
		}
	}
	for _, w := range c.workers {
		if w.everLaunched != 1 {
			t.Errorf("%s ran %d executors", w.id, w.everLaunched)
		}
	}
}

// TestWorkersThatCannotBeReached: each says why; Spark's own master, whose /json knows no release.
func TestWorkersThatCannotBeReached(t *testing.T) {
	full, dead, hidden := alive("b:1", "4.3.0"), alive("c:1", "4.3.0"), alive("d:1", "4.3.0")
	full.used, dead.state, hidden.hidden = 4, "DEAD", true
	c := newCluster(t, false, alive("a:1", "4.3.0"), full, dead, hidden)
	r, err := try(t, c, nil)
	if err != nil || outcomes(r) != "a:1=ok b:1=not_reached c:1=not_reached d:1=not_reached" || !r.Clean {
		t.Fatalf("%s, %v", outcomes(r), err)
	}
	for i, want := range []string{"", "none of its 4 cores", "DEAD", "granted no executor"} {
		if got := r.Workers[i].Reason; !strings.Contains(got, want) || (got == "") != (want == "") {
			t.Errorf("%s: %q, want %q", r.Workers[i].ID, got, want)
		}
	}
}

func TestDrainedWorker(t *testing.T) {
	drained := alive("b:1", "4.3.0")
	drained.draining = true
	r, err := try(t, newCluster(t, true, alive("a:1", "4.3.0"), drained), nil)
	if err != nil || outcomes(r) != "a:1=ok b:1=not_reached" || !strings.Contains(r.Workers[1].Reason, "drained") {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestExecutorsOnWrongWorkers: a master that puts executors where they are not wanted is asked for more until the named
// worker has one; those too many are ended.
func TestExecutorsOnWrongWorkers(t *testing.T) {
	c := newCluster(t, true, alive("a:1", "4.3.0"), alive("b:1", "4.3.0"), alive("c:1", "4.3.0"))
	c.pick = func(free []*fakeWorker) *fakeWorker { return free[0] } // one worker after the other is filled
	r, err := try(t, c, func(cfg *Config) { cfg.Workers = []string{"c:1"} })
	if err != nil || outcomes(r) != "c:1=ok" || !r.Clean {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestMasterThatNeverSpreadsOut is given up within bounds.
func TestMasterThatNeverSpreadsOut(t *testing.T) {
	big := alive("a:1", "4.3.0")
	big.cores = 1000
	c := newCluster(t, true, big, alive("b:1", "4.3.0"))
	c.pick = func(free []*fakeWorker) *fakeWorker { return free[0] }
	r, err := try(t, c, nil)
	if err != nil || outcomes(r) != "a:1=ok b:1=not_reached" || !strings.Contains(r.Workers[1].Reason, "spreadOut") || !r.Clean {
		t.Errorf("%+v, %v", r, err)
	}
	if big.everLaunched > 4*2+16 {
		t.Errorf("%d executors", big.everLaunched)
	}
}

// TestExecutorsThatFail: the step, the reason and the end of the log are told, and the master is not left to launch others
// for ever.
func TestExecutorsThatFail(t *testing.T) {
	broken, silent := alive("b:1", "4.3.0"), alive("c:1", "4.3.0")
	broken.fails, broken.stderr, silent.silent = true, "java: command not found\n", true
	c := newCluster(t, true, alive("a:1", "4.3.0"), broken, silent)
	r, err := try(t, c, func(cfg *Config) { cfg.StepTimeout = 2 * time.Second })
	if err != nil || outcomes(r) != "a:1=ok b:1=failed c:1=failed" || !r.Clean {
		t.Fatalf("%+v, %v", r, err)
	}
	b, s := r.Workers[1], r.Workers[2]
	if b.Failed != StepConfig || !strings.Contains(b.Reason, "code 1") || b.Stderr != "java: command not found" {
		t.Errorf("broken: %+v", b)
	}
	if s.Failed != StepConfig || !strings.Contains(s.Reason, "no config_asked within 2s") {
		t.Errorf("silent: %+v", s)
	}
	if broken.everLaunched > 10 {
		t.Errorf("%d launches on the broken worker", broken.everLaunched)
	}
}

// TestInterrupted: an interrupted run leaves in order, and tells how far it came.
func TestInterrupted(t *testing.T) {
	silent := alive("a:1", "4.3.0")
	silent.silent = true
	c := newCluster(t, true, silent)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cfg := Config{WebURLs: []string{c.web.URL}, Host: "127.0.0.1", Progress: func(p Progress) {
		if strings.Contains(p.Text, "granted") {
			cancel()
		}
	}}
	r, err := Run(ctx, cfg)
	if !errors.Is(err, context.Canceled) || r == nil || outcomes(r) != "a:1=not_reached" || !strings.HasPrefix(r.Workers[0].Reason, "interrupted") || !r.Clean {
		t.Errorf("%+v, %v", r, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.gone) != 1 || len(c.apps["app-0"].execs) != 0 {
		t.Errorf("gone %v, executors %d", c.gone, len(c.apps["app-0"].execs))
	}
}

func TestTimeLimit(t *testing.T) {
	silent := alive("a:1", "4.3.0")
	silent.silent = true
	r, err := try(t, newCluster(t, true, silent), func(cfg *Config) { cfg.Timeout = time.Second })
	if err != nil || outcomes(r) != "a:1=failed" || !strings.Contains(r.Workers[0].Reason, "time limit") {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestLeftoversAreSeen: an executor that a worker still shows is named.
func TestLeftoversAreSeen(t *testing.T) {
	if testing.Short() {
		t.Skip("LEFT OUT under -short: this test looks for leftovers until patience is over")
	}
	w := alive("a:1", "4.3.0")
	w.left = true
	r, err := try(t, newCluster(t, true, w), nil)
	if err != nil || r.Clean || !strings.Contains(r.Left, "executor 99 of app-0 on worker-a:1") {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestRunsThatCannotBegin(t *testing.T) {
	c := newCluster(t, true, alive("a:1", "4.3.0"), alive("a:2", "4.3.0"))
	var invalid *InvalidError
	for name, tune := range map[string]func(*Config){
		"unknown worker": func(cfg *Config) { cfg.Workers = []string{"z"} },
		"which worker":   func(cfg *Config) { cfg.Workers = []string{"a"} },
		"memory":         func(cfg *Config) { cfg.MemoryMB = 100 },
		"release":        func(cfg *Config) { cfg.SparkVersion = "2.4.8" },
		"no web UI":      func(cfg *Config) { cfg.WebURLs = nil },
	} {
		if r, err := try(t, c, tune); r != nil || !errors.As(err, &invalid) {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
	var none *NoLeaderError
	if _, err := try(t, c, func(cfg *Config) { cfg.WebURLs = []string{"http://127.0.0.1:1"} }); !errors.As(err, &none) {
		t.Errorf("dead master: %v", err)
	}
	r, err := try(t, c, func(cfg *Config) { cfg.Host = "192.0.2.1" })
	if err == nil || r == nil || r.OK != 0 || !strings.Contains(r.Workers[0].Reason, "--host") {
		t.Errorf("an address of another machine: %+v, %v", r, err)
	}
}

// TestReplacedWorkersAreNotTried: after an upgrade masters remember the workers of before for a while; one whose address
// another worker has is none that fails. One that nobody replaced is.
func TestReplacedWorkersAreNotTried(t *testing.T) {
	r := &run{view: &view{workers: []workerView{
		{id: "worker-1-a:1", address: "a:1", state: "DEAD"}, {id: "worker-2-a:1", address: "a:1", state: "ALIVE"},
		{id: "worker-1-b:1", address: "b:1", state: "DEAD", note: "got disassociated"}, {id: "worker-1-b:1", address: "b:1", state: "DEAD"},
	}}}
	if err := r.choose(); err != nil {
		t.Fatal(err)
	}
	var tried []string
	for _, x := range r.trials {
		tried = append(tried, x.worker.id)
	}
	if got := strings.Join(tried, " "); got != "worker-2-a:1 worker-1-b:1 worker-1-b:1" {
		t.Errorf("tried %s", got)
	}
	if reason := r.unfit(r.trials[1].worker); reason != "it is DEAD: got disassociated" {
		t.Errorf("reason %q", reason)
	}
}
