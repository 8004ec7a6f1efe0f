package master

import (
	"fmt"
	"slices"

	"raftmaster/fsm"
)

// mayWork tells whether new work may go to the worker: the planner goes by it, and workerNote explains it.
func (w *workerSoft) mayWork() bool {
	return w.usable && w.releaseKnown && w.unreachableSince.IsZero()
}

// workerNote says why a worker gets no new work from this leader; "" when it may.
func (c *Core) workerNote(w *fsm.Worker) string {
	soft := c.workers[w.ID]
	switch {
	case w.State != fsm.WorkerAlive:
		return ""
	case soft == nil:
		return "its registration is being answered"
	case soft.mayWork():
		return ""
	case !soft.unreachableSince.IsZero():
		return "its connection is lost; asking whether it lives"
	case !soft.usable:
		return "awaiting its list of executors"
	}
	return "finding out its Spark release"
}

// maxWhy bounds the applications that are explained at once: each costs a look at every usable worker.
const maxWhy = 100

// explain says for the first waiting applications why they have got no more executors.
func (c *Core) explain(view state) map[string]string {
	alive := 0
	var usable []*fsm.Worker
	view.Workers(func(w *fsm.Worker) bool {
		if w.State == fsm.WorkerAlive {
			alive++
			if c.workerNote(w) == "" {
				usable = append(usable, w)
			}
		}
		return true
	})
	out := map[string]string{}
	view.WantingApplications(func(a *fsm.Application) bool {
		out[a.ID] = whyWaiting(a, alive, usable)
		return len(out) < maxWhy
	})
	return out
}

func whyWaiting(a *fsm.Application, alive int, usable []*fsm.Worker) string {
	fitting := 0
	for _, w := range usable {
		_, bad := slices.BinarySearch(a.IncompatibleWorkers, w.ID)
		if !bad && compatible(a, w) {
			fitting++
		}
	}
	switch {
	case alive == 0:
		return "no worker is ALIVE"
	case len(usable) == 0:
		return fmt.Sprintf("none of %d ALIVE workers may be given work yet", alive)
	case fitting == 0:
		return fmt.Sprintf("none of %d workers runs the application's Spark release", len(usable))
	}
	for i := range a.Profiles {
		if p := &a.Profiles[i]; p.Executors < p.Target {
			return fmt.Sprintf("no worker of %d has %s free for another executor", fitting, describe(&p.Profile))
		}
	}
	return ""
}

// describe says what one executor of a profile needs.
func describe(p *fsm.Profile) string {
	cores := 1
	if p.Cores != nil {
		cores = *p.Cores
	}
	text := fmt.Sprintf("%d cores and %d MiB", cores, p.MemoryMB)
	for _, r := range p.Resources {
		text += fmt.Sprintf(" and %d %s", r.Amount, r.Name)
	}
	return text
}
