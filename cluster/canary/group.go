package canary

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	"raftmaster/cluster/app"
	"raftmaster/cluster/submit"
)

const (
	// tick is how often an application's executors are looked at.
	tick = 50 * time.Millisecond
	// dumpTimeout bounds a thread dump: healthy executors give one within half a second.
	dumpTimeout = 20 * time.Second
	// asksAtOnce bounds thread dumps and log pages that are asked for at once.
	asksAtOnce = 16
)

// group is the application for the workers of one release.
type group struct {
	run     *run
	release string
	trials  map[string]*trial // by worker id

	app   *app.App
	start time.Time
	// total is what was asked for last, limit the most that may ever be granted.
	total, limit int
	extra        map[int32]bool // executors that are of no use where they are; false: they have been ended
	granted      int            // executors seen
	lastGrant    time.Time
	gaveUp       bool // no more is asked for

	asks  sync.WaitGroup
	slots chan struct{}
	// wake is told of the end of an executor: until the total is lowered the master starts another one.
	wake chan struct{}
}

// try registers, follows the executors, and leaves.
func (g *group) try(ctx context.Context) {
	g.extra, g.slots, g.wake = map[int32]bool{}, make(chan struct{}, asksAtOnce), make(chan struct{}, 1)
	host := g.run.cfg.Host
	if host == "" {
		var err error
		if host, err = submit.Outgoing(g.run.cfg.Masters[0]); err != nil {
			g.refuse(fmt.Errorf("no way to %s: %w", g.run.cfg.Masters[0], err))
			return
		}
	}
	version, err := serveVersion(host, g.release, g.run.cfg.Log)
	if err != nil {
		g.refuse(fmt.Errorf("cannot listen on %s, where executors would look for the canary; name an address of this machine with --host: %w", host, err))
		return
	}
	defer version.close()
	wanted := int32(len(g.trials))
	g.total, g.limit = len(g.trials), 4*len(g.run.view.workers)+16
	g.app, err = app.New(app.Config{Masters: g.run.cfg.Masters, Release: g.release, Host: host, Name: "raftctl canary", User: "canary", UIURL: version.url,
		MemoryMB: int32(g.run.cfg.MemoryMB), MaxCores: int32(g.limit), InitialExecutors: &wanted,
		Timers: app.Timers{Ask: 10 * time.Second, Leave: leaveTimeout}, Events: g.event, Log: g.run.cfg.Log.Named("app")})
	if err != nil {
		g.refuse(err)
		return
	}
	g.start = time.Now()
	if err := g.app.Start(ctx); err != nil {
		g.app.Close()
		g.refuse(err)
		return
	}
	g.registered()
	g.follow(ctx)
	g.leave(ctx)
}

func (g *group) event(e app.Event) {
	if e.Kind == app.EventExecutorEnded {
		select {
		case g.wake <- struct{}{}:
		default:
		}
	}
}

// refuse ends the group before anything was registered.
func (g *group) refuse(err error) {
	g.run.mu.Lock()
	defer g.run.mu.Unlock()
	for _, t := range g.trials {
		t.done, t.result.Outcome, t.result.Failed = true, Failed, StepRegistered
		t.result.Reason = "the application for Spark " + g.release + " could not be registered: " + err.Error()
	}
	g.run.failure = errors.Join(g.run.failure, err)
	g.run.tell("", "Spark %s: %v", g.release, err)
}

func (g *group) registered() {
	g.lastGrant = time.Now()
	g.run.mu.Lock()
	defer g.run.mu.Unlock()
	millis := time.Since(g.start).Milliseconds()
	g.run.apps = append(g.run.apps, App{ID: g.app.ID(), Release: g.release, RegisteredMillis: millis})
	g.run.tell("", "%s is registered for Spark %s; %d executors are asked for", g.app.ID(), g.release, g.total)
}

// leave takes the application out of the cluster, whatever became of ctx.
func (g *group) leave(ctx context.Context) {
	g.run.mu.Lock()
	g.run.tell("", "%s leaves", g.app.ID())
	g.run.mu.Unlock()
	out, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout)
	defer cancel()
	if err := g.app.Stop(out); err != nil {
		g.run.mu.Lock()
		defer g.run.mu.Unlock()
		g.run.left = append(g.run.left, err.Error())
	}
}

// follow looks at the executors until every worker's trial has ended.
func (g *group) follow(ctx context.Context) {
	defer g.asks.Wait()
	t := time.NewTicker(tick)
	defer t.Stop()
	for {
		if g.look(ctx) {
			return
		}
		select {
		case <-t.C:
		case <-g.wake:
		case <-g.app.Done():
			g.endAll("the application was ended by the master: " + fmt.Sprint(g.app.Err()))
			return
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				g.endAll("the time limit of " + g.run.cfg.Timeout.String() + " was over")
			} else {
				g.interrupt()
			}
			return
		}
	}
}

