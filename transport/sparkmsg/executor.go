package sparkmsg

import "raftmaster/transport/javaser"

// Messages between executors and their driver (org.apache.spark.scheduler.cluster.CoarseGrainedClusterMessages,
// org.apache.spark.storage.BlockManagerMessages, org.apache.spark.HeartbeatReceiver). Executors have no server: their
// references lack an address, and they are reached on the connection that they opened only.

// Property is one entry of SparkAppConfig.SparkProperties.
type Property struct{ Key, Value string }

// StringPair is one entry of a map of strings, in wire order.
type StringPair struct{ Key, Value string }

// RetrieveSparkAppConfig asks for the configuration (executor to driver, ask; SparkAppConfig).
type RetrieveSparkAppConfig struct{ ResourceProfileID int32 }

// SparkAppConfig answers RetrieveSparkAppConfig.
type SparkAppConfig struct {
	SparkProperties       []Property // spark.driver.host and spark.driver.port are needed
	IOEncryptionKey       []byte     // nil: None
	HadoopDelegationCreds []byte     // nil: None
	ResourceProfile       ResourceProfile
	LogLevel              *string // families C to E
}

// RegisterExecutor announces an executor to its driver (ask; any normal Boolean accepts, a failure refuses). A map of an
// unknown class reads as empty: a driver can do without them.
type RegisterExecutor struct {
	ExecutorID        string
	Executor          EndpointRef // name "Executor", no address
	Hostname          string
	Cores             int32
	LogURLs           []StringPair
	Attributes        []StringPair
	Resources         []ResourceInformation
	ResourceProfileID int32
}

// LaunchedExecutor tells that tasks may be sent (executor to driver, one-way).
type LaunchedExecutor struct{ ExecutorID string }

// RemoveExecutor tells that an executor must be forgotten (executor to driver, one-way): its start failed, or its
// decommissioning is done.
type RemoveExecutor struct {
	ExecutorID string
	Reason     string // ExecutorLossReason.message
	// ReasonClass is the class of the reason when read; what is written is an ExecutorLossReason.
	ReasonClass string
}

// StopExecutor ends an executor with exit status 0 (driver to executor, one-way).
type StopExecutor struct{}

// DecommissionExecutor makes an executor move its blocks away, and report with RemoveExecutor (driver to executor,
// one-way).
type DecommissionExecutor struct{}

// ExecutorDecommissioning tells that an executor decommissions by itself, after a signal (executor to driver, ask;
// Boolean).
type ExecutorDecommissioning struct{ ExecutorID string }

// BlockManagerID is org.apache.spark.storage.BlockManagerId.
type BlockManagerID struct {
	ExecutorID string
	Host       string
	Port       int32
	Topology   *string
	// Graph is the object as received, which is what Encode writes.
	Graph *javaser.Object
}

// RegisterBlockManager announces the block manager of an executor (ask; the answer is a BlockManagerID).
type RegisterBlockManager struct {
	ID                BlockManagerID
	LocalDirs         []string
	MaxOnHeapMemSize  int64 // bytes
	MaxOffHeapMemSize int64 // bytes
	Sender            EndpointRef
	IsReRegister      bool // not in every release of family A
}

// RegisteredBlockManager is the answer to RegisterBlockManager: on the wire the BlockManagerId itself.
type RegisteredBlockManager struct{ ID BlockManagerID }

// ExecutorHeartbeat is org.apache.spark.Heartbeat (executor to driver, ask; HeartbeatResponse). What it tells about
// tasks is counted, not read.
type ExecutorHeartbeat struct {
	ExecutorID   string
	BlockManager BlockManagerID
	AccumUpdates int // running tasks
	Updates      int // entries of executorUpdates: stages with their peak memory figures
}

// HeartbeatResponse answers ExecutorHeartbeat.
type HeartbeatResponse struct{ ReregisterBlockManager bool }

// TriggerThreadDump asks for the stack traces of an executor (driver to block manager endpoint, ask; ThreadDump).
type TriggerThreadDump struct{}

// ThreadDump is the answer to TriggerThreadDump: on the wire an array of ThreadStackTrace.
type ThreadDump struct{ Threads []ThreadStackTrace }

// ThreadStackTrace is org.apache.spark.status.api.v1.ThreadStackTrace, as far as all families have it.
type ThreadStackTrace struct {
	ThreadID int64
	Name     string
	State    string   // of java.lang.Thread.State: RUNNABLE, WAITING...
	Stack    []string // innermost frame first; a frame may end with a newline
}

// MessageName returns Spark's simple class name.
func (*RetrieveSparkAppConfig) MessageName() string { return "RetrieveSparkAppConfig" }

// MessageName returns Spark's simple class name.
func (*SparkAppConfig) MessageName() string { return "SparkAppConfig" }

// MessageName returns Spark's simple class name.
func (*RegisterExecutor) MessageName() string { return "RegisterExecutor" }

// MessageName returns Spark's simple class name.
func (*LaunchedExecutor) MessageName() string { return "LaunchedExecutor" }

// MessageName returns Spark's simple class name.
func (*RemoveExecutor) MessageName() string { return "RemoveExecutor" }

// MessageName returns Spark's simple class name.
func (*StopExecutor) MessageName() string { return "StopExecutor" }

// MessageName returns Spark's simple class name.
func (*DecommissionExecutor) MessageName() string { return "DecommissionExecutor" }

// MessageName returns Spark's simple class name.
func (*ExecutorDecommissioning) MessageName() string { return "ExecutorDecommissioning" }

// MessageName returns Spark's simple class name.
func (*RegisterBlockManager) MessageName() string { return "RegisterBlockManager" }

// MessageName returns Spark's simple class name.
func (*RegisteredBlockManager) MessageName() string { return "BlockManagerId" }

// MessageName returns "ExecutorHeartbeat", because a worker's message is a Heartbeat too.
func (*ExecutorHeartbeat) MessageName() string { return "ExecutorHeartbeat" }

// MessageName returns Spark's simple class name.
func (*HeartbeatResponse) MessageName() string { return "HeartbeatResponse" }

// MessageName returns Spark's simple class name.
func (*TriggerThreadDump) MessageName() string { return "TriggerThreadDump" }

// MessageName returns Spark's simple class name of one element.
func (*ThreadDump) MessageName() string { return "ThreadStackTrace[]" }
