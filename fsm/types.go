package fsm

import "strconv"

// The fields of everything that is stored are left out of its encoding while they are zero ("omitempty"): a release
// that adds a field computes the same digest as one that does not know it, until the field is used.

// Address is where a peer's RPC environment listens: what Spark calls an RpcAddress. Host is kept as the peer gave it.
type Address struct {
	Host string `codec:",omitempty"`
	Port int    `codec:",omitempty"`
}

// String gives host:port, the form Spark shows and compares.
func (a Address) String() string { return a.Host + ":" + strconv.Itoa(a.Port) }

// IsZero tells whether no address is known.
func (a Address) IsZero() bool { return a.Host == "" && a.Port == 0 }

// Resource is a named set of addresses ("gpu" -> "0","1"): what a worker offers, or what an executor was given.
type Resource struct {
	Name      string   `codec:",omitempty"`
	Addresses []string `codec:",omitempty"`
}

// ResourceAmount is a number of addresses of one resource that each executor of a profile needs.
type ResourceAmount struct {
	Name   string `codec:",omitempty"`
	Amount int    `codec:",omitempty"`
}

// Profile is the description of an executor that the master schedules by (B-181). Cores nil means that the application
// did not ask for a number: one executor per worker and pass, with as many cores as it gets (B-179). MemoryMB 0 means
// the application's default. Only custom resources belong in Resources.
type Profile struct {
	ID        int              `codec:",omitempty"`
	Cores     *int             `codec:",omitempty"`
	MemoryMB  int              `codec:",omitempty"`
	Resources []ResourceAmount `codec:",omitempty"`
}

// ProfileTarget is the absolute number of executors that an application wants of one profile (B-131).
type ProfileTarget struct {
	Profile Profile `codec:",omitempty"`
	Total   int     `codec:",omitempty"`
}

// ProfileState is what an application holds and wants of one profile.
type ProfileState struct {
	Profile Profile `codec:",omitempty"`
	// Target is the absolute number of executors wanted; UnlimitedExecutors means without limit.
	Target int `codec:",omitempty"`
	// Executors counts those held: LAUNCHING and RUNNING (B-182).
	Executors int `codec:",omitempty"`
}

// UnlimitedExecutors and UnlimitedCores are Spark's Int.MaxValue, its way to say "no limit" (ApplicationInfo.scala).
const (
	UnlimitedExecutors = 1<<31 - 1
	UnlimitedCores     = 1<<31 - 1
)

// DefaultProfileID is Spark's ResourceProfile.DEFAULT_RESOURCE_PROFILE_ID.
const DefaultProfileID = 0

// ExecutorKey names an executor: unique in a cluster for ever, because neither part is ever reused.
type ExecutorKey struct {
	AppID  string `codec:",omitempty"`
	ExecID int    `codec:",omitempty"`
}

// String gives Spark's full executor id, "app/exec" (B-205).
func (k ExecutorKey) String() string { return k.AppID + "/" + strconv.Itoa(k.ExecID) }

// WorkerState is the state of a worker's entry.
type WorkerState uint8

// Worker states. UNKNOWN, which Spark needs for its recovery, does not exist here.
const (
	WorkerAlive WorkerState = iota + 1
	WorkerDead
	WorkerDecommissioned
)

// String gives Spark's name (WorkerState.scala).
func (s WorkerState) String() string {
	switch s {
	case WorkerAlive:
		return "ALIVE"
	case WorkerDead:
		return "DEAD"
	case WorkerDecommissioned:
		return "DECOMMISSIONED"
	}
	return "WorkerState(" + strconv.Itoa(int(s)) + ")"
}

// AppState is the state of an application.
type AppState uint8

// Application states.
const (
	AppWaiting AppState = iota + 1
	AppRunning
	AppFinished
	AppFailed
	AppKilled
)

// String gives Spark's name (ApplicationState.scala).
func (s AppState) String() string {
	switch s {
	case AppWaiting:
		return "WAITING"
	case AppRunning:
		return "RUNNING"
	case AppFinished:
		return "FINISHED"
	case AppFailed:
		return "FAILED"
	case AppKilled:
		return "KILLED"
	}
	return "AppState(" + strconv.Itoa(int(s)) + ")"
}

// Finished tells whether the state is a final one.
func (s AppState) Finished() bool { return s == AppFinished || s == AppFailed || s == AppKilled }

// ExecutorState is the state of an executor; the numbers are the ordinals of Spark's ExecutorState.scala (B-120).
type ExecutorState uint8

// Executor states.
const (
	ExecutorLaunching      ExecutorState = 0
	ExecutorRunning        ExecutorState = 1
	ExecutorKilled         ExecutorState = 2
	ExecutorFailed         ExecutorState = 3
	ExecutorLost           ExecutorState = 4
	ExecutorExited         ExecutorState = 5
	ExecutorDecommissioned ExecutorState = 6
)

