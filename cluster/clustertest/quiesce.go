package clustertest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"raftmaster/fsm"
	"raftmaster/transport/sparkmsg"
)

const (
	// settleStep is how often the cluster is looked at once the faults are over.
	settleStep = 5 * time.Second
	// settleLimit is when it must have settled: a driver that vanished is given up after the application's time-out, and
	// a worker's retries are up to 90 s apart.
	settleLimit = 10 * time.Minute
	// settleHold is how long it must stay settled.
	settleHold = 70 * time.Second
	// launchLimit is how long an executor may be LAUNCHING.
	launchLimit = 35 * time.Second
)

// settle runs on without faults until everything is as it should be, and stays so.
func (s *Sim) settle() {
	healed := s.now
	for s.failure == nil {
		s.runUntil(s.now + settleStep)
		err := s.check.quiescent()
		if err == nil {
			s.settled = s.now - healed
			s.note("sim", "settled after %v", s.settled)
			break
		}
		s.note("sim", "not settled: %v", err)
		if s.now-healed > settleLimit && s.failure == nil {
			s.fail("not settled %v after the faults: %v", s.now-healed, err)
		}
	}
	s.check.holding = true
	s.runUntil(s.now + settleHold)
	if s.failure != nil {
		return
	}
	if err := s.check.quiescent(); err != nil {
		s.fail("was settled, and no longer is: %v", err)
	}
}

// quiescent tells what is not yet as it must be when nothing disturbs the cluster.
func (c *checker) quiescent() error {
	m, view, status, ok := c.leader()
	if !ok {
		return fmt.Errorf("nobody leads")
	}
	if err := c.sameStates(); err != nil {
		return err
	}
	if status.Pending > 0 {
		return fmt.Errorf("%d commands are on their way", status.Pending)
	}
	for _, check := range []func(*masterNode, fsm.View) error{c.workersRight, c.driversRight, c.executorsRight, c.jobsRight, c.wantsMet} {
		if err := check(m, view); err != nil {
			return err
		}
	}
	if err := c.incompatible(view); err != nil {
		return err
	}
	for _, a := range status.Awaited {
		if !a.Dead {
			return fmt.Errorf("%s %s is awaited since %v", a.Kind, a.ID, a.Since.Sub(epoch))
		}
	}
	return nil
}

// sameStates checks that all machines hold the same state, whose parts agree.
func (c *checker) sameStates() error {
	for _, m := range c.s.masters {
		if m.applied != len(c.s.raft.log) {
			return fmt.Errorf("%s has applied %d of %d entries", m.name, m.applied, len(c.s.raft.log))
		}
		if err := fsm.Check(m.machine.View()); err != nil {
			return err
		}
	}
	return nil
}

// workersRight checks that the living workers, and no others, are live and attached.
func (c *checker) workersRight(m *masterNode, view fsm.View) error {
	alive := map[string]*worker{}
	for _, w := range c.s.livingWorkers() {
		alive[w.id] = w
		entry, _ := view.Worker(w.id)
		want := fsm.WorkerAlive
		if w.decommissioned {
			want = fsm.WorkerDecommissioned
		}
		switch {
		case entry == nil:
			return fmt.Errorf("%s is not in the table", w.name)
		case entry.State != want && !((w.decommissioned || w.ordered) && entry.Live()):
			return fmt.Errorf("%s is %v", w.name, entry.State)
		case w.master == nil || w.master.addr != m.addr || !w.connected || !w.master.conn.k.open:
			return fmt.Errorf("%s is not connected with the leader", w.name)
		case entry.Address.Host != w.addr.Host || entry.Address.Port != int(w.addr.Port):
			return fmt.Errorf("%s is in the table with address %v", w.name, entry.Address)
		}
	}
	attached := m.core.Status().AttachedWorkers
	live := 0
	var err error
	view.Workers(func(w *fsm.Worker) bool {
		if w.Live() {
			live++
			if alive[w.ID] == nil {
				err = fmt.Errorf("worker %s is %v, but it is gone", w.ID, w.State)
			}
		}
		return err == nil
	})
	if err == nil && attached < live {
		err = fmt.Errorf("%d of %d workers are attached", attached, live)
	}
	return err
}

// driversRight checks that the applications of living drivers, and no others, are active, in the order of their
// registration.
func (c *checker) driversRight(m *masterNode, view fsm.View) error {
	owner := map[string]*driver{}
	for _, d := range c.s.livingDrivers() {
		if d.crashing && !c.s.opt.UnlimitedRetries {
			return fmt.Errorf("%s, whose executors all fail, has not ended", d.name)
		}
		if d.unregistered {
			return fmt.Errorf("%s is about to end", d.name)
		}
		if !d.registered {
			return fmt.Errorf("%s is not registered", d.name)
		}
		app, _ := view.Application(d.id)
		if (app == nil || app.State.Finished()) && c.mayEnd(d, app) {
			continue // nobody tells a driver that could not be reached for so long
		}
		switch {
		case app == nil || app.State.Finished():
			return fmt.Errorf("application %s of %s is not active", d.id, d.name)
		case d.master == nil || d.master.addr != m.addr || !d.master.conn.k.open:
			return fmt.Errorf("%s is not connected with the leader", d.name)
		}
		owner[d.id] = d
		for _, profile := range []int32{0, 1} {
			p, known := app.Profile(int(profile))
			if total, set := d.targets[profile]; set && (!known || !d.acked[profile] || p.Target != int(total)) {
				return fmt.Errorf("%s wants %d of profile %d, the master knows %d", d.name, total, profile, p.Target)
			}
		}
	}
	var err error
	last := ""
	view.ActiveApplications(func(a *fsm.Application) bool {
		switch {
		case owner[a.ID] == nil:
			err = fmt.Errorf("application %s is active, and nobody's", a.ID)
		case a.ID[len(a.ID)-4:] <= last:
			err = fmt.Errorf("application %s is queued behind %s", a.ID, last)
		}
		last = a.ID[len(a.ID)-4:]
		return err == nil
	})
	if err != nil {
		return err
	}
	return c.deadDriversRight(view)
}

