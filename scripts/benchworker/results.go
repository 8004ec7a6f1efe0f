package main

import (
	"fmt"
	"os"
	"strings"
	"text/tabwriter"

	"raftmaster/cluster/sparktest"
	"raftmaster/scripts/benchmachine"
)

// metric is one figure of a worker.
type metric struct {
	name, unit string
	value      func(s sample) float64
	target     float64 // at most, for raftmaster's; 0: none
}

var metrics = []metric{
	{"start to registered", "ms", func(s sample) float64 { return s.registered }, 150},
	{"resident memory after registration", "MB", func(s sample) float64 { return s.idle.rss }, 25},
	{"of it anonymous", "MB", func(s sample) float64 { return s.idle.anon }, 0},
	{"resident memory with one idle executor", "MB", func(s sample) float64 { return s.executor.rss }, 25},
	{"of it anonymous, with one executor", "MB", func(s sample) float64 { return s.executor.anon }, 0},
	{"grant to RUNNING", "ms", func(s sample) float64 { return s.running }, 0},
	{"grant to the executor's first word", "ms", func(s sample) float64 { return s.configAsked }, 0},
	{"grant to registered with its driver", "ms", func(s sample) float64 { return s.launched }, 0},
	{"CPU until registered", "ms", func(s sample) float64 { return s.cpuRegistered }, 0},
	{"CPU of the worker in all", "ms", func(s sample) float64 { return s.cpu }, 0},
}

// series are the samples of one release and kind of worker.
type series struct{ samples []sample }

func key(release string, kind sparktest.WorkerKind) string { return release + " " + string(kind) }

func add(all map[string]*series, release string, kind sparktest.WorkerKind, s sample) {
	k := key(release, kind)
	if all[k] == nil {
		all[k] = &series{}
	}
	all[k].samples = append(all[k].samples, s)
}

// Result is one figure of one release, both workers beside each other.
type Result struct {
	Release     string    `json:"release"`
	What        string    `json:"what"`
	Unit        string    `json:"unit"`
	Ours        float64   `json:"raftmaster_median"`
	Spark       float64   `json:"spark_median"`
	Target      float64   `json:"target,omitempty"` // at most, for raftmaster's
	Met         *bool     `json:"target_met,omitempty"`
	OursSeries  []float64 `json:"raftmaster"`
	SparkSeries []float64 `json:"spark"`
}

func results(all map[string]*series, releases []string) []Result {
	var out []Result
	for _, release := range releases {
		for _, m := range metrics {
			r := Result{Release: release, What: m.name, Unit: m.unit, Target: m.target,
				OursSeries:  values(all[key(release, sparktest.WorkerRaft)], m),
				SparkSeries: values(all[key(release, sparktest.WorkerSpark)], m)}
			r.Ours, r.Spark = benchmachine.Median(r.OursSeries), benchmachine.Median(r.SparkSeries)
			if m.target > 0 {
				met := r.Ours <= m.target
				r.Met = &met
			}
			out = append(out, r)
		}
	}
	return out
}

func values(s *series, m metric) []float64 {
	if s == nil {
		return nil
	}
	var out []float64
	for _, x := range s.samples {
		out = append(out, m.value(x))
	}
	return out
}

func print(r Report) {
	fmt.Printf("\nraftmaster %s, %d rounds, load average before %s\n%s\n\n", r.Commit, r.Rounds, r.Load, r.Machine)
	t := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "SPARK\tWHAT\tRAFTMASTER\tSPARK'S\tUNIT\tTARGET\tROUNDS (RAFTMASTER; SPARK'S)")
	for _, x := range r.Results {
		target := "-"
		if x.Met != nil {
			target = fmt.Sprintf("%g %s", x.Target, map[bool]string{true: "met", false: "MISSED"}[*x.Met])
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s; %s\n", x.Release, x.What, figure(x.Ours), figure(x.Spark), x.Unit, target,
			list(x.OursSeries), list(x.SparkSeries))
	}
	if err := t.Flush(); err != nil {
		fmt.Fprintln(os.Stderr, "bench-worker:", err)
	}
}

func figure(v float64) string {
	if v < 100 {
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.0f", v)
}

func list(values []float64) string {
	var out []string
	for _, v := range values {
		out = append(out, figure(v))
	}
	return strings.Join(out, " ")
}
