package worker

import (
	"fmt"
	"sort"
	"strings"
	"time"

	"raftmaster/transport/sparkmsg"
)

const (
	// driverNewsLife is for how long the end of a driver is said again to each master that introduces itself: a leader may
	// have died between taking it and keeping it. Both kinds of master answer a repetition with a line in their log.
	driverNewsLife = 5 * time.Minute
	// maxDriverNews bounds them.
	maxDriverNews = 1000
)

// driver is one driver in cluster mode.
type driver struct {
	instance  uint64
	id        string
	mainClass string
	cores     int32
	memory    int32
	supervise bool
	resources []sparkmsg.ResourceInformation
	state     sparkmsg.DriverState
	process   Process
	killed    bool
	pid       int
	attempts  int
	started   time.Time
	ended     time.Time
	message   string
}

// driverNews is the end of a driver.
type driverNews struct {
	msg   *sparkmsg.DriverStateChanged
	at    time.Time
	taken bool // a master has certainly received it
}

func (c *Core) sortedDrivers() []*driver {
	out := make([]*driver, 0, len(c.drivers))
	for _, d := range c.drivers {
		out = append(out, d)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].instance < out[j].instance })
	return out
}

func (c *Core) findDriver(id string) *driver {
	for _, d := range c.drivers {
		if d.id == id {
			return d
		}
	}
	return nil
}

// endOf gives the end of a driver that ended here not long ago, nil if there was none.
func (c *Core) endOf(id string) *driverNews {
	for _, n := range c.driverNews {
		if n.msg.DriverID == id {
			return n
		}
	}
	return nil
}

// launchDriver handles LaunchDriver (B-140). It names no master, so its connection must be the active master's (G-23).
func (c *Core) launchDriver(conn Conn, from *sparkmsg.Address, m *sparkmsg.LaunchDriver) {
	if !c.obeys(conn, from, "LaunchDriver "+m.DriverID) {
		return
	}
	if c.stopping {
		c.log.Info("a launch is ignored: this worker is about to end", "driver_id", m.DriverID)
		return
	}
	if c.findDriver(m.DriverID) != nil {
		c.log.Warn("a driver is launched that is here already; nothing is done", "driver_id", m.DriverID)
		return
	}
	if n := c.endOf(m.DriverID); n != nil {
		// Masters never give an id twice: this one was launched by a leader that died, and the next has not heard of its end.
		c.log.Warn("a driver is launched that has run here and ended; its end is told again", "driver_id", m.DriverID, "state", n.msg.State)
		c.sayDriverNews([]*driverNews{n})
		return
	}
	if why := c.cannotRun(m); why != "" {
		c.log.Error("a driver cannot be launched", "driver_id", m.DriverID, "why", why)
		c.driverIsOver(m.DriverID, sparkmsg.DriverError, why)
		return
	}
	c.log.Info("Asked to launch driver " + m.DriverID)
	desc := m.DriverDesc
	c.lastInstance++
	d := &driver{instance: c.lastInstance, id: m.DriverID, mainClass: mainClassOf(&desc.Command), cores: desc.Cores, memory: desc.Mem,
		supervise: desc.Supervise, resources: m.Resources, state: sparkmsg.DriverRunning, started: c.now()}
	c.drivers[d.instance] = d
	c.coresUsed += d.cores
	c.memoryUsed += d.memory
	d.process = c.deps.Processes.StartDriver(DriverLaunch{
		Instance: d.instance, DriverID: d.id, JarURL: desc.JarURL, MemoryMB: desc.Mem, Supervise: desc.Supervise,
		Command: desc.Command, Resources: m.Resources,
	}, func(pid int) { d.pid = pid; d.attempts++ }, func(end DriverEnd) { c.driverEnded(d, end) })
}

