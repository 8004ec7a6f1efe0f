package master

import (
	"fmt"
	"time"

	"raftmaster/fsm"
	"raftmaster/transport/sparkmsg"
)

const (
	// askEvery is how often an idle driver is asked whether it lives: applications send no heartbeats.
	askEvery = 15 * time.Second
	// firstProbe and probeEvery bound the pause before an unreachable peer is asked again: it doubles from the one to the
	// other. The first question often meets a process that is just ending, whose listener resets what it had accepted.
	firstProbe = 100 * time.Millisecond
	probeEvery = 5 * time.Second
	// probeTimeout bounds one question on a fresh connection.
	probeTimeout = 3 * time.Second
	// answerPatience is how long a peer may take to answer MasterChanged before it is asked on a fresh connection.
	answerPatience = 5 * time.Second
	// maxReachAhead bounds what a standby asks at once, and maxReached what it remembers: its peers need no commit to
	// make it ask. weedEvery is how often those who are gone are looked for among so many.
	maxReachAhead = 64
	maxReached    = 16384
	weedEvery     = time.Minute
	// maxScan bounds the time between two looks at all clocks.
	maxScan = time.Second
)

// probePause is the pause between questions to an unreachable peer.
type probePause time.Duration

// next returns the pause that is due and doubles the one after it.
func (p *probePause) next() time.Duration {
	*p = min(max(*p, probePause(firstProbe)/2)*2, probePause(probeEvery))
	return time.Duration(*p)
}

func (c *Core) scanPeriod() time.Duration {
	return max(min(c.cfg.WorkerTimeout/10, maxScan), 10*time.Millisecond)
}

func (c *Core) startLiveness() {
	c.scannedAt = c.now()
	c.after(c.scanPeriod(), c.scan)
}

// scan looks at every clock: time-outs of workers, idle drivers, deadlines of awaited peers, DEAD entries to be dropped.
func (c *Core) scan() {
	now := c.now()
	c.scannedAt = now
	c.after(c.scanPeriod(), c.scan)
	c.sayUnsaid()
	if !c.alive() {
		return
	}
	if c.dropped {
		c.dropped = false
		c.serving.Store(true)
		c.log.Warn("the lease had lapsed and messages were dropped; every peer is asked again", "term", c.term)
		c.takeOver()
	}
	view := c.view()
	c.scanWorkers(view, now)
	c.scanApps(view, now)
	c.scanKills(view, now)
}

// PushesDropped takes the news that messages to peers were dropped because the lease had lapsed. If this master leads on in
// the same term, what its peers have missed is made good as in a take-over.
func (c *Core) PushesDropped() {
	if c.leader {
		c.dropped = true
		c.serving.Store(false)
	}
}

// noticePause finds out whether this process was stopped (SIGSTOP, a suspended machine). What peers said meanwhile waits
// in the sockets, so the silence was ours: all clocks and timers move on by the gap.
func (c *Core) noticePause(now time.Time) {
	if !c.leader {
		return
	}
	if late := now.Sub(c.scannedAt) - c.scanPeriod(); late > c.scanPeriod() {
		c.log.Warn("this process was stopped; what its peers said meanwhile is read first", "millis", late.Milliseconds())
		c.scannedAt = c.scannedAt.Add(late)
		c.shiftClocks(late)
	}
}

