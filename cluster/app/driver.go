package app

import (
	"context"
	"fmt"
	"net"
	"time"

	"raftmaster/transport/sparkmsg"
	"raftmaster/transport/sparkrpc"
)

// DriverEndpoint is the side of an App that executors talk to. Its methods are safe for concurrent use.
type DriverEndpoint struct{ a *App }

// Executors returns all executors known, by id, those that ended included (the last Limits.Ended).
func (d *DriverEndpoint) Executors() []Executor {
	d.a.mu.Lock()
	defer d.a.mu.Unlock()
	return d.a.snapshotLocked()
}

// Executor returns one executor.
func (d *DriverEndpoint) Executor(id int32) (Executor, bool) {
	d.a.mu.Lock()
	defer d.a.mu.Unlock()
	if e := d.a.execs[id]; e != nil {
		return e.snapshot(), true
	}
	return Executor{}, false
}

// Wait returns as soon as cond is true of the executors, looking again after every change. It returns the executors
// that it saw last, with the error of ctx, or ErrEnded, if cond was not true of them. cond must not block or call the
// App.
func (d *DriverEndpoint) Wait(ctx context.Context, cond func([]Executor) bool) ([]Executor, error) {
	for {
		d.a.mu.Lock()
		list, changed, ended := d.a.snapshotLocked(), d.a.changed, d.a.ended
		d.a.mu.Unlock()
		switch {
		case cond(list):
			return list, nil
		case ended != nil:
			return list, ended
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return list, fmt.Errorf("app: waiting for executors: %w", ctx.Err())
		}
	}
}

// ThreadDump asks an executor for the stack traces of its threads: a proof that the JVM works. The executor must have
// passed StepBlockManager.
func (d *DriverEndpoint) ThreadDump(ctx context.Context, id int32) (*sparkmsg.ThreadDump, error) {
	a := d.a
	a.mu.Lock()
	e := a.execs[id]
	var conn *sparkrpc.Conn
	var endpoint string
	if e != nil {
		conn, endpoint = e.conn, e.bmEndpoint
	}
	a.mu.Unlock()
	if conn == nil || endpoint == "" {
		return nil, fmt.Errorf("%w with a block manager: %d", ErrNoExecutor, id)
	}
	timeout := a.cfg.Timers.Ask
	if deadline, ok := ctx.Deadline(); ok {
		timeout = max(min(timeout, time.Until(deadline)), 0)
	}
	got := make(chan outcome, 1)
	conn.Ask(endpoint, a.cfg.Family, &sparkmsg.TriggerThreadDump{}, timeout,
		func(m sparkmsg.Message, err error) { got <- outcome{m, err} })
	select {
	case o := <-got:
		if o.err != nil {
			return nil, fmt.Errorf("app: thread dump of executor %d: %w", id, o.err)
		}
		dump, ok := o.answer.(*sparkmsg.ThreadDump)
		if !ok {
			return nil, fmt.Errorf("app: thread dump of executor %d: it answered %s", id, o.answer.MessageName())
		}
		return dump, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("app: thread dump of executor %d: %w", id, ctx.Err())
	}
}

// StopExecutor tells an executor to end. The master starts another one unless its total was lowered before.
func (d *DriverEndpoint) StopExecutor(id int32) error {
	return d.push(id, func(e *executor) { d.a.pushStopLocked(e) })
}

// DecommissionExecutor tells an executor to finish its work, move its blocks and end; it is told to stop when it reports
// that it has.
func (d *DriverEndpoint) DecommissionExecutor(id int32) error {
	return d.push(id, func(e *executor) {
		e.conn.Push(executorEndpoint, d.a.cfg.Family, &sparkmsg.DecommissionExecutor{})
	})
}

func (d *DriverEndpoint) push(id int32, push func(*executor)) error {
	d.a.mu.Lock()
	defer d.a.mu.Unlock()
	e := d.a.execs[id]
	if e == nil || e.conn == nil {
		return fmt.Errorf("%w: %d", ErrNoExecutor, id)
	}
	e.Stopping = true
	push(e)
	return nil
}

// hostOf returns the host of host:port, without the brackets of IPv6.
func hostOf(hostPort string) string {
	host, _, err := net.SplitHostPort(hostPort)
	if err != nil {
		return hostPort
	}
	return host
}
