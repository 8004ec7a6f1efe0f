package node

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/hashicorp/go-hclog"

	"raftmaster/fsm"
	"raftmaster/transport/raftnet"
)

// Errors that callers match. Outcomes of a proposal that raft reports (raft.ErrLeadershipLost above all) are mapped to
// these, so that nobody above this package needs to import raft.
var (
	// ErrNotLeader: this node does not lead; the command was certainly not appended.
	ErrNotLeader = errors.New("not the leader")
	// ErrUnknownOutcome: leadership was lost, or the node stopped, while the command was in flight. It may be
	// committed, now or later. Retry by RequestID.
	ErrUnknownOutcome = errors.New("outcome unknown: leadership was lost while the command was in flight")
	// ErrOverloaded: MaxInflight proposals are waiting already; the command was not appended.
	ErrOverloaded = errors.New("too many proposals in flight")
	// ErrTransferring: leadership is being handed over; the command was not appended.
	ErrTransferring = errors.New("leadership is being transferred")
	// ErrStorage: the log could not be written (disk full, I/O error). The command was not appended here.
	ErrStorage = errors.New("the log cannot be written")
	// ErrStopped: the node is shutting down or was halted.
	ErrStopped = errors.New("the node is stopped")
	// ErrNoLeader: nobody is known to lead.
	ErrNoLeader = errors.New("no leader is known")
	// ErrUnknownPeer: no master with that node id or address is known.
	ErrUnknownPeer = errors.New("no such master")
	// ErrLevel: not every member of the cluster knows the command yet; it was not appended. The text names who does not.
	ErrLevel = errors.New("not every master is upgraded")
	// ErrUnsafe: the change would cost the quorum; see the text.
	ErrUnsafe = errors.New("refused for safety")
)

// Config is what a node needs. Zero durations and counts take the defaults named.
type Config struct {
	// Cluster lists every master as "host:port", in any order; Self is the element that is this node.
	Cluster []string
	Self    string
	// DataDir holds raft.db, its journal, stable.db, snapshots/ and identity.json. It is created when missing.
	DataDir string
	// FailoverTimeout is raft's heartbeat and election time-out and the leader's lease. Default 500 ms; at least 50 ms.
	FailoverTimeout time.Duration
	// SnapshotThreshold is the number of entries since the last snapshot that call for a new one (default 8192);
	// SnapshotInterval is how often that is looked at (default 30 s); TrailingLogs are kept behind a snapshot for slow
	// followers (default 10240).
	SnapshotThreshold uint64
	SnapshotInterval  time.Duration
	TrailingLogs      uint64
	// SnapshotBytes of entries since the last snapshot call for a new one, too (default 256 MiB); of the log at most
	// TrailingBytes stay behind it (default 128 MiB). Both are counted to about a MiB.
	SnapshotBytes, TrailingBytes int64
	// MaxInflight bounds proposals that are not yet decided (default 8192).
	MaxInflight int
	// DigestInterval is how often a leader has the replicas' digests compared (default 1 min; negative: never). An idle
	// cluster is not asked twice for the same state.
	DigestInterval time.Duration
	// WebURL, RESTURL and Version are told to the other masters; SetURLs changes the first two later.
	WebURL, RESTURL, Version string
	// Logger must not be nil.
	Logger hclog.Logger
	// Fatal is called once, from any goroutine, when this process must not go on (unknown log entry, diverged state,
	// a snapshot that cannot be restored, a data directory of another cluster than the list's). It should log and end the process. The node applies nothing afterwards.
	// Must not be nil.
	Fatal func(error)
	// OnCall answers calls that other masters make with Node.Call. It runs on the connection's goroutine, at most
	// raftnet.MaxCalls at once; nil refuses every call.
	OnCall func(ctx context.Context, fromNodeID, method string, body []byte) ([]byte, error)
	// OnEvent, when set, is told of leader changes and peers that come and go, for the timeline. It must not block.
	OnEvent func(Event)
	// TLS is how masters prove to each other who they are; nil: they do not.
	TLS *raftnet.Security
	// Net are seams for tests: faults between nodes. The zero value is none.
	Net raftnet.Faults
	// Disk are the hooks of drills in the store of the log; the zero value is none.
	Disk DiskHooks
	// BootTime reads a clock that goes on while the process, or the machine, is paused (CLOCK_BOOTTIME); nil is the
	// real one. Only differences count.
	BootTime func() time.Duration

	seams seams
}

