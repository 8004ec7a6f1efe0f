package canary

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"raftmaster/cluster/submit"
)

// leaveTimeout bounds the leaving of one application, goneTimeout the look whether anything is left.
const (
	leaveTimeout = 30 * time.Second
	goneTimeout  = 15 * time.Second
)

// InvalidError says that a run cannot begin as it was asked for. Nothing was done.
type InvalidError struct{ What, Reason string }

// Error implements error.
func (e *InvalidError) Error() string { return e.What + ": " + e.Reason }

func (c *Config) setDefaults() error {
	if len(c.WebURLs) == 0 {
		return &InvalidError{"the web UIs of the masters", "none is given"}
	}
	if c.MemoryMB == 0 {
		c.MemoryMB = 512
	}
	// Spark refuses a smaller heap (memory/UnifiedMemoryManager.scala).
	if c.MemoryMB < 450 || c.MemoryMB > 1<<20 {
		return &InvalidError{fmt.Sprintf("memory of %d MiB", c.MemoryMB), "an executor needs 450 MiB at least"}
	}
	if c.SparkVersion != "" && !submit.Known(c.SparkVersion) {
		return &InvalidError{"Spark release " + strconv.Quote(c.SparkVersion), "give one from 3.2 to 4.3, such as 4.3.0"}
	}
	for _, d := range []struct {
		to    *time.Duration
		value time.Duration
	}{{&c.Timeout, 2 * time.Minute}, {&c.AskTimeout, 5 * time.Second}, {&c.StepTimeout, time.Minute}, {&c.Settle, 3 * time.Second}} {
		if *d.to == 0 {
			*d.to = d.value
		}
	}
	if c.Log == nil {
		c.Log = hclog.NewNullLogger()
	}
	return nil
}

// Run tries the workers and returns what it found. With a nil Report nothing was registered anywhere.
//
// For every Spark release among the workers one application is registered that wants as many executors of one core as
// there are workers to try. A master that spreads out gives each worker one. Where two land on one worker, or one on a
// worker that was not named, they stay for the moment, so that this worker has less room, and as many more are asked for,
// until every worker to try has had one, or the master grants no more for Config.Settle, or four times as many were granted
// as there are workers (a master with spark.deploy.spreadOut=false fills one worker after the other). Executors too many
// are ended as soon as they are of no use.
//
// Each application leaves in order, also when ctx ends: it gives up its executors, stops them, waits for their end and
// unregisters. Then the leader and the workers are asked whether anything is left. That takes at most 45 s.
func Run(ctx context.Context, cfg Config) (*Report, error) {
	if err := cfg.setDefaults(); err != nil {
		return nil, err
	}
	start := time.Now()
	w := newWeb(&cfg)
	v, err := w.load(ctx)
	if err != nil {
		return nil, err
	}
	r := &run{cfg: cfg, web: w, view: v}
	if len(cfg.Masters) == 0 {
		r.cfg.Masters = v.masters
	}
	if len(r.cfg.Masters) == 0 {
		return nil, &InvalidError{"the masters", "the web UI names none; give them"}
	}
	if err := r.choose(); err != nil {
		return nil, err
	}
	var missing []*workerView
	for i := range v.workers {
		missing = append(missing, &v.workers[i])
	}
	w.releases(ctx, missing)
	limited, cancel := context.WithTimeout(ctx, cfg.Timeout)
	defer cancel()
	r.tryAll(limited)
	report := r.report(ctx, start)
	if err := ctx.Err(); err != nil {
		return report, err
	}
	return report, r.failure
}

// run is one run.
type run struct {
	cfg  Config
	web  *web
	view *view

	mu      sync.Mutex // guards what follows while applications run
	trials  []*trial
	apps    []App
	left    []string // what could not be confirmed when applications left
	failure error    // why an application could not be registered
}

// trial is one worker that is tried.
type trial struct {
	worker *workerView
	result Worker
	done   bool
	// executor is the one that counts; -1 while there is none.
	executor int32
	dumping  bool
	granted  time.Time
}

// choose finds the workers to try.
func (r *run) choose() error {
	if len(r.cfg.Workers) == 0 {
		for i := range r.view.workers {
			if x := &r.view.workers[i]; !r.view.replaced(x) {
				r.add(x)
			}
		}
		if len(r.trials) == 0 {
			return &InvalidError{"the cluster", "it has no workers"}
		}
		return nil
	}
	for _, name := range r.cfg.Workers {
		x, err := r.view.find(name)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(r.trials, func(t *trial) bool { return t.worker == x }) {
			r.add(x)
		}
	}
	return nil
}

func (r *run) add(x *workerView) {
	r.trials = append(r.trials, &trial{worker: x, executor: -1, result: Worker{ID: x.id, Address: x.address, Steps: []Step{}}})
}

// replaced tells that a worker is only remembered: another one lives at its address. It is no worker that fails.
func (v *view) replaced(x *workerView) bool {
	return x.state == "DEAD" && slices.ContainsFunc(v.workers, func(other workerView) bool {
		return other.address == x.address && other.state != "DEAD"
	})
}

// find gives the worker of a name; of several that fit the one that lives.
func (v *view) find(name string) (*workerView, error) {
	var fit, alive []*workerView
	for i := range v.workers {
		x := &v.workers[i]
		if name == x.id || name == x.address || name == x.host {
			fit = append(fit, x)
			if x.state == "ALIVE" {
				alive = append(alive, x)
			}
		}
	}
	if len(alive) > 0 {
		fit = alive
	}
	switch len(fit) {
	case 1:
		return fit[0], nil
	case 0:
		return nil, &InvalidError{"worker " + strconv.Quote(name), "the leader knows none of that name; give its id or HOST:PORT"}
	}
	names := make([]string, len(fit))
	for i, x := range fit {
		names[i] = x.address
	}
	return nil, &InvalidError{"worker " + strconv.Quote(name), "it could be any of " + strings.Join(names, ", ")}
}

