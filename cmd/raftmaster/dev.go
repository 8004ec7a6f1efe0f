package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"raftmaster/cluster/config"
	"raftmaster/cluster/server"
)

// devHost is where a development cluster lives: only this machine reaches it.
const devHost = "127.0.0.1"

// Distances of the other ports from the base port; they give Spark's defaults for the base port 7077.
const (
	devWebUIOffset = config.DefaultWebUIPort - config.DefaultPort
	devRESTOffset  = 1100
	maxDevMasters  = 9
	maxDevWorkers  = 64
)

type devOptions struct {
	masters, workers, basePort int
	dataDir, logLevel          string
	logJSON, drills            bool
	cores                      int
	memory                     string
	workersAsked               bool // --workers was given
}

func (p *program) devCommand() *cobra.Command {
	var o devOptions
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Run a whole cluster of masters in this process, on loopback",
		Long: "Run a whole cluster of masters in this process, on loopback: cluster ports from --base-port on, web UIs from " +
			"base+1003 on (8080 for 7077), REST gateways from base+1100 on, web UIs of workers behind those of the masters. The workers run in this process as well and start real " +
			"executors, for which SPARK_HOME must be set; without it there are none.\n\nWithout --data-dir the state is thrown away at the end.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, name := range []string{"data-dir", "worker-memory", "log-level"} {
				if f := cmd.Flags().Lookup(name); f.Changed && strings.TrimSpace(f.Value.String()) == "" {
					return &usageError{&config.EmptyFlagError{Flag: name}}
				}
			}
			o.workersAsked = cmd.Flags().Changed("workers")
			return p.runDev(o)
		},
	}
	fs := cmd.Flags()
	fs.IntVar(&o.masters, "masters", 3, "number of masters")
	fs.IntVar(&o.workers, "workers", 2, "number of workers (needs SPARK_HOME)")
	fs.IntVar(&o.basePort, "base-port", config.DefaultPort, "cluster port of the first master")
	fs.StringVar(&o.dataDir, "data-dir", "", "directory that keeps the state (default: a temporary one)")
	fs.IntVar(&o.cores, "worker-cores", 2, "cores of each worker")
	fs.StringVar(&o.memory, "worker-memory", "2g", "memory of each worker")
	fs.StringVar(&o.logLevel, "log-level", config.DefaultLogLevel, "trace, debug, info, warn or error")
	fs.BoolVar(&o.drills, "enable-drills", false, "let raftctl drill make faults; masters that it ends are started again")
	fs.BoolVar(&o.logJSON, "log-json", false, "one JSON object per log line")
	return cmd
}

func (o devOptions) check() error {
	switch {
	case o.masters < 1 || o.masters > maxDevMasters:
		return fmt.Errorf("--masters must be from 1 to %d", maxDevMasters)
	case o.workers < 0 || o.workers > maxDevWorkers:
		return fmt.Errorf("--workers must be from 0 to %d", maxDevWorkers)
	case o.basePort < 1024 || o.basePort+devRESTOffset+o.masters > 65535:
		return fmt.Errorf("--base-port must be from 1024 to %d", 65535-devRESTOffset-o.masters)
	case o.cores < 1:
		return errors.New("--worker-cores must be at least 1")
	}
	return nil
}

// configs makes one configuration per master. The environment is left out on purpose: SPARK_MASTER_PORT cannot be meant
// for all of them.
func (o devOptions) configs(dir string) ([]config.Config, error) {
	var list []string
	for i := range o.masters {
		list = append(list, net.JoinHostPort(devHost, strconv.Itoa(o.basePort+i)))
	}
	cluster, host := "spark://"+strings.Join(list, ","), devHost
	out := make([]config.Config, 0, o.masters)
	for i := range o.masters {
		port, ui, rest := o.basePort+i, o.basePort+devWebUIOffset+i, o.basePort+devRESTOffset+i
		data := filepath.Join(dir, "master"+strconv.Itoa(i+1))
		cfg, err := config.Load(config.Source{
			Flags: config.Flags{Cluster: &cluster, Host: &host, Port: &port, WebUIPort: &ui, RESTPort: &rest, DataDir: &data,
				LogLevel: &o.logLevel, LogJSON: &o.logJSON},
			LookupEnv: func(string) (string, bool) { return "", false },
		})
		if err != nil {
			return nil, err
		}
		cfg.WebUIHost = devHost
		cfg.EnableDrills, cfg.DrillsInProcess = o.drills, true
		out = append(out, cfg)
	}
	return out, nil
}

