package worker

import (
	"errors"
	"fmt"
	"time"

	"raftmaster/transport/sparkmsg"
	"raftmaster/transport/sparkrpc"
)

// lateListPause is how long the list after a duplicate registration waits: a Spark master that is still recovering asks
// for its own list first, and would kill what it reads about before that.
const lateListPause = 2 * time.Second

// firstCallPause is how long a worker with work leaves a master that it has found the first word: one that knows the
// worker calls it as soon as it leads, and a registration during a Spark master's recovery costs executors.
const firstCallPause = 2 * time.Second

// register begins to register at all masters, unless an attempt is scheduled already (B-022).
func (c *Core) register() {
	if c.stopping || c.exited {
		return
	}
	c.patience.Stop()
	c.patience = nil
	if c.retry != nil {
		c.log.Info("Not spawning another attempt to register with the master, since there is an attempt scheduled already.")
		return
	}
	c.link.registered = false
	c.attempts = 0
	c.retry = c.after(c.cfg.RetryShort, c.retryTick)
	c.tryMasters()
}

// retryTick is one turn of the retry schedule (B-023). Spark's worker asks only its last master from here on; this one
// asks all, because the last one may never come back.
func (c *Core) retryTick() {
	c.retry = nil
	c.attempts++
	if c.attempts > c.cfg.MaxTries {
		c.log.Error("All masters are unresponsive! Giving up.")
		c.exit(1, "all masters are unresponsive")
		return
	}
	pause := c.cfg.RetryShort
	if c.attempts >= c.cfg.ShortTries {
		pause = c.cfg.RetryLong
	}
	c.log.Info(fmt.Sprintf("Retrying connection to master (attempt # %d)", c.attempts))
	c.retry = c.after(pause, c.retryTick)
	c.tryMasters()
}

// tryMasters asks every master, and where the last one was last found, at the same time.
func (c *Core) tryMasters() {
	tried := map[sparkmsg.Address]bool{}
	targets := c.cfg.Masters
	if c.link.known {
		targets = append(targets[:len(targets):len(targets)], c.link.reconnect)
	}
	for _, master := range targets {
		if !tried[master] {
			tried[master] = true
			c.tryMaster(master)
		}
	}
}

// tryMaster does what RpcEnv.setupEndpointRef does: it asks whether there is a master, and then registers.
func (c *Core) tryMaster(master sparkmsg.Address) {
	if c.asking[master] {
		return // its answer is still awaited
	}
	c.asking[master] = true
	c.log.Info("Connecting to master " + master.String() + "...")
	c.deps.Network.Ask(master, endpointVerifier, &sparkmsg.CheckExistence{Name: endpointMaster}, c.cfg.AskTimeout,
		func(answer sparkmsg.Message, err error) {
			delete(c.asking, master)
			yes, ok := answer.(*sparkmsg.Boolean)
			if err != nil || !ok || !yes.Value {
				c.noMaster(master, err)
				return
			}
			if c.cautious {
				c.after(firstCallPause, func() { c.registerAt(master) })
				return
			}
			c.registerAt(master)
		})
}

// noMaster reports a question that found no master; err is nil when the process there answered, and has none.
func (c *Core) noMaster(master sparkmsg.Address, err error) {
	failed := "Failed to connect to master " + master.String()
	switch {
	case err == nil:
		c.log.Warn(failed, "error", "a Spark process answers there, and it is no master")
	case errors.Is(err, sparkrpc.ErrConnClosed) && !c.link.known:
		// After a first registration a master that goes away is the likelier reason.
		c.log.Warn(failed, "error", err, "hint", "does a master listen there? its web UI and REST ports are others than its RPC port, 7077 by default")
	default:
		c.log.Warn(failed, "error", err)
	}
}

// registerAt sends the registration, unless another master was quicker.
func (c *Core) registerAt(master sparkmsg.Address) {
	if c.retry == nil {
		return
	}
	c.deps.Network.Send(master, endpointMaster, &sparkmsg.RegisterWorker{
		ID: c.cfg.ID, Host: c.cfg.Self.Host, Port: c.cfg.Self.Port, Worker: c.selfRef(), Cores: c.cfg.Cores,
		Memory: c.cfg.MemoryMB, WorkerWebUIURL: c.cfg.WebUIURL, MasterAddress: master, Resources: c.cfg.Resources,
	})
}

// introduced checks a master's introduction of itself. It reports whether the master may become the active one.
func (c *Core) introduced(what string, from *sparkmsg.Address, ref sparkmsg.EndpointRef) bool {
	switch {
	case ref.Address == nil:
		c.log.Warn(what+" without an address is ignored", "from", show(from))
	case from == nil || *from != *ref.Address:
		c.log.Warn(what+" speaks of another master than its sender and is ignored", "from", show(from), "master", ref.URI())
	default:
		return true
	}
	return false
}

// registeredWorker handles RegisteredWorker (B-019).
func (c *Core) registeredWorker(conn Conn, from *sparkmsg.Address, m *sparkmsg.RegisteredWorker) {
	if c.stopping || !c.introduced("RegisteredWorker", from, m.Master) {
		return
	}
	if c.retry == nil && c.link.connected && *m.Master.Address != c.link.addr {
		c.log.Warn("a late answer of another master than the active one is ignored", "from", show(from), "active", c.link.url())
		return
	}
	c.changeMaster(conn, m.Master, m.MasterWebUIURL)
	c.link.registered = true
	if c.cfg.PreferConfiguredMaster {
		c.link.reconnect = m.MasterAddress
	}
	c.log.Info("Successfully registered with master " + c.link.url())
	if m.Duplicate {
		c.log.Warn("Duplicate registration at master " + c.link.url())
	}
	c.tellOwed()
	if m.Duplicate && len(c.executors)+len(c.drivers) > 0 {
		master := c.link.addr
		c.after(lateListPause, func() {
			if c.link.connected && c.link.addr == master {
				c.tellList(c.latestState())
			}
		})
		return
	}
	c.tellList(c.latestState())
}

