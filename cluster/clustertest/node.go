package clustertest

import (
	"fmt"
	"time"

	"raftmaster/cluster/master"
	"raftmaster/fsm"
	"raftmaster/transport/sparkmsg"
)

// forever is later than any simulation.
const forever = time.Duration(1 << 62)

// Time-outs of the simulated masters.
const (
	workerTimeout = 60 * time.Second
	appTimeout    = 120 * time.Second
)

// masterNode is one run of a master process.
type masterNode struct {
	*proc
	number  int
	core    *master.Core
	machine *fsm.Machine
	rpc     *rpc

	applied   int  // entries of the log
	restarted bool // it reads the log from its disk
	lagging   bool
	posted    time.Duration // when the last event of Raft is delivered: they stay in order
	armed     time.Duration // when the next Tick is due; 0 is none

	isolated            bool // cut off from the other masters
	leaseFrom           time.Duration
	leaseEnd            time.Duration
	limbo               []fsm.Command // proposed while isolated: never replicated
	pauseGen, isolated0 int
	onResume            []func()
}

func masterAddress(number int) sparkmsg.Address {
	return sparkmsg.Address{Host: fmt.Sprintf("master%d", number), Port: 7077}
}

// newMaster starts a master with an empty disk; Raft brings it up to date.
func newMaster(s *Sim, number int) *masterNode {
	m := &masterNode{number: number, machine: fsm.NewMachine(), restarted: s.disks[number] != nil}
	m.proc = &proc{s: s, name: fmt.Sprintf("master%d", number), addr: masterAddress(number), master: true}
	m.rpc = newRPC(m)
	m.accept = func(k *sock) { m.rpc.adopt(k) }
	m.afterEvent = m.tick
	m.core = master.NewCore(master.Config{
		NodeID: m.name, Self: m.addr, WebUIURL: "http://" + m.addr.Host + ":8080",
		WorkerTimeout: workerTimeout, AppTimeout: appTimeout, DeadWorkerPersistence: 15, SpreadOutApps: true,
		Settings: s.settings(), Location: time.UTC, Lease: lease, DecommissionEnabled: true,
		SpreadOutDrivers: s.opt.SpreadOutDrivers, MaxDrivers: s.opt.maxDrivers(), RelaunchDelay: s.opt.relaunchDelay(),
		Masters: s.masterAddresses(),
	}, master.Deps{
		Clock: simClock{s}, Proposer: m, Network: m.rpc, Releases: &releases{m}, View: func() fsm.View { return m.machine.View() },
		Lease: m.gate, Log: s.logger(m.name),
	})
	if d := s.disks[number]; d != nil && d.index > 0 {
		m.restore(d.snapshot, d.index)
	}
	s.net.listen(m.proc)
	s.raft.catchUp(m)
	return m
}

func (s *Sim) masterAddresses() (out []sparkmsg.Address) {
	for i := range s.opt.Masters {
		out = append(out, masterAddress(i))
	}
	return out
}

// settings are what every leader replicates.
func (s *Sim) settings() fsm.Settings {
	set := fsm.DefaultSettings()
	if s.opt.UnlimitedRetries || s.opt.Plant.NoRetryLimit {
		set.MaxExecutorRetries = -1
	}
	return set
}

// simClock is the clock of all masters.
type simClock struct{ s *Sim }

func (c simClock) Now() time.Time { return c.s.Now() }

// Propose implements master.Proposer.
func (m *masterNode) Propose(cmd fsm.Command) {
	m.s.raft.propose(m, m.s.plantedCommand(cmd))
}

// gate is the lease as this master sees it.
func (m *masterNode) gate() bool { return m.s.opt.Plant.LeaseAlways || m.s.raft.leaseValid(m) }

// post delivers something that Raft reports, in order.
func (m *masterNode) post(d time.Duration, fn func()) {
	m.posted = max(m.s.now+d, m.posted)
	m.s.at(m.posted, func() { m.run(fn) })
}

// tick runs the core's timers behind every event, as master.Service does, and arms the next.
func (m *masterNode) tick() {
	m.core.Tick()
	at, ok := m.core.NextDeadline()
	if !ok {
		return
	}
	due := at.Sub(epoch)
	if m.armed > m.s.now && m.armed <= due {
		return
	}
	m.armed = due
	m.s.at(due, func() {
		if m.armed <= m.s.now {
			m.armed = 0
		}
		m.run(func() {})
	})
}

