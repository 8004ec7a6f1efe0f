package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/spf13/cobra"

	"raftmaster/cluster/config"
	"raftmaster/cluster/security"
)

// serverFlags are the values that the flags of "server" point to.
type serverFlags struct {
	cluster, host, ip, advertise, properties, dataDir, logLevel, tokenFile string
	port, webUI, rest                                                      int
	failover                                                               time.Duration
	logJSON, drills                                                        bool
	security                                                               map[string]*string // by the flag's name
	snapshots                                                              struct {
		dir              string
		interval, maxAge time.Duration
		keep             int
	}
}

func (p *program) serverCommand() *cobra.Command {
	var f serverFlags
	cmd := &cobra.Command{
		Use:   "server",
		Short: "Run one master",
		Long: "Run one master of a cluster. --cluster is the very list that workers and applications are given; without it the " +
			"master is a cluster of one.\n\nA value comes from its flag, else from the environment (SPARK_MASTER_HOST, SPARK_MASTER_PORT, " +
			"SPARK_MASTER_WEBUI_PORT, RAFTMASTER_CLUSTER, RAFTMASTER_DATA_DIR, -Dkey=value in SPARK_MASTER_OPTS), else from the properties file, else from its default.",
		Example: "  raftmaster server --cluster spark://a:7077,b:7077,c:7077 --host a",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return p.runServer(f.given(cmd))
		},
	}
	fs := cmd.Flags()
	// Spark's -h means --host, so help has no short form here.
	fs.Bool("help", false, "help for server")
	fs.StringVar(&f.cluster, "cluster", "", "every master: spark://HOST:PORT,HOST:PORT,...")
	fs.StringVarP(&f.host, "host", "h", "", "host name or address to listen on")
	fs.StringVarP(&f.ip, "ip", "i", "", "old name of --host")
	fs.StringVar(&f.advertise, "advertise-host", "", "host by which workers and other masters reach this one (default: --host)")
	fs.IntVarP(&f.port, "port", "p", config.DefaultPort, "cluster port")
	fs.IntVar(&f.webUI, "webui-port", config.DefaultWebUIPort, "port of the web UI; the next free one is taken")
	fs.IntVar(&f.rest, "rest-port", config.DefaultRESTPort, "port of the REST submission gateway; the next free one is taken")
	fs.StringVar(&f.properties, "properties-file", "", "Spark properties file (default: conf/spark-defaults.conf)")
	fs.StringVar(&f.dataDir, "data-dir", "", "directory of the replicated log (default: per address, below the state directory)")
	fs.StringVar(&f.snapshots.dir, "snapshot-dir", "", "directory for snapshots on a schedule, best on another disk; without it none are saved")
	fs.DurationVar(&f.snapshots.interval, "snapshot-interval", config.DefaultSnapshotInterval, "time from one snapshot to the next")
	fs.IntVar(&f.snapshots.keep, "snapshot-keep", config.DefaultSnapshotKeep, "how many snapshots of this master stay")
	fs.DurationVar(&f.snapshots.maxAge, "snapshot-max-age", 0, "how old they may become; 0 is without limit")
	fs.DurationVar(&f.failover, "failover-timeout", config.DefaultFailoverTimeout, "silence after which a leader counts as lost")
	fs.StringVar(&f.logLevel, "log-level", config.DefaultLogLevel, "trace, debug, info, warn or error")
	fs.BoolVar(&f.logJSON, "log-json", false, "one JSON object per log line")
	fs.StringVar(&f.tokenFile, "token-file", "", "file with the admin token, or with lines NAME ROLE TOKEN; without it only local callers may change anything")
	f.security = make(map[string]*string)
	for _, s := range config.SecuritySettings {
		f.security[s.Flag] = fs.String(s.Flag, "", s.Help)
	}
	fs.BoolVar(&f.drills, "enable-drills", false, "let operators make faults on purpose (raftctl drill): this master can be killed, paused and cut off on request")
	return cmd
}

