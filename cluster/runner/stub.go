package runner

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/hashicorp/go-hclog"
)

var errNotYet = errors.New("not built yet")

// Runner starts and ends the children of one worker. All methods may be called by any goroutine.
type Runner struct{}

// New locks the work directory (ErrLocked if another live worker has it) and starts the forking thread. The children of
// an earlier worker are not touched until EndOrphans.
func New(Options) (*Runner, error) { return nil, errNotYet }

// Start makes the directory and files and starts the process. An error says what is wrong and how it may be mended (a
// *StartError), and then nothing is left behind. It returns when the program runs, or has failed to.
func (r *Runner) Start(Spec) (*Process, error) { return nil, errNotYet }

// EndOrphans ends what an earlier worker process with this work directory left running, group by group, and returns what
// it ended. An error names what is still there.
func (r *Runner) EndOrphans(context.Context) ([]Orphan, error) { return nil, errNotYet }

// Close kills all children, waits for them (at most grace + hard and a little), unlocks the work directory and ends all
// goroutines. Start fails from then on.
func (r *Runner) Close(grace, hard time.Duration) error { return errNotYet }

// Orphan is a process of an earlier worker that EndOrphans ended.
type Orphan struct {
	Name, Dir string
	Pid       int
	// Members is how many processes of its group and session were ended with it.
	Members int
}

// Process is a child.
type Process struct{}

// Pid is the process id, and the id of its group and session.
func (p *Process) Pid() int { return 0 }

// Done is closed at the end of the process, or when it is given up as orphaned.
func (p *Process) Done() <-chan struct{} { return nil }

// Exit says how it ended; before Done is closed it is the zero value.
func (p *Process) Exit() Exit { return Exit{} }

// Kill sends SIGTERM to the process group, after grace SIGKILL, and after hard gives the process up as orphaned. It never
// blocks. Called again it can only hasten: a grace of 0 sends SIGKILL at once.
func (p *Process) Kill(grace, hard time.Duration) {}

// ParseRolling reads spark.executor.logs.rolling.strategy, .time.interval, .maxSize, .maxRetainedFiles and
// .enableCompression as Spark does: nil without a strategy, and nil with a warning for values that Spark ignores.
func ParseRolling(strategy, interval, maxSize string, maxRetained int, compress bool) (rolling *Rolling, warning string) {
	return nil, ""
}

// DriverPlan is what RunDriver needs.
type DriverPlan struct {
	// Prepare makes the directory, fetches the jar and assembles the command; its error ends the driver as ERROR.
	Prepare func(context.Context) (Spec, error)
	// Supervise starts it again after an exit status that is not 0.
	Supervise bool
	// Grace and Hard are the steps of the kill (spark.worker.driverTerminateTimeout each); 0 means DefaultGrace.
	Grace, Hard time.Duration
	// MaxPause bounds the pause between runs; 0 means DefaultMaxPause.
	MaxPause time.Duration
	// Started, if not nil, is told of every start; run counts from 1.
	Started func(run int, p *Process)
	// Ended, if not nil, is told of every end that a restart after pause follows.
	Ended func(run int, e Exit, pause time.Duration)
}

// DriverState is the final state of a driver, in Spark's word (DriverState.scala).
type DriverState string

// The final states.
const (
	DriverFinished DriverState = "FINISHED"
	DriverFailed   DriverState = "FAILED"
	DriverKilled   DriverState = "KILLED"
	DriverError    DriverState = "ERROR"
)

// DriverEnd says how a driver ended.
type DriverEnd struct {
	State DriverState
	// Err is the reason of ERROR, or says that a killed driver is likely orphaned.
	Err error
	// Exit is of the last run; zero if there was none.
	Exit Exit
	// Runs is how often the process was started.
	Runs int
}

// RunDriver runs a driver until its final state. Cancelling ctx kills it: the process, or the pause between two runs, at once.
func (r *Runner) RunDriver(ctx context.Context, plan DriverPlan) DriverEnd { return DriverEnd{} }

