package clustertest

import (
	"fmt"
	"math"
	"slices"
	"time"

	"raftmaster/fsm"
	"raftmaster/transport/sparkmsg"
)

// Constants of Worker.scala.
const (
	initialRetries    = 6
	totalRetries      = 16
	stateSyncAttempts = 5
)

// worker is one worker process, which behaves as org.apache.spark.deploy.worker.Worker does.
type worker struct {
	*peer
	id         string
	host       string
	cores, mem int
	release    string // "" when its web page cannot be read
	cannotRead bool   // it is of a release that cannot read launches of applications of another one

	master     *masterRef
	toConnect  *sparkmsg.Address
	registered bool
	connected  bool
	retry      *timer
	attempts   int
	factor     float64
	beating    bool

	gpus           []string
	execs          []*executor // in the order of their launch
	jobs           []*job      // likewise
	ordered        bool        // an operator may have decommissioned it
	decommissioned bool
	exited         string // why it ended by itself
}

// executor is an executor process on a worker.
type executor struct {
	key       fsm.ExecutorKey
	profile   int32
	cores     int
	mem       int
	resources []sparkmsg.ResourceInformation
	state     sparkmsg.ExecutorState
	told      bool // to be killed
	over      bool
	launched  time.Duration
}

// timer runs something in a process again and again.
type timer struct{ stopped bool }

func (t *timer) stop() {
	if t != nil {
		t.stopped = true
	}
}

// every runs fn in the process each period, first after one.
func (p *proc) every(period time.Duration, fn func()) *timer {
	t := &timer{}
	var next func()
	next = func() {
		if !t.stopped {
			fn()
			if !t.stopped {
				p.after(period, next)
			}
		}
	}
	p.after(period, next)
	return t
}

// newWorker starts a worker process on a host of its own, or on a given host and address.
func (s *Sim) newWorker(host string, addr *sparkmsg.Address) *worker {
	n := len(s.workers)
	if host == "" {
		host = fmt.Sprintf("host%d", n)
	}
	at := s.newAddress(host)
	if addr != nil {
		at = *addr
	}
	fam, release := sparkmsg.FamilyB, "3.5.9"
	if s.chance(0.25) {
		fam, release = sparkmsg.FamilyE, "4.3.0"
	}
	w := &worker{host: host, cores: 1 + s.rng.IntN(8), mem: 1024 * (2 + s.rng.IntN(8)), release: release,
		factor: 0.5 + s.rng.Float64()}
	w.peer = newPeer(s, fmt.Sprintf("worker%d", n), endpointWorker, at, fam)
	w.id = fmt.Sprintf("worker-%s-%s-%d-%d", s.Now().Format("20060102150405"), host, at.Port, n)
	if s.chance(s.opt.Load.Silent) {
		w.fam, w.fams, w.release, w.cannotRead = sparkmsg.FamilyD, sparkmsg.SetOf(sparkmsg.FamilyD, sparkmsg.FamilyE), "", true
	}
	w.gpus = s.someGPUs()
	w.onMessage, w.onDisconnect = w.handle, w.masterDisconnected
	s.workers = append(s.workers, w)
	s.net.listen(w.proc)
	if s.opt.Plant.HalfWorkers {
		w.after(5*time.Second, func() { w.cores, w.mem = w.cores/2, w.mem/2 })
	}
	w.note("starts as %s with %d cores, %d MiB, gpu %v, %v %q", w.id, w.cores, w.mem, w.gpus, w.fams, w.release)
	w.registerWithMaster()
	return w
}

// exit ends the process by its own decision.
func (w *worker) exit(why string) {
	w.exited = why
	w.note("exits: %s", why)
	w.s.net.die(w.proc, true)
	w.s.check.workerExited(w, why)
}

// registerWithMaster starts registration unless it is under way (B-022, B-041).
func (w *worker) registerWithMaster() {
	if w.retry != nil {
		return
	}
	w.registered, w.attempts = false, 0
	w.tryAllMasters()
	w.retry = w.every(w.interval(10), w.reregister)
}

func (w *worker) interval(seconds float64) time.Duration {
	return time.Duration(math.Round(seconds*w.factor)) * time.Second
}

// reregister is the tick of B-023: only the last master is asked, once there was one.
func (w *worker) reregister() {
	w.attempts++
	switch {
	case w.registered:
		w.cancelRetry()
		return
	case w.attempts > totalRetries:
		w.exit("All masters are unresponsive! Giving up.")
		return
	case w.master != nil && w.toConnect != nil:
		w.tryMaster(*w.toConnect)
	case w.master == nil:
		w.tryAllMasters()
	}
	if w.attempts == initialRetries {
		w.retry.stop()
		w.retry = w.every(w.interval(60), w.reregister)
	}
}

