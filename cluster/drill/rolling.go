package drill

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"raftmaster/transport/webui"
)

// rolling restarts every master, the leader last, and waits for a whole cluster before each.
func (x *exercise) rolling(ctx context.Context) {
	x.r.Fault = "every master is restarted, one after the other"
	order := slices.Clone(x.s.members)
	slices.SortFunc(order, func(a, b member) int {
		if a.NodeID == x.r.Leader.NodeID || b.NodeID == x.r.Leader.NodeID {
			if a.NodeID == x.r.Leader.NodeID {
				return 1
			}
			return -1
		}
		return strings.Compare(a.Address, b.Address)
	})
	x.begin(time.Now())
	for i, m := range order {
		if i > 0 && !x.whole(ctx) {
			return
		}
		done := Restarted{Master: m.Master}
		ok := true
		if m.NodeID == x.r.Leader.NodeID {
			ok = x.moveAway(ctx, &done, m)
		}
		if ok {
			ok = x.restart(ctx, &done, m)
		}
		x.r.Restarted = append(x.r.Restarted, done)
		if !ok || ctx.Err() != nil {
			return
		}
	}
	if x.whole(ctx) {
		x.r.Steps.Total = x.since(time.Now())
	}
}

// whole waits until one more master may go.
func (x *exercise) whole(ctx context.Context) bool {
	_, bad := x.d.settled(ctx)
	if len(bad) > 0 && ctx.Err() == nil {
		x.problem("the rolling restart stops here: %s", strings.Join(bad, "; "))
	}
	return len(bad) == 0 && ctx.Err() == nil
}

// moveAway hands leadership over before its holder goes, and measures that.
func (x *exercise) moveAway(ctx context.Context, done *Restarted, m member) bool {
	x.d.cfg.Progress("rolling restart: " + m.Address + " hands leadership over")
	began := x.t0
	x.t0 = time.Now() // the steps are those of the one change of the leader
	x.w.arm(x.t0, x.r.Leader, x.r.Term)
	x.expected = true
	x.w.say(time.Now(), m.Address, "leadership is handed over")
	tctx, cancel := context.WithTimeout(ctx, x.d.cfg.Limit)
	defer cancel()
	_, err := post[webui.Transfer](tctx, x.d.cfg.Client, m.WebURL, "/v1/transfer-leadership", webui.TransferRequest{})
	if err != nil {
		x.problem("%s does not hand leadership over: %v", m.Address, err)
		x.t0 = began
		return false
	}
	ms := time.Since(x.t0).Milliseconds()
	done.TransferMillis = &ms
	var wg sync.WaitGroup
	wg.Go(func() { x.probe(ctx) })
	x.follow(ctx)
	wg.Wait()
	x.t0 = began
	return ctx.Err() == nil && !x.noLeader
}

// restart restarts one master and waits until it is back.
func (x *exercise) restart(ctx context.Context, done *Restarted, m member) bool {
	x.d.cfg.Progress("rolling restart: " + m.Address)
	began := time.Now()
	st, _, err := x.d.inject(ctx, m.Master, webui.DrillFaultRequest{Kind: webui.DrillRestart})
	if err != nil {
		x.problem("%s refuses the restart: %v", m.Address, err)
		return false
	}
	x.w.say(time.Now(), m.Address, "FAULT: restarts")
	if x.awaitBack(ctx, m.Master, st.BootID) {
		ms := time.Since(began).Milliseconds()
		done.BackMillis = &ms
		x.w.say(time.Now(), m.Address, "is back, with the whole log")
		return true
	}
	if ctx.Err() == nil {
		x.problem("%s has not come back within %s", m.Address, x.d.cfg.Limit)
	} else {
		x.problem("%s was told to restart; whether it has come back was not waited for", m.Address)
	}
	x.adviseStart(m.Master, st)
	return false
}
