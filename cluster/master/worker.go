package master

import (
	"fmt"
	"time"

	"raftmaster/fsm"
	"raftmaster/transport/sparkmsg"
)

// holderTimeout is how long the first worker at an address may take to show that it lives when another one registers
// there.
const holderTimeout = 2 * time.Second

// workerSoft is what the leader of this term knows about a worker and does not replicate.
type workerSoft struct {
	id       string
	addr     sparkmsg.Address
	fam      sparkmsg.Family
	conn     Conn // where it last registered; nil until then
	lastSeen time.Time

	// attached: it registered, or answered with its list, in this term.
	attached bool
	// usable: it may be given new work. A heartbeat is not enough: what it runs must be known.
	usable bool
	await  *awaited
	// listSeq is the outbox sequence of the message that the worker's next list answers.
	listSeq uint64
	list    *workerList // its newest list, while it waits to be compared; see takeList
	// launches holds what this leader told the worker to start and has not seen running.
	launches map[fsm.ExecutorKey]*launch
	// drivers holds what this leader told the worker to start of drivers, until their end is known.
	drivers map[string]*launch
	// unreadable holds the families of drivers whose launch reached the worker and was never heard of again.
	unreadable map[uint8]bool

	unreachableSince time.Time
	beatAt           time.Time // its last heartbeat, or when this term first knew it
	beats            *beats    // notes heartbeats that say nothing new; nil until the first one came
	nudgedAt         time.Time // when it was last asked to register again because it sends no heartbeats
	pause            probePause
	probing          bool
	removing         bool // its removal is on the way
	releaseAsked     bool
	releaseKnown     bool // its release was found out, or cannot be
}

func (c *Core) workerSoft(id string, addr sparkmsg.Address, families sparkmsg.FamilySet) *workerSoft {
	w := c.workers[id]
	if w == nil {
		w = &workerSoft{id: id, launches: map[fsm.ExecutorKey]*launch{}, drivers: map[string]*launch{}, unreadable: map[uint8]bool{}, lastSeen: c.now(), beatAt: c.now()}
		c.workers[id] = w
	}
	w.addr = addr
	if !families.IsEmpty() {
		w.fam = pickFamily(families)
	}
	return w
}

// registerWorker handles RegisterWorker (B-010 to B-017).
func (c *Core) registerWorker(conn Conn, families sparkmsg.FamilySet, m *sparkmsg.RegisterWorker) {
	c.peerInfo("registering", m.ID, fmt.Sprintf("Registering worker %s:%d with %d cores, %d MiB RAM", m.Host, m.Port, m.Cores, m.Memory), "worker_id", m.ID)
	fam := pickFamily(families)
	if !c.leader {
		conn.Push(endpointWorker, fam, &sparkmsg.MasterInStandby{})
		if addr, err := refAddress(m.Worker); err == nil {
			c.learnReachAhead(addr, endpointWorker)
		}
		return
	}
	addr, err := refAddress(m.Worker)
	if err == nil {
		err = checkWorker(m)
	}
	if err != nil {
		c.refuseWorker(conn, families, m.ID, err.Error())
		return
	}
	conn.SetTrusted()
	view := c.view()
	known := view.Worker(m.ID)
	if known != nil && known.State != fsm.WorkerDead && sameWorker(known, m, addr) {
		c.workerRegistered(conn, families, m, addr, true)
		return
	}
	if known != nil && known.Live() && !samePlace(known, m, addr) {
		c.settleID(conn, families, m, addr, known)
		return
	}
	c.takeAddress(conn, families, m, addr)
}

// takeAddress goes on with a registration whose id is settled.
func (c *Core) takeAddress(conn Conn, families sparkmsg.FamilySet, m *sparkmsg.RegisterWorker, addr sparkmsg.Address) {
	holder := c.view().WorkerByAddress(toFSMAddress(addr))
	if holder == nil || holder.ID == m.ID {
		c.proposeWorker(conn, families, m, addr, "")
		return
	}
	c.settleAddress(conn, families, m, addr, holder.ID)
}

// checkWorker refuses a registration that can only be a mistake or an attack.
func checkWorker(m *sparkmsg.RegisterWorker) error {
	switch {
	case m.ID == "" || len(m.ID) > fsm.MaxIDBytes:
		return fmt.Errorf("worker id has %d bytes; 1 to %d are allowed", len(m.ID), fsm.MaxIDBytes)
	case m.Port <= 0 || m.Port > 65535:
		return fmt.Errorf("worker %s names port %d; 1 to 65535 are allowed", m.ID, m.Port)
	case m.Cores < 0 || m.Memory < 0:
		return fmt.Errorf("worker %s offers %d cores and %d MiB; neither may be negative", m.ID, m.Cores, m.Memory)
	}
	return nil
}

// samePlace tells whether a registration names the place where the live worker of that id is.
func samePlace(w *fsm.Worker, m *sparkmsg.RegisterWorker, addr sparkmsg.Address) bool {
	return w.Host == m.Host && w.Port == int(m.Port) && w.Address == toFSMAddress(addr)
}

