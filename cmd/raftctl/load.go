package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"raftmaster/cluster/load"
	"raftmaster/transport/frame"
)

// loadFlags are the flags that need more than a copy into load.Config.
type loadFlags struct {
	cfg                     load.Config
	masters                 string
	phases                  []string
	cores, memory, execMem  int
	yes, dryRun             bool
	heartbeatEvery, timeout time.Duration
}

func (a *app) loadCommand() *cobra.Command {
	f := &loadFlags{}
	cmd := &cobra.Command{
		Use:   "load",
		Short: "Put load on the masters of a test cluster and measure it",
		Long: "Speaks Spark's protocol to a cluster of masters, raftmaster's or Spark's own, as many workers and applications that\n" +
			"run on this machine, each with an address of its own (127.x.y.z), and prints rates and latencies.\n\n" +
			"Phases, in this order: workers (always: connections, registrations), heartbeats, apps (registrations, their\n" +
			"executors), burst (one application asks for many executors at once), churn (executors exit and are replaced),\n" +
			"drivers, hold (nothing but steady heartbeats).\n\n" +
			"Real applications of that cluster would get executors on workers that run nothing: use it on test clusters only.\n" +
			"Everything leaves in order at the end. Exit code 4: some requests failed; they are counted in the output.",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := a.prepare(cmd); err != nil {
				return err
			}
			return a.load(cmd.Context(), f)
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&f.masters, "masters", "spark://127.0.0.1:7077", "the masters, as workers get them: spark://HOST:PORT,HOST:PORT")
	fs.IntVar(&f.cfg.Workers, "workers", 100, "workers")
	fs.IntVar(&f.cfg.Apps, "apps", 10, "applications")
	fs.IntVar(&f.cfg.Executors, "executors", 10, "executors of one core for each application")
	fs.StringVar(&f.cfg.Release, "release", "4.3.0", "Spark release that the workers and applications play")
	fs.StringSliceVar(&f.phases, "phases", []string{"heartbeats", "apps", "burst", "churn"}, "phases besides workers")
	fs.IntVar(&f.cores, "cores", 16, "cores of a worker")
	fs.IntVar(&f.memory, "memory", 65536, "memory of a worker, MiB")
	fs.IntVar(&f.execMem, "executor-memory", 512, "memory of an executor, MiB")
	fs.IntVar(&f.cfg.Window, "window", 256, "registrations without an answer at once")
	fs.IntVar(&f.cfg.AppWindow, "app-window", 1, "application registrations without an answer at once")
	fs.IntVar(&f.cfg.ChurnWindow, "churn-window", 32, "executors that are being replaced at once")
	fs.IntVar(&f.cfg.Burst, "burst", 0, "executors of the burst (default: one for each worker)")
	fs.IntVar(&f.cfg.Drivers, "drivers", 100, "drivers of the phase drivers")
	fs.Float64Var(&f.cfg.HeartbeatRate, "heartbeat-rate", 0, "heartbeats a second in the phase heartbeats (default: as many as the master takes)")
	fs.DurationVar(&f.heartbeatEvery, "heartbeat-every", 15*time.Second, "each worker's heartbeats outside that phase")
	fs.DurationVar(&f.cfg.Duration, "duration", 5*time.Second, "length of each phase without a natural end")
	fs.DurationVar(&f.cfg.Warmup, "warmup", 0, "run heartbeats and churn for so long before they count")
	fs.DurationVar(&f.timeout, "phase-timeout", time.Minute, "end with code 124 when a phase takes longer")
	fs.IntVar(&f.cfg.PID, "pid", 0, "process of the leader on this machine, for its CPU time and memory")
	fs.IntSliceVar(&f.cfg.Others, "other-pids", nil, "processes of the other masters on this machine, likewise")
	fs.IntVar(&f.cfg.Net, "net", 90, "second octet of the workers' addresses; applications have the next one")
	fs.IntVar(&f.cfg.Port, "port", 0, "where the workers and applications listen (default: a free port from 20000 on)")
	fs.BoolVar(&f.yes, "yes", false, "do not ask")
	fs.BoolVar(&f.dryRun, "dry-run", false, "say what would be done and check whether a master leads")
	return cmd
}

