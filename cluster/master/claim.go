package master

import (
	"bytes"

	"raftmaster/fsm"
	"raftmaster/transport/sparkmsg"
)

// A RegisterApplication from an address that an application holds comes from the same driver again, or from a new driver
// on an old driver's port. Answering the former with a new id, or the latter with the old one, makes a ghost (B-102,
// G-01). This file tells them apart.

// claim is such a registration while its driver is asked which application it has.
type claim struct {
	reg  *registration
	conn uint64
}

// answerTimeout bounds the question whether a driver has got the answer to its registration.
const answerTimeout = askEvery

// registerAgain deals with a registration at the address of an application.
//
// On the connection of the first one it is a repetition for certain. Before the driver is known to have its id, the
// description decides: a driver repeats its own byte for byte. After that the driver is asked.
func (c *Core) registerAgain(reg *registration, old *fsm.Application) {
	soft := c.appSoft(old.ID, fromFSMAddress(old.Driver), 0)
	switch {
	case soft.conn != 0 && soft.conn == reg.conn.ID():
		c.proposeApplication(reg, true)
	case old.Confirmed || soft.confirming:
		c.claimAddress(soft, reg)
	case bytes.Equal(reg.payload, old.Payload):
		c.proposeApplication(reg, true)
	default:
		// Another driver: the first one never got its answer, or never used it. Confirming the old application lets the
		// registration replace it.
		c.confirm(soft)
		c.proposeApplication(reg, false)
	}
}

// claimAddress asks the driver that registers, on its own connection, which application it has: MasterChanged is
// acknowledged with the id, and with none by a driver that has not been registered yet. One process owns an address, so
// that the answer is about all its connections. A driver that does not answer tries again by itself (B-106).
func (c *Core) claimAddress(soft *appSoft, reg *registration) {
	soft.claim = &claim{reg: reg, conn: reg.conn.ID()}
	soft.away = true // nothing of the old application to a new driver
	c.say(reg.conn, endpointAppClient, reg.families, &sparkmsg.MasterChanged{Master: c.selfRef(), MasterWebUIURL: c.cfg.WebUIURL})
}

// settleClaim uses a driver's acknowledgement to decide over its claim, if it has one. It reports whether the claim was
// that of a new driver.
func (c *Core) settleClaim(conn Conn, old *fsm.Application, id string) bool {
	soft := c.apps[old.ID]
	if soft == nil || soft.claim == nil || soft.claim.conn != conn.ID() {
		return false
	}
	reg := soft.claim.reg
	soft.claim = nil
	c.proposeApplication(reg, id == old.ID)
	return id != old.ID
}

// answerRegistration tells a driver its id, and finds out whether it got it: from then on the driver is known by it.
// Static applications never name their id, so that waiting for that would leave them unconfirmed for ever.
//
// Without a connection the answer would reach whoever comes up at the address next: the driver is looked for first.
func (c *Core) answerRegistration(a *appSoft) {
	if !c.deps.Network.Attached(a.addr) {
		a.away = true
		c.checkApp(a)
		return
	}
	seq := c.deps.Network.Send(a.addr, endpointAppClient, a.fam, &sparkmsg.RegisteredApplication{AppID: a.id, Master: c.selfRef()})
	term := c.term
	c.deps.Network.Receipt(a.addr, endpointAppClient, a.fam, answerTimeout, func(r Receipt, err error) {
		if err != nil || !r.Exists || c.term != term || c.apps[a.id] != a || seq < r.First || seq >= r.Last {
			return
		}
		if app := c.view().Application(a.id); app != nil && !app.State.Finished() {
			c.heardFrom(app)
			c.flush()
		}
	})
}

// catchUpApp repeats to a driver that was away how its executors ended meanwhile.
func (c *Core) catchUpApp(a *appSoft, app *fsm.Application) {
	if !a.missed {
		return
	}
	a.missed = false
	c.resendEnds(c.view(), app, c.now().Add(-c.cfg.AppTimeout).UnixMilli())
}
