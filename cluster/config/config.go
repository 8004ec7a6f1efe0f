package config

import (
	"math"
	"net"
	"strconv"
	"strings"
	"time"

	"raftmaster/fsm"
)

// Default values; Spark's own where Spark has the setting.
const (
	DefaultPort            = 7077
	DefaultWebUIPort       = 8080
	DefaultRESTPort        = 6066
	DefaultFailoverTimeout = 500 * time.Millisecond
	DefaultWorkerTimeout   = 60 * time.Second
	DefaultAppTimeout      = 120 * time.Second
	DefaultPortMaxRetries  = 16
	DefaultLogLevel        = "info"
	// DefaultRESTBodyBytes is the largest REST request, and the largest limit that can be set: a description that the log
	// takes has at most 512 KiB, so Spark's own 100m would only let strangers fill the memory.
	DefaultRESTBodyBytes = 4 << 20
	// DefaultRESTSparkVersion is what REST answers say as serverSparkVersion.
	DefaultRESTSparkVersion = "4.3.0"
	// DefaultRedactionRegex tells which names have values that are never shown (spark.redaction.regex).
	DefaultRedactionRegex = "(?i)secret|password|token|access[.]?key"
	// MaxMessageBytes is the largest message that a master reads: the limit of its decoder.
	MaxMessageBytes = 16 << 20
	// DefaultMessageMaxBytes is the frame limit of a registered peer.
	DefaultMessageMaxBytes = MaxMessageBytes
)

// Address is a host and port of the cluster list, exactly as the operator wrote it. Hosts are not resolved here: they
// are resolved at each dial, so that a moved master is found again.
type Address struct {
	Host string
	Port int
}

// String gives host:port, with brackets around an IPv6 host.
func (a Address) String() string {
	host := strings.TrimSuffix(strings.TrimPrefix(a.Host, "["), "]")
	return net.JoinHostPort(host, strconv.Itoa(a.Port))
}

// Config is the whole configuration of one master. Load fills it; a zero Config is not usable, start from Default.
type Config struct {
	// Host is the address that the cluster port binds to.
	Host string
	// Port is the cluster port: Spark's RPC and the internal connections share it. It never walks to another number.
	Port int
	// AdvertiseHost is the name by which workers, applications and the other masters reach this one.
	AdvertiseHost string
	// Cluster lists every master in the order given; it contains this one exactly once.
	Cluster []Address

	// WebUIHost is the address that the web UI binds to ("0.0.0.0" unless SPARK_LOCAL_IP is set).
	WebUIHost string
	// WebUIPort is the first port tried for the web UI; 0 takes any free one.
	WebUIPort int
	// PublicHost is the host name shown in web URLs (SPARK_PUBLIC_DNS, else AdvertiseHost).
	PublicHost string
	// RESTEnabled, RESTHost and RESTPort belong to the REST submission gateway.
	RESTEnabled bool
	RESTHost    string
	RESTPort    int
	// REST holds what the gateway accepts.
	REST REST
	// PortMaxRetries is how many ports above the first the web UI and REST may try.
	PortMaxRetries int

	// DataDir holds the Raft log, the snapshots and the identity of this node.
	DataDir string
	// FailoverTimeout sets Raft's heartbeat time-out, election time-out and the leader's lease.
	FailoverTimeout time.Duration
	// LogLevel is one of trace, debug, info, warn, error; LogJSON selects one JSON object per line.
	LogLevel string
	LogJSON  bool
	// AdminTokenFile names a file with the tokens that must be presented by callers that change anything, see ParseTokens;
	// empty: only loopback callers may.
	AdminTokenFile string
	// ClusterTLS protects connections between masters, WebTLS and RESTTLS make those ports HTTPS.
	ClusterTLS      ClusterTLS
	WebTLS, RESTTLS TLSFiles
	clusterTLSMode  string

	// Snapshots are saved on a schedule.
	Snapshots Snapshots

	// EnableDrills opens the drill interface (POST /v1/drill/KIND); DrillsInProcess: this process is not the master's alone,
	// so that a drill ends or pauses the master and not the process.
	EnableDrills    bool
	DrillsInProcess bool

	// Deploy holds the scheduling and life cycle settings that Spark's master reads.
	Deploy Deploy
	// UI holds what the pages show.
	UI UI
	// MessageMaxBytes bounds one RPC message of a registered peer, up to MaxMessageBytes. Spark's default for
	// spark.rpc.message.maxSize is 128 MiB; a master receives nothing near that.
	MessageMaxBytes int

	// Properties are the spark.* properties that were given, -D and file together, as read; they may hold secrets.
	Properties map[string]string

	// Warnings are remarks about settings that have no effect, or another one than asked for; the caller logs them once.
	Warnings []string
}

