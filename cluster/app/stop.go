package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"raftmaster/transport/frame"
	"raftmaster/transport/sparkmsg"
	"raftmaster/transport/sparkrpc"
)

// Stop leaves in order: the total of every profile is set to 0, executors are told to stop (those that have not
// registered are killed through the master), their end is awaited, the application is unregistered. It returns what
// could not be confirmed within Timers.Leave and the deadline of ctx; what has not ended by then is killed by the master,
// which an unregistration makes do so. The App is closed afterwards in any case.
func (a *App) Stop(ctx context.Context) error {
	defer a.Close()
	ctx, cancel := context.WithTimeout(ctx, a.cfg.Timers.Leave)
	defer cancel()
	a.mu.Lock()
	a.leaving = true
	id, ended := a.id, a.ended
	totals := make(map[int32]int32, len(a.profiles))
	for p := range a.profiles {
		totals[p] = 0
	}
	a.mu.Unlock()
	if id == "" || ended != nil {
		return nil // nothing is registered (any more)
	}
	a.log.Info("leaving", "app_id", id)
	// The last part of the time is for the unregistration: the master then kills what has not ended.
	end, _ := ctx.Deadline()
	stopping, cancelStopping := context.WithTimeout(ctx, time.Until(end)*3/4)
	defer cancelStopping()
	var errs []error
	// First, or the master replaces every executor that stops.
	if err := a.RequestExecutors(stopping, totals); err != nil {
		errs = append(errs, fmt.Errorf("app: executors could not be given up: %w", err))
	}
	if err := a.stopExecutors(stopping); err != nil {
		errs = append(errs, err)
	}
	if err := a.unregister(ctx); err != nil {
		errs = append(errs, err)
	}
	if len(errs) == 0 {
		a.log.Info("application unregistered", "app_id", id)
	}
	return errors.Join(errs...)
}

// stopExecutors ends all executors and waits for their end.
func (a *App) stopExecutors(ctx context.Context) error {
	for {
		a.mu.Lock()
		var kill, left []int32
		for id, e := range a.execs {
			if !e.Ended.IsZero() {
				continue
			}
			left = append(left, id)
			e.Stopping = true
			switch {
			case e.conn != nil:
				a.pushStopLocked(e)
			case !e.Reached(StepRegistered) && !e.killAsked:
				e.killAsked = true
				kill = append(kill, id)
			}
		}
		changed, ended := a.changed, a.ended
		a.mu.Unlock()
		switch {
		case ended != nil || len(left) == 0:
			return nil
		case len(kill) > 0:
			if err := a.KillExecutors(ctx, kill); err != nil {
				return fmt.Errorf("app: executors %v could not be killed: %w", kill, err)
			}
			continue
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("app: executors %v have not ended: %w", left, ctx.Err())
		}
	}
}

// unregister tells the leader that the application is over. The question after it is answered when the message before
// it, on the same connection, has arrived.
func (a *App) unregister(ctx context.Context) error {
	for {
		a.mu.Lock()
		id, to, gen, ended := a.id, a.master, a.masterGen, a.ended
		a.mu.Unlock()
		if ended != nil || to == (frame.Address{}) {
			return nil
		}
		a.ep.Send(to, masterEndpoint, a.cfg.Family, &sparkmsg.UnregisterApplication{AppID: id})
		o := a.askOnce(ctx, to, sparkrpc.VerifierEndpoint, &sparkmsg.CheckExistence{Name: masterEndpoint}, gen)
		if o.err == nil {
			return nil
		}
		if err := a.sleep(ctx, a.cfg.Timers.AskRetry); err != nil {
			return fmt.Errorf("app: application %s could not be unregistered at %s: %w", id, to, o.err)
		}
	}
}
