package fsm

import (
	"cmp"
	"fmt"
	"slices"
)

// restoreGap is what counters skip when nobody knows how far they had come after the snapshot: a number that was given
// then is not given again (G-06).
const restoreGap = 1000

// Reasons that a restore gives.
const (
	reasonEndedSince = "it has ended since the snapshot that was restored"
	reasonPortTaken  = "a newer driver is at its address since the snapshot that was restored"
)

// restoring joins the state of a snapshot (tx) with the state of now, under one rule: bookings, marks, order and history
// come from the snapshot, but nobody is told anything that takes back what he was told since. So, what has registered
// stays registered, what has ended stays ended, drivers stay where they run, and numbers never go back. Executors that
// were launched since are not booked; their workers are told to kill them when they give their lists.
type restoring struct {
	*tx
	now     View   // the state that is replaced
	from    *state // the snapshot
	same    bool   // both are of one cluster
	later   bool   // now knows all that happened since the snapshot
	outcome RestoreOutcome
}

func (r *restoring) join() error {
	r.dropStaged()
	r.joinGlobals()
	for _, step := range []func() error{r.oldDrivers, r.oldApps} {
		if err := step(); err != nil {
			return err
		}
	}
	r.oldWorkers()
	r.newWorkers()
	r.newDrivers()
	r.newApps()
	return nil
}

// joinGlobals keeps this cluster's name, settings and elections.
func (r *restoring) joinGlobals() {
	g, now := r.editGlobals(), r.now.state().globals
	g.ClusterID, g.Settings, g.Leaders, g.Level = now.ClusterID, now.Settings, now.Leaders, now.Level
	g.NextAppNumber = max(g.NextAppNumber, now.NextAppNumber)
	g.NextDriverNumber = max(g.NextDriverNumber, now.NextDriverNumber)
	g.NextCompleted, g.CompletedDrivers = max(g.NextCompleted, now.NextCompleted), max(g.CompletedDrivers, now.CompletedDrivers)
	if !r.later {
		g.NextAppNumber += restoreGap
		g.NextDriverNumber += restoreGap
	}
}

func (r *restoring) nextAppNumber() uint64 {
	g := r.editGlobals()
	g.NextAppNumber++
	return g.NextAppNumber - 1
}

// oldDrivers settles the unfinished drivers of the snapshot. Those that are unfinished now, too, make room for what is
// known of them now. A waiting one that nobody knows now may have been started since: it is not placed before all workers
// have had the time to give their lists.
func (r *restoring) oldDrivers() error {
	for _, d := range r.listDrivers(&r.tables.driverActive, nil) {
		now, known := r.now.Driver(d.ID)
		if known && !r.same {
			return fmt.Errorf("%w: driver %s is in the snapshot and, as another one, in this cluster", ErrInvalidCommand, clip(d.ID))
		}
		known = known && r.same && now.Number == d.Number
		switch {
		case known && !now.State.Finished():
			r.freeDriver(d)
			r.deleteDriver(d)
		case known:
			end := driverEnding{state: now.State, exception: now.Exception, reason: cmp.Or(now.EndReason, reasonEndedSince)}
			if now.State == DriverStateRelaunching {
				end.state, end.reason = DriverStateError, "it was started again as "+now.Successor
			}
			r.outcome.EndedDrivers++
			r.endDriver(d, end)
		case r.later:
			r.outcome.EndedDrivers++
			r.endDriver(d, driverEnding{state: DriverStateError, reason: reasonEndedSince})
		case !d.held():
			changed := *d
			changed.NotBeforeMillis = max(d.NotBeforeMillis, r.meta.NowMillis+maxLoopDelayMillis)
			r.putDriver(&changed)
		}
	}
	return nil
}

// oldApps settles the unfinished applications of the snapshot.
func (r *restoring) oldApps() error {
	for _, id := range r.tables.queue.collect(nil) {
		a := r.app(id)
		now, known := r.now.Application(id)
		if known && !r.same {
			return fmt.Errorf("%w: application %s is in the snapshot and, as another one, in this cluster", ErrInvalidCommand, clip(id))
		}
		known = known && r.same && now.Number == a.Number
		holder, taken := r.now.ApplicationByDriver(a.Driver)
		switch {
		case known && now.State.Finished():
			r.endOldApp(id, now.State, cmp.Or(now.EndReason, reasonEndedSince))
		case known:
			r.mergeApp(now)
		case r.later:
			r.endOldApp(id, AppFailed, reasonEndedSince)
		case taken && holder.ID != id:
			r.endOldApp(id, AppFailed, reasonPortTaken)
		default:
			r.editApp(id).NextExecutorID += restoreGap
		}
	}
	return nil
}

func (r *restoring) endOldApp(id string, state AppState, reason string) {
	r.outcome.EndedApps++
	r.endApp(id, state, reason, false)
}

