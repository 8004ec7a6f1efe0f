package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"raftmaster/cluster/canary"
	"raftmaster/cluster/submit"
	"raftmaster/transport/rest"
)

// canaryFlags are the flags of the canary that need more than a copy.
type canaryFlags struct {
	cfg             canary.Config
	masters, memory string
	quiet           bool
}

func (a *app) canaryCommand() *cobra.Command {
	f := &canaryFlags{}
	cmd := a.verb("canary", "Get one executor on every worker, prove that it works, and leave", func(ctx context.Context) error { return a.canary(ctx, f) })
	cmd.Long = "Registers a tiny application for each Spark release among the workers, gets one real executor of one core on every\n" +
		"worker (or on those named), follows each from the grant to a thread dump, and leaves nothing behind. Run it after an\n" +
		"upgrade. It works with raftmaster and with Spark's own master, at the --endpoints of their web UIs.\n\n" +
		"This machine must be reachable from the workers (--host). --timeout bounds one answer of a web UI; --limit the whole run.\n\n" +
		"Exit code 0: every worker is ok; 4: a worker failed or could not be reached, or something is left; 1: nothing could be tried."
	fs := cmd.Flags()
	fs.StringArrayVar(&f.cfg.Workers, "worker", nil, "try this worker only: id, HOST:PORT, or HOST; may be repeated")
	fs.StringVar(&f.masters, "masters", "", "cluster ports of the masters: spark://HOST:7077,... (default: those that the web UIs name)")
	fs.StringVar(&f.memory, "memory", "512m", "memory of each executor")
	fs.StringVar(&f.cfg.Host, "host", "", "address of this machine that workers reach (default: the one on the way to the masters)")
	fs.StringVar(&f.cfg.SparkVersion, "spark-version", "", "release of workers that do not show theirs")
	fs.DurationVar(&f.cfg.Timeout, "limit", 2*time.Minute, "length of the whole run, without leaving, which takes 45 s at most")
	fs.DurationVar(&f.cfg.StepTimeout, "step-limit", time.Minute, "time from an executor's grant to its thread dump")
	fs.DurationVar(&f.cfg.Settle, "settle", 3*time.Second, "how long the master may grant nothing before it counts as having no room")
	fs.BoolVar(&f.quiet, "quiet", false, "no progress")
	return cmd
}

func (f *canaryFlags) config(a *app) (canary.Config, error) {
	cfg := f.cfg
	cfg.WebURLs, cfg.AskTimeout, cfg.Transport = a.client.endpoints, a.timeout, a.client.elsewhere()
	mb, err := rest.ParseMemoryMB(f.memory)
	if err != nil || mb < 1 {
		return cfg, coded(exitUsage, "--memory %s: must be a memory such as 512m", f.memory)
	}
	cfg.MemoryMB = int(mb)
	if cfg.Timeout <= 0 || cfg.StepTimeout <= 0 || cfg.Settle <= 0 {
		return cfg, coded(exitUsage, "--limit, --step-limit and --settle must be above 0")
	}
	if f.masters != "" {
		if _, cfg.Masters, err = submit.ParseMasters(submit.GatewayRPC, f.masters); err != nil {
			return cfg, gatewayError(err)
		}
	}
	return cfg, nil
}

func (a *app) canary(ctx context.Context, f *canaryFlags) error {
	cfg, err := f.config(a)
	if err != nil {
		return err
	}
	show := newCanaryView(a.term.err)
	if !f.quiet {
		cfg.Progress = show.show
	}
	report, err := canary.Run(ctx, cfg)
	show.end()
	if report != nil {
		if printErr := a.print.value(report, func(w io.Writer) { canaryTable(w, report) }); printErr != nil {
			return printErr
		}
		if !a.print.json {
			canaryFailures(a.term.out, report)
		}
	}
	return canaryError(report, err)
}

