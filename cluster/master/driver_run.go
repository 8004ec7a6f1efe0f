package master

import (
	"fmt"
	"strings"
	"time"

	"raftmaster/fsm"
	"raftmaster/transport/sparkmsg"
)

const (
	// killRepeat is how often a worker is asked again to end a driver that is still there (G-36). A worker takes up to
	// twice spark.worker.driverTerminateTimeout (10 s) for one, and hears nothing meanwhile.
	killRepeat = 30 * time.Second
	// maxExceptions bounds the exceptions that are kept as they came, maxExceptionBytes each of them.
	maxExceptions     = 128
	maxExceptionBytes = 64 << 10
	// defaultLease is how long a predecessor may have gone on to send, if the Config does not say.
	defaultLease = 500 * time.Millisecond
)

// sendDriver tells a worker to start a driver, once: a launch is never repeated, and this one names no master, so that a
// worker cannot refuse a stale one (S19). It reports whether it was sent.
func (c *Core) sendDriver(e *fsm.LaunchDriver) bool {
	w := c.workers[e.Worker.ID]
	d := c.view().Driver(e.DriverID)
	switch {
	case d == nil || d.State.Finished() || d.WorkerID != e.Worker.ID:
		return false // ended meanwhile
	case w == nil || !c.deps.Network.Attached(w.addr):
		// What waits for a connection may reach another process at the worker's address, which would run it.
		c.log.Warn("a driver is not launched: its worker has lost its connection", "driver_id", e.DriverID, "worker_id", e.Worker.ID)
		if w != nil {
			w.drivers[e.DriverID] = &launch{unsent: true} // where that is not committed, the worker's next list puts it back
			c.checkWorkerAlive(w)                         // the news of its connection may be behind much else: no other launch meanwhile
		}
		c.takeBackLaunch(e.Worker.ID, e.DriverID)
		return false
	case c.dropped:
		w.drivers[e.DriverID] = &launch{unsent: true}
		return false // the list that the worker is about to be asked for puts it back, since it was never sent
	}
	desc, err := c.driverDescription(e, w.fam)
	if err != nil {
		c.log.Error("a driver cannot be launched: its description cannot be read", "driver_id", e.DriverID, "error", err)
		c.proposeDriverEnd(fsm.DriverChanged{DriverID: e.DriverID, WorkerID: e.Worker.ID, State: fsm.DriverStateError,
			Exception: "the master cannot read its description: " + err.Error()}, nil)
		return false
	}
	c.log.Info(fmt.Sprintf("Launching driver %s on worker %s", e.DriverID, e.Worker.ID))
	c.event("driver", e.DriverID, "launched on "+e.Worker.ID)
	seq := c.deps.Network.Send(w.addr, endpointWorker, w.fam, &sparkmsg.LaunchDriver{
		DriverID: e.DriverID, DriverDesc: desc, Resources: fromFSMResources(e.Resources)})
	c.driverLaunched(w, e.DriverID, seq)
	return true
}

// driverDescription gives a driver's description in a form that a worker of a family can read. What came over RPC goes
// as it came; what the REST gateway made is the same for all families.
func (c *Core) driverDescription(e *fsm.LaunchDriver, fam sparkmsg.Family) (*sparkmsg.DriverDescription, error) {
	desc, err := sparkmsg.ParseDriverDescription(e.Payload)
	if err != nil {
		return nil, err
	}
	if c.cfg.UseDriverIDAsAppName {
		if err := nameAfterDriver(desc, e.DriverID, fam); err != nil {
			c.log.Warn("a driver's application keeps its own name", "driver_id", e.DriverID, "error", err)
		}
	}
	raw, err := desc.MarshalPayload()
	if err != nil {
		return nil, err
	}
	families, err := sparkmsg.PayloadFamilies(raw)
	if err != nil {
		return nil, err
	}
	if fam != sparkmsg.FamilyUnknown && !families.Has(fam) {
		err = desc.Bind(fam)
	}
	return desc, err
}

// driverLaunched watches over a launch. A worker never says that a driver runs; it lists it.
func (c *Core) driverLaunched(w *workerSoft, id string, seq uint64) {
	c.watchDriver(w, id, &launch{seq: seq, at: c.now()}, runningTimeout)
}

