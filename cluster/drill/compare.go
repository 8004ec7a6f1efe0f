package drill

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"raftmaster/transport/webui"
)

// Names of commands in the replicated log (fsm).
const (
	cmdRegisterWorker  = "RegisterWorker"
	cmdRemoveWorker    = "RemoveWorker"
	cmdReapWorkers     = "ReapWorkers"
	cmdReconcile       = "ReconcileWorker"
	cmdDecommission    = "DecommissionWorkers"
	cmdDrain           = "DrainWorkers"
	cmdRegisterApp     = "RegisterApplication"
	cmdFinishApp       = "FinishApplication"
	cmdExecutorChanged = "ExecutorChanged"
	cmdSetTargets      = "SetTargets"
	cmdKillExecutors   = "KillExecutors"
	cmdIncompatible    = "MarkIncompatible"
	cmdSubmitDriver    = "SubmitDriver"
	cmdKillDriver      = "RequestKillDriver"
	cmdKillDrivers     = "KillAllDrivers"
	cmdDriverChanged   = "DriverChanged"
	cmdPlaceDrivers    = "PlaceDrivers"
	cmdRestore         = "CommitRestore"
)

// disassociated is how the reason of a worker's removal ends when its process was found to be gone: dialling it was
// refused. Any other removal is a time-out, which a drill must not cause.
const disassociated = "got disassociated"

// noAnswer is part of the reason when an application is given up by a time-out.
const noAnswer = "gave no answer"

// Compare finds what differs between two states of one cluster, and explains it by the entries of the log between them.
// Applications that the drill itself has registered are ignored. What is not explained is damage.
func Compare(before, after webui.DrillState, log []webui.DrillEntry, ignore []string) []Difference {
	c := &comparison{before: before, after: after, about: map[string][]*webui.DrillEntry{}, fine: map[string]bool{}, ignore: ignore}
	for i := range log {
		e := &log[i]
		if e.Index <= before.StateIndex || e.Index > after.StateIndex {
			continue
		}
		c.inside = append(c.inside, e)
		for _, s := range e.Subjects {
			c.about[s] = append(c.about[s], e)
		}
	}
	if e := c.any(cmdRestore); e != nil {
		c.judge("state", "all", "restored", before.StateIndex, after.StateIndex, e, "an operator has restored a snapshot: nothing can be compared")
		return c.out
	}
	c.workers()
	c.removedBetween()
	c.apps()
	c.executors()
	c.drivers()
	c.counters()
	c.sums()
	return c.out
}

type comparison struct {
	before, after webui.DrillState
	inside        []*webui.DrillEntry
	about         map[string][]*webui.DrillEntry
	ignore        []string
	// fine are workers and applications whose end is explained, so that the end of what they had is, too.
	fine map[string]bool
	out  []Difference
}

// find gives the last entry of one of the commands about a subject.
func (c *comparison) find(subject string, commands ...string) *webui.DrillEntry {
	list := c.about[subject]
	for i := len(list) - 1; i >= 0; i-- {
		if slices.Contains(commands, list[i].Command) {
			return list[i]
		}
	}
	return nil
}

// any gives the last entry of a command, whatever it was about.
func (c *comparison) any(command string) *webui.DrillEntry {
	for i := len(c.inside) - 1; i >= 0; i-- {
		if c.inside[i].Command == command {
			return c.inside[i]
		}
	}
	return nil
}

func (c *comparison) add(d Difference) { c.out = append(c.out, d) }

// damage notes what nothing explains; e is the entry that did it, where one is known.
func (c *comparison) damage(kind, subject, change string, before, after any, why string, e *webui.DrillEntry) {
	d := Difference{Kind: kind, Subject: subject, Change: change, Before: fmt.Sprint(before), After: fmt.Sprint(after), Why: why}
	if e != nil {
		d.Index = e.Index
		d.Why += " (" + e.Command + entryDetail(e) + ")"
	}
	c.add(d)
}

func entryDetail(e *webui.DrillEntry) string {
	if e.Detail == "" {
		return ""
	}
	return ": " + e.Detail
}