// settleID decides whether a live worker's id may move to another place. An id is that of one process, which cannot move
// by itself: as long as it answers where it is known, the newcomer is somebody else.
func (c *Core) settleID(conn Conn, families sparkmsg.FamilySet, m *sparkmsg.RegisterWorker, addr sparkmsg.Address, known *fsm.Worker) {
	term, old := c.term, fromFSMAddress(known.Address)
	settle := func(lives bool) {
		switch {
		case !c.leader || c.term != term:
		case lives:
			c.refuseWorker(conn, families, m.ID, fmt.Sprintf("the worker %s lives at %s", m.ID, old))
		default:
			c.takeAddress(conn, families, m, addr)
			c.flush()
		}
	}
	soft := c.workers[m.ID]
	switch {
	case soft == nil || soft.conn == nil: // not heard of in this term
		c.deps.Network.Probe(old, endpointWorker, holderTimeout, func(r ProbeResult) { settle(r == ProbeTrue) })
	case soft.conn.ID() == conn.ID():
		settle(false)
	default:
		soft.conn.Ask(endpointVerifier, soft.fam, &sparkmsg.CheckExistence{Name: endpointWorker}, holderTimeout,
			func(answer sparkmsg.Message, err error) {
				yes, ok := answer.(*sparkmsg.Boolean)
				settle(err == nil && ok && yes.Value)
			})
	}
}

// settleAddress decides whether a worker may take the address of another one (B-015, B-016): only a first worker that
// shows that it lives keeps it.
func (c *Core) settleAddress(conn Conn, families sparkmsg.FamilySet, m *sparkmsg.RegisterWorker, addr sparkmsg.Address, holderID string) {
	holder := c.workers[holderID]
	if holder == nil || holder.conn == nil || holder.conn.ID() == conn.ID() {
		// The holder has not been heard of in this term, or speaks on the newcomer's own connection: it is gone.
		c.proposeWorker(conn, families, m, addr, holderID)
		return
	}
	term := c.term
	holder.conn.Ask(endpointVerifier, holder.fam, &sparkmsg.CheckExistence{Name: endpointWorker}, holderTimeout,
		func(answer sparkmsg.Message, err error) {
			if !c.leader || c.term != term {
				return
			}
			if yes, ok := answer.(*sparkmsg.Boolean); err == nil && ok && yes.Value {
				c.refuseAddress(conn, families, m, addr)
				return
			}
			c.proposeWorker(conn, families, m, addr, holderID)
			c.flush()
		})
}

func (c *Core) refuseAddress(conn Conn, families sparkmsg.FamilySet, m *sparkmsg.RegisterWorker, addr sparkmsg.Address) {
	c.refuseWorker(conn, families, m.ID, "Attempted to re-register worker at same address: "+addr.String())
}

// refuseWorker tells a worker that its registration can never succeed; it exits (B-020).
func (c *Core) refuseWorker(conn Conn, families sparkmsg.FamilySet, id, why string) {
	c.peerWarn("registration failed", id, "Worker registration failed. "+why, "worker_id", id)
	c.say(conn, endpointWorker, families, &sparkmsg.RegisterWorkerFailed{Message: why})
}

func (c *Core) proposeWorker(conn Conn, families sparkmsg.FamilySet, m *sparkmsg.RegisterWorker, addr sparkmsg.Address, replace string) {
	cmd := fsm.RegisterWorker{
		Meta: c.meta(), ID: m.ID, Host: m.Host, Port: int(m.Port), Address: toFSMAddress(addr),
		Cores: int(m.Cores), MemoryMB: int(m.Memory), WebUIURL: m.WorkerWebUIURL,
		Resources: toFSMResources(m.Resources), Families: uint8(families), ReplaceHolder: replace,
	}
	c.propose("RegisterWorker", cmd, func(r fsm.Result) {
		res := r.Value.(fsm.RegisterWorkerResult)
		switch res.Outcome {
		case fsm.WorkerAddressInUse:
			c.settleAddress(conn, families, m, addr, res.HolderID)
		case fsm.WorkerDuplicate:
			c.workerRegistered(conn, families, m, addr, true)
		default:
			if res.Outcome == fsm.WorkerReplaced {
				c.dropWorker(res.HolderID)
			}
			c.event("worker", m.ID, "registered")
			c.workerRegistered(conn, families, m, addr, false)
			if res.Outcome == fsm.WorkerRevived {
				c.workers[m.ID].usable = false // it still runs what was written off: its list comes first
			}
		}
	}, func(err error) {
		if refusal(err) {
			c.refuseWorker(conn, families, m.ID, err.Error())
		}
	})
}

// dropWorker forgets what this term knows of a worker that is no longer live.
func (c *Core) dropWorker(id string) {
	w := c.workers[id]
	if w == nil {
		return
	}
	w.await.stop()
	w.beats.stop()
	for _, l := range w.launches {
		l.overdue.Stop()
	}
	for _, l := range w.drivers {
		l.overdue.Stop()
	}
	delete(c.workers, id)
}

