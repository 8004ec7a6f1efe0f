package drill

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"raftmaster/transport/webui"
)

// Defaults of Config.
const (
	defaultPause          = 5 * time.Second
	defaultDuration       = 10 * time.Second
	defaultDelay          = 50 * time.Millisecond
	defaultLimit          = time.Minute
	defaultBetween        = time.Second
	defaultHeartbeatLimit = 40 * time.Second
	maxRounds             = 10_000
)

// ErrUsage wraps what is wrong with a Config.
var ErrUsage = errors.New("drill")

// runner is one drill.
type runner struct {
	cfg Config
	id  string
	rng *rand.Rand
}

func newRunner(cfg Config) (*runner, error) {
	bad := func(format string, args ...any) (*runner, error) {
		return nil, fmt.Errorf("%w: "+format, append([]any{ErrUsage}, args...)...)
	}
	if cfg.Rounds == 0 {
		cfg.Rounds = 1
	}
	switch {
	case cfg.Client == nil || len(cfg.Endpoints) == 0:
		return bad("a client and endpoints are needed")
	case cfg.Kind != All && !slices.Contains(Kinds(), cfg.Kind):
		return bad("no drill is called %q", cfg.Kind)
	case cfg.Random && cfg.Kind != All:
		return bad("a random choice needs the kind %s", All)
	case cfg.Rounds < 1 || cfg.Rounds > maxRounds:
		return bad("the number of rounds must be from 1 to %d", maxRounds)
	case cfg.Duration < 0 || cfg.Duration > webui.DrillMaxMillis*time.Millisecond:
		return bad("the duration of a fault must be from 1 ms to %d s", webui.DrillMaxMillis/1000)
	case cfg.Delay < 0 || cfg.Delay > webui.DrillMaxDelayMillis*time.Millisecond:
		return bad("the delay of a sync must be from 1 ms to %d ms", webui.DrillMaxDelayMillis)
	case cfg.Limit < 0 || cfg.Between < 0:
		return bad("no time may be negative")
	case (cfg.Target != "" || len(cfg.Peers) > 0) && cfg.Random:
		return bad("a random drill chooses its targets itself")
	}
	cfg.Delay = cmp.Or(cfg.Delay, defaultDelay)
	cfg.Limit = cmp.Or(cfg.Limit, defaultLimit)
	cfg.Between = cmp.Or(cfg.Between, defaultBetween)
	cfg.HeartbeatLimit = cmp.Or(cfg.HeartbeatLimit, defaultHeartbeatLimit)
	if cfg.Progress == nil {
		cfg.Progress = func(string) {}
	}
	return &runner{cfg: cfg, id: newID(), rng: rand.New(rand.NewPCG(cfg.Seed, 0))}, nil
}

// newID makes the id of a drill: unique, and in the order of time.
func newID() string {
	return time.Now().UTC().Format("20060102-150405-") + strconv.FormatUint(rand.Uint64N(1<<32)|1<<32, 36)
}

// duration is that of a fault of a kind.
func (d *runner) duration(kind string) time.Duration {
	switch {
	case d.cfg.Duration > 0:
		return d.cfg.Duration
	case kind == PauseLeader:
		return defaultPause
	}
	return defaultDuration
}

// plan lists the kinds of all rounds.
func (d *runner) plan() []string {
	var out []string
	for range d.cfg.Rounds {
		switch {
		case d.cfg.Random:
			out = append(out, Kinds()[d.rng.IntN(len(Kinds()))])
		case d.cfg.Kind == All:
			out = append(out, Kinds()...)
		default:
			out = append(out, d.cfg.Kind)
		}
	}
	return out
}

// Preview does the preflight of a drill and says what would be done; nothing is changed.
func Preview(ctx context.Context, cfg Config) (*Report, error) {
	d, err := newRunner(cfg)
	if err != nil {
		return nil, err
	}
	r := d.report()
	r.DryRun = true
	s, checks := d.preflight(ctx)
	r.Preflight = checks
	for i, kind := range d.plan() {
		r.Plan = append(r.Plan, d.describe(i+1, kind, &s))
	}
	if l := s.lead(); l != nil {
		r.ClusterID = l.status.ClusterID
	}
	d.finish(r, &s, refusals(checks))
	return r, nil
}

// describe says what a round would do.
func (d *runner) describe(n int, kind string, s *survey) string {
	leader, target := "the leader", "the leader"
	if l := s.lead(); l != nil {
		leader, target = l.Address+" (the leader)", l.Address+" (the leader)"
	}
	if d.cfg.Random {
		leader, target = "whoever leads then", "the leader or a standby, by chance"
	}
	if d.cfg.Target != "" {
		target = d.cfg.Target
	}
	text := fmt.Sprintf("round %d, %s: ", n, kind)
	switch kind {
	case Transfer:
		return text + leader + " hands leadership to another master"
	case KillLeader:
		return text + leader + " is killed; its supervisor must start it again"
	case PauseLeader:
		return text + fmt.Sprintf("%s is stopped for %s", leader, d.duration(kind))
	case Partition:
		return text + fmt.Sprintf("%s is cut off from other masters for %s", target, d.duration(kind))
	case SlowDisk:
		return text + fmt.Sprintf("each sync of the log of %s takes %s longer for %s", target, d.cfg.Delay, d.duration(kind))
	case FullDisk:
		return text + fmt.Sprintf("each write of the log of %s fails for %s", target, d.duration(kind))
	}
	return text + fmt.Sprintf("all %d masters are restarted one after the other, the leader last", len(s.members))
}

