package fsm

// WorkerRef is what is needed to send a worker a message.
type WorkerRef struct {
	ID       string
	Address  Address
	Families uint8
	Release  string
}

// DriverRef is what is needed to send an application's driver a message.
type DriverRef struct {
	AppID    string
	Address  Address
	Families uint8
	Release  string
}

// Effect is a message that the leader owes to a peer because of a committed command. It carries every fact needed to
// send it, since the state may have moved on. Effects of one command are in the order in which they must be sent;
// followers drop them. Byte slices inside belong to the state: read only.
type Effect interface{ isEffect() }

// LaunchExecutor asks a worker to start an executor. It must never be sent twice.
type LaunchExecutor struct {
	Worker          WorkerRef
	AppID           string
	ExecID          int
	ProfileID       int
	Cores, MemoryMB int
	Resources       []Resource
	// Payload is the application's description; AppFamilies and AppRelease are its driver's.
	Payload     []byte
	AppFamilies uint8
	AppRelease  string
}

// ExecutorAdded tells a driver that an executor was placed (B-121).
type ExecutorAdded struct {
	Driver          DriverRef
	ExecID          int
	WorkerID        string
	HostPort        string
	Cores, MemoryMB int
}

// ExecutorUpdated tells a driver the state of an executor (B-122).
type ExecutorUpdated struct {
	Driver     DriverRef
	ExecID     int
	State      ExecutorState
	Message    *string
	ExitStatus *int
	WorkerHost *string
}

// KillExecutor asks a worker to end an executor (B-126). Repeating it is harmless.
type KillExecutor struct {
	Worker WorkerRef
	AppID  string
	ExecID int
}

// WorkerRemoved tells the drivers of all unfinished applications that a worker is gone (B-060).
type WorkerRemoved struct {
	WorkerID, Host, Message string
	Drivers                 []DriverRef
}

// ApplicationRemoved tells a driver that its application ended otherwise than by its own wish (B-113).
type ApplicationRemoved struct {
	Driver DriverRef
	State  AppState
}

// ApplicationFinished tells all workers, DEAD ones included, that an application has ended (B-113).
type ApplicationFinished struct {
	AppID   string
	Workers []WorkerRef
}

// DecommissionWorker tells a worker that it is decommissioned (B-065).
type DecommissionWorker struct {
	Worker WorkerRef
}

// LaunchDriver asks a worker to start a driver (B-140). It must never be sent twice, and by nobody but the leader: the
// message names no master, so that a worker cannot refuse a stale one (S19).
type LaunchDriver struct {
	Worker          WorkerRef
	DriverID        string
	Cores, MemoryMB int
	Supervise       bool
	Resources       []Resource
	// Payload is the driver's description; DriverFamilies and DriverRelease are its client's.
	Payload        []byte
	DriverFamilies uint8
	DriverRelease  string
}

// KillDriver asks a worker to end a driver (B-135). Repeating it is harmless.
type KillDriver struct {
	Worker   WorkerRef
	DriverID string
}

func (LaunchDriver) isEffect()        {}
func (KillDriver) isEffect()          {}
func (LaunchExecutor) isEffect()      {}
func (ExecutorAdded) isEffect()       {}
func (ExecutorUpdated) isEffect()     {}
func (KillExecutor) isEffect()        {}
func (WorkerRemoved) isEffect()       {}
func (ApplicationRemoved) isEffect()  {}
func (ApplicationFinished) isEffect() {}
func (DecommissionWorker) isEffect()  {}