func (c *Core) cannotRun(m *sparkmsg.LaunchDriver) string {
	switch {
	case m.DriverDesc == nil:
		return "the launch has no driver description"
	case len(m.DriverDesc.Command.Unread) > 0:
		return "this worker cannot read fields of the driver's command: " + strings.Join(m.DriverDesc.Command.Unread, ", ")
	case !plainName(m.DriverID):
		return fmt.Sprintf("the driver's id %q cannot be the name of a directory", m.DriverID)
	}
	return ""
}

// mainClassOf finds the submitter's class in the arguments of DriverWrapper: worker URL, jar, class, its arguments.
func mainClassOf(cmd *sparkmsg.Command) string {
	if strings.HasSuffix(cmd.MainClass, ".DriverWrapper") && len(cmd.Arguments) > 2 {
		return cmd.Arguments[2]
	}
	return cmd.MainClass
}

func (c *Core) driverEnded(d *driver, end DriverEnd) {
	d.state, d.message, d.ended = end.State, end.Error, c.now()
	switch end.State {
	case sparkmsg.DriverError:
		c.log.Warn("Driver "+d.id+" failed with unrecoverable exception: "+end.Error, "driver_id", d.id)
	case sparkmsg.DriverFailed:
		c.log.Warn("Driver "+d.id+" exited with failure", "driver_id", d.id)
	case sparkmsg.DriverFinished:
		c.log.Info("Driver " + d.id + " exited successfully")
	case sparkmsg.DriverKilled:
		c.log.Info("Driver " + d.id + " was killed")
	}
	delete(c.drivers, d.instance)
	d.process = nil
	c.coresUsed -= d.cores
	c.memoryUsed -= d.memory
	c.endedDrivers = trim(append(c.endedDrivers, d), c.cfg.RetainedDrivers)
	if c.stopping && !d.killed && d.supervise {
		return // the master starts it elsewhere when this worker is gone; KILLED would forbid that
	}
	c.driverIsOver(d.id, d.state, end.Error)
}

// driverIsOver owes the masters the end of a driver.
func (c *Core) driverIsOver(id string, state sparkmsg.DriverState, problem string) {
	msg := &sparkmsg.DriverStateChanged{DriverID: id, State: state}
	if problem != "" {
		msg.Exception = &sparkmsg.Exception{Class: "java.lang.Exception", Message: problem}
	}
	n := &driverNews{msg: msg, at: c.now()}
	c.driverNews = append(c.driverNews, n)
	if len(c.driverNews) > maxDriverNews {
		c.driverNews = c.driverNews[1:]
	}
	c.sayDriverNews([]*driverNews{n})
}

// tellDriverNews repeats the ends of drivers to a master that has just introduced itself.
func (c *Core) tellDriverNews() {
	kept := c.driverNews[:0]
	for _, n := range c.driverNews {
		if !n.taken || c.now().Sub(n.at) < driverNewsLife {
			kept = append(kept, n)
		}
	}
	clear(c.driverNews[len(kept):])
	c.driverNews = kept
	c.sayDriverNews(kept)
}

// sayDriverNews sends ends of drivers and asks behind them for a receipt.
func (c *Core) sayDriverNews(news []*driverNews) {
	if len(news) == 0 || !c.link.connected {
		return
	}
	for _, n := range news {
		c.tell(n.msg)
	}
	sent := append([]*driverNews(nil), news...)
	c.deps.Network.Receipt(c.link.to, c.cfg.AskTimeout, func(taken bool) {
		for _, n := range sent {
			n.taken = n.taken || taken
		}
	})
}

// killDriver handles KillDriver.
func (c *Core) killDriver(conn Conn, from *sparkmsg.Address, m *sparkmsg.KillDriver) {
	if !c.obeys(conn, from, "KillDriver "+m.DriverID) {
		return
	}
	c.log.Info("Asked to kill driver " + m.DriverID)
	if d := c.findDriver(m.DriverID); d != nil {
		d.killed = true
		d.process.Kill()
		return
	}
	if n := c.endOf(m.DriverID); n != nil {
		c.sayDriverNews([]*driverNews{n}) // the master has not heard of its end
		return
	}
	c.log.Error("Asked to kill unknown driver " + m.DriverID)
}
