package clustertest

import (
	"time"

	"raftmaster/cluster/master"
	"raftmaster/fsm"
)

// order runs something that an operator asks of a master, most often of the leader, and sees to it that it is answered.
func (s *Sim) order(what string, fn func(core *master.Core, done func(error))) {
	m, _ := pick(s, s.masters)
	if s.raft.leader != nil && s.chance(0.8) {
		m = s.raft.leader
	}
	if !m.up || m.paused {
		return
	}
	s.note("operator", "asks %s: %s", m.name, what)
	m.run(func() {
		open := s.check.askArrived(m, what)
		fn(m.core, func(err error) {
			s.check.askAnswered(open)
			s.note("operator", "%s has answered %s: %v", m.name, what, err)
		})
	})
}

func (s *Sim) workerIDs() []string {
	var out []string
	for _, w := range s.livingWorkers() {
		out = append(out, w.id)
	}
	return out
}

// drainOne marks a worker, or takes the mark away.
func (s *Sim) drainOne() {
	id, ok := pick(s, s.workerIDs())
	if !ok {
		return
	}
	on, idle := s.chance(0.6), s.chance(0.3)
	s.order("drain", func(core *master.Core, done func(error)) {
		core.DrainWorkers([]string{id, "nobody"}, on, idle, func(_ int, err error) { done(err) })
	})
}

func (s *Sim) orderDecommission() {
	w, ok := pick(s, s.livingWorkers())
	if !ok {
		return
	}
	w.ordered = true
	s.order("decommission "+w.name, func(core *master.Core, done func(error)) {
		if s.chance(0.5) {
			core.DecommissionHosts([]string{w.host}, func(_ int, err error) { done(err) })
			return
		}
		core.DecommissionWorkers([]string{w.id}, func(_ int, err error) { done(err) })
	})
}

func (s *Sim) orderKillApp() {
	d, ok := pick(s, s.livingDrivers())
	if !ok || d.id == "" {
		return
	}
	d.condemned = true
	s.order("kill "+d.id, func(core *master.Core, done func(error)) {
		core.KillApplication(d.id, func(_ bool, err error) { done(err) })
	})
}

func (s *Sim) orderClear() {
	s.check.cleared = true
	s.order("clear", func(core *master.Core, done func(error)) { core.ClearCompleted(done) })
}

// orderKillAll ends every driver that is known when the answer comes.
func (s *Sim) orderKillAll() {
	var known []string
	s.order("kill all drivers", func(core *master.Core, done func(error)) {
		s.check.newest().machine.View().Drivers(func(d *fsm.Driver) bool {
			known = append(known, d.ID)
			return true
		})
		core.KillAllDrivers(func(k master.DriverKill, err error) {
			done(err)
			if err == nil && k.Success {
				for _, id := range known {
					s.check.jobKillAccepted(id)
				}
			}
		})
	})
}

// pauseDriver stops the process of an application (SIGSTOP): its sockets stay open, and nobody answers.
func (s *Sim) pauseDriver() {
	d, ok := pick(s, s.livingDrivers())
	if !ok || d.paused {
		return
	}
	t := s.between(time.Second, 60*time.Second)
	if s.chance(0.3) {
		t = s.between(appTimeout, 2*appTimeout) // the masters give it up
	}
	t = s.untilHealed(t)
	d.note("stopped for %v", t)
	s.check.disturbed(d.peer, t)
	d.pause()
	s.after(t, func() {
		if d.up && d.paused {
			d.note("runs on")
			d.resume()
		}
	})
}
