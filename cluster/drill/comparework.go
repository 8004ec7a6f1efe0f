package drill

import (
	"fmt"
	"strconv"
	"strings"

	"raftmaster/transport/webui"
)

func executorName(e *webui.DrillExecutor) string { return e.AppID + "/" + strconv.Itoa(e.ID) }

func (c *comparison) executors() {
	now := map[string]*webui.DrillExecutor{}
	for i := range c.after.Executors {
		now[executorName(&c.after.Executors[i])] = &c.after.Executors[i]
	}
	next := map[string]int{}
	for _, a := range c.before.Apps {
		next[a.ID] = a.NextExecutor
	}
	known := map[string]bool{}
	for i := range c.before.Executors {
		e := &c.before.Executors[i]
		name := executorName(e)
		known[name] = true
		if n := now[name]; n != nil {
			c.executor(name, e, n)
		} else {
			c.executorEnded(name, e)
		}
	}
	for i := range c.after.Executors {
		n := &c.after.Executors[i]
		name := executorName(n)
		if known[name] {
			continue
		}
		if first, ok := next[n.AppID]; ok && n.ID < first {
			c.damage("executor", name, "new", "", n.WorkerID, fmt.Sprintf("its id was given before: the counter stood at %d", first), nil)
			continue
		}
		if c.ignored(n.AppID) {
			continue
		}
		c.add(Difference{Kind: "executor", Subject: name, Change: "new", After: n.State + " on " + n.WorkerID, Explained: true,
			Why: "it was placed during the drill, under a new id"})
	}
}

// executor compares one that is still there.
func (c *comparison) executor(name string, e, n *webui.DrillExecutor) {
	if e.WorkerID != n.WorkerID || e.LaunchedMillis != n.LaunchedMillis {
		c.damage("executor", name, "another executor", fmt.Sprintf("%s, launched %d", e.WorkerID, e.LaunchedMillis),
			fmt.Sprintf("%s, launched %d", n.WorkerID, n.LaunchedMillis), "the id was reused", nil)
		return
	}
	if e.Cores != n.Cores || e.MemoryMB != n.MemoryMB {
		c.damage("executor", name, "size", fmt.Sprintf("%d cores, %d MiB", e.Cores, e.MemoryMB), fmt.Sprintf("%d cores, %d MiB", n.Cores, n.MemoryMB), "it never changes", nil)
	}
	switch {
	case e.State == n.State, e.State == "LAUNCHING" && n.State == "RUNNING":
	case n.State == "DECOMMISSIONED":
		c.judge("executor", name, "state", e.State, n.State, c.find(e.WorkerID, cmdDecommission), "its worker was decommissioned")
	default:
		c.damage("executor", name, "state", e.State, n.State, "an executor does not go back", nil)
	}
}

// executorEnded looks for who ended an executor.
func (c *comparison) executorEnded(name string, e *webui.DrillExecutor) {
	gone := func(entry *webui.DrillEntry, why string) { c.judge("executor", name, "ended", e.State, "", entry, why) }
	lost := func(entry *webui.DrillEntry, why string) { c.damage("executor", name, "lost", e.State, "", why, entry) }
	changed, reconciled := c.find(name, cmdExecutorChanged), c.find(name, cmdReconcile)
	switch kill, bad := c.find(name, cmdKillExecutors), c.find(name, cmdIncompatible); {
	case c.fine[e.AppID]:
		gone(c.find(e.AppID, cmdFinishApp, cmdRegisterApp, cmdExecutorChanged), "its application has ended")
	case kill != nil:
		gone(kill, "its application wanted it")
	case bad != nil:
		gone(bad, "it never came up")
	case changed != nil && (strings.HasPrefix(changed.Detail, "EXITED") || strings.HasPrefix(changed.Detail, "FAILED")):
		gone(changed, "it has ended by itself")
	case c.fine[e.WorkerID]:
		gone(c.find(e.WorkerID, cmdRemoveWorker, cmdRegisterWorker), "the process of its worker has ended")
	case changed != nil:
		lost(changed, "it was ended, and neither its application nor an operator has asked for it")
	case reconciled != nil && e.State == "LAUNCHING":
		gone(reconciled, "its launch had not arrived yet; it is placed again under a new id")
	case reconciled != nil:
		lost(reconciled, "its worker does not know it any more")
	default:
		lost(c.find(e.WorkerID, cmdRemoveWorker), "it is gone, and no entry of the log explains it")
	}
}

