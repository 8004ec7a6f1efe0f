package drill

import (
	"context"
	"time"

	"raftmaster/transport/webui"
)

// Kinds of drills.
const (
	Transfer       = "transfer"
	KillLeader     = "kill-leader"
	PauseLeader    = "pause-leader"
	Partition      = "partition"
	SlowDisk       = "slow-disk"
	FullDisk       = "full-disk"
	RollingRestart = "rolling-restart"
	// All is each of them once, or, with Config.Random, any.
	All = "all"
)

// Kinds are all kinds but All, in the order in which All takes them.
func Kinds() []string {
	return []string{Transfer, KillLeader, PauseLeader, Partition, SlowDisk, FullDisk, RollingRestart}
}

// Client calls the admin API of one master. A failure that the master has answered is, or wraps, a *webui.Error. Both
// must be safe for use by several goroutines and should keep connections: the watch asks each master hundreds of times
// a second.
type Client interface {
	Get(ctx context.Context, endpoint, path string, answer any) error
	Post(ctx context.Context, endpoint, path string, request, answer any) error
}

// Registration is an application that a master has accepted.
type Registration struct {
	AppID string
	// Master is the address of the master that has accepted it.
	Master string
	At     time.Time
}

// Prober registers an application that wants no executors, as an application's own client does, with all of the masters
// (host:port), waits until one of them accepts it, unregisters it, and leaves.
type Prober interface {
	Register(ctx context.Context, masters []string, name string) (Registration, error)
}

// Config is what a drill needs. Client, Endpoints and Kind are required; zero values take the defaults named.
type Config struct {
	Client Client
	// Endpoints are web UI addresses of masters; those of the other members are found through them.
	Endpoints []string
	// Kind is one of the constants above. Rounds is how often (default 1).
	Kind   string
	Rounds int
	// Random takes a random kind and a random target each round, from Seed on; All only.
	Random bool
	Seed   uint64
	// Duration is that of the fault: default 5 s for a pause, 10 s else. Delay is that of one sync (slow-disk, default
	// 50 ms).
	Duration, Delay time.Duration
	// Target is the master that gets the fault of partition, slow-disk and full-disk: an address or a node id; "" is the
	// leader. Peers are the masters that it is cut off from; none means all.
	Target string
	Peers  []string
	// Limit bounds each wait: for a leader, for peers to attach, for a master to come back (default 60 s).
	Limit time.Duration
	// Between is the pause between two rounds (default 1 s).
	Between time.Duration
	// HeartbeatLimit is the age of a worker's last heartbeat from which on it counts as in trouble (default 40 s).
	HeartbeatLimit time.Duration
	// By says who drills.
	By string
	// Probe measures the first accepted registration; nil: it is not measured.
	Probe Prober
	// Progress, which may be nil, hears what is going on, in words. It must not block.
	Progress func(string)
}

// Outcomes of rounds and reports, in the order of their weight.
const (
	Passed      = "passed"
	Interrupted = "interrupted" // by the caller; what had begun was ended
	Incomplete  = "incomplete"  // something was not back, or not measured, within the limit
	Damage      = "damage"      // a difference that nothing explains
	NoLeader    = "no-leader"   // nobody led within the limit
	Refused     = "refused"     // the preflight, or a master, refused; nothing was done in this round
)

// Steps are the times of a round in milliseconds after the beginning of the fault; nil: not reached, or not part of it.
type Steps struct {
	// LeaderGone: the first other master knew that the leader is gone. LeaderElected: one had won an election.
	LeaderGone    *int64 `json:"leader_gone"`
	LeaderElected *int64 `json:"leader_elected"`
	// LeaderAlive: it is ALIVE with a lease. FirstRegistration: an application was accepted.
	LeaderAlive       *int64 `json:"leader_alive"`
	FirstRegistration *int64 `json:"first_registration"`
	// WorkersAttached and DriversAttached: the last worker, the last application and cluster-mode driver have answered the
	// new leader.
	WorkersAttached *int64 `json:"workers_attached"`
	DriversAttached *int64 `json:"drivers_attached"`
	// FaultEnded: the fault was over. TargetBack: the master that had it is a STANDBY in contact, or the leader, with its log
	// complete.
	FaultEnded *int64 `json:"fault_ended"`
	TargetBack *int64 `json:"target_back"`
	// Total: everything was as it should be, the comparison aside.
	Total *int64 `json:"total"`
}

// StepNames are the JSON names of Steps, in the order of time.
func StepNames() []string {
	return []string{"leader_gone", "leader_elected", "leader_alive", "first_registration", "workers_attached", "drivers_attached",
		"fault_ended", "target_back", "total"}
}

// Get gives a step by its JSON name.
func (s *Steps) Get(name string) *int64 {
	for i, p := range s.all() {
		if StepNames()[i] == name {
			return *p
		}
	}
	return nil
}

