package load

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// series collects the outcomes of one kind of request. It is safe for concurrent use.
type series struct {
	h      *hub
	name   string
	wanted int
	began  time.Time
	before usages

	mu      sync.Mutex
	samples []time.Duration
	count   int
	failed  int
	last    time.Time // of the last success
	changed chan struct{}
}

// begin starts the clock of a series; wanted is 0 when it ends by time.
func (h *hub) begin(name string, wanted int) *series {
	s := &series{h: h, name: name, wanted: wanted, changed: make(chan struct{}, 1)}
	s.before = h.usage()
	s.began = time.Now()
	s.last = s.began
	return s
}

// usages are of the processes that take part; nil where one is not to be read.
type usages struct{ leader, others, own *Usage }

func (h *hub) usage() usages {
	var u usages
	if h.cfg.PID == 0 {
		return u
	}
	u.leader, u.own = h.usageOf(h.cfg.PID), h.usageOf(os.Getpid())
	if len(h.cfg.Others) > 0 {
		u.others = h.usageOf(h.cfg.Others...)
	}
	return u
}

// usageOf is the mean use of some processes.
func (h *hub) usageOf(pids ...int) *Usage {
	var sum Usage
	n := float64(len(pids))
	for _, pid := range pids {
		u, err := ReadUsage(pid)
		if err != nil {
			h.failed("a master's process cannot be read")
			return nil
		}
		sum.CPUSeconds += u.CPUSeconds / n
		sum.RSSMB += u.RSSMB / n
		sum.AnonMB += u.AnonMB / n
	}
	return &sum
}

// since is what was used for so many requests.
func (u *Usage) since(before *Usage, count int) *Usage {
	if u == nil || before == nil {
		return nil
	}
	now := *u
	now.CPUSeconds -= before.CPUSeconds
	if now.CPUSeconds >= 10./ticks && count > 0 {
		now.PerCPUSecond = float64(count) / now.CPUSeconds
		now.EachMicros = 1e6 * now.CPUSeconds / float64(count)
	}
	return &now
}

// done counts a success. start is when its request was sent; the zero time leaves out its latency.
func (s *series) done(start time.Time) { s.doneTimes(start, 1) }

func (s *series) doneTimes(start time.Time, n int) {
	now := time.Now()
	s.mu.Lock()
	s.count += n
	s.last = now
	if !start.IsZero() {
		s.samples = append(s.samples, now.Sub(start))
	}
	s.mu.Unlock()
	s.notify()
}

// fail counts a failure.
func (s *series) fail(err error) {
	s.mu.Lock()
	s.failed++
	s.mu.Unlock()
	s.h.failed(s.name + ": " + kind(err))
	s.notify()
}

func (s *series) notify() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

func (s *series) outcomes() (good, all int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.count, s.count + s.failed
}

// waitAll waits until n requests have an outcome.
func (s *series) waitAll(ctx context.Context, n int) error {
	for {
		if _, all := s.outcomes(); all >= n {
			return nil
		}
		select {
		case <-s.changed:
		case <-ctx.Done():
			return s.ended(ctx)
		}
	}
}

// ended says why a phase did not get to its end.
func (s *series) ended(ctx context.Context) error {
	good, _ := s.outcomes()
	if errors.Is(context.Cause(ctx), errPhaseTime) {
		return fmt.Errorf("%w: %s: %d of %d", ErrTimeout, s.name, good, s.wanted)
	}
	return ctx.Err()
}

// result ends the series. byLast counts the time to the last success only.
func (s *series) result(byLast bool) Result {
	s.mu.Lock()
	defer s.mu.Unlock()
	end := time.Now()
	if byLast && s.count > 0 {
		end = s.last
	}
	r := Result{Name: s.name, Count: s.count, Wanted: s.wanted, Seconds: max(end.Sub(s.began).Seconds(), 1e-9), LatencyMS: percentiles(s.samples)}
	r.PerSecond = float64(r.Count) / r.Seconds
	now := s.h.usage()
	r.Master = now.leader.since(s.before.leader, r.Count)
	r.Others = now.others.since(s.before.others, r.Count)
	r.Generator = now.own.since(s.before.own, r.Count)
	return r
}

var errPhaseTime = errors.New("phase time-out")

// phaseContext bounds a phase.
func (h *hub) phaseContext(extra time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(h.ctx, h.cfg.Timeout+extra, errPhaseTime)
}

// each calls do for 0..n-1 with at most window of them without an outcome, and waits for all outcomes. do gets a
// function to be called once with the outcome; it counts in s from the moment that start was called.
func (s *series) each(ctx context.Context, n, window int, do func(i int, done func(error))) error {
	slots := make(chan struct{}, window)
	for i := range n {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return s.ended(ctx)
		}
		start := time.Now()
		do(i, func(err error) {
			if err != nil {
				s.fail(err)
			} else {
				s.done(start)
			}
			<-slots
		})
	}
	return s.waitAll(ctx, n)
}

// kind is the class under which an error is counted: few, and without addresses.
func kind(err error) string {
	var timeout net.Error
	switch {
	case err == nil:
		return "none"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	case errors.Is(err, errClosed), errors.Is(err, net.ErrClosed), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return "connection lost"
	case errors.Is(err, errStandby):
		return "master does not lead"
	case errors.Is(err, errAnswer):
		return "refused by the master"
	case errors.Is(err, syscall.EMFILE):
		return "too many open files"
	case errors.Is(err, os.ErrDeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return "time-out"
	case errors.Is(err, context.Canceled):
		return "interrupted"
	}
	return err.Error()
}
