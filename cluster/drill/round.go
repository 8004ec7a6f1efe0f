package drill

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"raftmaster/transport/webui"
)

const (
	// pollPause is between two looks at a take-over, or at a master that is to come back.
	pollPause = 20 * time.Millisecond
	// stateLimit bounds the fetch of a state: 100,000 executors are 20 MB.
	stateLimit = 30 * time.Second
	// changeGrace is how long after the end of a fault a change of the leader may still come of it.
	changeGrace = 2 * time.Second
	// closing bounds what is still asked after an interruption.
	closing = 15 * time.Second
	// maxProbes bounds the applications that one round registers.
	maxProbes = 3
)

// exercise is one round under way.
type exercise struct {
	d *runner
	r *Round
	w *watch
	s *survey
	// target has the fault; expected: the leader has to change, sure: whatever happens.
	target         member
	expected, sure bool
	kept           atomic.Bool // the leader did not change, and will not
	t0             time.Time
	begun          bool

	mu       sync.Mutex // guards the lists of r while goroutines run
	noLeader bool
}

func (x *exercise) problem(format string, args ...any) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.r.Problems = append(x.r.Problems, fmt.Sprintf(format, args...))
}

func (x *exercise) advise(format string, args ...any) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.r.Advice = append(x.r.Advice, fmt.Sprintf(format, args...))
}

// since gives milliseconds after the beginning of the fault; never below 0.
func (x *exercise) since(at time.Time) *int64 {
	ms := max(0, at.Sub(x.t0).Milliseconds())
	return &ms
}

func fetchState(ctx context.Context, c Client, m Master) (state, error) {
	ctx, cancel := context.WithTimeout(ctx, stateLimit)
	defer cancel()
	var st state
	err := c.Get(ctx, m.WebURL, "/v1/drill/state", &st)
	return st, err
}

func summary(m Master, s state) Summary {
	return Summary{Node: m.Address, Index: s.StateIndex, Digest: s.StateDigest, Workers: len(s.Workers), Apps: len(s.Apps),
		Executors: len(s.Executors), Drivers: len(s.Drivers)}
}

// round makes one fault and judges it. s is the cluster just before.
func (d *runner) round(ctx context.Context, n int, kind string, s *survey) *Round {
	r, l := newRound(n, kind), s.lead()
	r.Leader, r.Term, r.Target = l.Master, l.status.Term, l.Master
	x := &exercise{d: d, r: r, s: s, target: *l}
	if err := x.aim(kind); err != nil {
		r.Problems, r.Outcome = append(r.Problems, err.Error()), Refused
		return r
	}
	before, err := fetchState(ctx, d.cfg.Client, l.Master)
	if err != nil {
		r.Problems, r.Outcome = append(r.Problems, "the state before cannot be fetched: "+err.Error()), Refused
		return r
	}
	r.Before = summary(l.Master, before)
	// The watch outlives an interruption: the report needs what it knows.
	x.w = newWatch(context.WithoutCancel(ctx), d.cfg.Client, s.masters(), before.StateIndex)
	defer x.w.stop()
	switch kind {
	case Transfer:
		x.transfer(ctx)
	case RollingRestart:
		x.rolling(ctx)
	default:
		x.fault(ctx, kind)
	}
	if !x.begun {
		r.Outcome = Refused
		return r
	}
	x.close(ctx, before)
	x.judge(ctx)
	return r
}

// aim finds the master that gets the fault.
func (x *exercise) aim(kind string) error {
	x.sure = kind == Transfer || kind == KillLeader
	switch kind {
	case Partition, SlowDisk, FullDisk:
	case RollingRestart:
		return nil
	default:
		x.expected = true
		return nil
	}
	at := x.s.leader
	switch want := x.d.cfg.Target; {
	case x.d.cfg.Random:
		at = x.d.rng.IntN(len(x.s.members))
	case want != "" && want != "leader":
		if at = slices.IndexFunc(x.s.members, func(m member) bool { return m.Address == want || m.NodeID == want }); at < 0 {
			return fmt.Errorf("no voter has the id or address %q", want)
		}
	}
	x.target = x.s.members[at]
	x.r.Target = x.target.Master
	x.expected = at == x.s.leader && kind != SlowDisk
	return nil
}

