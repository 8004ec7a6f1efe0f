package fsm

// View is an immutable state. The zero View is the empty state. All callbacks stop the iteration by returning false.
type View struct{}

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
}

// Index is the index of the last applied entry.
func (v View) Index() uint64 { return 0 }

// Term is the term of the last applied entry.
func (v View) Term() uint64 { return 0 }

// ClusterID is "" until InitCluster.
func (v View) ClusterID() string { return "" }

// Settings are those of the last LeaderElected.
func (v View) Settings() Settings { return Settings{} }

// LeaderHistory lists the last elections, oldest first.
func (v View) LeaderHistory() []LeaderRecord { return nil }

// Digest is the hash of the state.
func (v View) Digest() Digest { return Digest{} }

// Totals are kept up to date by Apply: O(1).
func (v View) Totals() Totals { return Totals{} }

// WorkerCounts counts workers by state: O(1).
func (v View) WorkerCounts() Counts { return Counts{} }

// Worker finds a worker, DEAD ones included.
func (v View) Worker(id string) (*Worker, bool) { return nil, false }

// WorkerByAddress finds the live worker with this RPC address.
func (v View) WorkerByAddress(a Address) (*Worker, bool) { return nil, false }

// Workers visits all workers in id order, DEAD ones included.
func (v View) Workers(fn func(*Worker) bool) {}

// WorkersByHost visits the live workers on a host (as given by RPC address, case-insensitive) in id order (B-065).
func (v View) WorkersByHost(host string, fn func(*Worker) bool) {}

// Application finds an application, completed ones included.
func (v View) Application(id string) (*Application, bool) { return nil, false }

// ApplicationByDriver finds the unfinished application whose driver has this RPC address.
func (v View) ApplicationByDriver(a Address) (*Application, bool) { return nil, false }

// ActiveApplications visits the unfinished applications in queue order, which is the order of registration.
func (v View) ActiveApplications(fn func(*Application) bool) {}

// WantingApplications visits, in queue order, those that the planner would give more executors if it could.
func (v View) WantingApplications(fn func(*Application) bool) {}

// CompletedApplications visits the completed applications, oldest first.
func (v View) CompletedApplications(fn func(*Application) bool) {}

// Executor finds a booked executor.
func (v View) Executor(k ExecutorKey) (*Executor, bool) { return nil, false }

// ExecutorsOfApp visits an application's booked executors by id, DECOMMISSIONED ones included.
func (v View) ExecutorsOfApp(appID string, fn func(*Executor) bool) {}

// ExecutorsOfWorker visits the executors booked on a worker, by application id and executor id.
func (v View) ExecutorsOfWorker(workerID string, fn func(*Executor) bool) {}

// RemovedExecutors visits an application's ended executors, oldest first: the last Settings.RetainedExecutors.
func (v View) RemovedExecutors(appID string, fn func(*RemovedExecutor) bool) {}
