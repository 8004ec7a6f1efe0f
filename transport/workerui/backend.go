package workerui

// Backend is the worker as this package sees it.
type Backend interface {
	// View copies what the worker knows now. It is called from HTTP goroutines, must not block for long, and its slices
	// belong to the caller.
	View() View
}

// View is a worker at one moment. Times are milliseconds since the epoch, 0 for never; memory is in MiB.
type View struct {
	// ID is the worker's id, "worker-<time>-<host>-<port>"; URL its RPC address, "spark://host:port".
	ID, URL string
	// MasterURL is the master in use as "spark://host:port", MasterWebURL its web UI; both "" before the first contact.
	MasterURL, MasterWebURL string
	// Registered: a master has accepted this worker. Connected: it is in contact with one now. Decommissioned: it takes
	// nothing new and waits for its executors to leave.
	Registered, Connected, Decommissioned bool
	// SparkVersion is the release that executors and drivers run. Masters learn it from the page, right after the
	// registration: it must be known by then.
	SparkVersion                             string
	Cores, CoresUsed, MemoryMB, MemoryUsedMB int
	// Resources are all custom resources, with the addresses in use.
	Resources                        []Resource
	StartMillis, LastHeartbeatMillis int64
	// Executors are those that have not ended; FinishedExecutors the last ones that have, oldest first.
	Executors, FinishedExecutors []Executor
	// Drivers are those that have not ended; FinishedDrivers the last ones that have, oldest first.
	Drivers, FinishedDrivers []Driver
	// Problems are sentences for an operator, worst first: what keeps this worker from its work.
	Problems []string
}

// Resource is one kind of custom resource (a GPU) and its addresses. UsedAddresses is looked at for a worker's own
// resources only.
type Resource struct {
	Name          string
	Addresses     []string
	UsedAddresses []string
}

// ResourceRequest is how many addresses of a resource each executor of an application asks for.
type ResourceRequest struct {
	Name   string
	Amount int
}

// Executor is one executor, running or finished.
type Executor struct {
	ID    int
	AppID string
	// State is Spark's name: LAUNCHING, RUNNING, KILLED, FAILED, LOST, EXITED, DECOMMISSIONED.
	State           string
	Cores, MemoryMB int
	// Resources are the addresses that it was given.
	Resources []Resource
	// PID is that of the process, 0 when there is none.
	PID                    int
	StartMillis, EndMillis int64
	// Message says why it ended; ExitCode is nil when the process gave none.
	Message  string
	ExitCode *int
	App      App
}

// App is what an executor's launch said of its application.
type App struct {
	Name, User string
	// UIURL is the application's web UI, "" for none.
	UIURL string
	// MaxCores is the application's limit, 0 for none (shown as Spark's /json shows an absent limit).
	MaxCores int
	// MemoryPerExecutorMB and ResourcesPerExecutor are those of its default profile.
	MemoryPerExecutorMB  int
	ResourcesPerExecutor []ResourceRequest
	// Command is the text form of its command, with secrets already redacted.
	Command string
}

// Driver is one driver in cluster mode, running or finished.
type Driver struct {
	ID string
	// MainClass is the class that its submitter named, "" when unknown.
	MainClass string
	// State is Spark's name: RUNNING, FINISHED, RELAUNCHING, KILLED, FAILED, ERROR.
	State           string
	Cores, MemoryMB int
	Resources       []Resource
	Supervise       bool
	// Attempts counts the starts of its process here.
	Attempts               int
	PID                    int
	StartMillis, EndMillis int64
	// Message says what went wrong.
	Message string
	// AppUIURL is the web UI of the application that it runs, "" when unknown.
	AppUIURL string
}