func (s *Steps) all() []**int64 {
	return []**int64{&s.LeaderGone, &s.LeaderElected, &s.LeaderAlive, &s.FirstRegistration, &s.WorkersAttached, &s.DriversAttached,
		&s.FaultEnded, &s.TargetBack, &s.Total}
}

// Master is a master of the cluster.
type Master struct {
	NodeID  string `json:"node_id"`
	Address string `json:"address"`
	WebURL  string `json:"web_url"`
}

// Moment is a line of the timeline.
type Moment struct {
	AtMillis int64  `json:"at_millis"`
	Master   string `json:"master"`
	What     string `json:"what"`
}

// Restarted are the times of one master in a rolling restart, in milliseconds.
type Restarted struct {
	Master Master `json:"master"`
	// Transfer is how long it took to hand leadership over first; nil for one that did not lead. Back is from the call
	// to the new process with a complete log; nil: it did not come back in time.
	TransferMillis *int64 `json:"transfer_millis"`
	BackMillis     *int64 `json:"back_millis"`
}

// Summary names a state that was compared.
type Summary struct {
	Node      string `json:"node"`
	Index     uint64 `json:"index"`
	Digest    string `json:"digest"`
	Workers   int    `json:"workers"`
	Apps      int    `json:"apps"`
	Executors int    `json:"executors"`
	Drivers   int    `json:"drivers"`
}

// Difference is something that is not as it was before.
type Difference struct {
	// Kind is worker, application, executor, driver, queue or counter; Subject its id.
	Kind    string `json:"kind"`
	Subject string `json:"subject"`
	Change  string `json:"change"`
	Before  string `json:"before"`
	After   string `json:"after"`
	// Explained: an entry of the log says who wanted it. Otherwise it is damage. Why says so in words, Index names the
	// entry (0: none).
	Explained bool   `json:"explained"`
	Why       string `json:"why"`
	Index     uint64 `json:"index"`
}

// Round is one fault and what came of it.
type Round struct {
	Number int    `json:"number"`
	Kind   string `json:"kind"`
	// Target is the master that had the fault; Fault says in its own words what it did.
	Target Master `json:"target"`
	Fault  string `json:"fault"`
	// Leader and Term are those before, NewLeader and NewTerm those at the end.
	Leader        Master       `json:"leader"`
	Term          uint64       `json:"term"`
	NewLeader     Master       `json:"new_leader"`
	NewTerm       uint64       `json:"new_term"`
	StartedMillis int64        `json:"started_millis"`
	Steps         Steps        `json:"steps_millis"`
	Timeline      []Moment     `json:"timeline"`
	Restarted     []Restarted  `json:"restarted"`
	ProbeApps     []string     `json:"probe_apps"`
	Before        Summary      `json:"before"`
	After         Summary      `json:"after"`
	Differences   []Difference `json:"differences"`
	// Compared: both states and the whole log between them were there.
	Compared bool `json:"compared"`
	// ReplicasEqual: all masters showed one digest at one index afterwards; nil: they were not seen at one index.
	ReplicasEqual *bool `json:"replicas_equal"`
	// Problems say what went wrong, Advice what to do about it, NotAsBefore what is different although nothing went wrong,
	// Notes what else a reader should know.
	Problems    []string `json:"problems"`
	Notes       []string `json:"notes"`
	Advice      []string `json:"advice"`
	NotAsBefore []string `json:"not_as_before"`
	Outcome     string   `json:"outcome"`
}

// Damages counts the differences that nothing explains.
func (r *Round) Damages() int {
	n := 0
	for _, d := range r.Differences {
		if !d.Explained {
			n++
		}
	}
	return n
}

// Check is one condition of the preflight.
type Check struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
}

// Percentiles are over the rounds of one kind that reached a step, in milliseconds.
type Percentiles struct {
	Kind   string `json:"kind"`
	Step   string `json:"step"`
	Count  int    `json:"count"`
	Min    int64  `json:"min_millis"`
	Median int64  `json:"median_millis"`
	P95    int64  `json:"p95_millis"`
	Max    int64  `json:"max_millis"`
}

// Report is what a drill has found.
type Report struct {
	Drill         string        `json:"drill"`
	Kind          string        `json:"kind"`
	By            string        `json:"by"`
	ClusterID     string        `json:"cluster_id"`
	StartedMillis int64         `json:"started_millis"`
	EndedMillis   int64         `json:"ended_millis"`
	Random        bool          `json:"random"`
	Seed          uint64        `json:"seed"`
	Preflight     []Check       `json:"preflight"`
	Plan          []string      `json:"plan"`
	DryRun        bool          `json:"dry_run"`
	Rounds        []Round       `json:"rounds"`
	Percentiles   []Percentiles `json:"percentiles"`
	// Problems are those outside of any round.
	Problems []string `json:"problems"`
	Outcome  string   `json:"outcome"`
}

// state is what is compared.
type state = webui.DrillState
