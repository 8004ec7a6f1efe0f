package worker

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"

	"raftmaster/cluster/config"
	"raftmaster/cluster/launcher"
	"raftmaster/cluster/runner"
	"raftmaster/transport/sparkmsg"
	"raftmaster/transport/sparkrpc"
	"raftmaster/transport/workerui"
)

// DefaultMasterPatience is Config.MasterPatience of zero.
const DefaultMasterPatience = 20 * time.Second

// Connections that a worker takes, in all and of one address. Only masters have something to say to it, and descriptors that
// strangers hold are missing for executors.
const (
	maxConns        = 1024
	maxConnsPerHost = 128
)

// Config is what a Worker needs. Settings, Home, Environ and Log are required.
type Config struct {
	Settings *config.Worker
	Home     *launcher.Home
	// Environ gives the environment that executors and drivers inherit (launcher.Environment). It is called once, on a
	// goroutine of its own; launches wait for it, the registration does not.
	Environ func(context.Context) ([]string, error)
	Log     hclog.Logger
	// Version is that of this program.
	Version string
	// LogFiles gives the worker's own log files, for its pages; nil: none.
	LogFiles func() map[string]string
	// MasterPatience is how long a worker with executors or drivers waits, once the connection to its master is lost, for
	// the next master to call; 0 means DefaultMasterPatience, negative not at all.
	MasterPatience time.Duration
	// RetryShort and RetryLong are the pauses between attempts to register; 0 means Spark's: 5 to 15 s and 30 to 90 s, drawn
	// once.
	RetryShort, RetryLong time.Duration
	// Up, which may be nil, is called on a goroutine of its own when the worker is up: its ports answer, what an earlier one
	// has left is ended, and it asks the masters to register. ctx ends when the worker begins to stop, which waits for it.
	Up func(ctx context.Context, w *Worker)
}

// ExitError says with which code the process of a worker must end (worker exit codes of Spark: 1 for everything that
// keeps it from its work).
type ExitError struct {
	Code   int
	Reason string
	Err    error // nil when the reason says it all
}

func (e *ExitError) Error() string {
	if e.Err != nil {
		return e.Reason + ": " + e.Err.Error()
	}
	return e.Reason
}

// Unwrap returns the cause.
func (e *ExitError) Unwrap() error { return e.Err }

// Worker is one worker: a port, a web UI, and a Core on its own goroutine.
type Worker struct {
	cfg      Config
	log      hclog.Logger
	family   sparkmsg.Family
	id       string
	self     sparkmsg.Address
	listener net.Listener
	ui       *workerui.Server
	uiURL    string
	runner   *runner.Runner
	rpc      *sparkrpc.Endpoint
	procs    *processes
	loop     *loop
	metrics  *prometheus.Registry
	exits    chan *ExitError
	summary  atomic.Pointer[string] // see StatusLine
	wg       sync.WaitGroup
}

// New takes the ports and the work directory. The worker does nothing until Run; one that is not run must be closed.
func New(cfg Config) (_ *Worker, err error) {
	if cfg.Settings == nil || cfg.Home == nil || cfg.Environ == nil || cfg.Log == nil {
		return nil, errors.New("worker: settings, a Spark home, an environment and a logger are required")
	}
	w := &Worker{cfg: cfg, log: cfg.Log, exits: make(chan *ExitError, 1), metrics: prometheus.NewRegistry()}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.Close())
		}
	}()
	if w.family, err = cfg.Home.Family(); err != nil {
		return nil, &ExitError{Code: 1, Reason: "this Spark release is not known", Err: err}
	}
	s := cfg.Settings
	if w.listener, err = listen(s.BindHost, s.Port, s.PortMaxRetries); err != nil {
		return nil, &ExitError{Code: 1, Reason: "cannot listen for masters", Err: err}
	}
	port := w.listener.Addr().(*net.TCPAddr).Port
	w.sayMoved("RPC", s.Port, port)
	w.self = sparkmsg.Address{Host: s.Host, Port: int32(port)}
	w.id = s.WorkerID(time.Now(), port)
	if w.runner, err = runner.New(runner.Options{WorkDir: s.WorkDir, Log: w.log.Named("runner")}); err != nil {
		return nil, &ExitError{Code: 1, Reason: "cannot use the work directory " + s.WorkDir, Err: err}
	}
	w.ui, err = workerui.NewServer(workerui.Options{
		Host: s.WebUIHost, Port: s.WebUIPort, MaxRetries: s.PortMaxRetries, WorkDir: s.WorkDir, LogFiles: cfg.LogFiles,
		Version: cfg.Version, Metrics: w.metrics, ReverseProxy: s.UI.ReverseProxy, ReverseProxyURL: s.UI.ReverseProxyURL,
		AllowFramingFrom: s.UI.AllowFramingFrom, XXSSProtection: s.UI.XXSSProtection,
		ContentSecurityPolicy: s.UI.ContentSecurityPolicy, Log: w.log.Named("web"),
	}, w)
	if err != nil {
		return nil, &ExitError{Code: 1, Reason: "cannot bind the web UI", Err: err}
	}
	w.sayMoved("web UI", s.WebUIPort, w.ui.Port())
	w.uiURL = "http://" + net.JoinHostPort(strings.Trim(s.PublicHost, "[]"), strconv.Itoa(w.ui.Port()))
	w.loop = newLoop()
	if w.procs, err = w.newProcesses(); err != nil {
		return nil, &ExitError{Code: 1, Reason: "cannot set up the processes' directories", Err: err}
	}
	w.rpc = sparkrpc.New(sparkrpc.Config{
		Self:   w.self,
		Exists: func(name string) bool { return name == endpointWorker },
		Log:    w.log.Named("rpc"),
		Limits: sparkrpc.Limits{MaxTrustedFrame: s.MessageMaxBytes, GiveUp: 5 * time.Second, MaxConns: maxConns, MaxConnsPerHost: maxConnsPerHost},
	}, &inbound{loop: w.loop})
	return w, nil
}