func (c *comparison) drivers() {
	now := map[string]*webui.DrillDriver{}
	var order []string
	for i := range c.after.Drivers {
		d := &c.after.Drivers[i]
		now[d.ID] = d
		order = append(order, d.ID)
	}
	known := map[string]bool{}
	var stayed []string
	for i := range c.before.Drivers {
		d := &c.before.Drivers[i]
		known[d.ID] = true
		n := now[d.ID]
		if n == nil {
			c.driverEnded(d)
			continue
		}
		stayed = append(stayed, d.ID)
		c.driver(d, n)
	}
	c.order("driver", stayed, order)
	for i := range c.after.Drivers {
		n := &c.after.Drivers[i]
		if known[n.ID] {
			continue
		}
		if n.Number < c.before.NextDriver {
			c.damage("driver", n.ID, "new", "", n.State, fmt.Sprintf("its number %d was given before: the counter stood at %d", n.Number, c.before.NextDriver), nil)
			continue
		}
		e := c.find(n.ID, cmdSubmitDriver)
		if e == nil { // the successor of a driver whose worker is gone
			e = c.any(cmdRemoveWorker)
		}
		if e == nil {
			e = c.any(cmdDriverChanged)
		}
		c.judge("driver", n.ID, "new", "", n.State, e, "it was submitted, or launched again, during the drill")
	}
}

func (c *comparison) driver(d, n *webui.DrillDriver) {
	if d.Number != n.Number || d.Cores != n.Cores || d.MemoryMB != n.MemoryMB || d.Supervise != n.Supervise {
		c.damage("driver", d.ID, "description", fmt.Sprintf("%+v", *d), fmt.Sprintf("%+v", *n), "it never changes", nil)
	}
	if d.KillRequested != n.KillRequested {
		e := c.find(d.ID, cmdKillDriver)
		if e == nil {
			e = c.any(cmdKillDrivers)
		}
		c.judge("driver", d.ID, "kill mark", d.KillRequested, n.KillRequested, e, "somebody has asked for it")
	}
	if d.State == n.State && d.WorkerID == n.WorkerID {
		return
	}
	was, is := d.State+" "+d.WorkerID, n.State+" "+n.WorkerID
	if e := c.find(d.ID, cmdPlaceDrivers); d.State == "SUBMITTED" && e != nil {
		c.judge("driver", d.ID, "placed", was, is, e, "it waited, and got its place")
		return
	}
	c.damage("driver", d.ID, "moved", was, is, "a running driver stays where it is", c.find(d.ID, cmdReconcile))
}

func (c *comparison) driverEnded(d *webui.DrillDriver) {
	e := c.find(d.ID, cmdDriverChanged, cmdKillDriver)
	if e == nil && d.State == "SUBMITTED" {
		e = c.any(cmdKillDrivers)
	}
	if e == nil && c.fine[d.WorkerID] {
		e = c.find(d.WorkerID, cmdRemoveWorker, cmdRegisterWorker)
	}
	if e == nil {
		c.damage("driver", d.ID, "lost", d.State, "", "it is gone, and neither its worker nor an operator has ended it", c.find(d.ID, cmdReconcile))
		return
	}
	c.judge("driver", d.ID, "ended", d.State, "", e, "its worker has said so, or an operator ended it")
}

// sums checks the state afterwards by itself: what is booked must be what is there.
func (c *comparison) sums() {
	type booked struct{ cores, memory int }
	on, of := map[string]booked{}, map[string]int{}
	for _, e := range c.after.Executors {
		b := on[e.WorkerID]
		on[e.WorkerID] = booked{b.cores + e.Cores, b.memory + e.MemoryMB}
		if e.State != "DECOMMISSIONED" {
			of[e.AppID] += e.Cores
		}
	}
	for _, d := range c.after.Drivers {
		if d.State == "RUNNING" {
			b := on[d.WorkerID]
			on[d.WorkerID] = booked{b.cores + d.Cores, b.memory + d.MemoryMB}
		}
	}
	for _, w := range c.after.Workers {
		// What is left on a decommissioned worker may be of applications that have ended.
		if b := on[w.ID]; !w.Decommissioned && (b.cores != w.CoresUsed || b.memory != w.MemoryUsedMB) {
			c.damage("worker", w.ID, "booked", fmt.Sprintf("%d cores, %d MiB in what runs there", b.cores, b.memory),
				fmt.Sprintf("%d cores, %d MiB in its entry", w.CoresUsed, w.MemoryUsedMB), "the sums must agree", nil)
		}
	}
	for _, a := range c.after.Apps {
		if of[a.ID] != a.Cores {
			c.damage("application", a.ID, "booked", fmt.Sprintf("%d cores in its executors", of[a.ID]), fmt.Sprintf("%d cores in its entry", a.Cores), "the sums must agree", nil)
		}
	}
}
