package fsm

import "cmp"

// loseDrivers ends or relaunches what ran on a worker that is gone (B-060, B-138).
func (t *tx) loseDrivers(workerID, message string) {
	for _, d := range t.driversOfWorker(workerID) {
		t.loseDriver(d, message)
	}
}

// loseDriver ends a driver that is not on its worker any more: a supervised one goes on under a new id, unless somebody
// wanted it ended.
func (t *tx) loseDriver(d *Driver, message string) {
	switch {
	case d.KillRequested:
		t.endDriver(d, driverEnding{state: DriverStateKilled, reason: message})
	case d.Supervise:
		t.relaunchDriver(d, message)
	default:
		t.endDriver(d, driverEnding{state: DriverStateError, reason: message})
	}
}

// relaunchDriver puts a successor into the queue. It has an id of its own, so that no late report of the old copy can
// be taken for its own (S10).
func (t *tx) relaunchDriver(d *Driver, message string) {
	next := &Driver{SubmittedAtMillis: t.meta.NowMillis, SubmitStamp: t.meta.Stamp, IDPattern: d.IDPattern, Cores: d.Cores,
		MemoryMB: d.MemoryMB, Supervise: true, ResourceReqs: d.ResourceReqs, MainClass: d.MainClass, JarURL: d.JarURL,
		Families: d.Families, Release: d.Release, Payload: d.Payload, PayloadSum: d.PayloadSum, Predecessor: d.ID,
		Origin: cmp.Or(d.Origin, d.ID), Attempt: d.Attempt + 1}
	if checkStamp(next.SubmitStamp) != nil {
		next.SubmitStamp = d.SubmitStamp
	}
	if t.meta.NowMillis-d.LaunchedAtMillis < driverQuickRunMillis {
		next.QuickRuns = d.QuickRuns + 1
	}
	if wait := max(t.globals.Settings.DriverRelaunchDelayMillis, crashLoopDelayMillis(next.QuickRuns)); wait > 0 {
		next.NotBeforeMillis = t.meta.NowMillis + wait
	}
	if err := t.nameDriver(next); err != nil {
		t.endDriver(d, driverEnding{state: DriverStateError, reason: message + "; " + err.Error()})
		return
	}
	t.endDriver(d, driverEnding{state: DriverStateRelaunching, reason: message, successor: next.ID})
	t.putDriver(next)
}

// reconcileDrivers compares a worker's list of drivers with the books, both ways (G-35).
func (t *tx) reconcileDrivers(c ReconcileWorker, w *Worker, result *ReconcileResult) {
	reported := make(map[string]bool, len(c.ReportedDrivers))
	for _, id := range c.ReportedDrivers {
		if reported[id] {
			continue
		}
		reported[id] = true
		d := t.driver(id)
		if d == nil || !d.held() || d.WorkerID != w.ID {
			t.emit(KillDriver{Worker: w.Ref(), DriverID: id})
			result.KilledDrivers = append(result.KilledDrivers, id)
			continue
		}
		t.deliverDriver(d)
		if d.KillRequested {
			t.emit(KillDriver{Worker: w.Ref(), DriverID: id}) // the first one may have been lost (G-36)
		}
	}
	for _, id := range c.MissingDrivers {
		if d := t.driver(id); d != nil && d.held() && d.WorkerID == w.ID && !reported[id] {
			t.missDriver(d, w, c.RequeueAtMillis)
			result.EndedDrivers = append(result.EndedDrivers, id)
		}
	}
}

// missDriver deals with a driver that its worker does not have. Without a receipt its launch was lost, most likely: it
// waits again, under its own id, since nobody has seen another. The kill is for the case that the list was wrong.
func (t *tx) missDriver(d *Driver, w *Worker, notBefore int64) {
	t.emit(KillDriver{Worker: w.Ref(), DriverID: d.ID})
	if d.Delivered || d.KillRequested {
		t.loseDriver(d, "driver is not on worker "+w.ID)
		return
	}
	t.freeDriver(d)
	changed := *d
	changed.State, changed.NotBeforeMillis, changed.LaunchedAtMillis = DriverStateSubmitted, max(notBefore, 0), 0
	changed.WorkerID, changed.WorkerHost, changed.WorkerPort, changed.WorkerWebUIURL = "", "", 0, ""
	changed.Resources = nil
	t.putDriver(&changed)
}

func (t *tx) deliverDriver(d *Driver) bool {
	if d.Delivered {
		return false
	}
	changed := *d
	changed.Delivered = true
	t.putDriver(&changed)
	return true
}
