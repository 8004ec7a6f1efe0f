package master

import (
	"fmt"
	"time"

	"raftmaster/fsm"
	"raftmaster/transport/sparkmsg"
)

const (
	// MasterChanged is repeated until it is answered: after its first try a worker asks only its last master, and an
	// application never asks again, so the leader must reach them.
	firstRepeat = 100 * time.Millisecond
	lastRepeat  = 5 * time.Second
	// answerTime is about what one peer's answer costs the leader: repeating sooner than all of them can be dealt with would
	// only add to the work.
	answerTime = 200 * time.Microsecond
	// lateMessages is for how long a predecessor's messages may still arrive: the time after which unacknowledged data
	// closes a connection, and some.
	lateMessages = 36 * time.Second
	// lateAnswer allows for the clocks of two masters and for an answer's way, where a driver has surely given up.
	lateAnswer = 5 * time.Second
	// resendWindow is how far back a new leader looks for messages that its predecessor may have owed when it died.
	resendWindow = 60 * time.Second
)

// awaited is a peer that has not answered MasterChanged yet.
type awaited struct {
	since    time.Time
	deadline time.Time // when the leader acts without it
	repeat   *timer
	interval time.Duration
	sent     int
}

// stop ends the waiting; a nil awaited is allowed.
func (a *awaited) stop() {
	if a != nil {
		a.repeat.Stop()
	}
}

// takeOver brings every peer of the replicated tables to this leader. Nobody holds up anybody: registrations are served
// from this moment on.
func (c *Core) takeOver() {
	view := c.view()
	view.Workers(func(w *fsm.Worker) bool {
		soft := c.workerSoft(w.ID, fromFSMAddress(w.Address), sparkmsg.FamilySet(w.Families))
		soft.releaseKnown = soft.releaseKnown || w.Release != "" // known already in a second round of the same term
		c.awaitWorker(soft)
		if w.Live() {
			c.findWorkerRelease(soft)
		}
		return true
	})
	view.ActiveApplications(func(a *fsm.Application) bool {
		soft := c.appSoft(a.ID, fromFSMAddress(a.Driver), sparkmsg.FamilySet(a.Families))
		soft.releaseAsked = soft.releaseAsked || a.Release != ""
		c.awaitApp(soft)
		c.findAppRelease(soft, a.UIURL)
		return true
	})
	c.takeOverDrivers(view)
	c.resendOwed(view)
	c.after(answerPatience, c.probeSilent)
}

// remind repeats MasterChanged to a driver that has just acknowledged it. What an earlier leader wrote before it lost
// its lease may still be on its way, at most for as long as its kernel tries, and would lead the driver back to it; a
// driver then waits for ever.
func (c *Core) remind(a *appSoft) {
	if c.now().Sub(c.electedAt) > lateMessages {
		return
	}
	for _, d := range []time.Duration{lateMessages / 6, lateMessages} {
		c.after(d, func() {
			if c.apps[a.id] == a && a.attached && c.alive() {
				c.sendMasterChanged(a.addr, endpointAppClient, a.fam)
			}
		})
	}
}

// awaitWorker asks a worker for its list, again and again, until it answers.
func (c *Core) awaitWorker(w *workerSoft) {
	if w.await != nil {
		return
	}
	now := c.now()
	w.usable = false
	w.await = &awaited{since: now, deadline: now.Add(c.cfg.RecoveryTimeout), interval: c.firstPause()}
	first := c.sendMasterChanged(w.addr, endpointWorker, w.fam)
	w.listSeq = first
	c.repeatMasterChanged(w.await, func() { c.callAgain(w.addr, endpointWorker, w.fam) })
}

func (c *Core) awaitApp(a *appSoft) {
	if a.await != nil {
		return
	}
	now := c.now()
	a.await = &awaited{since: now, deadline: a.lastAnswer.Add(c.cfg.AppTimeout), interval: c.firstPause()}
	c.sendMasterChanged(a.addr, endpointAppClient, a.fam)
	c.repeatMasterChanged(a.await, func() { c.callAgain(a.addr, endpointAppClient, a.fam) })
}