// inheritLaunches waits for the launches of earlier leaders that no worker has confirmed. One that was written may still
// be on its way, as long as a kernel tries to deliver it, and a worker starts whatever arrives: only after that does a
// list that does not name the driver prove that nobody will start it.
func (c *Core) inheritLaunches() {
	c.view().Drivers(func(d *fsm.Driver) bool {
		if w := c.workers[d.WorkerID]; w != nil && d.State == fsm.DriverStateRunning && !d.Delivered {
			c.watchDriver(w, d.ID, &launch{at: c.now(), inherited: true}, lateMessages)
		}
		return true
	})
}

// watchDriver asks for a worker's list when a launch is still not confirmed after a time.
func (c *Core) watchDriver(w *workerSoft, id string, l *launch, patience time.Duration) {
	w.drivers[id] = l
	l.overdue = c.after(patience, func() {
		if d := c.view().Driver(id); c.workers[w.id] == w && w.drivers[id] == l && d != nil && d.State == fsm.DriverStateRunning && d.WorkerID == w.id {
			l.suspect = true
			c.awaitWorker(w) // its list shows whether the launch arrived and could be read
		}
	})
}

// takeBackLaunch puts a driver whose launch was not sent back to the queue.
func (c *Core) takeBackLaunch(workerID, driverID string) {
	cmd := fsm.ReconcileWorker{Meta: c.meta(), WorkerID: workerID, MissingDrivers: []string{driverID},
		RequeueAtMillis: c.now().UnixMilli(), Unasked: true}
	c.propose("ReconcileWorker", cmd, func(fsm.Result) {
		if w := c.workers[workerID]; w != nil {
			c.forgetDriverLaunch(w, driverID)
		}
		c.needPlan()
	}, nil)
}

// driverChanged handles DriverStateChanged (B-137). It is one-way: what is not committed is proposed again as long as
// this master leads.
func (c *Core) driverChanged(from *sparkmsg.Address, m *sparkmsg.DriverStateChanged) {
	if !c.leader {
		return
	}
	if !m.State.Finished() {
		c.peerWarn("driver state", m.DriverID, fmt.Sprintf("Received unexpected state update for driver %s: %s", m.DriverID, m.State), "driver_id", m.DriverID)
		return
	}
	var w *fsm.Worker
	if from != nil {
		w = c.view().WorkerByAddress(toFSMAddress(*from))
	}
	if w == nil {
		c.peerWarn("driver state of a stranger", m.DriverID, "a report about a driver came from nobody that holds one; it is ignored", "driver_id", m.DriverID, "from", fmt.Sprint(from))
		return
	}
	if soft := c.workers[w.ID]; soft != nil {
		soft.lastSeen = c.now()
		c.forgetDriverLaunch(soft, m.DriverID)
	}
	cmd := fsm.DriverChanged{DriverID: m.DriverID, WorkerID: w.ID, State: fsm.DriverState(m.State)}
	if m.Exception != nil {
		cmd.Exception = firstBytes(m.Exception.Error(), fsm.MaxTextBytes)
	}
	c.proposeDriverEnd(cmd, m.Exception)
}

// proposeDriverEnd commits the end of a driver, again until it is committed.
func (c *Core) proposeDriverEnd(cmd fsm.DriverChanged, exception *sparkmsg.Exception) {
	cmd.Meta = c.meta()
	c.propose("DriverChanged", cmd, func(r fsm.Result) {
		if !r.Value.(fsm.DriverChangedResult).Known {
			c.peerWarn("unknown driver", cmd.DriverID, "Asked to remove unknown driver: "+cmd.DriverID, "driver_id", cmd.DriverID, "worker_id", cmd.WorkerID, "state", cmd.State.String())
			return
		}
		c.log.Info("Removing driver: "+cmd.DriverID, "state", cmd.State.String(), "exception", cmd.Exception)
		detail := cmd.State.String()
		if cmd.Exception != "" {
			detail += ": " + cmd.Exception
		}
		c.event("driver", cmd.DriverID, detail)
		c.keepException(cmd.DriverID, exception)
		c.needPlan()
	}, c.again(func() { c.proposeDriverEnd(cmd, exception) }))
}

