package sparkpeer

import (
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"raftmaster/transport/frame"
	"raftmaster/transport/sparkmsg"
	"raftmaster/transport/sparkrpc"
)

// WorkerConfig describes a worker. A zero field means its default.
type WorkerConfig struct {
	Common
	ID        string // worker-19700101000000-HOST-PORT
	Cores     int32  // 4
	MemoryMB  int32  // 4096
	WebUIURL  string // http://HOST:8081
	Resources []sparkmsg.ResourceInformation

	Heartbeat  time.Duration // spark.worker.timeout / 4; 15 s
	RetryShort time.Duration // first registration attempts (B-023); 5 to 15 s
	RetryLong  time.Duration // later ones; six times RetryShort
	ShortTries int           // attempts at the short interval; 6
	MaxTries   int           // attempts until the worker exits; 16
	AskTimeout time.Duration // spark.rpc.askTimeout of ExecutorStateChanged; 120 s
	SyncTries  int           // spark.worker.executorStateSync.maxAttempts; 5

	// StartTime is how long an executor or driver takes to become RUNNING; 0 is at once.
	StartTime time.Duration
	// RunTime is how long it then runs until it ends by itself with ExitCode; 0 is until it is killed.
	RunTime  time.Duration
	ExitCode int32
	// OnDriver is called when a driver was launched, on a goroutine of the worker; it must not block.
	OnDriver func(w *Worker, m *sparkmsg.LaunchDriver)
}

func (c *WorkerConfig) setDefaults() {
	c.Common.setDefaults()
	orDefault(&c.Heartbeat, 15*time.Second)
	orDefault(&c.RetryShort, 5*time.Second+rand.N(10*time.Second))
	orDefault(&c.RetryLong, 6*c.RetryShort)
	orDefault(&c.AskTimeout, 120*time.Second)
	for _, f := range []struct {
		p *int32
		d int32
	}{{&c.Cores, 4}, {&c.MemoryMB, 4096}} {
		if *f.p == 0 {
			*f.p = f.d
		}
	}
	for _, f := range []struct {
		p *int
		d int
	}{{&c.ShortTries, 6}, {&c.MaxTries, 16}, {&c.SyncTries, 5}} {
		if *f.p == 0 {
			*f.p = f.d
		}
	}
}

// WorkerSwitches change what a running worker does. They are safe for concurrent use.
type WorkerSwitches struct {
	NoHeartbeat atomic.Bool // sends no heartbeats
	NoReport    atomic.Bool // never reports an executor or driver
	NoList      atomic.Bool // does not answer MasterChanged
	NoRun       atomic.Bool // ignores launches, as for an application of another release
	NoRegister  atomic.Bool // does not register any more
}

// Worker plays a Spark worker.
type Worker struct {
	node
	cfg      WorkerConfig
	Switches WorkerSwitches
	counters *Counters // of the fleet; never nil
	exited   chan struct{}

	// Guarded by node.mu.
	registered   bool
	connected    bool
	master       *frame.Address // of the last master reference
	masterAddr   frame.Address  // masterAddressToConnect
	retry        *time.Timer
	tries        int
	beating      bool
	decommission bool
	exit         string
	execs        map[execKey]*executor
	drivers      map[string]*driver
	finished     map[string]bool // applications that ApplicationFinished named
}

// NewWorker starts a worker: it listens and begins to register with all masters. The caller must Close it.
func NewWorker(cfg WorkerConfig) (*Worker, error) { return newWorker(cfg, &Counters{}) }

func newWorker(cfg WorkerConfig, counters *Counters) (*Worker, error) {
	cfg.setDefaults()
	w := &Worker{cfg: cfg, counters: counters, exited: make(chan struct{}), execs: map[execKey]*executor{},
		drivers: map[string]*driver{}, finished: map[string]bool{}}
	if err := w.open(cfg.Common, "Worker", w); err != nil {
		return nil, err
	}
	if w.cfg.ID == "" {
		w.cfg.ID = fmt.Sprintf("worker-19700101000000-%s-%d", w.addr.Host, w.addr.Port)
	}
	if w.cfg.WebUIURL == "" {
		w.cfg.WebUIURL = "http://" + w.addr.Host + ":8081"
	}
	w.run(w.registerWithMaster)
	return w, nil
}

