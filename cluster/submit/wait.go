package submit

import (
	"context"
	"errors"
	"regexp"
	"time"
)

// WaitOptions say how Wait waits. A zero field means its default.
type WaitOptions struct {
	// Poll is the time between two questions; 1 s.
	Poll time.Duration
	// OnChange is told of the first status and of each that differs in state, worker or id; it may be nil.
	OnChange func(Status)
	// OnTrouble is told when nobody answers, once until somebody does again; it may be nil.
	OnTrouble func(error)
	// Missing is how long a driver may be unknown to a leader before that is the result; 10 s. A new leader of Spark
	// knows its drivers only when it has recovered.
	Missing time.Duration
}

// maxHops is how many successors are looked at without a pause.
const maxHops = 16

// ErrNotFound says that the leader does not know a driver.
var ErrNotFound = errors.New("submit: the leader does not know this driver")

// relaunched finds the id under which raftmaster says that a driver goes on.
var relaunched = regexp.MustCompile(`Relaunched as (driver-[0-9A-Za-z-]+)\.`)

// Wait asks for the status of a driver until its state is final, whoever leads meanwhile, and returns that status. A
// driver that is relaunched under another id is followed where the master names that id. It ends with ctx, with the last
// status that was seen.
func Wait(ctx context.Context, c Client, id string, opts WaitOptions) (Status, error) {
	if opts.Poll == 0 {
		opts.Poll = time.Second
	}
	if opts.Missing == 0 {
		opts.Missing = 10 * time.Second
	}
	w := waiter{opts: opts}
	for hops := 1; ; {
		s, err := c.Status(ctx, id)
		if ctx.Err() != nil {
			return w.last, ctx.Err()
		}
		done, err := w.take(s, err)
		if done || err != nil {
			return w.last, err
		}
		if next := relaunched.FindStringSubmatch(s.Message); s.State == StateRelaunching && next != nil {
			id = next[1]
			// A chain is followed at once, but a master whose drivers are each other's successors is not asked without a pause.
			if hops++; hops%maxHops != 0 {
				continue
			}
		} else if s.Final() {
			return w.last, nil
		}
		select {
		case <-ctx.Done():
			return w.last, ctx.Err()
		case <-time.After(opts.Poll):
		}
	}
}

// waiter is the memory of one Wait.
type waiter struct {
	opts    WaitOptions
	last    Status
	trouble bool
	missing time.Time
}

// take looks at one outcome. done: there is nothing to wait for.
func (w *waiter) take(s Status, err error) (done bool, _ error) {
	var invalid *InvalidError
	var wrong *GatewayError
	switch {
	case errors.As(err, &invalid), errors.As(err, &wrong):
		return true, err
	case err != nil:
		if !w.trouble && w.opts.OnTrouble != nil {
			w.opts.OnTrouble(err)
		}
		w.trouble = true
		return false, nil
	case !s.Found:
		if w.missing.IsZero() {
			w.missing = time.Now()
		}
		if time.Since(w.missing) >= w.opts.Missing {
			w.last = s
			return true, ErrNotFound
		}
		return false, nil
	}
	w.trouble, w.missing = false, time.Time{}
	changed := s.ID != w.last.ID || s.State != w.last.State || s.WorkerID != w.last.WorkerID
	w.last = s
	if changed && w.opts.OnChange != nil {
		w.opts.OnChange(s)
	}
	return false, nil
}