// keepException remembers an exception as it came; the text alone is replicated.
func (c *Core) keepException(id string, e *sparkmsg.Exception) {
	if e == nil || e.Graph == nil {
		return
	}
	if raw, err := e.MarshalPayload(); err != nil || len(raw) > maxExceptionBytes {
		return
	}
	s := &c.drivers
	if len(s.order) >= maxExceptions {
		delete(s.exceptions, s.order[0])
		s.order = s.order[1:]
	}
	s.exceptions[id] = e
	s.order = append(s.order, id)
}

func (c *Core) forgetDriverLaunch(w *workerSoft, id string) {
	if l := w.drivers[id]; l != nil {
		l.overdue.Stop()
		delete(w.drivers, id)
	}
}

// scanKills repeats the wish to end drivers that are still there (G-36): a worker that lost the message would run them
// for ever. It asks for the worker's list as well: of a driver whose end was reported to nobody nothing else would tell.
func (c *Core) scanKills(view state, now time.Time) {
	for _, id := range sortedKeys(c.drivers.kills) {
		d := view.Driver(id)
		if d == nil || d.State != fsm.DriverStateRunning {
			delete(c.drivers.kills, id)
			continue
		}
		w := c.workers[d.WorkerID]
		if now.Sub(c.drivers.kills[id]) < killRepeat || w == nil || !c.deps.Network.Attached(w.addr) {
			continue
		}
		c.drivers.kills[id] = now
		c.log.Warn("a driver that is to end is still there; its worker is asked again", "driver_id", id, "worker_id", w.id)
		c.deps.Network.Send(w.addr, endpointWorker, w.fam, &sparkmsg.KillDriver{DriverID: id})
		c.awaitWorker(w)
	}
}

// takeOverDrivers takes over the wishes of the last leader: it may have died before its KillDriver was sent.
func (c *Core) takeOverDrivers(view state) {
	view.Drivers(func(d *fsm.Driver) bool {
		if d.KillRequested && d.State == fsm.DriverStateRunning {
			c.drivers.kills[d.ID] = time.Time{} // due at once
		}
		return true
	})
}

// compareDrivers compares a worker's list of drivers with the books, by the rules of executors. It returns what the
// worker should have and does not list, and whether the list says anything that is not in the books.
func (c *Core) compareDrivers(w *workerSoft, list *workerList) (missing []string, news bool) {
	listed := make(map[string]bool, len(list.drivers))
	for _, id := range list.drivers {
		listed[id] = true
	}
	first, _ := list.conn.Outbox()
	var read []*fsm.Driver // their launches have certainly reached the worker, and so has the question after them
	list.view.DriversOnWorker(w.id, func(d *fsm.Driver) bool {
		l := w.drivers[d.ID]
		switch {
		case listed[d.ID]:
			delete(listed, d.ID)
			news = news || !d.Delivered || d.KillRequested
			if l != nil {
				l.overdue.Stop()
			}
		case l == nil && !d.Delivered:
			// its end has been reported, and is about to be booked
		case l != nil && !l.unsent && (!l.inherited && l.seq >= list.listSeq || !d.Delivered && (l.inherited || first > l.seq) && !l.suspect):
			// launched after the question that this list answers, or on another connection, where it may be on its way
		default:
			proven := l != nil && !l.unsent && !l.inherited && first <= l.seq
			if proven && l.suspect && !d.KillRequested { // else it may have ended before any list
				c.cannotRead(w, d)
			}
			if proven && !d.Delivered {
				read = append(read, d)
				break
			}
			missing = append(missing, d.ID)
		}
		return true
	})
	if len(read) > 0 {
		c.endRead(w, read)
	}
	return missing, news || len(listed) > 0
}

