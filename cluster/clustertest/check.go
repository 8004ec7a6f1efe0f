package clustertest

import (
	"fmt"
	"time"

	"raftmaster/cluster/master"
	"raftmaster/fsm"
	"raftmaster/transport/sparkmsg"
)

// askPatience is how long a running master may take to answer an ask: far more than any commit takes.
const askPatience = 30 * time.Second

// excusedAfter is how long a driver must have been cut off before the master may end its application. Somewhat less
// than the application's time-out, because its last sign of life is older than the cut.
const excusedAfter = appTimeout - 60*time.Second

// checker looks at everything that happens and reports what must never happen.
type checker struct {
	s         *Sim
	digests   []fsm.Digest // by index
	appIDs    map[string]bool
	lastExec  map[string]int // the last executor id of each application
	written   map[fsm.ExecutorKey]bool
	arrived   map[fsm.ExecutorKey]bool
	killed    map[fsm.ExecutorKey]bool
	asks      []*openAsk
	cutOff    map[*proc]*disturbance
	jobs      *jobChecker
	appFailed map[string]bool            // ended because its executors failed
	cleared   bool                       // somebody has cleared what is completed
	launches  map[string][]time.Duration // of applications whose executors never last, in the last minute
	launched  map[string]int             // of the same, since ever
	// holding: the cluster has settled, and must stay so.
	holding bool
}

type openAsk struct {
	m    *masterNode
	at   time.Duration
	what any
	over bool
}

// disturbance is a stretch of time in which some master could not reach a peer, or the other way round.
type disturbance struct{ from, to, longest time.Duration }

func newChecker(s *Sim) *checker {
	c := &checker{s: s, appIDs: map[string]bool{}, lastExec: map[string]int{}, written: map[fsm.ExecutorKey]bool{},
		arrived: map[fsm.ExecutorKey]bool{}, killed: map[fsm.ExecutorKey]bool{}, cutOff: map[*proc]*disturbance{},
		jobs: newJobChecker(), appFailed: map[string]bool{}, launches: map[string][]time.Duration{}, launched: map[string]int{}}
	c.watchAsks()
	c.watchDoubles()
	return c
}

// applied checks an entry when a machine has applied it: the invariants at its first application, the digest at all.
func (c *checker) applied(m *masterNode, index uint64, cmd fsm.Command, r fsm.Result) {
	view := m.machine.View()
	if int(index) <= len(c.digests) {
		if view.Digest() != c.digests[index-1] {
			c.s.fail("%s has another digest than the others at index %d, after %T", m.name, index, cmd)
		}
		return
	}
	c.s.note(m.name, "applies %d %s -> %+v %v", index, show(cmd), r.Value, r.Err)
	c.digests = append(c.digests, view.Digest())
	if err := fsm.Check(view); err != nil {
		c.s.fail("index %d, %T: %v", index, cmd, err)
	}
	c.jobsApplied(index, cmd, r, view)
	switch v := r.Value.(type) {
	case fsm.ExecutorChangedResult:
		if v.AppFailed {
			c.appFailed[cmd.(fsm.ExecutorChanged).AppID] = true
		}
	case fsm.RegisterApplicationResult:
		if v.Outcome != fsm.AppRepeated && c.appIDs[v.AppID] {
			c.s.fail("application id %s was given twice", v.AppID)
		}
		c.appIDs[v.AppID] = true
	case fsm.PlaceResult:
		for _, p := range v.Placed {
			if last, ok := c.lastExec[p.Key.AppID]; ok && p.Key.ExecID <= last {
				c.s.fail("executor id %v follows %d", p.Key, last)
			}
			c.lastExec[p.Key.AppID] = p.Key.ExecID
		}
	}
}

// committed checks that nothing ends while nothing disturbs a cluster that has settled.
func (c *checker) committed(cmd fsm.Command) {
	if !c.holding {
		return
	}
	switch cmd := cmd.(type) {
	case fsm.RemoveWorker, fsm.FinishApplication, fsm.MarkIncompatible:
		c.s.fail("committed in a settled cluster: %s", show(cmd))
	case fsm.ReconcileWorker:
		if len(cmd.Missing)+len(cmd.MissingDrivers) > 0 {
			c.s.fail("executors or drivers are missing in a settled cluster: %s", show(cmd))
		}
	}
}

