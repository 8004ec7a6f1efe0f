package worker

import (
	"context"
	"errors"
	"fmt"
)

// CheckLoop returns nil when the Core's goroutine has answered: it handles whatever masters, executors and drivers say, and
// never waits for any of them. It may be called while the worker runs.
func (w *Worker) CheckLoop(ctx context.Context) error {
	answered := make(chan struct{})
	w.loop.post(func(c *Core) {
		text := c.summary()
		w.summary.Store(&text)
		close(answered)
	})
	select {
	case <-answered:
		return nil
	case <-w.loop.ended:
		return errors.New("the worker's loop has ended")
	case <-ctx.Done():
		return fmt.Errorf("the worker's loop does not answer: %w", ctx.Err())
	}
}

// StatusLine says in a few words what the worker does, as of the last CheckLoop.
func (w *Worker) StatusLine() string {
	if text := w.summary.Load(); text != nil {
		return *text
	}
	return "starting"
}

// summary is Core's part of it.
func (c *Core) summary() string {
	s := c.Status()
	master := "not registered with a master"
	if s.Connected {
		master = "registered with " + s.MasterURL
	}
	return fmt.Sprintf("%s; %d executors, %d drivers, %d of %d cores used", master, len(s.Executors), len(s.Drivers), s.CoresUsed, s.Cores)
}
