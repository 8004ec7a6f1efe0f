package admin

import (
	"context"
	"time"

	"raftmaster/fsm"
)

// Node is the Raft side of this master. Its methods must return at once, those with a context excepted.
type Node interface {
	// View is the replicated state as applied here.
	View() fsm.View
	// Status is Raft's state and what is known of the other masters.
	Status() NodeStatus
	// LeaseValid reports whether this master may act as the leader at this instant.
	LeaseValid() bool
	// TransferLeadership hands leadership to the voter with this node id ("" lets Raft choose) and returns when
	// this node has stepped down, or an error.
	TransferLeadership(ctx context.Context, nodeID string) error
	// AddPeer adds a member without a vote, or gives it one; RemovePeer removes one. Both are the leader's, and their
	// errors are those of cluster/node.
	AddPeer(ctx context.Context, nodeID, address string, voter bool) error
	RemovePeer(ctx context.Context, nodeID string, force bool) error
}

// NodeStatus is a copy of Raft's state.
type NodeStatus struct {
	NodeID, BootID string
	// Address is the advertised host:port of the cluster port.
	Address string
	// ClusterID is "" until the cluster has been formed.
	ClusterID string
	// Role is one of webui's Role constants.
	Role string
	// Alive: elected, and everything committed before is applied.
	Alive                                   bool
	Term                                    uint64
	CommitIndex, AppliedIndex, LastLogIndex uint64
	SnapshotIndex                           uint64
	LogBytes, SnapshotBytes, DiskFreeBytes  int64
	UncoveredBytes                          int64
	DataDir                                 string
	FirstLogIndex                           uint64
	Transferring                            bool
	// CommandLevel is the level of commands that the cluster uses.
	CommandLevel int
	// Stalled: this leader has entries that do not commit for too long.
	Stalled bool
	// LeaderID and LeaderAddress are "" when no leader is known.
	LeaderID, LeaderAddress string
	// Peers lists every master of the Raft configuration, this one included, and those that are only entries of the
	// cluster list or have called.
	Peers []PeerStatus
	// Alarms are conditions that need an operator, in words.
	Alarms []string
}

// PeerStatus is one master as this node sees it.
type PeerStatus struct {
	NodeID, Address, WebURL, RESTURL, Version string
	// Problem says why it is refused or unreachable.
	Problem string
	// CommandLevel is the level of commands that it knows; 0 when it has not been heard of.
	CommandLevel int
	// Member: it is part of the Raft configuration.
	Member, Voter bool
	// Reachable: in contact within its time-out. It is ignored for this node itself.
	Reachable bool
	// Sure: connected, and heard from a moment ago; what may be in contact no more, but was just now, is not. On the
	// leader only. It is ignored for this node itself.
	Sure bool
	// LastContact is the age of the last sign of life; negative when not known.
	LastContact time.Duration
	// LastIndex is the last log index that the peer is known to hold; 0 when not known.
	LastIndex uint64
}

// Master is the leader service's soft state. Soft must return at once; on a standby it is the zero value.
type Master interface {
	Soft() Soft
}

// Soft is what a leader knows and does not replicate.
type Soft struct {
	// HeartbeatMillis is the time of the last heartbeat by worker id.
	HeartbeatMillis map[string]int64
	// WorkerNotes says by worker id why no new work goes there ("awaiting its list of executors").
	WorkerNotes map[string]string
	// UnreadableDrivers says by worker id which families' drivers never started there.
	UnreadableDrivers map[string][]uint8
	// TakeOverStartedMillis is when this term's take-over began; Awaited are those that have not answered yet.
	TakeOverStartedMillis int64
	Awaited               []Awaited
}

// Awaited is a peer of the term before that has not answered the new leader yet.
type Awaited struct {
	// Kind is "worker", "app" or "driver".
	Kind, ID, Address string
	DeadlineMillis    int64
	Attempts          int
}

// Security is what this process knows about its own certificates, tokens and open doors.
type Security interface {
	// Alarms are conditions that need an operator: a file that cannot be used, a certificate that ends.
	Alarms() []string
	// Notes say what stands open.
	Notes() []string
}

// Identity is what never changes while the process runs.
type Identity struct {
	// Version is that of this program.
	Version string
	// MasterURL is spark://host:port of this master, ClusterURL the whole list.
	MasterURL, ClusterURL string
	// WebURL and RESTURL are where this master's pages and gateway are; RESTURL may be "".
	WebURL, RESTURL string
	StartedMillis   int64
	// MaxDrivers is spark.deploy.maxDrivers of this master; 0 = no limit.
	MaxDrivers int
}