var executorStateNames = [...]string{"LAUNCHING", "RUNNING", "KILLED", "FAILED", "LOST", "EXITED", "DECOMMISSIONED"}

// String gives Spark's name.
func (s ExecutorState) String() string {
	if int(s) < len(executorStateNames) {
		return executorStateNames[s]
	}
	return "ExecutorState(" + strconv.Itoa(int(s)) + ")"
}

// Finished tells whether the executor has ended. DECOMMISSIONED has not (B-120).
func (s ExecutorState) Finished() bool { return s >= ExecutorKilled && s <= ExecutorExited }

// Valid tells whether the number is one of Spark's states.
func (s ExecutorState) Valid() bool { return s <= ExecutorDecommissioned }

// Settings are the limits that Apply needs. They are replicated, because replicas may be configured differently.
type Settings struct {
	// MaxExecutorRetries is spark.deploy.maxExecutorRetries; negative means no limit (B-124).
	MaxExecutorRetries int `codec:",omitempty"`
	// RetainedApplications and RetainedDrivers bound the completed lists (B-113, B-139).
	RetainedApplications int `codec:",omitempty"`
	RetainedDrivers      int `codec:",omitempty"`
	// RetainedExecutors bounds the ended executors remembered per application.
	RetainedExecutors int `codec:",omitempty"`
	// LeaderHistory bounds the remembered elections.
	LeaderHistory int `codec:",omitempty"`
	// DriverRelaunchDelayMillis is spark.raftmaster.driver.relaunchDelay: how long after the loss of its worker a
	// supervised driver is placed again at the earliest. 0 = at once.
	DriverRelaunchDelayMillis int64 `codec:",omitempty"`
}

// DefaultSettings are in force until the first LeaderElected command.
func DefaultSettings() Settings {
	return Settings{MaxExecutorRetries: 10, RetainedApplications: 200, RetainedDrivers: 200, RetainedExecutors: 100,
		LeaderHistory: 64}
}

// LeaderRecord is one election.
type LeaderRecord struct {
	Term, Index uint64 `codec:",omitempty"`
	NodeID      string `codec:",omitempty"`
	AtMillis    int64  `codec:",omitempty"`
	Reason      string `codec:",omitempty"`
}

// Worker is a worker's entry. Immutable. Cores and memory are Spark's units: cores, MiB. Times are Unix milliseconds.
type Worker struct {
	ID string `codec:",omitempty"`
	// Host and Port are what the worker says of itself; Address is its RPC reference, where messages are sent.
	Host    string  `codec:",omitempty"`
	Port    int     `codec:",omitempty"`
	Address Address `codec:",omitempty"`
	// Cores and MemoryMB may be below what is used after a worker registered again with less (G-05).
	Cores, MemoryMB         int `codec:",omitempty"`
	CoresUsed, MemoryUsedMB int `codec:",omitempty"`
	// Resources are sorted by name, their addresses lexicographically (B-061). ResourcesUsed has only names in use.
	Resources          []Resource  `codec:",omitempty"`
	ResourcesUsed      []Resource  `codec:",omitempty"`
	WebUIURL           string      `codec:",omitempty"`
	State              WorkerState `codec:",omitempty"`
	Families           uint8       `codec:",omitempty"`
	Release            string      `codec:",omitempty"`
	RegisteredAtMillis int64       `codec:",omitempty"`
	DiedAtMillis       int64       `codec:",omitempty"`
	DiedReason         string      `codec:",omitempty"`
	// Decommissioned is the mark of this worker process: it survives death and revival, because such a process never
	// takes new executors again (B-068, G-29).
	Decommissioned bool `codec:",omitempty"`
	// Draining keeps new executors and drivers away. Like Decommissioned it lasts as long as the id.
	Draining bool `codec:",omitempty"`
	// ExecutorCount counts executors booked here, decommissioned ones included; DriverCount the drivers.
	ExecutorCount int `codec:",omitempty"`
	DriverCount   int `codec:",omitempty"`

	sum digestSum
}

// HostPort gives host:port of what the worker says of itself (ExecutorAdded's workerHostPort).
func (w *Worker) HostPort() string { return Address{Host: w.Host, Port: w.Port}.String() }

// CoresFree may be negative, see Worker.Cores.
func (w *Worker) CoresFree() int { return w.Cores - w.CoresUsed }

// MemoryFreeMB may be negative, see Worker.MemoryMB.
func (w *Worker) MemoryFreeMB() int { return w.MemoryMB - w.MemoryUsedMB }

// Live tells whether the worker may hold executors: ALIVE or DECOMMISSIONED.
func (w *Worker) Live() bool { return w.State == WorkerAlive || w.State == WorkerDecommissioned }

// takesWork tells whether the planner needs to look at the worker.
func (w *Worker) takesWork() bool { return w.State == WorkerAlive && !w.Draining && w.CoresFree() > 0 }

// Ref gives what is needed to send the worker a message.
func (w *Worker) Ref() WorkerRef {
	return WorkerRef{ID: w.ID, Address: w.Address, Families: w.Families, Release: w.Release}
}

