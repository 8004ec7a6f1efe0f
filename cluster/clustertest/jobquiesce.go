package clustertest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"raftmaster/fsm"
	"raftmaster/transport/sparkmsg"
)

// jobsRight checks what must have become of every submission.
func (c *checker) jobsRight(_ *masterNode, view fsm.View) error {
	for _, cl := range c.s.clients {
		if cl.waits() {
			return fmt.Errorf("%s waits for an answer", cl.name)
		}
		if cl.id == "" {
			continue
		}
		for _, id := range c.jobs.chain(cl.id) {
			if _, ok := view.Driver(id); !ok && !c.jobs.known[id].forgotten {
				c.s.fail("driver %s, which was accepted from %s, is lost", id, cl.name)
			}
		}
	}
	for _, id := range c.jobs.order {
		d, ok := view.Driver(id)
		if ok != !c.jobs.known[id].forgotten || ok && d.State != c.jobs.known[id].state {
			c.s.fail("driver %s is not what it was: %v", id, c.jobs.known[id].state)
		}
		if last := c.jobs.last(id); c.jobs.doomed[id] && !last.state.Finished() {
			return fmt.Errorf("driver %s was killed, and its last successor %s is %v", id, last.id, last.state)
		}
	}
	if err := c.jobsOnWorkers(view); err != nil {
		return err
	}
	return c.jobsMet(view)
}

// jobsOnWorkers checks that the books say which drivers the workers run, and that no chain has two copies.
func (c *checker) jobsOnWorkers(view fsm.View) error {
	var books, real []string
	var err error
	view.Drivers(func(d *fsm.Driver) bool {
		if d.State == fsm.DriverStateRunning {
			books = append(books, d.ID+"@"+d.WorkerID)
		}
		if d.KillRequested {
			err = fmt.Errorf("driver %s has not been killed yet", d.ID)
		}
		return true
	})
	roots := map[string]string{}
	for _, w := range c.s.livingWorkers() {
		for _, j := range w.jobs {
			real = append(real, j.id+"@"+w.id)
			root := c.jobs.root(j.id)
			if other := roots[root]; other != "" {
				err = fmt.Errorf("two copies of %s run: %s and %s", root, other, j.id+"@"+w.id)
			}
			roots[root] = j.id + "@" + w.id
		}
	}
	slices.Sort(books)
	slices.Sort(real)
	if b, r := strings.Join(books, " "), strings.Join(real, " "); b != r {
		return fmt.Errorf("the books have drivers [%s], the workers run [%s]", b, r)
	}
	return err
}

// jobsMet checks that no driver waits for what is there to be had.
func (c *checker) jobsMet(view fsm.View) error {
	var err error
	limit := c.s.opt.MaxDrivers
	view.WaitingDrivers(func(d *fsm.Driver) bool {
		if limit > 0 && view.Totals().DriversRunning >= limit {
			return false
		}
		if d.NotBeforeMillis > c.s.Now().UnixMilli() {
			err = fmt.Errorf("driver %s waits until %v", d.ID, time.UnixMilli(d.NotBeforeMillis).Sub(epoch))
		}
		view.Workers(func(w *fsm.Worker) bool {
			if w.State == fsm.WorkerAlive && !w.Draining && w.CoresFree() >= d.Cores && w.MemoryFreeMB() >= d.MemoryMB &&
				hasFree(w, d.ResourceReqs) && c.mayRunJob(d, w) {
				err = fmt.Errorf("driver %s waits, and %s has room", d.ID, w.ID)
			}
			return err == nil
		})
		return err == nil
	})
	return err
}

func (c *checker) mayRunJob(d *fsm.Driver, w *fsm.Worker) bool {
	shared := !sparkmsg.FamilySet(d.Families).Intersect(sparkmsg.FamilySet(w.Families)).IsEmpty()
	for _, real := range c.s.workers {
		if real.id == w.ID && real.cannotRead && c.jobFamily(d.ID) != real.fam {
			return false // the leader finds it out, and does not try again
		}
	}
	return shared && (d.Release == "" || w.Release == "" || d.Release == w.Release)
}
