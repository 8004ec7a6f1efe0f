package load

import (
	"context"
	"errors"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"raftmaster/transport/frame"
	"raftmaster/transport/sparkmsg"
)

// Run executes the phases of cfg and returns what it measured, also beside an error. It leaves no peer behind: the
// applications unregister and the workers close their connections, also when ctx ends. Errors that did not end the run
// are in Report.Errors.
func Run(ctx context.Context, cfg Config) (*Report, error) {
	cfg.setDefaults()
	fam, err := cfg.validate()
	if err != nil {
		return nil, err
	}
	files := cfg.Workers + cfg.Apps + 1 + cfg.Window // accepted ones too
	if err := reserveFiles(files); err != nil {
		return nil, err
	}
	return run(ctx, cfg, fam)
}

func run(ctx context.Context, cfg Config, fam sparkmsg.Family) (*Report, error) {
	h, err := newHub(ctx, cfg, fam)
	if err != nil {
		return nil, err
	}
	report := &Report{Began: time.Now().UTC(), Release: cfg.Release, Workers: cfg.Workers, Apps: cfg.Apps, Executors: cfg.Executors}
	own, ownErr := ReadUsage(os.Getpid())
	var leader frame.Address
	if leader, err = h.findLeader(); err == nil {
		report.Leader = leader.String()
		err = h.phases(report, leader)
	}
	err = errors.Join(err, h.leave())
	if now, nowErr := ReadUsage(os.Getpid()); ownErr == nil && nowErr == nil {
		now.CPUSeconds -= own.CPUSeconds
		report.Generator = now
	}
	h.mu.Lock() // a registration's last repetition may still be on its way
	report.Errors = maps.Clone(h.errs)
	h.mu.Unlock()
	return report, err
}

func (h *hub) phases(report *Report, leader frame.Address) error {
	steps := map[Phase]func(*Report) error{
		PhaseHeartbeats: h.heartbeatPhase, PhaseApps: h.appPhase, PhaseBurst: h.burstPhase, PhaseChurn: h.churnPhase,
		PhaseDrivers: h.driverPhase, PhaseHold: h.holdPhase,
	}
	if err := h.workerPhase(report, leader); err != nil {
		return err
	}
	h.wg.Go(h.beatAll)
	if err := h.after(PhaseWorkers); err != nil {
		return err
	}
	for _, p := range Phases {
		if step := steps[p]; step != nil && slices.Contains(h.cfg.Phases, p) {
			if err := errors.Join(step(report), h.after(p)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (h *hub) after(p Phase) error {
	if h.cfg.After == nil || h.ctx.Err() != nil {
		return h.ctx.Err()
	}
	return h.cfg.After(p)
}

// watch reports the progress of a series until the returned function is called.
func (h *hub) watch(s *series, length time.Duration) (stop func()) {
	if h.cfg.Progress == nil {
		return func() {}
	}
	say := func() {
		good, _ := s.outcomes()
		p := Progress{Phase: s.name, Done: good, Total: s.wanted}
		if s.wanted > 0 {
			p.Part = min(1, float64(good)/float64(s.wanted))
		} else {
			p.Part = min(1, float64(time.Since(s.began))/float64(max(length, 1)))
		}
		h.cfg.Progress(p)
	}
	end := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		t := time.NewTicker(200 * time.Millisecond)
		defer t.Stop()
		for {
			select {
			case <-t.C:
				say()
			case <-end:
				say()
				return
			}
		}
	})
	return func() {
		close(end)
		wg.Wait()
	}
}

// workerPhase connects all workers, then registers them.
func (h *hub) workerPhase(report *Report, leader frame.Address) error {
	ctx, cancel := h.phaseContext(0)
	defer cancel()
	s := h.begin("worker connections", len(h.workers))
	stop := h.watch(s, 0)
	err := s.each(ctx, len(h.workers), h.cfg.Window, func(i int, done func(error)) { h.workers[i].dial(leader, done) })
	stop()
	report.Results = append(report.Results, s.result(true))
	if err != nil {
		return err
	}
	frames := make([][]byte, len(h.workers))
	for i, w := range h.workers {
		if frames[i], err = w.registration(leader); err != nil {
			return err
		}
	}
	s = h.begin("worker registrations", len(h.workers))
	stop = h.watch(s, 0)
	err = s.each(ctx, len(h.workers), h.cfg.Window, func(i int, done func(error)) { h.workers[i].register(frames[i], done) })
	stop()
	report.Results = append(report.Results, s.result(true))
	return err
}

func (h *hub) currentLeader() (frame.Address, error) {
	h.mu.Lock()
	m := h.leader
	h.mu.Unlock()
	if leads, err := h.scoutOnce(m); leads {
		return m, nil
	} else if h.ctx.Err() != nil {
		return m, err
	}
	return h.findLeader()
}

// leave ends all peers in order: applications unregister, then everybody closes.
func (h *hub) leave() error {
	h.leaving.Store(true)
	s := h.begin("goodbyes", len(h.apps))
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(h.ctx), min(h.cfg.Timeout, h.goodbyeTime()), errPhaseTime)
	err := s.each(ctx, len(h.apps), 16, func(i int, done func(error)) {
		h.apps[i].unregister(func(err error) {
			if kind(err) == "connection lost" {
				err = nil // its master is gone: nothing is left to say
			}
			done(err)
		})
	})
	cancel()
	h.cancel()
	if closeErr := h.ln.Close(); closeErr != nil {
		err = errors.Join(err, closeErr)
	}
	h.mu.Lock()
	h.gone = true
	conns := slices.Collect(maps.Keys(h.conns))
	h.mu.Unlock()
	for _, c := range conns {
		c.close()
	}
	h.wg.Wait()
	return err
}

// goodbyeTime allows for what the master has to say: every worker hears of the end of every application (B-113).
func (h *hub) goodbyeTime() time.Duration {
	return 30*time.Second + time.Duration(len(h.apps)*len(h.workers))*20*time.Microsecond
}

// FindLeader checks cfg and returns the address of the master that leads, and does nothing else. It waits for one at most
// cfg.Timeout.
func FindLeader(ctx context.Context, cfg Config) (leader string, err error) {
	cfg.setDefaults()
	fam, err := cfg.validate()
	if err != nil {
		return "", err
	}
	cfg.Apps, cfg.Phases = 0, []Phase{PhaseWorkers}
	h, err := newHub(ctx, cfg, fam)
	if err != nil {
		return "", err
	}
	m, err := h.findLeader()
	return m.String(), errors.Join(err, h.leave())
}