// Application is an application, unfinished or completed. Immutable. Times are Unix milliseconds, 0 = not yet.
type Application struct {
	ID string `codec:",omitempty"`
	// Number is the replicated counter inside ID: the registration (queue) order.
	Number              uint64         `codec:",omitempty"`
	Name, User, UIURL   string         `codec:",omitempty"`
	Driver              Address        `codec:",omitempty"`
	State               AppState       `codec:",omitempty"`
	StartMillis         int64          `codec:",omitempty"`
	EndMillis           int64          `codec:",omitempty"`
	EndReason           string         `codec:",omitempty"`
	SubmitStamp         string         `codec:",omitempty"`
	InitialExecutors    *int           `codec:",omitempty"`
	MaxCores            *int           `codec:",omitempty"`
	RequestedCores      int            `codec:",omitempty"`
	CoresGranted        int            `codec:",omitempty"` // LAUNCHING and RUNNING executors; a finished application keeps its last value (B-113)
	Profiles            []ProfileState `codec:",omitempty"` // in ascending profile id; the default profile is always there
	NextExecutorID      int            `codec:",omitempty"`
	ExecutorCount       int            `codec:",omitempty"` // LAUNCHING and RUNNING
	RunningCount        int            `codec:",omitempty"` // RUNNING
	DecommissionedCount int            `codec:",omitempty"` // on decommissioned workers, still booked there
	RetryCount          int            `codec:",omitempty"`
	LoopFailures        int            `codec:",omitempty"` // quick failures in a row (crashloop.go)
	LastFailureMillis   int64          `codec:",omitempty"` // of those in LoopFailures
	NotBeforeMillis     int64          `codec:",omitempty"` // no executor is placed earlier (crashloop.go)
	Confirmed           bool           `codec:",omitempty"` // the driver has named the id
	Families            uint8          `codec:",omitempty"`
	Release             string         `codec:",omitempty"`
	// IncompatibleWorkers are ids of workers that could not run this application, sorted.
	IncompatibleWorkers []string `codec:",omitempty"`
	// Payload is the application's description as received: opaque here; nil once the application has finished.
	Payload []byte `codec:"-"`
	// PayloadSum is the SHA-256 of Payload: it stands for it in the digest.
	PayloadSum []byte `codec:",omitempty"`
	// CompletedSeq orders completed applications; 0 = unfinished.
	CompletedSeq uint64 `codec:",omitempty"`
	// RemovedFirst and RemovedNext delimit the numbers of the remembered ended executors.
	RemovedFirst, RemovedNext uint64 `codec:",omitempty"`

	sum digestSum
}

// CoresLeft is what the application may still be given: all profiles together (B-176).
func (a *Application) CoresLeft() int { return a.RequestedCores - a.CoresGranted }

// Ref gives what is needed to send the driver a message.
func (a *Application) Ref() DriverRef {
	return DriverRef{AppID: a.ID, Address: a.Driver, Families: a.Families, Release: a.Release}
}

// Executor is an executor that is booked on a worker. Immutable.
type Executor struct {
	AppID           string     `codec:",omitempty"`
	ID              int        `codec:",omitempty"`
	WorkerID        string     `codec:",omitempty"`
	ProfileID       int        `codec:",omitempty"`
	Cores, MemoryMB int        `codec:",omitempty"`
	Resources       []Resource `codec:",omitempty"`
	// State is LAUNCHING, RUNNING or DECOMMISSIONED. The latter is booked on its worker, but no longer counted in its
	// application (B-066).
	State            ExecutorState `codec:",omitempty"`
	LaunchedAtMillis int64         `codec:",omitempty"`
	// RunningAtMillis is when RUNNING was reported, 0 before.
	RunningAtMillis int64 `codec:",omitempty"`
	// Delivered: the worker is known to have received the launch.
	Delivered bool `codec:",omitempty"`

	sum digestSum
}

// Key names the executor.
func (e *Executor) Key() ExecutorKey { return ExecutorKey{AppID: e.AppID, ExecID: e.ID} }

// RemovedExecutor is an executor that has ended. Immutable.
type RemovedExecutor struct {
	AppID, WorkerID, WorkerHost string `codec:",omitempty"`
	// WorkerWebUIURL is kept, because the worker's entry may be gone when somebody looks for the logs.
	WorkerWebUIURL                  string        `codec:",omitempty"`
	ID, ProfileID                   int           `codec:",omitempty"`
	Cores, MemoryMB                 int           `codec:",omitempty"`
	State                           ExecutorState `codec:",omitempty"`
	LaunchedAtMillis, EndedAtMillis int64         `codec:",omitempty"`
	Message                         string        `codec:",omitempty"`
	ExitStatus                      *int          `codec:",omitempty"`
	// Seq orders the ended executors of one application.
	Seq uint64 `codec:",omitempty"`

	sum digestSum
}