func (c *Core) shiftClocks(by time.Duration) {
	c.timers.Shift(by)
	for _, w := range c.workers {
		w.hear() // a beat that came since the pause is not older than now
		now := c.now()
		w.lastSeen, w.beatAt = earlier(w.lastSeen.Add(by), now), earlier(w.beatAt.Add(by), now)
		w.await.shift(by)
	}
	for id, at := range c.drivers.kills {
		c.drivers.kills[id] = at.Add(by)
	}
	for _, a := range c.apps {
		a.lastAnswer = a.lastAnswer.Add(by)
		a.await.shift(by)
	}
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func (a *awaited) shift(by time.Duration) {
	if a != nil {
		a.since, a.deadline = a.since.Add(by), a.deadline.Add(by)
	}
}

func (c *Core) scanWorkers(view state, now time.Time) {
	var reap []string
	met := 0 // entries of c.workers that the table holds
	keep := time.Duration(c.cfg.DeadWorkerPersistence+1) * c.cfg.WorkerTimeout
	view.Workers(func(w *fsm.Worker) bool {
		soft := c.workers[w.ID]
		if w.State == fsm.WorkerDead {
			if now.Sub(time.UnixMilli(w.DiedAtMillis)) > keep {
				reap = append(reap, w.ID)
				c.dropWorker(w.ID)
			} else if soft != nil {
				soft.beats.stop()
				met++
			}
			return true
		}
		if soft == nil {
			return true // committed just now; its registration is about to be answered
		}
		met++
		c.scanWorker(soft, now)
		return true
	})
	for id := range c.workers {
		if met == len(c.workers) {
			break // the table holds all of them, as nearly always
		}
		if view.Worker(id) == nil { // its DEAD entry was dropped, for a new worker at its address perhaps
			c.dropWorker(id)
		}
	}
	if len(reap) > 0 {
		c.propose("ReapWorkers", fsm.ReapWorkers{Meta: c.meta(), IDs: reap}, func(fsm.Result) {}, nil)
	}
}

// scanWorker ends a live worker that is silent for too long: one that has not said a word to this leader when its
// recovery ends, any other one by the worker time-out.
func (c *Core) scanWorker(w *workerSoft, now time.Time) {
	w.hear()
	if w.await != nil && !w.attached && !w.lastSeen.After(w.await.since) {
		if now.After(w.await.deadline) {
			c.removeWorkerOnce(w, "Not responding for recovery")
		}
		return
	}
	switch {
	case now.Sub(w.lastSeen) > c.cfg.WorkerTimeout:
		c.log.Warn(fmt.Sprintf("Removing %s because we got no heartbeat in %d ms", w.id, c.cfg.WorkerTimeout.Milliseconds()))
		c.removeWorkerOnce(w, fmt.Sprintf("Not receiving heartbeat for %d seconds", int(c.cfg.WorkerTimeout.Seconds())))
	case now.Sub(w.beatAt) > c.cfg.WorkerTimeout/2 && now.Sub(w.nudgedAt) > c.cfg.WorkerTimeout/4:
		c.nudge(w, now)
	}
}

// nudge asks a worker that sends no heartbeats to register again. Workers begin to send them when they get
// RegisteredWorker, and MasterChanged ends their attempts to register: one that got only the latter, because the leader
// with which it registered died before it could answer, would stay silent for ever. Other signs of life do not count:
// a worker answers the question behind a launch that it refuses, because another master is its own.
func (c *Core) nudge(w *workerSoft, now time.Time) {
	w.nudgedAt = now
	c.log.Warn("no heartbeat from a worker; asking it to register again", "worker_id", w.id, "silent", now.Sub(w.beatAt).String())
	c.deps.Network.Send(w.addr, endpointWorker, w.fam, &sparkmsg.ReconnectWorker{MasterURL: c.cfg.masterURL()})
}

// removeWorkerOnce removes a worker whose removal is not on its way already.
func (c *Core) removeWorkerOnce(w *workerSoft, reason string) {
	if w.removing {
		return
	}
	w.removing = true
	c.removeWorker(w.id, reason, true)
}

// workerGone removes a worker whose process is known to be gone.
func (c *Core) workerGone(w *workerSoft, reason string) {
	if w.removing {
		return
	}
	w.removing = true
	c.removeWorker(w.id, reason, false)
}

func (c *Core) scanApps(view state, now time.Time) {
	view.ActiveApplications(func(app *fsm.Application) bool {
		a := c.apps[app.ID]
		if a == nil {
			return true
		}
		silent := now.Sub(a.lastAnswer)
		switch {
		case silent > c.cfg.AppTimeout:
			if !a.ending {
				a.ending = true
				c.finishApplication(a.id, fsm.AppFailed, fmt.Sprintf("driver %s gave no answer for %d s", a.addr, int(c.cfg.AppTimeout.Seconds())))
			}
		case silent > askEvery && a.attached && !a.asking && !a.probing:
			c.askDriver(a)
		}
		return true
	})
	for id := range c.apps {
		if app := view.Application(id); app == nil || app.State.Finished() { // by an operator's command, perhaps
			c.dropApp(id)
		}
	}
}

// askDriver asks an idle driver, on the connection that we have with it, whether it still is one.
func (c *Core) askDriver(a *appSoft) {
	a.asking = true
	term := c.term
	c.deps.Network.Ask(a.addr, endpointVerifier, a.fam, &sparkmsg.CheckExistence{Name: endpointAppClient}, askEvery,
		func(answer sparkmsg.Message, err error) {
			if c.term != term {
				return
			}
			a.asking = false
			yes, ok := answer.(*sparkmsg.Boolean)
			switch {
			case err != nil || !ok:
				a.silent = true
				c.checkApp(a) // a fresh connection tells more
			case yes.Value:
				a.lastAnswer = c.now()
				if a.away {
					c.awaitApp(a)
				}
			default:
				a.silent = true // it is not heard of by this
				c.appGone(a, "its driver has ended the application client")
			}
		})
}

// ConnClosed takes the end of a connection. It is a hint, and only when it was the peer's last one: a fresh connection to
// its advertised address shows whether it lives.
func (c *Core) ConnClosed(peer sparkmsg.Address, last bool) {
	c.dropKept(peer)
	if !c.leader {
		return
	}
	view := c.view()
	if !last {
		c.connGone(view, peer)
		return
	}
	if w := view.WorkerByAddress(toFSMAddress(peer)); w != nil {
		if soft := c.workers[w.ID]; soft != nil {
			c.peerInfo("worker disassociated", peer.String(), peer.String()+" got disassociated; asking whether it lives", "worker_id", w.ID)
			c.checkWorkerAlive(soft)
		}
	}
	if app := view.ApplicationByDriver(toFSMAddress(peer)); app != nil {
		if soft := c.apps[app.ID]; soft != nil {
			c.peerInfo("app disassociated", peer.String(), peer.String()+" got disassociated; asking whether it lives", "app_id", app.ID)
			soft.away = true
			c.checkApp(soft)
		}
	}
	c.flush()
}

// connGone takes the end of one of several connections of a peer. A worker registers again by itself when it was the one
// that mattered to it. A driver only waits (B-116), and which one mattered to it nobody here can tell.
func (c *Core) connGone(view state, peer sparkmsg.Address) {
	app := view.ApplicationByDriver(toFSMAddress(peer))
	if app == nil {
		return
	}
	if soft := c.apps[app.ID]; soft != nil {
		soft.away = true
		c.awaitApp(soft)
	}
}

// peerCheck is what a worker and a driver have in common when their connections are gone.
type peerCheck struct {
	addr     sparkmsg.Address
	endpoint string
	probing  *bool
	pause    *probePause
	// open: the peer is still the one meant, and still not heard of.
	open func() bool
	// lives calls a peer that has its endpoint, gone ends one that is proven to be gone.
	lives, gone func()
}

// check asks on a fresh connection whether a peer lives, again and again until it is heard of or proven to be gone.
func (c *Core) check(p *peerCheck) {
	if *p.probing {
		return
	}
	*p.probing = true
	term := c.term
	c.deps.Network.Probe(p.addr, p.endpoint, probeTimeout, func(r ProbeResult) {
		if c.term != term {
			return
		}
		*p.probing = false
		if !p.open() {
			return
		}
		if r == ProbeFalse || r == ProbeRefused && c.reached[p.addr] {
			p.gone()
			c.flush()
			return
		}
		if r == ProbeTrue {
			c.reached[p.addr] = true
			p.lives()
		}
		// Also after a yes: a process that is just ending still answers.
		*p.probing = true
		c.after(p.pause.next(), func() {
			*p.probing = false
			if p.open() {
				c.check(p)
			}
		})
		c.flush()
	})
}

// checkWorkerAlive asks a worker whose connections are gone. Until it answers it gets no new work.
func (c *Core) checkWorkerAlive(w *workerSoft) {
	if w.unreachableSince.IsZero() {
		w.unreachableSince = c.now()
		w.beats.stop() // its next heartbeat is news
	}
	c.check(&peerCheck{
		addr: w.addr, endpoint: endpointWorker, probing: &w.probing, pause: &w.pause,
		open:  func() bool { return c.workers[w.id] == w && !w.unreachableSince.IsZero() },
		lives: func() { c.awaitWorker(w) }, // it gets MasterChanged and is counted attached when its list names the same id
		gone:  func() { c.workerGone(w, w.addr.String()+" got disassociated") },
	})
}

// checkApp asks a driver whose connections are gone, or that does not answer. A driver that saw its connection close waits
// for MasterChanged.
func (c *Core) checkApp(a *appSoft) {
	c.check(&peerCheck{
		addr: a.addr, endpoint: endpointAppClient, probing: &a.probing, pause: &a.pause,
		open: func() bool { return c.apps[a.id] == a && (a.away || a.silent) },
		lives: func() {
			a.attached = false
			c.awaitApp(a)
		},
		gone: func() { c.appGone(a, "its driver at "+a.addr.String()+" is gone") },
	})
}

// appGone ends an application whose driver is gone without having unregistered. Spark calls that FINISHED (B-111), which
// cannot be told from success (G-32).
func (c *Core) appGone(a *appSoft, why string) {
	if a.ending {
		return
	}
	a.ending = true
	c.gone[a.id] = true
	c.finishApplication(a.id, fsm.AppFailed, why)
}

// learnReach finds out, once per address, whether this master can open connections to a peer. Only where it can does a
// refused connection prove that the peer is gone: proxies, NAT and firewalls refuse as well.
func (c *Core) learnReach(addr sparkmsg.Address, endpoint string) {
	if known, asked := c.reached[addr]; known || asked {
		return
	}
	c.weedReached()
	c.reached[addr] = false
	if !c.leader { // bounded by learnReachAhead
		c.askReach(addr, endpoint)
		return
	}
	c.begin(&c.reachPace, paced{func() { c.askReach(addr, endpoint) }, func() { delete(c.reached, addr) }})
}

func (c *Core) askReach(addr sparkmsg.Address, endpoint string) {
	c.reaching++
	c.deps.Network.Probe(addr, endpoint, probeTimeout, func(r ProbeResult) {
		c.reaching--
		if r == ProbeTrue {
			c.reached[addr] = true
			return
		}
		delete(c.reached, addr) // asked again when the peer attaches the next time
	})
}

// learnReachAhead does the same while this master stands by, since peers register with every master: when it leads, what
// died together with its predecessor refuses, and that counts at once.
func (c *Core) learnReachAhead(addr sparkmsg.Address, endpoint string) {
	c.weedReached()
	if known := c.reached[addr]; known || c.reaching >= maxReachAhead || len(c.reached) >= maxReached {
		return
	}
	c.learnReach(addr, endpoint)
}

// weedReached forgets the addresses of those who are not in the books any more, when there are many: a standby is not told
// of their ends.
func (c *Core) weedReached() {
	if len(c.reached) < maxReached || c.now().Sub(c.weededAt) < weedEvery {
		return
	}
	c.weededAt = c.now()
	view := c.view()
	for addr, reached := range c.reached {
		if at := toFSMAddress(addr); reached && view.WorkerByAddress(at) == nil && view.ApplicationByDriver(at) == nil {
			delete(c.reached, addr)
		}
	}
}

// probeSilent asks, on fresh connections, the peers that have not answered MasterChanged in good time. No connection of
// theirs can close, so that nothing else would notice before the long time-outs that they died with the last leader.
func (c *Core) probeSilent() {
	view := c.view()
	for _, id := range sortedKeys(c.workers) {
		w := c.workers[id]
		w.hear()
		if known := view.Worker(id); known == nil || !known.Live() || w.await == nil || w.attached || w.lastSeen.After(w.await.since) {
			continue
		}
		c.checkWorkerAlive(w)
	}
	for _, id := range sortedKeys(c.apps) {
		if a := c.apps[id]; a.await != nil && !a.attached {
			a.silent = true
			c.checkApp(a)
		}
	}
}
