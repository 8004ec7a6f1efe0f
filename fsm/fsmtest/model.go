package fsmtest

import (
	"cmp"
	"slices"
	"sort"
	"strings"

	"raftmaster/fsm"
)

// Schedule is the executors' part of the reference model of one scheduling pass: B-175..B-182 in their own words, as simple and
// as slow as they are written. It gives the launches in the order in which executors get their ids.
func Schedule(v fsm.View, params fsm.PlanParams) []fsm.Placement {
	_, executors := ScheduleAll(v, params)
	return executors
}

func newModel(v fsm.View, params fsm.PlanParams) *model {
	m := &model{params: params}
	v.Workers(func(w *fsm.Worker) bool {
		mw := &modelWorker{id: w.ID, alive: w.State == fsm.WorkerAlive && !w.Draining, cores: w.Cores - w.CoresUsed,
			memory: w.MemoryMB - w.MemoryUsedMB, free: map[string][]string{}, entity: w}
		for _, r := range w.Resources {
			mw.free[r.Name] = slices.Clone(r.Addresses)
		}
		for _, r := range w.ResourcesUsed {
			for _, used := range r.Addresses {
				mw.free[r.Name] = slices.DeleteFunc(mw.free[r.Name], func(a string) bool { return a == used })
			}
		}
		m.workers = append(m.workers, mw)
		return true
	})
	return m
}

type modelWorker struct {
	id     string
	alive  bool
	cores  int
	memory int
	free   map[string][]string
	entity *fsm.Worker
}

type model struct {
	params   fsm.PlanParams
	workers  []*modelWorker
	launches []fsm.Placement
}

// startExecutors is B-175 and B-176 for one application.
func (m *model) startExecutors(a *fsm.Application) {
	if a.NotBeforeMillis > m.params.NowMillis {
		return
	}
	coresLeft := a.RequestedCores - a.CoresGranted
	profiles := slices.Clone(a.Profiles)
	sort.Slice(profiles, func(i, j int) bool { return profiles[i].Profile.ID < profiles[j].Profile.ID })
	for _, ps := range profiles {
		gate := 1
		if ps.Profile.Cores != nil {
			gate = *ps.Profile.Cores
		}
		if coresLeft < gate {
			continue
		}
		usable := m.usableWorkers(a, ps.Profile, gate)
		assigned := m.scheduleOnWorkers(ps, usable, coresLeft)
		for i, w := range usable {
			coresLeft -= m.allocate(a, ps.Profile, w, assigned[i])
		}
	}
}

// usableWorkers is B-177.
func (m *model) usableWorkers(a *fsm.Application, p fsm.Profile, gate int) []*modelWorker {
	var out []*modelWorker
	for _, w := range m.workers {
		ok := w.alive && w.memory >= p.MemoryMB && w.cores >= gate && !slices.Contains(a.IncompatibleWorkers, w.id)
		for _, r := range p.Resources {
			ok = ok && len(w.free[r.Name]) >= r.Amount
		}
		if ok && m.params.Usable != nil {
			ok = m.params.Usable(w.entity)
		}
		if ok && m.params.Compatible != nil {
			ok = m.params.Compatible(a, w.entity)
		}
		if ok {
			out = append(out, w)
		}
	}
	key := func(w *modelWorker) int {
		switch m.params.Policy {
		case fsm.CoresFreeDesc, fsm.CoresFreeAsc:
			return w.cores
		case fsm.MemoryFreeDesc, fsm.MemoryFreeAsc:
			return w.memory
		}
		return 0
	}
	slices.SortStableFunc(out, func(x, y *modelWorker) int {
		return cmp.Or(cmp.Compare(key(x), key(y)), strings.Compare(x.id, y.id))
	})
	if m.params.Policy == fsm.CoresFreeDesc || m.params.Policy == fsm.MemoryFreeDesc {
		slices.Reverse(out)
	}
	return out
}

// scheduleOnWorkers is B-179, steps 1 to 4.
func (m *model) scheduleOnWorkers(ps fsm.ProfileState, usable []*modelWorker, coresLeft int) []int {
	onePerWorker := ps.Profile.Cores == nil
	c := 1
	if !onePerWorker {
		c = *ps.Profile.Cores
	}
	assignedCores, assignedExecutors := make([]int, len(usable)), make([]int, len(usable))
	toAssign := 0
	for _, w := range usable {
		toAssign += w.cores
	}
	toAssign = min(toAssign, coresLeft)
	canLaunch := func(i int) bool {
		w := usable[i]
		keep := toAssign >= c
		enoughCores := w.cores-assignedCores[i] >= c
		if onePerWorker && assignedExecutors[i] > 0 {
			return keep && enoughCores
		}
		ok := w.memory-assignedExecutors[i]*ps.Profile.MemoryMB >= ps.Profile.MemoryMB
		for _, r := range ps.Profile.Resources {
			ok = ok && len(w.free[r.Name])-r.Amount*assignedExecutors[i] >= r.Amount
		}
		sum := ps.Executors
		for _, n := range assignedExecutors {
			sum += n
		}
		return keep && enoughCores && ok && sum < ps.Target
	}
	all := make([]int, len(usable))
	for i := range all {
		all[i] = i
	}
	free := filter(all, canLaunch)
	for len(free) > 0 {
		for _, i := range free {
			for again := true; again && canLaunch(i); {
				toAssign -= c
				assignedCores[i] += c
				if onePerWorker {
					assignedExecutors[i] = 1
				} else {
					assignedExecutors[i]++
				}
				again = !m.params.SpreadOutApps
			}
		}
		free = filter(free, canLaunch)
	}
	return assignedCores
}

func filter(in []int, keep func(int) bool) []int {
	var out []int
	for _, i := range in {
		if keep(i) {
			out = append(out, i)
		}
	}
	return out
}

// allocate is B-180 for one worker; it gives the cores that were taken.
func (m *model) allocate(a *fsm.Application, p fsm.Profile, w *modelWorker, assigned int) int {
	if assigned == 0 {
		return 0
	}
	executors, cores := 1, assigned
	if p.Cores != nil {
		executors, cores = assigned / *p.Cores, *p.Cores
	}
	for range executors {
		launch := fsm.Placement{AppID: a.ID, ProfileID: p.ID, WorkerID: w.id, Cores: cores, MemoryMB: p.MemoryMB}
		for _, r := range p.Resources {
			sort.Strings(w.free[r.Name])
			launch.Resources = append(launch.Resources,
				fsm.Resource{Name: r.Name, Addresses: slices.Clone(w.free[r.Name][:r.Amount])})
			w.free[r.Name] = w.free[r.Name][r.Amount:]
		}
		w.cores -= cores
		w.memory -= p.MemoryMB
		m.launches = append(m.launches, launch)
	}
	return executors * cores
}
