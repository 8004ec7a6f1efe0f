package master

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"raftmaster/cluster/internal/timers"
	"raftmaster/fsm"
	"raftmaster/transport/sparkmsg"
)

// Endpoint names of Spark's RPC (B-212).
const (
	endpointMaster    = "Master"
	endpointWorker    = "Worker"
	endpointAppClient = "AppClient"
	endpointVerifier  = "endpoint-verifier"
)

// Core decides what the leader does. All its methods must be called from one goroutine; see Service.
type Core struct {
	cfg  Config
	deps Deps

	leader    bool
	serving   atomic.Bool // leader, and its peers need not be asked again first; for other goroutines
	term      uint64
	electedAt time.Time

	timers timers.Queue

	workers                map[string]*workerSoft // by worker id
	apps                   map[string]*appSoft    // by application id
	reached                map[sparkmsg.Address]bool
	weededAt               time.Time // see weedReached
	reaching               int       // questions of learnReach that are open
	reachPace, releasePace pace
	gone                   map[string]bool // applications that end because their driver is gone: nobody is to be told

	// handled is the index of the last command that this Core has dealt with; lists wait for it (takeList).
	handled uint64
	lists   []heldList

	dropped bool // messages were dropped in a lapse of the lease

	// kept are registrations of applications that came while this master did not lead; they outlive the change.
	kept      map[sparkmsg.Address]*kept
	keptBytes int

	log   safeLog
	lines lineLimiter // of the log; it outlives terms

	pending    map[string]pending // by request id
	requestSeq uint64

	// several tells, by families, whether the live workers are of several releases, as of that version of the fleet.
	several   map[uint8]bool
	severalAt uint64

	drivers    driverSoft
	plan       planState
	lastAttach time.Time // when the last awaited peer came back
	scannedAt  time.Time // when liveness was last looked at, to notice that this process was stopped
}

// pending is a command that was proposed and not yet applied.
type pending struct {
	name    string
	since   time.Time
	applied func(fsm.Result)
	failed  func(error)
}

// Applied is one command that the state machine has applied.
type Applied struct {
	Index, Term uint64
	Cmd         fsm.Command
	Result      fsm.Result
}

// NewCore makes a Core that is a standby until Elected.
func NewCore(cfg Config, deps Deps) *Core {
	if cfg.RecoveryTimeout <= 0 {
		cfg.RecoveryTimeout = cfg.WorkerTimeout
	}
	if cfg.Location == nil {
		cfg.Location = time.Local
	}
	if cfg.RelaunchDelay > 0 {
		cfg.Settings.DriverRelaunchDelayMillis = cfg.RelaunchDelay.Milliseconds()
	}
	if deps.Observer == nil {
		deps.Observer = noObserver{}
	}
	c := &Core{cfg: cfg, deps: deps, log: safeLog{deps.Log}, reached: map[sparkmsg.Address]bool{},
		kept: map[sparkmsg.Address]*kept{}}
	c.forget()
	return c
}

type noObserver struct{}

func (noObserver) Committed(string, time.Duration) {}
func (noObserver) Planned(time.Duration)           {}
func (noObserver) Event(_, _, _ string)            {}

func (c *Core) now() time.Time { return c.deps.Clock.Now() }

// alive reports whether this master may act as the leader right now.
func (c *Core) alive() bool { return c.leader && c.deps.Lease() }

// forget drops everything that belongs to a term.
func (c *Core) forget() {
	c.reachPace.drop()
	c.releasePace.drop()
	c.timers.Clear()
	c.stopBeats()
	c.workers = map[string]*workerSoft{}
	c.apps = map[string]*appSoft{}
	c.pending = map[string]pending{}
	c.gone = map[string]bool{}
	c.drivers = newDriverSoft()
	c.plan = planState{}
	c.several = nil
	c.lastAttach = time.Time{}
	c.dropped = false
	c.lists = nil
}

// Elected makes this master the leader of a term. Everything committed before is applied already.
func (c *Core) Elected(term uint64, reason string) {
	c.Deposed(term) // Raft says so before, normally; open asks must be answered in any case
	c.forget()
	c.leader, c.term, c.electedAt = true, term, c.now()
	c.handled = c.view().Index() // a snapshot comes without news of its commands
	c.serving.Store(true)
	c.log.Info("I have been elected leader! New state: ALIVE", "term", term)
	c.event("leader", c.cfg.NodeID, fmt.Sprintf("took over in term %d: %s", term, reason))
	c.propose("LeaderElected", fsm.LeaderElected{Meta: c.meta(), NodeID: c.cfg.NodeID, Reason: reason, Settings: c.cfg.Settings},
		func(fsm.Result) {}, nil)
	c.takeOver()
	c.inheritLaunches()
	c.takeUpKept()
	c.startLiveness()
	c.needPlan()
	c.flush()
}