// judge notes a difference: explained by an entry if there is one.
func (c *comparison) judge(kind, subject, change string, before, after any, e *webui.DrillEntry, why string) {
	if e == nil {
		c.damage(kind, subject, change, before, after, "no entry of the log explains it", nil)
		return
	}
	c.add(Difference{Kind: kind, Subject: subject, Change: change, Before: fmt.Sprint(before), After: fmt.Sprint(after), Explained: true,
		Why: why + " (" + e.Command + entryDetail(e) + ")", Index: e.Index})
}

func (c *comparison) workers() {
	now := map[string]*webui.DrillWorker{}
	for i := range c.after.Workers {
		now[c.after.Workers[i].ID] = &c.after.Workers[i]
	}
	for i := range c.before.Workers {
		w := &c.before.Workers[i]
		n := now[w.ID]
		delete(now, w.ID)
		if n == nil {
			e := c.find(w.ID, cmdReapWorkers)
			if w.State != "DEAD" {
				e = c.find(w.ID, cmdRegisterWorker) // another worker has taken its address
			}
			c.fine[w.ID] = e != nil
			c.judge("worker", w.ID, "missing", w.State, "", e, "it was forgotten")
			continue
		}
		c.worker(w, n)
	}
	for i := range c.after.Workers {
		if n := now[c.after.Workers[i].ID]; n != nil {
			c.judge("worker", n.ID, "new", "", n.State, c.find(n.ID, cmdRegisterWorker), "it has registered during the drill")
		}
	}
}

func (c *comparison) worker(w, n *webui.DrillWorker) {
	if w.State != n.State {
		c.workerState(w, n)
	}
	registered := c.find(w.ID, cmdRegisterWorker)
	for _, v := range []struct {
		name          string
		before, after any
		e             *webui.DrillEntry
	}{
		{"address", w.Address, n.Address, registered}, {"cores", w.Cores, n.Cores, registered}, {"memory", w.MemoryMB, n.MemoryMB, registered},
		{"drain mark", w.Draining, n.Draining, c.find(w.ID, cmdDrain)},
		{"decommission mark", w.Decommissioned, n.Decommissioned, c.find(w.ID, cmdDecommission)},
	} {
		if v.before != v.after {
			c.judge("worker", w.ID, v.name, v.before, v.after, v.e, "it was changed during the drill")
		}
	}
}

func (c *comparison) workerState(w, n *webui.DrillWorker) {
	switch {
	case n.State == "DEAD":
		e := c.find(w.ID, cmdRemoveWorker)
		if e != nil && strings.Contains(e.Detail, disassociated) {
			c.fine[w.ID] = true
			c.judge("worker", w.ID, "state", w.State, n.State, e, "its process has ended")
			return
		}
		if r := c.find(w.ID, cmdRegisterWorker); e == nil && r != nil {
			c.fine[w.ID] = true
			c.judge("worker", w.ID, "state", w.State, n.State, r, "another worker has taken its address")
			return
		}
		c.damage("worker", w.ID, "state", w.State, n.State, "a worker was given up", e)
	case n.State == "DECOMMISSIONED":
		c.judge("worker", w.ID, "state", w.State, n.State, c.find(w.ID, cmdDecommission), "it was decommissioned")
	default:
		c.judge("worker", w.ID, "state", w.State, n.State, c.find(w.ID, cmdRegisterWorker, cmdReconcile), "it came back")
	}
}

// removedBetween finds workers that were given up and have come back since: the end alone does not show them.
func (c *comparison) removedBetween() {
	states := map[string]string{}
	for _, w := range c.after.Workers {
		states[w.ID] = w.State
	}
	for _, e := range c.inside {
		if e.Command != cmdRemoveWorker || strings.Contains(e.Detail, disassociated) {
			continue
		}
		for _, id := range e.Subjects {
			if s := states[id]; s == "ALIVE" || s == "DECOMMISSIONED" {
				c.damage("worker", id, "was given up in between", s, s, "a time-out of the masters", e)
			}
		}
	}
}

func (c *comparison) ignored(app string) bool { return slices.Contains(c.ignore, app) }