func (w *worker) cancelRetry() {
	w.retry.stop()
	w.retry = nil
}

func (w *worker) tryAllMasters() {
	for i := range w.s.masters {
		w.tryMaster(masterAddress(i))
	}
}

func (w *worker) tryMaster(addr sparkmsg.Address) {
	w.find(addr, func(c *peerConn, found bool) {
		if !found {
			return
		}
		c.send(&sparkmsg.RegisterWorker{ID: w.id, Host: w.host, Port: w.addr.Port, Worker: w.ref(), Cores: int32(w.cores),
			Memory: int32(w.mem), WorkerWebUIURL: "http://" + w.addr.String() + "/ui", MasterAddress: addr, Resources: w.offered()})
	})
}

// masterDisconnected is B-041.
func (w *worker) masterDisconnected(addr sparkmsg.Address) {
	if (w.master != nil && w.master.addr == addr) || (w.toConnect != nil && *w.toConnect == addr) {
		w.note("lost its master %v", addr)
		w.connected = false
		w.registerWithMaster()
	}
}

func (w *worker) changeMaster(c *peerConn, ref sparkmsg.EndpointRef, remember sparkmsg.Address) {
	w.master = &masterRef{addr: *ref.Address, conn: c}
	w.toConnect = &remember
	w.connected = true
	w.cancelRetry()
}

func (w *worker) handle(c *peerConn, msg sparkmsg.Message) {
	switch m := msg.(type) {
	case *sparkmsg.RegisteredWorker:
		w.registered = true
		w.changeMaster(c, m.Master, m.MasterAddress)
		if !w.beating {
			w.beating = true
			w.heartbeat()
			w.every(workerTimeout/4, w.heartbeat)
		}
		w.sendLatestState()
	case *sparkmsg.RegisterWorkerFailed:
		if !w.registered {
			w.exit("Worker registration failed: " + m.Message)
		}
	case *sparkmsg.MasterInStandby:
	case *sparkmsg.ReconnectWorker:
		w.registerWithMaster()
	case *sparkmsg.MasterChanged:
		w.changeMaster(c, m.Master, *m.Master.Address)
		w.sendSchedulerState()
	case *sparkmsg.LaunchExecutor:
		w.launch(m)
	case *sparkmsg.KillExecutor:
		if w.master != nil && m.MasterURL == "spark://"+w.master.addr.String() {
			if e := w.find1(fsm.ExecutorKey{AppID: m.AppID, ExecID: int(m.ExecID)}); e != nil {
				w.killExecutor(e)
			}
		}
	case *sparkmsg.LaunchDriver:
		w.launchJob(m)
	case *sparkmsg.KillDriver:
		w.killJob(m.DriverID)
	case *sparkmsg.DecommissionWorker:
		w.note("is decommissioned by its master")
		w.decommissioned = true
	case *sparkmsg.ApplicationFinished:
	default:
		w.s.fail("%s was sent %T, which no worker understands", w.name, msg)
	}
}

func (w *worker) find1(key fsm.ExecutorKey) *executor {
	for _, e := range w.execs {
		if e.key == key {
			return e
		}
	}
	return nil
}

func (w *worker) heartbeat() {
	if w.connected {
		w.master.conn.send(&sparkmsg.Heartbeat{WorkerID: w.id, Worker: w.ref()})
	}
}

func (e *executor) description() sparkmsg.ExecutorDescription {
	return sparkmsg.ExecutorDescription{AppID: e.key.AppID, ExecID: int32(e.key.ExecID), RPID: e.profile, Cores: int32(e.cores),
		MemoryMB: int32(e.mem), State: e.state}
}

func (w *worker) sendLatestState() {
	m := &sparkmsg.WorkerLatestState{ID: w.id, DriverIDs: w.jobIDs()}
	for _, e := range w.execs {
		m.Executors = append(m.Executors, e.description())
	}
	w.master.conn.send(m)
}

func (w *worker) sendSchedulerState() {
	m := &sparkmsg.WorkerSchedulerStateResponse{ID: w.id}
	for _, e := range w.execs {
		m.ExecResponses = append(m.ExecResponses, sparkmsg.WorkerExecutorStateResponse{Desc: e.description(), Resources: e.resources})
	}
	for _, id := range w.jobIDs() {
		m.DriverResponses = append(m.DriverResponses, sparkmsg.WorkerDriverStateResponse{DriverID: id})
	}
	w.master.conn.send(m)
}