// look takes in what the executors have reached, and asks for what is missing. True: all trials have ended.
func (g *group) look(ctx context.Context) bool {
	executors := g.app.Driver().Executors()
	g.run.mu.Lock()
	defer g.run.mu.Unlock()
	if len(executors) > g.granted {
		g.granted, g.lastGrant = len(executors), time.Now()
	}
	for i := range executors {
		g.assign(&executors[i])
	}
	missing, open := 0, 0
	for _, t := range g.trials {
		switch {
		case t.done:
			continue
		case t.executor < 0:
			missing++
		default:
			g.advance(ctx, t, executors)
		}
		if !t.done {
			open++
		}
	}
	if open == 0 {
		return true
	}
	g.balance(ctx, executors, missing)
	return false
}

// assign gives an executor that is seen for the first time to the trial of its worker, or counts it as extra.
func (g *group) assign(e *app.Executor) {
	if e.WorkerID == "" {
		return
	}
	t := g.trials[e.WorkerID]
	if t != nil && t.executor == e.ID {
		return
	}
	if _, known := g.extra[e.ID]; known {
		return
	}
	if t == nil || t.executor >= 0 || t.done {
		g.extra[e.ID] = true
		return
	}
	t.executor, t.granted = e.ID, time.Now()
	t.result.AppID, t.result.ExecutorID = g.app.ID(), strconv.Itoa(int(e.ID))
	g.run.tell(e.WorkerID, "executor %d is granted", e.ID)
}

// advance looks at the executor of a trial.
func (g *group) advance(ctx context.Context, t *trial, executors []app.Executor) {
	i := sort.Search(len(executors), func(i int) bool { return executors[i].ID >= t.executor })
	if i == len(executors) || executors[i].ID != t.executor {
		return
	}
	e := &executors[i]
	before := len(t.result.Steps)
	g.record(t, e, time.Time{})
	if n := len(t.result.Steps); n > before {
		g.run.tell(t.worker.id, "%s", t.result.Steps[n-1].Name)
	}
	switch {
	case !e.Ended.IsZero():
		g.fail(ctx, t, e, ended(e))
	case e.Reached(app.StepLaunched) && !t.dumping:
		t.dumping = true
		g.asks.Go(func() { g.dump(ctx, t) })
	case !t.dumping && time.Since(t.granted) > g.run.cfg.StepTimeout:
		g.fail(ctx, t, e, fmt.Sprintf("no %s within %v of the grant", stepName(e.Next()), g.run.cfg.StepTimeout))
	}
}

// ended says how an executor ended.
func ended(e *app.Executor) string {
	text := "the executor ended as " + e.State.String()
	if e.Failure != nil && e.Failure.Reason != "" {
		text = "the executor ended: " + e.Failure.Reason
	}
	if status := "exit status"; e.ExitStatus != nil && !strings.Contains(text, status) {
		text += fmt.Sprintf(" (%s %d)", status, *e.ExitStatus)
	}
	return text
}

// dump asks for the thread dump, which ends a trial.
func (g *group) dump(ctx context.Context, t *trial) {
	g.slots <- struct{}{}
	defer func() { <-g.slots }()
	limited, cancel := context.WithTimeout(ctx, dumpTimeout)
	defer cancel()
	threads, err := g.app.Driver().ThreadDump(limited, t.executor)
	e, _ := g.app.Driver().Executor(t.executor)
	at := time.Now()
	g.run.mu.Lock()
	defer g.run.mu.Unlock()
	if t.done || ctx.Err() != nil {
		return
	}
	if err == nil && len(threads.Threads) == 0 {
		err = errors.New("it names no thread")
	}
	if err != nil {
		g.record(t, &e, time.Time{})
		t.result.Failed = StepThreadDump
		g.fail(ctx, t, &e, "no thread dump: "+err.Error())
		return
	}
	g.record(t, &e, at)
	t.done, t.result.Outcome = true, OK
	g.run.tell(t.worker.id, "ok after %d ms, %d threads", t.result.TotalMillis, len(threads.Threads))
}

// record writes down the steps that were reached. dumped is when the thread dump came, zero before.
func (g *group) record(t *trial, e *app.Executor, dumped time.Time) {
	type at struct {
		name string
		when time.Time
	}
	steps := []at{}
	for s := app.StepGranted; s <= app.StepLaunched; s++ {
		if e.Reached(s) {
			steps = append(steps, at{stepName(s), e.Times[s]})
		}
	}
	if !dumped.IsZero() {
		steps = append(steps, at{StepThreadDump, dumped})
	}
	sort.SliceStable(steps, func(i, k int) bool { return steps[i].when.Before(steps[k].when) })
	var registered int64
	for _, a := range g.run.apps {
		if a.ID == g.app.ID() {
			registered = a.RegisteredMillis
		}
	}
	out := []Step{{Name: StepRegistered, Millis: registered, AtMillis: registered}}
	last := registered
	for _, s := range steps {
		// The grant may arrive with the answer to the registration.
		now := max(last, s.when.Sub(g.start).Milliseconds())
		out = append(out, Step{Name: s.name, Millis: now - last, AtMillis: now})
		last = now
	}
	t.result.Steps, t.result.TotalMillis = out, last
}

