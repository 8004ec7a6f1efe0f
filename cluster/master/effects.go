package master

import (
	"fmt"

	"raftmaster/fsm"
	"raftmaster/transport/sparkmsg"
)

// sendEffects tells the peers what a committed command means for them, in the order of the log. Receipts are asked for
// once per worker, behind all launches of the command.
func (c *Core) sendEffects(effects []fsm.Effect) {
	var batch []*launches // one for each worker that got some, in the order of the first
	byWorker := map[string]*launches{}
	of := func(id string) *launches {
		b := byWorker[id]
		if b == nil {
			b = &launches{workerID: id}
			byWorker[id] = b
			batch = append(batch, b)
		}
		return b
	}
	for _, effect := range effects {
		switch e := effect.(type) {
		case fsm.LaunchExecutor:
			if c.sendLaunch(&e) {
				b := of(e.Worker.ID)
				b.executors = append(b.executors, fsm.ExecutorKey{AppID: e.AppID, ExecID: e.ExecID})
			}
		case fsm.LaunchDriver:
			if c.sendDriver(&e) {
				b := of(e.Worker.ID)
				b.drivers = append(b.drivers, e.DriverID)
			}
		case fsm.KillDriver:
			c.toWorker(e.Worker, &sparkmsg.KillDriver{DriverID: e.DriverID})
		case fsm.KillExecutor:
			c.forgetLaunch(e.Worker.ID, fsm.ExecutorKey{AppID: e.AppID, ExecID: e.ExecID})
			c.toWorker(e.Worker, &sparkmsg.KillExecutor{MasterURL: c.cfg.masterURL(), AppID: e.AppID, ExecID: int32(e.ExecID)})
		case fsm.ExecutorAdded:
			c.toApp(e.Driver, &sparkmsg.ExecutorAdded{
				ID: int32(e.ExecID), WorkerID: e.WorkerID, HostPort: e.HostPort, Cores: int32(e.Cores), Memory: int32(e.MemoryMB)})
		case fsm.ExecutorUpdated:
			c.toApp(e.Driver, &sparkmsg.ExecutorUpdated{
				ID: int32(e.ExecID), State: sparkmsg.ExecutorState(e.State), Message: e.Message, ExitStatus: toInt32(e.ExitStatus), WorkerHost: e.WorkerHost})
		case fsm.WorkerRemoved:
			msg := &sparkmsg.WorkerRemoved{ID: e.WorkerID, Host: e.Host, Message: e.Message}
			for _, d := range e.Drivers {
				c.toApp(d, msg)
			}
		case fsm.ApplicationRemoved:
			c.appRemoved(e.Driver, e.State)
		case fsm.ApplicationFinished:
			msg := &sparkmsg.ApplicationFinished{ID: e.AppID}
			for _, w := range e.Workers {
				c.toWorker(w, msg)
			}
		case fsm.DecommissionWorker:
			c.toWorker(e.Worker, &sparkmsg.DecommissionWorker{})
		default:
			c.log.Error("the state machine owes a message that this release cannot send", "effect", fmt.Sprintf("%T", effect))
		}
	}
	for _, b := range batch {
		if w := c.workers[b.workerID]; w != nil {
			c.askReceipt(w, b)
		}
	}
}

// launches are what one command has started on one worker.
type launches struct {
	workerID  string
	executors []fsm.ExecutorKey
	drivers   []string
}

// toWorker queues a message for a worker. A worker that this term has not met yet is addressed as the table says.
func (c *Core) toWorker(ref fsm.WorkerRef, msg sparkmsg.Message) uint64 {
	fam := pickFamily(sparkmsg.FamilySet(ref.Families))
	if w := c.workers[ref.ID]; w != nil && w.fam != sparkmsg.FamilyUnknown {
		fam = w.fam
	}
	return c.deps.Network.Send(fromFSMAddress(ref.Address), endpointWorker, fam, msg)
}

