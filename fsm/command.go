package fsm

import "strconv"

// CommandType is the first byte of an encoded command. Numbers are explicit and never reused; a retired command keeps
// its number. Numbers with the bit CommandSkippable set may be skipped by a release that does not know them.
type CommandType uint8

// CommandSkippable marks types that an old release may skip without diverging.
const CommandSkippable CommandType = 0x80

// Command types. 32..47 are in command_driver.go.
const (
	TypeRegisterWorker      CommandType = 1
	TypeRemoveWorker        CommandType = 2
	TypeReapWorkers         CommandType = 3
	TypeRegisterApplication CommandType = 4
	TypeFinishApplication   CommandType = 5
	TypeConfirmApplication  CommandType = 6
	TypePlaceExecutors      CommandType = 7
	TypeExecutorChanged     CommandType = 8
	TypeSetTargets          CommandType = 9
	TypeKillExecutors       CommandType = 10
	TypeReconcileWorker     CommandType = 11
	TypeDecommissionWorkers CommandType = 12
	TypeLaunchReceipts      CommandType = 13
	TypeCheckDigest         CommandType = 14
	TypeMarkIncompatible    CommandType = 15
	TypeSetRelease          CommandType = 16
	TypeLeaderElected       CommandType = 17
	TypeInitCluster         CommandType = 18
	TypeClearCompleted      CommandType = 19
)

// String gives the name of a known type, its number otherwise.
func (t CommandType) String() string {
	if c, ok := commandCodecs[t]; ok {
		return c.name
	}
	return "CommandType(" + strconv.Itoa(int(t)) + ")"
}

// Skippable tells whether a release that does not know the type may go on.
func (t CommandType) Skippable() bool { return t&CommandSkippable != 0 }

// Meta is what every command carries: the leader's time, because Apply has no clock of its own, and the identity of
// the request for its tracing.
type Meta struct {
	NowMillis int64 // Unix milliseconds at the leader
	// Stamp is yyyyMMddHHmmss in the leader's zone (B-200). RegisterApplication and SubmitDriver need it; a relaunched
	// driver takes its predecessor's where it is missing.
	Stamp     string
	RequestID string
}

// Header gives the command's Meta.
func (m Meta) Header() Meta { return m }

// Command is an entry of the replicated log. All implementations are plain structs of this package, used by value.
type Command interface {
	Type() CommandType
	Header() Meta
}

// RegisterWorker adds or refreshes a worker (B-012..B-016, G-05). Value: RegisterWorkerResult.
type RegisterWorker struct {
	Meta
	ID, Host        string
	Port            int
	Address         Address // RPC reference
	Cores, MemoryMB int
	WebUIURL        string
	Resources       []Resource
	Families        uint8
	// ReplaceHolder is the id of the worker that holds Address and is known to be gone: it may be replaced. "" = none.
	ReplaceHolder string
}

// RemoveWorker makes a worker DEAD and ends all that ran there (B-060). Value: bool, false when it was not live.
type RemoveWorker struct {
	Meta
	ID, Reason string
}

// ReapWorkers drops DEAD entries (B-035); others are left alone. Value: int, the number of dropped entries.
type ReapWorkers struct {
	Meta
	IDs []string
}

// RegisterApplication adds an application (B-101, B-102). Value: RegisterApplicationResult.
type RegisterApplication struct {
	Meta
	Name, User, UIURL    string
	Driver               Address
	MaxCores             *int // spark.cores.max
	DefaultCores         int  // spark.deploy.defaultCores of the leader, UnlimitedCores if unset
	DefaultProfile       Profile
	InitialExecutorLimit *int
	Payload              []byte // at most MaxPayloadBytes
	Families             uint8
	// KeepID: the request came on the same connection as the one before, so that it is a repetition for certain.
	KeepID bool
	// IDPattern is spark.deploy.appIdPattern ("" = DefaultAppIDPattern), NumberModulo spark.deploy.appNumberModulo (0 =
	// none), NameAsID spark.master.useAppNameAsAppId.enabled. However the id is made, no known application has it.
	IDPattern    string `codec:",omitempty"`
	NumberModulo int    `codec:",omitempty"`
	NameAsID     bool   `codec:",omitempty"`
}

// FinishApplication ends an application (B-113). State is AppFinished, AppFailed or AppKilled. Value: bool, false when
// no unfinished application has the id.
type FinishApplication struct {
	Meta
	AppID  string
	State  AppState
	Reason string
}

// ConfirmApplication: the driver has named its id, so that it has got its answer. Value: bool known.
type ConfirmApplication struct {
	Meta
	AppID string
}

// Placement is the planner's decision to start one executor.
type Placement struct {
	AppID           string
	ProfileID       int
	WorkerID        string
	Cores, MemoryMB int
	Resources       []Resource
}

// PlaceExecutors books a plan. Each placement is validated again and booked or dropped. Value: PlaceResult.
type PlaceExecutors struct {
	Meta
	Placements []Placement
}

// ExecutorChanged is a worker's report (B-122..B-127). Value: ExecutorChangedResult.
type ExecutorChanged struct {
	Meta
	AppID      string
	ExecID     int
	WorkerID   string // the reporter; only the worker that holds the executor is believed
	State      ExecutorState
	Message    *string
	ExitStatus *int
}

