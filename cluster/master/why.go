package master

import "raftmaster/fsm"

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