// registerWorkerFailed handles RegisterWorkerFailed (B-020).
func (c *Core) registerWorkerFailed(from *sparkmsg.Address, m *sparkmsg.RegisterWorkerFailed) {
	if c.link.registered || c.retry == nil {
		return
	}
	c.log.Error("Worker registration failed: "+m.Message, "master", show(from))
	c.exit(1, "worker registration failed: "+m.Message)
}

// masterChanged handles MasterChanged (B-168).
func (c *Core) masterChanged(conn Conn, from *sparkmsg.Address, m *sparkmsg.MasterChanged) {
	if c.stopping || !c.introduced("MasterChanged", from, m.Master) {
		return
	}
	c.log.Info("Master has changed, new master is at spark://" + m.Master.Address.String())
	c.changeMaster(conn, m.Master, m.MasterWebUIURL)
	c.tellOwed()
	c.tellList(c.schedulerState())
}

// reconnectWorker handles ReconnectWorker (B-046).
func (c *Core) reconnectWorker(conn Conn, from *sparkmsg.Address, m *sparkmsg.ReconnectWorker) {
	c.log.Info("Master with url " + m.MasterURL + " requested this worker to reconnect.")
	if c.link.connected && (from == nil || *from != c.link.addr) {
		c.log.Warn("it is not the active master, so this worker stays where it is", "from", show(from), "active", c.link.url())
		return
	}
	c.register()
}

// changeMaster takes a master that has introduced itself as the active one and ends the search for one.
func (c *Core) changeMaster(conn Conn, ref sparkmsg.EndpointRef, webURL string) {
	l := &c.link
	if !l.known {
		c.deps.Processes.Prepare()
	}
	if !l.known || l.addr != *ref.Address {
		l.conns, l.registered = map[uint64]bool{}, false
	}
	l.known, l.connected = true, true
	l.addr, l.to, l.reconnect, l.webURL = *ref.Address, *ref.Address, *ref.Address, webURL
	l.conns[conn.ID()] = true
	conn.SetTrusted()
	if to, ok := conn.PeerAddress(); ok {
		l.to = to // the connection is there already, under the name that was dialled
	}
	c.retry.Stop()
	c.retry = nil
	c.patience.Stop()
	c.patience = nil
	c.cautious = false
	c.beat()
}

// beat starts the one heartbeat timer (B-019, G-39).
func (c *Core) beat() {
	if c.beating {
		return
	}
	c.beating = true
	var next func()
	next = func() {
		if c.stopping {
			return
		}
		if c.link.connected {
			c.lastBeat = c.now()
			c.tell(&sparkmsg.Heartbeat{WorkerID: c.cfg.ID, Worker: c.selfRef()})
		}
		c.after(c.cfg.Heartbeat, next)
	}
	c.after(0, next)
}

// tellOwed says what a master must hear before it hears what runs here.
func (c *Core) tellOwed() {
	c.resumeReports()
	c.tellDriverNews()
}

// tellList sends a list of what runs here. That this worker is decommissioned comes after it: a new master does not know
// (G-29), and a list makes the worker ALIVE for a Spark master that recovers.
func (c *Core) tellList(list sparkmsg.Message) {
	c.tell(list)
	if c.decommissioned {
		c.tell(&sparkmsg.WorkerDecommissioning{ID: c.cfg.ID, WorkerRef: c.selfRef()})
	}
}

// latestState is the list after a registration (B-019).
func (c *Core) latestState() *sparkmsg.WorkerLatestState {
	m := &sparkmsg.WorkerLatestState{ID: c.cfg.ID}
	for _, e := range c.sortedExecutors() {
		m.Executors = append(m.Executors, e.description())
	}
	for _, d := range c.sortedDrivers() {
		m.DriverIDs = append(m.DriverIDs, d.id)
	}
	return m
}

// schedulerState is the answer to MasterChanged (B-168).
func (c *Core) schedulerState() *sparkmsg.WorkerSchedulerStateResponse {
	m := &sparkmsg.WorkerSchedulerStateResponse{ID: c.cfg.ID}
	for _, e := range c.sortedExecutors() {
		m.ExecResponses = append(m.ExecResponses, sparkmsg.WorkerExecutorStateResponse{Desc: e.description(), Resources: e.resources})
	}
	for _, d := range c.sortedDrivers() {
		m.DriverResponses = append(m.DriverResponses, sparkmsg.WorkerDriverStateResponse{DriverID: d.id, Resources: d.resources})
	}
	return m
}

// decommission marks this worker: it launches nothing more; its executors are told by their drivers.
func (c *Core) decommission() bool {
	switch {
	case c.decommissioned:
		c.log.Warn("Worker was already decommissioned, decommissioning it again has no effect.", "worker_id", c.cfg.ID)
	case !c.cfg.DecommissionEnabled:
		c.log.Warn("Receive decommission request, but decommission feature is disabled.")
	default:
		c.decommissioned = true
		c.log.Info("Decommission worker " + c.cfg.ID + ".")
		return true
	}
	return false
}

// DecommissionSignal is the worker's own wish to be decommissioned; the master is told.
func (c *Core) DecommissionSignal() {
	if c.decommission() {
		c.tell(&sparkmsg.WorkerDecommissioning{ID: c.cfg.ID, WorkerRef: c.selfRef()})
	}
}
