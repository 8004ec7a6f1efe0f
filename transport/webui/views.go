package webui

import "raftmaster/transport/internal/uibase"

// Master states as Spark names them. RECOVERING is never shown: a new leader is ALIVE at once.
const (
	StateAlive   = "ALIVE"
	StateStandby = "STANDBY"
)

// Roles of Raft as shown in Status.Role and Peer.Role.
const (
	RoleLeader    = "leader"
	RoleFollower  = "follower"
	RoleCandidate = "candidate"
	RoleStopped   = "stopped"
	// RoleFresh is a master that has not become part of a cluster yet.
	RoleFresh   = "fresh"
	RoleUnknown = "unknown"
)

// Unknown marks a duration or a lag that this node cannot know.
const Unknown = uibase.Unknown

// Status is what one master knows about itself and its cluster; /v1/status gives it on every node, leader or not.
type Status struct {
	Version string `json:"version"`
	// NodeID is the generated identity of this node; Address its advertised host:port.
	NodeID  string `json:"node_id"`
	Address string `json:"address"`
	BootID  string `json:"boot_id"`
	// ClusterID is empty until the cluster has been bootstrapped.
	ClusterID string `json:"cluster_id"`
	// URL is spark://host:port of this master, ClusterURL the whole list.
	URL        string `json:"url"`
	ClusterURL string `json:"cluster_url"`
	WebURL     string `json:"web_url"`
	RESTURL    string `json:"rest_url"`
	// State is ALIVE or STANDBY, Role the Raft role.
	State string `json:"state"`
	Role  string `json:"role"`
	// LeaseValid: this master is the leader and may act as one at this instant.
	LeaseValid bool `json:"lease_valid"`
	// Stalled: this leader has entries that do not commit, although it is in contact with a majority.
	Stalled       bool   `json:"stalled"`
	Term          uint64 `json:"term"`
	CommitIndex   uint64 `json:"commit_index"`
	AppliedIndex  uint64 `json:"applied_index"`
	LastLogIndex  uint64 `json:"last_log_index"`
	SnapshotIndex uint64 `json:"snapshot_index"`
	// StateIndex is the last log entry that changed the state here, and StateDigest a hash of the state after it: of one
	// instant, and equal on all masters at equal StateIndex. Brief leaves them out.
	StateIndex  uint64 `json:"state_index"`
	StateDigest string `json:"state_digest"`
	// DataDir is the data directory, LogEntries how many entries its log has.
	DataDir    string `json:"data_dir"`
	LogEntries uint64 `json:"log_entries"`
	// Sizes on disk, and what is left on the file system of the data directory: 1 EiB when it has no size.
	LogBytes      int64 `json:"log_bytes"`
	SnapshotBytes int64 `json:"snapshot_bytes"`
	// UncoveredBytes are those of the log entries behind the last snapshot.
	UncoveredBytes int64 `json:"log_uncovered_bytes"`
	DiskFreeBytes  int64 `json:"disk_free_bytes"`
	StartedMillis  int64 `json:"started_millis"`
	NowMillis      int64 `json:"now_millis"`
	// Transferring: leadership is being handed over.
	Transferring bool `json:"transferring"`
	// CommandLevel is the level of commands that the cluster uses; see docs/OPERATIONS.md, "Upgrade".
	CommandLevel int `json:"command_level"`
	// Leader is nil when this node knows none.
	Leader *Leader `json:"leader"`
	Quorum Quorum  `json:"quorum"`
	// TakeOver is nil except on the leader while it still awaits peers of the term before.
	TakeOver *TakeOver `json:"take_over"`
	Counts   Counts    `json:"counts"`
	// LeaderChanges are the last elections, oldest first, from the replicated state.
	LeaderChanges []LeaderChange `json:"leader_changes"`
	// Alarms are conditions that need an operator, in words.
	Alarms []string `json:"alarms"`
	// Notes are remarks that call for nothing at this moment: what stands open to everybody who reaches the ports.
	Notes []string `json:"notes"`
}

// Leader is where the leader can be reached.
type Leader struct {
	NodeID  string `json:"node_id"`
	Address string `json:"address"`
	WebURL  string `json:"web_url"`
}

// LeaderChange is one election.
type LeaderChange struct {
	Term       uint64 `json:"term"`
	Index      uint64 `json:"index"`
	NodeID     string `json:"node_id"`
	Address    string `json:"address"`
	TimeMillis int64  `json:"time_millis"`
	Reason     string `json:"reason"`
}

// Quorum is the state of the voters as this node sees it.
type Quorum struct {
	Voters int `json:"voters"`
	// Needed is the size of a majority.
	Needed int `json:"needed"`
	// Reachable counts the voters in contact, this node included.
	Reachable int `json:"reachable"`
	// Tolerance is how many more voters may be lost before the cluster stops; negative: the majority is lost.
	Tolerance int    `json:"tolerance"`
	Peers     []Peer `json:"peers"`
}

