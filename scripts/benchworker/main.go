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
	rounds   int
	releases []string
	jsonPath string
	settle   time.Duration
}

// Report is the JSON form of a run.
type Report struct {
	Commit  string               `json:"commit"`
	Began   time.Time            `json:"began"`
	Machine benchmachine.Machine `json:"machine"`
	Load    string               `json:"load_average_at_start"`
	Rounds  int                  `json:"rounds"`
	Results []Result             `json:"results"`
}

func main() {
	var opts options
	var releases string
	flag.IntVar(&opts.rounds, "rounds", 5, "rounds; medians are printed")
	flag.StringVar(&releases, "spark", "3.5.9 4.3.0", "PySpark releases")
	flag.DurationVar(&opts.settle, "settle", 8*time.Second, "time before memory is read")
	flag.StringVar(&opts.jsonPath, "json", "", "write the report to this file as well")
	flag.Parse()
	opts.releases = strings.Fields(releases)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	report, err := run(ctx, opts)
	if err = errors.Join(err, sparktest.RemoveBinaries()); err == nil {
		print(report)
		err = write(report, opts.jsonPath)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench-worker:", err)
		os.Exit(1)
	}
}

func write(report Report, path string) error {
	if path == "" {
		return nil
	}
	data, err := json.MarshalIndent(report, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(data, '\n'), 0o644)
}

func run(ctx context.Context, opts options) (Report, error) {
	report := Report{Began: time.Now().UTC(), Rounds: opts.rounds, Commit: benchmachine.Commit()}
	load, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return report, err
	}
	report.Load = strings.Join(strings.Fields(string(load))[:3], " ")
	if report.Machine, err = benchmachine.Describe(""); err != nil {
		return report, err
	}
	series := map[string]*series{}
	for round := range opts.rounds {
		for _, release := range opts.releases {
			spark, err := sparktest.Install(ctx, release, progress)
			if err != nil {
				return report, err
			}
			kinds := []sparktest.WorkerKind{sparktest.WorkerRaft, sparktest.WorkerSpark}
			if round%2 != 0 {
				kinds[0], kinds[1] = kinds[1], kinds[0]
			}
			for _, kind := range kinds {
				progress("round %d of %d: %s worker, Spark %s", round+1, opts.rounds, kind, release)
				s, err := measure(ctx, spark, kind, opts.settle)
				if err != nil {
					return report, fmt.Errorf("%s worker, Spark %s: %w", kind, release, err)
				}
				add(series, release, kind, s)
			}
		}
	}
	report.Results = results(series, opts.releases)
	return report, nil
}

func progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%s %s\n", time.Now().Format("15:04:05"), fmt.Sprintf(format, args...))
}
