package master

import (
	"raftmaster/fsm"
	"raftmaster/transport/sparkmsg"
)

// workerList is what a worker says that it runs, with what this master knew when the list came.
type workerList struct {
	conn     Conn
	reported []fsm.ReportedExecutor
	drivers  []string
	// early: it is no answer to MasterChanged, and says nothing to a leader that waits for one.
	early bool
	// view is the state when the list came. What was booked later cannot be in the list.
	view state
	// listSeq is the outbox sequence of the message that the list answers.
	listSeq uint64
}

// takeList compares a worker's list with the books once this Core has dealt with everything that they hold. The state
// machine is ahead of the Core by a moment: what it has booked then is not launched yet, and would look as if the worker
// had never got it. The list waits for as long as the news that it waits for is on its way, which no later command draws
// out; a newer list of the same worker takes its place.
func (c *Core) takeList(w *workerSoft, l *workerList) {
	l.view, l.listSeq = c.view(), w.listSeq
	w.list = l
	if l.view.Index() <= c.handled {
		c.compareList(w)
		return
	}
	c.lists = append(c.lists, heldList{w, l})
}

// heldList is a list that waits. One that is no longer its worker's newest means nothing.
type heldList struct {
	w    *workerSoft
	list *workerList
}

// takeHeldLists compares the lists whose state has been dealt with; they wait in the order in which they came.
func (c *Core) takeHeldLists() {
	for len(c.lists) > 0 && c.lists[0].list.view.Index() <= c.handled {
		h := c.lists[0]
		c.lists = c.lists[1:]
		if c.workers[h.w.id] != h.w || h.w.list != h.list {
			continue
		}
		c.compareList(h.w)
		if !c.deps.Network.Attached(h.w.addr) {
			c.checkWorkerAlive(h.w) // its connection closed meanwhile: what the list says is older than that
		}
	}
}

func (c *Core) compareList(w *workerSoft) {
	l := w.list
	w.list = nil
	if l.early && w.await != nil {
		return
	}
	c.reconcile(w, l)
}

func driverIDs(list []sparkmsg.WorkerDriverStateResponse) []string {
	ids := make([]string, len(list))
	for i := range list {
		ids[i] = list[i].DriverID
	}
	return ids
}