func (c *comparison) apps() {
	now := map[string]*webui.DrillApp{}
	var order []string
	for i := range c.after.Apps {
		a := &c.after.Apps[i]
		now[a.ID] = a
		order = append(order, a.ID)
	}
	known := map[string]bool{}
	var stayed []string
	for i := range c.before.Apps {
		a := &c.before.Apps[i]
		if known[a.ID] = true; c.ignored(a.ID) {
			continue
		}
		n := now[a.ID]
		if n == nil {
			c.appEnded(a)
			continue
		}
		stayed = append(stayed, a.ID)
		c.app(a, n)
	}
	c.order("application", stayed, order)
	for i := range c.after.Apps {
		n := &c.after.Apps[i]
		if known[n.ID] || c.ignored(n.ID) {
			continue
		}
		e := c.find(n.ID, cmdRegisterApp)
		if n.Number < c.before.NextApp {
			c.damage("application", n.ID, "new", "", n.State, fmt.Sprintf("its number %d was given before: the counter stood at %d", n.Number, c.before.NextApp), e)
			continue
		}
		c.judge("application", n.ID, "new", "", n.State, e, "it has registered during the drill")
	}
}

// order finds things that have changed places in a queue. now may hold more than stayed.
func (c *comparison) order(kind string, stayed, now []string) {
	var same []string
	for _, id := range now {
		if slices.Contains(stayed, id) {
			same = append(same, id)
		}
	}
	if !slices.Equal(stayed, same) {
		c.damage("queue", kind+"s", "order", strings.Join(stayed, " "), strings.Join(same, " "), "the order of the queue is that of registration and never changes", nil)
	}
}

func (c *comparison) appEnded(a *webui.DrillApp) {
	e := c.find(a.ID, cmdFinishApp, cmdRegisterApp)
	if e != nil && strings.Contains(e.Detail, noAnswer) {
		c.damage("application", a.ID, "ended", a.State, "", "an application was given up", e)
		return
	}
	if e == nil { // the end of too many executors ends it, too
		for _, x := range c.inside {
			if x.Command == cmdExecutorChanged && len(x.Subjects) == 1 && strings.HasPrefix(x.Subjects[0], a.ID+"/") &&
				(strings.HasPrefix(x.Detail, "FAILED") || strings.HasPrefix(x.Detail, "EXITED")) {
				e = x
			}
		}
	}
	c.fine[a.ID] = e != nil
	c.judge("application", a.ID, "ended", a.State, "", e, "it has ended by itself, or somebody ended it")
}

func (c *comparison) app(a, n *webui.DrillApp) {
	for _, v := range []struct {
		name          string
		before, after any
	}{
		{"number", a.Number, n.Number}, {"driver address", a.Driver, n.Driver}, {"core limit", a.MaxCores, n.MaxCores},
	} {
		if v.before != v.after {
			c.damage("application", a.ID, v.name, v.before, v.after, "it never changes", nil)
		}
	}
	if n.NextExecutor < a.NextExecutor {
		c.damage("application", a.ID, "next executor id", a.NextExecutor, n.NextExecutor, "the counter went back: ids will be reused", nil)
	}
	if before, after := targets(a.Targets), targets(n.Targets); before != after {
		c.judge("application", a.ID, "targets", before, after, c.find(a.ID, cmdSetTargets), "it has asked for it")
	}
	if a.State != n.State && executorsOf(c.before, a.ID) == executorsOf(c.after, n.ID) {
		c.damage("application", a.ID, "state", a.State, n.State, "its executors are the same", nil)
	}
}

func targets(list []webui.DrillTarget) string {
	var out []string
	for _, t := range list {
		text := "all"
		if t.Target != webui.Unlimited {
			text = strconv.FormatInt(t.Target, 10)
		}
		out = append(out, fmt.Sprintf("profile %d: %s", t.Profile, text))
	}
	return strings.Join(out, ", ")
}

func executorsOf(s webui.DrillState, app string) string {
	var out []string
	for _, e := range s.Executors {
		if e.AppID == app {
			out = append(out, strconv.Itoa(e.ID)+e.State)
		}
	}
	return strings.Join(out, " ")
}

func (c *comparison) counters() {
	for _, v := range []struct {
		name          string
		before, after uint64
	}{{"next application", c.before.NextApp, c.after.NextApp}, {"next driver", c.before.NextDriver, c.after.NextDriver}} {
		if v.after < v.before {
			c.damage("counter", v.name, "went back", v.before, v.after, "ids will be reused", nil)
		}
	}
}
