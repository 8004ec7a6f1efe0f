package worker

import (
	"fmt"
	"time"

	"raftmaster/cluster/internal/timers"
	"raftmaster/transport/sparkmsg"
)

// Endpoint names of Spark's RPC (B-212).
const (
	endpointMaster   = "Master"
	endpointWorker   = "Worker"
	endpointVerifier = "endpoint-verifier"
)

// Core decides what the worker does. All its methods must be called from one goroutine; see Worker.
type Core struct {
	cfg  CoreConfig
	deps Deps
	log  logger

	timers timers.Queue

	link     link
	retry    *timer // set while registration is under way: there is one loop at most (B-022)
	attempts int
	patience *timer                    // waiting for the next master to call
	cautious bool                      // it has waited: a master that is found gets the first word
	asking   map[sparkmsg.Address]bool // masters that have not answered whether they exist
	beating  bool                      // the one heartbeat timer runs
	lastBeat time.Time

	decommissioned bool
	stopping       bool
	exited         bool

	lastInstance uint64
	executors    map[uint64]*executor
	drivers      map[uint64]*driver
	apps         map[string]*application
	ended        []*executor // newest last
	endedDrivers []*driver

	reports     map[executorKey]*reportQueue
	reportOrder []executorKey // of reports, oldest first
	driverNews  []*driverNews // ends of drivers that masters may still have to be told

	coresUsed, memoryUsed int32
	started               time.Time
}

// link is what ties this worker to the active master.
type link struct {
	known bool // a master has introduced itself at least once
	// addr is the address in the master's reference, of which its URL is made (B-048); to is where it is written to.
	addr, to sparkmsg.Address
	// reconnect is where the worker registers again (B-044).
	reconnect sparkmsg.Address
	webURL    string
	conns     map[uint64]bool // the connections on which it has introduced itself
	connected bool
	// registered: RegisteredWorker was its word, not MasterChanged alone.
	registered bool
}

func (l *link) url() string { return "spark://" + l.addr.String() }

// NewCore makes a Core that does nothing until Start.
func NewCore(cfg CoreConfig, deps Deps) *Core {
	c := &Core{cfg: cfg, deps: deps, log: logger{deps.Log}, asking: map[sparkmsg.Address]bool{},
		executors: map[uint64]*executor{}, drivers: map[uint64]*driver{}, apps: map[string]*application{},
		reports: map[executorKey]*reportQueue{}}
	c.started = c.now()
	return c
}

func (c *Core) now() time.Time { return c.deps.Clock.Now() }

// Start begins to register with all masters.
func (c *Core) Start() {
	c.register()
	c.scheduleCleanup()
}

// exit ends the worker from inside.
func (c *Core) exit(code int, reason string) {
	if c.exited {
		return
	}
	c.exited = true
	c.deps.Exit(code, reason)
}

// tell sends a one-way message to the active master, if there is contact with one.
func (c *Core) tell(msg sparkmsg.Message) {
	if c.link.connected {
		c.deps.Network.Send(c.link.to, endpointMaster, msg)
	}
}

func (c *Core) selfRef() sparkmsg.EndpointRef {
	addr := c.cfg.Self
	return sparkmsg.EndpointRef{Name: endpointWorker, Address: &addr}
}

// OneWay handles a one-way message. from is the sender's advertised address.
func (c *Core) OneWay(conn Conn, from *sparkmsg.Address, msg sparkmsg.Message) {
	if c.exited {
		return
	}
	switch m := msg.(type) {
	case *sparkmsg.RegisteredWorker:
		c.registeredWorker(conn, from, m)
	case *sparkmsg.RegisterWorkerFailed:
		c.registerWorkerFailed(from, m)
	case *sparkmsg.MasterInStandby:
		c.log.Debug("a master is in standby", "master", show(from)) // B-021: the retry goes on
	case *sparkmsg.MasterChanged:
		c.masterChanged(conn, from, m)
	case *sparkmsg.ReconnectWorker:
		c.reconnectWorker(conn, from, m)
	case *sparkmsg.LaunchExecutor:
		c.launchExecutor(conn, from, m)
	case *sparkmsg.KillExecutor:
		c.killExecutor(conn, from, m)
	case *sparkmsg.LaunchDriver:
		c.launchDriver(conn, from, m)
	case *sparkmsg.KillDriver:
		c.killDriver(conn, from, m)
	case *sparkmsg.ApplicationFinished:
		c.applicationFinished(m.ID)
	case *sparkmsg.DecommissionWorker:
		if c.obeys(conn, from, "DecommissionWorker") {
			c.decommission()
		}
	default:
		c.log.Warn("Unsupported message", "message", fmt.Sprintf("%T", msg), "from", show(from)) // B-002
	}
}

// obeys reports whether an order is the active master's, and says so when it is not.
func (c *Core) obeys(conn Conn, from *sparkmsg.Address, order string) bool {
	why := c.notActive(conn, from)
	if why == "" {
		return true
	}
	c.log.Warn("an order is refused: it is not from the active master", "order", order, "from", show(from), "why", why)
	if c.link.connected && from != nil && *from == c.link.addr {
		c.register() // the master's answer introduces it on the connection that it uses now
	}
	return false
}

// notActive says why a message on a connection is not the active master's word; "" when it is.
func (c *Core) notActive(conn Conn, from *sparkmsg.Address) string {
	switch {
	case !c.link.known:
		return "no master has accepted this worker yet"
	case from == nil:
		return "its sender names no address"
	case *from != c.link.addr:
		return "the active master is " + c.link.addr.String()
	case !c.link.conns[conn.ID()]:
		return "the active master has not introduced itself on this connection"
	}
	return ""
}

// Closed handles the end of a connection (B-041). attached tells whether another one with the same peer is left.
func (c *Core) Closed(connID uint64, attached bool) {
	if !c.link.conns[connID] {
		return
	}
	delete(c.link.conns, connID)
	if !c.link.connected || len(c.link.conns) > 0 || c.stopping || c.exited {
		return
	}
	if attached {
		// It is there, on a connection on which it has not introduced itself: a registration makes it do so.
		c.register()
		return
	}
	c.log.Error("Connection to master failed! Waiting for master to reconnect...", "master", c.link.url())
	c.link.connected, c.link.registered = false, false
	c.pauseReports()
	if len(c.executors)+len(c.drivers) == 0 || c.cfg.MasterPatience <= 0 {
		c.register()
		return
	}
	if c.patience == nil {
		c.log.Info("this worker has work, so it waits for the next master to call before it registers by itself",
			"seconds", int(c.cfg.MasterPatience.Seconds()), "executors", len(c.executors), "drivers", len(c.drivers))
		c.patience = c.after(c.cfg.MasterPatience, func() {
			c.patience = nil
			c.cautious = true
			c.register()
		})
	}
}

// show prints an address that may be missing.
func show(a *sparkmsg.Address) string {
	if a == nil {
		return "unknown"
	}
	return a.String()
}
