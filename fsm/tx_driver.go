package fsm

// Drivers are written through, like executors: a command may list them, end some and list them again.

// driver reads a driver; nil if there is none.
func (t *tx) driver(id string) *Driver {
	d, _ := t.tables.drivers.get(idKey(id))
	return d
}

// putDriver adds a driver or replaces it. The tx owns d.
func (t *tx) putDriver(d *Driver) {
	if old := t.driver(d.ID); old != nil {
		t.unindexDriver(old)
	}
	d.sum = t.sums.sum(kindDriver, d)
	t.digest.add(d.sum)
	t.totals.countDriver(d, 1)
	t.tables.drivers.set(idKey(d.ID), d)
	if d.State.Finished() {
		t.tables.driverCompleted.set(numberKey(d.CompletedSeq), d.ID)
		return
	}
	t.tables.driverActive.set(numberKey(d.Number), d.ID)
	if d.held() {
		t.tables.driversByWorker.set(pairKey(d.WorkerID, d.ID), d.ID)
	} else {
		t.tables.driverQueue.set(numberKey(d.Number), d.ID)
	}
}

func (t *tx) unindexDriver(d *Driver) {
	t.digest.subtract(d.sum)
	t.totals.countDriver(d, -1)
	if d.State.Finished() {
		t.tables.driverCompleted.del(numberKey(d.CompletedSeq))
		return
	}
	t.tables.driverActive.del(numberKey(d.Number))
	if d.held() {
		t.tables.driversByWorker.del(pairKey(d.WorkerID, d.ID))
	} else {
		t.tables.driverQueue.del(numberKey(d.Number))
	}
}

// deleteDriver forgets a completed driver.
func (t *tx) deleteDriver(d *Driver) {
	t.unindexDriver(d)
	t.tables.drivers.del(idKey(d.ID))
}

// listDrivers reads the drivers that an index names, in its order.
func (t *tx) listDrivers(index *table[string], prefix []byte) []*Driver {
	ids := index.collect(prefix)
	out := make([]*Driver, 0, len(ids))
	for _, id := range ids {
		if d := t.driver(id); d != nil {
			out = append(out, d)
		}
	}
	return out
}

func (t *tx) driversOfWorker(workerID string) []*Driver {
	return t.listDrivers(&t.tables.driversByWorker, pairKey(workerID, ""))
}
