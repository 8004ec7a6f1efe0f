package fsm

import (
	"math"
	"slices"
)

// View is an immutable state. The zero View is the empty state. All callbacks stop the iteration by returning false.
type View struct{ s *state }

var zeroState = emptyState()

func (v View) state() *state {
	if v.s == nil {
		return zeroState
	}
	return v.s
}

// Counts are the numbers of workers by state.
type Counts struct{ Alive, Dead, Decommissioned int }

// Totals sum up what the UI and the gauges show. Cores and memory count ALIVE workers only (B-036).
type Totals struct {
	Workers                                 Counts
	Cores, CoresUsed                        int
	MemoryMB, MemoryUsedMB                  int
	AppsWaiting, AppsRunning, AppsCompleted int
	ExecutorsLaunching, ExecutorsRunning    int
	ExecutorsDecommissioned                 int
	DriversWaiting, DriversRunning          int
	DriversCompleted                        int
	DriverPayloadBytes                      int // of unfinished drivers
}

func (t *Totals) countWorker(w *Worker, n int) {
	switch w.State {
	case WorkerAlive:
		t.Workers.Alive += n
		t.Cores += n * w.Cores
		t.CoresUsed += n * w.CoresUsed
		t.MemoryMB += n * w.MemoryMB
		t.MemoryUsedMB += n * w.MemoryUsedMB
	case WorkerDead:
		t.Workers.Dead += n
	case WorkerDecommissioned:
		t.Workers.Decommissioned += n
	}
}

func (t *Totals) countApp(a *Application, n int) {
	switch {
	case a.State.Finished():
		t.AppsCompleted += n
	case a.State == AppRunning:
		t.AppsRunning += n
	default:
		t.AppsWaiting += n
	}
}

func (t *Totals) countExecutor(s ExecutorState, n int) {
	switch s {
	case ExecutorLaunching:
		t.ExecutorsLaunching += n
	case ExecutorRunning:
		t.ExecutorsRunning += n
	case ExecutorDecommissioned:
		t.ExecutorsDecommissioned += n
	}
}

func (t *Totals) countDriver(d *Driver, n int) {
	t.DriverPayloadBytes += n * len(d.Payload)
	switch {
	case d.State.Finished():
		t.DriversCompleted += n
	case d.held():
		t.DriversRunning += n
	default:
		t.DriversWaiting += n
	}
}

// Index is the index of the last applied entry.
func (v View) Index() uint64 { return v.state().index }

// Term is the term of the last applied entry.
func (v View) Term() uint64 { return v.state().term }

// FleetVersion changes with who the workers are, where, and what they can run (Live, WorkerRef). It is comparable within
// the life of one state machine only.
func (v View) FleetVersion() uint64 { return v.state().fleet }

// ClusterID is "" until InitCluster.
func (v View) ClusterID() string { return v.state().globals.ClusterID }

// Counters are the numbers of the next application and of the next driver; neither ever goes back.
func (v View) Counters() (application, driver uint64) {
	g := v.state().globals
	return g.NextAppNumber, g.NextDriverNumber
}

// Settings are those of the last LeaderElected.
func (v View) Settings() Settings { return v.state().globals.Settings }

// LeaderHistory lists the last elections, oldest first. The slice is the caller's.
func (v View) LeaderHistory() []LeaderRecord { return slices.Clone(v.state().globals.Leaders) }

// Digest is the hash of the state.
func (v View) Digest() Digest { return v.state().digest.digest() }

// Totals are kept up to date by Apply: O(1).
func (v View) Totals() Totals { return v.state().totals }

// WorkerCounts counts workers by state: O(1).
func (v View) WorkerCounts() Counts { return v.state().totals.Workers }

// Worker finds a worker, DEAD ones included.
func (v View) Worker(id string) (*Worker, bool) { return v.state().tables.workers.get(idKey(id)) }

// WorkerByAddress finds the live worker with this RPC address.
func (v View) WorkerByAddress(a Address) (*Worker, bool) {
	id, ok := v.state().tables.workerByAddress.get(addressKey(a))
	if !ok {
		return nil, false
	}
	return v.Worker(id)
}

// Workers visits all workers in id order, DEAD ones included.
func (v View) Workers(fn func(*Worker) bool) { v.state().tables.workers.scan(nil, fn) }

// WorkersByHost visits the live workers on a host (that of their RPC address, compared without case) in id order
// (B-065).
func (v View) WorkersByHost(host string, fn func(*Worker) bool) {
	v.state().tables.workerByHost.scan(hostKey(host, ""), func(id string) bool {
		w, ok := v.Worker(id)
		return !ok || fn(w)
	})
}

// Application finds an application, completed ones included.
func (v View) Application(id string) (*Application, bool) {
	return v.state().tables.apps.get(idKey(id))
}

// ApplicationByDriver finds the unfinished application whose driver has this RPC address.
func (v View) ApplicationByDriver(a Address) (*Application, bool) {
	id, ok := v.state().tables.appByDriver.get(addressKey(a))
	if !ok {
		return nil, false
	}
	return v.Application(id)
}

// ActiveApplications visits the unfinished applications in queue order, which is the order of registration.
func (v View) ActiveApplications(fn func(*Application) bool) { v.appsBy(&v.state().tables.queue, fn) }

// WantingApplications visits, in queue order, those that the planner would give more executors if it could.
func (v View) WantingApplications(fn func(*Application) bool) {
	v.appsBy(&v.state().tables.wanting, fn)
}

// CompletedApplications visits the completed applications, oldest first.
func (v View) CompletedApplications(fn func(*Application) bool) {
	v.appsBy(&v.state().tables.completed, fn)
}

func (v View) appsBy(index *table[string], fn func(*Application) bool) {
	index.scan(nil, func(id string) bool {
		a, ok := v.Application(id)
		return !ok || fn(a)
	})
}

// Executor finds a booked executor.
func (v View) Executor(k ExecutorKey) (*Executor, bool) {
	if k.ExecID < 0 || k.ExecID > math.MaxInt32 {
		return nil, false
	}
	return v.state().tables.executors.get(executorKey(k))
}

// ExecutorsOfApp visits an application's booked executors by id, DECOMMISSIONED ones included.
func (v View) ExecutorsOfApp(appID string, fn func(*Executor) bool) {
	v.state().tables.executors.scan(pairKey(appID, ""), fn)
}

// ExecutorsOfWorker visits the executors booked on a worker, by application id and executor id.
func (v View) ExecutorsOfWorker(workerID string, fn func(*Executor) bool) {
	v.state().tables.byWorker.scan(pairKey(workerID, ""), func(k ExecutorKey) bool {
		e, ok := v.Executor(k)
		return !ok || fn(e)
	})
}

// RemovedExecutors visits an application's ended executors, oldest first: the last Settings.RetainedExecutors.
func (v View) RemovedExecutors(appID string, fn func(*RemovedExecutor) bool) {
	v.state().tables.removed.scan(pairKey(appID, ""), fn)
}