// canaryError gives the result its exit code.
func canaryError(r *canary.Report, err error) error {
	var invalid *canary.InvalidError
	var none *canary.NoLeaderError
	switch {
	case errors.As(err, &invalid):
		return coded(exitUsage, "%w", err)
	case errors.As(err, &none):
		return coded(exitNoLeader, "%w\nnext: --endpoints must name the web UIs of the masters (port 8080), not their cluster ports; raftctl status", err)
	case errors.Is(err, context.Canceled):
		if r != nil && !r.Clean {
			return coded(exitUnhealthy, "interrupted, and something may be left: %s", clean(r.Left))
		}
		return coded(exitError, "interrupted; nothing was left behind")
	case err != nil && (r == nil || r.OK == 0):
		return coded(exitError, "%w", err)
	case r.OK == len(r.Workers) && r.Clean:
		return nil
	case !r.Clean:
		return coded(exitUnhealthy, "something may be left of the canary: %s\nnext: raftctl apps, and raftctl kill app ID", clean(r.Left))
	case r.OK == 0 && r.Failed > 0:
		return coded(exitError, "no worker is ok")
	}
	return coded(exitUnhealthy, "%d of %d workers are ok, %d failed, %d were not reached", r.OK, len(r.Workers), r.Failed, r.Skipped)
}

// canarySteps are the columns of the table: milliseconds since the step before.
var canarySteps = []struct{ step, head string }{
	{canary.StepRegistered, "APP"}, {canary.StepGranted, "GRANT"}, {canary.StepLaunching, "LAUNCHING"}, {canary.StepRunning, "RUNNING"}, {canary.StepConfig, "CONFIG"},
	{canary.StepDriver, "DRIVER"}, {canary.StepBlockManager, "BLOCKS"}, {canary.StepLaunched, "LAUNCHED"}, {canary.StepThreadDump, "DUMP"},
}

func canaryTable(w io.Writer, r *canary.Report) {
	head := []any{"WORKER", "SPARK", "RESULT"}
	for _, s := range canarySteps {
		head = append(head, s.head)
	}
	row(w, append(head, "TOTAL MS", "FAILED STEP", "REASON")...)
	for _, x := range r.Workers {
		cells := []any{x.Address, x.Release, strings.ReplaceAll(string(x.Outcome), "_", " ")}
		for _, s := range canarySteps {
			cells = append(cells, stepMillis(x, s.step))
		}
		total := "-"
		if x.TotalMillis > 0 {
			total = fmt.Sprint(x.TotalMillis)
		}
		row(w, append(cells, total, x.Failed, x.Reason)...)
	}
	left := "nothing was left behind"
	if !r.Clean {
		left = "something may be left: " + clean(r.Left)
	}
	fmt.Fprintf(w, "\n%d ok, %d failed, %d not reached of %s at %s in %s; %s\n", r.OK, r.Failed, r.Skipped,
		plural(len(r.Workers), "worker"), clean(r.Leader), age(r.Millis), left)
}

func stepMillis(x canary.Worker, step string) string {
	for _, s := range x.Steps {
		if s.Name == step {
			return fmt.Sprint(s.Millis)
		}
	}
	return ""
}

// canaryFailures prints what executors that failed wrote last.
func canaryFailures(w io.Writer, r *canary.Report) {
	for _, x := range r.Workers {
		if x.Stderr == "" {
			continue
		}
		lines := strings.Split(x.Stderr, "\n")
		const most = 15
		lines = lines[max(0, len(lines)-most):]
		fmt.Fprintf(w, "\nend of the standard error of executor %s on %s:\n", clean(x.ExecutorID), clean(x.Address))
		for _, l := range lines {
			fmt.Fprintln(w, "  "+clean(l))
		}
	}
}

// canaryView shows progress: one line that changes on a terminal, a line for each end of a worker's trial otherwise.
type canaryView struct {
	out      io.Writer
	terminal bool
	width    int
	done     int
}

func newCanaryView(out io.Writer) *canaryView {
	return &canaryView{out: out, terminal: isTerminal(out)}
}

// show is called by one goroutine at a time: the canary tells under its lock.
func (v *canaryView) show(p canary.Progress) {
	line := p.Text
	if p.WorkerID != "" {
		line = p.WorkerID + ": " + line
	}
	line = fmt.Sprintf("%d/%d  %s", p.Done, p.Total, clean(line))
	if !v.terminal {
		if p.WorkerID == "" || p.Done > v.done {
			v.done = p.Done
			fmt.Fprintln(v.out, line)
		}
		return
	}
	const most = 110
	if len(line) > most {
		line = strings.ToValidUTF8(line[:most], "")
	}
	fmt.Fprintf(v.out, "\r%-*s", v.width, line)
	v.width = len(line)
}

func (v *canaryView) end() {
	if v.width > 0 {
		fmt.Fprintf(v.out, "\r%-*s\r", v.width, "")
		v.width = 0
	}
}
