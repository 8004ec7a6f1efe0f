package webui

import (
	"context"
	"net/http"
	"time"
)

// Drills are faults that an operator makes on purpose, to see the cluster survive them, and what a drill needs to judge
// the outcome. Without it (Options.Drills is nil) every route below /v1/drill is answered with 404.
//
// A fault needs a claim: whoever drills claims every master first and renews the claims while he works. A master has one
// claim and one fault at most. A fault ends at its own end, on request, and when its claim is not renewed in time,
// because then nobody is left who would end it. Methods that change something return *Error to choose the code of the
// answer.
type Drills interface {
	// DrillStatus is the claim, the fault that is active, and the last one that has ended.
	DrillStatus() DrillStatus
	// DrillState is the replicated state as applied here after one log entry, which it names.
	DrillState() DrillState
	// DrillLog gives up to limit entries that were applied here behind an index.
	DrillLog(after uint64, limit int) DrillLog
	// Claim takes or renews the claim; another one's is refused.
	Claim(ctx context.Context, req DrillClaimRequest) (DrillStatus, error)
	// Release ends the fault and gives the claim back.
	Release(ctx context.Context, req DrillReleaseRequest) (DrillStatus, error)
	// Inject begins a fault, or, with DrillEnd, ends the active one.
	Inject(ctx context.Context, req DrillFaultRequest) (DrillStatus, error)
}

// Kinds of DrillFaultRequest: the last part of the path.
const (
	// DrillExit ends the process as SIGKILL does; DrillRestart ends it in order. Its supervisor must start it again.
	DrillExit    = "exit"
	DrillRestart = "restart"
	// DrillPause stops the process for a time, as SIGSTOP and SIGCONT do.
	DrillPause = "pause"
	// DrillPartition drops all traffic with other masters on the cluster port, both ways, without closing a connection.
	DrillPartition = "partition"
	// DrillSlowDisk delays each sync of the log, DrillFullDisk has each write of the log fail with ENOSPC.
	DrillSlowDisk = "slow-disk"
	DrillFullDisk = "full-disk"
	// DrillEnd ends the active fault.
	DrillEnd = "end"
)

// Limits of claims and faults, in milliseconds.
const (
	// DrillMaxMillis bounds the duration of a fault.
	DrillMaxMillis = 120_000
	// DrillMaxDelayMillis bounds the delay of one sync.
	DrillMaxDelayMillis = 2_000
	// DrillMinClaimMillis and DrillMaxClaimMillis bound the time until a claim must be renewed.
	DrillMinClaimMillis = 500
	DrillMaxClaimMillis = 30_000
	// maxDrillEntries bounds one answer of /v1/drill/log.
	maxDrillEntries = 4096
)

// DrillClaimRequest is the body of POST /v1/drill/claim.
type DrillClaimRequest struct {
	// Drill is an id that the caller has made up; it names the drill in events, too.
	Drill string `json:"drill"`
	// By says who drills, in words: user and host.
	By string `json:"by"`
	// TTLMillis is how long the claim lasts without a renewal.
	TTLMillis int64 `json:"ttl_millis"`
}

// DrillReleaseRequest is the body of POST /v1/drill/release.
type DrillReleaseRequest struct {
	Drill string `json:"drill"`
}

// DrillFaultRequest is the body of POST /v1/drill/KIND.
type DrillFaultRequest struct {
	// Kind is the last part of the path.
	Kind string `json:"-"`
	// Drill is the id of the claim.
	Drill string `json:"drill"`
	// DurationMillis is when the fault ends by itself, from 1 to DrillMaxMillis; exit and restart have none.
	DurationMillis int64 `json:"duration_millis"`
	// DelayMillis is the delay of one sync (slow-disk).
	DelayMillis int64 `json:"delay_millis"`
	// Peers are the addresses or node ids of the other masters (partition); none means all of them.
	Peers []string `json:"peers"`
	// DryRun checks everything and changes nothing.
	DryRun bool `json:"dry_run"`
}

// DrillClaim is who drills.
type DrillClaim struct {
	Drill string `json:"drill"`
	// By is what the drill says of itself, Caller the name of the token and the address that the claim came from.
	By            string `json:"by"`
	Caller        string `json:"caller"`
	ExpiresMillis int64  `json:"expires_millis"`
}

// Ways in which a fault has ended, as DrillFault.Ended.
const (
	DrillEndedDuration  = "duration"  // its time was over
	DrillEndedAsked     = "asked"     // the drill ended it
	DrillEndedAbandoned = "abandoned" // its claim was not renewed
	DrillEndedStopped   = "stopped"   // the master stopped
)

