package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"raftmaster/cluster/load"
	"raftmaster/cluster/sparktest"
	"raftmaster/scripts/benchmachine"
)

// metric is one figure that both masters are measured by.
type metric struct {
	Name   string `json:"name"`
	Unit   string `json:"unit"`
	result string // of load.Report
	value  func(r *load.Result) float64
	// less tells that the smaller figure is the better one.
	less bool
	// target is how many times better raftmaster is to be; 0 where there is none.
	target float64
}

func perSecond(r *load.Result) float64 { return r.PerSecond }

func median(r *load.Result) float64 {
	if r.LatencyMS == nil {
		return 0
	}
	return r.LatencyMS.P50
}

func perCPU(r *load.Result) float64 {
	if r.Master == nil {
		return 0
	}
	return r.Master.PerCPUSecond
}

func eachMicros(r *load.Result) float64 {
	if r.Master == nil {
		return 0
	}
	return r.Master.EachMicros
}

const (
	heartbeats   = "heartbeats"
	registration = "worker registrations"
	apps         = "application registrations"
	replacing    = "executor launches, replacing"
	atOnce       = "executor launches, at once"
	changes      = "executor state changes"
	rssWorkers   = "resident memory, workers registered"
	rssMost      = "resident memory, largest"
)

var metrics = []metric{
	{Name: registration, Unit: "1/s", result: registration, value: perSecond, target: 20},
	{Name: "application registration, median", Unit: "ms", result: apps, value: median, less: true, target: 6},
	{Name: replacing, Unit: "1/s", result: replacing, value: perSecond, target: 20},
	{Name: atOnce, Unit: "1/s", result: atOnce, value: perSecond},
	{Name: changes, Unit: "1/s", result: changes, value: perSecond},
	{Name: "heartbeats per CPU-second", Unit: "1/s", result: heartbeats, value: perCPU, target: 10},
	{Name: "leader's CPU for a worker registration", Unit: "µs", result: registration, value: eachMicros, less: true},
	{Name: "leader's CPU for a replaced executor", Unit: "µs", result: replacing, value: eachMicros, less: true},
	{Name: rssWorkers, Unit: "MB", less: true, target: 8},
	{Name: rssMost, Unit: "MB", less: true},
}

// Comparison is the outcome for one metric.
type Comparison struct {
	metric
	Ours       []float64 `json:"raftmaster"`
	Spark      []float64 `json:"spark"`
	OursMid    float64   `json:"raftmaster_median"`
	SparkMid   float64   `json:"spark_median"`
	Times      float64   `json:"times_better"` // 0 when one side was not measured
	Target     float64   `json:"target,omitempty"`
	TargetMet  bool      `json:"target_met"`
	HasTarget  bool      `json:"has_target"`
	BothSides  bool      `json:"both_sides"`
	LessIsGood bool      `json:"less_is_better"`
}

// round is what one side measured in one round.
type round map[string]float64

func (o options) loadConfig(c *cluster) load.Config {
	cfg := load.Config{
		Masters: c.masters, Release: o.release, Workers: o.workers, Apps: o.apps, Executors: 10, PID: c.leader.pid(), Others: c.others(),
		Phases:  []load.Phase{load.PhaseWorkers, load.PhaseHeartbeats, load.PhaseApps, load.PhaseBurst, load.PhaseChurn},
		Window:  o.window,
		Burst:   o.workers,
		Timeout: 3 * time.Minute, Duration: o.duration, Warmup: o.warmup, ChurnWindow: o.churnWindow, Net: 90,
		Progress: progressLine(),
	}
	return cfg
}