// sayMoved warns of a configured port that was taken: who has opened a firewall for it looks for the reason here.
func (w *Worker) sayMoved(what string, configured, bound int) {
	if configured != 0 && configured != bound {
		w.log.Warn("the configured port is in use; the next free one is taken", "service", what, "configured", configured, "bound", bound)
	}
}

// Close frees what New has taken. Run does it itself.
func (w *Worker) Close() error {
	var errs []error
	if w.listener != nil {
		if err := w.listener.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			errs = append(errs, err)
		}
	}
	if w.rpc != nil {
		w.rpc.Close()
	}
	if w.ui != nil {
		ctx, cancel := context.WithTimeout(context.Background(), uiCloseTimeout)
		if err := w.ui.Close(ctx); err != nil && !errors.Is(err, net.ErrClosed) {
			errs = append(errs, err)
		}
		cancel()
	}
	if w.runner != nil {
		errs = append(errs, w.runner.Close(runner.DefaultGrace, runner.DefaultGrace))
	}
	if w.procs != nil {
		errs = append(errs, w.procs.close())
	}
	return errors.Join(errs...)
}

// ID is the worker's id.
func (w *Worker) ID() string { return w.id }

// Address is where masters reach the worker.
func (w *Worker) Address() sparkmsg.Address { return w.self }

// WebUIURL is where the worker's pages are.
func (w *Worker) WebUIURL() string { return w.uiURL }

// View implements workerui.Backend.
func (w *Worker) View() workerui.View { return w.Status() }

// Status copies what the worker knows of itself; before Run and after it, little.
func (w *Worker) Status() Status {
	v := w.loop.status()
	v.ID, v.URL, v.SparkVersion = w.id, "spark://"+w.self.String(), w.cfg.Home.Release
	return v
}

// Decommission does what spark.worker.decommission.signal does. It may be called while the worker runs.
func (w *Worker) Decommission() { w.loop.post(func(c *Core) { c.DecommissionSignal() }) }

// coreConfig is what the Core must know.
func (w *Worker) coreConfig(resources []sparkmsg.ResourceInformation) CoreConfig {
	s := w.cfg.Settings
	short, long := w.cfg.RetryShort, w.cfg.RetryLong
	if short <= 0 {
		// One factor for both, drawn once (B-023).
		factor := 0.5 + rand.Float64()
		short = time.Duration(math.Round(10*factor)) * time.Second
		long = time.Duration(math.Round(60*factor)) * time.Second
	}
	c := CoreConfig{
		ID: w.id, Self: w.self, Cores: int32(s.Cores), MemoryMB: int32(s.MemoryMB), WebUIURL: w.uiURL, Resources: resources,
		Heartbeat: s.Timeout / 4, RetryShort: short, RetryLong: max(long, short),
		ShortTries: s.InitialRegistrationRetries, MaxTries: s.MaxRegistrationRetries,
		AskTimeout: s.AskTimeout, ReportTries: s.ExecutorStateSyncMaxAttempts, MasterPatience: w.cfg.MasterPatience,
		PreferConfiguredMaster: s.PreferConfiguredMasterAddress, DecommissionEnabled: s.DecommissionEnabled,
		RetainedExecutors: s.RetainedExecutors, RetainedDrivers: s.RetainedDrivers, Redaction: s.Redaction(),
	}
	for _, m := range s.Masters {
		c.Masters = append(c.Masters, sparkmsg.Address{Host: m.Host, Port: int32(m.Port)})
	}
	if c.MasterPatience == 0 {
		c.MasterPatience = DefaultMasterPatience
	}
	if s.Cleanup.Enabled {
		c.CleanupInterval = s.Cleanup.Interval
	}
	return c
}
