package fsm

import (
	"slices"
	"strconv"
)

// ending says how an executor ended.
type ending struct {
	state      ExecutorState
	message    string
	exitStatus *int
}

// endExecutor takes an executor off the books of its worker and of its application, and remembers it.
func (t *tx) endExecutor(e *Executor, end ending) {
	t.deleteExecutor(e)
	w := t.editWorker(e.WorkerID)
	w.CoresUsed -= e.Cores
	w.MemoryUsedMB -= e.MemoryMB
	w.ResourcesUsed = removeResources(w.ResourcesUsed, e.Resources)
	w.ExecutorCount--
	a := t.editApp(e.AppID)
	if ranWell(e, t.meta.NowMillis) {
		a.forgive()
	}
	if e.State == ExecutorDecommissioned {
		a.DecommissionedCount--
	} else {
		a.drop(e)
	}
	t.putRemoved(&RemovedExecutor{AppID: e.AppID, ID: e.ID, WorkerID: e.WorkerID, WorkerHost: w.Host,
		WorkerWebUIURL: w.WebUIURL, ProfileID: e.ProfileID, Cores: e.Cores, MemoryMB: e.MemoryMB, State: end.state,
		LaunchedAtMillis: e.LaunchedAtMillis, EndedAtMillis: t.meta.NowMillis, Message: clip(end.message),
		ExitStatus: end.exitStatus, Seq: a.RemovedNext})
	a.RemovedNext++
	for a.RemovedNext-a.RemovedFirst > uint64(t.globals.Settings.RetainedExecutors) {
		t.deleteRemoved(a.ID, a.RemovedFirst)
		a.RemovedFirst++
	}
}

// drop takes a LAUNCHING or RUNNING executor off the application's books. The application must be an edited copy.
func (a *Application) drop(e *Executor) {
	a.CoresGranted -= e.Cores
	a.ExecutorCount--
	if e.State == ExecutorRunning {
		a.RunningCount--
	}
	a.profile(e.ProfileID).Executors--
	a.followExecutors()
}

// followExecutors sets the state by what the application holds, both ways (B-104; S05, S06).
func (a *Application) followExecutors() {
	switch {
	case a.State.Finished():
	case a.ExecutorCount > 0:
		a.State = AppRunning
	default:
		a.State = AppWaiting
	}
}

// runExecutor makes a LAUNCHING executor RUNNING. It forgives no failure yet, see crashloop.go.
func (t *tx) runExecutor(e *Executor) {
	changed := *e
	changed.State, changed.Delivered, changed.RunningAtMillis = ExecutorRunning, true, t.meta.NowMillis
	t.putExecutor(&changed)
	t.editApp(e.AppID).RunningCount++
}

func (t *tx) markDelivered(e *Executor) bool {
	if e.Delivered {
		return false
	}
	changed := *e
	changed.Delivered = true
	t.putExecutor(&changed)
	return true
}

func (t *tx) executorChanged(c ExecutorChanged) (any, error) {
	if !c.State.Valid() {
		return nil, invalid(c, "executor state %d", c.State)
	}
	e := t.executor(ExecutorKey{AppID: c.AppID, ExecID: c.ExecID})
	if e == nil || c.WorkerID != e.WorkerID {
		return ExecutorChangedResult{}, nil
	}
	result := ExecutorChangedResult{Known: true}
	switch {
	case c.State.Finished():
		result.AppFailed = t.executorFinished(e, c)
	case c.State == ExecutorRunning && e.State == ExecutorLaunching:
		t.runExecutor(e)
		t.emit(ExecutorUpdated{Driver: t.app(e.AppID).Ref(), ExecID: e.ID, State: ExecutorRunning, Message: c.Message,
			ExitStatus: c.ExitStatus})
	default:
		// LAUNCHING, and RUNNING once more: no news, but the worker has the launch (G-16).
		t.markDelivered(e)
	}
	return result, nil
}

// executorFinished ends an executor on its worker's report, and the application when it has failed too often. True
// means that it has.
func (t *tx) executorFinished(e *Executor, c ExecutorChanged) bool {
	end := ending{state: c.State, exitStatus: c.ExitStatus}
	if c.Message != nil {
		end.message = *c.Message
	}
	t.emit(ExecutorUpdated{Driver: t.app(e.AppID).Ref(), ExecID: e.ID, State: c.State, Message: c.Message,
		ExitStatus: c.ExitStatus})
	t.endExecutor(e, end)
	normalExit := c.ExitStatus != nil && *c.ExitStatus == 0
	if normalExit || e.State == ExecutorDecommissioned {
		return false
	}
	a := t.editApp(e.AppID)
	limit := t.globals.Settings.MaxExecutorRetries
	a.countFailure(e, t.meta.NowMillis, limit)
	if limit < 0 || a.RetryCount < limit || a.RunningCount > 0 {
		return false
	}
	reason := "executors failed " + strconv.Itoa(a.RetryCount) + " times in a row"
	t.finishApp(a.ID, AppFailed, reason, true)
	return true
}

