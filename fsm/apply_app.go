package fsm

import (
	"cmp"
	"fmt"
	"slices"
)

// sparkDefaultMemoryMB is the executor memory of an application that names none (ApplicationInfo.scala).
const sparkDefaultMemoryMB = 1024

func (t *tx) registerApplication(c RegisterApplication) (any, error) {
	profile, err := checkApplication(c)
	if err != nil {
		return nil, invalid(c, "%w", err)
	}
	result := RegisterApplicationResult{Outcome: AppRegistered}
	if oldID, held := t.tables.appByDriver.get(addressKey(c.Driver)); held {
		if old := t.app(oldID); c.KeepID || !old.Confirmed {
			t.refreshApplication(old, c)
			return RegisterApplicationResult{AppID: oldID, Outcome: AppRepeated}, nil
		}
		// No ApplicationRemoved: its address is now the new driver's, which would take it for its own end.
		t.finishApp(oldID, AppFailed, "replaced by a new driver at the same address", false)
		result.Outcome, result.OldAppID = AppReplaced, oldID
	}
	a := t.newApplication(c, profile)
	if err := t.nameApplication(a, c); err != nil {
		return nil, invalid(c, "%w", err)
	}
	if w := applicationWeight(a); w > MaxEntityBytes {
		return nil, tooLarge(c, "the application", w)
	}
	t.putApp(a.ID, a)
	result.AppID = a.ID
	return result, nil
}

// checkApplication validates a registration and gives the default profile in the state's form.
func checkApplication(c RegisterApplication) (Profile, error) {
	profile, err := normalProfile(c.DefaultProfile, Profile{MemoryMB: sparkDefaultMemoryMB})
	if err == nil && profile.ID != DefaultProfileID {
		err = fmt.Errorf("the default profile has id %d", profile.ID)
	}
	if err == nil && len(c.Payload) > MaxPayloadBytes {
		err = fmt.Errorf("payload has %d bytes, the limit is %d", len(c.Payload), MaxPayloadBytes)
	}
	return profile, firstError(err, checkStamp(c.Stamp), checkText("name", c.Name), checkText("user", c.User),
		checkURL("UI URL", c.UIURL), checkAddress("driver", c.Driver))
}

// checkStamp accepts yyyyMMddHHmmss; the stamp becomes part of a key and of directory names.
func checkStamp(stamp string) error {
	if len(stamp) != len("yyyyMMddHHmmss") {
		return fmt.Errorf("stamp %q has %d characters", clip(stamp), len(stamp))
	}
	for i := range len(stamp) {
		if stamp[i] < '0' || stamp[i] > '9' {
			return fmt.Errorf("stamp %q is not all digits", stamp)
		}
	}
	return nil
}

// refreshApplication learns the families of a driver that repeats its registration; all else it said already.
func (t *tx) refreshApplication(old *Application, c RegisterApplication) {
	if c.Families != 0 && c.Families != old.Families {
		t.editApp(old.ID).Families = c.Families
	}
}

// nameApplication gives the application its number, from a counter that never goes back, and its id (B-201, B-202, G-06,
// G-07).
func (t *tx) nameApplication(a *Application, c RegisterApplication) error {
	number := t.globals.NextAppNumber
	id := ""
	if c.NameAsID {
		id = nameAsID(c.Name)
	}
	if id == "" {
		shown := number
		if c.NumberModulo > 0 {
			shown %= uint64(c.NumberModulo)
		}
		var err error
		if id, err = formatID(cmp.Or(c.IDPattern, DefaultAppIDPattern), c.Stamp, shown); err != nil {
			return err
		}
	}
	id, err := uniqueID(id, number, func(id string) bool { return t.app(id) != nil })
	if err != nil {
		return err
	}
	a.ID, a.Number = id, number
	t.editGlobals().NextAppNumber++
	return nil
}