// DiskHooks stand for faults of the disk. They may be called from several goroutines at once; nil functions do nothing.
type DiskHooks struct {
	// WriteFault runs before each write of the log and each snapshot; its error stands for the disk's.
	WriteFault func() error
	// BeforeSync runs before what costs a sync, entries and votes; a wait in it is a slow disk's.
	BeforeSync func()
}

// Applied is one committed command and what it gave.
type Applied struct {
	Index, Term uint64
	Cmd         fsm.Command
	Result      fsm.Result
}

// Hooks are how the node tells the leader service what happens. All but Measured are required, and none may block: Applied and
// Restored run on the FSM goroutine, the others on goroutines of the node, never inside Propose. Start may call
// Restored and, for a lone voter, Elected before it returns.
type Hooks struct {
	// Applied gets committed commands in log order, on every node, leader or not.
	Applied func([]Applied)
	// Measured, which may be nil, gets the time that each batch took in the state machine; like Applied it must not block.
	Measured func(time.Duration)
	// ProposeFailed gets a command of Propose whose fate was not decided by Applied; err is or wraps one of this
	// package's errors. With ErrUnknownOutcome the same command may still arrive as Applied.
	ProposeFailed func(cmd fsm.Command, err error)
	// Restored says that the whole state was replaced by a snapshot; read View.
	Restored func()
	// Elected says that this node leads in that term and that everything committed before is applied here.
	// Elected and Deposed alternate, strictly, and Deposed names the term of the Elected before it.
	Elected func(term uint64)
	Deposed func(term uint64)
}

// Role is the raft role of a node.
type Role string

// The roles. RoleStopped is a node whose raft has ended; RoleFresh one that is not part of a cluster yet.
const (
	RoleLeader    Role = "LEADER"
	RoleFollower  Role = "FOLLOWER"
	RoleCandidate Role = "CANDIDATE"
	RoleFresh     Role = "FRESH"
	RoleStopped   Role = "STOPPED"
)

// Peer is a master as this node knows it.
type Peer struct {
	NodeID  string // "" until it has answered once
	Address string // host:port of the cluster list, or of the raft configuration
	BootID  string // changes with every start of its process
	WebURL  string
	RESTURL string
	Version string
	// Level is the level of commands that it knows, by its last word; 0: it has not been heard of.
	Level fsm.Level
	// Connected: a watch connection to it is up. Always true for the node itself.
	Connected bool
	// Voter and Member tell its place in the latest raft configuration.
	Voter, Member bool
	// LastContact is the time since it last acknowledged something from this leader; negative: never, or this node is
	// not the leader. MatchIndex is the last entry known to be on its disk (leader only), TrailsBy the distance to ours.
	LastContact time.Duration
	MatchIndex  uint64
	TrailsBy    uint64
	// Problem says why it is refused or unreachable, in one line; "" when all is well.
	Problem string
}

// Status is a node's own view; it needs no leader and no quorum.
type Status struct {
	NodeID, ClusterID, BootID string
	Address                   string
	Role                      Role
	Leader                    Peer // zero when unknown
	Term                      uint64
	CommitIndex               uint64
	AppliedIndex              uint64
	LastLogIndex              uint64
	LastLogTerm               uint64
	SnapshotIndex             uint64
	SnapshotTerm              uint64
	FirstLogIndex             uint64
	ConfigurationIndex        uint64
	// LastContact is the time since the last word of a leader (followers); 0 on the leader; negative: never.
	LastContact time.Duration
	// LeaseRemaining is how long the lease still runs; 0 without one.
	LeaseRemaining time.Duration
	Transferring   bool
	// Level is the level of commands that the cluster uses.
	Level fsm.Level
	// Peers holds every known master, this one included, sorted by address.
	Peers []Peer
	// DataDir is the data directory, LogBytes and SnapshotBytes are sizes on disk; DiskFreeBytes is what is left on the file system.
	DataDir                                string
	LogBytes, SnapshotBytes, DiskFreeBytes int64
	// UncoveredBytes are those of the entries behind the last snapshot, to about a MiB.
	UncoveredBytes int64
	// Stalled: this node leads, but has not got an entry committed for some seconds, although there are some; or too many
	// voters say that they cannot write their logs.
	Stalled bool
	// Alarms are conditions that need a human: storage errors, digests that differ, lists that differ.
	Alarms []string
	// Digest is the last compared digest.
	Digest DigestStatus
}

