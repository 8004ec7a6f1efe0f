package app

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"raftmaster/transport/frame"
	"raftmaster/transport/sparkmsg"
	"raftmaster/transport/sparkrpc"
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
type App struct {
	cfg     Config
	log     hclog.Logger
	self    frame.Address
	masters []frame.Address
	run     string // random; see runAttribute
	refused noise
	desc    *sparkmsg.ApplicationDescription
	ln      net.Listener
	ep      *sparkrpc.Endpoint
	events  *eventQueue
	driver  DriverEndpoint
	wg      sync.WaitGroup // the listener, its connections, timers, watch
	done    chan struct{}

	mu      sync.Mutex
	changed chan struct{} // closed and replaced at every change of what is below
	started bool
	leaving bool // Stop runs: no executor is accepted any more
	closed  bool
	ended   error // why the application is over
	id      string
	master  frame.Address // zero: not known
	// masterConn is the connection on which the leader spoke last; masterUp tells whether it stands.
	masterConn uint64
	masterUp   bool
	masterGen  int            // counts changes of master
	attempts   int            // the attempt to register that is on
	profiles   map[int32]bool // that a total was set for
	table
}

// New checks the configuration and listens. Nothing is said to any master before Start.
func New(cfg Config) (*App, error) {
	cfg, masters, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	a := &App{
		cfg: cfg, log: cfg.Log, masters: masters, run: rand.Text(), ln: cfg.Listener,
		done: make(chan struct{}), changed: make(chan struct{}), profiles: map[int32]bool{0: true}, table: newTable(),
	}
	a.driver.a = a
	if a.ln == nil {
		if a.ln, err = net.Listen("tcp", net.JoinHostPort(cfg.Bind, strconv.Itoa(cfg.Port))); err != nil {
			return nil, fmt.Errorf("app: %w", err)
		}
	}
	tcp, ok := a.ln.Addr().(*net.TCPAddr)
	if !ok {
		return nil, errors.Join(errors.New("app: the listener is not TCP"), a.ln.Close())
	}
	a.self = frame.Address{Host: cfg.Host, Port: int32(tcp.Port)}
	if err := a.prepareDescription(); err != nil {
		return nil, errors.Join(err, a.ln.Close())
	}
	a.ep = sparkrpc.New(sparkrpc.Config{
		Self: a.self,
		// Executors ask for one endpoint after another before they start, newer releases for more of them, and end when
		// one is not there.
		Exists: func(string) bool { return true },
		Log:    cfg.Log.Named("rpc"),
		Limits: sparkrpc.Limits{GiveUp: cfg.Timers.RegisterEvery, MaxConns: cfg.Limits.Connections},
		Dial:   cfg.Dial, Wrap: cfg.Wrap,
	}, handler{a})
	a.events = newEventQueue(cfg.EventQueue, cfg.Events)
	a.wg.Go(a.accept)
	a.wg.Go(a.watch)
	return a, nil
}

func (a *App) prepareDescription() error {
	if a.cfg.Describe == nil {
		a.desc = a.describe()
	} else if a.desc = a.cfg.Describe(a.DriverURL()); a.desc == nil {
		return errors.New("app: Describe gave no description")
	}
	if a.desc.Graph != nil {
		return nil
	}
	if err := a.desc.Bind(a.cfg.Family); err != nil {
		return fmt.Errorf("app: description: %w", err)
	}
	return nil
}

// accept serves connections. Want of file descriptors and the like passes: it goes on after a pause.
func (a *App) accept() {
	for {
		nc, err := a.ln.Accept()
		switch {
		case err == nil:
			a.wg.Go(func() { a.ep.ServeConn(nc) })
		case errors.Is(err, net.ErrClosed):
			return
		default:
			a.log.Error("accept failed", "error", err)
			if a.sleep(context.Background(), acceptPause) != nil {
				return
			}
		}
	}
}

const acceptPause = 100 * time.Millisecond

// ID returns the application id, "" before the registration. It never changes.
func (a *App) ID() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.id
}

// Master returns host:port of the leader as far as it is known, and whether the connection to it stands.
func (a *App) Master() (addr string, connected bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.master == (frame.Address{}) {
		return "", false
	}
	return a.master.String(), a.masterUp
}

// DriverURL returns what executors are given as --driver-url.
func (a *App) DriverURL() string {
	return sparkmsg.EndpointRef{Name: schedulerEndpoint, Address: &a.self}.URI()
}

// Driver returns the side that executors register with.
func (a *App) Driver() *DriverEndpoint { return &a.driver }

// Done is closed when the application has ended: removed by the master, stopped or closed.
func (a *App) Done() <-chan struct{} { return a.done }

// Err returns why the application ended, nil before that and after Stop or Close.
func (a *App) Err() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if errors.Is(a.ended, errClosed) {
		return nil
	}
	return a.ended
}

// errClosed is the end that the owner wanted.
var errClosed = fmt.Errorf("%w: it was closed", ErrEnded)

// endLocked notes the end of the application, the first time.
func (a *App) endLocked(err error) {
	if a.ended != nil {
		return
	}
	a.ended = err
	close(a.done)
	a.eventLocked(Event{Kind: EventEnded, Executor: -1, Text: err.Error()})
	a.changeLocked()
}

// Close ends everything without a word, as a killed process does: executors see their driver vanish, the master sees
// the connection end. It waits for all goroutines. Closing twice is harmless; not to be called from Config.Events.
func (a *App) Close() {
	a.mu.Lock()
	first := !a.closed
	a.closed = true
	a.endLocked(errClosed)
	timers := a.takeTimersLocked()
	a.mu.Unlock()
	for _, t := range timers {
		t.Stop()
	}
	if first {
		if err := a.ln.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			a.log.Debug("close of the listener failed", "error", err)
		}
	}
	a.ep.Close()
	a.wg.Wait()
	a.events.close()
}

// eventLocked hands on an event; it is called with a.mu held, so that events keep the order of what they tell.
func (a *App) eventLocked(e Event) {
	e.At = time.Now()
	if e.Master == "" && a.master != (frame.Address{}) {
		e.Master = a.master.String()
	}
	a.events.add(e)
}

// changeLocked wakes everything that waits for a change.
func (a *App) changeLocked() {
	close(a.changed)
	a.changed = make(chan struct{})
}

// after runs f with a.mu held, after d, unless the App is closed by then.
func (a *App) afterLocked(d time.Duration, f func()) *time.Timer {
	return time.AfterFunc(d, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if !a.closed {
			f()
		}
	})
}

// sleep waits for d, the end of ctx or that of the application.
func (a *App) sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-a.done:
		return a.endErr()
	}
}

// endErr is the error of calls after the end.
func (a *App) endErr() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.ended
}