func (t *tx) newApplication(c RegisterApplication, profile Profile) *Application {
	target := UnlimitedExecutors
	if c.InitialExecutorLimit != nil {
		target = max(*c.InitialExecutorLimit, 0)
	}
	requested := c.DefaultCores
	if requested <= 0 {
		requested = UnlimitedCores
	}
	if c.MaxCores != nil {
		requested = max(*c.MaxCores, 0)
	}
	return &Application{
		Name: c.Name, User: c.User, UIURL: c.UIURL,
		Driver: c.Driver, State: AppWaiting, StartMillis: t.meta.NowMillis, SubmitStamp: c.Stamp,
		InitialExecutors: c.InitialExecutorLimit, MaxCores: c.MaxCores,
		RequestedCores: min(requested, UnlimitedCores), Families: c.Families, Payload: c.Payload,
		PayloadSum: payloadSum(c.Payload),
		Profiles:   []ProfileState{{Profile: profile, Target: min(target, UnlimitedExecutors)}},
	}
}

func (t *tx) finishApplicationCommand(c FinishApplication) (any, error) {
	if !c.State.Finished() {
		return nil, invalid(c, "%s is not a final state", c.State)
	}
	if err := checkText("reason", c.Reason); err != nil {
		return nil, invalid(c, "%w", err)
	}
	if t.activeApp(c.AppID) == nil {
		return false, nil
	}
	t.finishApp(c.AppID, c.State, c.Reason, c.State != AppFinished)
	return true, nil
}

// finishApp ends an application (B-113): its executors are killed, also those on decommissioned workers, its driver
// and all workers are told.
func (t *tx) finishApp(id string, state AppState, reason string, tellDriver bool) {
	t.trimCompleted()
	t.endApp(id, state, reason, tellDriver)
}

// endApp is finishApp without room made for it first, which works once in a command only.
func (t *tx) endApp(id string, state AppState, reason string, tellDriver bool) {
	granted := t.app(id).CoresGranted
	for _, e := range t.executorsOfApp(id) {
		t.killExecutor(e, "application finished")
	}
	a := t.editApp(id)
	a.State, a.EndMillis, a.EndReason, a.CoresGranted = state, t.meta.NowMillis, clip(reason), granted
	// What only an unfinished application needs goes: the payload is by far the largest part.
	a.LoopFailures, a.LastFailureMillis, a.NotBeforeMillis = 0, 0, 0
	// A completed application keeps its default profile alone: many are retained.
	a.Payload, a.PayloadSum, a.IncompatibleWorkers, a.Profiles = nil, nil, nil, a.Profiles[:1:1]
	g := t.editGlobals()
	a.CompletedSeq = g.NextCompleted
	g.NextCompleted++
	if tellDriver {
		t.emit(ApplicationRemoved{Driver: a.Ref(), State: state})
	}
	t.emit(ApplicationFinished{AppID: id, Workers: t.allWorkers()})
}

// allWorkers lists all workers. The list is shared by all commands that find the same workers: it must not be changed.
func (t *tx) allWorkers() []WorkerRef {
	known := t.refs != nil && t.refs.list != nil && t.refs.fleet == t.fleet
	for i := range t.workerEdits {
		known = known && !fleetDiffers(&t.workerEdits[i])
	}
	if known {
		return t.refs.list
	}
	list := t.listWorkers()
	if t.refs != nil && !slices.ContainsFunc(t.workerEdits, func(e edit[Worker]) bool { return fleetDiffers(&e) }) {
		*t.refs = workerRefs{fleet: t.fleet, list: list}
	}
	return list
}

func (t *tx) listWorkers() []WorkerRef {
	workers := t.tables.workers.collect(nil)
	out := make([]WorkerRef, 0, len(workers))
	for _, old := range workers {
		if w := t.worker(old.ID); w != nil {
			out = append(out, w.Ref())
		}
	}
	return out
}

// trimCompleted makes room for one more completed application: in batches, as Spark does (B-113).
func (t *tx) trimCompleted() {
	limit := t.globals.Settings.RetainedApplications
	ids := t.tables.completed.collect(nil)
	if len(ids) < limit || len(ids) == 0 {
		return
	}
	drop := max(limit/10, 1, len(ids)-limit+1)
	for _, id := range ids[:min(drop, len(ids))] {
		t.forgetApplication(id)
	}
}