// workerRegistered answers a worker that the replicated table holds. A worker that is new in the table runs nothing that
// we count on and may be given work at once; a known one first has to say what it runs.
func (c *Core) workerRegistered(conn Conn, families sparkmsg.FamilySet, m *sparkmsg.RegisterWorker, addr sparkmsg.Address, duplicate bool) {
	w := c.workerSoft(m.ID, addr, families)
	w.conn, w.lastSeen, w.unreachableSince = conn, c.now(), time.Time{}
	seq := c.deps.Network.Send(addr, endpointWorker, w.fam, &sparkmsg.RegisteredWorker{
		Master: c.selfRef(), MasterWebUIURL: c.cfg.WebUIURL, MasterAddress: m.MasterAddress, Duplicate: duplicate,
	})
	if !duplicate {
		c.workerAttached(w)
		w.usable = true
	}
	if w.await == nil {
		w.listSeq = seq
	}
	if !c.deps.Network.Attached(addr) {
		c.checkWorkerAlive(w) // its connection closed before there was an entry to miss it
	}
	c.learnReach(addr, endpointWorker)
	c.findWorkerRelease(w)
	c.needPlan()
}

// workerAttached notes that the worker is in touch with this leader.
func (c *Core) workerAttached(w *workerSoft) {
	w.attached, w.lastSeen, w.unreachableSince, w.pause = true, c.now(), time.Time{}, 0
	if w.await != nil {
		w.await.stop()
		w.await, c.lastAttach = nil, c.now()
	}
}

// heartbeat handles Heartbeat (B-030 to B-032). A worker that we do not hold is always asked to register again, also
// when its DEAD entry was dropped long ago (G-33).
func (c *Core) heartbeat(conn Conn, families sparkmsg.FamilySet, m *sparkmsg.Heartbeat) {
	if !c.leader {
		return
	}
	if known := c.view().Worker(m.WorkerID); known != nil && known.State != fsm.WorkerDead {
		if w := c.workers[m.WorkerID]; w != nil {
			w.lastSeen, w.beatAt = c.now(), c.now()
			if !w.unreachableSince.IsZero() {
				w.unreachableSince = time.Time{}
				c.needPlan() // it may be given work again
			}
			c.followBeats(w, conn, m)
		}
		return
	}
	c.peerWarn("heartbeat", m.WorkerID, fmt.Sprintf("Got heartbeat from unregistered worker %s. Asking it to re-register.", m.WorkerID))
	c.reconnectWorker(conn, families)
}

func (c *Core) reconnectWorker(conn Conn, families sparkmsg.FamilySet) {
	c.say(conn, endpointWorker, families, &sparkmsg.ReconnectWorker{MasterURL: c.cfg.masterURL()})
}

// workerDecommissioning handles a worker's own decommission signal (B-064).
func (c *Core) workerDecommissioning(conn Conn, families sparkmsg.FamilySet, m *sparkmsg.WorkerDecommissioning) {
	if !c.leader {
		conn.Push(endpointWorker, pickFamily(families), &sparkmsg.MasterInStandby{})
		return
	}
	w := c.view().Worker(m.ID)
	if w == nil || w.State == fsm.WorkerDead {
		c.peerWarn("decommission", m.ID, "Got upstream decommission message from unknown worker "+m.ID)
		return
	}
	c.peerInfo("decommissioning", w.ID, fmt.Sprintf("Decommissioning worker %s on %s:%d", w.ID, w.Host, w.Port))
	c.proposeDecommission(w.ID)
}

func (c *Core) proposeDecommission(id string) {
	c.propose("DecommissionWorkers", fsm.DecommissionWorkers{Meta: c.meta(), IDs: []string{id}}, func(fsm.Result) {
		c.event("worker", id, "decommissioned by its own signal")
		c.needPlan() // the freed cores of the applications wait for nobody (G-42)
	}, c.again(func() { c.proposeDecommission(id) }))
}

// removeWorker declares a worker lost (B-060).
//
// One that was only silent may live on behind a broken network, and later ask nobody but its last master (B-023): it is
// told of this leader until it answers or its DEAD entry is dropped.
func (c *Core) removeWorker(id, reason string, mayLive bool) {
	w := c.view().Worker(id)
	if w == nil || w.State == fsm.WorkerDead {
		return
	}
	c.log.Info(fmt.Sprintf("Removing worker %s on %s:%d", id, w.Host, w.Port), "reason", reason)
	drivers := c.driversOf(c.view(), id)
	c.propose("RemoveWorker", fsm.RemoveWorker{Meta: c.meta(), ID: id, Reason: reason}, func(fsm.Result) {
		c.event("worker", id, "lost: "+reason)
		c.driversLost(drivers)
		c.dropWorker(id)
		if mayLive {
			c.awaitWorker(c.workerSoft(id, fromFSMAddress(w.Address), sparkmsg.FamilySet(w.Families)))
		}
		c.needPlan()
	}, func(err error) {
		soft := c.workers[id]
		if soft == nil {
			return
		}
		soft.removing = false // the next look at the clocks tries again
		c.again(func() {
			if c.workers[id] == soft && !soft.unreachableSince.IsZero() {
				c.checkWorkerAlive(soft) // whose clocks have long to go
			}
		})(err)
	})
}
