package fsm

import (
	"cmp"
	"slices"
	"strings"
)

// driverPass is what a pass knows while it places drivers.
type driverPass struct {
	*pass
	order   []*planWorker // in which workers are visited
	cursor  int           // where the next driver's visit begins, shared by all (B-172)
	running int           // booked drivers, planned ones included
	bytes   int           // estimated size of the command

	idle []*Worker // ALIVE workers; what another one has could be had of one of these, if all were idle
}

// planDrivers places waiting drivers, in the order of submission; one that fits nowhere does not hold up the next
// (B-172, B-174).
func (p *pass) planDrivers() {
	dp := &driverPass{pass: p, running: p.view.Totals().DriversRunning}
	p.view.WaitingDrivers(func(d *Driver) bool {
		switch d.Hold(dp.running, p.params.MaxDrivers, p.params.NowMillis) {
		case HeldForNow:
			p.wakeAt(d.NotBeforeMillis)
		case HeldByMaxDrivers:
			p.result.DriversOverLimit++
		default:
			dp.plan(d)
		}
		return !p.result.More
	})
}

// wakeAt asks for another pass at that time.
func (p *pass) wakeAt(millis int64) {
	if p.result.WakeAtMillis == 0 || millis < p.result.WakeAtMillis {
		p.result.WakeAtMillis = millis
	}
}

func (p *driverPass) plan(d *Driver) {
	if p.fleet == nil {
		p.fleet = newFleet(p.view, p.params)
	}
	need := d.Demand()
	var w *planWorker
	if p.idle == nil || p.fitsIdle(&need) { // all workers are looked at when one driver has been left over, not before
		w = p.find(d, &need)
	}
	if w == nil {
		if !p.fitsIdle(&need) {
			p.result.HopelessDrivers = append(p.result.HopelessDrivers, d.ID)
		}
		return
	}
	if p.driversFull(d, w) {
		p.result.More = true
		return
	}
	p.fleet.lost(w)
	w.take(d.ResourceReqs)
	w.coresFree -= d.Cores
	w.memoryFree -= d.MemoryMB
	p.running++
	p.result.Drivers = append(p.result.Drivers, DriverPlacement{DriverID: d.ID, WorkerID: w.worker.ID})
}

// find visits the workers: from the cursor on when spreading out, else from the first.
func (p *driverPass) find(d *Driver, need *Demand) *planWorker {
	if p.fleet.isRefused(need) {
		return nil // all would be visited in vain: the cursor comes back to where it is
	}
	if p.order == nil {
		if !p.fitsUntouched(need) {
			p.fleet.refuse(need)
			return nil
		}
		p.order = p.fleet.forDrivers(p.params.SpreadOutDrivers)
	}
	fits := 0
	for i := range p.order {
		at := i
		if p.params.SpreadOutDrivers {
			at = (p.cursor + i) % len(p.order)
		}
		w := p.order[at]
		if !w.canGive(need) {
			continue
		}
		fits++
		if p.params.DriverCompatible != nil && !p.params.DriverCompatible(d, w.worker) {
			continue
		}
		p.cursor = (at + 1) % len(p.order)
		return w
	}
	if fits == 0 {
		p.fleet.refuse(need)
	}
	return nil
}

// fitsUntouched tells, before the workers are put into an order and as long as nothing has been taken from any, whether
// one could hold the driver: a cluster that is full should not cost more than a look at its freest workers.
func (p *driverPass) fitsUntouched(need *Demand) bool {
	found := false
	p.view.state().tables.free.scan(nil, func(w *Worker) bool {
		if w.CoresFree() < need.Cores {
			return false // the index has the freest first
		}
		idle := planWorker{worker: w, coresFree: w.CoresFree(), memoryFree: w.MemoryFreeMB()}
		found = idle.canGive(need) && (p.params.Usable == nil || p.params.Usable(w))
		return !found
	})
	return found
}

// driversFull tells whether the command has no room for one more driver, and counts it otherwise.
func (p *driverPass) driversFull(d *Driver, w *planWorker) bool {
	const fixedBytes = 48 // field names and lengths
	size := fixedBytes + len(d.ID) + len(w.worker.ID)
	if len(p.result.Drivers) >= MaxPlacements || p.bytes+size > MaxCommandBytes-1024 {
		return true
	}
	p.bytes += size
	return false
}

// fitsIdle tells whether an ALIVE worker could hold the driver if it were idle. Workers are of a few sizes as a rule, so
// that thousands of drivers of as many sizes cost a look at a few workers each.
func (p *driverPass) fitsIdle(need *Demand) bool {
	if p.idle == nil {
		p.idle = largestWorkers(p.view)
	}
	return slices.ContainsFunc(p.idle, func(w *Worker) bool { return need.Short(w.Cores, w.MemoryMB, w.AllAddresses) == Enough })
}

// largestWorkers lists ALIVE workers so that each other one has as much as one of them, or less, of everything.
func largestWorkers(v View) []*Worker {
	out := []*Worker{}
	v.Workers(func(w *Worker) bool {
		if w.State == WorkerAlive && !slices.ContainsFunc(out, func(o *Worker) bool { return o.hasAll(w) }) {
			out = append(slices.DeleteFunc(out, w.hasAll), w)
		}
		return true
	})
	return out
}

// hasAll tells whether w has as much as o of everything.
func (w *Worker) hasAll(o *Worker) bool {
	if w.Cores < o.Cores || w.MemoryMB < o.MemoryMB {
		return false
	}
	for i := range o.Resources {
		if w.AllAddresses(o.Resources[i].Name) < len(o.Resources[i].Addresses) {
			return false
		}
	}
	return true
}

// forDrivers lists the usable workers in the order in which drivers visit them. Spark shuffles them when it spreads out
// (B-172); here those with the fewest drivers come first, then those with the most free cores: as even, and the same
// from every replica (G-48). Else they come by id (B-174).
func (f *fleet) forDrivers(spreadOut bool) []*planWorker {
	for f.load() {
	}
	order := make([]*planWorker, 0, len(f.base))
	order = append(order, f.base...)
	byID := func(a, b *planWorker) int { return strings.Compare(a.worker.ID, b.worker.ID) }
	if !spreadOut {
		slices.SortFunc(order, byID)
		return order
	}
	slices.SortFunc(order, func(a, b *planWorker) int {
		return cmp.Or(cmp.Compare(a.worker.DriverCount, b.worker.DriverCount), cmp.Compare(b.coresFree, a.coresFree), byID(b, a))
	})
	return order
}

// isRefused tells whether it is known already that no worker can meet the demand.
func (f *fleet) isRefused(need *Demand) bool {
	for i := range f.refused {
		if f.refused[i].covers(need) {
			return true
		}
	}
	return false
}

// refuse remembers a demand that no worker can meet.
func (f *fleet) refuse(need *Demand) {
	if len(f.refused) < maxRefused {
		f.refused = append(f.refused, *need)
	}
}