// Peer is one master of the cluster.
type Peer struct {
	NodeID  string `json:"node_id"`
	Address string `json:"address"`
	WebURL  string `json:"web_url"`
	RESTURL string `json:"rest_url"`
	// Self marks the node that answers.
	Self bool `json:"self"`
	// Member: it is part of the Raft configuration; others are entries of the cluster list, or masters that have called.
	Member bool   `json:"member"`
	Voter  bool   `json:"voter"`
	Role   string `json:"role"`
	// Reachable: heard from within its time-out, as far as this node can tell.
	Reachable bool `json:"reachable"`
	// LastContactMillis is the age of the last sign of life; Unknown when this node does not track it.
	LastContactMillis int64 `json:"last_contact_millis"`
	// Lag is how many log entries the peer is behind the leader; Unknown on a follower.
	Lag     int64  `json:"lag"`
	Version string `json:"version"`
	// CommandLevel is the level of commands that it knows, by its last word; 0 when it has not been heard of.
	CommandLevel int `json:"command_level"`
	// Problem says in one line why the peer is refused or not in contact.
	Problem string `json:"problem"`
}

// TakeOver is the progress of a new leader in reaching the peers that the term before left behind.
type TakeOver struct {
	Term           uint64    `json:"term"`
	StartedMillis  int64     `json:"started_millis"`
	DeadlineMillis int64     `json:"deadline_millis"`
	Awaited        []Awaited `json:"awaited"`
}

// Awaited is one peer that has not answered the new leader yet.
type Awaited struct {
	// Kind is "worker", "app" or "driver".
	Kind           string `json:"kind"`
	ID             string `json:"id"`
	Address        string `json:"address"`
	DeadlineMillis int64  `json:"deadline_millis"`
	Attempts       int    `json:"attempts"`
}

// Counts are totals over the replicated state.
type Counts struct {
	WorkersByState map[string]int `json:"workers_by_state"`
	AppsByState    map[string]int `json:"apps_by_state"`
	// DriversByState counts unfinished drivers by state, and the others under "COMPLETED"; WaitingDrivers have no worker.
	DriversByState map[string]int `json:"drivers_by_state"`
	WaitingDrivers int            `json:"waiting_drivers"`
	// Executors counts those that are not finished.
	Executors int `json:"executors"`
	// Cores and memory are sums over ALIVE workers.
	Cores        int `json:"cores"`
	CoresUsed    int `json:"cores_used"`
	MemoryMB     int `json:"memory_mb"`
	MemoryUsedMB int `json:"memory_used_mb"`
}

// Resource is a named custom resource of a worker with its addresses and those in use.
type Resource struct {
	Name          string   `json:"name"`
	Addresses     []string `json:"addresses"`
	UsedAddresses []string `json:"used_addresses"`
}

// ResourceRequest is what one executor of an application asks for.
type ResourceRequest struct {
	Name   string `json:"name"`
	Amount int64  `json:"amount"`
}

// Worker is one registered worker, DEAD ones included.
type Worker struct {
	ID           string     `json:"id"`
	Host         string     `json:"host"`
	Port         int        `json:"port"`
	WebURL       string     `json:"web_url"`
	State        string     `json:"state"`
	Cores        int        `json:"cores"`
	CoresUsed    int        `json:"cores_used"`
	MemoryMB     int        `json:"memory_mb"`
	MemoryUsedMB int        `json:"memory_used_mb"`
	Resources    []Resource `json:"resources"`
	// Executors and Drivers count those that are not finished.
	Executors int `json:"executors"`
	Drivers   int `json:"drivers"`
	// Draining: an operator keeps new work away.
	Draining bool `json:"draining"`
	// LastHeartbeatMillis is the leader's soft state: 0 on a standby.
	LastHeartbeatMillis int64 `json:"last_heartbeat_millis"`
	RegisteredMillis    int64 `json:"registered_millis"`
	// SparkVersion is the exact release where known, Family the wire families that fit ("E", "DE").
	SparkVersion string `json:"spark_version"`
	Family       string `json:"family"`
	// Note says what the leader waits for before it places work there; empty when it places any.
	Note string `json:"note"`
}