// endRead ends drivers whose launches a worker has certainly read and which it does not list: started and ended, or not
// readable. In no case is one to be started once more under its id, so that nobody is told that it is missing before it
// is committed that the launch arrived.
func (c *Core) endRead(w *workerSoft, read []*fsm.Driver) {
	ids := make([]string, len(read))
	for i, d := range read {
		ids[i] = d.ID
	}
	askAgain := c.again(func() {
		if c.workers[w.id] == w {
			c.awaitWorker(w) // it says again what it runs only when it is asked
		}
	})
	c.propose("LaunchReceipts", fsm.LaunchReceipts{Meta: c.meta(), WorkerID: w.id, Drivers: ids}, func(fsm.Result) {
		view := c.view()
		cmd := fsm.ReconcileWorker{Meta: c.meta(), WorkerID: w.id, Unasked: true, RequeueAtMillis: c.now().Add(c.lease()).UnixMilli()}
		for _, old := range read {
			// Still the launch that the list was about.
			if d := view.Driver(old.ID); d != nil && d.Delivered && d.WorkerID == w.id && d.LaunchedAtMillis == old.LaunchedAtMillis {
				cmd.MissingDrivers = append(cmd.MissingDrivers, d.ID)
			}
		}
		if len(cmd.MissingDrivers) == 0 {
			return
		}
		c.propose("ReconcileWorker", cmd, func(r fsm.Result) {
			ended := r.Value.(fsm.ReconcileResult).EndedDrivers
			for _, id := range ended {
				c.forgetDriverLaunch(w, id)
			}
			c.driversLost(ended)
			if len(ended) > 0 {
				c.event("worker", w.id, fmt.Sprintf("its list differed: %d drivers ended", len(ended)))
			}
			c.needPlan()
		}, askAgain)
	}, askAgain)
}

// cannotRead notes that a worker received the launch of a driver and then neither reported nor listed it, on the same
// connection: it is of a release that cannot read it, and nobody could tell before. A supervised driver would come back
// to it for ever. The next leader, or the next process, is given another try.
func (c *Core) cannotRead(w *workerSoft, d *fsm.Driver) {
	if w.unreadable[d.Families] {
		return
	}
	w.unreadable[d.Families] = true
	text := "does not start drivers like " + d.ID + ": its Spark release may not fit theirs; it gets no more of them"
	c.log.Warn("a worker received the launch of a driver and never listed it; it gets no more drivers of that release", "worker_id", w.id, "driver_id", d.ID)
	c.event("worker", w.id, text)
}

// driverPlaceable tells whether a driver may be placed on a worker.
func (c *Core) driverPlaceable(d *fsm.Driver, w *fsm.Worker) bool {
	soft := c.workers[w.ID]
	return driverCompatible(d, w) && (soft == nil || !soft.unreadable[d.Families])
}

// driversLost tells operators what became of the drivers of a worker that was lost, or did not have them.
func (c *Core) driversLost(ids []string) {
	view := c.view()
	for _, id := range ids {
		d := view.Driver(id)
		switch {
		case d == nil:
		case d.Successor != "":
			c.log.Warn(fmt.Sprintf("Re-launching %s as %s", id, d.Successor), "reason", d.EndReason)
			c.event("driver", id, "relaunched as "+d.Successor+": "+d.EndReason)
		case d.State.Finished():
			c.log.Warn(fmt.Sprintf("Did not re-launch %s because it was not supervised", id), "state", d.State.String(), "reason", d.EndReason)
			c.event("driver", id, d.State.String()+": "+d.EndReason)
		default:
			c.event("driver", id, "waits again: its launch did not arrive")
		}
	}
}

func (c *Core) driversOf(view state, workerID string) (ids []string) {
	view.DriversOnWorker(workerID, func(d *fsm.Driver) bool {
		ids = append(ids, d.ID)
		return true
	})
	return ids
}

// warnDrivers says once which waiting drivers fit nowhere (G-54, G-56), and that a limit holds others back.
func (c *Core) warnDrivers(hopeless []string, overLimit int) {
	c.drivers.warned = c.sayHopeless("driver", "Driver", hopeless, c.drivers.warned)
	if overLimit > 0 && !c.drivers.limitWarned {
		c.log.Warn("waiting drivers are held back by spark.deploy.maxDrivers", "drivers", overLimit, "limit", c.cfg.MaxDrivers)
		c.event("driver", "", fmt.Sprintf("%d wait because spark.deploy.maxDrivers is %d", overLimit, c.cfg.MaxDrivers))
	}
	c.drivers.limitWarned = overLimit > 0
}

// firstBytes bounds a text without leaving half a character.
func firstBytes(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "")
}

func (c *Core) lease() time.Duration {
	if c.cfg.Lease > 0 {
		return c.cfg.Lease
	}
	return defaultLease
}
