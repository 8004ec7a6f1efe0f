package clustertest

import (
	"fmt"
	"strings"
	"time"

	"raftmaster/fsm"
	"raftmaster/transport/sparkmsg"
)

// jobTruth is what the checker knows of one driver id.
type jobTruth struct {
	id, pred, succ string
	state          fsm.DriverState
	families       sparkmsg.FamilySet
	waiting        time.Duration // since when it waits
	requeues       int           // launches that the books say were lost
	written        int           // launches that were written to a connection
	arrived        int           // launches that reached a worker
	quick          int           // runs in a row, up to and without this one, that did not last
	notBefore      int64         // the earliest moment of its launch, Unix milliseconds
	ended          int64
	forgotten      bool
}

// jobChecker is the part of the checker that is about drivers of cluster deploy mode.
type jobChecker struct {
	known   map[string]*jobTruth
	order   []string // ids as they were given
	byJar   map[string]string
	killed  map[string]bool // ids whose KillDriver was written
	doomed  map[string]bool // ids whose kill was accepted
	doubles map[string]time.Duration
	scanned uint64 // index of the last full look
}

func newJobChecker() *jobChecker {
	return &jobChecker{known: map[string]*jobTruth{}, byJar: map[string]string{}, killed: map[string]bool{}, doomed: map[string]bool{},
		doubles: map[string]time.Duration{}}
}

// root gives the first id of a chain of relaunches.
func (j *jobChecker) root(id string) string {
	for t := j.known[id]; t != nil && t.pred != ""; t = j.known[t.pred] {
		id = t.pred
	}
	return id
}

// last gives the last id of a chain.
func (j *jobChecker) last(id string) *jobTruth {
	t := j.known[id]
	for t != nil && t.succ != "" {
		t = j.known[t.succ]
	}
	return t
}

// chain lists an id and its successors.
func (j *jobChecker) chain(id string) []string {
	out := []string{id}
	for t := j.known[id]; t != nil && t.succ != ""; t = j.known[t.succ] {
		out = append(out, t.succ)
	}
	return out
}

// jobFamily gives the family of the client of a driver.
func (c *checker) jobFamily(id string) sparkmsg.Family {
	if t := c.jobs.known[id]; t != nil && t.families.Has(sparkmsg.FamilyB) {
		return sparkmsg.FamilyB
	}
	return sparkmsg.FamilyE
}

// jobsApplied looks at the drivers after an entry that was applied for the first time.
func (c *checker) jobsApplied(index uint64, cmd fsm.Command, r fsm.Result, view fsm.View) {
	switch cmd.(type) {
	case fsm.ExecutorChanged, fsm.PlaceExecutors, fsm.SetTargets, fsm.ConfirmApplication, fsm.KillExecutors:
		if index < c.jobs.scanned+16 {
			return
		}
	}
	c.jobs.scanned = index
	if r.Err == nil {
		if submit, ok := cmd.(fsm.SubmitDriver); ok {
			c.jobSubmitted(submit, r.Value.(fsm.DriverSubmitted).ID)
		}
	}
	seen := 0
	look := func(d *fsm.Driver) bool {
		seen++
		c.jobSeen(cmd, d, view)
		return true
	}
	view.Drivers(look)
	view.CompletedDrivers(look)
	if _, clear := cmd.(fsm.ClearCompleted); clear || seen < len(c.jobs.order) {
		c.jobsForgotten(cmd, view)
	}
	if place, ok := cmd.(fsm.PlaceDrivers); ok && r.Err == nil {
		c.jobsPlaced(place, r.Value.(fsm.PlaceDriversResult), view)
	}
}

// jobSubmitted checks that nothing is submitted twice, and that ids are not given twice.
func (c *checker) jobSubmitted(cmd fsm.SubmitDriver, id string) {
	if other := c.jobs.byJar[cmd.JarURL]; other != "" && !c.jobs.known[other].forgotten {
		c.s.fail("%s was submitted twice, as %s and as %s", cmd.JarURL, other, id)
	}
	if c.jobs.known[id] != nil {
		c.s.fail("the driver id %s was given twice", id)
	}
	c.jobs.byJar[cmd.JarURL] = id
}