// Deposed makes this master a standby: nothing that is queued is sent any more, and every open ask is answered with a
// failure, so that no peer waits for an answer that cannot come.
func (c *Core) Deposed(term uint64) {
	if !c.leader {
		return
	}
	c.leader = false
	c.serving.Store(false)
	c.deps.Network.DropOutboxes()
	open := c.pending
	c.forget()
	for _, id := range sortedKeys(open) {
		if open[id].failed != nil {
			open[id].failed(errNotLeader)
		}
	}
	c.log.Warn("this master no longer leads; it is a STANDBY now", "term", term)
	c.event("leader", c.cfg.NodeID, fmt.Sprintf("no longer leads since term %d", term))
}

// say sends what only a leader may say on the connection of the message that it answers. Unlike the outboxes that
// connection is not gated, because a standby speaks on it too, so the lease is read here.
func (c *Core) say(conn Conn, endpoint string, families sparkmsg.FamilySet, msg sparkmsg.Message) {
	if c.alive() {
		conn.Push(endpoint, pickFamily(families), msg)
	}
}

// meta stamps a command with this leader's time; Stamp is the local time in identifiers (B-200).
func (c *Core) meta() fsm.Meta {
	now := c.now()
	c.requestSeq++
	return fsm.Meta{
		NowMillis: now.UnixMilli(),
		Stamp:     now.In(c.cfg.Location).Format("20060102150405"),
		RequestID: fmt.Sprintf("%s/%d/%d", c.cfg.NodeID, c.term, c.requestSeq),
	}
}

// propose appends a command. applied runs when the state machine has applied it, before its effects are sent; failed
// runs when it was refused or its outcome is unknown.
func (c *Core) propose(name string, cmd fsm.Command, applied func(fsm.Result), failed func(error)) {
	c.pending[cmd.Header().RequestID] = pending{name: name, since: c.now(), applied: applied, failed: failed}
	c.deps.Proposer.Propose(cmd)
}

// Applied takes what the state machine applied, in log order. A follower only reads past it.
func (c *Core) Applied(batch []Applied) {
	for i := range batch {
		c.appliedOne(&batch[i])
		c.handled = max(c.handled, batch[i].Index)
		c.takeHeldLists()
	}
	c.flush()
}

func (c *Core) appliedOne(a *Applied) {
	if !c.leader || a.Term > c.term {
		return // another master leads already, and its effects are its own
	}
	id := a.Cmd.Header().RequestID
	p, ours := c.pending[id]
	if ours {
		delete(c.pending, id)
		c.deps.Observer.Committed(p.name, c.now().Sub(p.since))
		if a.Result.Err != nil {
			c.peerWarn("command refused", p.name, "command was refused", "command", p.name, "error", a.Result.Err)
			if p.failed != nil {
				p.failed(a.Result.Err)
			}
		} else {
			p.applied(a.Result)
		}
	}
	c.sendEffects(a.Result.Effects)
	if !ours && len(a.Result.Effects) > 0 {
		c.needPlan() // an operator's command: it may have freed cores
	}
}

// refusal tells that the state machine can never accept the command. Any other failure says nothing about it: the peer
// repeats its message, here or at the next leader.
func refusal(err error) bool {
	return errors.Is(err, fsm.ErrInvalidCommand) || errors.Is(err, fsm.ErrTooLarge)
}

// ProposeFailed takes a command that Raft did not accept, or whose outcome is unknown.
func (c *Core) ProposeFailed(cmd fsm.Command, err error) {
	id := cmd.Header().RequestID
	p, ok := c.pending[id]
	if !ok {
		return
	}
	delete(c.pending, id)
	c.peerWarn("command not committed", p.name, "command was not committed", "command", p.name, "error", err)
	if p.failed != nil {
		p.failed(err)
	}
	c.flush()
}

// flush runs what is due once the events at hand are dealt with.
func (c *Core) flush() {
	if c.leader {
		c.runPlan()
	}
}