// LocalDirs are the directories for the shuffle and spill files of executors: in each root one spark-<uuid> for this
// worker process, and in it one executor-<uuid> for each application, all with mode 0700 (Worker.scala, Utils.scala).
type LocalDirs struct{}

// NewLocalDirs uses the given roots. Nothing is made until the first Create.
func (r *Runner) NewLocalDirs(roots []string) (*LocalDirs, error) { return nil, errNotYet }

// Create gives the application's directories, made at the first call for it. A root that fails is left out and logged;
// if all fail there is an error.
func (l *LocalDirs) Create(appID string) ([]string, error) { return nil, errNotYet }

// Remove deletes the application's directories with all that is in them; unknown applications are no error.
func (l *LocalDirs) Remove(appID string) error { return nil }

// RemoveLeftovers deletes the spark-<uuid> directories of an earlier worker that was killed. Call it after EndOrphans; it may take long.
func (l *LocalDirs) RemoveLeftovers(context.Context) (int, error) { return 0, nil }

// Close deletes all directories that it made.
func (l *LocalDirs) Close() error { return nil }

// CleanerOptions are a Cleaner's parameters.
type CleanerOptions struct {
	WorkDir string
	// TTL is spark.worker.cleanup.appDataTtl.
	TTL time.Duration
	// EntriesPerSecond bounds how fast directories are read and deleted; 0 means 5000.
	EntriesPerSecond int
	Clock            Clock
	Log              hclog.Logger
}

// Cleaner deletes directories of ended applications and drivers.
type Cleaner struct{}

// NewCleaner makes a Cleaner; it does nothing until Clean.
func NewCleaner(CleanerOptions) *Cleaner { return nil }

// Hold says that a directory directly under the work directory (an application or driver id) is used. To be called before the directory
// is made; waits for nothing longer than a rename. Calls count.
func (c *Cleaner) Hold(name string) {}

// Release takes back one Hold.
func (c *Cleaner) Release(name string) {}

// Clean makes one pass and returns the names of the deleted directories. One pass at a time.
func (c *Cleaner) Clean(context.Context) ([]string, error) { return nil, nil }

// Fetcher opens files of one URL scheme.
type Fetcher interface {
	// Open gives the content from offset on if it can, else from the start: Source.Offset says which.
	// validator is Source.Validator of the first Open, "" at first; content that has changed must start at 0.
	Open(ctx context.Context, u *url.URL, offset int64, validator string) (Source, error)
}

// Source is an open remote file.
type Source struct {
	Body io.ReadCloser
	// Offset is where Body begins. Size is the whole file's, -1 if unknown.
	Offset, Size int64
	// Validator names this version of the content ("": resuming is not possible).
	Validator string
}

// FetchOptions are the limits of Fetch; zero values mean the defaults.
type FetchOptions struct {
	// Schemes adds or replaces fetchers by lower-case scheme. file, local, http and https are built in.
	Schemes map[string]Fetcher
	// Client is used for http and https; nil means one without proxy.
	Client *http.Client
	// StallTimeout ends a transfer without progress; 60 s by default.
	StallTimeout time.Duration
	// Reserve is how many bytes must stay free on the disk; 64 MiB by default.
	Reserve int64
	// MaxBytes bounds a file; 0 leaves only the disk's free space.
	MaxBytes int64
	// Attempts is how often a transfer is taken up again after it broke; 3 by default.
	Attempts int
}

// Fetch copies a driver's jar into dir and returns its path.
func (o FetchOptions) Fetch(ctx context.Context, jarURL, dir string) (string, error) {
	return "", errNotYet
}

// Fetch copies a driver's jar into dir under its URL's last path element and returns its path, with default options. A file that is
// already there is left as it is, and an empty URL gives dir itself (DriverRunner.scala).
func Fetch(ctx context.Context, jarURL, dir string) (string, error) {
	return FetchOptions{}.Fetch(ctx, jarURL, dir)
}