// Deploy are the settings of the scheduler and of the life cycle of workers and applications.
type Deploy struct {
	// WorkerTimeout: a worker silent for longer is DEAD (spark.worker.timeout).
	WorkerTimeout time.Duration
	// RecoveryTimeout: how long a new leader lists a peer as awaited (spark.deploy.recoveryTimeout, else WorkerTimeout).
	RecoveryTimeout time.Duration
	// AppTimeout: an unreachable application ends as FAILED after it (spark.raftmaster.app.timeout).
	AppTimeout time.Duration
	// DeadWorkerPersistence: DEAD workers are forgotten after (n+1) worker time-outs (spark.dead.worker.persistence).
	DeadWorkerPersistence int
	// RetainedApplications and RetainedDrivers bound the finished ones that are remembered.
	RetainedApplications int
	RetainedDrivers      int
	// MaxExecutorRetries: failures in a row without a running executor that end an application; negative: never.
	MaxExecutorRetries int
	// SpreadOutApps spreads the executors of an application over as many workers as possible.
	SpreadOutApps bool
	// SpreadOutDrivers does so for drivers.
	SpreadOutDrivers bool
	// WorkerSelectionPolicy orders usable workers (spark.deploy.workerSelectionPolicy).
	WorkerSelectionPolicy fsm.SelectionPolicy
	// DefaultCores is the core limit of an application that sets none.
	DefaultCores int
	// MaxDrivers caps the drivers running at once.
	MaxDrivers int
	// AppIDPattern and DriverIDPattern make identifiers from a time and a number (spark.deploy.appIdPattern,
	// spark.deploy.driverIdPattern).
	AppIDPattern, DriverIDPattern string
	// AppNumberModulo wraps the number in an application's id; 0: never (spark.deploy.appNumberModulo).
	AppNumberModulo int
	// UseAppNameAsAppID and UseDriverIDAsAppName are spark.master.useAppNameAsAppId.enabled and
	// spark.master.useDriverIdAsAppName.enabled.
	UseAppNameAsAppID, UseDriverIDAsAppName bool
	// RelaunchDelay: how long a supervised driver whose worker was lost waits for its next start
	// (spark.raftmaster.driver.relaunchDelay).
	RelaunchDelay time.Duration
	// DecommissionEnabled is spark.decommission.enabled.
	DecommissionEnabled bool
}

// REST are the settings of the REST submission gateway beside its address.
type REST struct {
	// MaxBodyBytes bounds one request body, from 1 to DefaultRESTBodyBytes (spark.master.rest.maxRequestBodySize).
	MaxBodyBytes int64
	// AllowedAppResources are regular expressions (RE2), one of which an appResource must match as a whole; none: all are
	// allowed (spark.master.rest.allowedAppResourcePatterns).
	AllowedAppResources []string
	// PlaceholderEnv names the environment variables of this master that a submission may ask for as {{NAME}}
	// (spark.raftmaster.rest.placeholderEnv).
	PlaceholderEnv []string
	// SparkVersion is what answers say as serverSparkVersion (spark.raftmaster.rest.sparkVersion).
	SparkVersion string
}