// jobSeen follows one driver from state to state.
func (c *checker) jobSeen(cmd fsm.Command, d *fsm.Driver, view fsm.View) {
	t := c.jobs.known[d.ID]
	if t == nil {
		t = &jobTruth{id: d.ID, pred: d.Predecessor, families: sparkmsg.FamilySet(d.Families), waiting: c.s.now}
		c.jobs.known[d.ID] = t
		c.jobs.order = append(c.jobs.order, d.ID)
		c.relaunched(t, d, view)
	}
	if t.state != d.State {
		if err := jobMoves(t.state, d.State, cmd); err != nil {
			c.s.fail("driver %s: %v", d.ID, err)
		}
		if d.State == fsm.DriverStateSubmitted {
			t.waiting = c.s.now
			t.requeues++
		}
	}
	t.state, t.succ, t.ended = d.State, d.Successor, d.EndedAtMillis
}

// jobMoves tells what is wrong with a change of state.
func jobMoves(from, to fsm.DriverState, cmd fsm.Command) error {
	_, placed := cmd.(fsm.PlaceDrivers)
	_, listed := cmd.(fsm.ReconcileWorker)
	switch {
	case from.Finished():
		return fmt.Errorf("it was %v, which is final, and is %v after %T", from, to, cmd)
	case from == fsm.DriverStateSubmitted && to == fsm.DriverStateRunning && !placed:
		return fmt.Errorf("it is RUNNING after %T", cmd)
	case from == fsm.DriverStateSubmitted && to.Finished() && to != fsm.DriverStateKilled:
		return fmt.Errorf("it waited, and is %v after %T", to, cmd)
	case from == fsm.DriverStateRunning && to == fsm.DriverStateSubmitted && !listed:
		return fmt.Errorf("it was RUNNING and waits again after %T", cmd)
	}
	return nil
}

// relaunched works out when a successor may be launched: after the delay, and ever later when its runs do not last.
func (c *checker) relaunched(t *jobTruth, d *fsm.Driver, view fsm.View) {
	pred, ok := view.Driver(d.Predecessor)
	if !ok {
		return
	}
	known := c.jobs.known[pred.ID]
	if pred.EndedAtMillis-pred.LaunchedAtMillis < 120_000 {
		t.quick = known.quick + 1
	}
	wait := time.Duration(0)
	if t.quick > 2 {
		wait = min(time.Second<<min(t.quick-3, 10), time.Minute)
	}
	t.notBefore = pred.EndedAtMillis + max(wait, c.s.opt.RelaunchDelay).Milliseconds()
}

// jobsForgotten checks that only drivers that have ended are forgotten, and only on somebody's order.
func (c *checker) jobsForgotten(cmd fsm.Command, view fsm.View) {
	for _, id := range c.jobs.order {
		t := c.jobs.known[id]
		if _, ok := view.Driver(id); ok || t.forgotten {
			continue
		}
		t.forgotten = true
		if _, clear := cmd.(fsm.ClearCompleted); !clear || !t.state.Finished() {
			c.s.fail("driver %s, which is %v, is forgotten after %T", id, t.state, cmd)
		}
	}
}

// jobsPlaced checks the limit, the delays and the order of what was placed.
func (c *checker) jobsPlaced(cmd fsm.PlaceDrivers, r fsm.PlaceDriversResult, view fsm.View) {
	if limit := c.s.opt.MaxDrivers; limit > 0 && view.Totals().DriversRunning > limit {
		c.s.fail("%d drivers run, and maxDrivers is %d", view.Totals().DriversRunning, limit)
	}
	dropped := map[string]bool{}
	for _, d := range r.Dropped {
		dropped[d.Placement.DriverID] = true
	}
	for _, p := range r.Placed {
		t := c.jobs.known[p.DriverID]
		if cmd.NowMillis < t.notBefore {
			c.s.fail("driver %s is launched %d ms before its time", p.DriverID, t.notBefore-cmd.NowMillis)
		}
		if w, ok := view.Worker(p.WorkerID); !ok || w.Draining || w.State != fsm.WorkerAlive {
			c.s.fail("driver %s is launched on %s, which takes no work", p.DriverID, p.WorkerID)
		}
		placed, _ := view.Driver(p.DriverID)
		view.WaitingDrivers(func(d *fsm.Driver) bool {
			early := c.jobs.known[d.ID]
			planned := time.UnixMilli(cmd.NowMillis).Sub(epoch)
			if d.Number < placed.Number && early.waiting < planned && d.NotBeforeMillis <= cmd.NowMillis && !dropped[d.ID] && notLarger(d, placed) {
				c.s.fail("driver %s is launched, and %s, which is older and no larger, waits", p.DriverID, d.ID)
			}
			return true
		})
	}
}

