package runner

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	firstPause = time.Second
	// successfulRun is the run length beyond which the pause begins again at a second (DriverRunner.scala).
	successfulRun = 5 * time.Second
)

// DriverPlan is what RunDriver needs.
type DriverPlan struct {
	// Prepare makes the directory, fetches the jar and assembles the command; its error ends the driver as ERROR.
	Prepare func(context.Context) (Spec, error)
	// Supervise starts it again after an exit status that is not 0.
	Supervise bool
	// Grace and Hard are the steps of the kill (spark.worker.driverTerminateTimeout each); 0 means DefaultGrace.
	Grace, Hard time.Duration
	// MaxPause bounds the pause between runs; 0 means DefaultMaxPause.
	MaxPause time.Duration
	// Started, if not nil, is told of every start; run counts from 1.
	Started func(run int, p *Process)
	// Ended, if not nil, is told of every end that a restart after pause follows.
	Ended func(run int, e Exit, pause time.Duration)
}

// DriverState is the final state of a driver, in Spark's word (DriverState.scala).
type DriverState string

// The final states.
const (
	DriverFinished DriverState = "FINISHED"
	DriverFailed   DriverState = "FAILED"
	DriverKilled   DriverState = "KILLED"
	DriverError    DriverState = "ERROR"
)

// DriverEnd says how a driver ended.
type DriverEnd struct {
	State DriverState
	// Err is the reason of ERROR, or says that a killed driver is likely orphaned.
	Err error
	// Exit is of the last run; zero if there was none.
	Exit Exit
	// Runs is how often the process was started.
	Runs int
}

// RunDriver runs a driver until its final state (B-144). Cancelling ctx kills it: the process, or the pause between two
// runs, at once. The states are DriverRunner's: exit status 0 is FINISHED even while it is killed, a failed preparation or
// start is ERROR. The pause doubles from a second to MaxPause, where Spark's has no end: a driver that failed for an hour
// would be tried again after another hour.
func (r *Runner) RunDriver(ctx context.Context, plan DriverPlan) DriverEnd {
	if plan.Grace <= 0 {
		plan.Grace = DefaultGrace
	}
	if plan.Hard <= 0 {
		plan.Hard = DefaultGrace
	}
	if plan.MaxPause <= 0 {
		plan.MaxPause = DefaultMaxPause
	}
	spec, err := plan.Prepare(ctx)
	if ctx.Err() != nil {
		return DriverEnd{State: DriverKilled}
	}
	if err != nil {
		return DriverEnd{State: DriverError, Err: err}
	}
	return r.supervise(ctx, plan, spec)
}

func (r *Runner) supervise(ctx context.Context, plan DriverPlan, spec Spec) DriverEnd {
	var end DriverEnd
	for pause := firstPause; ; pause *= 2 {
		process, err := r.Start(spec)
		if err != nil {
			end.State, end.Err = DriverError, err
			if ctx.Err() != nil && errors.Is(err, ErrClosed) {
				end.State, end.Err = DriverKilled, nil
			}
			return end
		}
		end.Runs++
		if plan.Started != nil {
			plan.Started(end.Runs, process)
		}
		end.Exit = awaitOrKill(ctx, process, plan)
		if end.Exit.Code == 0 || ctx.Err() != nil || !plan.Supervise || end.Exit.Orphaned {
			end.State, end.Err = finalState(ctx, end.Exit, process.Pid())
			return end
		}
		if end.Exit.Ended.Sub(end.Exit.Started) > successfulRun {
			pause = firstPause
		}
		pause = min(pause, plan.MaxPause)
		if plan.Ended != nil {
			plan.Ended(end.Runs, end.Exit, pause)
		}
		r.log.Info("driver ended, starting it again", "name", spec.Name, "exit_code", end.Exit.Code, "pause", pause)
		select {
		case <-r.clock.After(pause):
		case <-ctx.Done():
			end.State = DriverKilled
			return end
		}
	}
}

func awaitOrKill(ctx context.Context, p *Process, plan DriverPlan) Exit {
	select {
	case <-p.Done():
	case <-ctx.Done():
		p.Kill(plan.Grace, plan.Hard)
		<-p.Done()
	}
	return p.Exit()
}

func finalState(ctx context.Context, e Exit, pid int) (DriverState, error) {
	var err error
	if e.Orphaned {
		err = fmt.Errorf("driver process %d did not end after SIGKILL and will likely be orphaned", pid)
	}
	switch {
	case e.Code == 0:
		return DriverFinished, nil
	case ctx.Err() != nil:
		return DriverKilled, err
	}
	return DriverFailed, err
}