// UI are the settings of the pages.
type UI struct {
	// ReverseProxy and ReverseProxyURL are spark.ui.reverseProxy and spark.ui.reverseProxyUrl.
	ReverseProxy    bool
	ReverseProxyURL string
	// Title replaces the page title when set (spark.master.ui.title).
	Title string
	// AllowFramingFrom names a site that may frame the pages (spark.ui.allowFramingFrom).
	AllowFramingFrom string
	// XXSSProtection is sent as X-XSS-Protection (spark.ui.xXssProtection).
	XXSSProtection string
	// ContentSecurityPolicy sends a Content-Security-Policy with every page.
	ContentSecurityPolicy bool
	// KillEnabled allows kill buttons (spark.ui.killEnabled).
	KillEnabled bool
	// HistoryServerURL is linked from finished applications (spark.master.ui.historyServerUrl).
	HistoryServerURL string
	// DecommissionAllow says who may decommission over HTTP: LOCAL, DENY or ALLOW
	// (spark.master.ui.decommission.allow.mode).
	DecommissionAllow string
	// VisibleEnvVarPrefixes are the prefixes of the environment variables that are shown; none: no variable is
	// (spark.master.ui.visibleEnvVarPrefixes).
	VisibleEnvVarPrefixes []string
	// RedactionRegex (RE2) tells which properties and variables are shown without their value (spark.redaction.regex).
	RedactionRegex string
}

// Default is a cluster of one on every interface's first non-loopback address; Load starts from it.
func Default() Config {
	return Config{
		Port: DefaultPort, WebUIPort: DefaultWebUIPort, RESTEnabled: true, RESTPort: DefaultRESTPort,
		WebUIHost: "0.0.0.0", PortMaxRetries: DefaultPortMaxRetries,
		FailoverTimeout: DefaultFailoverTimeout, LogLevel: DefaultLogLevel, Snapshots: defaultSnapshots(),
		MessageMaxBytes: DefaultMessageMaxBytes,
		REST:            REST{MaxBodyBytes: DefaultRESTBodyBytes, SparkVersion: DefaultRESTSparkVersion},
		Deploy: Deploy{
			WorkerTimeout: DefaultWorkerTimeout, RecoveryTimeout: DefaultWorkerTimeout, AppTimeout: DefaultAppTimeout,
			DeadWorkerPersistence: 15, RetainedApplications: 200, RetainedDrivers: 200, MaxExecutorRetries: 10,
			SpreadOutApps: true, SpreadOutDrivers: true, WorkerSelectionPolicy: fsm.CoresFreeDesc,
			DefaultCores: math.MaxInt32, MaxDrivers: math.MaxInt32,
			AppIDPattern: fsm.DefaultAppIDPattern, DriverIDPattern: fsm.DefaultDriverIDPattern,
		},
		UI: UI{XXSSProtection: "0", ContentSecurityPolicy: true, KillEnabled: true, DecommissionAllow: "LOCAL",
			RedactionRegex: DefaultRedactionRegex},
	}
}

// Advertise is the address by which everybody else knows this master; it is an element of Cluster.
func (c Config) Advertise() Address { return Address{Host: c.AdvertiseHost, Port: c.Port} }

// MasterURL is spark://host:port of this master alone, the form that workers and applications compare.
func (c Config) MasterURL() string { return "spark://" + c.Advertise().String() }

// ClusterURL is spark://a:p,b:p,c:p: what workers and applications are given.
func (c Config) ClusterURL() string {
	parts := make([]string, len(c.Cluster))
	for i, a := range c.Cluster {
		parts[i] = a.String()
	}
	return "spark://" + strings.Join(parts, ",")
}

// BindAddress is host:port that the cluster port listens on.
func (c Config) BindAddress() string { return Address{Host: c.Host, Port: c.Port}.String() }