// request is what a kind of drill asks of its target.
func (x *exercise) request(kind string) webui.DrillFaultRequest {
	req := webui.DrillFaultRequest{DurationMillis: x.d.duration(kind).Milliseconds()}
	switch kind {
	case KillLeader:
		req.Kind, req.DurationMillis = webui.DrillExit, 0
	case PauseLeader:
		req.Kind = webui.DrillPause
	case Partition:
		req.Kind, req.Peers = webui.DrillPartition, x.d.cfg.Peers
	case SlowDisk:
		req.Kind, req.DelayMillis = webui.DrillSlowDisk, x.d.cfg.Delay.Milliseconds()
	case FullDisk:
		req.Kind = webui.DrillFullDisk
	}
	return req
}

// fault makes a fault on the target and waits until everything is back.
func (x *exercise) fault(ctx context.Context, kind string) {
	req := x.request(kind)
	st, t0, err := x.d.inject(ctx, x.target.Master, req)
	if err != nil {
		x.problem("%s refuses the fault: %v", x.target.Address, err)
		return
	}
	x.begin(t0)
	if st.Fault != nil {
		x.r.Fault = st.Fault.Detail
	}
	switch kind {
	case KillLeader:
		x.r.Fault += " (" + st.ExitMethod + ")"
	case PauseLeader:
		x.r.Fault += " (" + st.PauseMethod + ")"
	}
	x.w.say(x.t0, x.target.Address, "FAULT: "+x.r.Fault)
	x.d.cfg.Progress("fault: " + x.target.Address + ": " + x.r.Fault)
	var wg sync.WaitGroup
	wg.Go(func() { x.probe(ctx) })
	wg.Go(func() { x.follow(ctx) })
	if kind == KillLeader {
		x.back(ctx, st.BootID, st)
	} else {
		x.awaitEnd(ctx, time.Duration(req.DurationMillis)*time.Millisecond)
		x.back(ctx, "", st)
	}
	wg.Wait()
}

// begin starts the clock.
func (x *exercise) begin(t0 time.Time) {
	x.t0, x.begun = t0, true
	x.w.arm(t0, x.r.Leader, x.r.Term)
}

// transfer hands leadership over.
func (x *exercise) transfer(ctx context.Context) {
	x.r.Fault = "leadership is handed over"
	x.begin(time.Now())
	x.w.say(x.t0, x.target.Address, "FAULT: "+x.r.Fault)
	var wg sync.WaitGroup
	tctx, cancel := context.WithTimeout(ctx, x.d.cfg.Limit)
	defer cancel()
	done, err := post[webui.Transfer](tctx, x.d.cfg.Client, x.target.WebURL, "/v1/transfer-leadership", webui.TransferRequest{})
	if err != nil {
		x.problem("the hand-over failed: %v", err)
		x.kept.Store(true)
	} else {
		x.r.Fault = fmt.Sprintf("leadership was handed over to %s in %d ms, as the old leader saw it", done.To.Address, done.DurationMillis)
	}
	wg.Go(func() { x.probe(ctx) })
	x.follow(ctx)
	x.back(ctx, "", x.target.drill)
	wg.Wait()
}

// changed waits until a new leader is ALIVE. It tells false when there is none, and that is as it should be or not.
func (x *exercise) changed(ctx context.Context) bool {
	limit := x.d.cfg.Limit
	x.w.await(ctx, limit, func() bool { return !x.w.alive.IsZero() || x.kept.Load() })
	x.w.mu.Lock()
	gone, elected, alive := x.w.gone, x.w.elected, x.w.alive
	x.w.mu.Unlock()
	if !gone.IsZero() && !(x.kept.Load() && alive.IsZero()) {
		x.r.Steps.LeaderGone = x.since(gone)
	}
	if !elected.IsZero() {
		x.r.Steps.LeaderElected = x.since(elected)
	}
	if !alive.IsZero() {
		x.r.Steps.LeaderAlive = x.since(alive)
		return true
	}
	if !x.kept.Load() && ctx.Err() == nil {
		x.noLeader = true
		x.problem("no new leader was ALIVE within %s", limit)
	}
	return false
}