// tryAll runs one application for each release, all at once.
func (r *run) tryAll(ctx context.Context) {
	groups := map[string]*group{}
	for _, t := range r.trials {
		if t.worker.release == "" {
			t.worker.release = r.fallbackRelease(t.worker)
		}
		t.result.Release = t.worker.release
		if reason := r.unfit(t.worker); reason != "" {
			r.skip(t, reason)
			continue
		}
		line := majorMinor(t.worker.release)
		if groups[line] == nil {
			groups[line] = &group{run: r, release: t.worker.release, trials: map[string]*trial{}}
		}
		groups[line].trials[t.worker.id] = t
	}
	var wg sync.WaitGroup
	for _, g := range groups {
		wg.Go(func() { g.try(ctx) })
	}
	wg.Wait()
}

// fallbackRelease is for a worker that does not show its release: the release given, else one that its messages allow.
func (r *run) fallbackRelease(x *workerView) string {
	if r.cfg.SparkVersion != "" {
		return r.cfg.SparkVersion
	}
	return map[string]string{"A": "3.3.0", "B": "3.5.0", "C": "4.0.0", "E": "4.3.0"}[x.family]
}

// unfit says why no executor need be asked for on a worker; "" if one may come.
func (r *run) unfit(x *workerView) string {
	switch {
	case x.state != "ALIVE":
		if x.note != "" {
			return "it is " + x.state + ": " + x.note
		}
		return "it is " + x.state
	case x.draining:
		return "it is drained: new work is kept away (raftctl undrain " + x.id + ")"
	case x.coresFree < 1:
		return fmt.Sprintf("it is full: none of its %d cores is free", x.cores)
	case x.memoryFreeMB < r.cfg.MemoryMB:
		return fmt.Sprintf("it is full: %d of its %d MiB are free, and %d are needed", x.memoryFreeMB, x.memoryMB, r.cfg.MemoryMB)
	case x.release == "":
		return "its Spark release could not be found out (its web page cannot be read); name it with --spark-version"
	case !submit.Known(x.release):
		return "its Spark release " + x.release + " is none that is known here (3.2 to 4.3)"
	}
	return ""
}

func (r *run) skip(t *trial, reason string) {
	t.done, t.result.Outcome, t.result.Reason = true, Skipped, reason
	r.tell(t.worker.id, "not reached: %s", reason)
}

// tell reports progress. The caller may hold r.mu or not: counts are read from trials of the caller's own group.
func (r *run) tell(worker, format string, args ...any) {
	if r.cfg.Progress == nil {
		return
	}
	done := 0
	for _, t := range r.trials {
		if t.done {
			done++
		}
	}
	r.cfg.Progress(Progress{WorkerID: worker, Text: fmt.Sprintf(format, args...), Done: done, Total: len(r.trials)})
}

// report looks for leftovers and sums up.
func (r *run) report(ctx context.Context, start time.Time) *Report {
	rep := &Report{Leader: r.view.leader, Apps: r.apps, Workers: []Worker{}}
	if rep.Apps == nil {
		rep.Apps = []App{}
	}
	var ids []string
	for _, a := range r.apps {
		ids = append(ids, a.ID)
	}
	var touched []*workerView
	for _, t := range r.trials {
		if t.result.AppID != "" {
			touched = append(touched, t.worker)
		}
		switch t.result.Outcome {
		case OK:
			rep.OK++
		case Failed:
			rep.Failed++
		default:
			rep.Skipped++
		}
		rep.Workers = append(rep.Workers, t.result)
	}
	if len(ids) > 0 {
		look, cancel := context.WithTimeout(context.WithoutCancel(ctx), goneTimeout)
		defer cancel()
		r.tell("", "looking whether anything is left")
		if left := r.web.untilGone(look, ids, touched, goneTimeout*2/3); left != "" {
			rep.Left = strings.Join(append(r.left, left), "; ")
		}
	}
	rep.Clean = rep.Left == ""
	rep.Millis = time.Since(start).Milliseconds()
	return rep
}

// versionServer tells raftmaster the release of an application, as a driver's UI does.
type versionServer struct {
	url string
	srv *http.Server
	wg  sync.WaitGroup
}

func serveVersion(host, release string, log hclog.Logger) (*versionServer, error) {
	ln, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v1/version", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if _, err := fmt.Fprintf(w, `{"spark":%q}`, release); err != nil {
			log.Debug("the release could not be told", "error", err)
		}
	})
	v := &versionServer{url: "http://" + ln.Addr().String(), srv: &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: 5 * time.Second}}
	v.wg.Go(func() {
		if err := v.srv.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
			log.Warn("serving the release ended", "error", err)
		}
	})
	return v, nil
}

func (v *versionServer) close() {
	_ = v.srv.Close() // the listener's error tells nothing that matters now
	v.wg.Wait()
}

// majorMinor cuts a release down: 4.3.0 and 4.3.1 are one line.
func majorMinor(release string) string {
	parts := strings.SplitN(release, ".", 3)
	if len(parts) < 2 {
		return release
	}
	return parts[0] + "." + parts[1]
}