// killExecutor ends an executor by the master's decision. The driver is not told (B-126).
func (t *tx) killExecutor(e *Executor, message string) {
	t.emit(KillExecutor{Worker: t.worker(e.WorkerID).Ref(), AppID: e.AppID, ExecID: e.ID})
	t.endExecutor(e, ending{state: ExecutorKilled, message: message})
}

func (t *tx) killExecutors(c KillExecutors) (any, error) {
	if t.activeApp(c.AppID) == nil {
		return KillResult{Unknown: c.IDs}, nil
	}
	result := KillResult{Known: true}
	for _, id := range c.IDs {
		var e *Executor
		if id >= 0 {
			e = t.executor(ExecutorKey{AppID: c.AppID, ExecID: id})
		}
		if e == nil {
			result.Unknown = append(result.Unknown, id)
			continue
		}
		t.killExecutor(e, "killed by the application")
	}
	return result, nil
}

func (t *tx) launchReceipts(c LaunchReceipts) (any, error) {
	n := 0
	for _, k := range c.Executors {
		if e := t.executor(k); e != nil && e.WorkerID == c.WorkerID && t.markDelivered(e) {
			n++
		}
	}
	for _, id := range c.Drivers {
		if d := t.driver(id); d != nil && d.held() && d.WorkerID == c.WorkerID && t.deliverDriver(d) {
			n++
		}
	}
	return n, nil
}

// markIncompatible believes the leader only as long as the executor is still LAUNCHING: a report that came in between
// proves that the worker understands its application.
func (t *tx) markIncompatible(c MarkIncompatible) (any, error) {
	if err := checkText("reason", c.Reason); err != nil {
		return nil, invalid(c, "%v", err)
	}
	w := t.worker(c.WorkerID)
	if t.activeApp(c.AppID) == nil || w == nil {
		return false, nil
	}
	if c.ExecID >= 0 {
		e := t.executor(ExecutorKey{AppID: c.AppID, ExecID: c.ExecID})
		if e == nil || e.WorkerID != c.WorkerID || e.State != ExecutorLaunching {
			return false, nil
		}
		t.emit(KillExecutor{Worker: w.Ref(), AppID: e.AppID, ExecID: e.ID})
		t.emit(ExecutorUpdated{Driver: t.app(e.AppID).Ref(), ExecID: e.ID, State: ExecutorFailed, Message: &c.Reason})
		t.endExecutor(e, ending{state: ExecutorFailed, message: c.Reason})
	}
	a := t.editApp(c.AppID)
	if i, found := slices.BinarySearch(a.IncompatibleWorkers, c.WorkerID); !found {
		if idsWeight(a.IncompatibleWorkers)+addressWeight+len(c.WorkerID) > MaxEntityBytes {
			return false, nil // the pair is not remembered; the executor has ended all the same
		}
		a.IncompatibleWorkers = slices.Insert(slices.Clone(a.IncompatibleWorkers), i, c.WorkerID)
	}
	return true, nil
}

// unmarkIncompatible forgets what was said about a worker.
func (t *tx) unmarkIncompatible(c UnmarkIncompatible) int {
	n := 0
	for _, id := range t.tables.queue.collect(nil) {
		if a := t.activeApp(id); a != nil && (c.AppID == "" || c.AppID == id) && incompatible(a, c.WorkerID) {
			t.forgetIncompatible(id, c.WorkerID)
			n++
		}
	}
	return n
}

func incompatible(a *Application, workerID string) bool {
	if len(a.IncompatibleWorkers) == 0 {
		return false
	}
	_, found := slices.BinarySearch(a.IncompatibleWorkers, workerID)
	return found
}

func (t *tx) forgetIncompatible(appID, workerID string) {
	a := t.editApp(appID)
	i, _ := slices.BinarySearch(a.IncompatibleWorkers, workerID)
	if kept := slices.Delete(slices.Clone(a.IncompatibleWorkers), i, i+1); len(kept) > 0 {
		a.IncompatibleWorkers = kept
	} else {
		a.IncompatibleWorkers = nil
	}
}