// pushed checks a message that a master writes to its outbox's connection.
func (c *checker) pushed(m *masterNode, to sparkmsg.Address, msg sparkmsg.Message) {
	if c.s.trace != nil {
		c.s.note(m.name, "to %v: %s", to, show(msg))
	}
	if !c.s.raft.leaseValid(m) {
		c.s.fail("%s sends %s without the lease", m.name, show(msg))
	}
	switch msg := msg.(type) {
	case *sparkmsg.LaunchExecutor:
		key := fsm.ExecutorKey{AppID: msg.AppID, ExecID: int(msg.ExecID)}
		if c.written[key] {
			c.s.fail("%s sends the launch of %v a second time", m.name, key)
		}
		c.written[key] = true
	case *sparkmsg.LaunchDriver:
		c.jobWritten(m, msg.DriverID)
	case *sparkmsg.KillDriver:
		c.jobs.killed[msg.DriverID] = true
	case *sparkmsg.KillExecutor:
		c.killed[fsm.ExecutorKey{AppID: msg.AppID, ExecID: int(msg.ExecID)}] = true
	}
}

// pushedDirect checks what a master says outside its outboxes.
func (c *checker) pushedDirect(m *masterNode, msg sparkmsg.Message) {
	if c.s.trace != nil {
		c.s.note(m.name, "directly: %s", show(msg))
	}
	if _, standby := msg.(*sparkmsg.MasterInStandby); !standby && !c.s.raft.leaseValid(m) {
		c.s.fail("%s says %s without the lease", m.name, show(msg))
	}
}

// launchArrived checks that no launch reaches workers twice.
func (c *checker) launchArrived(w *worker, key fsm.ExecutorKey) {
	if c.arrived[key] {
		c.s.fail("%s is told to launch %v, which was launched before", w.name, key)
	}
	c.arrived[key] = true
	c.launchRate(key.AppID)
}

// launchRate checks that executors that never last are not launched without end (G-44): of 8 at once, each round comes
// after a pause that doubles, 1 s after the third failure and 60 s in the end.
func (c *checker) launchRate(app string) {
	const window, limit = time.Minute, 3 + 8*7
	d := c.s.driverOf(app)
	if d == nil || !d.crashing {
		return
	}
	recent := append(c.launches[app], c.s.now)
	for recent[0] < c.s.now-window {
		recent = recent[1:]
	}
	c.launches[app] = recent
	if len(recent) > limit {
		c.s.fail("%d executors of %s, all of which fail, were launched within %v", len(recent), app, window)
	}
	// Ten failures end an application, at the latest when those that run meanwhile have failed as well. Where workers and
	// masters are lost in between, other rules count too.
	const most = 10 + 2*8
	if c.launched[app]++; c.launched[app] > most && c.s.opt.Scenario == "crashloop" && !c.s.opt.UnlimitedRetries {
		c.s.fail("%d executors of %s, all of which fail, were launched in spite of the limit", c.launched[app], app)
	}
}

// workerLoad checks that a worker has what it is told to run. Executors that are on their way out do not count (G-55),
// nor do those whose kill was written and lost with its connection: the worker's next list brings it again.
func (c *checker) workerLoad(w *worker) {
	cores, mem := 0, 0
	for _, e := range w.execs {
		if !e.told && !c.killed[e.key] {
			cores += e.cores
			mem += e.mem
		}
	}
	for _, j := range w.jobs {
		if !j.told && !c.jobs.killed[j.id] {
			cores += j.cores
			mem += j.mem
		}
	}
	if cores > w.cores || mem > w.mem {
		c.s.fail("%s runs %d of %d cores and %d of %d MiB", w.name, cores, w.cores, mem, w.mem)
	}
}

// workerExited is called when a worker process gives up: always because of the masters.
func (c *checker) workerExited(w *worker, why string) {
	c.s.fail("%s exited: %s", w.name, why)
}

// registeredApp checks that a driver gets one id and no other (B-102, B-107).
func (c *checker) registeredApp(d *driver, id string) {
	if d.id != "" && d.id != id {
		c.s.fail("%s has id %s and is told %s", d.name, d.id, id)
	}
}

// executorAdded checks that a driver hears of each executor once.
func (c *checker) executorAdded(d *driver, id int32) {
	for _, known := range d.ids {
		if known == id && d.registered {
			c.s.fail("%s is told twice that executor %d was added", d.name, id)
		}
	}
}