// ID returns the worker's id.
func (w *Worker) ID() string { return w.cfg.ID }

// Close ends the worker as kill -9 does: connections close, nothing is said. It waits for all goroutines.
func (w *Worker) Close() {
	w.shut()
	w.mu.Lock()
	leaving := w.exit != ""
	w.mu.Unlock()
	if leaving {
		<-w.exited
	}
}

// Exited is closed when the worker has ended by itself, as the real one exits.
func (w *Worker) Exited() <-chan struct{} { return w.exited }

// Registered reports whether a RegisteredWorker was the last word of a master.
func (w *Worker) Registered() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.registered
}

// Master returns the address in the last master reference; false before the first.
func (w *Worker) Master() (frame.Address, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.master == nil {
		return frame.Address{}, false
	}
	return *w.master, true
}

// registerWithMaster starts registration unless a retry is scheduled (B-022).
func (w *Worker) registerWithMaster() {
	w.mu.Lock()
	if w.retry != nil || w.closed {
		w.mu.Unlock()
		return
	}
	w.registered = false
	w.tries = 0
	w.retry = w.after(w.cfg.RetryShort, w.retryTick)
	w.mu.Unlock()
	for _, m := range w.cfg.Masters {
		w.registerAt(m)
	}
}

// retryTick is ReregisterWithMaster (B-023).
func (w *Worker) retryTick() {
	w.mu.Lock()
	if w.registered || w.retry == nil {
		w.retry = nil
		w.mu.Unlock()
		return
	}
	w.tries++
	if w.tries > w.cfg.MaxTries {
		w.mu.Unlock()
		w.leave("All masters are unresponsive! Giving up.")
		return
	}
	pause := w.cfg.RetryShort
	if w.tries >= w.cfg.ShortTries {
		pause = w.cfg.RetryLong
	}
	w.retry = w.after(pause, w.retryTick)
	masters := w.cfg.Masters
	if w.master != nil {
		masters = []frame.Address{w.masterAddr}
	}
	w.mu.Unlock()
	for _, m := range masters {
		w.registerAt(m)
	}
}

func (w *Worker) registerAt(master frame.Address) {
	if w.Switches.NoRegister.Load() {
		return
	}
	w.resolve(master, func() {
		w.did(DidRegister, master, "")
		w.counters.Registrations.Add(1)
		w.send(master, &sparkmsg.RegisterWorker{
			ID: w.cfg.ID, Host: w.addr.Host, Port: w.addr.Port, Worker: w.ref("Worker"), Cores: w.cfg.Cores,
			Memory: w.cfg.MemoryMB, WorkerWebUIURL: w.cfg.WebUIURL, MasterAddress: master, Resources: w.cfg.Resources,
		})
	})
}

func (w *Worker) send(to frame.Address, msg sparkmsg.Message) {
	w.ep.Send(to, "Master", w.node.cfg.Family, msg)
}

// changeMaster takes a new master reference and ends registration attempts. It is called with w.mu held.
func (w *Worker) changeMaster(ref sparkmsg.EndpointRef) {
	if ref.Address != nil {
		addr := *ref.Address
		w.master, w.masterAddr = &addr, addr
	}
	w.connected = true
	if w.retry != nil {
		w.retry.Stop()
		w.retry = nil
	}
}

// leave ends the worker from inside, as the real one exits.
func (w *Worker) leave(why string) {
	w.mu.Lock()
	if w.exit != "" || w.closed {
		w.mu.Unlock()
		return
	}
	w.exit = why
	w.mu.Unlock()
	w.did(DidExit, frame.Address{}, why)
	go func() { // not counted: it waits for what is
		w.shut()
		close(w.exited)
	}()
}

// beat sends a heartbeat and arranges the next (B-033).
func (w *Worker) beat() {
	w.mu.Lock()
	to := w.masterAddr
	beats := w.connected && !w.Switches.NoHeartbeat.Load()
	w.mu.Unlock()
	if beats {
		w.counters.Heartbeats.Add(1)
		w.send(to, &sparkmsg.Heartbeat{WorkerID: w.cfg.ID, Worker: w.ref("Worker")})
	}
	w.after(w.cfg.Heartbeat, w.beat)
}

