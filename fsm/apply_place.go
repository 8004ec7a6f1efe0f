package fsm

import "slices"

// placeExecutors books a plan. The planner saw an older state, and may be of another release: each placement must
// stand on its own here.
func (t *tx) placeExecutors(c PlaceExecutors) (any, error) {
	if len(c.Placements) > MaxPlacements {
		return nil, invalid(c, "%d placements, the limit is %d", len(c.Placements), MaxPlacements)
	}
	var result PlaceResult
	for i, p := range c.Placements {
		if reason := t.refuse(p); reason != 0 {
			result.Dropped = append(result.Dropped, DroppedPlacement{Placement: p, Reason: reason})
			continue
		}
		e := t.bookExecutor(p)
		result.Placed = append(result.Placed, PlacedExecutor{Key: e.Key(), WorkerID: e.WorkerID, Index: i})
	}
	return result, nil
}

// refuse gives the reason against a placement, 0 if there is none. These rules are part of the log's format.
func (t *tx) refuse(p Placement) DropReason {
	a := t.activeApp(p.AppID)
	if a == nil {
		return DropAppUnknown
	}
	profile := a.profile(p.ProfileID)
	if profile == nil {
		return DropProfileUnknown
	}
	w := t.worker(p.WorkerID)
	if w == nil {
		return DropWorkerUnknown
	}
	wanted := profile.Profile
	switch {
	case w.State != WorkerAlive:
		return DropWorkerNotAlive
	case w.Draining:
		return DropWorkerDraining
	case incompatible(a, w.ID):
		return DropIncompatible
	case p.Cores < 1 || p.MemoryMB != wanted.MemoryMB || (wanted.Cores != nil && p.Cores != *wanted.Cores):
		return DropMalformed
	case p.Cores > w.CoresFree():
		return DropCores
	case p.MemoryMB > w.MemoryFreeMB():
		return DropMemory
	case !resourcesFit(w, wanted, p.Resources),
		len(p.Resources) > 0 && resourcesWeight(w.ResourcesUsed)+resourcesWeight(p.Resources) > maxUsedBytes:
		return DropResources
	case p.Cores > a.CoresLeft():
		return DropMaxCores
	case profile.Executors >= profile.Target:
		return DropTarget
	}
	return 0
}

// resourcesFit tells whether these addresses are what the profile asks for, in the state's order, and free.
func resourcesFit(w *Worker, wanted Profile, given []Resource) bool {
	if len(given) != len(wanted.Resources) {
		return false
	}
	for i, r := range given {
		if r.Name != wanted.Resources[i].Name || len(r.Addresses) != wanted.Resources[i].Amount {
			return false
		}
		free := freeAddresses(w, r.Name)
		for j, address := range r.Addresses {
			if j > 0 && address <= r.Addresses[j-1] {
				return false
			}
			if _, isFree := slices.BinarySearch(free, address); !isFree {
				return false
			}
		}
	}
	return true
}

// bookExecutor gives the placement its id and books it (B-121). The id is never used again, whatever happens (G-15).
func (t *tx) bookExecutor(p Placement) *Executor {
	a, w := t.editApp(p.AppID), t.editWorker(p.WorkerID)
	e := &Executor{AppID: a.ID, ID: a.NextExecutorID, WorkerID: w.ID, ProfileID: p.ProfileID, Cores: p.Cores,
		MemoryMB: p.MemoryMB, Resources: p.Resources, State: ExecutorLaunching, LaunchedAtMillis: t.meta.NowMillis}
	if len(e.Resources) == 0 {
		e.Resources = nil
	}
	a.NextExecutorID++
	a.CoresGranted += e.Cores
	a.ExecutorCount++
	a.profile(e.ProfileID).Executors++
	a.followExecutors()
	w.CoresUsed += e.Cores
	w.MemoryUsedMB += e.MemoryMB
	w.ResourcesUsed = addResources(w.ResourcesUsed, e.Resources)
	w.ExecutorCount++
	t.putExecutor(e)
	t.emit(LaunchExecutor{Worker: w.Ref(), AppID: a.ID, ExecID: e.ID, ProfileID: e.ProfileID, Cores: e.Cores,
		MemoryMB: e.MemoryMB, Resources: e.Resources, Payload: a.Payload, AppFamilies: a.Families, AppRelease: a.Release})
	t.emit(ExecutorAdded{Driver: a.Ref(), ExecID: e.ID, WorkerID: w.ID, HostPort: w.HostPort(), Cores: e.Cores,
		MemoryMB: e.MemoryMB})
	return e
}
