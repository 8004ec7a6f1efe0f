package fsm

import "slices"

// Demand is what one executor, or a driver, needs of a worker. The planner places by it, and those who explain the
// planner's choices ask it the same questions.
type Demand struct {
	Cores, MemoryMB int
	Resources       []ResourceAmount // sorted by name
}

// Shortage is what a worker has too little of: the first of its kind, in this order.
type Shortage uint8

// Shortages.
const (
	Enough Shortage = iota
	ShortOfCores
	ShortOfMemory
	ShortOfResources
)

// Short tells what a worker with so many cores and MiB is short of; addresses counts those that it has of a resource.
func (d *Demand) Short(cores, memoryMB int, addresses func(name string) int) Shortage {
	switch {
	case cores < d.Cores:
		return ShortOfCores
	case memoryMB < d.MemoryMB:
		return ShortOfMemory
	}
	for _, r := range d.Resources {
		if addresses(r.Name) < r.Amount {
			return ShortOfResources
		}
	}
	return Enough
}

// covers tells whether a worker that cannot give d cannot give o either.
func (d *Demand) covers(o *Demand) bool {
	return o.Cores >= d.Cores && o.MemoryMB >= d.MemoryMB && slices.EqualFunc(d.Resources, o.Resources,
		func(x, y ResourceAmount) bool { return x.Name == y.Name && y.Amount >= x.Amount })
}

// Demand is what one executor of the profile needs at least.
func (p *Profile) Demand() Demand {
	return Demand{Cores: coresPerExecutor(*p), MemoryMB: p.MemoryMB, Resources: p.Resources}
}

// Demand is what the driver needs.
func (d *Driver) Demand() Demand {
	return Demand{Cores: d.Cores, MemoryMB: d.MemoryMB, Resources: d.ResourceReqs}
}

// FreeAddresses counts the addresses of a resource that nobody uses.
func (w *Worker) FreeAddresses(name string) int { return len(freeAddresses(w, name)) }

// AllAddresses counts the addresses of a resource, those in use included.
func (w *Worker) AllAddresses(name string) int { return len(addressesOf(w.Resources, name)) }

// DriverHold is what keeps a waiting driver from being offered to any worker.
type DriverHold uint8

// Driver holds.
const (
	NotHeld DriverHold = iota
	// HeldForNow: its NotBeforeMillis has not come.
	HeldForNow
	// HeldByMaxDrivers: as many drivers run as may (B-173).
	HeldByMaxDrivers
)

// Hold tells what keeps a waiting driver back while so many drivers are booked; maxDrivers 0 = no limit.
func (d *Driver) Hold(running, maxDrivers int, nowMillis int64) DriverHold {
	switch {
	case d.NotBeforeMillis > nowMillis:
		return HeldForNow
	case maxDrivers > 0 && running >= maxDrivers:
		return HeldByMaxDrivers
	}
	return NotHeld
}