// OneWay implements sparkrpc.Handler.
func (w *Worker) OneWay(c *sparkrpc.Conn, in sparkrpc.Inbound) {
	from := frame.Address{}
	if in.Sender != nil {
		from = *in.Sender
	}
	w.events.add(Event{Kind: in.Msg.MessageName(), From: from, Msg: in.Msg})
	w.counters.Received.Add(1)
	switch m := in.Msg.(type) {
	case *sparkmsg.RegisteredWorker:
		w.onRegistered(m)
	case *sparkmsg.RegisterWorkerFailed:
		if !w.Registered() {
			w.leave("Worker registration failed: " + m.Message)
		}
	case *sparkmsg.MasterChanged:
		w.onMasterChanged(m)
	case *sparkmsg.ReconnectWorker:
		w.run(w.registerWithMaster)
	case *sparkmsg.LaunchExecutor:
		w.onLaunchExecutor(from, m)
	case *sparkmsg.KillExecutor:
		w.onKillExecutor(from, m)
	case *sparkmsg.LaunchDriver:
		w.onLaunchDriver(from, m)
	case *sparkmsg.KillDriver:
		w.endDriver(m.DriverID, nil, sparkmsg.DriverKilled)
	case *sparkmsg.ApplicationFinished:
		w.mu.Lock()
		w.finished[m.ID] = true
		w.mu.Unlock()
	case *sparkmsg.DecommissionWorker:
		w.mu.Lock()
		w.decommission = true
		w.mu.Unlock()
		w.did(DidDecommission, from, "")
	}
}

// Ask implements sparkrpc.Handler: a master asks a worker nothing but the verifier.
func (w *Worker) Ask(_ *sparkrpc.Conn, _ sparkrpc.Inbound, reply func(sparkmsg.Message, error)) {
	reply(nil, errUnsupported)
}

// Closed implements sparkrpc.Handler (B-041).
func (w *Worker) Closed(_ *sparkrpc.Conn, peer frame.Address, _ bool) {
	w.mu.Lock()
	lost := w.master != nil && (peer == *w.master || peer == w.masterAddr) && !w.closed
	if lost {
		w.connected = false
	}
	w.mu.Unlock()
	if lost {
		w.did(DidLoseMaster, peer, "")
		w.run(w.registerWithMaster)
	}
}

func (w *Worker) onRegistered(m *sparkmsg.RegisteredWorker) {
	w.mu.Lock()
	w.registered = true
	w.changeMaster(m.Master)
	start := !w.beating
	w.beating = true
	state := &sparkmsg.WorkerLatestState{ID: w.cfg.ID}
	for _, e := range w.execs {
		state.Executors = append(state.Executors, e.description())
	}
	for id := range w.drivers {
		state.DriverIDs = append(state.DriverIDs, id)
	}
	to := w.masterAddr
	w.mu.Unlock()
	w.counters.Registered.Add(1)
	w.send(to, state)
	if start {
		w.run(w.beat)
	}
}

func (w *Worker) onMasterChanged(m *sparkmsg.MasterChanged) {
	w.mu.Lock()
	w.changeMaster(m.Master)
	state := &sparkmsg.WorkerSchedulerStateResponse{ID: w.cfg.ID}
	for _, e := range w.execs {
		state.ExecResponses = append(state.ExecResponses, sparkmsg.WorkerExecutorStateResponse{Desc: e.description(), Resources: e.resources})
	}
	for id, d := range w.drivers {
		state.DriverResponses = append(state.DriverResponses, sparkmsg.WorkerDriverStateResponse{DriverID: id, Resources: d.resources})
	}
	to := w.masterAddr
	w.mu.Unlock()
	if !w.Switches.NoList.Load() {
		w.send(to, state)
	}
}

// Decommission does what the worker's signal does: it tells the master.
func (w *Worker) Decommission() {
	w.mu.Lock()
	w.decommission = true
	to := w.masterAddr
	w.mu.Unlock()
	w.did(DidDecommission, frame.Address{}, "signal")
	w.send(to, &sparkmsg.WorkerDecommissioning{ID: w.cfg.ID, WorkerRef: w.ref("Worker")})
}
