package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/term"

	"raftmaster/cluster/load"
	"raftmaster/cluster/sparktest"
	"raftmaster/scripts/benchmachine"
)

type options struct {
	rounds, workers, apps, window, churnWindow int
	duration, warmup                           time.Duration
	release, only, dir, jsonPath               string
	quick, scale                               bool
	scaleWorkers, scaleApps, scaleExecutors    int
}

// Report is the JSON form of a run.
type Report struct {
	Commit     string               `json:"commit"`
	Began      time.Time            `json:"began"`
	Machine    benchmachine.Machine `json:"machine"`
	Spark      string               `json:"spark"`
	Rounds     int                  `json:"rounds"`
	Workers    int                  `json:"workers"`
	Comparison []Comparison         `json:"comparison,omitempty"`
	Scale      *Scale               `json:"scale,omitempty"`
	Remarks    []string             `json:"remarks"`
}

func flags() options {
	var o options
	flag.IntVar(&o.rounds, "rounds", 3, "rounds of each side; medians are printed")
	flag.IntVar(&o.workers, "workers", 1000, "workers")
	flag.IntVar(&o.apps, "apps", 100, "applications, of ten executors each")
	flag.IntVar(&o.window, "window", 1000, "registrations of workers without an answer at once")
	flag.IntVar(&o.churnWindow, "churn-window", 256, "executors that are being replaced at once")
	flag.DurationVar(&o.duration, "duration", 6*time.Second, "length of the phases without a natural end")
	flag.DurationVar(&o.warmup, "warmup", 4*time.Second, "length of these phases in a pass before the one that counts, and before each of them again; 0 for none")
	flag.StringVar(&o.release, "spark", "4.3.0", "release of Spark's master")
	flag.StringVar(&o.only, "only", "", "raftmaster or spark alone")
	flag.StringVar(&o.dir, "dir", "", "where the masters keep their data; on a real disk (default: ~/.cache/raftmaster/bench)")
	flag.StringVar(&o.jsonPath, "json", "", "write the report to this file as well, - for standard output alone")
	flag.BoolVar(&o.quick, "quick", false, "a few workers and one short round, to see that it works")
	flag.BoolVar(&o.scale, "scale", false, "a large cluster on raftmaster alone, instead of the comparison")
	flag.IntVar(&o.scaleWorkers, "scale-workers", 10_000, "workers of --scale")
	flag.IntVar(&o.scaleApps, "scale-apps", 1_000, "applications of --scale")
	flag.IntVar(&o.scaleExecutors, "scale-executors", 50, "executors of each application of --scale")
	flag.Parse()
	if o.quick {
		o.rounds, o.workers, o.apps, o.window, o.churnWindow, o.duration, o.warmup = 1, 50, 5, 50, 8, time.Second, 0
		o.scaleWorkers, o.scaleApps, o.scaleExecutors = 200, 20, 10
	}
	return o
}

func main() {
	o := flags()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	report, err := run(ctx, o)
	err = errors.Join(err, sparktest.RemoveBinaries())
	if report != nil {
		err = errors.Join(err, show(report, o))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) (*Report, error) {
	if o.only != "" && o.only != "raftmaster" && o.only != "spark" {
		return nil, fmt.Errorf("--only %s: must be raftmaster or spark", o.only)
	}
	if o.dir == "" {
		cache, err := sparktest.CacheDir()
		if err != nil {
			return nil, err
		}
		o.dir = filepath.Join(cache, "bench")
	}
	if err := os.MkdirAll(o.dir, 0o755); err != nil {
		return nil, err
	}
	report := &Report{Commit: benchmachine.Commit(), Began: time.Now().UTC(), Spark: o.release, Rounds: o.rounds, Workers: o.workers}
	if inMemory(o.dir) {
		report.Remarks = append(report.Remarks, o.dir+" is no disk: syncs cost nothing there, and the figures are not those of durable masters")
	}
	most := max(o.workers, o.scaleWorkers*btoi(o.scale)) + max(o.apps, o.scaleApps*btoi(o.scale)) + 2000
	if err := raiseFileLimit(uint64(most)); err != nil {
		return nil, err
	}
	var err error
	if report.Machine, err = benchmachine.Describe(o.dir); err != nil {
		return nil, err
	}
	if o.scale {
		report.Scale, err = scale(ctx, o)
	} else {
		report.Comparison, err = compare(ctx, o)
	}
	return report, err
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// raiseFileLimit makes room for the sockets here and in the masters, which
// inherit the limit.
func raiseFileLimit(want uint64) error {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		return err
	}
	if l.Max < want && os.Geteuid() != 0 {
		return fmt.Errorf("%w: %d are needed, %d are allowed (ulimit -Hn)", load.ErrFiles, want, l.Max)
	}
	l.Cur, l.Max = max(l.Cur, want), max(l.Max, want)
	return syscall.Setrlimit(syscall.RLIMIT_NOFILE, &l)
}

// inMemory reports whether a directory is on tmpfs.
func inMemory(dir string) bool {
	const tmpfs = 0x01021994
	var s syscall.Statfs_t
	return syscall.Statfs(dir, &s) == nil && s.Type == tmpfs
}

func show(r *Report, o options) error {
	data, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	if o.jsonPath == "-" {
		_, err := os.Stdout.Write(append(data, '\n'))
		return err
	}
	fmt.Printf("\nraftmaster %s\n%s\n\n", r.Commit, r.Machine)
	for _, remark := range r.Remarks {
		fmt.Println("!!!", remark)
	}
	if r.Comparison != nil {
		fmt.Printf("%d workers, medians of %d rounds; Spark %s\n\n", r.Workers, r.Rounds, r.Spark)
		err = printComparison(os.Stdout, r.Comparison)
	}
	if r.Scale != nil {
		err = errors.Join(err, r.Scale.print(os.Stdout))
	}
	if o.jsonPath != "" {
		err = errors.Join(err, os.WriteFile(o.jsonPath, append(data, '\n'), 0o644))
	}
	return err
}

func say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%s %s\n", time.Now().Format("15:04:05"), fmt.Sprintf(format, args...))
}

// progressLine shows the phase at hand: one line that changes on a terminal, else
// one line for each phase.
func progressLine() func(load.Progress) {
	terminal := term.IsTerminal(int(os.Stderr.Fd()))
	last := ""
	return func(p load.Progress) {
		if terminal {
			fmt.Fprintf(os.Stderr, "\r    %-32s %3.0f %% %10d ", p.Phase, 100*p.Part, p.Done)
			if p.Part >= 1 {
				fmt.Fprintln(os.Stderr)
			}
		} else if p.Phase != last {
			say("    %s", p.Phase)
		}
		last = p.Phase
	}
}
