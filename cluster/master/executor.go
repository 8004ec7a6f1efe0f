package master

import (
	"fmt"
	"time"

	"raftmaster/fsm"
	"raftmaster/transport/sparkmsg"
)

const (
	// runningTimeout is how long an executor may take from its launch to RUNNING, which a worker reports as soon as the
	// process exists. A worker that cannot read the launch, being of another release, stays silent.
	runningTimeout = 30 * time.Second
	// receiptTimeout is how long the leader waits for the receipt of a batch of launches.
	receiptTimeout = 30 * time.Second
)

// launch is an executor that this leader told a worker to start.
type launch struct {
	seen    bool   // the worker has reported a state of the executor since: RUNNING counts as a receipt
	seq     uint64 // place in the worker's outbox
	at      time.Time
	overdue *timer
	// suspect: it was not RUNNING in time, and the worker's next list tells whether the worker could read the launch.
	suspect bool
	// inherited: it was booked by an earlier leader, which may have sent it.
	inherited bool
	// unsent: it was never sent, and the worker's next list is to say so.
	unsent bool
}

// executorChanged handles ExecutorStateChanged (B-122 to B-128). The worker asks again, and in the end exits, unless it
// is answered: every path replies.
func (c *Core) executorChanged(from *sparkmsg.Address, m *sparkmsg.ExecutorStateChanged, reply func(sparkmsg.Message, error)) {
	view := c.view()
	key := fsm.ExecutorKey{AppID: m.AppID, ExecID: int(m.ExecID)}
	worker := ""
	if from != nil {
		if w := view.WorkerByAddress(toFSMAddress(*from)); w != nil {
			worker = w.ID
			if soft := c.workers[worker]; soft != nil {
				soft.lastSeen = c.now()
			}
			c.launchSeen(worker, key, m.State)
		}
	}
	e := view.Executor(key)
	if e == nil {
		c.peerWarn("unknown executor", key.String(), fmt.Sprintf("Got status update for unknown executor %s/%d", m.AppID, m.ExecID), "state", m.State.String())
		if w := view.Worker(worker); w != nil && !m.State.Finished() {
			// A launch that was written off has arrived after all.
			c.toWorker(w.Ref(), &sparkmsg.KillExecutor{MasterURL: c.cfg.masterURL(), AppID: m.AppID, ExecID: m.ExecID})
		}
		c.replyFromState(reply, true)
		return
	}
	if e.WorkerID != worker {
		// Only the worker that holds an executor knows about it. The sender must not ask again.
		c.peerWarn("not the holder", key.String(), "a report about an executor came from somebody who does not hold it; it is ignored",
			"app_id", m.AppID, "executor_id", m.ExecID, "from", fmt.Sprint(from), "state", m.State.String())
		c.replyFromState(reply, true)
		return
	}
	cmd := fsm.ExecutorChanged{
		Meta: c.meta(), AppID: m.AppID, ExecID: int(m.ExecID), WorkerID: worker,
		State: fsm.ExecutorState(m.State), Message: m.Message, ExitStatus: toInt(m.ExitStatus),
	}
	c.propose("ExecutorChanged", cmd, func(r fsm.Result) {
		res := r.Value.(fsm.ExecutorChangedResult)
		if res.Known && m.State.Finished() {
			c.log.Info(fmt.Sprintf("Removing executor %s/%d because it is %s", m.AppID, m.ExecID, m.State))
		}
		if res.AppFailed {
			c.log.Error(fmt.Sprintf("Application with ID %s failed %d times; removing it", m.AppID, c.cfg.Settings.MaxExecutorRetries))
			c.appEnded(m.AppID, "FAILED: too many executor failures")
		}
		reply(&sparkmsg.Boolean{Value: true}, nil)
		c.needPlan()
	}, func(err error) { reply(nil, err) })
}

// launched notes what was just sent to a worker; receipts are asked for behind the whole batch.
func (c *Core) launched(w *workerSoft, key fsm.ExecutorKey, seq uint64) {
	term := c.term
	w.launches[key] = &launch{seq: seq, at: c.now(), overdue: c.after(runningTimeout, func() {
		if c.term == term {
			c.launchOverdue(w.id, key)
		}
	})}
}