// mergeApp keeps what the snapshot has booked, and what the driver has said since.
func (r *restoring) mergeApp(now *Application) {
	for _, e := range r.executorsOfApp(now.ID) {
		if _, runs := r.now.Executor(e.Key()); !runs && r.later {
			r.endExecutor(e, ending{state: ExecutorLost, message: reasonEndedSince})
		}
	}
	a := r.editApp(now.ID)
	held, merged := *a, *now
	merged.State, merged.CoresGranted, merged.ExecutorCount, merged.RunningCount, merged.DecommissionedCount =
		held.State, held.CoresGranted, held.ExecutorCount, held.RunningCount, held.DecommissionedCount
	merged.RemovedFirst, merged.RemovedNext = held.RemovedFirst, held.RemovedNext
	if merged.NextExecutorID = max(held.NextExecutorID, now.NextExecutorID); !r.later {
		merged.NextExecutorID += restoreGap
	}
	merged.Profiles = slices.Clone(now.Profiles)
	for i := range merged.Profiles {
		merged.Profiles[i].Executors = 0
		if p := held.profile(merged.Profiles[i].Profile.ID); p != nil {
			merged.Profiles[i].Executors = p.Executors
		}
	}
	*a = merged
}

// oldWorkers writes off what has gone since.
func (r *restoring) oldWorkers() {
	for _, w := range r.tables.workers.collect(nil) {
		if now, known := r.now.Worker(w.ID); w.Live() && r.later && (!known || !now.Live()) {
			r.removeWorker(w.ID, "it has gone since the snapshot that was restored")
		}
	}
}

// newWorkers takes over the facts and the marks of the workers that are live now.
func (r *restoring) newWorkers() {
	r.now.Workers(func(now *Worker) bool {
		if !now.Live() {
			return true
		}
		if holder, held := r.tables.workerByAddress.get(addressKey(now.Address)); held && holder != now.ID && r.worker(holder).Live() {
			r.removeWorker(holder, reasonReplaced)
		}
		w := r.worker(now.ID)
		if w == nil || !w.Live() {
			fresh := *now
			fresh.CoresUsed, fresh.MemoryUsedMB, fresh.ResourcesUsed, fresh.ExecutorCount, fresh.DriverCount = 0, 0, nil, 0, 0
			r.putWorker(now.ID, &fresh)
			return true
		}
		if now.Decommissioned && !w.Decommissioned {
			r.decommissionWorker(now.ID)
		}
		edited := r.editWorker(now.ID)
		merged := *now
		merged.CoresUsed, merged.MemoryUsedMB, merged.ResourcesUsed = edited.CoresUsed, edited.MemoryUsedMB, edited.ResourcesUsed
		merged.ExecutorCount, merged.DriverCount = edited.ExecutorCount, edited.DriverCount
		merged.State, merged.Decommissioned, merged.Draining = edited.State, edited.Decommissioned, now.Draining || edited.Draining
		*edited = merged
		return true
	})
}

// newDrivers takes over the unfinished drivers of now, with their places: a driver has no second copy.
func (r *restoring) newDrivers() {
	for _, id := range r.now.state().tables.driverActive.collect(nil) {
		now, _ := r.now.Driver(id)
		d := *now
		if before := r.driver(id); before != nil {
			r.deleteDriver(before) // another one of the same id, which has ended
		}
		if d.Number < r.from.globals.NextDriverNumber && !r.same {
			g := r.editGlobals()
			d.Number = g.NextDriverNumber
			g.NextDriverNumber++
		}
		if d.held() {
			w := r.editWorker(d.WorkerID)
			w.CoresUsed += d.Cores
			w.MemoryUsedMB += d.MemoryMB
			w.ResourcesUsed = addResources(w.ResourcesUsed, d.Resources)
			w.DriverCount++
		}
		if _, in := r.from.tables.drivers.get(idKey(id)); !in {
			r.outcome.KeptDrivers++
		}
		r.putDriver(&d)
	}
}

// newApps keeps the applications that have registered since, without executors.
func (r *restoring) newApps() {
	r.now.ActiveApplications(func(now *Application) bool {
		if known := r.app(now.ID); known != nil {
			if r.same && known.Number == now.Number {
				return true
			}
			r.forgetApplication(now.ID) // an ended one of the same name
		}
		a := *now
		a.State, a.CoresGranted, a.ExecutorCount, a.RunningCount, a.DecommissionedCount = AppWaiting, 0, 0, 0, 0
		a.RemovedFirst, a.RemovedNext = 0, 0
		a.Profiles = slices.Clone(now.Profiles)
		for i := range a.Profiles {
			a.Profiles[i].Executors = 0
		}
		if !r.later {
			a.Number = r.nextAppNumber()
		}
		r.outcome.KeptApps++
		r.putApp(a.ID, &a)
		return true
	})
}
