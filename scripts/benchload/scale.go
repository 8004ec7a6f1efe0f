package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"raftmaster/cluster/load"
)

// Scale is what a large cluster costs one leader.
type Scale struct {
	Workers   int          `json:"workers"`
	Apps      int          `json:"apps"`
	Executors int          `json:"executors"`
	Figures   []ScaleFact  `json:"figures"`
	Load      *load.Report `json:"load"`
}

// ScaleFact is one figure with its target.
type ScaleFact struct {
	Name   string  `json:"name"`
	Value  float64 `json:"value"`
	Unit   string  `json:"unit"`
	Target float64 `json:"target,omitempty"` // at most; 0 where there is none
	Note   string  `json:"note,omitempty"`
}

const (
	steadyTime  = 60 * time.Second
	restartTime = 2 * time.Minute
	askPause    = 5 * time.Millisecond
)

// scaleRun is a run of --scale.
type scaleRun struct {
	ctx   context.Context
	b     *bed
	c     *cluster
	out   *Scale
	plans histogram // before the phase that is measured
}

// scale fills a cluster, holds it, and restarts a follower.
func scale(ctx context.Context, o options) (_ *Scale, err error) {
	b, err := newBed(o.dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.close(err != nil && ctx.Err() == nil)) }()
	s := &scaleRun{ctx: ctx, b: b, out: &Scale{Workers: o.scaleWorkers, Apps: o.scaleApps, Executors: o.scaleApps * o.scaleExecutors}}
	if s.c, err = startOurs(ctx, b); err != nil {
		return nil, err
	}
	hold := steadyTime
	if o.quick {
		hold = 2 * time.Second
	}
	cfg := load.Config{
		Masters: s.c.masters, Workers: o.scaleWorkers, Apps: o.scaleApps, Executors: o.scaleExecutors, PID: s.c.leader.pid(), Others: s.c.others(),
		Phases: []load.Phase{load.PhaseWorkers, load.PhaseApps, load.PhaseChurn, load.PhaseHold},
		Window: 512, AppWindow: 16, ChurnWindow: 1, Duration: hold, Timeout: 10 * time.Minute, Progress: progressLine(), After: s.after,
	}
	report, err := load.Run(ctx, cfg)
	s.out.Load = report
	sayErrors(report)
	return s.out, err
}

func (s *scaleRun) add(name string, value float64, unit string, target float64, note string) {
	s.out.Figures = append(s.out.Figures, ScaleFact{name, value, unit, target, note})
}

// after measures what belongs to the end of a phase.
func (s *scaleRun) after(p load.Phase) error {
	text, err := get(s.leader().web + "/metrics")
	if err != nil {
		return err
	}
	switch p {
	case load.PhaseApps:
		s.plans = readHistogram(text, "raftmaster_plan_duration_seconds")
	case load.PhaseChurn:
		now := readHistogram(text, "raftmaster_plan_duration_seconds")
		if n := now.count - s.plans.count; n > 0 {
			s.add("planning pass after one event, mean", 1000*(now.sum-s.plans.sum)/n, "ms", 5,
				fmt.Sprintf("%.0f passes, 99 %% within %.3g ms", n, 1000*now.quantile(s.plans, 0.99)))
		}
	case load.PhaseHold:
		s.snapshots()
		return s.restart()
	}
	return nil
}

func (s *scaleRun) leader() *node {
	for _, n := range s.c.nodes {
		if n.proc == s.c.leader {
			return n
		}
	}
	return s.c.nodes[0]
}

// snapshots sums up the snapshots that were taken until now, on all masters.
func (s *scaleRun) snapshots() {
	var count, taken, written float64
	for _, n := range s.c.nodes {
		text, err := get(n.web + "/metrics")
		if err != nil {
			say("!!! %v", err)
			continue
		}
		count += value(text, "raftmaster_raft_fsm_snapshot_count")
		taken += value(text, "raftmaster_raft_fsm_snapshot_sum")
		written += value(text, "raftmaster_raft_snapshot_persist_sum")
	}
	if count == 0 {
		say("no snapshot was taken: too few entries")
		return
	}
	s.add("snapshot: pause of Apply, mean", taken/count, "ms", 10, fmt.Sprintf("%.0f snapshots on three masters", count))
	s.add("snapshot: writing, mean", written/count, "ms", 0, "beside Apply")
}