// given keeps the flags that were really given, so that the environment and the file can fill in the others.
func (f *serverFlags) given(cmd *cobra.Command) config.Flags {
	var out config.Flags
	fs := cmd.Flags()
	set := func(name string, do func()) {
		if fs.Changed(name) {
			do()
		}
	}
	set("cluster", func() { out.Cluster = &f.cluster })
	set("ip", func() { out.Host = &f.ip })
	set("host", func() { out.Host = &f.host })
	set("advertise-host", func() { out.AdvertiseHost = &f.advertise })
	set("port", func() { out.Port = &f.port })
	set("webui-port", func() { out.WebUIPort = &f.webUI })
	set("rest-port", func() { out.RESTPort = &f.rest })
	set("properties-file", func() { out.PropertiesFile = &f.properties })
	set("data-dir", func() { out.DataDir = &f.dataDir })
	set("failover-timeout", func() { out.FailoverTimeout = &f.failover })
	set("snapshot-dir", func() { out.Snapshots.Dir = &f.snapshots.dir })
	set("snapshot-interval", func() { out.Snapshots.Interval = &f.snapshots.interval })
	set("snapshot-keep", func() { out.Snapshots.Keep = &f.snapshots.keep })
	set("snapshot-max-age", func() { out.Snapshots.MaxAge = &f.snapshots.maxAge })
	set("log-level", func() { out.LogLevel = &f.logLevel })
	set("log-json", func() { out.LogJSON = &f.logJSON })
	out.EnableDrills = f.drills
	set("token-file", func() { out.AdminTokenFile = &f.tokenFile })
	out.Security = make(map[string]string)
	for name, value := range f.security {
		set(name, func() { out.Security[name] = *value })
	}
	return out
}

// runServer loads the configuration and runs the master until a signal.
func (p *program) runServer(flags config.Flags) error {
	cfg, err := config.Load(config.Source{Flags: flags, LookupEnv: p.lookupEnv})
	if err != nil {
		return &usageError{err}
	}
	if err := cfg.CheckTokenFile(); err != nil {
		return &usageError{err}
	}
	if err := security.Check(cfg); err != nil {
		return &usageError{err}
	}
	log := p.logger(cfg)
	ctx, stop := p.signals(log, func() {})
	defer stop()
	p.announce(log, cfg)
	return p.supervise(ctx, cfg, log)
}

func (p *program) logger(cfg config.Config) hclog.Logger {
	// An intercepting one, so that a master can keep its last lines for raftctl debug.
	return hclog.NewInterceptLogger(&hclog.LoggerOptions{
		Name: "raftmaster", Level: hclog.LevelFromString(cfg.LogLevel), Output: p.stderr, JSONFormat: cfg.LogJSON,
		IncludeLocation: false,
	})
}

// announce writes the first lines, which operators grep for in the log of Spark's master.
func (p *program) announce(log hclog.Logger, cfg config.Config) {
	host, err := os.Hostname()
	if err != nil {
		host = cfg.AdvertiseHost
	}
	log.Info(fmt.Sprintf("Started daemon with process name: %d@%s", os.Getpid(), host))
	log.Info("Starting Spark master at " + cfg.MasterURL())
	log.Info("Running raftmaster version "+versionString(), "cluster", cfg.ClusterURL(), "data_dir", cfg.DataDir)
}

// supervise runs the master; its end without a signal is a failure, which is logged here and nowhere else.
func (p *program) supervise(ctx context.Context, cfg config.Config, log hclog.Logger) error {
	run := p.run
	if p.notifier != nil {
		run = p.serveNotifying
	}
	err := run(ctx, cfg, log, versionString())
	switch {
	case err == nil && ctx.Err() == nil:
		err = errors.New("it stopped although nobody asked it to")
	case err == nil, errors.Is(err, context.Canceled) && ctx.Err() != nil:
		log.Info("stopped in order")
		return nil
	}
	log.Error("the master failed", "error", err)
	return &loggedError{err}
}