// appRemoved is called when a living driver learns that its application was ended.
func (c *checker) appRemoved(d *driver, why string) {
	app := c.application(d.id)
	if !c.mayEnd(d, app) {
		reason := "?"
		if app != nil {
			reason = app.EndReason
		}
		c.s.fail("the application %q of the living %s was ended: %s (%s)", d.id, d.name, why, reason)
	}
}

// incompatible checks that only workers that cannot run an application are marked so. A worker that was cut off may be:
// an executor that started late and ended before its worker could say anything looks like one that was never started.
func (c *checker) incompatible(view fsm.View) (err error) {
	view.ActiveApplications(func(a *fsm.Application) bool {
		for _, id := range a.IncompatibleWorkers {
			for _, w := range c.s.workers {
				mayBe := w.decommissioned || w.ordered || c.cutOff[w.proc] != nil || w.cannotRead && c.s.appFamily(a.ID) != w.fam
				if w.id == id && !mayBe {
					err = fmt.Errorf("application %s will not use %s, which could run it", a.ID, w.name)
				}
			}
		}
		return err == nil
	})
	return err
}

// targetsRefused is called when a driver is told that its application is not known.
func (c *checker) targetsRefused(d *driver) {
	if d.up && !c.mayEnd(d, c.application(d.id)) {
		c.s.fail("the application %s of the living %s is not known to the master", d.id, d.name)
	}
}

// application finds an application in the most recent state.
func (c *checker) application(id string) *fsm.Application {
	app, _ := c.newest().machine.View().Application(id)
	return app
}

// newest gives the master that has applied the most.
func (c *checker) newest() *masterNode {
	var best *masterNode
	for _, m := range c.s.masters {
		if best == nil || m.applied > best.applied {
			best = m
		}
	}
	return best
}

// mayEnd tells whether a living driver's application may end by the master's decision: too many failures, or a driver
// that could not be reached for as long as it takes.
func (c *checker) mayEnd(d *driver, app *fsm.Application) bool {
	if d.unregistered || d.wasUndialable || d.condemned || c.appFailed[d.id] {
		return true
	}
	cut := c.cutOff[d.proc]
	return cut != nil && cut.longest >= excusedAfter
}

// disturbed notes that a peer is cut off for a time. Cuts that follow each other closely count as one.
func (c *checker) disturbed(p *peer, d time.Duration) {
	now := c.s.now
	cut := c.cutOff[p.proc]
	if cut == nil || now > cut.to+20*time.Second {
		longest := time.Duration(0)
		if cut != nil {
			longest = cut.longest
		}
		cut = &disturbance{from: now, longest: longest}
		c.cutOff[p.proc] = cut
	}
	cut.to = max(cut.to, now+d)
	cut.longest = max(cut.longest, cut.to-cut.from)
}

// askArrived notes an ask that a master owes an answer.
func (c *checker) askArrived(m *masterNode, what any) *openAsk {
	if c.s.trace != nil {
		c.s.note(m.name, "is asked %s", show(what))
	}
	a := &openAsk{m: m, at: c.s.now, what: what}
	c.asks = append(c.asks, a)
	return a
}

func (c *checker) askAnswered(a *openAsk) {
	if a.over {
		c.s.fail("%s answered %s twice", a.m.name, show(a.what))
	}
	a.over = true
}

// watchAsks looks for asks that a running master has forgotten: whoever asked would wait for its time-out, and a worker
// in the end exits (B-128).
func (c *checker) watchAsks() {
	c.s.after(5*time.Second, func() {
		kept := c.asks[:0]
		for _, a := range c.asks {
			switch {
			case a.over || !a.m.up:
				continue
			case a.m.paused:
				a.at = c.s.now
			case c.s.now-a.at > askPatience:
				c.s.fail("%s has not answered %s for %v", a.m.name, show(a.what), c.s.now-a.at)
			}
			kept = append(kept, a)
		}
		clear(c.asks[len(kept):])
		c.asks = kept
		c.watchAsks()
	})
}

// leader gives the leader, when it may speak, with its view and soft state.
func (c *checker) leader() (*masterNode, fsm.View, master.Status, bool) {
	m := c.s.raft.leader
	if m == nil || !c.s.raft.leaseValid(m) {
		return nil, fsm.View{}, master.Status{}, false
	}
	return m, m.machine.View(), m.core.Status(), true
}