func (p *program) runDev(o devOptions) (err error) {
	if err := o.check(); err != nil {
		return &usageError{err}
	}
	dir, cleanup, err := o.directory()
	if err != nil {
		return err
	}
	defer func() {
		if cerr := cleanup(); cerr != nil {
			fmt.Fprintf(p.stderr, "raftmaster: %v\n", cerr)
			if err == nil {
				err = &loggedError{cerr}
			}
		}
	}()
	cfgs, err := o.configs(dir)
	if err != nil {
		return &usageError{err}
	}
	log := p.logger(cfgs[0])
	ctx, stop := p.signals(log, func() {
		if err := cleanup(); err != nil {
			log.Warn("cannot remove the temporary directory", "error", err)
		}
	})
	defer stop()
	p.printDev(o, cfgs, dir)

	return p.runCluster(ctx, o, cfgs, dir, log)
}

// runCluster runs everything until ctx ends or a part fails. Then it stops the workers first and the masters one after
// the other, so that each can hand leadership to one that is still there.
func (p *program) runCluster(ctx context.Context, o devOptions, cfgs []config.Config, dir string, log hclog.Logger) error {
	group, gctx := errgroup.WithContext(ctx)
	workersDone := make(chan struct{})
	group.Go(func() error {
		defer close(workersDone)
		return p.runWorkers(gctx, o, cfgs, dir, log)
	})
	stops := make([]func(), 0, len(cfgs))
	for i, cfg := range cfgs {
		mlog := log.Named("master" + strconv.Itoa(i+1))
		mctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
		done := make(chan struct{})
		stops = append(stops, func() { cancel(); <-done })
		group.Go(func() error {
			defer close(done)
			p.announce(mlog, cfg)
			err := p.superviseDev(mctx, cfg, mlog)
			if mctx.Err() != nil {
				// It is logged. The last master has nobody left to hand leadership to.
				return nil
			}
			return err
		})
	}
	group.Go(func() error {
		<-gctx.Done()
		<-workersDone
		for _, stop := range stops {
			stop()
		}
		return nil
	})
	return group.Wait()
}

// devRestart is how long a master that a drill has ended stays away.
const devRestart = 500 * time.Millisecond

// superviseDev starts a master again that a drill has ended.
func (p *program) superviseDev(ctx context.Context, cfg config.Config, log hclog.Logger) error {
	for {
		err := p.supervise(ctx, cfg, log)
		if !errors.Is(err, server.ErrDrill) || ctx.Err() != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(devRestart):
			log.Info("starting the master again after a drill")
		}
	}
}

// directory gives the place of the data and what to do with it at the end.
func (o devOptions) directory() (string, func() error, error) {
	if o.dataDir != "" {
		return o.dataDir, func() error { return nil }, os.MkdirAll(o.dataDir, 0o700)
	}
	dir, err := os.MkdirTemp("", "raftmaster-dev-")
	return dir, func() error { return removeTree(dir) }, err
}

// removeTree removes dir. When the stop was cut short the masters still write there, so a few tries may be needed.
func removeTree(dir string) error {
	var err error
	for range 10 {
		if err = os.RemoveAll(dir); err == nil {
			return nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	return err
}

func (p *program) printDev(o devOptions, cfgs []config.Config, dir string) {
	var b strings.Builder
	fmt.Fprintf(&b, "\nDevelopment cluster of %d in this process; state in %s\n", len(cfgs), dir)
	fmt.Fprintf(&b, "  master URL   %s\n", cfgs[0].ClusterURL())
	var ends, gateways []string
	for i, c := range cfgs {
		url := "http://" + net.JoinHostPort(devHost, strconv.Itoa(c.WebUIPort))
		ends = append(ends, url)
		gateway := net.JoinHostPort(devHost, strconv.Itoa(c.RESTPort))
		gateways = append(gateways, gateway)
		fmt.Fprintf(&b, "  master %d     %s  %s/  REST http://%s\n", i+1, c.Advertise(), url, gateway)
	}
	b.WriteString(o.workersHint(p, cfgs[0].ClusterURL()))
	fmt.Fprintf(&b, "  submit       %s --deploy-mode cluster --conf spark.master.rest.enabled=true --master spark://%s ...\n", sparkSubmit(p), strings.Join(gateways, ","))
	fmt.Fprintf(&b, "  administer   raftctl --endpoints %s status\n\n", strings.Join(ends, ","))
	fmt.Fprint(p.stderr, b.String())
}
