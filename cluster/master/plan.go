package master

import (
	"fmt"
	"time"

	"raftmaster/fsm"
)

// planRetry is how long a plan that was not committed waits for the next one: a log that cannot be written is not
// helped by more proposals.
const planRetry = 500 * time.Millisecond

// again gives what to do when a command is not committed that nobody else would ask for once more: fn, after a while. What
// the state machine refuses it would refuse again.
func (c *Core) again(fn func()) func(error) {
	return func(err error) {
		if c.leader && !refusal(err) {
			c.after(planRetry, fn)
		}
	}
}

// planState coalesces any number of events into one planning pass, with one plan in flight.
type planState struct {
	needed   bool
	inFlight int             // commands of the plan that are not applied yet
	wake     *timer          // for what must not be placed yet
	warned   map[string]bool // applications that were said to fit nowhere, to say it once
}

// needPlan asks for a planning pass once the events at hand are dealt with.
func (c *Core) needPlan() { c.plan.needed = true }

// runPlan plans drivers and executors and proposes the placements, drivers first (spec B-160 to B-184).
func (c *Core) runPlan() {
	// After a lapse of the lease, lists come first: a kill that was dropped leaves a worker fuller than the books say.
	if !c.plan.needed || c.plan.inFlight > 0 || c.dropped || !c.alive() {
		return
	}
	c.plan.needed = false
	view := c.view()
	began := c.now()
	result := fsm.Plan(view.View, fsm.PlanParams{
		SpreadOutApps:    c.cfg.SpreadOutApps,
		Policy:           c.cfg.Policy,
		SpreadOutDrivers: c.cfg.SpreadOutDrivers,
		MaxDrivers:       c.cfg.MaxDrivers,
		NowMillis:        c.now().UnixMilli(),
		Usable: func(w *fsm.Worker) bool {
			soft := c.workers[w.ID]
			return soft != nil && soft.mayWork()
		},
		Compatible:       c.placeable(view.View),
		DriverCompatible: c.driverPlaceable,
	})
	c.deps.Observer.Planned(c.now().Sub(began))
	c.warnHopeless(result.Hopeless)
	c.warnDrivers(result.HopelessDrivers, result.DriversOverLimit)
	c.wakePlan(result.WakeAtMillis)
	c.plan.needed = result.More
	if len(result.Drivers) > 0 {
		c.proposePlan("PlaceDrivers", fsm.PlaceDrivers{Meta: c.meta(), Placements: result.Drivers}, func(r fsm.Result) {
			for _, d := range r.Value.(fsm.PlaceDriversResult).Dropped {
				c.log.Debug("a driver's placement was dropped when it was applied", "driver_id", d.Placement.DriverID, "worker_id", d.Placement.WorkerID, "reason", d.Reason)
				c.plan.needed = true
			}
		})
	}
	if len(result.Placements) > 0 {
		c.proposePlan("PlaceExecutors", fsm.PlaceExecutors{Meta: c.meta(), Placements: result.Placements}, func(r fsm.Result) {
			for _, d := range r.Value.(fsm.PlaceResult).Dropped {
				c.log.Debug("a placement was dropped when it was applied", "app_id", d.Placement.AppID, "worker_id", d.Placement.WorkerID, "reason", d.Reason)
				c.plan.needed = true
			}
		})
	}
}

// proposePlan proposes one command of a plan.
func (c *Core) proposePlan(name string, cmd fsm.Command, applied func(fsm.Result)) {
	c.plan.inFlight++
	c.propose(name, cmd, func(r fsm.Result) {
		c.plan.inFlight--
		applied(r)
	}, func(error) {
		if c.leader { // else this plan is forgotten already
			c.plan.inFlight--
			c.after(planRetry, c.needPlan)
		}
	})
}

// wakePlan plans again at a moment before which something must not be placed: a driver that is relaunched, an
// application in a crash loop. 0 means that nothing waits.
func (c *Core) wakePlan(atMillis int64) {
	c.plan.wake.Stop()
	c.plan.wake = nil
	if atMillis > 0 {
		wait := time.UnixMilli(atMillis).Sub(c.now())
		c.plan.wake = c.after(max(wait, time.Millisecond), c.needPlan)
	}
}

// maxHopelessSaid bounds how many of those that fit nowhere one pass says by name: a worker that leaves can make thousands
// so, and the events of a cluster are few.
const maxHopelessSaid = 20

func (c *Core) warnHopeless(apps []string) {
	c.plan.warned = c.sayHopeless("app", "App", apps, c.plan.warned)
}

// sayHopeless says of those in ids that were not known to fit nowhere that they do, the first by name and the rest by
// number. It returns those that are known now.
func (c *Core) sayHopeless(kind, noun string, ids []string, known map[string]bool) map[string]bool {
	now := make(map[string]bool, len(ids))
	fresh := 0
	for _, id := range ids {
		now[id] = true
		if known[id] {
			continue
		}
		if fresh++; fresh <= maxHopelessSaid {
			text := fmt.Sprintf("%s %s requires more resource than any of Workers could have.", noun, id)
			c.log.Warn(text)
			c.event(kind, id, text)
		}
	}
	if rest := fresh - maxHopelessSaid; rest > 0 {
		text := fmt.Sprintf("%d more %ss require more resource than any of Workers could have.", rest, kind)
		c.log.Warn(text)
		c.event(kind, "", text)
	}
	return now
}