// deadDriversRight checks how the applications of drivers that are gone ended.
func (c *checker) deadDriversRight(view fsm.View) error {
	for _, d := range c.s.drivers {
		if d.up || d.id == "" {
			continue
		}
		app, ok := view.Application(d.id)
		switch {
		case !ok && c.cleared:
		case !ok:
			return fmt.Errorf("application %s of the dead %s is forgotten", d.id, d.name)
		case app.State == fsm.AppKilled && d.condemned:
		case app.State == fsm.AppFailed, app.State == fsm.AppFinished && d.unregistered:
		default:
			return fmt.Errorf("application %s of the dead %s is %v", d.id, d.name, app.State)
		}
	}
	return nil
}

// executorsRight checks that the books say what the workers run, no more and no less.
func (c *checker) executorsRight(_ *masterNode, view fsm.View) error {
	var books, real []string
	var err error
	for _, w := range c.s.livingWorkers() {
		entry, _ := view.Worker(w.id)
		cores, mem := 0, 0
		for _, e := range w.execs {
			cores += e.cores
			mem += e.mem
			real = append(real, fmt.Sprintf("%v@%s", e.key, w.id))
		}
		for _, j := range w.jobs {
			cores += j.cores
			mem += j.mem
		}
		if wrong := c.addressesRight(w, entry); wrong != nil {
			err = wrong
		}
		if entry.CoresUsed != cores || entry.MemoryUsedMB != mem {
			err = fmt.Errorf("%s uses %d cores and %d MiB, the books say %d and %d", w.name, cores, mem, entry.CoresUsed, entry.MemoryUsedMB)
		}
		view.ExecutorsOfWorker(w.id, func(e *fsm.Executor) bool {
			books = append(books, fmt.Sprintf("%v@%s", e.Key(), w.id))
			age := c.s.Now().Sub(time.UnixMilli(e.LaunchedAtMillis))
			if e.State == fsm.ExecutorLaunching {
				err = fmt.Errorf("executor %v is LAUNCHING", e.Key())
				if age > launchLimit+c.sinceHealed(age) {
					c.s.fail("executor %v on %s is LAUNCHING for %v", e.Key(), w.name, age)
				}
			}
			return true
		})
	}
	slices.Sort(books)
	slices.Sort(real)
	if b, r := strings.Join(books, " "), strings.Join(real, " "); b != r {
		return fmt.Errorf("the books have executors [%s], the workers run [%s]", b, r)
	}
	return err
}

// sinceHealed gives the part of an executor's age that lies before the end of the faults: it does not count.
func (c *checker) sinceHealed(age time.Duration) time.Duration {
	healthy := c.s.now - c.s.opt.Active
	return max(age-healthy, 0)
}

// wantsMet checks that nobody waits for what is there to be had.
func (c *checker) wantsMet(_ *masterNode, view fsm.View) error {
	var err error
	view.ActiveApplications(func(a *fsm.Application) bool {
		for i := range a.Profiles {
			p := &a.Profiles[i]
			need := 1
			if p.Profile.Cores != nil {
				need = *p.Profile.Cores
			}
			if p.Executors >= p.Target || a.CoresLeft() < need || a.NotBeforeMillis > c.s.Now().UnixMilli() {
				continue
			}
			view.Workers(func(w *fsm.Worker) bool {
				if w.State == fsm.WorkerAlive && !w.Draining && hasFree(w, p.Profile.Resources) && w.CoresFree() >= need && w.MemoryFreeMB() >= p.Profile.MemoryMB && c.mayRun(a, w) {
					err = fmt.Errorf("application %s holds %d of %d executors of profile %d, and %s has room", a.ID, p.Executors, p.Target, p.Profile.ID, w.ID)
				}
				return err == nil
			})
		}
		return err == nil
	})
	return err
}

// mayRun tells whether a worker is one for an application's executors.
func (c *checker) mayRun(a *fsm.Application, w *fsm.Worker) bool {
	if slices.Contains(a.IncompatibleWorkers, w.ID) {
		return false
	}
	if sparkmsg.FamilySet(a.Families).Intersect(sparkmsg.FamilySet(w.Families)).IsEmpty() {
		return false
	}
	return a.Release == "" || w.Release == "" || a.Release == w.Release
}
