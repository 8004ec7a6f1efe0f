package app

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"raftmaster/transport/sparkmsg"
	"raftmaster/transport/sparkrpc"
)

// executor is the record of one executor; guarded by App.mu.
type executor struct {
	Executor
	conn        *sparkrpc.Conn // nil unless Connected
	bmEndpoint  string         // the endpoint of its block manager
	askedFrom   string         // IP address from which its configuration was asked for
	lastWords   string         // reason in its RemoveExecutor
	exitTimer   *time.Timer    // runs while the connection is lost and the exit status is not known
	killAsked   bool           // Stop has asked the master to kill it
	killed      bool           // the master has answered that it killed it
	stopPushed  bool           // StopExecutor was sent
	closeReason string         // why this side closed the connection
}

// table holds the executors; guarded by App.mu.
type table struct {
	execs map[int32]*executor
	conns map[uint64]*executor // by connection id
	gone  []int32              // ended, oldest first
	live  int
}

func newTable() table {
	return table{execs: map[int32]*executor{}, conns: map[uint64]*executor{}}
}

// recordLocked returns the record of an executor, made if need be; nil if there are too many.
func (a *App) recordLocked(id int32) *executor {
	if e := a.execs[id]; e != nil {
		return e
	}
	if a.live >= a.cfg.Limits.Executors {
		a.log.Warn("too many executors: one is not followed", "executor_id", id, "limit", a.cfg.Limits.Executors)
		return nil
	}
	e := &executor{Executor: Executor{ID: id}}
	a.execs[id] = e
	a.live++
	return e
}

// stepLocked notes that an executor has reached a step.
func (a *App) stepLocked(e *executor, s Step) {
	if e.Reached(s) || !e.Ended.IsZero() {
		return
	}
	e.Times[s] = time.Now()
	a.log.Debug("executor step", "executor_id", e.ID, "step", s, "worker_id", e.WorkerID)
	a.eventLocked(Event{Kind: EventExecutorStep, Executor: e.ID, Step: s})
	a.changeLocked()
}

// snapshot copies the record for the outside.
func (e *executor) snapshot() Executor {
	out := e.Executor
	out.LogURLs = maps.Clone(e.LogURLs)
	if e.BlockManager != nil {
		id := *e.BlockManager
		out.BlockManager = &id
	}
	if e.Failure != nil {
		f := *e.Failure
		out.Failure = &f
	}
	if e.ExitStatus != nil {
		s := *e.ExitStatus
		out.ExitStatus = &s
	}
	return out
}

func (a *App) snapshotLocked() []Executor {
	out := make([]Executor, 0, len(a.execs))
	for _, id := range slices.Sorted(maps.Keys(a.execs)) {
		out = append(out, a.execs[id].snapshot())
	}
	return out
}

// onAdded and onUpdated follow what the master tells of executors.
func (a *App) onAdded(m *sparkmsg.ExecutorAdded) {
	a.mu.Lock()
	defer a.mu.Unlock()
	e := a.recordLocked(m.ID)
	if e == nil || e.Reached(StepGranted) {
		return
	}
	e.WorkerID, e.WorkerAddr, e.Cores, e.MemoryMB = m.WorkerID, m.HostPort, m.Cores, m.Memory
	a.log.Info("executor granted", "executor_id", m.ID, "worker_id", m.WorkerID, "cores", m.Cores, "memory_mb", m.Memory)
	a.stepLocked(e, StepGranted)
}

func (a *App) onUpdated(m *sparkmsg.ExecutorUpdated) {
	a.mu.Lock()
	defer a.mu.Unlock()
	e := a.recordLocked(m.ID)
	if e == nil {
		return
	}
	if e.Ended.IsZero() || m.State.Finished() {
		e.State = m.State
	}
	switch m.State {
	case sparkmsg.ExecutorLaunching:
		a.stepLocked(e, StepLaunching)
	case sparkmsg.ExecutorRunning:
		a.stepLocked(e, StepRunning)
	case sparkmsg.ExecutorDecommissioned:
		e.Stopping = true
		a.log.Info("executor is decommissioned with its worker", "executor_id", e.ID)
		if e.conn != nil {
			e.conn.Push(executorEndpoint, a.cfg.Family, &sparkmsg.DecommissionExecutor{})
		}
	}
	if !m.State.Finished() {
		return
	}
	if m.ExitStatus != nil {
		e.ExitStatus = m.ExitStatus
	}
	reason := m.State.String()
	if m.Message != nil && *m.Message != "" {
		reason += ": " + *m.Message
	}
	if m.ExitStatus != nil {
		reason += " (exit status " + strconv.Itoa(int(*m.ExitStatus)) + ")"
	}
	a.finishLocked(e, reason)
}

