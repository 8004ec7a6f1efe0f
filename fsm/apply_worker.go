package fsm

import "slices"

// Messages of these forms reach drivers and the UI; Spark's own texts, which people search for.
const (
	reasonReplaced       = "Worker replaced by a new worker with same address"
	messageDecommissions = "worker decommissioned"
	messageLostPrefix    = "worker lost: "
)

func (t *tx) registerWorker(c RegisterWorker) (any, error) {
	resources, err := normalResources(c.Resources)
	if err := firstError(err, checkID("worker id", c.ID), checkAddress("worker", Address{Host: c.Host, Port: c.Port}),
		checkAddress("worker RPC", c.Address), checkAmount("cores", c.Cores), checkAmount("memory", c.MemoryMB),
		checkURL("web UI URL", c.WebUIURL)); err != nil {
		return nil, invalid(c, "%v", err)
	}
	if w := resourcesWeight(resources); w > MaxEntityBytes {
		return nil, tooLarge(c, "the list of resources", w)
	}
	c.Resources = resources
	t.dropDeadPredecessors(c)
	result := RegisterWorkerResult{Outcome: WorkerRegistered}
	if holderID, held := t.tables.workerByAddress.get(addressKey(c.Address)); held && holderID != c.ID {
		result.HolderID = holderID
		if holderID != c.ReplaceHolder {
			result.Outcome = WorkerAddressInUse
			return result, nil
		}
		t.removeWorker(holderID, reasonReplaced)
		result.Outcome = WorkerReplaced
	}
	old := t.worker(c.ID)
	switch {
	case old == nil:
		t.putWorker(c.ID, t.freshWorker(c, WorkerAlive))
	case old.Live():
		t.refreshWorker(c)
		if result.Outcome == WorkerRegistered {
			result.Outcome = WorkerDuplicate
		}
	default:
		t.reviveRegistered(c, old)
		if result.Outcome == WorkerRegistered {
			result.Outcome = WorkerRevived
		}
	}
	return result, nil
}

// dropDeadPredecessors forgets the DEAD entries of the same host and port, whatever becomes of the registration
// (B-014).
func (t *tx) dropDeadPredecessors(c RegisterWorker) {
	hostPort := Address{Host: c.Host, Port: c.Port}.String()
	ids := t.tables.deadByHostPort.collect(pairKey(hostPort, ""))
	t.forgetWorkers(slices.DeleteFunc(ids, func(id string) bool { return id == c.ID }))
}

func (t *tx) freshWorker(c RegisterWorker, state WorkerState) *Worker {
	return &Worker{ID: c.ID, Host: c.Host, Port: c.Port, Address: c.Address, Cores: c.Cores, MemoryMB: c.MemoryMB,
		Resources: c.Resources, WebUIURL: c.WebUIURL, State: state, Families: c.Families,
		RegisteredAtMillis: t.meta.NowMillis}
}

// refreshWorker takes over the facts of a live worker that registers again; what it holds stays (B-012, G-05).
func (t *tx) refreshWorker(c RegisterWorker) {
	w := t.editWorker(c.ID)
	w.Host, w.Port, w.Address = c.Host, c.Port, c.Address
	w.Cores, w.MemoryMB, w.Resources, w.WebUIURL = c.Cores, c.MemoryMB, c.Resources, c.WebUIURL
	if c.Families != 0 {
		w.Families = c.Families
	}
}

// reviveRegistered starts a DEAD entry afresh. What the process is (release, marks) it still is: a worker's id lasts as
// long as its process (B-204).
func (t *tx) reviveRegistered(c RegisterWorker, old *Worker) {
	w := t.freshWorker(c, liveState(old))
	w.Release, w.Decommissioned, w.Draining = old.Release, old.Decommissioned, old.Draining
	if w.Families == 0 {
		w.Families = old.Families
	}
	t.putWorker(c.ID, w)
}

func liveState(w *Worker) WorkerState {
	if w.Decommissioned {
		return WorkerDecommissioned
	}
	return WorkerAlive
}

func (t *tx) removeWorkerCommand(c RemoveWorker) (any, error) {
	if err := checkText("reason", c.Reason); err != nil {
		return nil, invalid(c, "%v", err)
	}
	if w := t.worker(c.ID); w == nil || !w.Live() {
		return false, nil
	}
	t.removeWorker(c.ID, c.Reason)
	return true, nil
}

// removeWorker makes a live worker DEAD and tells everybody (B-060). Losing an executor this way is no failure of its
// application.
func (t *tx) removeWorker(id, reason string) {
	w := t.editWorker(id)
	message, host := messageLostPrefix+reason, w.Host
	for _, e := range t.executorsOfWorker(id) {
		t.emit(ExecutorUpdated{Driver: t.app(e.AppID).Ref(), ExecID: e.ID, State: ExecutorLost, Message: &message,
			WorkerHost: &host})
		t.endExecutor(e, ending{state: ExecutorLost, message: message})
	}
	t.loseDrivers(id, message)
	w.State, w.DiedAtMillis, w.DiedReason = WorkerDead, t.meta.NowMillis, reason
	t.emit(WorkerRemoved{WorkerID: id, Host: w.Host, Message: reason, Drivers: t.activeDrivers()})
}

func (t *tx) activeDrivers() []DriverRef {
	var out []DriverRef
	for _, id := range t.tables.queue.collect(nil) {
		if a := t.activeApp(id); a != nil {
			out = append(out, a.Ref())
		}
	}
	return out
}

