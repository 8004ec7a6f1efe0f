package canary

import (
	"net/http"
	"time"

	"github.com/hashicorp/go-hclog"
)

// Config says which cluster is tried and how. A zero field means its default.
type Config struct {
	// WebURLs are the web UIs of the masters, http://HOST:PORT; required. The workers are found there: by the admin API of
	// raftmaster, else by /json.
	WebURLs []string
	// Masters are HOST:PORT of the cluster ports; those that the web UIs name.
	Masters []string
	// Workers names those to try: ids, or HOST:PORT, or a HOST with one worker. Empty: every worker.
	Workers []string
	// MemoryMB is the memory of each executor; 512.
	MemoryMB int
	// Host is the address of this machine that executors reach; found out by dialling a master.
	Host string
	// SparkVersion is the release of workers whose release cannot be found out.
	SparkVersion string
	// Timeout bounds the whole run but for leaving; 2 min.
	Timeout time.Duration
	// AskTimeout bounds one answer of a web UI; 5 s.
	AskTimeout time.Duration
	// Transport makes the calls to web UIs; nil for a plain one.
	Transport http.RoundTripper
	// StepTimeout bounds the time from the grant of an executor to its thread dump; 60 s.
	StepTimeout time.Duration
	// Settle is how long no executor may be granted before it counts that the master has none to give; 3 s.
	Settle time.Duration
	// Progress is told of each step; it must be quick. It may be nil.
	Progress func(Progress)
	Log      hclog.Logger
}

// Progress is one thing that happened.
type Progress struct {
	// WorkerID is empty for what concerns all.
	WorkerID string
	Text     string
	// Done and Total count the workers that were tried to the end.
	Done, Total int
}

// Outcome says how it went on one worker.
type Outcome string

// The outcomes.
const (
	OK Outcome = "ok"
	// Failed: an executor was asked for or launched there, and did not come through.
	Failed Outcome = "failed"
	// Skipped: no executor could be had there, for the reason given.
	Skipped Outcome = "not_reached"
)

// Worker is the result for one worker.
type Worker struct {
	ID      string  `json:"id"`
	Address string  `json:"address"`
	Release string  `json:"release"`
	Outcome Outcome `json:"outcome"`
	// Failed is the step that failed, empty when none did.
	Failed string `json:"failed_step"`
	// Reason says in words why the outcome is not ok.
	Reason string `json:"reason"`
	// Steps are those that were reached, in order.
	Steps []Step `json:"steps"`
	// TotalMillis is from the request for the registration to the last step.
	TotalMillis int64  `json:"total_millis"`
	AppID       string `json:"app_id"`
	ExecutorID  string `json:"executor_id"`
	// Stderr is the end of the executor's standard error, when it failed and its worker shows it.
	Stderr string `json:"stderr"`
}

// Step is one step of an executor.
type Step struct {
	Name string `json:"name"`
	// Millis is the time since the step before it, AtMillis that since the registration was asked for.
	Millis   int64 `json:"millis"`
	AtMillis int64 `json:"at_millis"`
}

// The steps, in their order.
const (
	StepRegistered   = "app_registered"
	StepGranted      = "granted"
	StepLaunching    = "launching"
	StepRunning      = "running"
	StepConfig       = "config_asked"
	StepDriver       = "registered_with_driver"
	StepBlockManager = "block_manager"
	StepLaunched     = "launched"
	StepThreadDump   = "thread_dump"
)

// App is one application that was registered.
type App struct {
	ID      string `json:"id"`
	Release string `json:"release"`
	// RegisteredMillis is from the request to the answer.
	RegisteredMillis int64 `json:"registered_millis"`
}

// Report is the result of a run.
type Report struct {
	Leader  string   `json:"leader"`
	Apps    []App    `json:"apps"`
	Workers []Worker `json:"workers"`
	OK      int      `json:"ok"`
	Failed  int      `json:"failed"`
	Skipped int      `json:"not_reached"`
	// Millis is the length of the run, leaving included.
	Millis int64 `json:"millis"`
	// Clean: it was verified that nothing of this run is left in the cluster. Left says what is.
	Clean bool   `json:"clean"`
	Left  string `json:"left"`
}
