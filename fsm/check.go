package fsm

import (
	"bytes"
	"fmt"
	"slices"
)

// Check verifies the invariants of a state: O(size of the state). Its error wraps ErrInvariant and names the first
// thing that is wrong.
func Check(v View) error {
	c := &checker{v: v, t: &v.state().tables, held: make(map[string]*holding), apps: make(map[string]*appHolding)}
	for _, step := range []func() error{c.executors, c.drivers, c.workers, c.applications, c.removed, c.indexSizes, c.rest} {
		if err := step(); err != nil {
			return fmt.Errorf("%w: %w", ErrInvariant, err)
		}
	}
	return nil
}

// holding is what the executors and drivers of one worker sum up to.
type holding struct {
	cores, memoryMB, count, drivers int
	resources                       []Resource
}

// take adds addresses, each of which only one may hold.
func (h *holding) take(workerID string, resources []Resource) error {
	for _, r := range resources {
		for _, address := range r.Addresses {
			if slices.Contains(addressesOf(h.resources, r.Name), address) {
				return fmt.Errorf("worker %s: %s %s is held twice", workerID, r.Name, address)
			}
		}
	}
	h.resources = addResources(h.resources, resources)
	return nil
}

// appHolding is what the executors of one application sum up to.
type appHolding struct {
	cores, count, running, decommissioned, highest int
	profiles                                       map[int]int
	removed                                        uint64
}

type checker struct {
	v      View
	t      *tables
	held   map[string]*holding
	apps   map[string]*appHolding
	totals Totals
}

func (c *checker) app(id string) *appHolding {
	h, ok := c.apps[id]
	if !ok {
		h = &appHolding{highest: -1, profiles: make(map[int]int)}
		c.apps[id] = h
	}
	return h
}

func (c *checker) worker(id string) *holding {
	h, ok := c.held[id]
	if !ok {
		h = &holding{}
		c.held[id] = h
	}
	return h
}

// visit runs fn over a table until its first error.
func visit[T any](t *table[T], fn func(T) error) error {
	var err error
	t.scan(nil, func(v T) bool {
		err = fn(v)
		return err == nil
	})
	return err
}

func (c *checker) executors() error { return visit(&c.t.executors, c.executor) }

func (c *checker) executor(e *Executor) error {
	w, ok := c.v.Worker(e.WorkerID)
	if !ok || !w.Live() {
		return fmt.Errorf("executor %s is on worker %s, which is not live", e.Key(), e.WorkerID)
	}
	a, ok := c.v.Application(e.AppID)
	if !ok || a.State.Finished() {
		return fmt.Errorf("executor %s has no unfinished application", e.Key())
	}
	if e.Cores < 1 || e.MemoryMB < 0 {
		return fmt.Errorf("executor %s has %d cores and %d MB", e.Key(), e.Cores, e.MemoryMB)
	}
	if _, ok := c.t.byWorker.get(workerExecutorKey(e.WorkerID, e.Key())); !ok {
		return fmt.Errorf("executor %s is missing in its worker's index", e.Key())
	}
	h := c.worker(e.WorkerID)
	h.cores += e.Cores
	h.memoryMB += e.MemoryMB
	h.count++
	if err := h.take(w.ID, e.Resources); err != nil {
		return err
	}
	c.totals.countExecutor(e.State, 1)
	return c.executorOfApp(e, a, w)
}

func (c *checker) executorOfApp(e *Executor, a *Application, w *Worker) error {
	g := c.app(e.AppID)
	g.highest = max(g.highest, e.ID)
	switch e.State {
	case ExecutorDecommissioned:
		g.decommissioned++
		if w.State != WorkerDecommissioned {
			return fmt.Errorf("executor %s is DECOMMISSIONED on a worker that is %s", e.Key(), w.State)
		}
		return nil
	case ExecutorRunning:
		g.running++
	case ExecutorLaunching:
	default:
		return fmt.Errorf("executor %s is booked, but %s", e.Key(), e.State)
	}
	if w.State != WorkerAlive {
		return fmt.Errorf("executor %s is %s on a worker that is %s", e.Key(), e.State, w.State)
	}
	if a.profile(e.ProfileID) == nil {
		return fmt.Errorf("executor %s has the unknown profile %d", e.Key(), e.ProfileID)
	}
	g.cores += e.Cores
	g.count++
	g.profiles[e.ProfileID]++
	return nil
}