func (a *app) load(ctx context.Context, f *loadFlags) error {
	cfg, err := f.config()
	if err != nil {
		return err
	}
	if f.dryRun {
		cfg.Timeout = min(cfg.Timeout, a.timeout)
		leader, err := load.FindLeader(ctx, cfg)
		if err != nil {
			return loadError(err)
		}
		a.note("would put %d workers and %d applications on the masters led by %s, phases: %v", cfg.Workers, cfg.Apps, leader, cfg.Phases)
		return nil
	}
	question := fmt.Sprintf("Put %d workers that run nothing on %s? Real applications there would suffer.", cfg.Workers, f.masters)
	if err := a.term.confirm(f.yes, question); err != nil {
		return err
	}
	bar := newBar(a.term.err)
	cfg.Progress = bar.show
	report, err := load.Run(ctx, cfg)
	bar.end()
	if report != nil {
		if printErr := a.print.value(report, func(w io.Writer) { loadTable(w, report) }); printErr != nil {
			return printErr
		}
	}
	if err != nil {
		return loadError(err)
	}
	if len(report.Errors) > 0 {
		return coded(exitUnhealthy, "some requests failed: %s", errorList(report.Errors))
	}
	return nil
}

func (f *loadFlags) config() (load.Config, error) {
	cfg := f.cfg
	var err error
	if cfg.Masters, err = parseMasterURL(f.masters); err != nil {
		return cfg, err
	}
	for _, v := range []struct {
		name string
		n    int
		to   *int32
	}{{"cores", f.cores, &cfg.Cores}, {"memory", f.memory, &cfg.MemoryMB}, {"executor-memory", f.execMem, &cfg.ExecutorMB}} {
		if v.n < 1 || v.n > 1<<30 {
			return cfg, coded(exitUsage, "--%s %d: must be 1 to %d", v.name, v.n, 1<<30)
		}
		*v.to = int32(v.n)
	}
	for name, n := range map[string]int{"workers": cfg.Workers, "executors": cfg.Executors, "window": cfg.Window, "app-window": cfg.AppWindow,
		"churn-window": cfg.ChurnWindow, "drivers": cfg.Drivers, "net": cfg.Net} {
		if n < 1 {
			return cfg, coded(exitUsage, "--%s %d: must be at least 1", name, n)
		}
	}
	if f.heartbeatEvery <= 0 || f.timeout <= 0 || cfg.Duration <= 0 {
		return cfg, coded(exitUsage, "--heartbeat-every, --phase-timeout and --duration must be above 0")
	}
	cfg.HeartbeatEvery, cfg.Timeout = f.heartbeatEvery, f.timeout
	cfg.Phases = []load.Phase{load.PhaseWorkers}
	for _, p := range f.phases {
		cfg.Phases = append(cfg.Phases, load.Phase(strings.TrimSpace(p)))
	}
	return cfg, nil
}

// parseMasterURL parses spark://HOST:PORT,HOST:PORT.
func parseMasterURL(s string) ([]frame.Address, error) {
	rest, ok := strings.CutPrefix(s, "spark://")
	if !ok {
		return nil, coded(exitUsage, "--masters %q: must begin with spark://", s)
	}
	var out []frame.Address
	for part := range strings.SplitSeq(rest, ",") {
		at := strings.LastIndexByte(part, ':')
		port, err := strconv.Atoi(part[at+1:])
		if at < 1 || err != nil || port < 1 || port > 65535 {
			return nil, coded(exitUsage, "--masters: %q is not HOST:PORT", part)
		}
		out = append(out, frame.Address{Host: part[:at], Port: int32(port)})
	}
	return out, nil
}

// loadError gives an error of the generator its exit code.
func loadError(err error) error {
	switch {
	case errors.Is(err, load.ErrConfig):
		return coded(exitUsage, "%w", err)
	case errors.Is(err, load.ErrNoLeader):
		return coded(exitNoLeader, "%w", err)
	case errors.Is(err, load.ErrTimeout):
		return coded(exitTimeout, "%w", err)
	case errors.Is(err, context.Canceled):
		return coded(exitError, "interrupted; the workers and applications have left")
	}
	return coded(exitError, "%w", err)
}

func errorList(errs map[string]int) string {
	var out []string
	for k, n := range errs {
		out = append(out, fmt.Sprintf("%s (%d)", clean(k), n))
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}