// DigestStatus is the outcome of the last CheckDigest. Agreed counts replicas (voters) that reported the same digest
// as this leader's verdict; both are 0 before the first comparison.
type DigestStatus struct {
	Index           uint64
	Digest          string
	Agreed, Replied int
}

// Event is something for the timeline.
type Event struct {
	Kind   string // "leader", "peer-lost", "peer-back", "failover", "hand-over", "lone-voter", "first-election", "raft-restarted", "digest", "storage"
	NodeID string
	Term   uint64
	Detail string
}

// Transfer is a completed hand-over of leadership.
type Transfer struct {
	LeaderID, LeaderAddress string
	Took                    time.Duration
}

// SnapshotInfo describes a snapshot on disk.
type SnapshotInfo struct {
	ID          string
	Index, Term uint64
	Size        int64
}

// API is what Node offers, in one place; Node implements it. Consumers declare the part that they use themselves.
type API interface {
	// Propose hands a command to raft and returns at once; the outcome comes through Hooks.
	Propose(cmd fsm.Command)
	// LeaseValid tells whether this node may speak as the leader at this very moment. It costs an atomic read and a clock
	// reading: call it right before each write.
	LeaseValid() bool
	// View is the replicated state as of the last applied entry, in O(1).
	View() fsm.View
	// Leader returns the known leader's node id and address, "" when none is known.
	Leader() (id, address string)
	ClusterID() string
	NodeID() string
	Status() Status
	// SetURLs tells the other masters where this one's web UI and REST gateway really listen (ports may walk).
	SetURLs(web, rest string)
	// TransferLeadership hands leadership to the voter with that node id or address ("": the most advanced one that is
	// alive). The lease ends first, and comes back if the transfer fails.
	TransferLeadership(ctx context.Context, target string) (Transfer, error)
	// Call asks another master (node id or address; "" means the leader) and waits for its answer.
	Call(ctx context.Context, target, method string, body []byte) ([]byte, error)
	// AddPeer adds a voter (or, with voter false, a learner); a learner that is added as a voter is promoted.
	// RemovePeer removes one; force allows what would cost the tolerance of failures. Leader only.
	AddPeer(ctx context.Context, nodeID, address string, voter bool) error
	RemovePeer(ctx context.Context, nodeID string, force bool) error
	// TakeSnapshot makes a snapshot now; WriteSnapshot writes the newest one's state to w (fsm snapshot format);
	// PlanRestore and RestoreSnapshot replace the cluster's state by that of a snapshot (the latter: leader only).
	TakeSnapshot(ctx context.Context) (SnapshotInfo, error)
	WriteSnapshot(w io.Writer) (SnapshotInfo, error)
	PlanRestore(state []byte, ofCluster string, otherCluster bool) (fsm.RestoreOutcome, error)
	RestoreSnapshot(ctx context.Context, state []byte, ofCluster string, otherCluster bool) (fsm.RestoreOutcome, error)
	// CheckDigest has the replicas compare their states now (leader only); the outcome is in Status.
	CheckDigest(ctx context.Context) (DigestStatus, error)
	// Shutdown leaves in order: transfer, goodbye, raft, stores. The context bounds the hand-over, not the rest.
	Shutdown(ctx context.Context) error
	// Kill stops at once, without hand-over and goodbye: what a test calls a crash.
	Kill()
}
