package clustertest

import (
	"time"

	"raftmaster/fsm"
	"raftmaster/transport/sparkmsg"
)

// startFaults begins every fault that the options name, and the arrivals.
func (s *Sim) startFaults() {
	f := &s.opt.Faults
	for _, fault := range []struct {
		mean time.Duration
		fn   func()
	}{
		{f.Cut, s.cutOne}, {f.Partition, s.partitionOne}, {f.Swizzle, s.swizzle},
		{f.KillMaster, s.killLeader}, {f.PauseMaster, s.pauseMaster}, {f.Isolate, s.isolateLeader},
		{f.Transfer, s.raft.transfer}, {f.Storm, s.storm}, {f.Outage, s.outage},
		{f.KillWorker, func() { s.loseWorker(true) }}, {f.VanishWorker, func() { s.loseWorker(false) }},
		{f.PauseWorker, s.pauseWorker}, {f.Decommission, s.decommissionOne},
		{f.KillDriver, func() { s.loseDriver(true) }}, {f.VanishDriver, func() { s.loseDriver(false) }},
		{f.ReplaceDriver, s.replaceDriver},
		{f.PauseDriver, s.pauseDriver},
		{f.Drain, s.drainOne}, {f.OrderDecommission, s.orderDecommission}, {f.KillApp, s.orderKillApp},
		{f.Clear, s.orderClear}, {f.KillAll, s.orderKillAll},
		{s.opt.Load.NewWorker, s.arriveWorker}, {s.opt.Load.NewDriver, s.arriveDriver},
		{s.opt.Load.Submit, func() { s.newClient() }}, {s.opt.Load.SubmitREST, s.submitREST},
	} {
		s.repeat(fault.mean, fault.fn)
	}
}

func (s *Sim) repeat(mean time.Duration, fn func()) {
	if mean == 0 {
		return
	}
	s.after(s.exponential(mean), func() {
		if !s.healed {
			fn()
			s.repeat(mean, fn)
		}
	})
}

// untilHealed bounds a fault's end: all are over when the active time is.
func (s *Sim) untilHealed(d time.Duration) time.Duration {
	return min(d, max(s.opt.Active-s.now-time.Millisecond, 0))
}

func (s *Sim) livingWorkers() []*worker {
	var out []*worker
	for _, w := range s.workers {
		if w.up {
			out = append(out, w)
		}
	}
	return out
}

func (s *Sim) livingDrivers() []*driver {
	var out []*driver
	for _, d := range s.drivers {
		if d.up {
			out = append(out, d)
		}
	}
	return out
}

// peers lists all living workers and drivers.
func (s *Sim) peers() []*peer {
	var out []*peer
	for _, w := range s.livingWorkers() {
		out = append(out, w.peer)
	}
	for _, d := range s.livingDrivers() {
		out = append(out, d.peer)
	}
	return out
}

// cutOne cuts one connection.
func (s *Sim) cutOne() {
	var open []*sock
	for _, k := range s.net.socks {
		if k.open && k.far.open {
			open = append(open, k)
		}
	}
	if k, ok := pick(s, open); ok {
		s.note("fault", "connection between %s and %s is cut", k.own.name, k.far.own.name)
		s.net.breakConn(k)
	}
}

// partitionOne blocks one way, or both, between a peer and a master or all of them.
func (s *Sim) partitionOne() {
	p, ok := pick(s, s.peers())
	if !ok {
		return
	}
	d := s.untilHealed(s.between(100*time.Millisecond, s.opt.Faults.MaxPartition))
	kind := s.rng.IntN(3)
	only := s.rng.IntN(2 * len(s.masters))
	for i := range s.masters {
		if only < len(s.masters) && only != i {
			continue
		}
		a := masterAddress(i)
		if kind != 0 {
			s.clog(p, p.addr, a, d)
		}
		if kind != 1 {
			s.clog(p, a, p.addr, d)
		}
	}
}

// clog blocks a way for a time.
func (s *Sim) clog(p *peer, from, to sparkmsg.Address, d time.Duration) {
	s.note("fault", "no way from %v to %v for %v", from, to, d)
	s.check.disturbed(p, d)
	s.net.block(from, to)
	s.after(d, func() { s.net.unblock(from, to) })
}

// swizzle clogs peers one by one and unclogs them in another order (FoundationDB's swizzle-clogging).
func (s *Sim) swizzle() {
	var chosen []*peer
	for _, p := range s.peers() {
		if s.chance(0.7) {
			chosen = append(chosen, p)
		}
	}
	at := time.Duration(0)
	starts := make([]time.Duration, len(chosen))
	for i := range chosen {
		at += s.between(10*time.Millisecond, 2*time.Second)
		starts[i] = at
	}
	for _, i := range s.rng.Perm(len(chosen)) {
		at += s.between(10*time.Millisecond, 2*time.Second)
		p, end := chosen[i], at
		s.after(starts[i], func() {
			if s.healed {
				return
			}
			for m := range s.masters {
				s.clog(p, p.addr, masterAddress(m), s.untilHealed(end-starts[i]))
				s.clog(p, masterAddress(m), p.addr, s.untilHealed(end-starts[i]))
			}
		})
	}
}

func (s *Sim) killLeader() {
	if s.raft.leader != nil {
		s.killMaster(s.raft.leader)
	}
}

// killMaster kills a master when a majority remains, and starts it again.
func (s *Sim) killMaster(m *masterNode) {
	up := 0
	for _, other := range s.masters {
		if other.up {
			up++
		}
	}
	if !m.up || up-1 <= len(s.masters)/2 {
		return
	}
	m.kill()
	s.after(s.untilHealed(s.between(500*time.Millisecond, 15*time.Second)), func() { s.restart(m.number) })
}