// App is one application, active or completed.
type App struct {
	ID     string `json:"id"`
	Name   string `json:"name"`
	User   string `json:"user"`
	State  string `json:"state"`
	Active bool   `json:"active"`
	// Cores are those granted now; a completed application keeps its last figure, as in Spark.
	Cores int `json:"cores"`
	// MaxCores is the limit; 0 means none.
	MaxCores int `json:"max_cores"`
	// Executors counts those that are not finished.
	Executors           int               `json:"executors"`
	MemoryPerExecutorMB int               `json:"memory_per_executor_mb"`
	CoresPerExecutor    int               `json:"cores_per_executor"`
	Resources           []ResourceRequest `json:"resources_per_executor"`
	UIURL               string            `json:"ui_url"`
	DriverAddress       string            `json:"driver_address"`
	StartMillis         int64             `json:"start_millis"`
	// EndMillis is 0 while the application is active.
	EndMillis    int64  `json:"end_millis"`
	SparkVersion string `json:"spark_version"`
	Family       string `json:"family"`
	// EndReason says why a completed application ended, where known.
	EndReason string `json:"end_reason"`
	// WhyWaiting explains in words why the application has no more executors, where the leader knows.
	WhyWaiting string `json:"why_waiting"`
}

// Executor is one executor that is not finished.
type Executor struct {
	AppID    string `json:"app_id"`
	ID       int    `json:"id"`
	WorkerID string `json:"worker_id"`
	// Worker is host:port of the worker.
	Worker      string `json:"worker"`
	State       string `json:"state"`
	Cores       int    `json:"cores"`
	MemoryMB    int    `json:"memory_mb"`
	ProfileID   int    `json:"resource_profile_id"`
	StartMillis int64  `json:"start_millis"`
}

// Cluster is a consistent copy of the replicated tables: workers by id, applications and drivers in queue order and then
// completed ones, oldest first. Executors are asked for separately: there may be a hundred thousand.
type Cluster struct {
	Workers []Worker `json:"workers"`
	Apps    []App    `json:"apps"`
	Drivers []Driver `json:"drivers"`
}

// Event is one entry of the bounded history of this node.
type Event struct {
	// Seq rises by one with each event of this process; a gap means that older events were dropped.
	Seq        uint64 `json:"seq"`
	TimeMillis int64  `json:"time_millis"`
	// Kind is one word, among them: leader, failover, hand-over, peer-lost, peer-back, worker, app, driver, operator,
	// security, storage, digest, drill, log-level.
	Kind string `json:"kind"`
	Term uint64 `json:"term"`
	// Node is the address of the master that the event is about, Subject the worker, application or executor id.
	Node    string `json:"node"`
	Subject string `json:"subject"`
	Message string `json:"message"`
	Reason  string `json:"reason"`
	// Actor is the name of the token of the operator who did it; "" when it was no operator's doing.
	Actor string `json:"actor"`
}

// Health is the answer of /v1/health and of /readyz.
type Health struct {
	// Ready: ALIVE with a valid lease, or a STANDBY in contact with its leader.
	Ready bool `json:"ready"`
	// Reason says why not; empty when ready.
	Reason string  `json:"reason"`
	State  string  `json:"state"`
	Role   string  `json:"role"`
	Term   uint64  `json:"term"`
	Leader *Leader `json:"leader"`
	// Voters, Reachable and Tolerance repeat the quorum's figures.
	Voters    int      `json:"voters"`
	Reachable int      `json:"reachable"`
	Tolerance int      `json:"tolerance"`
	Alarms    []string `json:"alarms"`
}

// TransferRequest is the body of POST /v1/transfer-leadership.
type TransferRequest struct {
	// To is a node id or an address; empty lets Raft choose the voter that is furthest ahead.
	To string `json:"to"`
	// DryRun checks everything and changes nothing.
	DryRun bool `json:"dry_run"`
}

// Transfer is the outcome of a leadership transfer.
type Transfer struct {
	From Leader `json:"from"`
	To   Leader `json:"to"`
	// Term is the term of the new leader; with DryRun that of the present one.
	Term           uint64 `json:"term"`
	DurationMillis int64  `json:"duration_millis"`
	DryRun         bool   `json:"dry_run"`
}

// Codes of Error.Code.
const (
	CodeBadRequest   = "bad_request"
	CodeUnauthorized = "unauthorized"
	CodeNotFound     = "not_found"
	CodeNotLeader    = "not_leader"
	CodeNoLeader     = "no_leader"
	CodeRefused      = "refused"
	CodeTimeout      = "timeout"
	CodeInternal     = "internal"
	// CodeBusy: too many answers are being sent; the same call may be made again in a moment.
	CodeBusy = "busy"
)

// Error is the JSON body of every failed /v1 call. It is also the error that an implementation of Leadership returns
// when it wants a particular code and status.
type Error struct {
	Code    string `json:"code"`
	Message string `json:"error"`
	// Leader is set with not_leader, where known.
	Leader *Leader `json:"leader,omitempty"`
}

func (e *Error) Error() string { return e.Message }