// DrillFault is a fault, active or ended. Times are Unix milliseconds of the master's clock.
type DrillFault struct {
	Kind        string `json:"kind"`
	Drill       string `json:"drill"`
	By          string `json:"by"`
	BeganMillis int64  `json:"began_millis"`
	// EndsMillis is when it ends by itself, EndedMillis when it has ended; 0: not yet, or never here.
	EndsMillis  int64  `json:"ends_millis"`
	EndedMillis int64  `json:"ended_millis"`
	Ended       string `json:"ended"`
	// Detail says what exactly was done.
	Detail string `json:"detail"`
}

// DrillStatus is the answer of GET /v1/drill and of every call that changes something.
type DrillStatus struct {
	Node      string `json:"node"`
	NodeID    string `json:"node_id"`
	BootID    string `json:"boot_id"`
	NowMillis int64  `json:"now_millis"`
	// Claim, Fault and Last are nil when there is none.
	Claim *DrillClaim `json:"claim"`
	Fault *DrillFault `json:"fault"`
	Last  *DrillFault `json:"last"`
	// BeginsInMillis is how long after this answer the fault begins, so that the answer can still be read.
	BeginsInMillis int64 `json:"begins_in_millis"`
	// ExitMethod and PauseMethod say how real those faults are here.
	ExitMethod  string `json:"exit_method"`
	PauseMethod string `json:"pause_method"`
	// Supervisor is what is expected to start this master again, "" when nothing is known; StartCommand is what an
	// operator types when it does not.
	Supervisor   string `json:"supervisor"`
	StartCommand string `json:"start_command"`
}

// DrillState is the body of GET /v1/drill/state: the replicated state after the entry StateIndex, without what belongs
// to history alone.
type DrillState struct {
	Source
	StateIndex  uint64 `json:"state_index"`
	StateDigest string `json:"state_digest"`
	// NextApp and NextDriver are the counters behind ids; they never go back.
	NextApp    uint64        `json:"next_app"`
	NextDriver uint64        `json:"next_driver"`
	Workers    []DrillWorker `json:"workers"`
	// Apps and Drivers are the unfinished ones, in queue order.
	Apps      []DrillApp      `json:"apps"`
	Drivers   []DrillDriver   `json:"drivers"`
	Executors []DrillExecutor `json:"executors"`
}

// DrillWorker is a worker, DEAD ones included.
type DrillWorker struct {
	ID             string `json:"id"`
	Address        string `json:"address"`
	State          string `json:"state"`
	Cores          int    `json:"cores"`
	CoresUsed      int    `json:"cores_used"`
	MemoryMB       int    `json:"memory_mb"`
	MemoryUsedMB   int    `json:"memory_used_mb"`
	Decommissioned bool   `json:"decommissioned"`
	Draining       bool   `json:"draining"`
}

// DrillApp is an unfinished application.
type DrillApp struct {
	ID string `json:"id"`
	// Number is the counter in its id: the place in the queue.
	Number uint64 `json:"number"`
	Name   string `json:"name"`
	State  string `json:"state"`
	Driver string `json:"driver"`
	Cores  int    `json:"cores"`
	// MaxCores is its limit; Unlimited without one.
	MaxCores     int64         `json:"max_cores"`
	Executors    int           `json:"executors"`
	NextExecutor int           `json:"next_executor"`
	Targets      []DrillTarget `json:"targets"`
}

// DrillTarget is how many executors an application wants of a resource profile; Unlimited without a limit.
type DrillTarget struct {
	Profile int   `json:"profile"`
	Target  int64 `json:"target"`
}

// DrillDriver is an unfinished driver of cluster mode.
type DrillDriver struct {
	ID            string `json:"id"`
	Number        uint64 `json:"number"`
	State         string `json:"state"`
	WorkerID      string `json:"worker_id"`
	Cores         int    `json:"cores"`
	MemoryMB      int    `json:"memory_mb"`
	Supervise     bool   `json:"supervise"`
	KillRequested bool   `json:"kill_requested"`
}

// DrillExecutor is a booked executor.
type DrillExecutor struct {
	AppID          string `json:"app_id"`
	ID             int    `json:"id"`
	WorkerID       string `json:"worker_id"`
	State          string `json:"state"`
	Cores          int    `json:"cores"`
	MemoryMB       int    `json:"memory_mb"`
	LaunchedMillis int64  `json:"launched_millis"`
}

