package app

import (
	"context"
	"errors"
	"raftmaster/transport/sparkmsg"
)

// Errors of App.
var (
	// ErrNoMaster ends Start when no master has accepted the application after all attempts.
	ErrNoMaster = errors.New("app: all masters are unresponsive")
	// ErrEnded is wrapped by every error after the end of the application; Err says why it ended.
	ErrEnded = errors.New("app: application has ended")
	// ErrNotRegistered is returned by what needs the application id before there is one.
	ErrNotRegistered = errors.New("app: application is not registered")
	// ErrRefused is returned when the master answers false: it does not know the application (any more).
	ErrRefused = errors.New("app: master refused")
	// ErrNoExecutor is returned for an executor that is not there or not connected.
	ErrNoExecutor = errors.New("app: no such executor")
)

// App is one application. Its methods are safe for concurrent use. It must be ended by Stop or Close.
type App struct{ driver DriverEndpoint }

// New checks the configuration and listens. Nothing is said to any master before Start.
func New(cfg Config) (*App, error) { return nil, errors.ErrUnsupported }

// Start registers with all masters and returns when the leader has accepted the application, or with ErrNoMaster, or
// when ctx ends. ctx bounds the registration only. After an error the App must be closed.
func (a *App) Start(ctx context.Context) error { return errors.ErrUnsupported }

// ID returns the application id, "" before the registration. It never changes.
func (a *App) ID() string { return "" }

// Master returns host:port of the leader as far as it is known, and whether the connection to it stands.
func (a *App) Master() (addr string, connected bool) { return "", false }

// DriverURL returns what executors are given as --driver-url.
func (a *App) DriverURL() string { return "" }

// Driver returns the side that executors register with.
func (a *App) Driver() *DriverEndpoint { return &a.driver }

// Done is closed when the application has ended: removed by the master, stopped or closed.
func (a *App) Done() <-chan struct{} { return nil }

// Err returns why the application ended, nil before that and after Stop or Close.
func (a *App) Err() error { return nil }

// RequestExecutors sets how many executors the application wants in all, by resource profile id; 0 is the default
// profile. It is asked again at another leader until ctx ends, because setting a total twice changes nothing.
func (a *App) RequestExecutors(ctx context.Context, total map[int32]int32) error { return nil }

// KillExecutors asks the master to end executors. It is asked again at another leader until ctx ends: ids are not used
// twice. The total stays, so the master starts others unless it was lowered before.
func (a *App) KillExecutors(ctx context.Context, ids []int32) error { return nil }

// Stop leaves in order: the total of every profile is set to 0, executors are told to stop (those that have not
// registered are killed through the master), their end is awaited, the application is unregistered. It returns what
// could not be confirmed within Timers.Leave and the deadline of ctx. The App is closed afterwards in any case.
func (a *App) Stop(ctx context.Context) error { return nil }

// Close ends everything without a word, as a killed process does: executors see their driver vanish, the master sees
// the connection end. It waits for all goroutines. Closing twice is harmless; not to be called from Config.Events.
func (a *App) Close() {}

// DriverEndpoint is the side of an App that executors talk to. Its methods are safe for concurrent use.
type DriverEndpoint struct{}

// Executors returns all executors known, by id, those that ended included (the last Limits.Ended).
func (d *DriverEndpoint) Executors() []Executor { return nil }

// Executor returns one executor.
func (d *DriverEndpoint) Executor(id int32) (Executor, bool) { return Executor{}, false }

// Wait returns as soon as cond is true of the executors, looking again after every change. It returns the executors
// that it saw last, with the error of ctx, or ErrEnded, if cond was not true of them. cond must not block or call the
// App.
func (d *DriverEndpoint) Wait(ctx context.Context, cond func([]Executor) bool) ([]Executor, error) {
	return nil, nil
}

// ThreadDump asks an executor for the stack traces of its threads: a proof that the JVM works.
func (d *DriverEndpoint) ThreadDump(ctx context.Context, id int32) (*sparkmsg.ThreadDump, error) {
	return nil, nil
}

// StopExecutor tells an executor to end. The master starts another one unless its total was lowered before.
func (d *DriverEndpoint) StopExecutor(id int32) error { return nil }

// DecommissionExecutor tells an executor to finish its work, move its blocks and end; it is told to stop when it reports
// that it has.
func (d *DriverEndpoint) DecommissionExecutor(id int32) error { return nil }