// askReceipt asks, behind a batch of launches and on the same connection, whether the worker exists: its answer shows
// which launches have arrived. The receipt is committed, so that a later leader knows it as well.
func (c *Core) askReceipt(w *workerSoft, sent *launches) {
	term := c.term
	c.deps.Network.Receipt(w.addr, endpointWorker, w.fam, receiptTimeout, func(r Receipt, err error) {
		if err != nil || !r.Exists || !c.leader || c.term != term {
			return // without a receipt launchOverdue or the worker's next list settles what became of them
		}
		w.lastSeen = c.now()
		covers := func(l *launch) bool { return l != nil && r.First <= l.seq && l.seq < r.Last }
		cmd := fsm.LaunchReceipts{Meta: c.meta(), WorkerID: w.id}
		for _, key := range sent.executors {
			if l := w.launches[key]; covers(l) && !l.seen { // a state that the worker has reported says as much
				cmd.Executors = append(cmd.Executors, key)
			}
		}
		for _, id := range sent.drivers {
			if covers(w.drivers[id]) {
				cmd.Drivers = append(cmd.Drivers, id)
			}
		}
		if len(cmd.Executors)+len(cmd.Drivers) > 0 {
			c.propose("LaunchReceipts", cmd, func(fsm.Result) {}, nil)
		}
	})
}

// launchOverdue deals with an executor that is not RUNNING in time. Not delivered means that nothing was started.
// Delivered and not listed means that the worker could not read the launch: the pair is not tried again.
func (c *Core) launchOverdue(workerID string, key fsm.ExecutorKey) {
	w := c.workers[workerID]
	if w == nil {
		return
	}
	w.hear()
	e := c.view().Executor(key)
	if e == nil || e.WorkerID != workerID || e.State == fsm.ExecutorRunning {
		return
	}
	// A worker refuses in silence what reaches it after it was decommissioned, or while it takes another master for its
	// own (B-047, B-068, G-34). Only one that sends its heartbeats here has had a chance to run the executor.
	l := w.launches[key]
	if !e.Delivered || e.State == fsm.ExecutorDecommissioned || l == nil || !w.beatAt.After(l.at) {
		c.log.Warn("a launch was never received or was refused; it is ended", "app_id", key.AppID, "executor_id", key.ExecID, "worker_id", workerID)
		c.propose("ReconcileWorker", fsm.ReconcileWorker{Meta: c.meta(), WorkerID: workerID, Missing: []fsm.ExecutorKey{key}, Unasked: true},
			func(fsm.Result) { c.needPlan() }, c.again(func() { c.launchOverdue(workerID, key) }))
		return
	}
	// Its RUNNING may be held up by the network, or its process be slow to start: a worker that could read the launch lists
	// the executor.
	l.suspect = true
	c.awaitWorker(w)
}

// markIncompatible ends an executor that its worker does not list although it received the launch: it could not read it.
func (c *Core) markIncompatible(workerID string, key fsm.ExecutorKey) {
	reason := fmt.Sprintf("executor was not RUNNING within %d s on worker %s: the worker's Spark release may not fit the application's", int(runningTimeout.Seconds()), workerID)
	c.log.Warn("an executor did not run in time; this worker gets no more of this application", "app_id", key.AppID, "executor_id", key.ExecID, "worker_id", workerID)
	c.propose("MarkIncompatible", fsm.MarkIncompatible{Meta: c.meta(), AppID: key.AppID, ExecID: key.ExecID, WorkerID: workerID, Reason: reason},
		func(fsm.Result) {
			c.event("app", key.AppID, reason)
			c.needPlan()
		}, c.again(func() { c.markIncompatible(workerID, key) }))
}

// watchAgain gives an executor that is slow to start, but listed by its worker, some more time.
func (c *Core) watchAgain(w *workerSoft, e *fsm.Executor) {
	l := w.launches[e.Key()]
	if l == nil || !l.suspect || e.State != fsm.ExecutorLaunching {
		return
	}
	delete(w.launches, e.Key())
	c.launched(w, e.Key(), l.seq)
}

// launchSeen ends the watch over a launch of which the worker has spoken. Its place in the outbox is kept while the
// executor lives: a list that was made before the launch may still be on its way.
func (c *Core) launchSeen(workerID string, key fsm.ExecutorKey, state sparkmsg.ExecutorState) {
	switch {
	case state == sparkmsg.ExecutorLaunching:
	case state.Finished():
		c.forgetLaunch(workerID, key)
	default:
		if w := c.workers[workerID]; w != nil && w.launches[key] != nil {
			w.launches[key].overdue.Stop()
			w.launches[key].seen = true
		}
	}
}

// forgetLaunch drops the watch over a launch whose end is known.
func (c *Core) forgetLaunch(workerID string, key fsm.ExecutorKey) {
	if w := c.workers[workerID]; w != nil {
		if l := w.launches[key]; l != nil {
			l.overdue.Stop()
			delete(w.launches, key)
		}
	}
}
