package fsm

// placeDrivers books a plan's drivers; like executors, each must stand on its own.
func (t *tx) placeDrivers(c PlaceDrivers) (any, error) {
	if len(c.Placements) > MaxPlacements {
		return nil, invalid(c, "%d placements, the limit is %d", len(c.Placements), MaxPlacements)
	}
	var result PlaceDriversResult
	for i, p := range c.Placements {
		d, w := t.driver(p.DriverID), t.worker(p.WorkerID)
		if reason := refuseDriver(d, w); reason != 0 {
			result.Dropped = append(result.Dropped, DroppedDriver{Placement: p, Reason: reason})
			continue
		}
		t.bookDriver(d, w.ID)
		result.Placed = append(result.Placed, PlacedDriver{DriverID: d.ID, WorkerID: w.ID, Index: i})
	}
	return result, nil
}

// refuseDriver gives the reason against a placement, 0 if there is none. These rules are part of the log's format.
// NotBeforeMillis is none of them: it is the planner's, and its clock may differ from the one it was set by.
func refuseDriver(d *Driver, w *Worker) DropReason {
	switch {
	case d == nil || d.State != DriverStateSubmitted:
		return DropDriverUnknown
	case w == nil:
		return DropWorkerUnknown
	case w.State != WorkerAlive:
		return DropWorkerNotAlive
	case w.Draining:
		return DropWorkerDraining
	case d.Cores > w.CoresFree():
		return DropCores
	case d.MemoryMB > w.MemoryFreeMB():
		return DropMemory
	}
	taken := 0
	for _, need := range d.ResourceReqs {
		free := freeAddresses(w, need.Name)
		if len(free) < need.Amount {
			return DropResources
		}
		taken += resourceWeight + len(need.Name) + idsWeight(free[:need.Amount])
	}
	if taken > 0 && resourcesWeight(w.ResourcesUsed)+taken > maxUsedBytes {
		return DropResources
	}
	return 0
}

// bookDriver makes a waiting driver RUNNING on a worker at once (B-140).
func (t *tx) bookDriver(d *Driver, workerID string) {
	w := t.editWorker(workerID)
	changed := *d
	changed.State, changed.LaunchedAtMillis, changed.NotBeforeMillis = DriverStateRunning, t.meta.NowMillis, 0
	changed.WorkerID, changed.WorkerHost, changed.WorkerPort = w.ID, w.Host, w.Port
	changed.WorkerWebUIURL = w.WebUIURL
	changed.Resources = firstFree(w, d.ResourceReqs)
	w.CoresUsed += d.Cores
	w.MemoryUsedMB += d.MemoryMB
	w.ResourcesUsed = addResources(w.ResourcesUsed, changed.Resources)
	w.DriverCount++
	t.putDriver(&changed)
	t.emit(LaunchDriver{Worker: w.Ref(), DriverID: d.ID, Cores: d.Cores, MemoryMB: d.MemoryMB, Supervise: d.Supervise,
		Resources: changed.Resources, Payload: d.Payload, DriverFamilies: d.Families, DriverRelease: d.Release})
}

// firstFree gives the first free addresses in lexicographic order (B-061).
func firstFree(w *Worker, needs []ResourceAmount) []Resource {
	var out []Resource
	for _, need := range needs {
		free := freeAddresses(w, need.Name)[:need.Amount]
		out = append(out, Resource{Name: need.Name, Addresses: append([]string(nil), free...)})
	}
	return out
}