// measureSide starts one side's masters, lets them warm up under the same load,
// and measures.
func measureSide(ctx context.Context, o options, ours bool, spark sparktest.Spark) (_ round, err error) {
	b, err := newBed(o.dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.close(err != nil && ctx.Err() == nil)) }()
	var c *cluster
	if ours {
		c, err = startOurs(ctx, b)
	} else {
		c, err = startSpark(ctx, b, spark)
	}
	if err != nil {
		return nil, err
	}
	cfg := o.loadConfig(c)
	if o.warmup > 0 {
		warm := cfg
		warm.Duration, warm.Warmup = o.warmup, 0
		first, err := load.Run(ctx, warm)
		sayErrors(first)
		if err != nil {
			return nil, fmt.Errorf("warm-up: %w", err)
		}
		if err := c.await(ctx); err != nil {
			return nil, err
		}
		cfg.PID, cfg.Others = c.leader.pid(), c.others()
	}
	report, err := load.Run(ctx, cfg)
	sayErrors(report)
	if err != nil {
		return nil, err
	}
	out := round{}
	for _, m := range metrics {
		if r := report.Find(m.result); r != nil && m.value != nil {
			out[m.Name] = m.value(r)
		}
	}
	for _, r := range report.Results {
		if r.Master == nil {
			continue
		}
		out[rssMost] = max(out[rssMost], r.Master.RSSMB)
		if r.Name == registration || r.Name == heartbeats {
			out[rssWorkers] = max(out[rssWorkers], r.Master.RSSMB)
		}
	}
	return out, nil
}

// sayErrors names what went wrong without ending a run.
func sayErrors(r *load.Report) {
	if r == nil {
		return
	}
	for kind, n := range r.Errors {
		say("!!! %s: %d times", kind, n)
	}
}

// compare runs the rounds, each side first in turn.
func compare(ctx context.Context, o options) ([]Comparison, error) {
	var spark sparktest.Spark
	if o.only != "raftmaster" {
		var err error
		if spark, err = sparktest.Install(ctx, o.release, say); err != nil {
			return nil, err
		}
	}
	var rounds [2][]round // Spark, ours
	for i := range o.rounds {
		for _, ours := range []bool{i%2 == 0, i%2 != 0} {
			name := map[bool]string{true: "raftmaster", false: "spark"}[ours]
			if o.only != "" && o.only != name {
				continue
			}
			say("round %d of %d: %s", i+1, o.rounds, name)
			r, err := measureSide(ctx, o, ours, spark)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			side := 0
			if ours {
				side = 1
			}
			rounds[side] = append(rounds[side], r)
		}
	}
	var out []Comparison
	for _, m := range metrics {
		c := Comparison{metric: m, Target: m.target, HasTarget: m.target > 0, LessIsGood: m.less}
		for side, list := range [][]round{rounds[0], rounds[1]} {
			var values []float64
			for _, r := range list {
				if v, ok := r[m.Name]; ok {
					values = append(values, v)
				}
			}
			if side == 0 {
				c.Spark, c.SparkMid = values, benchmachine.Median(values)
			} else {
				c.Ours, c.OursMid = values, benchmachine.Median(values)
			}
		}
		if c.OursMid > 0 && c.SparkMid > 0 {
			c.BothSides = true
			c.Times = c.OursMid / c.SparkMid
			if m.less {
				c.Times = 1 / c.Times
			}
			c.TargetMet = c.HasTarget && c.Times >= m.target
		}
		out = append(out, c)
	}
	return out, nil
}

func printComparison(w io.Writer, list []Comparison) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "WHAT\tRAFTMASTER\tSPARK + ZOOKEEPER\tUNIT\tTIMES BETTER\tTARGET\tROUNDS (RAFTMASTER; SPARK)")
	for _, c := range list {
		times, target := "-", "-"
		if c.BothSides {
			times = fmt.Sprintf("%.1f", c.Times)
		}
		if c.HasTarget {
			target = fmt.Sprintf("%g", c.Target)
			if c.BothSides {
				target += map[bool]string{true: " met", false: " MISSED"}[c.TargetMet]
			}
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s; %s\n", c.Name, figure(c.OursMid), figure(c.SparkMid), c.Unit, times, target, series(c.Ours), series(c.Spark))
	}
	return t.Flush()
}

func figure(v float64) string {
	switch {
	case v == 0:
		return "-"
	case v < 10:
		return fmt.Sprintf("%.2f", v)
	case v < 100:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.0f", v)
}

func series(list []float64) string {
	var out []string
	for _, v := range list {
		out = append(out, figure(v))
	}
	return strings.Join(slices.Clip(out), " ")
}
