package app

import (
	"time"

	"raftmaster/transport/sparkmsg"
)

// EventKind says what an Event is about.
type EventKind uint8

// The kinds of events.
const (
	EventRegistered    EventKind = iota // the leader accepted the application: Text is its id, Master where
	EventMasterLost                     // the connection to the leader ended
	EventMasterChanged                  // another master leads: Master
	EventExecutorStep                   // an executor reached Step
	EventExecutorEnded                  // an executor is gone: Text says why
	EventWorkerRemoved                  // the master lost a worker: Text is its id and why
	EventEnded                          // the application ended: Text says why
)

var eventNames = [...]string{"registered", "master lost", "master changed", "executor step", "executor ended", "worker removed", "ended"}

// String returns words for logs.
func (k EventKind) String() string {
	if int(k) < len(eventNames) {
		return eventNames[k]
	}
	return "unknown"
}

// Event is one thing that happened to an application.
type Event struct {
	At       time.Time
	Kind     EventKind
	Executor int32 // id; -1 for events that are not about one
	Step     Step  // of EventExecutorStep
	Master   string
	Text     string
	Lost     int // events before this one that were left out because the callback was too slow
}

// Step is one stage in the life of an executor, in the order in which a healthy one passes them.
type Step uint8

// The steps. The master tells of the first three, the executor itself shows the others.
const (
	StepGranted      Step = iota // ExecutorAdded came from the master
	StepLaunching                // the worker starts the process (ExecutorUpdated LAUNCHING)
	StepRunning                  // the process runs (ExecutorUpdated RUNNING)
	StepConfigAsked              // RetrieveSparkAppConfig: the JVM is up and reaches the driver
	StepRegistered               // RegisterExecutor was accepted
	StepBlockManager             // RegisterBlockManager was answered
	StepLaunched                 // LaunchedExecutor: tasks could be sent from here on
	StepHeartbeat                // the first heartbeat was answered
	StepCount                    // how many steps there are
)

var stepNames = [StepCount]string{"granted", "launching", "running", "config asked", "registered", "block manager", "launched", "first heartbeat"}

// String returns words for logs and reports.
func (s Step) String() string {
	if s < StepCount {
		return stepNames[s]
	}
	return "none"
}

// Executor is what the application knows of one executor: a copy, as of the moment it was asked for.
type Executor struct {
	ID         int32
	WorkerID   string // "" if the master never told of this executor
	WorkerAddr string // host:port of the worker's RPC server
	Host       string // as the executor names itself; "" before StepRegistered
	Cores      int32
	MemoryMB   int32
	ProfileID  int32

	State        sparkmsg.ExecutorState // as the master told last
	Times        [StepCount]time.Time   // when each step was reached; zero: not (yet)
	LogURLs      map[string]string
	BlockManager *sparkmsg.BlockManagerID // nil before StepBlockManager
	Heartbeats   uint64
	LastBeat     time.Time

	Connected bool      // its connection is open
	Stopping  bool      // StopExecutor was sent, or the master was asked to kill it
	Ended     time.Time // zero while it lives
	// ExitStatus of the process, nil if it is not known.
	ExitStatus *int32
	// Failure says how an executor ended that was not asked to; nil for one that lives or was told to leave.
	Failure *Failure
}

// Failure tells in which step an executor failed.
type Failure struct {
	Step   Step // the first step that was not reached; StepCount if it had reached all
	Reason string
}

// Reached reports whether the executor passed a step.
func (e *Executor) Reached(s Step) bool { return s < StepCount && !e.Times[s].IsZero() }

// Alive reports whether the executor is registered, connected and has not ended.
func (e *Executor) Alive() bool { return e.Reached(StepRegistered) && e.Connected && e.Ended.IsZero() }

// Next returns the first step that was not reached, StepCount if all were. Steps that were passed over, because a later
// one was reached, do not count.
func (e *Executor) Next() Step {
	next := StepGranted
	for s := StepGranted; s < StepCount; s++ {
		if e.Reached(s) {
			next = s + 1
		}
	}
	return next
}
