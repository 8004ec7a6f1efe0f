package fsmtest

import (
	"cmp"
	"slices"
	"strings"

	"raftmaster/fsm"
)

// ScheduleAll is the reference model of one whole pass: the drivers (B-171..B-174) and then the executors of Schedule,
// which get what the drivers leave.
func ScheduleAll(v fsm.View, params fsm.PlanParams) ([]fsm.DriverPlacement, []fsm.Placement) {
	m := newModel(v, params)
	drivers := m.startDrivers(v)
	v.ActiveApplications(func(a *fsm.Application) bool {
		m.startExecutors(a)
		return true
	})
	return drivers, m.launches
}

// startDrivers visits the waiting drivers in list order.
func (m *model) startDrivers(v fsm.View) []fsm.DriverPlacement {
	var alive []*modelWorker
	for _, w := range m.workers {
		// A worker without any free core is never asked, not even for a driver of none.
		if w.alive && w.cores > 0 && (m.params.Usable == nil || m.params.Usable(w.entity)) {
			alive = append(alive, w)
		}
	}
	// What Spark shuffles (B-172) has a fixed order: few drivers first, then many free cores, then the higher id.
	slices.SortFunc(alive, func(a, b *modelWorker) int {
		if !m.params.SpreadOutDrivers {
			return strings.Compare(a.id, b.id)
		}
		return cmp.Or(cmp.Compare(a.entity.DriverCount, b.entity.DriverCount), cmp.Compare(b.cores, a.cores), strings.Compare(b.id, a.id))
	})
	all, waiting := 0, 0
	v.Drivers(func(d *fsm.Driver) bool {
		all++
		if d.State == fsm.DriverStateSubmitted {
			waiting++
		}
		return true
	})
	var out []fsm.DriverPlacement
	cursor := 0
	v.Drivers(func(d *fsm.Driver) bool {
		if d.State != fsm.DriverStateSubmitted || d.NotBeforeMillis > m.params.NowMillis {
			return true
		}
		if m.params.MaxDrivers > 0 && all-waiting >= m.params.MaxDrivers {
			return true // B-173
		}
		if !m.params.SpreadOutDrivers {
			cursor = 0 // B-174: always from the first
		}
		for range alive {
			w := alive[cursor]
			cursor = (cursor + 1) % len(alive)
			if m.canHost(d, w) {
				m.host(d, w)
				out = append(out, fsm.DriverPlacement{DriverID: d.ID, WorkerID: w.id})
				waiting--
				break
			}
		}
		return true
	})
	return out
}

func (m *model) canHost(d *fsm.Driver, w *modelWorker) bool {
	ok := w.memory >= d.MemoryMB && w.cores >= d.Cores
	for _, r := range d.ResourceReqs {
		ok = ok && len(w.free[r.Name]) >= r.Amount
	}
	return ok && (m.params.DriverCompatible == nil || m.params.DriverCompatible(d, w.entity))
}

func (m *model) host(d *fsm.Driver, w *modelWorker) {
	w.memory -= d.MemoryMB
	w.cores -= d.Cores
	for _, r := range d.ResourceReqs {
		slices.Sort(w.free[r.Name])
		w.free[r.Name] = w.free[r.Name][r.Amount:]
	}
}