// follow waits for the new leader, and for all peers to attach to it.
func (x *exercise) follow(ctx context.Context) {
	if !x.expected {
		// Nobody has to lose the leadership; should it happen all the same, it is measured.
		if !x.w.await(ctx, x.d.cfg.Limit, func() bool { return !x.w.alive.IsZero() || x.kept.Load() }) || x.kept.Load() {
			return
		}
	}
	if !x.changed(ctx) {
		return
	}
	var missing []webui.Awaited
	for end := time.Now().Add(x.d.cfg.Limit); time.Now().Before(end) && ctx.Err() == nil; sleep(ctx, pollPause) {
		m, _, _ := x.w.newLeader()
		st, err := ask[webui.Status](ctx, x.d.cfg.Client, m.WebURL, "/v1/status")
		if err != nil || st.State != webui.StateAlive {
			continue
		}
		missing = nil
		if st.TakeOver != nil {
			missing = st.TakeOver.Awaited
		}
		now := x.since(time.Now())
		workers := slices.ContainsFunc(missing, func(a webui.Awaited) bool { return a.Kind == "worker" })
		if !workers && x.r.Steps.WorkersAttached == nil {
			x.r.Steps.WorkersAttached = now
			x.w.say(time.Now(), m.Address, "the last worker is attached")
		}
		if !slices.ContainsFunc(missing, func(a webui.Awaited) bool { return a.Kind != "worker" }) && x.r.Steps.DriversAttached == nil {
			x.r.Steps.DriversAttached = now
			x.w.say(time.Now(), m.Address, "the last driver is attached")
		}
		if x.r.Steps.WorkersAttached != nil && x.r.Steps.DriversAttached != nil {
			return
		}
	}
	if ctx.Err() == nil {
		for _, a := range missing[:min(len(missing), 10)] {
			x.problem("%s %s at %s did not answer the new leader within %s", a.Kind, a.ID, a.Address, x.d.cfg.Limit)
		}
	}
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// probe registers an application until one is accepted by the right leader.
func (x *exercise) probe(ctx context.Context) {
	if x.d.cfg.Probe == nil {
		return
	}
	pctx, cancel := context.WithTimeout(ctx, x.d.cfg.Limit)
	defer cancel()
	sleep(pctx, time.Until(x.t0)) // the old leader has nothing to accept any more
	var masters []string
	for _, m := range x.s.members {
		masters = append(masters, m.Address)
	}
	for try := range maxProbes {
		reg, err := x.d.cfg.Probe.Register(pctx, masters, fmt.Sprintf("%s-%s-%d-%d", ProbeName, x.d.id, x.r.Number, try+1))
		if err != nil {
			if ctx.Err() == nil {
				x.problem("first registration: %v", err)
			}
			return
		}
		x.mu.Lock()
		x.r.ProbeApps = append(x.r.ProbeApps, reg.AppID)
		x.mu.Unlock()
		if x.expected && reg.Master == x.r.Leader.Address && !x.kept.Load() && !x.w.aliveBefore(reg.At) {
			// The old leader took it before it knew of its end.
			x.w.await(pctx, x.d.cfg.Limit, func() bool { return !x.w.alive.IsZero() || x.kept.Load() })
			continue
		}
		x.r.Steps.FirstRegistration = x.since(reg.At)
		x.w.say(reg.At, reg.Master, "accepted the application "+reg.AppID)
		return
	}
}

// awaitEnd waits until the fault is over, or ends it when the caller gives up.
func (x *exercise) awaitEnd(ctx context.Context, duration time.Duration) {
	sleep(ctx, time.Until(x.t0.Add(duration)))
	if ctx.Err() != nil {
		ectx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closing)
		defer cancel()
		x.w.say(time.Now(), x.target.Address, "interrupted: the fault is ended")
		if _, _, err := x.d.inject(ectx, x.target.Master, webui.DrillFaultRequest{Kind: webui.DrillEnd}); err != nil {
			x.problem("%s did not hear that the fault is to end (%v); it ends by itself within %s", x.target.Address, err, max(duration, claimTTL))
		}
		x.kept.Store(true)
		return
	}
	for end := time.Now().Add(x.d.cfg.Limit); ctx.Err() == nil; sleep(ctx, pollPause) {
		st, err := ask[webui.DrillStatus](ctx, x.d.cfg.Client, x.target.WebURL, "/v1/drill")
		if err == nil && st.Fault == nil {
			x.r.Steps.FaultEnded = x.since(time.Now())
			if st.BootID != x.target.drill.BootID {
				x.r.Notes = append(x.r.Notes, "the process was started again in between: did a watchdog of its supervisor end it?")
			}
			how := ""
			if st.Last != nil {
				how = " (by " + st.Last.Ended + ")"
			}
			x.w.say(time.Now(), x.target.Address, "the fault is over"+how)
			break
		}
		if time.Now().After(end) {
			x.problem("the fault on %s has not ended", x.target.Address)
			break
		}
	}
	if !x.w.await(ctx, x.grace(), func() bool { return !x.w.alive.IsZero() }) {
		x.w.mu.Lock()
		kept := x.w.alive.IsZero() && x.w.gone.IsZero()
		x.w.mu.Unlock()
		if kept && x.expected {
			x.r.Notes = append(x.r.Notes, "the leader kept its leadership: the fault was over before anybody missed it (see --duration)")
		}
		x.kept.Store(kept || !x.expected)
	}
}

