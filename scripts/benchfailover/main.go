package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"raftmaster/cluster/sparktest"
	"raftmaster/scripts/benchmachine"
)

type options struct {
	rounds, warmups int
	release         string
	kinds           []string
	jsonPath        string
	fleet           int
}

// Report is the JSON form of a run. Durations are milliseconds.
type Report struct {
	Commit      string               `json:"commit"`
	Began       time.Time            `json:"began"`
	Machine     benchmachine.Machine `json:"machine"`
	Spark       string               `json:"spark"`
	Rounds      int                  `json:"rounds"`
	Warmups     int                  `json:"warmups"`
	Failovers   []Result             `json:"failovers"`
	FreshAlive  *Figures             `json:"fresh_single_master_alive_ms"`
	Memory      *Memory              `json:"memory"`
	LeftOut     []string             `json:"left_out"`
	Leaderships []string             `json:"remarks"`
}

// Result is one way to lose a leader.
type Result struct {
	Kind     string  `json:"kind"`
	Leader   Figures `json:"new_leader_ms"`
	Attached Figures `json:"all_attached_ms"`
}

// Figures sum up one series, in milliseconds.
type Figures = benchmachine.Figures

func figures(samples []time.Duration) Figures { return benchmachine.Sum(samples) }

func main() {
	var opts options
	var kinds string
	flag.IntVar(&opts.rounds, "rounds", 20, "measured rounds of each kind")
	flag.IntVar(&opts.warmups, "warmups", 3, "rounds before them that do not count")
	flag.StringVar(&opts.release, "spark", "4.3.0", "PySpark release of the workers and the application")
	flag.StringVar(&kinds, "kinds", "SIGKILL,SIGSTOP,cut-off,SIGTERM,fresh,memory", "what to measure")
	flag.StringVar(&opts.jsonPath, "json", "", "write the report to this file as well")
	flag.IntVar(&opts.fleet, "fleet", 1000, "registered workers of the memory figure")
	flag.Parse()
	opts.kinds = strings.Split(kinds, ",")
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	report, err := run(ctx, opts)
	if err = errors.Join(err, sparktest.RemoveBinaries()); err != nil {
		fmt.Fprintln(os.Stderr, "bench-failover:", err)
		os.Exit(1)
	}
	print(report)
	if opts.jsonPath != "" {
		data, err := json.MarshalIndent(report, "", " ")
		if err == nil {
			err = os.WriteFile(opts.jsonPath, append(data, '\n'), 0o644)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "bench-failover:", err)
			os.Exit(1)
		}
	}
}

func run(ctx context.Context, opts options) (Report, error) {
	report := Report{Began: time.Now().UTC(), Spark: opts.release, Rounds: opts.rounds, Warmups: opts.warmups, Commit: benchmachine.Commit()}
	var err error
	if report.Machine, err = benchmachine.Describe(""); err != nil {
		return report, err
	}
	spark, err := sparktest.Install(ctx, opts.release, progress)
	if err != nil {
		return report, err
	}
	for _, kind := range opts.kinds {
		if ctx.Err() != nil {
			return report, ctx.Err()
		}
		progress("%s", kind)
		if err := measure(ctx, &report, kind, spark, opts); err != nil {
			return report, fmt.Errorf("%s: %w", kind, err)
		}
	}
	return report, nil
}

func measure(ctx context.Context, report *Report, kind string, spark sparktest.Spark, opts options) error {
	switch kind {
	case "fresh":
		f, err := freshMaster(ctx, opts)
		report.FreshAlive = &f
		return err
	case "memory":
		m, err := memoryWithFleet(ctx, opts)
		report.Memory = &m
		return err
	case "cut-off":
		if reason := netnsUnavailable(); reason != "" {
			progress("LEFT OUT cut-off: %s", reason)
			report.LeftOut = append(report.LeftOut, "cut-off: "+reason)
			return nil
		}
	case "SIGKILL", "SIGSTOP", "SIGTERM":
	default:
		return errors.New("unknown kind")
	}
	r, err := failovers(ctx, kind, spark, opts)
	report.Failovers = append(report.Failovers, r)
	return err
}

func print(r Report) {
	fmt.Printf("\nraftmaster %s, Spark %s, %d rounds after %d warm-ups\n", r.Commit, r.Spark, r.Rounds, r.Warmups)
	fmt.Printf("%s\n\n", r.Machine)
	fmt.Printf("%-10s  %22s  %22s\n", "leader", "new leader, ms", "all re-attached, ms")
	fmt.Printf("%-10s  %11s %10s  %11s %10s\n", "", "median", "worst", "median", "worst")
	for _, f := range r.Failovers {
		fmt.Printf("%-10s  %11.0f %10.0f  %11.0f %10.0f\n", f.Kind, f.Leader.Median, f.Leader.Worst, f.Attached.Median, f.Attached.Worst)
	}
	fmt.Println()
	if r.FreshAlive != nil {
		fmt.Printf("fresh single master ALIVE after    %8.0f ms (worst %.0f)\n", r.FreshAlive.Median, r.FreshAlive.Worst)
	}
	if r.Memory != nil {
		fmt.Printf("RssAnon with %5d workers         %8.1f MB\n", r.Memory.Workers, r.Memory.RssAnonMB)
	}
	for _, l := range append(r.LeftOut, r.Leaderships...) {
		fmt.Println("!!!", l)
	}
}

func progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%s %s\n", time.Now().Format("15:04:05"), fmt.Sprintf(format, args...))
}