func (c *checker) workers() error {
	free := 0
	err := visit(&c.t.workers, func(w *Worker) error {
		c.totals.countWorker(w, 1)
		h := c.worker(w.ID)
		if w.CoresUsed != h.cores || w.MemoryUsedMB != h.memoryMB || w.ExecutorCount != h.count || w.DriverCount != h.drivers {
			return fmt.Errorf("worker %s says %d cores, %d MB, %d executors, %d drivers in use; they sum up to %d, %d, %d, %d",
				w.ID, w.CoresUsed, w.MemoryUsedMB, w.ExecutorCount, w.DriverCount, h.cores, h.memoryMB, h.count, h.drivers)
		}
		if !equalResources(w.ResourcesUsed, h.resources) {
			return fmt.Errorf("worker %s says that it uses %v, what runs there uses %v", w.ID, w.ResourcesUsed, h.resources)
		}
		if w.Live() && w.Decommissioned != (w.State == WorkerDecommissioned) {
			return fmt.Errorf("worker %s is %s, its mark says %t", w.ID, w.State, w.Decommissioned)
		}
		if w.takesWork() {
			free++
		}
		return c.workerIndexes(w)
	})
	if err == nil && free != c.t.free.len() {
		err = fmt.Errorf("%d workers have free cores, the index has %d", free, c.t.free.len())
	}
	return err
}

func (c *checker) workerIndexes(w *Worker) error {
	switch w.State {
	case WorkerAlive, WorkerDecommissioned:
		if id, ok := c.t.workerByAddress.get(addressKey(w.Address)); !ok || id != w.ID {
			return fmt.Errorf("worker %s: its address %s leads to %q", w.ID, w.Address, id)
		}
		if _, ok := c.t.workerByHost.get(hostKey(w.Address.Host, w.ID)); !ok {
			return fmt.Errorf("worker %s is missing in the index by host", w.ID)
		}
	case WorkerDead:
		if _, ok := c.t.deadByHostPort.get(pairKey(w.HostPort(), w.ID)); !ok {
			return fmt.Errorf("worker %s is missing in the index of DEAD workers", w.ID)
		}
	default:
		return fmt.Errorf("worker %s has state %s", w.ID, w.State)
	}
	if w.takesWork() {
		if indexed, ok := c.t.free.get(freeKey(w)); !ok || indexed != w {
			return fmt.Errorf("worker %s is missing in the index of free workers", w.ID)
		}
	}
	return nil
}

func equalResources(a, b []Resource) bool {
	return slices.EqualFunc(a, b, func(x, y Resource) bool {
		return x.Name == y.Name && slices.Equal(x.Addresses, y.Addresses)
	})
}

func (c *checker) applications() error {
	numbers := make(map[uint64]string)
	wanting := 0
	err := visit(&c.t.apps, func(a *Application) error {
		c.totals.countApp(a, 1)
		if other, twice := numbers[a.Number]; twice {
			return fmt.Errorf("applications %s and %s have the number %d", other, a.ID, a.Number)
		}
		numbers[a.Number] = a.ID
		if a.Number >= c.v.state().globals.NextAppNumber {
			return fmt.Errorf("application %s has a number that was not given yet", a.ID)
		}
		if !bytes.Equal(payloadSum(a.Payload), a.PayloadSum) {
			return fmt.Errorf("application %s: the payload differs from its checksum", a.ID)
		}
		if a.State.Finished() {
			return c.completedApp(a)
		}
		if wantsExecutors(a) {
			wanting++
		}
		return c.activeApp(a)
	})
	if err == nil && wanting != c.t.wanting.len() {
		err = fmt.Errorf("%d applications want executors, the index has %d", wanting, c.t.wanting.len())
	}
	return err
}

func (c *checker) completedApp(a *Application) error {
	if id, ok := c.t.completed.get(numberKey(a.CompletedSeq)); !ok || id != a.ID {
		return fmt.Errorf("application %s is missing in the index of completed ones", a.ID)
	}
	if a.CompletedSeq == 0 || a.CompletedSeq >= c.v.state().globals.NextCompleted {
		return fmt.Errorf("application %s has the impossible completion number %d", a.ID, a.CompletedSeq)
	}
	if a.ExecutorCount != 0 || a.DecommissionedCount != 0 {
		return fmt.Errorf("application %s is %s, but has executors", a.ID, a.State)
	}
	return nil
}

func (c *checker) activeApp(a *Application) error {
	g := c.app(a.ID)
	if a.CoresGranted != g.cores || a.ExecutorCount != g.count || a.RunningCount != g.running ||
		a.DecommissionedCount != g.decommissioned {
		return fmt.Errorf("application %s says %d cores, %d executors, %d running, %d decommissioned; they sum up to %+v",
			a.ID, a.CoresGranted, a.ExecutorCount, a.RunningCount, a.DecommissionedCount, *g)
	}
	if a.CoresGranted > a.RequestedCores {
		return fmt.Errorf("application %s has %d cores of %d", a.ID, a.CoresGranted, a.RequestedCores)
	}
	if (a.State == AppRunning) != (a.ExecutorCount > 0) || (a.State != AppRunning && a.State != AppWaiting) {
		return fmt.Errorf("application %s is %s with %d executors", a.ID, a.State, a.ExecutorCount)
	}
	if g.highest >= a.NextExecutorID {
		return fmt.Errorf("application %s has executor %d, its next is %d", a.ID, g.highest, a.NextExecutorID)
	}
	last := -1
	for _, p := range a.Profiles {
		if p.Profile.ID <= last {
			return fmt.Errorf("application %s: profile %d comes after %d", a.ID, p.Profile.ID, last)
		}
		last = p.Profile.ID
		if p.Profile.Cores != nil && *p.Profile.Cores < 1 {
			return fmt.Errorf("application %s: profile %d has %d cores", a.ID, p.Profile.ID, *p.Profile.Cores)
		}
		if p.Executors != g.profiles[p.Profile.ID] {
			return fmt.Errorf("application %s says %d executors of profile %d, it has %d", a.ID, p.Executors, p.Profile.ID,
				g.profiles[p.Profile.ID])
		}
	}
	if len(a.Profiles) == 0 || a.Profiles[0].Profile.ID != DefaultProfileID {
		return fmt.Errorf("application %s has no default profile", a.ID)
	}
	return c.appIndexes(a)
}

