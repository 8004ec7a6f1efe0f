package load

import (
	"bytes"
	"context"
	"strconv"
	"sync"
	"time"

	"raftmaster/transport/sparkmsg"
)

const (
	beatTick = 20 * time.Millisecond
	lanes    = 16 // senders of heartbeats in a closed loop
	laneRun  = 64 // heartbeats of a sender between two questions
)

// beatAll sends the heartbeats of all workers, evenly spread, until the run ends. Phases may pause it.
func (h *hub) beatAll() {
	t := time.NewTicker(beatTick)
	defer t.Stop()
	next, owed, last := 0, 0., time.Now()
	for {
		select {
		case <-t.C:
		case <-h.ctx.Done():
			return
		}
		now := time.Now()
		if h.paused.Load() {
			owed, last = 0, now
			continue
		}
		owed += now.Sub(last).Seconds() / h.cfg.HeartbeatEvery.Seconds() * float64(len(h.workers))
		last = now
		for ; owed >= 1; owed-- {
			h.workers[next%len(h.workers)].tryBeat()
			next++
		}
	}
}

// tryBeat sends a heartbeat if the worker is registered.
func (w *worker) tryBeat() {
	if !w.registered.Load() {
		return
	}
	if err := w.beat(); err != nil && !w.h.leaving.Load() {
		w.h.failed("heartbeat: " + kind(err))
	}
}

// heartbeatPhase sends heartbeats as fast as the master takes them, or at a rate.
func (h *hub) heartbeatPhase(report *Report) error {
	h.paused.Store(true)
	defer h.paused.Store(false)
	if h.cfg.Warmup > 0 {
		s := h.begin("warm-up of heartbeats", 0)
		if err := h.sendHeartbeats(s, h.cfg.Warmup); err != nil {
			return err
		}
	}
	s := h.begin("heartbeats", 0)
	err := h.sendHeartbeats(s, h.cfg.Duration)
	report.Results = append(report.Results, s.result(false))
	return err
}

func (h *hub) sendHeartbeats(s *series, length time.Duration) error {
	defer h.watch(s, length)()
	ctx, cancel := h.phaseContext(length)
	defer cancel()
	end := time.Now().Add(length)
	n := min(lanes, len(h.workers))
	errs := make(chan error, n)
	for lane := range n {
		var own []*worker
		for i := lane; i < len(h.workers); i += n {
			own = append(own, h.workers[i])
		}
		go func() { errs <- h.lane(ctx, s, own, end, h.cfg.HeartbeatRate/float64(n)) }()
	}
	var first error
	for range n {
		if err := <-errs; err != nil && first == nil {
			first = err
		}
	}
	return first
}

// lane sends the heartbeats of some workers. After each run it asks on the last connection and waits for the answer; at
// the end it asks on all of them, so that every heartbeat was taken in when it returns.
func (h *hub) lane(ctx context.Context, s *series, own []*worker, end time.Time, rate float64) error {
	sent, began := 0, time.Now()
	for i := 0; time.Now().Before(end) && ctx.Err() == nil; {
		n := min(laneRun, len(own))
		if rate > 0 {
			due := int(time.Since(began).Seconds()*rate) - sent
			if due < 1 {
				time.Sleep(2 * time.Millisecond)
				continue
			}
			n = min(n, due)
		}
		for range n {
			own[i%len(own)].tryBeat()
			i++
		}
		sent += n
		s.doneTimes(time.Time{}, n)
		if rate > 0 {
			continue // the questions would weigh more than the heartbeats
		}
		if err := fence(ctx, []*worker{own[(i-1)%len(own)]}); err != nil {
			return s.fenceFailed(ctx, err)
		}
	}
	if err := fence(ctx, own); err != nil {
		return s.fenceFailed(ctx, err)
	}
	return nil
}

func (s *series) fenceFailed(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return s.ended(ctx)
	}
	s.fail(err)
	return nil
}

