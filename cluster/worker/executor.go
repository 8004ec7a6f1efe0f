package worker

import (
	"fmt"
	"sort"
	"strings"
	"time"

	"raftmaster/transport/sparkmsg"
)

// executorKey is how masters name an executor.
type executorKey struct {
	app string
	id  int32
}

func (k executorKey) String() string { return fmt.Sprintf("%s/%d", k.app, k.id) }

// executor is one instance of an executor, from its launch to its end and then as a memory.
type executor struct {
	instance      uint64
	key           executorKey
	profile       int32
	cores, memory int32
	resources     []sparkmsg.ResourceInformation
	state         sparkmsg.ExecutorState
	app           *appFacts
	process       Process
	killed        bool
	pid           int
	started       time.Time
	ended         time.Time // zero while it lives
	message       string
	exitStatus    *int32
}

// application is what this worker remembers of an application that has or had executors here.
type application struct {
	live     int  // executors that have not ended
	finished bool // ApplicationFinished has come
	facts    *appFacts
}

func (e *executor) description() sparkmsg.ExecutorDescription {
	return sparkmsg.ExecutorDescription{AppID: e.key.app, ExecID: e.key.id, RPID: e.profile, Cores: e.cores, MemoryMB: e.memory, State: e.state}
}

// sortedExecutors returns those that have not ended, oldest first.
func (c *Core) sortedExecutors() []*executor {
	out := make([]*executor, 0, len(c.executors))
	for _, e := range c.executors {
		out = append(out, e)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].instance < out[j].instance })
	return out
}

// instances returns the live instances of an executor, oldest first; two only when a master has launched its id twice.
func (c *Core) instances(key executorKey) (out []*executor) {
	for _, e := range c.sortedExecutors() {
		if e.key == key {
			out = append(out, e)
		}
	}
	return out
}

// launchExecutor handles LaunchExecutor (B-047, B-121).
func (c *Core) launchExecutor(_ Conn, from *sparkmsg.Address, m *sparkmsg.LaunchExecutor) {
	key := executorKey{m.AppID, m.ExecID}
	if !c.link.known || m.MasterURL != c.link.url() || from != nil && *from != c.link.addr {
		// Nobody is told: the active master may hold another executor under the same id.
		c.log.Warn("Invalid Master ("+m.MasterURL+") attempted to launch executor.", "executor", key, "from", show(from), "active", c.link.url())
		return
	}
	switch why := c.cannotLaunch(m); {
	case why == "":
	case c.stopping:
		c.log.Info("a launch is ignored: this worker is about to end", "executor", key)
		return
	default:
		c.log.Warn("an executor is not launched", "executor", key, "why", why)
		if len(c.instances(key)) == 0 {
			c.report(key, sparkmsg.ExecutorFailed, why, nil)
		}
		return
	}
	if len(c.instances(key)) > 0 {
		c.log.Warn("the master launches an executor that is here already; both run", "executor", key)
	}
	c.log.Info(fmt.Sprintf("Asked to launch executor %s for %s", key, m.AppDesc.Name))
	c.lastInstance++
	e := &executor{instance: c.lastInstance, key: key, profile: m.RPID, cores: m.Cores, memory: m.Memory,
		resources: m.Resources, state: sparkmsg.ExecutorLaunching, started: c.now()}
	app := c.apps[m.AppID]
	if app == nil {
		app = &application{facts: factsOf(m.AppDesc, c.cfg.Redaction)}
		c.apps[m.AppID] = app
	}
	app.live++
	e.app = app.facts
	c.executors[e.instance] = e
	c.coresUsed += e.cores
	c.memoryUsed += e.memory
	e.process = c.deps.Processes.StartExecutor(ExecutorLaunch{
		Instance: e.instance, AppID: m.AppID, ExecutorID: m.ExecID, ResourceProfile: m.RPID, Cores: m.Cores,
		MemoryMB: m.Memory, Command: m.AppDesc.Command, Resources: m.Resources,
	}, func(pid int) { c.executorStarted(e, pid) }, func(end ExecutorEnd) { c.executorEnded(e, end) })
}

