package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"strings"

	"github.com/hashicorp/go-hclog"
	"github.com/spf13/cobra"

	"raftmaster/cluster/config"
	"raftmaster/cluster/launcher"
	"raftmaster/cluster/worker"
	"raftmaster/transport/webui"
)

// runWorker runs one worker until ctx ends.
type runWorker func(ctx context.Context, cfg worker.Config) error

// serveWorker is the real one.
func serveWorker(ctx context.Context, cfg worker.Config) error {
	w, err := worker.New(cfg)
	if err != nil {
		return err
	}
	defer decommissionBySignal(cfg, w.Decommission)()
	return w.Run(ctx)
}

// workerGCPercent keeps a worker small: it makes little garbage, and collecting it sooner costs nothing that is noticed.
const workerGCPercent = 25

// workerFlags are the values that the flags of "worker" point to.
type workerFlags struct {
	masters, host, ip, memory, workDir, properties, logLevel string
	port, webUI, cores                                       int
	logJSON                                                  bool
}

func (p *program) workerCommand() *cobra.Command {
	var f workerFlags
	cmd := &cobra.Command{
		Use:   "worker [flags] MASTERS",
		Short: "Run one worker, which starts executors and drivers of the Spark in SPARK_HOME",
		Long: "Run one worker of a Spark Standalone cluster. MASTERS is the list that applications use, spark://HOST:PORT,HOST:PORT,...; the masters " +
			"may be raftmaster's or Spark's own. SPARK_HOME names the Spark installation whose executors and drivers are started.\n\nA value comes from its flag, else from the environment " +
			"(SPARK_WORKER_CORES, SPARK_WORKER_MEMORY, SPARK_WORKER_PORT, SPARK_WORKER_WEBUI_PORT, SPARK_WORKER_DIR, SPARK_WORKER_OPTS, also as conf/spark-env.sh sets them), " +
			"else from the properties file, else from its default.\n\nThe external shuffle service is not part of it.",
		Example: "  SPARK_HOME=/opt/spark raftmaster worker --cores 8 --memory 16g spark://a:7077,b:7077,c:7077",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return &workerError{fmt.Errorf("one list of masters is expected, and not %q", args)}
			}
			if len(args) == 1 {
				f.masters = args[0]
			}
			return p.startWorker(f.given(cmd, len(args) == 1))
		},
	}
	fs := cmd.Flags()
	// Spark's -h means --host, so help has no short form here.
	fs.Bool("help", false, "help for worker")
	fs.IntVarP(&f.cores, "cores", "c", 0, "cores to offer (default: all that this process may use)")
	fs.StringVarP(&f.memory, "memory", "m", "", "memory to offer, such as 4g (default: all but 1 GiB)")
	fs.StringVarP(&f.workDir, "work-dir", "d", "", "directory of executors, drivers and their logs (default: $SPARK_HOME/work)")
	fs.StringVarP(&f.host, "host", "h", "", "host name or address by which masters and executors reach this worker")
	fs.StringVarP(&f.ip, "ip", "i", "", "old name of --host")
	fs.IntVarP(&f.port, "port", "p", 0, "port for masters and executors (default: any free one)")
	fs.IntVar(&f.webUI, "webui-port", 0, "port of the web UI; the next free one is taken (default 8081)")
	fs.StringVar(&f.properties, "properties-file", "", "Spark properties file (default: conf/spark-defaults.conf)")
	fs.StringVar(&f.logLevel, "log-level", config.DefaultLogLevel, "trace, debug, info, warn or error")
	fs.BoolVar(&f.logJSON, "log-json", false, "one JSON object per log line")
	return cmd
}

// given keeps the flags that were really given, so that the environment and the file can fill in the others.
func (f *workerFlags) given(cmd *cobra.Command, masters bool) config.WorkerFlags {
	var out config.WorkerFlags
	fs := cmd.Flags()
	set := func(name string, do func()) {
		if fs.Changed(name) {
			do()
		}
	}
	if masters {
		out.Masters = &f.masters
	}
	set("ip", func() { out.Host = &f.ip })
	set("host", func() { out.Host = &f.host })
	set("port", func() { out.Port = &f.port })
	set("webui-port", func() { out.WebUIPort = &f.webUI })
	set("cores", func() { out.Cores = &f.cores })
	set("memory", func() { out.Memory = &f.memory })
	set("work-dir", func() { out.WorkDir = &f.workDir })
	set("properties-file", func() { out.PropertiesFile = &f.properties })
	set("log-level", func() { out.LogLevel = &f.logLevel })
	set("log-json", func() { out.LogJSON = &f.logJSON })
	return out
}