// forgetApplication drops a completed application and its ended executors.
func (t *tx) forgetApplication(id string) {
	a := t.app(id)
	for seq := a.RemovedFirst; seq < a.RemovedNext; seq++ {
		t.deleteRemoved(id, seq)
	}
	t.putApp(id, nil)
}

func (t *tx) confirmApplication(c ConfirmApplication) (any, error) {
	a := t.activeApp(c.AppID)
	if a == nil {
		return false, nil
	}
	if !a.Confirmed {
		t.editApp(c.AppID).Confirmed = true
	}
	return true, nil
}

// setTargets sets what is named and leaves the rest alone (B-132). The first definition of a profile stays (B-131).
func (t *tx) setTargets(c SetTargets) (any, error) {
	if len(c.Targets) > MaxListEntries {
		return nil, invalid(c, "%d targets, the limit is %d", len(c.Targets), MaxListEntries)
	}
	a := t.activeApp(c.AppID)
	if a == nil {
		return false, nil
	}
	defaults := a.profile(DefaultProfileID).Profile
	wanted := make([]ProfileTarget, len(c.Targets))
	for i, target := range c.Targets {
		p, err := normalProfile(target.Profile, Profile{Cores: defaults.Cores, MemoryMB: defaults.MemoryMB})
		if err := firstError(err, checkAmount("target", target.Total)); err != nil {
			return nil, invalid(c, "%w", err)
		}
		wanted[i] = ProfileTarget{Profile: p, Total: target.Total}
	}
	a = t.editApp(c.AppID)
	weight := applicationWeight(a)
	for _, target := range wanted {
		if known := a.profile(target.Profile.ID); known != nil {
			known.Target = target.Total
			continue
		}
		if len(a.Profiles) >= MaxProfiles {
			return nil, invalid(c, "%w: more than %d profiles", ErrTooLarge, MaxProfiles)
		}
		if weight += profileStateWeight(target.Profile); weight > MaxEntityBytes {
			return nil, tooLarge(c, "the application", weight)
		}
		i, _ := slices.BinarySearchFunc(a.Profiles, target.Profile.ID, func(p ProfileState, id int) int {
			return cmp.Compare(p.Profile.ID, id)
		})
		a.Profiles = slices.Insert(a.Profiles, i, ProfileState{Profile: target.Profile, Target: target.Total})
	}
	return true, nil
}

func (t *tx) setRelease(c SetRelease) (any, error) {
	if err := checkURL("release", c.Release); err != nil {
		return nil, invalid(c, "%w", err)
	}
	switch {
	case countSet(c.WorkerID, c.AppID, c.DriverID) != 1:
		return nil, invalid(c, "exactly one of worker, application and driver must be named")
	case c.DriverID != "":
		d := t.driver(c.DriverID)
		if d == nil || d.State.Finished() {
			return false, nil
		}
		changed := *d
		changed.Release = c.Release
		if c.Families != 0 {
			changed.Families = c.Families
		}
		t.putDriver(&changed)
	case c.WorkerID != "":
		if t.worker(c.WorkerID) == nil {
			return false, nil
		}
		w := t.editWorker(c.WorkerID)
		w.Release = c.Release
		if c.Families != 0 {
			w.Families = c.Families
		}
	default:
		if t.activeApp(c.AppID) == nil {
			return false, nil
		}
		a := t.editApp(c.AppID)
		a.Release = c.Release
		if c.Families != 0 {
			a.Families = c.Families
		}
	}
	return true, nil
}

func countSet(texts ...string) int {
	n := 0
	for _, text := range texts {
		if text != "" {
			n++
		}
	}
	return n
}

func (t *tx) clearCompleted() int {
	ids := t.tables.completed.collect(nil)
	for _, id := range ids {
		t.forgetApplication(id)
	}
	return len(ids) + t.forgetDrivers(t.totals.DriversCompleted)
}
