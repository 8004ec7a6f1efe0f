package master

import (
	"errors"
	"fmt"
	"time"

	"raftmaster/fsm"
	"raftmaster/transport/sparkmsg"
)

// appSoft is what the leader of this term knows about an application and does not replicate.
type appSoft struct {
	id   string
	addr sparkmsg.Address
	fam  sparkmsg.Family
	conn uint64 // id of the connection on which it registered; 0 when it registered with an earlier leader
	// claim is a registration at this driver's address that may be its own or that of a new driver; see claimAddress.
	claim *claim

	// attached: it registered, or acknowledged this leader, in this term.
	attached   bool
	await      *awaited
	lastAnswer time.Time
	pause      probePause
	probing    bool // a fresh connection is tried, or will be when the pause after a failure is over
	silent     bool // it is probed until it is heard of: it did not answer after a take-over
	asking     bool
	confirming bool
	targeting  int  // commands that set its targets and are not applied yet
	ending     bool // its end is on the way
	// away: its connection closed and it has not acknowledged this leader since. Its driver waits for MasterChanged, if it
	// lives; what would be queued for it meanwhile could reach a new driver at its address instead.
	away   bool
	missed bool // messages were held back while it was away
	// desc is the description to launch executors with, decoded once.
	desc         *sparkmsg.ApplicationDescription
	descErr      error
	releaseAsked bool // in this term, or it was known before
	releaseOpen  bool // the answer is awaited
}

func (c *Core) appSoft(id string, addr sparkmsg.Address, families sparkmsg.FamilySet) *appSoft {
	a := c.apps[id]
	if a == nil {
		a = &appSoft{id: id, lastAnswer: c.now()}
		c.apps[id] = a
	}
	a.addr = addr
	if !families.IsEmpty() {
		a.fam = pickFamily(families)
	}
	return a
}

// registerApplication handles RegisterApplication (B-100 to B-102). A standby stays silent: the driver tries all masters
// and takes the first answer (B-107).
func (c *Core) registerApplication(conn Conn, families sparkmsg.FamilySet, m *sparkmsg.RegisterApplication) {
	desc := m.AppDescription
	addr, err := refAddress(m.Driver)
	if err == nil && desc == nil {
		err = errors.New("the message carries no application description")
	}
	if !c.leader {
		if err == nil {
			c.learnReachAhead(addr, endpointAppClient)
			if payload, err := desc.MarshalPayload(); err == nil {
				c.keepRegistration(&registration{conn: conn, families: families, addr: addr, desc: desc, payload: payload})
			}
		}
		return
	}
	if err != nil {
		c.peerWarn("application not usable", "", "application registration is not usable", "error", err)
		return
	}
	c.peerInfo("registering app", addr.String(), "Registering app "+desc.Name, "driver", addr.String())
	payload, err := desc.MarshalPayload()
	if err != nil {
		c.refuseApplication(conn, families, desc.Name, err)
		return
	}
	conn.SetTrusted()
	c.dropKept(addr)
	reg := &registration{conn: conn, families: families, addr: addr, desc: desc, payload: payload}
	if old := c.view().ApplicationByDriver(toFSMAddress(addr)); old != nil {
		c.registerAgain(reg, old)
		return
	}
	c.proposeApplication(reg, false)
}

// registration is a RegisterApplication that has been found usable.
type registration struct {
	conn     Conn
	families sparkmsg.FamilySet
	addr     sparkmsg.Address
	desc     *sparkmsg.ApplicationDescription
	payload  []byte
}

// proposeApplication commits a registration; keep says that it repeats the one that holds its address.
func (c *Core) proposeApplication(reg *registration, keep bool) {
	conn, families, desc, addr := reg.conn, reg.families, reg.desc, reg.addr
	cmd := fsm.RegisterApplication{
		Meta: c.meta(), Name: desc.Name, User: desc.User, UIURL: desc.AppUIURL, Driver: toFSMAddress(addr),
		MaxCores: toInt(desc.MaxCores), DefaultCores: c.defaultCores(), DefaultProfile: toFSMProfile(&desc.DefaultProfile),
		InitialExecutorLimit: toInt(desc.InitialExecutorLimit), Payload: reg.payload, Families: uint8(families), KeepID: keep,
		IDPattern: c.cfg.AppIDPattern, NumberModulo: c.cfg.AppNumberModulo, NameAsID: c.cfg.UseAppNameAsAppID,
	}
	if cmd.DefaultProfile.MemoryMB == 0 {
		cmd.DefaultProfile.MemoryMB = defaultExecutorMemoryMB
	}
	c.propose("RegisterApplication", cmd, func(r fsm.Result) {
		c.applicationRegistered(conn, families, addr, desc, r.Value.(fsm.RegisterApplicationResult))
	}, func(err error) {
		switch {
		case refusal(err):
			c.refuseApplication(conn, families, desc.Name, err)
		case !c.leader:
			c.keepRegistration(reg) // for the case that this master leads again
		}
	})
}