// launch starts an executor process: at once, slowly or never (B-047, B-068).
func (w *worker) launch(m *sparkmsg.LaunchExecutor) {
	s := w.s
	key := fsm.ExecutorKey{AppID: m.AppID, ExecID: int(m.ExecID)}
	s.check.launchArrived(w, key)
	switch {
	case w.master == nil || m.MasterURL != "spark://"+w.master.addr.String():
		w.note("Invalid Master (%s) attempted to launch executor.", m.MasterURL)
		return
	case w.decommissioned:
		w.note("Asked to launch an executor while decommissioned.")
		return
	case w.cannotRead && s.appFamily(m.AppID) != w.fam:
		w.note("cannot read a launch")
		return
	}
	e := &executor{key: key, profile: m.RPID, cores: int(m.Cores), mem: int(m.Memory), resources: m.Resources, launched: s.now}
	w.execs = append(w.execs, e)
	s.check.workerLoad(w)
	s.check.oneHand(w)
	start := s.between(5*time.Millisecond, 500*time.Millisecond)
	if s.chance(s.opt.Load.SlowStart) && !s.healed {
		start = s.between(time.Second, 20*time.Second)
	}
	fails := s.chance(s.opt.Load.FailStart) && !s.healed
	w.after(start, func() {
		switch {
		case e.over || e.told:
		case fails:
			w.finish(e, sparkmsg.ExecutorFailed, nil)
		default:
			e.state = sparkmsg.ExecutorRunning
			w.report(e.key, sparkmsg.ExecutorRunning, nil, new(int))
			w.live(e)
		}
	})
}

// live lets a running executor end by itself, some day.
func (w *worker) live(e *executor) {
	mean := w.s.opt.Load.ExecutorLife
	if w.s.crashLoops(e.key.AppID) {
		w.crash(e)
		return
	}
	if mean == 0 {
		return
	}
	w.after(w.s.exponential(mean), func() {
		if e.over || e.told || w.s.healed {
			return
		}
		code := int32(0)
		if w.s.chance(w.s.opt.Load.Crashing) {
			code = 1
		}
		w.finish(e, sparkmsg.ExecutorExited, &code)
	})
}

// crash ends an executor of an application whose executors never last, as soon as it runs.
func (w *worker) crash(e *executor) {
	w.after(w.s.between(10*time.Millisecond, 300*time.Millisecond), func() {
		if e.over || e.told {
			return
		}
		code := int32(1)
		if w.s.opt.Plant.HideCrashes {
			code = 0
		}
		w.finish(e, sparkmsg.ExecutorExited, &code)
	})
}

// killExecutor ends an executor: it takes a while to go.
func (w *worker) killExecutor(e *executor) {
	if e.told {
		return
	}
	e.told = true
	d := w.s.between(10*time.Millisecond, 2*time.Second)
	if w.s.chance(0.1) {
		d = w.s.between(10*time.Second, 20*time.Second)
	}
	w.after(d, func() {
		if !e.over {
			code := int32(143)
			w.finish(e, sparkmsg.ExecutorKilled, &code)
		}
	})
}

func (w *worker) finish(e *executor, state sparkmsg.ExecutorState, code *int32) {
	e.over = true
	w.execs = slices.DeleteFunc(w.execs, func(o *executor) bool { return o == e })
	w.note("executor %v is %v", e.key, state)
	w.report(e.key, state, code, new(int))
}

// report tells the master of an executor until it is answered (B-128).
func (w *worker) report(key fsm.ExecutorKey, state sparkmsg.ExecutorState, code *int32, failures *int) {
	if w.master == nil {
		return
	}
	m := &sparkmsg.ExecutorStateChanged{AppID: key.AppID, ExecID: int32(key.ExecID), State: state, ExitStatus: code}
	w.master.conn.ask(endpointMaster, m, func(_ sparkmsg.Message, err error) {
		if err == nil {
			return
		}
		*failures++
		w.note("report of %v %v failed: %v", key, state, err)
		switch {
		case *failures >= stateSyncAttempts:
			w.exit(fmt.Sprintf("Failed to send %v of %v %d times. Giving up.", state, key, *failures))
		case err == errAskTimeout:
			w.report(key, state, code, failures)
		default:
			w.after(askTimeout, func() { w.report(key, state, code, failures) })
		}
	})
}

// decommission is the worker's own signal (B-064).
func (w *worker) decommission() {
	w.decommissioned = true
	w.note("is decommissioned")
	if w.master != nil {
		w.master.conn.send(&sparkmsg.WorkerDecommissioning{ID: w.id, WorkerRef: w.ref()})
	}
}