// Causes of a DrillEntry: who wanted it.
const (
	DrillCauseWorker   = "worker"      // a worker has registered, or reported
	DrillCauseApp      = "application" // an application, or its driver
	DrillCauseOperator = "operator"    // an operator, or a submission client
	DrillCauseMaster   = "master"      // the leader's own decision
)

// DrillEntry is one entry of the replicated log, as far as a drill needs it.
type DrillEntry struct {
	Index      uint64 `json:"index"`
	Term       uint64 `json:"term"`
	TimeMillis int64  `json:"time_millis"`
	// Command is the name of the command, Cause one of the DrillCause constants.
	Command string `json:"command"`
	Cause   string `json:"cause"`
	// Subjects are ids of workers, applications and drivers, and executors as APP/ID.
	Subjects []string `json:"subjects"`
	Detail   string   `json:"detail"`
}

// DrillLog is the body of GET /v1/drill/log?after=INDEX: all commands with an index above From, up to and with To.
type DrillLog struct {
	Source
	From    uint64       `json:"from"`
	To      uint64       `json:"to"`
	Entries []DrillEntry `json:"entries"`
}

// drillTimeout bounds one call; no fault is waited for.
const drillTimeout = 10 * time.Second

func (h *Handler) drillRoutes() {
	if h.opts.Drills == nil {
		return // the answer is that of every unknown call: 404
	}
	d := h.opts.Drills
	limit := func() time.Duration { return drillTimeout }
	have := func() bool { return true }
	h.mux.HandleFunc("/v1/drill", h.get(func(w http.ResponseWriter, r *http.Request) {
		h.writeJSON(w, r, http.StatusOK, d.DrillStatus())
	}))
	h.mux.HandleFunc("/v1/drill/state", h.get(h.list(h.serveDrillState)))
	h.mux.HandleFunc("/v1/drill/log", h.get(h.list(h.serveDrillLog)))
	h.mux.HandleFunc("/v1/drill/claim", withCaller(change(h, have, func(DrillClaimRequest) time.Duration { return limit() }, d.Claim)))
	h.mux.HandleFunc("/v1/drill/release", withCaller(change(h, have, func(DrillReleaseRequest) time.Duration { return limit() }, d.Release)))
	for _, kind := range []string{DrillExit, DrillRestart, DrillPause, DrillPartition, DrillSlowDisk, DrillFullDisk, DrillEnd} {
		h.mux.HandleFunc("/v1/drill/"+kind, withCaller(change(h, have, func(DrillFaultRequest) time.Duration { return limit() },
			func(ctx context.Context, r DrillFaultRequest) (DrillStatus, error) {
				r.Kind = kind
				return d.Inject(ctx, r)
			})))
	}
}

type callerKey struct{}

// withCaller lets CallerOf find out who calls.
func withCaller(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		next(w, r.WithContext(context.WithValue(r.Context(), callerKey{}, actor(r)+" ("+r.RemoteAddr+")")))
	}
}

// CallerOf is the name of the token of a call of Claim, Release or Inject, and the address that it came from; "" outside of
// one.
func CallerOf(ctx context.Context) string {
	s, _ := ctx.Value(callerKey{}).(string)
	return s
}

func (h *Handler) serveDrillState(w http.ResponseWriter, r *http.Request) {
	st := h.opts.Drills.DrillState()
	src, _ := h.source()
	st.Source = src
	executors := notNil(st.Executors)
	head := struct {
		Source
		StateIndex  uint64        `json:"state_index"`
		StateDigest string        `json:"state_digest"`
		NextApp     uint64        `json:"next_app"`
		NextDriver  uint64        `json:"next_driver"`
		Workers     []DrillWorker `json:"workers"`
		Apps        []DrillApp    `json:"apps"`
		Drivers     []DrillDriver `json:"drivers"`
	}{src, st.StateIndex, st.StateDigest, st.NextApp, st.NextDriver, notNil(st.Workers), notNil(st.Apps), notNil(st.Drivers)}
	writeList(h, w, r, head, "executors", executors)
}

func (h *Handler) serveDrillLog(w http.ResponseWriter, r *http.Request) {
	after, err := intParam(r, "after", 0)
	if err != nil {
		h.writeError(w, r, 0, err)
		return
	}
	log := h.opts.Drills.DrillLog(after, maxDrillEntries)
	src, _ := h.source()
	head := struct {
		Source
		From uint64 `json:"from"`
		To   uint64 `json:"to"`
	}{src, log.From, log.To}
	writeList(h, w, r, head, "entries", notNil(log.Entries))
}