func (t *tx) reapWorkers(c ReapWorkers) (any, error) {
	var dead []string
	for _, id := range c.IDs {
		if w := t.worker(id); w != nil && !w.Live() && !slices.Contains(dead, id) {
			dead = append(dead, id)
		}
	}
	t.forgetWorkers(dead)
	return len(dead), nil
}

// forgetWorkers drops DEAD entries, and the incompatibilities that name them: their ids never come back.
func (t *tx) forgetWorkers(ids []string) {
	if len(ids) == 0 {
		return
	}
	for _, id := range ids {
		t.putWorker(id, nil)
	}
	for _, appID := range t.tables.queue.collect(nil) {
		a := t.activeApp(appID)
		if a == nil || len(a.IncompatibleWorkers) == 0 {
			continue
		}
		for _, id := range ids {
			if incompatible(t.app(appID), id) {
				t.forgetIncompatible(appID, id)
			}
		}
	}
}

func (t *tx) decommissionWorkers(c DecommissionWorkers) (any, error) {
	var result DecommissionResult
	for _, id := range c.IDs {
		w := t.worker(id)
		if w == nil || !w.Live() {
			continue
		}
		result.Matched++
		if w.State != WorkerDecommissioned {
			t.decommissionWorker(id)
			result.Changed = append(result.Changed, id)
		}
		if c.Notify {
			t.emit(DecommissionWorker{Worker: w.Ref()})
		}
	}
	return result, nil
}

// decommissionWorker takes the worker's executors from their applications, so that others can replace them, but leaves
// them booked on the worker, where they still run (B-066).
func (t *tx) decommissionWorker(id string) {
	w := t.editWorker(id)
	w.State, w.Decommissioned = WorkerDecommissioned, true
	message, host := messageDecommissions, w.Host
	for _, e := range t.executorsOfWorker(id) {
		t.emit(ExecutorUpdated{Driver: t.app(e.AppID).Ref(), ExecID: e.ID, State: ExecutorDecommissioned,
			Message: &message, WorkerHost: &host})
		a := t.editApp(e.AppID)
		a.drop(e)
		a.DecommissionedCount++
		changed := *e
		changed.State = ExecutorDecommissioned
		t.putExecutor(&changed)
	}
}

// drainWorkers marks what keeps new work away, or unmarks it.
func (t *tx) drainWorkers(c DrainWorkers) DrainResult {
	var result DrainResult
	for _, id := range c.IDs {
		w := t.worker(id)
		if w == nil {
			continue
		}
		result.Matched++
		switch {
		case w.Draining == c.On:
		case c.On && c.IdleOnly && w.ExecutorCount+w.DriverCount > 0:
			result.Busy = append(result.Busy, id)
		default:
			t.editWorker(id).Draining = c.On
			result.Changed = append(result.Changed, id)
		}
	}
	return result
}

func (t *tx) reconcileWorker(c ReconcileWorker) (any, error) {
	w := t.worker(c.WorkerID)
	if w == nil || (!w.Live() && (c.Unasked || !t.reviveAnswering(w))) {
		return ReconcileResult{}, nil
	}
	result := ReconcileResult{Known: true, Revived: !w.Live()}
	reported := make(map[ExecutorKey]bool, len(c.Reported))
	for _, r := range c.Reported {
		key := ExecutorKey{AppID: r.AppID, ExecID: r.ExecID}
		if reported[key] {
			continue
		}
		reported[key] = true
		if e := t.executor(key); e != nil && e.WorkerID == c.WorkerID {
			t.confirmReported(e, r.State)
			continue
		}
		t.emit(KillExecutor{Worker: w.Ref(), AppID: r.AppID, ExecID: r.ExecID})
		result.Killed = append(result.Killed, key)
	}
	for _, key := range c.Missing {
		if e := t.executor(key); e != nil && e.WorkerID == c.WorkerID && !reported[key] {
			t.endMissing(w, e)
			result.Ended = append(result.Ended, key)
		}
	}
	t.reconcileDrivers(c, w, &result)
	return result, nil
}

// reviveAnswering brings back a DEAD worker that has answered; everything on it was written off, so that it starts
// empty. It fails when another worker has taken its address.
func (t *tx) reviveAnswering(old *Worker) bool {
	if _, held := t.tables.workerByAddress.get(addressKey(old.Address)); held {
		return false
	}
	w := t.editWorker(old.ID)
	w.State, w.DiedAtMillis, w.DiedReason = liveState(old), 0, ""
	w.RegisteredAtMillis = t.meta.NowMillis
	return true
}

// confirmReported makes a reported executor RUNNING, if that is news; a second list changes nothing (G-17).
func (t *tx) confirmReported(e *Executor, reported ExecutorState) {
	if reported == ExecutorRunning && e.State == ExecutorLaunching {
		t.runExecutor(e)
		t.emit(ExecutorUpdated{Driver: t.app(e.AppID).Ref(), ExecID: e.ID, State: ExecutorRunning})
		return
	}
	t.markDelivered(e)
}

// endMissing ends an executor that its worker does not have. It counts as no failure: either its launch was lost, or
// its end was not reported. The kill is for the case that the list was wrong.
func (t *tx) endMissing(w *Worker, e *Executor) {
	message := "executor is not on worker " + w.ID
	t.emit(ExecutorUpdated{Driver: t.app(e.AppID).Ref(), ExecID: e.ID, State: ExecutorLost, Message: &message})
	t.emit(KillExecutor{Worker: w.Ref(), AppID: e.AppID, ExecID: e.ID})
	t.endExecutor(e, ending{state: ExecutorLost, message: message})
}