// appRemoved tells a driver that its application was ended, unless its driver is known to be gone.
func (c *Core) appRemoved(ref fsm.DriverRef, state fsm.AppState) {
	a := c.apps[ref.AppID]
	switch {
	case c.gone[ref.AppID]:
		delete(c.gone, ref.AppID)
	case a != nil && a.away, !c.deps.Network.Attached(fromFSMAddress(ref.Address)):
		c.askWhetherRemoved(ref)
	default:
		c.toApp(ref, &sparkmsg.ApplicationRemoved{Message: state.String()})
	}
}

func (c *Core) toApp(ref fsm.DriverRef, msg sparkmsg.Message) {
	fam := pickFamily(sparkmsg.FamilySet(ref.Families))
	a := c.apps[ref.AppID]
	if a != nil && a.away {
		a.missed = true
		return
	}
	if a != nil && a.fam != sparkmsg.FamilyUnknown {
		fam = a.fam
	}
	c.deps.Network.Send(fromFSMAddress(ref.Address), endpointAppClient, fam, msg)
}

// sendLaunch tells a worker to start an executor, once: a launch is never repeated. It reports whether it was sent.
func (c *Core) sendLaunch(e *fsm.LaunchExecutor) bool {
	w := c.workers[e.Worker.ID]
	app := c.view().Application(e.AppID)
	if app == nil || app.State.Finished() {
		return false // finished meanwhile; the kill that comes with that finds nothing
	}
	if w != nil && !c.deps.Network.Attached(w.addr) {
		// What waits for a connection may reach another process at the worker's address, which would run it.
		c.log.Warn("an executor is not launched: its worker has lost its connection", "app_id", e.AppID, "executor_id", e.ExecID, "worker_id", w.id)
		c.checkWorkerAlive(w) // the news of its connection may be behind much else: no other launch meanwhile
		c.propose("ReconcileWorker", fsm.ReconcileWorker{Meta: c.meta(), WorkerID: w.id,
			Missing: []fsm.ExecutorKey{{AppID: e.AppID, ExecID: e.ExecID}}, Unasked: true}, func(fsm.Result) {}, nil)
		return false
	}
	if c.dropped {
		return false // the list that the worker is about to be asked for ends it, since it was never sent
	}
	desc, err := c.description(app, e.Payload)
	if w == nil || err != nil {
		// Cannot happen for what this leader planned. It is not silent, and the overdue rule of the next leader, or the
		// worker's next list, ends the executor.
		c.log.Error("an executor was booked that cannot be launched", "app_id", e.AppID, "executor_id", e.ExecID, "worker_id", e.Worker.ID, "error", err)
		c.propose("ReconcileWorker", fsm.ReconcileWorker{Meta: c.meta(), WorkerID: e.Worker.ID,
			Missing: []fsm.ExecutorKey{{AppID: e.AppID, ExecID: e.ExecID}}, Unasked: true}, func(fsm.Result) {}, nil)
		return false
	}
	c.log.Info(fmt.Sprintf("Launching executor %s/%d on worker %s", e.AppID, e.ExecID, e.Worker.ID))
	seq := c.deps.Network.Send(w.addr, endpointWorker, w.fam, &sparkmsg.LaunchExecutor{
		MasterURL: c.cfg.masterURL(), AppID: e.AppID, ExecID: int32(e.ExecID), RPID: int32(e.ProfileID), AppDesc: desc,
		Cores: int32(e.Cores), Memory: int32(e.MemoryMB), Resources: fromFSMResources(e.Resources),
	})
	c.launched(w, fsm.ExecutorKey{AppID: e.AppID, ExecID: e.ExecID}, seq)
	return true
}

// description returns an application's description as its driver sent it, decoded once per term.
func (c *Core) description(app *fsm.Application, payload []byte) (*sparkmsg.ApplicationDescription, error) {
	soft := c.appSoft(app.ID, fromFSMAddress(app.Driver), 0)
	if soft.desc == nil && soft.descErr == nil {
		soft.desc, soft.descErr = sparkmsg.ParseApplicationDescription(payload)
	}
	return soft.desc, soft.descErr
}