// firstPause is the pause before the first repetition.
func (c *Core) firstPause() time.Duration {
	return min(max(firstRepeat, time.Duration(len(c.workers)+len(c.apps))*answerTime), lastRepeat)
}

// callAgain repeats MasterChanged. Where it found a connection this master finds out whether it can open one as well,
// before the peer can die unnoticed.
func (c *Core) callAgain(to sparkmsg.Address, endpoint string, fam sparkmsg.Family) {
	c.sendMasterChanged(to, endpoint, fam)
	if c.deps.Network.Attached(to) {
		c.learnReach(to, endpoint)
	}
}

func (c *Core) repeatMasterChanged(a *awaited, send func()) {
	a.sent++
	a.repeat = c.after(a.interval, func() {
		send()
		a.interval = min(2*a.interval, lastRepeat)
		c.repeatMasterChanged(a, send)
	})
}

func (c *Core) sendMasterChanged(to sparkmsg.Address, endpoint string, fam sparkmsg.Family) uint64 {
	return c.deps.Network.Send(to, endpoint, fam, &sparkmsg.MasterChanged{Master: c.selfRef(), MasterWebUIURL: c.cfg.WebUIURL})
}

// resendOwed repeats what the last leader may have owed when it died and what no list brings back: the end of
// applications, to workers and drivers, and the end of executors, to drivers. All of it is harmless when it comes twice.
func (c *Core) resendOwed(view state) {
	since := c.now().Add(-resendWindow).UnixMilli()
	var workers []*fsm.Worker
	view.Workers(func(w *fsm.Worker) bool { workers = append(workers, w); return true })
	view.CompletedApplications(func(a *fsm.Application) bool {
		if a.EndMillis < since {
			return true
		}
		for _, w := range workers {
			c.toWorker(w.Ref(), &sparkmsg.ApplicationFinished{ID: a.ID})
		}
		if a.State != fsm.AppFinished && view.ApplicationByDriver(a.Driver) == nil {
			c.askWhetherRemoved(a.Ref())
		}
		return true
	})
	view.ActiveApplications(func(a *fsm.Application) bool {
		c.resendEnds(view, a, since)
		return true
	})
}

// askWhetherRemoved lets a driver name its application, so that it is told of its end on that connection (endStranger).
// The news itself must not be queued for an address: a new driver there would take it for its own end.
func (c *Core) askWhetherRemoved(ref fsm.DriverRef) {
	c.sendMasterChanged(fromFSMAddress(ref.Address), endpointAppClient, pickFamily(sparkmsg.FamilySet(ref.Families)))
}

// resendEnds repeats to a driver which of its executors have ended since a moment.
func (c *Core) resendEnds(view state, a *fsm.Application, since int64) {
	view.RemovedExecutors(a.ID, func(e *fsm.RemovedExecutor) bool {
		if e.EndedAtMillis >= since {
			c.toApp(a.Ref(), executorEnded(e))
		}
		return true
	})
}

func executorEnded(e *fsm.RemovedExecutor) *sparkmsg.ExecutorUpdated {
	m := &sparkmsg.ExecutorUpdated{ID: int32(e.ID), State: sparkmsg.ExecutorState(e.State), ExitStatus: toInt32(e.ExitStatus)}
	if e.Message != "" {
		m.Message = &e.Message
	}
	if e.State == fsm.ExecutorLost {
		m.WorkerHost = &e.WorkerHost
	}
	return m
}

