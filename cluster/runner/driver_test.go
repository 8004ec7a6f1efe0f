package runner

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func plan(s Spec) DriverPlan {
	return DriverPlan{Prepare: func(context.Context) (Spec, error) { return s, nil }}
}

func seconds(n ...int) []time.Duration {
	var all []time.Duration
	for _, s := range n {
		all = append(all, time.Duration(s)*time.Second)
	}
	return all
}

func TestDriverEnds_B144(t *testing.T) {
	r := newRunner(t, Options{})
	for _, c := range []struct {
		script string
		want   DriverState
		code   int
	}{{"exit 0", DriverFinished, 0}, {"exit 3", DriverFailed, 3}, {"kill -9 $$", DriverFailed, 137}} {
		if e := r.RunDriver(context.Background(), plan(shell(r, "driver-1", c.script))); e.State != c.want || e.Exit.Code != c.code || e.Err != nil || e.Runs != 1 {
			t.Errorf("%s: %+v", c.script, e)
		}
	}
	broken := errors.New("no jar")
	e := r.RunDriver(context.Background(), DriverPlan{Prepare: func(context.Context) (Spec, error) { return Spec{}, broken }})
	if e.State != DriverError || !errors.Is(e.Err, broken) || e.Runs != 0 {
		t.Errorf("%+v", e)
	}
	s := shell(r, "driver-2", "")
	s.Argv[0] = "/no/such/java"
	p := plan(s)
	p.Supervise = true
	if e := r.RunDriver(context.Background(), p); e.State != DriverError || !errors.Is(e.Err, unix.ENOENT) {
		t.Errorf("%+v", e)
	}
}

// TestSupervisePauses_B144: 1, 2, 4... seconds up to the bound, a header for each start, an end with exit status 0.
func TestSupervisePauses_B144(t *testing.T) {
	clock := racingClock{newFakeClock()}
	r := newRunner(t, Options{Clock: clock})
	s := shell(r, "driver-1", `echo x >> runs; [ $(wc -l < runs) -lt 10 ]; exit $((1-$?))`)
	s.Header = "Launch Command\n"
	p := plan(s)
	p.Supervise = true
	var told []int
	p.Started = func(run int, process *Process) {
		if process.Pid() == 0 {
			t.Error("no process")
		}
		told = append(told, run)
	}
	var pauses []time.Duration
	p.Ended = func(_ int, e Exit, pause time.Duration) {
		if e.Code != 1 {
			t.Errorf("exit %+v", e)
		}
		pauses = append(pauses, pause)
	}
	e := r.RunDriver(context.Background(), p)
	if e.State != DriverFinished || e.Runs != 10 || len(told) != 10 || told[9] != 10 {
		t.Errorf("%+v, told %v", e, told)
	}
	if want := seconds(1, 2, 4, 8, 16, 32, 60, 60, 60); !slices.Equal(pauses, want) || !slices.Equal(clock.pauses(), want) {
		t.Errorf("pauses %v, slept %v", pauses, clock.pauses())
	}
	if got := strings.Count(read(t, s.Stderr), "Launch Command\n"); got != 10 {
		t.Errorf("%d headers", got)
	}
}

// TestLongRunResetsPause_B144: a run of more than five seconds begins again at one.
func TestLongRunResetsPause_B144(t *testing.T) {
	clock := racingClock{newFakeClock()}
	r := newRunner(t, Options{Clock: clock})
	s := shell(r, "driver-1", `echo x >> runs; exit 1`)
	p := plan(s)
	p.Supervise, p.MaxPause = true, 5*time.Second
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	p.Started = func(run int, process *Process) {
		<-process.Done()
		clock.Advance(0)
		switch run {
		case 4: // exactly five seconds are not more than five
			stretch(process, 5*time.Second)
		case 5:
			stretch(process, 5*time.Second+time.Millisecond)
		case 7:
			cancel()
		}
	}
	e := r.RunDriver(ctx, p)
	if e.State != DriverKilled || e.Runs != 7 || e.Exit.Code != 1 {
		t.Errorf("%+v", e)
	}
	if got, want := clock.pauses(), seconds(1, 2, 4, 5, 1, 2); !slices.Equal(got, want) {
		t.Errorf("pauses %v, want %v", got, want)
	}
}

// stretch makes an ended run look that long.
func stretch(p *Process, d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.exit.Ended = p.exit.Started.Add(d)
}

func TestKillDriver(t *testing.T) {
	t.Run("running", func(t *testing.T) {
		r := newRunner(t, Options{})
		ctx, cancel := context.WithCancel(context.Background())
		p := plan(shell(r, "driver-1", "sleep 600 & wait"))
		p.Supervise = true
		p.Started = func(int, *Process) { cancel() }
		if e := r.RunDriver(ctx, p); e.State != DriverKilled || e.Exit.Code != 143 || e.Runs != 1 || e.Err != nil {
			t.Errorf("%+v", e)
		}
	})
	t.Run("ends well while it is killed", func(t *testing.T) {
		r := newRunner(t, Options{})
		ctx, cancel := context.WithCancel(context.Background())
		s := shell(r, "driver-1", `trap "exit 0" TERM; touch ready; while :; do sleep 0.01; done`)
		p := plan(s)
		p.Started = func(int, *Process) {
			eventually(t, "ready", func() bool { return exists(filepath.Join(s.Dir, "ready")) })
			cancel()
		}
		if e := r.RunDriver(ctx, p); e.State != DriverFinished {
			t.Errorf("%+v", e)
		}
	})
	t.Run("in a pause", func(t *testing.T) {
		r := newRunner(t, Options{Clock: newFakeClock()}) // whose timers never fire
		ctx, cancel := context.WithCancel(context.Background())
		p := plan(shell(r, "driver-1", "exit 1"))
		p.Supervise = true
		p.Ended = func(int, Exit, time.Duration) { time.AfterFunc(10*time.Millisecond, cancel) }
		if e := r.RunDriver(ctx, p); e.State != DriverKilled || e.Exit.Code != 1 || e.Runs != 1 {
			t.Errorf("%+v", e)
		}
	})
	t.Run("while it is prepared", func(t *testing.T) {
		r := newRunner(t, Options{})
		ctx, cancel := context.WithCancel(context.Background())
		e := r.RunDriver(ctx, DriverPlan{Prepare: func(ctx context.Context) (Spec, error) {
			cancel()
			return Spec{}, ctx.Err()
		}})
		if e.State != DriverKilled || e.Err != nil || e.Runs != 0 {
			t.Errorf("%+v", e)
		}
	})
	t.Run("cannot be killed", func(t *testing.T) {
		state, err := finalState(context.Background(), Exit{Code: -1, Orphaned: true}, 5)
		if state != DriverFailed || err == nil {
			t.Errorf("%v %v", state, err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if state, err = finalState(ctx, Exit{Code: -1, Orphaned: true, Killed: true}, 5); state != DriverKilled || !strings.Contains(err.Error(), "orphaned") {
			t.Errorf("%v %v", state, err)
		}
	})
}
