package drill

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"raftmaster/transport/webui"
)

// close waits until the cluster is as it should be, and compares it with what it was.
func (x *exercise) close(ctx context.Context, before state) {
	x.total()
	limit := x.d.cfg.Limit
	if ctx.Err() != nil { // whoever has interrupted does not want to wait
		limit = min(limit, closing)
	}
	cctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit+closing)
	defer cancel()
	s := look(cctx, x.d.cfg.Client, x.d.cfg.Endpoints)
	for end := time.Now().Add(limit); s.lead() == nil && time.Now().Before(end); sleep(cctx, pollPause) {
		s = look(cctx, x.d.cfg.Client, x.d.cfg.Endpoints)
	}
	l := s.lead()
	if l == nil {
		x.noLeader = true
		x.problem("nobody leads: the state cannot be compared")
		x.advise("raftctl status")
		return
	}
	x.r.NewLeader, x.r.NewTerm = l.Master, l.status.Term
	after, err := x.stateAfter(cctx, l.Master)
	if err != nil {
		x.problem("the state afterwards cannot be fetched: %v", err)
		return
	}
	x.r.After = summary(l.Master, after)
	log, complete := x.w.log(cctx, before.StateIndex, after.StateIndex)
	x.r.Differences = append(x.r.Differences, Compare(before, after, log, x.r.ProbeApps)...)
	if x.r.Compared = complete; !complete {
		x.problem("no master had the whole log from index %d to %d: differences may be without explanation for that reason", before.StateIndex, after.StateIndex)
	}
	x.replicas(cctx, &s)
	x.changes()
	x.r.Timeline = append(x.r.Timeline, x.w.timeline()...)
	x.w.mu.Lock()
	x.r.Problems = append(x.r.Problems, x.w.breaches...)
	x.w.mu.Unlock()
}

// total is the time of the last step, when the target is back.
func (x *exercise) total() {
	if x.r.Steps.TargetBack == nil || x.r.Steps.Total != nil {
		return
	}
	last := int64(0)
	for _, p := range x.r.Steps.all() {
		if *p != nil {
			last = max(last, **p)
		}
	}
	x.r.Steps.Total = &last
}

// stateAfter fetches the state once the drill's own applications are gone from it. One that stays, because the message of
// its end was lost with a leader, is ended.
func (x *exercise) stateAfter(ctx context.Context, m Master) (state, error) {
	for end := time.Now().Add(closing); ; sleep(ctx, 100*time.Millisecond) {
		st, err := fetchState(ctx, x.d.cfg.Client, m)
		if err != nil {
			return st, err
		}
		left := slices.IndexFunc(st.Apps, func(a webui.DrillApp) bool { return strings.HasPrefix(a.Name, ProbeName+"-"+x.d.id+"-") })
		if left < 0 {
			return st, nil
		}
		id := st.Apps[left].ID
		if !slices.Contains(x.r.ProbeApps, id) {
			x.r.ProbeApps = append(x.r.ProbeApps, id)
		}
		if time.Until(end) < closing-time.Second {
			kctx, cancel := context.WithTimeout(ctx, askLimit)
			_, err = post[webui.Kill](kctx, x.d.cfg.Client, m.WebURL, "/v1/kill", webui.KillRequest{Kind: webui.KindApp, ID: id})
			cancel()
		}
		if time.Now().After(end) || ctx.Err() != nil {
			x.problem("the drill's own application %s is still there (the last attempt to end it: %v)", id, err)
			x.advise("raftctl kill app %s --yes", id)
			return st, nil
		}
	}
}

// replicas compares the digests of all masters at one index. One that never answers is left out: that it is not back is
// said elsewhere.
func (x *exercise) replicas(ctx context.Context, s *survey) {
	seen := map[uint64]map[string]string{} // by index, then master: the digest
	answered := map[string]bool{}
	limit := min(closing, x.d.cfg.Limit)
	for began := time.Now(); time.Since(began) < limit && ctx.Err() == nil; sleep(ctx, pollPause) {
		now := make([]*webui.Status, len(s.members))
		each(len(s.members), func(i int) {
			if st, err := ask[webui.Status](ctx, x.d.cfg.Client, s.members[i].WebURL, "/v1/status"); err == nil {
				now[i] = &st
			}
		})
		for i, st := range now {
			if st == nil {
				continue
			}
			if seen[st.StateIndex] == nil {
				seen[st.StateIndex] = map[string]string{}
			}
			seen[st.StateIndex][s.members[i].Address], answered[s.members[i].Address] = st.StateDigest, true
		}
		for index, by := range seen {
			if len(by) == len(s.members) || (time.Since(began) > limit/2 && len(by) == len(answered)) {
				x.equal(index, by)
				return
			}
		}
	}
	x.problem("the masters were not seen at one index: whether their states are equal is not known (raftctl hash)")
}

// equal judges digests of one index.
func (x *exercise) equal(index uint64, by map[string]string) {
	first, equal := "", true
	for _, digest := range by {
		equal = equal && (first == "" || digest == first)
		first = digest
	}
	x.r.ReplicasEqual = &equal
	if !equal {
		x.problem("the states of the masters differ at index %d: raftctl hash", index)
	}
}

// changes notes what is not as it was, although nothing is wrong.
func (x *exercise) changes() {
	r := x.r
	if r.NewLeader.NodeID != r.Leader.NodeID {
		r.NotAsBefore = append(r.NotAsBefore, fmt.Sprintf("leadership moved from %s to %s (undo: raftctl transfer-leadership --to %s)", r.Leader.Address, r.NewLeader.Address, r.Leader.Address))
	}
	if n := len(r.ProbeApps); n > 0 {
		r.NotAsBefore = append(r.NotAsBefore, "the completed applications have the drill's own: "+strings.Join(r.ProbeApps, ", "))
	}
}

// judge gives the outcome.
func (x *exercise) judge(ctx context.Context) {
	r := x.r
	switch {
	case r.Damages() > 0, len(x.w.breaches) > 0, r.ReplicasEqual != nil && !*r.ReplicasEqual:
		r.Outcome = Damage
	case x.noLeader:
		r.Outcome = NoLeader
	case ctx.Err() != nil:
		r.Outcome = Interrupted
	case len(r.Problems) > 0:
		r.Outcome = Incomplete
	default:
		r.Outcome = Passed
	}
}