func (d *runner) report() *Report {
	return &Report{Drill: d.id, Kind: d.cfg.Kind, By: d.cfg.By, StartedMillis: time.Now().UnixMilli(), Random: d.cfg.Random, Seed: d.cfg.Seed,
		Preflight: []Check{}, Plan: []string{}, Rounds: []Round{}, Percentiles: []Percentiles{}, Problems: []string{}}
}

// Run drills. The error is about the Config; what happened in the cluster is in the report. When ctx ends the fault is
// ended, and the report says how far it went. A round after one that did not pass is not begun.
func Run(ctx context.Context, cfg Config) (*Report, error) {
	d, err := newRunner(cfg)
	if err != nil {
		return nil, err
	}
	r := d.report()
	s, checks := d.preflight(ctx)
	r.Preflight = checks
	if bad := refusals(checks); len(bad) > 0 {
		d.finish(r, &s, bad)
		return r, nil
	}
	r.ClusterID = s.lead().status.ClusterID
	claims, err := d.claim(ctx, s.masters())
	if err != nil {
		d.finish(r, &s, []string{"the masters cannot be claimed: " + err.Error()})
		return r, nil
	}
	d.rounds(ctx, r)
	r.Problems = append(r.Problems, claims.release()...)
	d.finish(r, &s, nil)
	return r, nil
}

func (s *survey) masters() []Master {
	out := make([]Master, len(s.members))
	for i := range s.members {
		out[i] = s.members[i].Master
	}
	return out
}

// rounds runs the plan.
func (d *runner) rounds(ctx context.Context, r *Report) {
	for i, kind := range d.plan() {
		if i > 0 {
			select {
			case <-ctx.Done():
				return
			case <-time.After(d.cfg.Between):
			}
		}
		s, bad := d.settled(ctx)
		if ctx.Err() != nil {
			return
		}
		if len(bad) > 0 {
			r.Rounds = append(r.Rounds, refusedRound(i+1, kind, bad))
			return
		}
		d.cfg.Progress(fmt.Sprintf("round %d of %d: %s, led by %s", i+1, d.want(), kind, s.lead().Address))
		round := d.round(ctx, i+1, kind, &s)
		r.Rounds = append(r.Rounds, *round)
		if round.Outcome != Passed {
			return
		}
	}
}

// settled repeats the preflight until it passes, at most for the limit: what a round before has left is on its way.
func (d *runner) settled(ctx context.Context) (survey, []string) {
	for end := time.Now().Add(d.cfg.Limit); ; {
		s, checks := d.preflight(ctx)
		bad := refusals(checks)
		if len(bad) == 0 || time.Now().After(end) || ctx.Err() != nil {
			return s, bad
		}
		select {
		case <-ctx.Done():
		case <-time.After(200 * time.Millisecond):
		}
	}
}

func refusedRound(n int, kind string, why []string) Round {
	r := newRound(n, kind)
	r.Problems, r.Outcome = why, Refused
	return *r
}

func newRound(n int, kind string) *Round {
	return &Round{Number: n, Kind: kind, StartedMillis: time.Now().UnixMilli(), Timeline: []Moment{}, Restarted: []Restarted{}, ProbeApps: []string{},
		Differences: []Difference{}, Problems: []string{}, Advice: []string{}, NotAsBefore: []string{}, Notes: []string{}}
}

// finish judges a report. refused are the reasons why nothing was begun.
func (d *runner) finish(r *Report, s *survey, refused []string) {
	r.EndedMillis = time.Now().UnixMilli()
	r.Percentiles = percentiles(r.Rounds)
	r.Outcome = Passed
	weight := []string{Passed, Interrupted, Refused, Incomplete, NoLeader, Damage}
	worst := func(o string) {
		if slices.Index(weight, o) > slices.Index(weight, r.Outcome) {
			r.Outcome = o
		}
	}
	switch {
	case len(refused) > 0 && s.leader < 0 && len(s.members) > 0:
		worst(NoLeader)
	case len(refused) > 0:
		worst(Refused)
	}
	if len(refused) > 0 {
		r.Problems = append(r.Problems, refused...)
		return
	}
	for i := range r.Rounds {
		worst(r.Rounds[i].Outcome)
	}
	if len(r.Problems) > 0 {
		worst(Incomplete)
	}
	if want := d.want(); !r.DryRun && len(r.Rounds) < want && r.Outcome == Passed {
		r.Outcome = Interrupted
	}
}

// want is how many rounds there are to be.
func (d *runner) want() int {
	if d.cfg.Kind == All && !d.cfg.Random {
		return d.cfg.Rounds * len(Kinds())
	}
	return d.cfg.Rounds
}

// percentiles sums up the rounds, by kind and step.
func percentiles(rounds []Round) []Percentiles {
	out := []Percentiles{}
	for _, kind := range Kinds() {
		for _, step := range StepNames() {
			var values []int64
			for i := range rounds {
				if v := rounds[i].Steps.Get(step); v != nil && rounds[i].Kind == kind {
					values = append(values, *v)
				}
			}
			if len(values) == 0 {
				continue
			}
			slices.Sort(values)
			out = append(out, Percentiles{Kind: kind, Step: step, Count: len(values), Min: values[0], Median: rank(values, 50), P95: rank(values, 95),
				Max: values[len(values)-1]})
		}
	}
	return out
}

// rank is the nearest-rank percentile of sorted values.
func rank(values []int64, percent int) int64 {
	n := (len(values)*percent + 99) / 100
	return values[max(n, 1)-1]
}

func sortEntries(list []webui.DrillEntry) {
	slices.SortFunc(list, func(a, b webui.DrillEntry) int { return cmp.Compare(a.Index, b.Index) })
}