// cannotLaunch says why the active master's launch is refused; the master is told, which frees what it has booked (G-34).
func (c *Core) cannotLaunch(m *sparkmsg.LaunchExecutor) string {
	switch {
	case c.stopping:
		return "Worker shutting down"
	case c.decommissioned:
		return "worker " + c.cfg.ID + " is decommissioned"
	case m.AppDesc == nil:
		return "the launch has no application description"
	case len(m.AppDesc.Command.Unread) > 0:
		return "this worker cannot read fields of the application's command: " + strings.Join(m.AppDesc.Command.Unread, ", ")
	case !plainName(m.AppID):
		return fmt.Sprintf("the application's id %q cannot be the name of a directory", m.AppID)
	case m.Cores < 1 || m.Memory < 0 || m.ExecID < 0:
		return fmt.Sprintf("%d cores and %d MiB for executor %d make no sense", m.Cores, m.Memory, m.ExecID)
	}
	return ""
}

// plainName reports whether an id of a peer may become the name of a directory.
func plainName(id string) bool {
	return id != "" && id != "." && id != ".." && len(id) <= 255 && !strings.ContainsAny(id, "/\x00") && !strings.HasPrefix(id, ".")
}

func (c *Core) executorStarted(e *executor, pid int) {
	e.pid = pid
	if e.killed || c.stopping {
		return // its end comes next
	}
	e.state = sparkmsg.ExecutorRunning
	c.report(e.key, sparkmsg.ExecutorRunning, "", nil)
}

// executorEnded books the end of an instance and reports it, unless another instance has its id.
func (c *Core) executorEnded(e *executor, end ExecutorEnd) {
	if c.stopping && end.State != sparkmsg.ExecutorExited {
		end.State, end.Message = sparkmsg.ExecutorFailed, "Worker shutting down"
	}
	e.state, e.message, e.exitStatus, e.ended = end.State, end.Message, end.ExitStatus, c.now()
	line := fmt.Sprintf("Executor %s finished with state %s", e.key, e.state)
	if e.message != "" {
		line += " message " + e.message
	}
	if e.exitStatus != nil {
		line += fmt.Sprintf(" exitStatus %d", *e.exitStatus)
	}
	c.log.Info(line)
	delete(c.executors, e.instance)
	e.process = nil
	c.coresUsed -= e.cores
	c.memoryUsed -= e.memory
	c.ended = trim(append(c.ended, e), c.cfg.RetainedExecutors)
	if len(c.instances(e.key)) == 0 {
		c.report(e.key, e.state, e.message, e.exitStatus)
	} else {
		c.log.Warn("the end of an executor is not reported: another one runs under its id", "executor", e.key)
	}
	if app := c.apps[e.key.app]; app != nil {
		app.live--
		c.forgetApplication(e.key.app)
	}
}

// killExecutor handles KillExecutor (B-126).
func (c *Core) killExecutor(conn Conn, from *sparkmsg.Address, m *sparkmsg.KillExecutor) {
	key := executorKey{m.AppID, m.ExecID}
	if !c.link.known || m.MasterURL != c.link.url() {
		c.log.Warn("Invalid Master ("+m.MasterURL+") attempted to kill executor "+key.String(), "from", show(from), "active", c.link.url())
		return
	}
	if !c.obeys(conn, from, "KillExecutor") {
		return
	}
	all := c.instances(key)
	if len(all) == 0 {
		c.log.Info("Asked to kill unknown executor " + key.String())
		return
	}
	for _, e := range all {
		c.log.Info("Asked to kill executor " + key.String())
		e.killed = true
		e.process.Kill()
	}
}

// applicationFinished handles ApplicationFinished.
func (c *Core) applicationFinished(id string) {
	if app := c.apps[id]; app != nil {
		app.finished = true
		c.forgetApplication(id)
	}
}

// forgetApplication cleans up after an application that is over and has no executor left here.
func (c *Core) forgetApplication(id string) {
	app := c.apps[id]
	if app.live > 0 || !app.finished {
		return
	}
	c.log.Info("Cleaning up local directories for application " + id)
	delete(c.apps, id)
	c.deps.Processes.ForgetApplication(id)
}

// trim drops the oldest of a list that has more than limit: a tenth at a time, as Spark does.
func trim[T any](list []T, limit int) []T {
	if limit <= 0 {
		return nil
	}
	if len(list) <= limit {
		return list
	}
	return append([]T(nil), list[len(list)-limit+max(limit/10, 1)-1:]...)
}

// scheduleCleanup cleans the work directory from time to time.
func (c *Core) scheduleCleanup() {
	if c.cfg.CleanupInterval <= 0 {
		return
	}
	c.after(c.cfg.CleanupInterval, func() {
		c.deps.Processes.CleanWorkDir()
		c.scheduleCleanup()
	})
}