func (x *exercise) grace() time.Duration {
	if x.expected {
		return changeGrace
	}
	return 0
}

// back waits until the target is a STANDBY in contact, or the leader, with its log complete. boot, when not empty, is that
// of the process that has been ended.
func (x *exercise) back(ctx context.Context, boot string, hint webui.DrillStatus) {
	began := time.Now()
	if x.awaitBack(ctx, x.target.Master, boot) {
		x.r.Steps.TargetBack = x.since(time.Now())
		x.w.say(time.Now(), x.target.Address, "is back, with the whole log")
		return
	}
	if ctx.Err() != nil && boot != "" {
		x.problem("%s was killed; whether it has come back was not waited for", x.target.Address)
	}
	if ctx.Err() == nil {
		x.problem("%s has not come back within %s", x.target.Address, time.Since(began).Round(time.Second))
	}
	if boot != "" {
		x.adviseStart(x.target.Master, hint)
	}
}

// adviseStart says how to start a master that has not come back.
func (x *exercise) adviseStart(m Master, hint webui.DrillStatus) {
	who := "nothing is known to start it again"
	if hint.Supervisor != "" {
		who = hint.Supervisor + " was to start it again"
	}
	x.advise("on the machine of %s (%s): %s", m.Address, who, hint.StartCommand)
}

func (x *exercise) awaitBack(ctx context.Context, target Master, boot string) bool {
	for end := time.Now().Add(x.d.cfg.Limit); time.Now().Before(end) && ctx.Err() == nil; sleep(ctx, pollPause) {
		st, err := ask[webui.Status](ctx, x.d.cfg.Client, target.WebURL, "/v1/status")
		if err != nil || (boot != "" && st.BootID == boot) || !webui.HealthOf(st).Ready || st.Leader == nil {
			continue
		}
		if st.State == webui.StateAlive {
			return true
		}
		at := slices.IndexFunc(x.s.members, func(m member) bool { return m.NodeID == st.Leader.NodeID })
		if at < 0 {
			continue
		}
		l, err := ask[webui.Status](ctx, x.d.cfg.Client, x.s.members[at].WebURL, "/v1/status")
		if err != nil || l.State != webui.StateAlive {
			continue
		}
		if p := peerOf(l, target.NodeID); p != nil && p.Reachable && p.Lag != webui.Unknown && p.Lag <= maxLag {
			return true
		}
	}
	return false
}
