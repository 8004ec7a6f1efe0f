package fsm

// Driver finds a driver, completed ones included.
func (v View) Driver(id string) (*Driver, bool) { return v.state().tables.drivers.get(idKey(id)) }

// DriverByOrigin finds the unfinished driver that goes on for the first one of its chain, which may be forgotten. It looks
// at all unfinished drivers.
func (v View) DriverByOrigin(id string) (found *Driver, ok bool) {
	v.Drivers(func(d *Driver) bool {
		if d.Origin == id && id != "" {
			found = d
		}
		return found == nil
	})
	return found, found != nil
}

// CurrentDriver finds the driver that an id stands for now: the last one of its chain of relaunches. That also goes for
// the first id of a chain whose entry is forgotten.
func (v View) CurrentDriver(id string) (*Driver, bool) {
	find := func(id string) *Driver { d, _ := v.Driver(id); return d }
	if d := lastOfChain(find, id); d != nil {
		return d, true
	}
	return v.DriverByOrigin(id)
}

// lastOfChain follows the chain of relaunches; nil if the id is unknown. A successor has a higher number, so that the
// chain ends.
func lastOfChain(find func(id string) *Driver, id string) *Driver {
	d := find(id)
	for d != nil && d.Successor != "" {
		next := find(d.Successor)
		if next == nil {
			break
		}
		d = next
	}
	return d
}

// Drivers visits the waiting and the running drivers in the order of submission.
func (v View) Drivers(fn func(*Driver) bool) { v.driversBy(&v.state().tables.driverActive, nil, fn) }

// WaitingDrivers visits the drivers that wait for a worker, in the order of submission.
func (v View) WaitingDrivers(fn func(*Driver) bool) {
	v.driversBy(&v.state().tables.driverQueue, nil, fn)
}

// CompletedDrivers visits the completed drivers, oldest first: about the last Settings.RetainedDrivers (B-139).
func (v View) CompletedDrivers(fn func(*Driver) bool) {
	v.driversBy(&v.state().tables.driverCompleted, nil, fn)
}

// DriversOnWorker visits the drivers booked on a worker, by id.
func (v View) DriversOnWorker(workerID string, fn func(*Driver) bool) {
	v.driversBy(&v.state().tables.driversByWorker, pairKey(workerID, ""), fn)
}

func (v View) driversBy(index *table[string], prefix []byte, fn func(*Driver) bool) {
	index.scan(prefix, func(id string) bool {
		d, ok := v.Driver(id)
		return !ok || fn(d)
	})
}