// applyTo applies the log up to a length, and tells the core somewhat later.
func (m *masterNode) applyTo(length int) {
	if !m.up || m.applied >= length {
		return
	}
	batch := make([]master.Applied, 0, length-m.applied)
	for ; m.applied < length; m.applied++ {
		e := m.s.raft.log[m.applied]
		index := uint64(m.applied + 1)
		cmd := m.fromLog(e.cmd)
		if m.s.opt.Plant.SkipEntry && m.number == 1 && index == 20 {
			cmd = fsm.ConfirmApplication{}
		}
		result := m.machine.Apply(index, e.term, cmd)
		m.s.check.applied(m, index, cmd, result)
		batch = append(batch, master.Applied{Index: index, Term: e.term, Cmd: e.cmd, Result: result})
	}
	m.saveSnapshot()
	m.post(m.s.between(0, 200*time.Microsecond), func() { m.core.Applied(batch) })
}

// kill ends the process of a master; another one starts on its disk later.
func (m *masterNode) kill() {
	if !m.up {
		return
	}
	m.note("killed")
	m.s.net.die(m.proc, true)
	if m.s.raft.leader == m {
		m.s.raft.lose(m)
		d := m.s.between(15*time.Millisecond, 200*time.Millisecond)
		if m.s.chance(0.3) {
			d = m.s.between(500*time.Millisecond, 2*time.Second)
		}
		m.s.raft.elect(d)
	}
}

// restart starts a killed master again.
func (s *Sim) restart(number int) {
	if s.masters[number].up {
		return
	}
	if s.disks[number] == nil {
		s.disks[number] = &disk{}
	}
	s.masters[number] = newMaster(s, number)
	s.masters[number].note("started")
}

// stop stops the process (SIGSTOP) for a time. The others elect somebody when it is a leader and stays away.
func (m *masterNode) stop(d time.Duration) {
	if !m.up || m.paused {
		return
	}
	m.note("stopped for %v", d)
	m.pause()
	m.pauseGen++
	gen := m.pauseGen
	m.s.after(m.s.between(lease+100*time.Millisecond, 2*time.Second), func() {
		if m.up && m.paused && m.pauseGen == gen && m.s.raft.leader == m {
			m.s.raft.lose(m)
			m.s.raft.elect(0)
		}
	})
	m.s.after(d, func() { m.cont(gen) })
}

// cont lets a stopped master run on. The kernel has aged its lease meanwhile.
func (m *masterNode) cont(gen int) {
	if !m.up || !m.paused || m.pauseGen != gen {
		return
	}
	m.note("runs on")
	if m.s.raft.leader == m {
		m.leaseFrom = m.s.now + heartbeatRound
	}
	m.resume()
	for _, fn := range m.onResume {
		fn()
	}
	m.onResume = nil
	m.s.raft.commitSoon()
	m.s.raft.catchUp(m)
}

// isolate cuts a master off from the other masters for a time; peers still reach it.
func (m *masterNode) isolate(d time.Duration) {
	if !m.up || m.isolated {
		return
	}
	m.note("isolated for %v", d)
	m.isolated = true
	m.isolated0++
	gen := m.isolated0
	if m.s.raft.leader == m {
		m.leaseEnd = m.s.now + m.s.between(lease/2, lease)
		m.s.at(m.leaseEnd+m.s.between(time.Millisecond, 300*time.Millisecond), func() {
			if m.up && m.isolated && m.isolated0 == gen && m.s.raft.leader == m {
				m.s.raft.lose(m)
				m.s.raft.elect(m.s.between(0, time.Second))
			}
		})
	}
	m.s.after(d, func() { m.rejoin(gen) })
}

// rejoin heals an isolation.
func (m *masterNode) rejoin(gen int) {
	if !m.up || !m.isolated || m.isolated0 != gen {
		return
	}
	m.note("isolated no more")
	m.isolated = false
	if m.s.raft.leader == m {
		if m.s.now >= m.leaseEnd {
			m.s.raft.lose(m)
			m.s.raft.elect(m.s.between(0, time.Second))
		} else {
			m.leaseEnd = forever
			m.s.raft.pending = append(m.s.raft.pending, m.limbo...)
			m.limbo = nil
			m.s.raft.commitSoon()
		}
	}
	m.s.raft.catchUp(m)
}

// transfer hands the leadership over.
func (r *raft) transfer() {
	if r.leader == nil || r.leader.paused || r.leader.isolated {
		return
	}
	r.lose(r.leader)
	r.elect(r.s.between(time.Millisecond, 50*time.Millisecond))
}

// releases answers like the web pages of peers.
type releases struct{ m *masterNode }

// Worker implements master.Releases.
func (r *releases) Worker(url string, done func(string)) { r.ask(url, done) }

// Application implements master.Releases.
func (r *releases) Application(url string, done func(string)) { r.ask(url, done) }

func (r *releases) ask(url string, done func(string)) {
	s := r.m.s
	d := s.between(time.Millisecond, 50*time.Millisecond)
	if s.chance(0.05) {
		d = s.between(time.Second, 4*time.Second)
	}
	r.m.after(d, func() { done(s.releaseAt(url)) })
}