func (c *checker) appIndexes(a *Application) error {
	if id, ok := c.t.appByDriver.get(addressKey(a.Driver)); !ok || id != a.ID {
		return fmt.Errorf("application %s: its driver %s leads to %q", a.ID, a.Driver, id)
	}
	if id, ok := c.t.queue.get(numberKey(a.Number)); !ok || id != a.ID {
		return fmt.Errorf("application %s is missing in the queue", a.ID)
	}
	if _, ok := c.t.wanting.get(numberKey(a.Number)); ok != wantsExecutors(a) {
		return fmt.Errorf("application %s: the index of wanting ones says %t", a.ID, ok)
	}
	return nil
}

func (c *checker) removed() error {
	err := visit(&c.t.removed, func(r *RemovedExecutor) error {
		a, ok := c.v.Application(r.AppID)
		if !ok {
			return fmt.Errorf("ended executor %s/%d has no application", r.AppID, r.ID)
		}
		if r.Seq < a.RemovedFirst || r.Seq >= a.RemovedNext || !r.State.Finished() || r.ID >= a.NextExecutorID {
			return fmt.Errorf("ended executor %s/%d: number %d, state %s", r.AppID, r.ID, r.Seq, r.State)
		}
		if _, alive := c.v.Executor(ExecutorKey{AppID: r.AppID, ExecID: r.ID}); alive {
			return fmt.Errorf("executor %s/%d is both booked and ended", r.AppID, r.ID)
		}
		c.app(r.AppID).removed++
		return nil
	})
	if err != nil {
		return err
	}
	return visit(&c.t.apps, func(a *Application) error {
		if n := c.app(a.ID).removed; n != a.RemovedNext-a.RemovedFirst {
			return fmt.Errorf("application %s remembers %d ended executors, not %d", a.ID, n, a.RemovedNext-a.RemovedFirst)
		}
		return nil
	})
}

// indexSizes finds what an index has too much; what it lacks was found with the entities.
func (c *checker) indexSizes() error {
	live := c.totals.Workers.Alive + c.totals.Workers.Decommissioned
	active := c.totals.AppsRunning + c.totals.AppsWaiting
	for _, i := range []struct {
		name      string
		got, want int
	}{
		{"workers by address", c.t.workerByAddress.len(), live},
		{"workers by host", c.t.workerByHost.len(), live},
		{"DEAD workers", c.t.deadByHostPort.len(), c.totals.Workers.Dead},
		{"applications by driver", c.t.appByDriver.len(), active},
		{"queue", c.t.queue.len(), active},
		{"completed applications", c.t.completed.len(), c.totals.AppsCompleted},
		{"executors by worker", c.t.byWorker.len(), c.t.executors.len()},
		{"queue of drivers", c.t.driverQueue.len(), c.totals.DriversWaiting},
		{"unfinished drivers", c.t.driverActive.len(), c.totals.DriversWaiting + c.totals.DriversRunning},
		{"completed drivers", c.t.driverCompleted.len(), c.totals.DriversCompleted},
		{"drivers by worker", c.t.driversByWorker.len(), c.totals.DriversRunning},
	} {
		if i.got != i.want {
			return fmt.Errorf("index %q has %d entries instead of %d", i.name, i.got, i.want)
		}
	}
	return nil
}

func (c *checker) rest() error {
	if got := c.v.Totals(); got != c.totals {
		return fmt.Errorf("totals are %+v instead of %+v", got, c.totals)
	}
	g := c.v.state().globals
	if n := c.t.staged.len(); n != g.StagedChunks || (n > 0) != (g.StagedID != "") {
		return fmt.Errorf("restore %q has %d chunks instead of %d", g.StagedID, n, g.StagedChunks)
	}
	if g.Settings.RetainedExecutors < 0 || g.Settings.RetainedApplications < 0 || g.Settings.RetainedDrivers < 0 {
		return fmt.Errorf("settings make no sense: %+v", g.Settings)
	}
	return nil
}