// startWorker loads the configuration and runs the worker until a signal.
func (p *program) startWorker(flags config.WorkerFlags) error {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(workerGCPercent)
	}
	cfg, warnings, err := workerConfig(context.Background(), p.environ(), flags)
	if err != nil {
		return &workerError{err}
	}
	log := hclog.New(&hclog.LoggerOptions{
		Name: "raftmaster", Level: hclog.LevelFromString(cfg.Settings.LogLevel), Output: p.stderr, JSONFormat: cfg.Settings.LogJSON,
	})
	cfg.Log, cfg.Up = log, p.notifyOfWorker(log)
	for _, w := range warnings {
		log.Warn(string(w))
	}
	ctx, stop := p.signals(log, func() {})
	defer stop()
	log.Info(fmt.Sprintf("Started daemon with process name: %d@%s", os.Getpid(), hostName()))
	log.Info("Running raftmaster version " + versionString())
	if err := p.work(ctx, cfg); err != nil {
		log.Error("the worker ends", "error", err)
		return &loggedError{&workerError{err}}
	}
	log.Info("stopped in order")
	return nil
}

func hostName() string {
	host, err := os.Hostname()
	if err != nil {
		return "localhost"
	}
	return host
}

// workerError ends the process with the code that Spark's worker ends with: 1 for all that goes wrong, a wrong command
// line included.
type workerError struct{ err error }

func (e *workerError) Error() string { return e.err.Error() }
func (e *workerError) Unwrap() error { return e.err }

// code is the exit code.
func (e *workerError) code() int {
	var exit *worker.ExitError
	if errors.As(e.err, &exit) {
		return exit.Code
	}
	return exitFailed
}

var errNoSpark = errors.New("a worker starts executors and drivers of an installed Spark, 3.2 to 4.3, and can do nothing without one")

// workerConfig finds the Spark installation and loads the settings of a worker. Spark's environment script is run before
// only if there is a conf/spark-env.sh, whose settings count; else it is left for later.
func workerConfig(ctx context.Context, environ []string, flags config.WorkerFlags) (worker.Config, []config.Warning, error) {
	var cfg worker.Config
	home, err := launcher.FindHome("", environ)
	if err != nil {
		return cfg, nil, fmt.Errorf("%w; %w", err, errNoSpark)
	}
	environment := func(ctx context.Context) ([]string, error) { return launcher.Environment(ctx, home, environ) }
	effective := environ
	if hasEnvScript(home.Dir, environ) {
		if effective, err = environment(ctx); err != nil {
			return cfg, nil, err
		}
		environment = func(context.Context) ([]string, error) { return effective, nil }
	}
	settings, warnings, err := config.LoadWorker(flags, effective, config.WorkerHost{SparkHome: home.Dir, Release: home.Release})
	if err != nil {
		return cfg, nil, err
	}
	return worker.Config{Settings: settings, Home: home, Environ: environment, Version: versionString(), LogFiles: webui.ProcessLogFiles}, warnings, nil
}

// hasEnvScript reports whether there is a spark-env.sh, where Spark's own script looks for it.
func hasEnvScript(home string, environ []string) bool {
	dir := filepath.Join(home, "conf")
	for _, entry := range environ {
		if value, ok := strings.CutPrefix(entry, "SPARK_CONF_DIR="); ok && value != "" {
			dir = value
		}
	}
	_, err := os.Stat(filepath.Join(dir, "spark-env.sh"))
	return err == nil
}

// decommissionBySignal calls decommission at spark.worker.decommission.signal, where that is enabled.
func decommissionBySignal(cfg worker.Config, decommission func()) (stop func()) {
	if !cfg.Settings.DecommissionEnabled {
		return func() {}
	}
	ch, done, ended := make(chan os.Signal, 1), make(chan struct{}), make(chan struct{})
	signal.Notify(ch, cfg.Settings.Signal())
	go func() {
		defer close(ended)
		for {
			select {
			case <-done:
				return
			case <-ch:
				cfg.Log.Warn("RECEIVED SIGNAL " + cfg.Settings.DecommissionSignal + ": decommissioning")
				decommission()
			}
		}
	}()
	return func() {
		signal.Stop(ch)
		close(done)
		<-ended
	}
}