// workerSchedulerState handles a worker's answer to MasterChanged (B-157, B-168).
func (c *Core) workerSchedulerState(conn Conn, families sparkmsg.FamilySet, m *sparkmsg.WorkerSchedulerStateResponse) {
	if !c.leader {
		return
	}
	w := c.view().Worker(m.ID)
	if w == nil {
		c.peerWarn("scheduler state", m.ID, "Scheduler state from unknown worker: "+m.ID+". Asking it to re-register.")
		c.reconnectWorker(conn, families)
		return
	}
	soft := c.workerSoft(m.ID, fromFSMAddress(w.Address), families)
	soft.conn, soft.lastSeen = conn, c.now()
	conn.SetTrusted()
	reported := make([]fsm.ReportedExecutor, 0, len(m.ExecResponses))
	for i := range m.ExecResponses {
		r := toReported(&m.ExecResponses[i].Desc)
		r.Resources = toFSMResources(m.ExecResponses[i].Resources)
		reported = append(reported, r)
	}
	c.takeList(soft, &workerList{conn: conn, reported: reported, drivers: driverIDs(m.DriverResponses)})
}

// workerLatestState handles the list that follows RegisteredWorker (B-042). While the worker still owes its answer to
// MasterChanged this list kills nothing: workers send it early, before they have heard of the new leader.
func (c *Core) workerLatestState(conn Conn, families sparkmsg.FamilySet, m *sparkmsg.WorkerLatestState) {
	if !c.leader {
		return
	}
	soft := c.workers[m.ID]
	if soft == nil || c.view().Worker(m.ID) == nil {
		c.peerWarn("worker state", m.ID, "Worker state from unknown worker: "+m.ID+". Asking it to re-register.")
		c.reconnectWorker(conn, families)
		return
	}
	soft.lastSeen = c.now()
	if soft.await != nil {
		return
	}
	reported := make([]fsm.ReportedExecutor, 0, len(m.Executors))
	for i := range m.Executors {
		reported = append(reported, toReported(&m.Executors[i]))
	}
	c.takeList(soft, &workerList{conn: conn, reported: reported, drivers: m.DriverIDs, early: true})
}

// reconcile compares a worker's list with the replicated table and commits the difference. What was launched on the
// worker after the message that the list answers is not in the list yet, and is left alone; so is, until its time is
// over, a launch that may still be on its way on another connection.
func (c *Core) reconcile(w *workerSoft, list *workerList) {
	reported, view := list.reported, list.view
	listed := make(map[fsm.ExecutorKey]bool, len(reported))
	for i := range reported {
		key := fsm.ExecutorKey{AppID: reported[i].AppID, ExecID: reported[i].ExecID}
		listed[key] = true
		if l := w.launches[key]; l != nil {
			l.overdue.Stop()
		}
	}
	var missing []fsm.ExecutorKey
	changed := false
	first, _ := list.conn.Outbox()
	view.ExecutorsOfWorker(w.id, func(e *fsm.Executor) bool {
		key := e.Key()
		if listed[key] {
			delete(listed, key)
			changed = changed || e.State == fsm.ExecutorLaunching
			c.watchAgain(w, e)
			return true
		}
		switch l := w.launches[key]; {
		case l != nil && (l.seq >= list.listSeq || !e.Delivered && first > l.seq):
		case l != nil && l.suspect && e.State == fsm.ExecutorLaunching:
			c.markIncompatible(w.id, key)
		default:
			missing = append(missing, key)
		}
		return true
	})
	now := c.view().Worker(w.id)
	if now == nil {
		return
	}
	lost, news := c.compareDrivers(w, list)
	if len(missing) == 0 && len(listed) == 0 && !changed && len(lost) == 0 && !news && now.Live() {
		c.reconciled(w, 0, 0)
		return
	}
	c.propose("ReconcileWorker", fsm.ReconcileWorker{Meta: c.meta(), WorkerID: w.id, Reported: reported, Missing: missing,
		ReportedDrivers: list.drivers, MissingDrivers: lost, RequeueAtMillis: c.now().Add(c.lease()).UnixMilli()},
		func(r fsm.Result) {
			res := r.Value.(fsm.ReconcileResult)
			if !res.Known {
				return
			}
			if res.Revived {
				c.event("worker", w.id, "is back")
			}
			for _, key := range res.Ended {
				delete(w.launches, key)
			}
			for _, id := range res.EndedDrivers {
				c.forgetDriverLaunch(w, id)
			}
			c.driversLost(res.EndedDrivers)
			c.reconciled(w, len(res.Killed)+len(res.KilledDrivers), len(res.Ended)+len(res.EndedDrivers))
		}, c.again(func() {
			if c.workers[w.id] == w {
				c.awaitWorker(w) // it has said what it runs, and says it again only when it is asked
			}
		}))
}

