package config

import (
	"fmt"
	"regexp"
	"strings"
	"syscall"
	"time"
)

// Default values of a worker; Spark's own.
const (
	DefaultWorkerWebUIPort      = 8081
	DefaultInitialRegistrations = 6
	DefaultMaxRegistrations     = 16
	DefaultTerminateTimeout     = 10 * time.Second
	DefaultCleanupInterval      = 30 * time.Minute
	DefaultAppDataTTL           = 7 * 24 * time.Hour
	DefaultWorkerIDPattern      = "worker-%s-%s-%d"
	DefaultExecutorSyncAttempts = 5
	DefaultDecommissionSignal   = "PWR"
	DefaultRetainedOnWorker     = 1000
	DefaultRollingBytes         = 1 << 20
	DefaultAskTimeout           = 2 * time.Minute
	minRollingBytes             = 80 << 10         // util/logging/RollingPolicy.scala: ten buffers of RollingFileAppender
	minRollingInterval          = time.Minute      // the same
	workerIDTimeLayout          = "20060102150405" // local time, as in Spark
	maxWorkerIDLength           = 500
)

// Worker is the whole configuration of one worker. LoadWorker fills it.
type Worker struct {
	// Masters lists every master, in the order given.
	Masters []Address
	// Host is the name by which masters and drivers reach this worker; Port its RPC port, 0 takes any free one.
	Host string
	Port int
	// BindHost is the address that the RPC port binds to.
	BindHost string
	// WebUIHost is the address that the web UI binds to; WebUIPort the first port tried, 0 takes any free one.
	WebUIHost string
	WebUIPort int
	// PublicHost is the host name in web URLs (SPARK_PUBLIC_DNS, else Host).
	PublicHost string
	// PortMaxRetries is how many ports above the first the web UI and the RPC port may try.
	PortMaxRetries int

	// Cores and MemoryMB are what the worker offers.
	Cores    int
	MemoryMB int
	// WorkDir holds the directories of executors and drivers (absolute).
	WorkDir string
	// LocalDirs are the roots of the scratch directories of executors, at least one.
	LocalDirs []string

	// Timeout is spark.worker.timeout; heartbeats are sent every quarter of it.
	Timeout time.Duration
	// InitialRegistrationRetries and MaxRegistrationRetries bound the attempts at short and at all intervals.
	InitialRegistrationRetries, MaxRegistrationRetries int
	// PreferConfiguredMasterAddress answers a master at the configured address rather than at the one it names.
	PreferConfiguredMasterAddress bool
	// ExecutorStateSyncMaxAttempts: after so many failed reports of an executor's state the worker ends.
	ExecutorStateSyncMaxAttempts int
	// IDPattern makes the worker's id from time, host and port (spark.worker.idPattern).
	IDPattern string
	// AskTimeout is how long a master may take for an answer (spark.rpc.askTimeout, else spark.network.timeout).
	AskTimeout time.Duration
	// DriverTerminateTimeout is the time that each step of ending a driver may take.
	DriverTerminateTimeout time.Duration

	// Cleanup of the work directory.
	Cleanup WorkerCleanup
	// CleanupFilesAfterExecutorExit is spark.storage.cleanupFilesAfterExecutorExit.
	CleanupFilesAfterExecutorExit bool
	// Rolling of the executors' log files.
	Rolling WorkerRolling

	// DecommissionEnabled and DecommissionSignal (without SIG) decommission the worker by a signal.
	DecommissionEnabled bool
	DecommissionSignal  string

	// ResourcesFile and Resources are the custom resources.
	ResourcesFile string
	Resources     []WorkerResource

	// RetainedExecutors and RetainedDrivers bound the finished ones that are remembered.
	RetainedExecutors, RetainedDrivers int
	// UI holds what the pages show.
	UI WorkerUI

	// LogLevel is one of trace, debug, info, warn, error; LogJSON selects one JSON object per line.
	LogLevel string
	LogJSON  bool
	// MessageMaxBytes bounds one RPC message, up to MaxMessageBytes.
	MessageMaxBytes int

	// Properties are the spark.* properties that were given, -D and file together; they may hold secrets.
	Properties map[string]string
}

// WorkerCleanup are spark.worker.cleanup.*.
type WorkerCleanup struct {
	Enabled    bool
	Interval   time.Duration
	AppDataTTL time.Duration
}

// Rolling strategies.
const (
	RollingNone = ""
	RollingTime = "time"
	RollingSize = "size"
)

// WorkerRolling are spark.executor.logs.rolling.* of the worker's own configuration.
type WorkerRolling struct {
	// Strategy is RollingNone, RollingTime or RollingSize.
	Strategy string
	// Interval is the period of RollingTime.
	Interval time.Duration
	// MaxBytes is the size of RollingSize.
	MaxBytes int64
	// MaxRetainedFiles: older ones are removed; 0 or less: none is.
	MaxRetainedFiles int
	// Compress rolled files with gzip.
	Compress bool
}

// WorkerResource is spark.worker.resource.NAME.*.
type WorkerResource struct {
	Name   string
	Amount int
	Script string
	Vendor string
}

// WorkerUI are the settings of the worker's pages.
type WorkerUI struct {
	ReverseProxy    bool
	ReverseProxyURL string
	// RedactionRegex (RE2) tells which options are shown without their value. "" matches, and so hides, everything.
	RedactionRegex string
	// XXSSProtection, AllowFramingFrom and ContentSecurityPolicy are as in the master's UI.
	XXSSProtection        string
	AllowFramingFrom      string
	ContentSecurityPolicy bool
}

// MasterURL is spark://a:7077,b:7077: every master.
func (w *Worker) MasterURL() string {
	parts := make([]string, len(w.Masters))
	for i, a := range w.Masters {
		parts[i] = a.String()
	}
	return "spark://" + strings.Join(parts, ",")
}

// WorkerID makes the id of a worker that was started at the time, with this RPC port.
func (w *Worker) WorkerID(started time.Time, port int) string {
	return fmt.Sprintf(w.IDPattern, started.Local().Format(workerIDTimeLayout), w.Host, port)
}

// Redaction is the compiled RedactionRegex.
func (w *Worker) Redaction() *regexp.Regexp { return regexp.MustCompile(w.UI.RedactionRegex) }

// decommissionSignals are what DecommissionSignal may name: none that ends a worker or that the Go runtime needs.
var decommissionSignals = map[string]syscall.Signal{
	"HUP": syscall.SIGHUP, "USR1": syscall.SIGUSR1, "USR2": syscall.SIGUSR2, "PWR": syscall.SIGPWR, "WINCH": syscall.SIGWINCH,
	"ALRM": syscall.SIGALRM,
}

// Signal is DecommissionSignal as the system knows it.
func (w *Worker) Signal() syscall.Signal { return decommissionSignals[w.DecommissionSignal] }

// Warning is a remark about a setting that has no effect, or another one than asked for; the caller logs it once.
type Warning string

// UnsupportedError refuses a start: a setting asks for something that a worker of this release cannot do, and that jobs
// would fail without.
type UnsupportedError struct {
	// Key is the property; Reason says what would go wrong, and what to do.
	Key, Reason string
}

func (e *UnsupportedError) Error() string { return e.Key + " is set: " + e.Reason }
