package master

import (
	"slices"

	"raftmaster/fsm"
)

// DecommissionOffError refuses to decommission workers while the operator has not allowed it: such a worker ignores the
// order and runs on, and would only be lost to the master (B-069, S33).
type DecommissionOffError struct{}

// Error implements error.
func (*DecommissionOffError) Error() string {
	return "workers cannot be decommissioned: spark.decommission.enabled is not true on this master"
}

// ClearCompleted see Service.ClearCompleted.
func (c *Core) ClearCompleted(done func(error)) {
	if !c.alive() {
		done(c.notLeader())
		return
	}
	c.propose("ClearCompleted", fsm.ClearCompleted{Meta: c.meta()}, func(fsm.Result) { done(nil) }, done)
}

// KillApplication see Service.KillApplication.
func (c *Core) KillApplication(id string, done func(bool, error)) {
	if !c.alive() {
		done(false, c.notLeader())
		return
	}
	if app := c.view().Application(id); app == nil || app.State.Finished() {
		done(false, nil)
		return
	}
	const reason = "killed by an operator"
	c.propose("FinishApplication", fsm.FinishApplication{Meta: c.meta(), AppID: id, State: fsm.AppKilled, Reason: reason},
		func(r fsm.Result) {
			known, _ := r.Value.(bool)
			if known {
				c.appEnded(id, fsm.AppKilled.String()+": "+reason)
			}
			done(known, nil)
		}, func(err error) { done(false, err) })
}

// DecommissionHosts see Service.DecommissionHosts.
func (c *Core) DecommissionHosts(hosts []string, done func(int, error)) {
	if !c.alive() {
		done(0, c.notLeader())
		return
	}
	var ids []string
	view := c.view()
	for _, host := range hosts {
		view.WorkersByHost(host, func(w *fsm.Worker) bool {
			ids = append(ids, w.ID)
			return true
		})
	}
	c.DecommissionWorkers(ids, done)
}

// DecommissionWorkers see Service.DecommissionWorkers.
func (c *Core) DecommissionWorkers(ids []string, done func(int, error)) {
	switch {
	case !c.alive():
		done(0, c.notLeader())
		return
	case !c.cfg.DecommissionEnabled:
		done(0, &DecommissionOffError{})
		return
	}
	ids = slices.Clone(ids)
	slices.Sort(ids)
	ids = slices.Compact(ids)
	if len(ids) == 0 {
		done(0, nil)
		return
	}
	c.propose("DecommissionWorkers", fsm.DecommissionWorkers{Meta: c.meta(), IDs: ids, Notify: true}, func(r fsm.Result) {
		res, _ := r.Value.(fsm.DecommissionResult)
		for _, id := range res.Changed {
			c.log.Info("Decommissioning worker "+id, "reason", "asked for by an operator")
			c.event("worker", id, "decommissioned by an operator")
		}
		done(res.Matched, nil)
		c.needPlan() // what its applications lost may start elsewhere at once (G-42)
	}, func(err error) { done(0, err) })
}

// UnmarkIncompatible see Service.UnmarkIncompatible.
func (c *Core) UnmarkIncompatible(workerID, appID string, done func(int, error)) {
	if !c.alive() {
		done(0, c.notLeader())
		return
	}
	c.propose("UnmarkIncompatible", fsm.UnmarkIncompatible{Meta: c.meta(), WorkerID: workerID, AppID: appID}, func(r fsm.Result) {
		n, _ := r.Value.(int)
		if w := c.workers[workerID]; w != nil && appID == "" {
			n += len(w.unreadable) // this leader's own experience: it is not replicated
			clear(w.unreadable)
		}
		if n > 0 {
			what := "all applications and drivers"
			if appID != "" {
				what = "application " + appID
			}
			c.log.Info("a worker is given work again that never came up there", "worker_id", workerID, "app_id", appID, "reason", "asked for by an operator")
			c.event("worker", workerID, "an operator lets work of "+what+" come again that never came up there")
			c.needPlan()
		}
		done(n, nil)
	}, func(err error) { done(0, err) })
}