func (s *Sim) pauseMaster() {
	m, _ := pick(s, s.masters)
	if s.chance(0.7) && s.raft.leader != nil {
		m = s.raft.leader
	}
	m.stop(s.untilHealed(s.exponential(s.opt.Faults.MaxPause / 3)))
}

func (s *Sim) isolateLeader() {
	if m := s.raft.leader; m != nil {
		m.isolate(s.untilHealed(s.exponential(3 * time.Second)))
	}
}

// storm kills one leader after the other as soon as they lead.
func (s *Sim) storm() {
	at := time.Duration(0)
	for range 3 + s.rng.IntN(4) {
		at += s.between(50*time.Millisecond, 1500*time.Millisecond)
		s.after(at, func() {
			if m := s.raft.leader; m != nil && !s.healed {
				m.kill()
				s.after(s.untilHealed(s.between(50*time.Millisecond, time.Second)), func() { s.restart(m.number) })
			}
		})
	}
}

// outage kills all masters.
func (s *Sim) outage() {
	for _, m := range s.masters {
		m.kill()
		s.after(s.untilHealed(s.between(time.Second, 30*time.Second)), func() { s.restart(m.number) })
	}
}

// committed may kill the leader around the commit of something that matters.
func (s *Sim) committed(cmd fsm.Command) {
	s.check.committed(cmd)
	if s.opt.Faults.KillAtCommit == 0 || s.healed {
		return
	}
	switch cmd.(type) {
	case fsm.RegisterApplication, fsm.RegisterWorker, fsm.PlaceExecutors, fsm.ReconcileWorker, fsm.ExecutorChanged,
		fsm.SubmitDriver, fsm.PlaceDrivers, fsm.DriverChanged, fsm.RequestKillDriver:
		if m := s.raft.leader; m != nil && s.chance(s.opt.Faults.KillAtCommit) {
			s.after(s.between(0, 3*time.Millisecond), func() {
				if s.raft.leader == m && !s.healed {
					s.killMaster(m)
				}
			})
		}
	}
}

// loseWorker ends a worker process, and often starts another one: at the same address, with the old socket half-open
// when the machine vanished.
func (s *Sim) loseWorker(withFIN bool) {
	w, ok := pick(s, s.livingWorkers())
	if !ok {
		return
	}
	w.note("killed, with FIN: %v", withFIN)
	s.net.die(w.proc, withFIN)
	if s.chance(0.8) {
		s.after(s.untilHealed(s.between(100*time.Millisecond, 20*time.Second)), func() {
			if s.chance(0.5) {
				s.newWorker(w.host, &w.addr)
			} else {
				s.newWorker("", nil)
			}
		})
	}
}

func (s *Sim) pauseWorker() {
	w, ok := pick(s, s.livingWorkers())
	if !ok || w.paused {
		return
	}
	d := s.between(time.Second, 30*time.Second)
	if s.chance(0.4) {
		d = s.between(workerTimeout, 2*workerTimeout) // the masters give it up
	}
	d = s.untilHealed(d)
	w.note("stopped for %v", d)
	w.pause()
	s.after(d, func() {
		if w.up && w.paused {
			w.note("runs on")
			w.resume()
		}
	})
}

func (s *Sim) decommissionOne() {
	if w, ok := pick(s, s.livingWorkers()); ok && !w.decommissioned && !w.paused {
		w.decommission()
		if s.chance(0.5) {
			s.after(s.untilHealed(s.between(5*time.Second, 60*time.Second)), func() { s.net.die(w.proc, true) })
		}
	}
}

// loseDriver ends a driver without a word of it.
func (s *Sim) loseDriver(withFIN bool) {
	if d, ok := pick(s, s.livingDrivers()); ok {
		d.note("killed, with FIN: %v", withFIN)
		s.net.die(d.proc, withFIN)
		if withFIN {
			s.driverGone(d)
		}
	}
}

// replaceDriver ends a driver and starts another one at its address.
func (s *Sim) replaceDriver() {
	d, ok := pick(s, s.livingDrivers())
	if !ok {
		return
	}
	d.note("killed, to be replaced at its address")
	s.net.die(d.proc, s.chance(0.7))
	s.driverGone(d)
	s.after(s.untilHealed(s.between(50*time.Millisecond, 5*time.Second)), func() { s.newDriver(&d.addr) })
}

func (s *Sim) arriveWorker() {
	if len(s.livingWorkers()) < 8 {
		s.newWorker("", nil)
	}
}

func (s *Sim) arriveDriver() {
	if len(s.livingDrivers()) < 5 {
		s.newDriver(nil)
	}
}

// endCrashLoops ends the drivers whose executors never last, should the master not have done so.
func (s *Sim) endCrashLoops() {
	if s.opt.UnlimitedRetries {
		return
	}
	s.after(4*time.Minute, func() {
		for _, d := range s.livingDrivers() {
			if d.crashing {
				d.die("nothing works")
			}
		}
	})
}

// heal ends all faults and all activity.
func (s *Sim) heal() {
	s.healed = true
	s.note("sim", "all faults are healed")
	for i, m := range s.masters {
		switch {
		case !m.up:
			s.restart(i)
		case m.paused:
			m.cont(m.pauseGen)
		case m.isolated:
			m.rejoin(m.isolated0)
		}
	}
	if s.raft.leader == nil {
		s.raft.elect(s.between(0, time.Second))
	}
	for _, w := range s.workers {
		if w.up && w.paused {
			w.resume()
		}
	}
	for _, p := range s.peers() {
		p.undialable = dialled
	}
	for _, d := range s.drivers {
		if d.up && d.paused {
			d.resume()
		}
	}
	s.endCrashLoops()
}
