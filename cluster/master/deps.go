package master

import (
	"time"

	"github.com/hashicorp/go-hclog"

	"raftmaster/fsm"
	"raftmaster/transport/sparkmsg"
)

// Clock tells the time. Now must carry a monotonic reading that also advances while the process is stopped, or the
// caller must accept that a pause looks like silence of everybody; the Core allows for that itself (liveness.go).
type Clock interface {
	Now() time.Time
}

// Proposer appends commands to the replicated log. Propose must not block; the outcome arrives as Core.Applied, in log
// order, or as Core.ProposeFailed, which may mean that the outcome is unknown.
type Proposer interface {
	Propose(cmd fsm.Command)
}

// ProbeResult is the answer to the question whether a peer's endpoint exists, asked on a fresh connection.
type ProbeResult int

// The results of a probe.
const (
	ProbeTrue        ProbeResult = iota // the endpoint exists
	ProbeFalse                          // somebody answered that there is no such endpoint
	ProbeRefused                        // nobody listens there
	ProbeUnreachable                    // no answer in time, or any other error
)

// Network carries what the leader says. Every method returns at once; callbacks run on the Core's goroutine.
type Network interface {
	// Send queues a one-way message in the peer's ordered outbox and returns its place there: a number that grows with
	// every message to that peer. A message is written at most once, and only while the lease holds.
	Send(to sparkmsg.Address, endpoint string, fam sparkmsg.Family, msg sparkmsg.Message) uint64
	// Ask does the same for a message that wants an answer; done gets the answer or the reason why there is none.
	Ask(to sparkmsg.Address, endpoint string, fam sparkmsg.Family, msg sparkmsg.Message, timeout time.Duration,
		done func(sparkmsg.Message, error))
	// Receipt asks, behind everything queued for that peer so far, whether the endpoint exists; done learns which pushes
	// the answer proves to have arrived.
	Receipt(to sparkmsg.Address, endpoint string, fam sparkmsg.Family, timeout time.Duration, done func(Receipt, error))
	// Probe asks CheckExistence(endpoint) on a fresh connection to the peer's advertised address.
	Probe(to sparkmsg.Address, endpoint string, timeout time.Duration, done func(ProbeResult))
	// Attached reports whether a live connection of that peer exists.
	Attached(to sparkmsg.Address) bool
	// DropOutboxes forgets everything that is queued.
	DropOutboxes()
}

// Receipt proves which pushes of a peer's outbox have arrived: those with First <= sequence < Last. Exists is the peer's
// answer: it has the endpoint.
type Receipt struct {
	First, Last uint64
	Exists      bool
}

// Conn is the connection on which a message came in.
type Conn interface {
	// ID tells connections apart.
	ID() uint64
	// Families is what the descriptors of the peer's messages have shown of its Spark release so far.
	Families() sparkmsg.FamilySet
	// SetTrusted lifts the frame limit of a peer that is not registered.
	SetTrusted()
	// Outbox returns which pushes of the peer's outbox went out on this connection. An answer to push s that comes in on
	// it says something about push l only if first <= l < s.
	Outbox() (first, last uint64)
	// Push sends a one-way message on this very connection, whoever leads: what a standby says.
	Push(endpoint string, fam sparkmsg.Family, msg sparkmsg.Message)
	// Ask asks on this very connection; done runs on the Core's goroutine.
	Ask(endpoint string, fam sparkmsg.Family, msg sparkmsg.Message, timeout time.Duration, done func(sparkmsg.Message, error))
}

// Releases finds out which Spark release a peer runs, from the web page that it advertises.
type Releases interface {
	// Worker reads a worker's web page; done gets "" when the page cannot be read. It runs on the Core's goroutine.
	Worker(webUIURL string, done func(release string))
	// Application asks a driver's web UI; likewise.
	Application(appUIURL string, done func(release string))
}

