package sparkmsg

// Messages between workers and the master.

// RegisterWorker announces a worker (worker to master, one-way).
type RegisterWorker struct {
	ID             string
	Host           string
	Port           int32
	Worker         EndpointRef
	Cores          int32
	Memory         int32 // MiB
	WorkerWebUIURL string
	MasterAddress  Address // the address that the worker dialled; echoed in RegisteredWorker
	Resources      []ResourceInformation
}

// RegisteredWorker accepts a worker (master to worker, one-way).
type RegisteredWorker struct {
	Master         EndpointRef
	MasterWebUIURL string
	MasterAddress  Address
	Duplicate      bool
}

// RegisterWorkerFailed refuses a worker, which then exits (master to worker, one-way).
type RegisterWorkerFailed struct{ Message string }

// MasterInStandby tells a worker that this master does not lead (master to worker, one-way; a case object).
type MasterInStandby struct{}

// Heartbeat (worker to master, one-way).
type Heartbeat struct {
	WorkerID string
	Worker   EndpointRef
}

// ReconnectWorker asks a worker to register again (master to worker, one-way).
type ReconnectWorker struct{ MasterURL string }

// ExecutorDescription is what a worker knows of an executor. Family A has neither RPID nor MemoryMB: both decode as 0.
type ExecutorDescription struct {
	AppID    string
	ExecID   int32
	RPID     int32
	Cores    int32
	MemoryMB int32
	State    ExecutorState
}

// WorkerLatestState lists what runs on a worker, after each RegisteredWorker (worker to master, one-way).
type WorkerLatestState struct {
	ID        string
	Executors []ExecutorDescription
	DriverIDs []string
}

// LaunchExecutor starts an executor (master to worker, one-way). Family A has no RPID.
type LaunchExecutor struct {
	MasterURL string
	AppID     string
	ExecID    int32
	RPID      int32
	AppDesc   *ApplicationDescription
	Cores     int32
	Memory    int32 // MiB
	Resources []ResourceInformation
}

// KillExecutor stops an executor (master to worker, one-way).
type KillExecutor struct {
	MasterURL string
	AppID     string
	ExecID    int32
}

// ApplicationFinished lets a worker clean up after an application (master to worker, one-way).
type ApplicationFinished struct{ ID string }

// ExecutorStateChanged reports an executor (worker to master, ask; the answer is Boolean true).
type ExecutorStateChanged struct {
	AppID      string
	ExecID     int32
	State      ExecutorState
	Message    *string
	ExitStatus *int32
}

// LaunchDriver starts a driver in cluster mode (master to worker, one-way).
type LaunchDriver struct {
	DriverID   string
	DriverDesc *DriverDescription
	Resources  []ResourceInformation
}

// KillDriver stops a driver (master to worker, one-way).
type KillDriver struct{ DriverID string }

// DriverStateChanged reports a driver (worker to master, one-way).
type DriverStateChanged struct {
	DriverID  string
	State     DriverState
	Exception *Exception
}

// WorkerDecommissioning says that a worker is being decommissioned (worker to master, one-way).
type WorkerDecommissioning struct {
	ID        string
	WorkerRef EndpointRef
}

// DecommissionWorker asks a worker to decommission itself (master to worker, one-way; an object).
type DecommissionWorker struct{}

// MasterChanged announces a new leader (master to worker and to application client, one-way).
type MasterChanged struct {
	Master         EndpointRef
	MasterWebUIURL string
}

// WorkerExecutorStateResponse is an executor in WorkerSchedulerStateResponse.
type WorkerExecutorStateResponse struct {
	Desc      ExecutorDescription
	Resources []ResourceInformation
}

// WorkerDriverStateResponse is a driver in WorkerSchedulerStateResponse.
type WorkerDriverStateResponse struct {
	DriverID  string
	Resources []ResourceInformation
}

// WorkerSchedulerStateResponse answers MasterChanged (worker to master, one-way).
type WorkerSchedulerStateResponse struct {
	ID              string
	ExecResponses   []WorkerExecutorStateResponse
	DriverResponses []WorkerDriverStateResponse
}

// MessageName returns Spark's simple class name.
func (*RegisterWorker) MessageName() string { return "RegisterWorker" }

// MessageName returns Spark's simple class name.
func (*RegisteredWorker) MessageName() string { return "RegisteredWorker" }

// MessageName returns Spark's simple class name.
func (*RegisterWorkerFailed) MessageName() string { return "RegisterWorkerFailed" }

// MessageName returns Spark's simple class name.
func (*MasterInStandby) MessageName() string { return "MasterInStandby" }

// MessageName returns Spark's simple class name.
func (*Heartbeat) MessageName() string { return "Heartbeat" }

// MessageName returns Spark's simple class name.
func (*ReconnectWorker) MessageName() string { return "ReconnectWorker" }

// MessageName returns Spark's simple class name.
func (*WorkerLatestState) MessageName() string { return "WorkerLatestState" }

// MessageName returns Spark's simple class name.
func (*LaunchExecutor) MessageName() string { return "LaunchExecutor" }

// MessageName returns Spark's simple class name.
func (*KillExecutor) MessageName() string { return "KillExecutor" }

// MessageName returns Spark's simple class name.
func (*ApplicationFinished) MessageName() string { return "ApplicationFinished" }

// MessageName returns Spark's simple class name.
func (*ExecutorStateChanged) MessageName() string { return "ExecutorStateChanged" }

// MessageName returns Spark's simple class name.
func (*LaunchDriver) MessageName() string { return "LaunchDriver" }

// MessageName returns Spark's simple class name.
func (*KillDriver) MessageName() string { return "KillDriver" }

// MessageName returns Spark's simple class name.
func (*DriverStateChanged) MessageName() string { return "DriverStateChanged" }

// MessageName returns Spark's simple class name.
func (*WorkerDecommissioning) MessageName() string { return "WorkerDecommissioning" }

// MessageName returns Spark's simple class name.
func (*DecommissionWorker) MessageName() string { return "DecommissionWorker" }

// MessageName returns Spark's simple class name.
func (*MasterChanged) MessageName() string { return "MasterChanged" }

// MessageName returns Spark's simple class name.
func (*WorkerSchedulerStateResponse) MessageName() string { return "WorkerSchedulerStateResponse" }