// SetTargets sets the wanted number of executors of some profiles (B-131, B-132). Value: bool known.
type SetTargets struct {
	Meta
	AppID   string
	Targets []ProfileTarget
}

// KillExecutors ends executors on the application's wish (B-130). Value: KillResult.
type KillExecutors struct {
	Meta
	AppID string
	IDs   []int
}

// ReportedExecutor is one entry of a worker's list.
type ReportedExecutor struct {
	AppID           string
	ExecID          int
	ProfileID       int
	Cores, MemoryMB int
	State           ExecutorState
	Resources       []Resource
}

// ReconcileWorker compares a worker's lists of executors and drivers with the books. Missing and MissingDrivers are the
// leader's judgement: held by us, not listed, and launched before the list was asked for. Applying it twice changes
// nothing more. Value: ReconcileResult.
type ReconcileWorker struct {
	Meta
	WorkerID string
	Reported []ReportedExecutor
	Missing  []ExecutorKey
	// ReportedDrivers are the ids that the worker lists.
	ReportedDrivers []string `codec:",omitempty"`
	MissingDrivers  []string `codec:",omitempty"`
	// RequeueAtMillis is the NotBeforeMillis of missing drivers that go back to the queue, because nothing proves that
	// their launch arrived: now plus one lease, after which no deposed leader can still send it.
	RequeueAtMillis int64 `codec:",omitempty"`
	// Unasked: there is no list of the worker's behind this; the leader takes back launches that have not arrived. A DEAD
	// worker stays DEAD.
	Unasked bool `codec:",omitempty"`
}

// DecommissionWorkers marks live workers as DECOMMISSIONED (B-066). Notify adds the message to the worker itself.
// Value: DecommissionResult.
type DecommissionWorkers struct {
	Meta
	IDs    []string
	Notify bool
}

// LaunchReceipts records that a worker has received these launches. Value: int, the number newly marked.
type LaunchReceipts struct {
	Meta
	WorkerID  string
	Executors []ExecutorKey
	Drivers   []string `codec:",omitempty"`
}

// CheckDigest asks every replica for its digest at this index. Value: DigestReport.
type CheckDigest struct {
	Meta
}

// MarkIncompatible ends an executor whose worker cannot run its application, uncounted, and remembers the pair, which
// is never planned again (unless the application's list of such workers is full: see MaxEntityBytes). Nothing happens when the executor is not LAUNCHING on that worker any more; a negative ExecID
// marks the pair alone. Value: bool, whether the pair is marked.
type MarkIncompatible struct {
	Meta
	AppID    string
	ExecID   int
	WorkerID string
	Reason   string
}

// SetRelease records the Spark release of a worker, of an application or of an unfinished driver (exactly one of the
// ids is given). Families 0 leaves the families alone. Value: bool known.
type SetRelease struct {
	Meta
	WorkerID, AppID string
	DriverID        string `codec:",omitempty"`
	Release         string // "4.3.0"
	Families        uint8
}

// LeaderElected is a leader's first entry of its term. Value: nil.
type LeaderElected struct {
	Meta
	NodeID, Reason string
	Settings       Settings
}

// InitCluster names the cluster, once. A different id later is ErrClusterID. Value: string, the cluster's id.
type InitCluster struct {
	Meta
	ClusterID string
}

// ClearCompleted forgets the completed applications and drivers (B-142). Value: int, the number forgotten.
type ClearCompleted struct {
	Meta
}

// Skipped stands for a command of a newer release that may be skipped. Apply does nothing with it.
type Skipped struct {
	Meta
	SkippedType    CommandType
	SkippedVersion uint8
}

// Type implements Command.
func (RegisterWorker) Type() CommandType      { return TypeRegisterWorker }
func (RemoveWorker) Type() CommandType        { return TypeRemoveWorker }
func (ReapWorkers) Type() CommandType         { return TypeReapWorkers }
func (RegisterApplication) Type() CommandType { return TypeRegisterApplication }
func (FinishApplication) Type() CommandType   { return TypeFinishApplication }
func (ConfirmApplication) Type() CommandType  { return TypeConfirmApplication }
func (PlaceExecutors) Type() CommandType      { return TypePlaceExecutors }
func (ExecutorChanged) Type() CommandType     { return TypeExecutorChanged }
func (SetTargets) Type() CommandType          { return TypeSetTargets }
func (KillExecutors) Type() CommandType       { return TypeKillExecutors }
func (ReconcileWorker) Type() CommandType     { return TypeReconcileWorker }
func (DecommissionWorkers) Type() CommandType { return TypeDecommissionWorkers }
func (LaunchReceipts) Type() CommandType      { return TypeLaunchReceipts }
func (CheckDigest) Type() CommandType         { return TypeCheckDigest }
func (MarkIncompatible) Type() CommandType    { return TypeMarkIncompatible }
func (SetRelease) Type() CommandType          { return TypeSetRelease }
func (LeaderElected) Type() CommandType       { return TypeLeaderElected }
func (InitCluster) Type() CommandType         { return TypeInitCluster }
func (ClearCompleted) Type() CommandType      { return TypeClearCompleted }

// Type implements Command: the type that was read from the log.
func (s Skipped) Type() CommandType { return s.SkippedType }
