package runner

import (
	"errors"
	"time"

	"github.com/hashicorp/go-hclog"
)

// Errors that callers tell apart.
var (
	// ErrClosed is returned by Start after Close.
	ErrClosed = errors.New("runner is closed")
	// ErrLocked is wrapped by New's error when another live worker holds the work directory.
	ErrLocked = errors.New("work directory is in use")
)

// Defaults of Options and of Spark's kill escalation.
const (
	// DefaultGrace is how long a child has after SIGTERM, and again after SIGKILL (ExecutorRunner.scala, DriverRunner.scala).
	DefaultGrace = 10 * time.Second
	// DefaultOrphanGrace is how long an orphan has after SIGTERM: its application is gone, so less than a child.
	DefaultOrphanGrace = 3 * time.Second
	// DefaultGroupGrace is what the rest of a group has after its leader's end, between SIGTERM and SIGKILL.
	DefaultGroupGrace = 2 * time.Second
	// DefaultMaxPause bounds the pause between two runs of a supervised driver; Spark's doubles without end (B-144).
	DefaultMaxPause = 60 * time.Second
)

// Clock gives the time and timers: a parameter, so that tests pass minutes in milliseconds.
type Clock interface {
	Now() time.Time
	After(time.Duration) <-chan time.Time
}

type systemClock struct{}

func (systemClock) Now() time.Time                         { return time.Now() }
func (systemClock) After(d time.Duration) <-chan time.Time { return time.After(d) }

// Options are a Runner's parameters.
type Options struct {
	// WorkDir is the worker's directory; it is made if it is missing. It must be writable.
	WorkDir string
	// OrphanGrace is the time between SIGTERM and SIGKILL for orphans; 0 means DefaultOrphanGrace.
	OrphanGrace time.Duration
	// GroupGrace is the time between SIGTERM and SIGKILL for what a child leaves running; 0 means DefaultGroupGrace.
	GroupGrace time.Duration
	// Clock times pauses of drivers and rolled files; nil means the system's.
	Clock Clock
	Log   hclog.Logger
}

// Spec says what to start. Argv[0] without a slash is looked up in the PATH of Env.
type Spec struct {
	// Name is for logs and the ledger: "app-20240101000000-0000/0" or a driver id.
	Name string
	// Argv and Env are given to the process as they are.
	Argv, Env []string
	// Dir is the working directory, absolute. Start makes it if it is missing.
	Dir string
	// Stdout and Stderr are absolute paths of log files, made if missing and appended to. Both may be the same file.
	Stdout, Stderr string
	// Header is written to Stderr before the start, as it is.
	Header string
	// TruncateStderr empties Stderr before the header: executors do, drivers do not (ExecutorRunner.scala, DriverRunner.scala).
	TruncateStderr bool
	// Rolling, if not nil, rolls both files; it needs a pipe and a copier for each. Spark's drivers never roll.
	Rolling *Rolling
}

// Exit says how a process ended. Valid after Done is closed.
type Exit struct {
	// Code is the exit status, or 128 + the signal's number as a JVM's Process.exitValue gives. -1 when Orphaned.
	Code int
	// Signaled is true if a signal ended it; Signal is its number.
	Signaled bool
	Signal   int
	// Killed is true if Kill was called before the end.
	Killed bool
	// Orphaned is true if the process did not end even after SIGKILL: it may live on, and there is no exit status.
	Orphaned bool
	// Hint is a sentence for logs and messages, often empty: that the kernel's out-of-memory killer ended it.
	Hint string
	// Started and Ended are the clock's times.
	Started, Ended time.Time
}
