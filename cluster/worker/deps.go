package worker

import (
	"regexp"
	"time"

	"github.com/hashicorp/go-hclog"

	"raftmaster/transport/sparkmsg"
)

// Clock tells the time.
type Clock interface {
	Now() time.Time
}

// Network carries what the worker says. Every method returns at once; callbacks run on the Core's goroutine.
type Network interface {
	// Send queues a one-way message for an endpoint of the process at an address, in order with Ask.
	Send(to sparkmsg.Address, endpoint string, msg sparkmsg.Message)
	// Ask does the same for a message that wants an answer; done gets the answer or the reason why there is none.
	Ask(to sparkmsg.Address, endpoint string, msg sparkmsg.Message, timeout time.Duration, done func(sparkmsg.Message, error))
	// Receipt asks a master, behind what was sent to it, whether it is there; taken is true when all that was sent since
	// the last Ask or Receipt has certainly arrived in that process.
	Receipt(to sparkmsg.Address, timeout time.Duration, done func(taken bool))
}

// Conn is the connection on which a message came in.
type Conn interface {
	// ID tells connections apart.
	ID() uint64
	// PeerAddress is the address under which messages are sent on this connection; false while it has none.
	PeerAddress() (sparkmsg.Address, bool)
	// SetTrusted lifts the limit for messages of strangers.
	SetTrusted()
}

// ExecutorLaunch is an executor to be started.
type ExecutorLaunch struct {
	Instance        uint64
	AppID           string
	ExecutorID      int32
	ResourceProfile int32
	Cores, MemoryMB int32
	Command         sparkmsg.Command
	Resources       []sparkmsg.ResourceInformation
}

// DriverLaunch is a driver to be started.
type DriverLaunch struct {
	Instance  uint64
	DriverID  string
	JarURL    string
	MemoryMB  int32
	Supervise bool
	Command   sparkmsg.Command
	Resources []sparkmsg.ResourceInformation
}

// ExecutorEnd says how an executor ended.
type ExecutorEnd struct {
	State      sparkmsg.ExecutorState // KILLED, FAILED or EXITED
	Message    string
	ExitStatus *int32
}

// DriverEnd says how a driver ended for good.
type DriverEnd struct {
	State sparkmsg.DriverState // FINISHED, KILLED, FAILED or ERROR
	Error string               // for ERROR: why it could not be run
}

// Process is one executor or driver that was launched.
type Process interface {
	// Kill ends it, also while it is still being started: SIGTERM and then SIGKILL to its process group. It returns at
	// once and may be called again.
	Kill()
}

// Processes starts processes. Every method returns at once. started and ended run on the Core's goroutine: ended exactly
// once and last, started whenever a process exists (for a supervised driver once for each attempt), perhaps never.
type Processes interface {
	// Prepare is called when a master has accepted the worker: what launches will need may be made ready.
	Prepare()
	StartExecutor(l ExecutorLaunch, started func(pid int), ended func(ExecutorEnd)) Process
	StartDriver(l DriverLaunch, started func(pid int), ended func(DriverEnd)) Process
	// ForgetApplication removes what the executors of an application shared; none of them is left.
	ForgetApplication(appID string)
	// CleanWorkDir removes old directories of the work directory that nothing uses.
	CleanWorkDir()
}

// Deps are everything that a Core needs from outside.
type Deps struct {
	Clock     Clock
	Network   Network
	Processes Processes
	// Exit ends the worker with an exit code; it is called once at most and returns.
	Exit func(code int, reason string)
	Log  hclog.Logger
}

// CoreConfig is what a Core is told about its worker. All fields but those marked are required.
type CoreConfig struct {
	ID              string
	Self            sparkmsg.Address // of the RPC port
	Cores, MemoryMB int32
	WebUIURL        string
	Resources       []sparkmsg.ResourceInformation // optional
	Masters         []sparkmsg.Address
	// Heartbeat is a quarter of spark.worker.timeout.
	Heartbeat time.Duration
	// RetryShort and RetryLong are the pauses between attempts to register; ShortTries attempts wait the short one. After
	// MaxTries the worker exits (B-023).
	RetryShort, RetryLong time.Duration
	ShortTries, MaxTries  int
	// AskTimeout is spark.rpc.askTimeout.
	AskTimeout time.Duration
	// ReportTries is spark.worker.executorStateSync.maxAttempts: failures after which a report is complained about.
	ReportTries int
	// MasterPatience is how long a worker with executors or drivers waits for the next master to call before it registers
	// by itself: a Spark master that is still recovering would have its executors killed.
	MasterPatience time.Duration
	// PreferConfiguredMaster is spark.worker.preferConfiguredMasterAddress (optional).
	PreferConfiguredMaster bool
	// DecommissionEnabled is spark.decommission.enabled (optional).
	DecommissionEnabled bool
	// RetainedExecutors and RetainedDrivers bound the finished ones that are remembered.
	RetainedExecutors, RetainedDrivers int
	// Redaction tells which options are shown without their value; nil: Spark's default.
	Redaction *regexp.Regexp
	// CleanupInterval is spark.worker.cleanup.interval, 0 for no cleaning.
	CleanupInterval time.Duration
}