var stepNames = map[app.Step]string{app.StepGranted: StepGranted, app.StepLaunching: StepLaunching, app.StepRunning: StepRunning, app.StepConfigAsked: StepConfig,
	app.StepRegistered: StepDriver, app.StepBlockManager: StepBlockManager, app.StepLaunched: StepLaunched}

func stepName(s app.Step) string {
	if name, ok := stepNames[s]; ok {
		return name
	}
	return StepThreadDump
}

// fail ends a trial. What the executor wrote is fetched behind it.
func (g *group) fail(ctx context.Context, t *trial, e *app.Executor, reason string) {
	t.done, t.result.Outcome, t.result.Reason = true, Failed, reason
	if t.result.Failed == "" {
		t.result.Failed = stepName(e.Next())
	}
	g.extra[t.executor] = e.Ended.IsZero() // whatever is left of it is of no use
	g.run.tell(t.worker.id, "failed: %s", reason)
	g.asks.Go(func() {
		g.slots <- struct{}{}
		defer func() { <-g.slots }()
		text := g.run.web.stderr(context.WithoutCancel(ctx), t.worker, t.result.AppID, t.executor)
		g.run.mu.Lock()
		defer g.run.mu.Unlock()
		t.result.Stderr = text
	})
}

// balance sets the total and ends executors that are of no use.
func (g *group) balance(ctx context.Context, executors []app.Executor, missing int) {
	if missing > 0 && !g.gaveUp && time.Since(g.lastGrant) > g.run.cfg.Settle {
		g.giveUp(ctx)
		missing = 0
	}
	if missing > 0 && g.granted >= g.limit {
		g.gaveUp = true
		for _, t := range g.trials {
			if !t.done && t.executor < 0 {
				g.run.skip(t, fmt.Sprintf("the master put %d executors on other workers; it fills one after the other when spark.deploy.spreadOut is false", g.granted))
			}
		}
		missing = 0
	}
	want, useless := 0, []int32{}
	for i := range executors {
		e := &executors[i]
		if !e.Ended.IsZero() {
			continue
		}
		t := g.trials[e.WorkerID]
		alive, extra := g.extra[e.ID]
		switch {
		case extra && !alive: // its end was asked for
		case extra && (missing == 0 || t != nil && t.result.Outcome == Failed):
			useless = append(useless, e.ID)
		default:
			want++
		}
	}
	if want += missing; want != g.total {
		if g.ask(ctx, "executors could not be asked for", func(ctx context.Context) error {
			return g.app.RequestExecutors(ctx, map[int32]int32{0: int32(want)})
		}) {
			g.total, g.lastGrant = want, time.Now()
		}
	}
	if len(useless) > 0 && g.ask(ctx, "executors could not be ended", func(ctx context.Context) error { return g.app.KillExecutors(ctx, useless) }) {
		for _, id := range useless {
			g.extra[id] = false
		}
	}
}

// ask calls the master without the lock, and tells whether it answered well.
func (g *group) ask(ctx context.Context, what string, call func(context.Context) error) bool {
	g.run.mu.Unlock()
	err := call(ctx)
	g.run.mu.Lock()
	if err != nil && ctx.Err() == nil {
		g.run.cfg.Log.Warn(what, "error", err)
	}
	return err == nil
}

// giveUp says of each worker without an executor why it may have got none.
func (g *group) giveUp(ctx context.Context) {
	g.gaveUp = true
	g.run.mu.Unlock()
	now, err := g.run.web.load(ctx)
	g.run.mu.Lock()
	for _, t := range g.trials {
		if t.done || t.executor >= 0 {
			continue
		}
		reason := "the master granted no executor there for " + g.run.cfg.Settle.String()
		if err == nil {
			if x, findErr := now.find(t.worker.id); findErr == nil {
				x.release = t.worker.release
				if why := g.run.unfit(x); why != "" {
					reason = why
				} else if x.note != "" {
					reason += " (" + x.note + ")"
				} else {
					reason += ", although it has room; applications that came before may wait for the same cores (raftctl apps)"
				}
			} else {
				reason = "it is gone"
			}
		}
		g.run.skip(t, reason)
	}
}

// interrupt ends the trials that are still open: that is no failure of their workers.
func (g *group) interrupt() {
	g.run.mu.Lock()
	defer g.run.mu.Unlock()
	for _, t := range g.trials {
		if t.done {
			continue
		}
		reason := "interrupted before an executor was granted"
		if n := len(t.result.Steps); t.executor >= 0 && n > 0 {
			reason = "interrupted after the step " + t.result.Steps[n-1].Name
		}
		g.run.skip(t, reason)
	}
}

// endAll ends the trials that are still open.
func (g *group) endAll(reason string) {
	executors := g.app.Driver().Executors()
	g.run.mu.Lock()
	defer g.run.mu.Unlock()
	for _, t := range g.trials {
		if t.done {
			continue
		}
		if t.executor < 0 {
			g.run.skip(t, "no executor was granted there when "+reason)
			continue
		}
		t.done, t.result.Outcome, t.result.Reason = true, Failed, reason
		for i := range executors {
			if executors[i].ID == t.executor {
				g.record(t, &executors[i], time.Time{})
				t.result.Failed = stepName(executors[i].Next())
			}
		}
	}
}