func (c *Core) reconciled(w *workerSoft, killed, ended int) {
	if !w.attached {
		c.log.Info("Worker has been re-registered: "+w.id, "killed", killed, "ended", ended)
	}
	if killed+ended > 0 {
		c.event("worker", w.id, fmt.Sprintf("its list differed: %d executors and drivers killed, %d ended", killed, ended))
	}
	c.workerAttached(w)
	w.usable = true
	c.learnReach(w.addr, endpointWorker)
	c.findWorkerRelease(w)
	c.needPlan()
}

// masterChangeAcknowledged handles a driver's answer to MasterChanged (B-117, B-156). A null id says that the
// application never got the answer to its registration.
func (c *Core) masterChangeAcknowledged(conn Conn, from *sparkmsg.Address, families sparkmsg.FamilySet, m *sparkmsg.MasterChangeAcknowledged) {
	if !c.leader {
		return
	}
	view := c.view()
	if m.AppID == "" {
		if from == nil {
			return
		}
		app := view.ApplicationByDriver(toFSMAddress(*from))
		if app == nil {
			c.registerKept(conn, *from)
			return
		}
		if c.settleClaim(conn, app, "") || c.anotherRegisters(*from, app) {
			return
		}
		if app.Confirmed || c.now().Sub(time.UnixMilli(app.StartMillis)) > keepFor+lateAnswer {
			// The driver of that application knows its id, or has given up long ago. This is a new driver at its address; it
			// will register.
			c.peerInfo("unregistered driver", from.String(), "an unregistered driver answers at the address of an application", "driver", from.String(), "app_id", app.ID)
			return
		}
		soft := c.appSoft(app.ID, *from, families)
		c.appBack(soft)
		c.answerRegistration(soft)
		return
	}
	if from != nil {
		c.dropKept(*from) // it has an application
	}
	app := view.Application(m.AppID)
	if app == nil || app.State.Finished() {
		c.peerWarn("unknown ack", m.AppID, "Master change ack from unknown app: "+m.AppID)
		c.endStranger(conn, from, families, m.AppID, app)
		return
	}
	conn.SetTrusted()
	soft := c.appSoft(app.ID, fromFSMAddress(app.Driver), families)
	if !soft.attached {
		c.log.Info("Application has been re-registered: " + app.ID)
	}
	c.heardFrom(app)
	c.settleClaim(conn, app, m.AppID)
	c.appBack(soft)
}

func (c *Core) appBack(a *appSoft) {
	c.appAttached(a)
	c.learnReach(a.addr, endpointAppClient)
	if app := c.view().Application(a.id); app != nil {
		c.findAppRelease(a, app.UIURL)
		c.catchUpApp(a, app)
	}
	c.needPlan()
}

// endStranger deals with a driver that names an application which is not active. The application that we hold at its
// address, if any, is then not its: that one's driver is gone.
func (c *Core) endStranger(conn Conn, from *sparkmsg.Address, families sparkmsg.FamilySet, id string, app *fsm.Application) {
	state := fsm.AppFailed
	if app != nil {
		state = app.State
	}
	if state != fsm.AppFinished { // a driver that ended in order is stopping by itself
		c.say(conn, endpointAppClient, families, &sparkmsg.ApplicationRemoved{Message: state.String()})
	}
	if from == nil {
		return
	}
	if held := c.view().ApplicationByDriver(toFSMAddress(*from)); held != nil && held.ID != id {
		c.finishApplication(held.ID, fsm.AppFailed, "another driver answers at "+from.String())
	}
}