// Observer is told what operators measure. A nil Observer is allowed.
type Observer interface {
	// Committed reports how long a command took from its proposal until it was applied here.
	Committed(command string, took time.Duration)
	// Planned reports how long one planning pass took.
	Planned(took time.Duration)
	// Event records something that belongs into `raftctl events`.
	Event(kind, subject, detail string)
}

// Deps are everything that a Core needs from outside.
type Deps struct {
	Clock    Clock
	Proposer Proposer
	Network  Network
	Releases Releases
	Observer Observer
	// View returns the replicated state as of now, in O(1).
	View func() fsm.View
	// Lease reports whether this master may speak as the leader at this very moment. Any goroutine may call it.
	Lease func() bool
	// Leader returns the address of the master that leads as far as this one knows; false for none. It may be nil.
	Leader func() (sparkmsg.Address, bool)
	Log    hclog.Logger
}

// Config is what an operator sets.
type Config struct {
	// NodeID is this master's Raft id.
	NodeID string
	// Self is the address that this master is known by; it is the sender of every message and part of MasterURL.
	Self sparkmsg.Address
	// WebUIURL is the address of this master's web page, as workers and drivers are told.
	WebUIURL string
	// WorkerTimeout is spark.worker.timeout.
	WorkerTimeout time.Duration
	// RecoveryTimeout is spark.deploy.recoveryTimeout; 0 means WorkerTimeout.
	RecoveryTimeout time.Duration
	// AppTimeout is spark.raftmaster.app.timeout: how long a driver may be unreachable.
	AppTimeout time.Duration
	// DeadWorkerPersistence is spark.dead.worker.persistence, in worker time-outs.
	DeadWorkerPersistence int
	// DefaultCores is spark.deploy.defaultCores; 0 means no limit.
	DefaultCores int
	// SpreadOutApps is spark.deploy.spreadOutApps.
	SpreadOutApps bool
	// SpreadOutDrivers is spark.deploy.spreadOutDrivers (B-172, B-174).
	SpreadOutDrivers bool
	// MaxDrivers is spark.deploy.maxDrivers, how many may run at once; 0 means no limit (B-173).
	MaxDrivers int
	// DriverIDPattern and AppIDPattern are spark.deploy.driverIdPattern and appIdPattern; "" means Spark's default (B-201,
	// B-203). AppNumberModulo is spark.deploy.appNumberModulo, 0 for none. UseAppNameAsAppID is
	// spark.master.useAppNameAsAppId.enabled (B-202).
	DriverIDPattern, AppIDPattern string
	AppNumberModulo               int
	UseAppNameAsAppID             bool
	// UseDriverIDAsAppName is spark.master.useDriverIdAsAppName.enabled (B-206).
	UseDriverIDAsAppName bool
	// RelaunchDelay is spark.raftmaster.driver.relaunchDelay: how long a supervised driver whose worker was lost waits
	// before it starts elsewhere. The old copy, which nobody can reach, may run on meanwhile.
	RelaunchDelay time.Duration
	// DecommissionEnabled is spark.decommission.enabled: without it nobody but a worker itself decommissions it.
	DecommissionEnabled bool
	// Masters are all masters of the cluster in the order of --cluster: what a driver must find in spark.master (S12).
	Masters []sparkmsg.Address
	// Lease is how long a predecessor may have gone on to send after this leader was elected; 0 means 500 ms. A driver
	// whose launch may still be on its way is not placed anew before.
	Lease time.Duration
	// Policy is spark.deploy.workerSelectionPolicy.
	Policy fsm.SelectionPolicy
	// Settings are replicated when this master takes over.
	Settings fsm.Settings
	// Location is the zone in which identifiers carry the time (B-200); nil means the local one.
	Location *time.Location
}

// masterURL is what workers compare with the url in a launch (B-047, B-048): it must equal the address in the
// reference character for character.
func (c *Config) masterURL() string { return "spark://" + c.Self.String() }
