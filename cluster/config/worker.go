package config

import (
	"errors"
	"time"
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
	// RedactionRegex (RE2) tells which options are shown without their value.
	RedactionRegex string
	// XXSSProtection, AllowFramingFrom and ContentSecurityPolicy are as in the master's UI.
	XXSSProtection        string
	AllowFramingFrom      string
	ContentSecurityPolicy bool
}

// WorkerFlags is what the command line of a worker said. A nil field means that the flag was not given.
type WorkerFlags struct {
	// Masters is the positional argument: spark://a:7077,b:7077.
	Masters        *string
	Host           *string
	Port           *int
	WebUIPort      *int
	Cores          *int
	Memory         *string
	WorkDir        *string
	PropertiesFile *string
	LogLevel       *string
	LogJSON        *bool
}

// WorkerHost is what LoadWorker takes from the machine. Zero fields mean the real one.
type WorkerHost struct {
	// SparkHome and Release are those of the installed Spark: the default work directory and some defaults follow them.
	SparkHome, Release string
	ReadFile           func(path string) ([]byte, error)
	LocalHost          func() (string, error)
	// CPUs counts the processors that this process may use; MemoryMB the memory of the machine or container.
	CPUs     func() int
	MemoryMB func() (int, error)
}

// Warning is a remark about a setting that has no effect, or another one than asked for; the caller logs it once.
type Warning string

// LoadWorker builds a valid configuration, or says which setting is wrong and what is allowed. environ is the worker's
// environment as launcher.Environment gives it, so that what conf/spark-env.sh sets counts.
func LoadWorker(flags WorkerFlags, environ []string, host WorkerHost) (*Worker, []Warning, error) {
	return nil, nil, errors.New("not built yet")
}