// notLarger tells whether a driver needs nothing that another one does not.
func notLarger(d, than *fsm.Driver) bool {
	need := map[string]int{}
	for _, r := range than.ResourceReqs {
		need[r.Name] = r.Amount
	}
	for _, r := range d.ResourceReqs {
		if r.Amount > need[r.Name] {
			return false
		}
	}
	return d.Cores <= than.Cores && d.MemoryMB <= than.MemoryMB && d.Families == than.Families && d.Release == than.Release
}

// jobWritten checks that a launch is written once, unless the books say that the one before was lost.
func (c *checker) jobWritten(m *masterNode, id string) {
	t := c.jobs.known[id]
	switch {
	case t == nil:
		c.s.fail("%s launches %s, which nobody has submitted", m.name, id)
	case t.written > t.requeues:
		c.s.fail("%s sends the launch of driver %s a second time", m.name, id)
	default:
		t.written++
	}
}

// jobArrived checks that no driver id reaches workers a second time while its first copy may run. Where a launch was
// received, run and ended between the death of one leader and the next, nobody can tell, and it is launched again: then
// its first copy is over.
func (c *checker) jobArrived(w *worker, id string) {
	t := c.jobs.known[id]
	if t == nil {
		c.s.fail("%s is told to launch %s, which nobody has submitted", w.name, id)
		return
	}
	if t.arrived++; t.arrived > 1+t.requeues {
		c.s.fail("%s is told to launch driver %s, which was launched before", w.name, id)
	}
	for _, other := range c.s.livingWorkers() {
		for _, j := range other.jobs {
			if j.id == id {
				c.s.fail("%s is told to launch driver %s, which was launched before and runs on %s", w.name, id, other.name)
			}
		}
	}
}

// jobAccepted checks that what a client is told is committed.
func (c *checker) jobAccepted(cl *client) {
	if c.jobs.known[cl.id] == nil || c.jobs.byJar[cl.jar()] != cl.id {
		c.s.fail("%s was told the id %s, which is not its driver's", cl.name, cl.id)
	}
}

// jobStatus checks an answer to the question how a driver is.
func (c *checker) jobStatus(id string, answer *sparkmsg.DriverStatusResponse) {
	t := c.jobs.known[id]
	switch {
	case answer.Exception != nil && strings.HasPrefix(answer.Exception.Message, backupPrefix):
	case !answer.Found && (!t.forgotten || t.pred == "" && !c.jobs.last(id).state.Finished()):
		c.s.fail("driver %s is not known to the leader", id)
	case answer.Found && fsm.DriverState(*answer.State).Finished() && fsm.DriverState(*answer.State) != t.state:
		c.s.fail("driver %s is %v, and was said to be %v", id, t.state, *answer.State)
	}
}

// jobKillAccepted notes that a driver must end.
func (c *checker) jobKillAccepted(id string) { c.jobs.doomed[id] = true }

// jobKillRefused checks that there is nothing to be killed. Of a chain of which somebody has cleared what is over, the
// first id is still good, which its submitter knows, and the last.
func (c *checker) jobKillRefused(id, why string) {
	if t := c.jobs.known[id]; t.forgotten && t.pred != "" {
		return
	}
	if t := c.jobs.last(id); !t.state.Finished() {
		c.s.fail("the kill of %s was refused (%s), and it is not over", id, why)
	}
}

// watchDoubles looks for chains of which two copies run on workers that the leader has in its hands, for longer than it
// takes to end one.
func (c *checker) watchDoubles() {
	const every, limit = time.Second, 75 * time.Second
	c.s.after(every, func() {
		copies, doubles := c.copies(), map[string]time.Duration{}
		for _, root := range c.jobs.order {
			if copies[root] < 2 {
				continue
			}
			doubles[root] = c.jobs.doubles[root] + every
			if doubles[root] > limit {
				c.s.fail("%d copies of %s have been running for %v", copies[root], root, doubles[root])
			}
		}
		c.jobs.doubles = doubles
		c.watchDoubles()
	})
}

// copies counts the running copies of each chain on workers that are in touch with the leader.
func (c *checker) copies() map[string]int {
	out := map[string]int{}
	m := c.s.raft.leader
	if m == nil || !c.s.raft.leaseValid(m) {
		return out
	}
	for _, w := range c.s.livingWorkers() {
		cut := c.cutOff[w.proc]
		if w.paused || w.master == nil || w.master.addr != m.addr || !w.master.conn.k.open || cut != nil && c.s.now < cut.to+20*time.Second {
			continue
		}
		for _, j := range w.jobs {
			out[c.jobs.root(j.id)]++
		}
	}
	return out
}
