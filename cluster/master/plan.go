package master

import (
	"fmt"
	"time"

	"raftmaster/fsm"
)

// planRetry is how long a plan that was not committed waits for the next one: a log that cannot be written is not
// helped by more proposals.
const planRetry = 500 * time.Millisecond

// planState coalesces any number of events into one planning pass, with one plan in flight.
type planState struct {
	needed   bool
	inFlight bool
	warned   map[string]bool // applications that were said to fit nowhere, to say it once
}

// needPlan asks for a planning pass once the events at hand are dealt with.
func (c *Core) needPlan() { c.plan.needed = true }

// runPlan plans executors and proposes the placements as one command (spec B-160 to B-184).
func (c *Core) runPlan() {
	// After a lapse of the lease, lists come first: a kill that was dropped leaves a worker fuller than the books say.
	if !c.plan.needed || c.plan.inFlight || c.dropped || !c.alive() {
		return
	}
	c.plan.needed = false
	view := c.view()
	result := fsm.Plan(view.View, fsm.PlanParams{
		SpreadOutApps: c.cfg.SpreadOutApps,
		Policy:        c.cfg.Policy,
		Usable: func(w *fsm.Worker) bool {
			soft := c.workers[w.ID]
			return soft != nil && soft.mayWork()
		},
		Compatible: compatible,
	})
	c.warnHopeless(result.Hopeless)
	if len(result.Placements) == 0 {
		return
	}
	c.plan.needed = result.More
	c.plan.inFlight = true
	c.propose("PlaceExecutors", fsm.PlaceExecutors{Meta: c.meta(), Placements: result.Placements}, func(r fsm.Result) {
		c.plan.inFlight = false
		res := r.Value.(fsm.PlaceResult)
		for _, d := range res.Dropped {
			c.log.Debug("a placement was dropped when it was applied", "app_id", d.Placement.AppID, "worker_id", d.Placement.WorkerID, "reason", d.Reason)
			c.plan.needed = true
		}
	}, func(error) {
		c.plan.inFlight = false
		if c.leader {
			c.after(planRetry, c.needPlan)
		}
	})
}

func (c *Core) warnHopeless(apps []string) {
	warned := map[string]bool{}
	for _, id := range apps {
		warned[id] = true
		if !c.plan.warned[id] {
			c.log.Warn(fmt.Sprintf("App %s requires more resource than any of Workers could have.", id))
		}
	}
	c.plan.warned = warned
}