// restart ends a follower in order and starts it again.
func (s *scaleRun) restart() error {
	n := s.c.nodes[0]
	if n.proc == s.c.leader {
		n = s.c.nodes[1]
	}
	n.proc.stop()
	want, err := s.applied(s.leader())
	if err != nil {
		return err
	}
	began := time.Now()
	if n.proc, err = s.b.start("restarted", nil, n.args...); err != nil {
		return err
	}
	for time.Since(began) < restartTime {
		if at, err := s.applied(n); err == nil && at >= want {
			s.add("restart of a follower until it has applied all", time.Since(began).Seconds(), "s", 3, "")
			return s.ctx.Err()
		}
		select {
		case <-s.ctx.Done():
			return s.ctx.Err()
		case <-time.After(askPause):
		}
	}
	return fmt.Errorf("the restarted master has not caught up within %v", restartTime)
}

// applied is the last index that a master has applied.
func (s *scaleRun) applied(n *node) (uint64, error) {
	text, err := get(n.web + "/v1/status")
	if err != nil {
		return 0, err
	}
	var status struct {
		AppliedIndex uint64 `json:"applied_index"`
	}
	err = json.Unmarshal([]byte(text), &status)
	return status.AppliedIndex, err
}

func (s *Scale) print(w io.Writer) error {
	fmt.Fprintf(w, "%d workers, %d applications, %d executors on one leader of three masters\n\n", s.Workers, s.Apps, s.Executors)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "WHAT\tVALUE\tUNIT\tTARGET\tNOTE")
	for _, f := range s.all() {
		target := "-"
		if f.Target > 0 {
			target = fmt.Sprintf("under %g", f.Target)
			if f.Value >= f.Target {
				target += " MISSED"
			}
		}
		fmt.Fprintf(t, "%s\t%.3g\t%s\t%s\t%s\n", f.Name, f.Value, f.Unit, target, f.Note)
	}
	return t.Flush()
}

// all adds what the load itself measured.
func (s *Scale) all() []ScaleFact {
	list := s.Figures
	if s.Load == nil {
		return list
	}
	for _, r := range s.Load.Results {
		note := fmt.Sprintf("%d in %.1f s", r.Count, r.Seconds)
		if r.LatencyMS != nil {
			note += fmt.Sprintf("; latency median %.1f ms, 99 %% %.1f ms, worst %.1f ms", r.LatencyMS.P50, r.LatencyMS.P99, r.LatencyMS.Max)
		}
		if r.Master != nil {
			note += fmt.Sprintf("; leader: %.1f s of CPU, %.0f MB resident", r.Master.CPUSeconds, r.Master.RSSMB)
		}
		list = append(list, ScaleFact{Name: r.Name, Value: r.PerSecond, Unit: "1/s", Note: note})
		if r.Name == "steady heartbeats" && r.Master != nil {
			list = append(list, ScaleFact{Name: "steady heartbeats: leader's share of one core", Value: 100 * r.Master.CPUSeconds / r.Seconds, Unit: "%", Target: 5})
		}
	}
	return list
}

// histogram is one of Prometheus: cumulated counts by upper bound.
type histogram struct {
	bounds, counts []float64
	sum, count     float64
}

func readHistogram(text, name string) histogram {
	h := histogram{sum: value(text, name+"_sum"), count: value(text, name+"_count")}
	for line := range strings.Lines(text) {
		rest, ok := strings.CutPrefix(line, name+`_bucket{le="`)
		if !ok {
			continue
		}
		bound, count, ok := strings.Cut(strings.TrimSpace(rest), `"} `)
		b, err := strconv.ParseFloat(bound, 64)
		c, err2 := strconv.ParseFloat(count, 64)
		if ok && err == nil && err2 == nil {
			h.bounds, h.counts = append(h.bounds, b), append(h.counts, c)
		}
	}
	return h
}

// quantile is the bound below which that part of what came since before lies.
func (h histogram) quantile(before histogram, q float64) float64 {
	for i, b := range h.bounds {
		have := h.counts[i]
		if i < len(before.counts) {
			have -= before.counts[i]
		}
		if have >= q*(h.count-before.count) {
			return b
		}
	}
	return 0
}

// value is that of a metric without labels, 0 when it is not there.
func value(text, name string) float64 {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, name+" "); ok {
			v, err := strconv.ParseFloat(strings.TrimSpace(rest), 64)
			if err == nil {
				return v
			}
		}
	}
	return 0
}