// finishLocked ends a record. For one that has ended already, because its connection was lost, it only tells what became
// of the process.
func (a *App) finishLocked(e *executor, reason string) {
	if e.exitTimer != nil {
		e.exitTimer.Stop()
		e.exitTimer = nil
	}
	if e.lastWords != "" {
		reason += "; it said: " + e.lastWords
	}
	if e.closeReason != "" {
		reason += "; " + e.closeReason
	}
	if !e.Ended.IsZero() {
		if e.Failure != nil {
			e.Failure.Reason = reason
		}
		a.changeLocked()
		return
	}
	if !e.Stopping {
		e.Failure = &Failure{Step: e.Next(), Reason: reason}
	}
	e.Ended = time.Now()
	if e.conn != nil {
		e.conn.Close("executor has ended")
		e.conn, e.Connected = nil, false
	}
	a.live--
	a.gone = append(a.gone, e.ID)
	for len(a.gone) > a.cfg.Limits.Ended {
		delete(a.execs, a.gone[0])
		a.gone = a.gone[1:]
	}
	if e.Failure != nil {
		a.log.Warn("executor failed", "executor_id", e.ID, "worker_id", e.WorkerID, "before", e.Failure.Step, "reason", reason)
	} else {
		a.log.Info("executor ended", "executor_id", e.ID, "worker_id", e.WorkerID, "reason", reason)
	}
	a.eventLocked(Event{Kind: EventExecutorEnded, Executor: e.ID, Step: e.Next(), Text: reason})
	a.changeLocked()
}

// onExecutorClosedLocked starts the wait for the exit status of an executor whose connection has ended: it comes by way
// of its worker and the master.
func (a *App) onExecutorClosedLocked(e *executor) {
	e.conn, e.Connected = nil, false
	if !e.Ended.IsZero() {
		return
	}
	a.log.Debug("connection of an executor ended", "executor_id", e.ID, "stopping", e.Stopping)
	if e.killed {
		a.finishKilledLocked(e)
		return
	}
	wait := a.cfg.Timers.ExitWait
	e.exitTimer = a.afterLocked(wait, func() {
		if e.Ended.IsZero() && e.exitTimer != nil {
			a.finishLocked(e, fmt.Sprintf("connection lost, and no exit status came within %s", wait))
		}
	})
	a.changeLocked()
}

func (a *App) takeTimersLocked() []*time.Timer {
	var timers []*time.Timer
	for _, e := range a.execs {
		if e.exitTimer != nil {
			timers = append(timers, e.exitTimer)
			e.exitTimer = nil
		}
	}
	return timers
}

// watch ends the connection of executors that have not been heard of for too long. An executor that lives ends itself
// when its driver is gone.
func (a *App) watch() {
	tick := time.NewTicker(max(a.cfg.Timers.Silence/4, time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-a.done:
			return
		}
		now := time.Now()
		var silent []*sparkrpc.Conn
		a.mu.Lock()
		for _, e := range a.conns {
			last := e.LastBeat
			if last.IsZero() {
				last = e.Times[StepRegistered]
			}
			if e.conn != nil && e.closeReason == "" && now.Sub(last) > a.cfg.Timers.Silence {
				e.closeReason = fmt.Sprintf("no heartbeat came for %s", a.cfg.Timers.Silence)
				silent = append(silent, e.conn)
			}
		}
		a.mu.Unlock()
		for _, c := range silent {
			c.Close("no heartbeat")
		}
	}
}