// fence asks something on each connection and waits for all answers.
func fence(ctx context.Context, workers []*worker) error {
	answers := make(chan error, len(workers))
	for _, w := range workers {
		w.ask(w.h.codec.nosuch, func(_ []byte, err error) { answers <- err })
	}
	var first error
	for range workers {
		select {
		case err := <-answers:
			if first == nil {
				first = err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return first
}

// appPhase connects the applications, registers them, and waits for the executors of each.
func (h *hub) appPhase(report *Report) error {
	apps := h.apps[:h.cfg.Apps]
	if len(apps) == 0 {
		return nil
	}
	ctx, cancel := h.phaseContext(0)
	defer cancel()
	for _, a := range apps {
		if err := a.describe(int32(h.cfg.Executors), nil); err != nil {
			return err
		}
	}
	if err := h.connectApps(ctx, apps); err != nil {
		return err
	}
	before := h.running.Load()
	wanted := int64(len(apps) * h.cfg.Executors)
	s := h.begin("application registrations", len(apps))
	all := h.begin("executors of applications", int(wanted))
	stop := h.watch(s, 0)
	err := s.each(ctx, len(apps), h.cfg.AppWindow, func(i int, done func(error)) { h.registerApp(ctx, apps[i], done) })
	stop()
	report.Results = append(report.Results, s.result(true))
	if err != nil {
		return err
	}
	defer h.watch(all, 0)()
	for have := int64(0); have < wanted; {
		if now := h.running.Load() - before; now > have {
			all.doneTimes(time.Time{}, int(now-have))
			have = now
			continue
		}
		if !pause(ctx, time.Millisecond) {
			err = all.ended(ctx)
			break
		}
	}
	report.Results = append(report.Results, all.result(true))
	return err
}

// registerApp registers one application. With a window of one, the next one waits until its executors run, so that each
// finds the master at rest.
func (h *hub) registerApp(ctx context.Context, a *application, done func(error)) {
	b, err := a.registration()
	if err != nil {
		done(err)
		return
	}
	if h.cfg.AppWindow > 1 {
		a.register(b, done)
		return
	}
	answer := make(chan error, 1)
	a.register(b, func(err error) { done(err); answer <- err })
	select {
	case err := <-answer:
		for err == nil && h.table(a.appID()).count() < h.cfg.Executors && pause(ctx, 200*time.Microsecond) {
		}
	case <-ctx.Done():
	}
}

// connectApps opens the connections, which is no part of a measurement.
func (h *hub) connectApps(ctx context.Context, apps []*application) error {
	to, err := h.currentLeader()
	if err != nil {
		return err
	}
	s := h.begin("application connections", len(apps))
	return s.each(ctx, len(apps), h.cfg.Window, func(i int, done func(error)) { apps[i].dial(to, done) })
}

// burstPhase lets one application without executors ask for many.
func (h *hub) burstPhase(report *Report) error {
	ctx, cancel := h.phaseContext(0)
	defer cancel()
	a := h.apps[h.cfg.Apps]
	none := int32(0)
	if err := a.describe(int32(h.cfg.Burst), &none); err != nil {
		return err
	}
	if err := h.connectApps(ctx, []*application{a}); err != nil {
		return err
	}
	b, err := a.registration()
	if err != nil {
		return err
	}
	answer := make(chan error, 2)
	a.register(b, func(err error) { answer <- err })
	if err := wait(h, answer); err != nil {
		return err
	}
	s := h.begin("executor launches, at once", h.cfg.Burst)
	stop := h.watch(s, 0)
	table := h.table(a.appID())
	table.mu.Lock()
	table.each = func() { s.done(s.began) }
	table.mu.Unlock()
	a.want(int32(h.cfg.Burst), func(err error) {
		if err != nil {
			s.fail(err)
		}
	})
	err = s.waitAll(ctx, h.cfg.Burst)
	stop()
	report.Results = append(report.Results, s.result(true))
	if err != nil {
		return err
	}
	for table.count() < h.cfg.Burst {
		if !pause(ctx, time.Millisecond) {
			return s.ended(ctx)
		}
	}
	return h.endBurst(ctx, s, a)
}

// endBurst unregisters the application and waits until its executors were killed.
func (h *hub) endBurst(ctx context.Context, s *series, a *application) error {
	ended := h.ended.Load()
	answer := make(chan error, 1)
	a.unregister(func(err error) { answer <- err })
	if err := wait(h, answer); err != nil {
		return err
	}
	for h.ended.Load()-ended < int64(h.cfg.Burst) {
		if !pause(ctx, time.Millisecond) {
			return s.ended(ctx)
		}
	}
	return nil
}

// churnPhase lets executors exit, a bounded number at a time; each is replaced by a launch.
func (h *hub) churnPhase(report *Report) error {
	if h.cfg.Warmup > 0 {
		s := h.begin("warm-up of launches", 0)
		if err := h.churn(s, h.cfg.Warmup); err != nil {
			return err
		}
	}
	s := h.begin("executor launches, replacing", 0)
	reports := h.begin("executor state changes", 0)
	h.reports.Store(reports)
	err := h.churn(s, h.cfg.Duration)
	h.reports.Store(nil)
	report.Results = append(report.Results, s.result(true), reports.result(true))
	return err
}

func (h *hub) churn(s *series, length time.Duration) error {
	defer h.watch(s, length)()
	ctx, cancel := h.phaseContext(length)
	defer cancel()
	end := time.Now().Add(length)
	slots := make(chan struct{}, h.cfg.ChurnWindow)
	replaced := func(exit time.Time) {
		s.done(exit)
		<-slots
	}
	asked, idle := 0, 0
	for i := 0; time.Now().Before(end); i++ {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return s.ended(ctx)
		}
		t := h.table(h.apps[i%h.cfg.Apps].appID())
		e, ok := t.takeOne(replaced)
		if !ok { // all of this application's are being replaced
			<-slots
			if idle++; idle%h.cfg.Apps == 0 && !pause(ctx, time.Millisecond) {
				return s.ended(ctx)
			}
			continue
		}
		asked++
		e.w.end(execKey{h.apps[i%h.cfg.Apps].appID(), e.id}, sparkmsg.ExecutorExited)
	}
	return s.waitAll(ctx, asked)
}

// driverPhase submits drivers and kills them when all run.
func (h *hub) driverPhase(report *Report) error {
	ctx, cancel := h.phaseContext(0)
	defer cancel()
	a := h.apps[h.cfg.Apps] // any peer may submit
	if _, _, ok := a.live(); !ok {
		if err := h.connectApps(ctx, []*application{a}); err != nil {
			return err
		}
	}
	before := h.drivers.Load()
	var mu sync.Mutex
	var ids []string
	s := h.begin("driver submissions", h.cfg.Drivers)
	stop := h.watch(s, 0)
	err := s.each(ctx, h.cfg.Drivers, h.cfg.Window, func(i int, done func(error)) {
		content, err := sparkmsg.Encode(&sparkmsg.RequestSubmitDriver{DriverDescription: h.driver(i)}, h.codec.fam)
		if err != nil {
			done(err)
			return
		}
		a.ask(content, func(body []byte, err error) {
			id, err := submitted(body, err)
			if err == nil {
				mu.Lock()
				ids = append(ids, id)
				mu.Unlock()
			}
			done(err)
		})
	})
	stop()
	report.Results = append(report.Results, s.result(true))
	for err == nil && h.drivers.Load()-before < int64(len(ids)) {
		if !pause(ctx, time.Millisecond) {
			err = s.ended(ctx)
		}
	}
	kills := h.begin("driver kills", len(ids))
	killErr := kills.each(ctx, len(ids), h.cfg.Window, func(i int, done func(error)) {
		content, err := sparkmsg.Encode(&sparkmsg.RequestKillDriver{DriverID: ids[i]}, h.codec.fam)
		if err != nil {
			done(err)
			return
		}
		a.ask(content, func(_ []byte, err error) { done(err) })
	})
	report.Results = append(report.Results, kills.result(true))
	if err == nil {
		err = killErr
	}
	return err
}

func submitted(body []byte, err error) (string, error) {
	if err != nil {
		return "", err
	}
	d, err := sparkmsg.Decode(bytes.Clone(body))
	if err != nil {
		return "", err
	}
	m, ok := d.Msg.(*sparkmsg.SubmitDriverResponse)
	if !ok || !m.Success || m.DriverID == nil {
		return "", errAnswer
	}
	return *m.DriverID, nil
}

// driver describes the driver of a number. They differ in an argument: a master takes the same description from the same
// client for the repetition of a question, and answers with the driver that it has.
func (h *hub) driver(number int) *sparkmsg.DriverDescription {
	return &sparkmsg.DriverDescription{JarURL: "file:/load.jar", Mem: h.cfg.ExecutorMB, Cores: 1, Command: sparkmsg.Command{
		MainClass: "org.apache.spark.deploy.worker.DriverWrapper", Arguments: []string{"{{WORKER_URL}}", "{{USER_JAR}}", "Load", strconv.Itoa(number)},
		Environment: []sparkmsg.EnvVar{{Name: "SPARK_USER", Value: "load"}},
	}}
}

// holdPhase keeps everything as it is.
func (h *hub) holdPhase(report *Report) error {
	s := h.begin("steady heartbeats", 0)
	defer h.watch(s, h.cfg.Duration)()
	before := h.heartbeats.Load()
	ctx, cancel := context.WithTimeout(h.ctx, h.cfg.Duration)
	defer cancel()
	for pause(ctx, 50*time.Millisecond) {
		now := h.heartbeats.Load()
		s.doneTimes(time.Time{}, int(now-before))
		before = now
	}
	report.Results = append(report.Results, s.result(false))
	return h.ctx.Err()
}

// pause waits for d; false when ctx has ended.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