// refuseApplication tells a driver that its registration can never succeed; without an answer it would try three times
// and report that no master answered.
func (c *Core) refuseApplication(conn Conn, families sparkmsg.FamilySet, name string, err error) {
	c.peerWarn("application refused", name, "application was refused", "app_name", name, "error", err)
	c.say(conn, endpointAppClient, families, &sparkmsg.ApplicationRemoved{Message: "registration refused: " + err.Error()})
}

func (c *Core) applicationRegistered(conn Conn, families sparkmsg.FamilySet, addr sparkmsg.Address,
	desc *sparkmsg.ApplicationDescription, res fsm.RegisterApplicationResult) {
	switch res.Outcome {
	case fsm.AppRepeated:
		c.peerInfo("registered again", res.AppID, "Attempted to re-register application at same address: "+addr.String(), "app_id", res.AppID)
	case fsm.AppReplaced:
		c.dropApp(res.OldAppID)
		c.event("app", res.OldAppID, "FAILED: another driver registered at its address")
	}
	if res.Outcome != fsm.AppRepeated {
		c.log.Info(fmt.Sprintf("Registered app %s with ID %s", desc.Name, res.AppID))
		c.event("app", res.AppID, "registered: "+desc.Name)
	}
	a := c.appSoft(res.AppID, addr, families)
	a.conn, a.desc = conn.ID(), desc
	c.appAttached(a)
	c.answerRegistration(a)
	c.learnReach(addr, endpointAppClient)
	c.findAppRelease(a, desc.AppUIURL)
	c.needPlan()
}

func (c *Core) appAttached(a *appSoft) {
	a.attached, a.away, a.silent, a.lastAnswer, a.pause = true, false, false, c.now(), 0
	if a.await != nil {
		a.await.stop()
		a.await, c.lastAttach = nil, c.now()
		c.remind(a)
	}
}

// heardFrom notes that the driver of an application has named its id: from now on another registration at its address
// is another driver (DESIGN: repeated RegisterApplication).
func (c *Core) heardFrom(app *fsm.Application) {
	soft := c.appSoft(app.ID, fromFSMAddress(app.Driver), 0)
	if soft.fam == sparkmsg.FamilyUnknown {
		soft.fam = pickFamily(sparkmsg.FamilySet(app.Families))
	}
	soft.lastAnswer = c.now()
	if !app.Confirmed {
		c.confirm(soft)
	}
}

// confirm commits that a driver knows its id.
func (c *Core) confirm(a *appSoft) {
	if a.confirming {
		return
	}
	a.confirming = true
	c.propose("ConfirmApplication", fsm.ConfirmApplication{Meta: c.meta(), AppID: a.id}, func(fsm.Result) {
		a.confirming = false
	}, func(error) { a.confirming = false })
}

// unregisterApplication handles UnregisterApplication (B-110).
func (c *Core) unregisterApplication(m *sparkmsg.UnregisterApplication) {
	if !c.leader {
		return
	}
	c.peerInfo("unregister", m.AppID, "Received unregister request from application "+m.AppID)
	c.finishApplication(m.AppID, fsm.AppFinished, "unregistered")
}

// finishApplication ends an application (B-113).
func (c *Core) finishApplication(id string, state fsm.AppState, reason string) {
	if app := c.view().Application(id); app == nil || app.State.Finished() {
		return
	}
	if soft := c.apps[id]; soft != nil {
		soft.ending = true // the connection that closes next is no news
	}
	c.propose("FinishApplication", fsm.FinishApplication{Meta: c.meta(), AppID: id, State: state, Reason: reason}, func(fsm.Result) {
		c.appEnded(id, state.String()+": "+reason)
	}, func(err error) {
		if state == fsm.AppFinished { // its driver has said so, and leaves
			c.again(func() { c.finishApplication(id, state, reason) })(err)
			return
		}
		gone := c.gone[id]
		delete(c.gone, id) // the next one who ends it may not know that
		soft := c.apps[id]
		if soft == nil {
			return
		}
		soft.ending = false // the next look at the clocks tries again
		if gone {
			c.again(func() {
				if c.apps[id] == soft && (soft.away || soft.silent) {
					c.checkApp(soft) // whose clocks have long to go
				}
			})(err)
		}
	})
}

