package sparkmsg

// Messages between application clients (inside drivers) and the master.

// RegisterApplication announces an application (driver to master, one-way).
type RegisterApplication struct {
	AppDescription *ApplicationDescription
	Driver         EndpointRef
}

// RegisteredApplication accepts an application (master to driver, one-way).
type RegisteredApplication struct {
	AppID  string
	Master EndpointRef
}

// ExecutorAdded tells a driver of a launched executor (master to driver, one-way).
type ExecutorAdded struct {
	ID       int32
	WorkerID string
	HostPort string // host:port of the worker's RPC server
	Cores    int32
	Memory   int32 // MiB
}

// ExecutorUpdated tells a driver of a change of an executor (master to driver, one-way).
type ExecutorUpdated struct {
	ID         int32
	State      ExecutorState
	Message    *string
	ExitStatus *int32
	WorkerHost *string // set only for executors of lost or decommissioned workers
}

// ApplicationRemoved ends an application (master to driver, one-way).
type ApplicationRemoved struct{ Message string } // the name of the final state: FAILED or KILLED

// WorkerRemoved tells a driver of a lost worker (master to driver, one-way).
type WorkerRemoved struct {
	ID      string
	Host    string
	Message string
}

// UnregisterApplication ends an application in order (driver to master, one-way). AppID is "" (null on the wire) if the
// driver never learned it.
type UnregisterApplication struct{ AppID string }

// MasterChangeAcknowledged answers MasterChanged (driver to master, one-way). AppID is "" (null on the wire) if the
// driver never got its RegisteredApplication.
type MasterChangeAcknowledged struct{ AppID string }

// ProfileTotal is one entry of RequestExecutors.
type ProfileTotal struct {
	Profile ResourceProfile
	Total   int32 // executors wanted in all, not in addition
}

// RequestExecutors sets the number of executors of an application (driver to master, ask; Boolean). Family A knows one
// total for the default profile: it decodes as one entry with profile id 0.
type RequestExecutors struct {
	AppID                       string
	ResourceProfileToTotalExecs []ProfileTotal // in wire order
}

// KillExecutors asks for executors to be killed (driver to master, ask; Boolean).
type KillExecutors struct {
	AppID       string
	ExecutorIDs []string
}

// MessageName returns Spark's simple class name.
func (*RegisterApplication) MessageName() string { return "RegisterApplication" }

// MessageName returns Spark's simple class name.
func (*RegisteredApplication) MessageName() string { return "RegisteredApplication" }

// MessageName returns Spark's simple class name.
func (*ExecutorAdded) MessageName() string { return "ExecutorAdded" }

// MessageName returns Spark's simple class name.
func (*ExecutorUpdated) MessageName() string { return "ExecutorUpdated" }

// MessageName returns Spark's simple class name.
func (*ApplicationRemoved) MessageName() string { return "ApplicationRemoved" }

// MessageName returns Spark's simple class name.
func (*WorkerRemoved) MessageName() string { return "WorkerRemoved" }

// MessageName returns Spark's simple class name.
func (*UnregisterApplication) MessageName() string { return "UnregisterApplication" }

// MessageName returns Spark's simple class name.
func (*MasterChangeAcknowledged) MessageName() string { return "MasterChangeAcknowledged" }

// MessageName returns Spark's simple class name.
func (*RequestExecutors) MessageName() string { return "RequestExecutors" }

// MessageName returns Spark's simple class name.
func (*KillExecutors) MessageName() string { return "KillExecutors" }
