package fsm

import (
	"cmp"
	"fmt"
)

func (t *tx) submitDriver(c SubmitDriver) (any, error) {
	reqs, err := normalAmounts(c.ResourceReqs)
	if err == nil && len(c.Payload) > MaxPayloadBytes {
		err = fmt.Errorf("payload has %d bytes, the limit is %d", len(c.Payload), MaxPayloadBytes)
	}
	if err := firstError(err, checkStamp(c.Stamp), checkAmount("driver cores", c.Cores),
		checkAmount("driver memory", c.MemoryMB), checkURL("main class", c.MainClass), checkURL("jar URL", c.JarURL),
		checkURL("client", c.Client),
		checkURL("release", c.Release)); err != nil {
		return nil, invalid(c, "%w", err)
	}
	switch {
	case t.totals.DriversWaiting >= MaxWaitingDrivers:
		return nil, ErrTooManyDrivers
	case t.totals.DriverPayloadBytes+len(c.Payload) > MaxDriverPayloads:
		return nil, fmt.Errorf("%w: the descriptions of unfinished drivers may have %d bytes together", ErrTooManyDrivers, MaxDriverPayloads)
	}
	d := &Driver{SubmittedAtMillis: t.meta.NowMillis, SubmitStamp: c.Stamp, IDPattern: c.IDPattern, Cores: c.Cores,
		MemoryMB: c.MemoryMB, Supervise: c.Supervise, ResourceReqs: reqs, MainClass: c.MainClass, JarURL: c.JarURL,
		Families: c.Families, Release: c.Release, Client: c.Client, Payload: c.Payload, PayloadSum: payloadSum(c.Payload)}
	if err := t.nameDriver(d); err != nil {
		return nil, invalid(c, "%w", err)
	}
	t.putDriver(d)
	return DriverSubmitted{ID: d.ID}, nil
}

// nameDriver gives a new driver its number and its id.
func (t *tx) nameDriver(d *Driver) error {
	number := t.globals.NextDriverNumber
	id, err := formatID(cmp.Or(d.IDPattern, DefaultDriverIDPattern), d.SubmitStamp, number)
	if err == nil {
		id, err = uniqueID(id, number, func(id string) bool { return t.driver(id) != nil })
	}
	if err != nil {
		return err
	}
	d.ID, d.Number = id, number
	t.editGlobals().NextDriverNumber++
	return nil
}

func (t *tx) requestKillDriver(c RequestKillDriver) (any, error) {
	d := t.lastSuccessor(c.DriverID)
	if d == nil && c.DriverID != "" {
		d = t.unfinishedOf(c.DriverID)
	}
	if d == nil || d.State.Finished() {
		return DriverKill{}, nil
	}
	return DriverKill{Known: true, ID: d.ID, Waiting: t.killDriver(d)}, nil
}

// lastSuccessor follows the chain of relaunches; nil if the id is unknown.
func (t *tx) lastSuccessor(id string) *Driver { return lastOfChain(t.driver, id) }

// unfinishedOf finds the driver that goes on for a forgotten one, by the first id of its chain; nil if there is none.
func (t *tx) unfinishedOf(origin string) *Driver {
	for _, d := range t.listDrivers(&t.tables.driverActive, nil) {
		if d.Origin == origin {
			return d
		}
	}
	return nil
}

// killDriver ends a waiting driver (true), or asks the worker of a running one to end it.
func (t *tx) killDriver(d *Driver) bool {
	if !d.held() {
		t.endDriver(d, driverEnding{state: DriverStateKilled, reason: "killed while it was waiting"})
		return true
	}
	if !d.KillRequested {
		changed := *d
		changed.KillRequested = true
		t.putDriver(&changed)
	}
	t.emit(KillDriver{Worker: t.worker(d.WorkerID).Ref(), DriverID: d.ID})
	return false
}

func (t *tx) killAllDrivers() AllDriversKill {
	var result AllDriversKill
	for _, d := range t.listDrivers(&t.tables.driverActive, nil) {
		if t.killDriver(d) {
			result.Ended = append(result.Ended, d.ID)
		} else {
			result.Asked = append(result.Asked, d.ID)
		}
	}
	return result
}

// driverChanged believes only the worker that holds the driver: after a relaunch, the old worker's report is about
// another id, and after a lost launch about a copy that was never meant to be (S10).
func (t *tx) driverChanged(c DriverChanged) (any, error) {
	if c.State != DriverStateFinished && !c.State.endsByReport() {
		return nil, invalid(c, "%s is not an end that a worker reports", c.State)
	}
	d := t.driver(c.DriverID)
	if d == nil || !d.held() || d.WorkerID != c.WorkerID {
		return DriverChangedResult{}, nil
	}
	t.endDriver(d, driverEnding{state: c.State, exception: c.Exception})
	return DriverChangedResult{Known: true}, nil
}

// driverEnding says how a driver ended.
type driverEnding struct {
	state             DriverState
	exception, reason string
	successor         string
}

// endDriver moves a driver to the completed ones (B-139) and frees what it held.
func (t *tx) endDriver(d *Driver, end driverEnding) {
	t.trimCompletedDrivers()
	t.freeDriver(d)
	g := t.editGlobals()
	g.CompletedDrivers++
	changed := *d
	changed.State, changed.EndedAtMillis, changed.CompletedSeq = end.state, t.meta.NowMillis, g.CompletedDrivers
	changed.Exception, changed.EndReason, changed.Successor = clip(end.exception), clip(end.reason), end.successor
	changed.Payload, changed.PayloadSum, changed.NotBeforeMillis = nil, nil, 0
	t.putDriver(&changed)
}

// freeDriver takes a driver off its worker's books, if it is on them.
func (t *tx) freeDriver(d *Driver) {
	if !d.held() {
		return
	}
	w := t.editWorker(d.WorkerID)
	w.CoresUsed -= d.Cores
	w.MemoryUsedMB -= d.MemoryMB
	w.ResourcesUsed = removeResources(w.ResourcesUsed, d.Resources)
	w.DriverCount--
}

// trimCompletedDrivers makes room for one more completed driver: in batches, as Spark does (B-139).
func (t *tx) trimCompletedDrivers() {
	completed := t.totals.DriversCompleted
	if limit := t.globals.Settings.RetainedDrivers; completed >= limit && completed > 0 {
		t.forgetDrivers(max(limit/10, 1, completed-limit+1))
	}
}

// forgetDrivers drops up to n completed drivers, oldest first, and tells how many it dropped.
func (t *tx) forgetDrivers(n int) int {
	oldest := t.listDrivers(&t.tables.driverCompleted, nil)
	oldest = oldest[:min(n, len(oldest))]
	for _, d := range oldest {
		t.deleteDriver(d)
	}
	return len(oldest)
}