// appEnded drops the soft state of an application that the state machine has ended.
func (c *Core) appEnded(id, why string) {
	c.dropApp(id)
	c.log.Info("Removing app "+id, "reason", why)
	c.event("app", id, why)
	c.needPlan()
}

// dropApp forgets what this term knows of an application that has ended. Its driver's address is most likely never used
// again.
func (c *Core) dropApp(id string) {
	if a := c.apps[id]; a != nil {
		a.await.stop()
		delete(c.reached, a.addr)
		delete(c.apps, id)
	}
}

// requestExecutors handles RequestExecutors (B-131).
func (c *Core) requestExecutors(m *sparkmsg.RequestExecutors, reply func(sparkmsg.Message, error)) {
	app := c.view().Application(m.AppID)
	if app == nil || app.State.Finished() {
		c.peerWarn("unknown application", m.AppID, "Unknown application "+m.AppID+" requested executors")
		c.replyFromState(reply, false)
		return
	}
	c.heardFrom(app)
	cmd := fsm.SetTargets{Meta: c.meta(), AppID: m.AppID}
	for i := range m.ResourceProfileToTotalExecs {
		t := &m.ResourceProfileToTotalExecs[i]
		p := toFSMProfile(&t.Profile)
		cmd.Targets = append(cmd.Targets, fsm.ProfileTarget{Profile: p, Total: int(t.Total)})
	}
	soft := c.apps[m.AppID]
	if soft.targeting == 0 && targetsHold(app, cmd.Targets) {
		c.replyFromState(reply, true) // a command that changes nothing would cost all replicas the same as one that does
		return
	}
	soft.targeting++
	c.propose("SetTargets", cmd, func(r fsm.Result) {
		soft.targeting--
		known, _ := r.Value.(bool)
		reply(&sparkmsg.Boolean{Value: known}, nil)
		c.needPlan()
	}, func(err error) {
		soft.targeting--
		reply(nil, err)
	})
}

// targetsHold tells whether an application has all these targets already. The first definition of a profile stays, so
// that its id is enough (B-131).
func targetsHold(app *fsm.Application, targets []fsm.ProfileTarget) bool {
	for i := range targets {
		if p, ok := app.Profile(targets[i].Profile.ID); !ok || p.Target != targets[i].Total {
			return false
		}
	}
	return true
}

// replyFromState answers from the state, without a command that would show that this master still leads.
func (c *Core) replyFromState(reply func(sparkmsg.Message, error), value bool) {
	if !c.deps.Lease() {
		reply(nil, errNotLeader)
		return
	}
	reply(&sparkmsg.Boolean{Value: value}, nil)
}

// killExecutors handles KillExecutors (B-130).
func (c *Core) killExecutors(m *sparkmsg.KillExecutors, reply func(sparkmsg.Message, error)) {
	app := c.view().Application(m.AppID)
	if app == nil || app.State.Finished() {
		c.peerWarn("unregistered application", m.AppID, "Unregistered application "+m.AppID+" requested us to kill executors!")
		c.replyFromState(reply, false)
		return
	}
	c.heardFrom(app)
	cmd := fsm.KillExecutors{Meta: c.meta(), AppID: m.AppID}
	for _, text := range m.ExecutorIDs {
		id, err := parseExecutorID(text)
		if err != nil {
			c.peerWarn("executor id", m.AppID, "Encountered executor with a non-integer ID: "+text+". Ignoring", "app_id", m.AppID)
			continue
		}
		cmd.IDs = append(cmd.IDs, id)
	}
	c.propose("KillExecutors", cmd, func(r fsm.Result) {
		res := r.Value.(fsm.KillResult)
		if len(res.Unknown) > 0 {
			c.peerWarn("not its executors", m.AppID, "Application wanted to kill executors that it does not have", "app_id", m.AppID, "executors", res.Unknown[:min(len(res.Unknown), 20)])
		}
		reply(&sparkmsg.Boolean{Value: res.Known}, nil)
		c.needPlan()
	}, func(err error) { reply(nil, err) })
}

func (c *Core) defaultCores() int {
	if c.cfg.DefaultCores <= 0 {
		return fsm.UnlimitedCores
	}
	return c.cfg.DefaultCores
}
