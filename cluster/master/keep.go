package master

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"time"

	"raftmaster/fsm"
	"raftmaster/transport/sparkmsg"
)

// A driver asks at 0, 20 and 40 s and gives up at 60 s (B-106), so that one which starts early in an outage of 45 s ends
// although the masters are back. It has said everything on a connection that is still open: a master that stands by keeps
// the registration, and takes it up when it is elected (S22, G-03; docs/adr/0017).

const (
	// keepFor is how long a driver waits for its answer (StandaloneAppClient: three times 20 s).
	keepFor = 60 * time.Second
	// maxKept and maxKeptBytes bound what is kept: whoever reaches the port can make a standby keep things.
	maxKept      = 1024
	maxKeptBytes = 32 << 20
)

// kept is a registration that no leader has answered here.
type kept struct {
	reg   *registration
	since time.Time
}

// keepRegistration keeps the last registration of each driver.
func (c *Core) keepRegistration(reg *registration) {
	c.dropKept(reg.addr)
	if len(c.kept) >= maxKept || c.keptBytes+len(reg.payload) > maxKeptBytes {
		c.peerWarn("registrations kept", "", "too many registrations wait for a leader; this driver has to ask again", "driver", reg.addr.String())
		return
	}
	held := *reg
	held.desc = nil // as objects it takes many times what is counted
	k := &kept{reg: &held, since: c.now()}
	c.kept[reg.addr] = k
	c.keptBytes += len(reg.payload)
	c.after(keepFor, func() { c.forgetKept(k) })
}

func (c *Core) dropKept(driver sparkmsg.Address) {
	if k := c.kept[driver]; k != nil {
		delete(c.kept, driver)
		c.keptBytes -= len(k.reg.payload)
	}
}

// takeKept gives a kept registration back, and keeps it no longer; nil when it cannot be read.
func (c *Core) takeKept(k *kept) *registration {
	c.dropKept(k.reg.addr)
	var err error
	if k.reg.desc, err = sparkmsg.ParseApplicationDescription(k.reg.payload); err != nil {
		c.log.Error("a kept registration cannot be read", "driver", k.reg.addr.String(), "error", err)
		return nil
	}
	return k.reg
}

// forgetKept drops this one, and not a later one of the same driver.
func (c *Core) forgetKept(k *kept) {
	if c.kept[k.reg.addr] == k {
		c.dropKept(k.reg.addr)
	}
}

// takeUpKept asks every driver whose registration was kept which application it has, on the connection on which it
// registered. Nothing but its own word tells whether it was answered meanwhile: its application may have ended since,
// and been forgotten.
func (c *Core) takeUpKept() {
	view := c.view()
	waiting := slices.Collect(maps.Keys(c.kept))
	slices.SortFunc(waiting, func(a, b sparkmsg.Address) int { return strings.Compare(a.String(), b.String()) })
	for _, addr := range waiting {
		k := c.kept[addr]
		held := view.ApplicationByDriver(toFSMAddress(addr))
		if c.now().Sub(k.since) >= keepFor || held != nil && !anotherDriver(k.reg, held) {
			c.dropKept(addr) // a driver that is in the books gets MasterChanged anyway
			continue
		}
		if held != nil {
			continue // so does this one, and its answer shows whose application it is (anotherRegisters)
		}
		c.after(keepFor-c.now().Sub(k.since), func() { c.forgetKept(k) })
		c.say(k.reg.conn, endpointAppClient, k.reg.families, &sparkmsg.MasterChanged{Master: c.selfRef(), MasterWebUIURL: c.cfg.WebUIURL})
	}
}

// anotherDriver tells whether a registration cannot be that of the driver of an application at its address, which has
// never named its id: a driver repeats its own description byte for byte.
func anotherDriver(reg *registration, held *fsm.Application) bool {
	return !held.Confirmed && !bytes.Equal(reg.payload, held.Payload)
}

// anotherRegisters deals with a driver that says that it has no application, at the address of one whose driver has never
// named its id. What it has registered meanwhile, while this master stood by, shows that it is another driver: with the
// id of the first one it would get executors made for that one.
func (c *Core) anotherRegisters(addr sparkmsg.Address, held *fsm.Application) bool {
	k := c.kept[addr]
	if k == nil || !anotherDriver(k.reg, held) {
		return false
	}
	if reg := c.takeKept(k); reg != nil {
		c.registerAgain(reg, held)
	}
	return true
}

// registerKept takes up a kept registration once its driver has said, on that connection, that it has no application.
func (c *Core) registerKept(conn Conn, driver sparkmsg.Address) {
	k := c.kept[driver]
	if k == nil || k.reg.conn.ID() != conn.ID() {
		return
	}
	if reg := c.takeKept(k); reg != nil {
		c.log.Info("a driver that registered while nobody led is registered now", "driver", driver.String(), "waited", c.now().Sub(k.since).String())
		c.proposeApplication(reg, false)
	}
}
