package master

import (
	"raftmaster/transport/sparkmsg"
)

// DriverRequest is a driver that somebody submits.
type DriverRequest struct {
	Desc *sparkmsg.DriverDescription
	// Families are those of the workers that may run it, Release its Spark release; "" if not known.
	Families sparkmsg.FamilySet
	Release  string
	// Client is the address of the client that asks over RPC; nil for other gateways. One process has it, so that the
	// same description from it again is a repetition.
	Client *sparkmsg.Address
}

// ready gives a function for other goroutines that tells whether this master can serve.
func (c *Core) ready() func() bool {
	return func() bool { return c.leading.Load() && c.deps.Lease() }
}

// notLeader describes this master to somebody who asks for the leader.
func (c *Core) notLeader() *NotLeaderError {
	e := &NotLeaderError{State: "STANDBY"}
	if c.deps.Leader == nil {
		return e
	}
	if addr, ok := c.deps.Leader(); ok && addr != c.cfg.Self {
		e.Leader = "spark://" + addr.String()
	}
	return e
}

// SubmitDriver queues a driver; see Service.SubmitDriver. done runs once, on the Core's goroutine.
func (c *Core) SubmitDriver(_ DriverRequest, done func(DriverSubmission, error)) {
	if !c.alive() {
		done(DriverSubmission{}, c.notLeader())
		return
	}
	done(DriverSubmission{Message: noDrivers}, nil)
}

// KillDriver see Service.KillDriver.
func (c *Core) KillDriver(id string, done func(DriverKill, error)) {
	if !c.alive() {
		done(DriverKill{}, c.notLeader())
		return
	}
	done(DriverKill{ID: id, Message: noDrivers}, nil)
}

// KillAllDrivers see Service.KillAllDrivers.
func (c *Core) KillAllDrivers(done func(DriverKill, error)) {
	if !c.alive() {
		done(DriverKill{}, c.notLeader())
		return
	}
	done(DriverKill{Message: noDrivers}, nil)
}

// DriverStatus see Service.DriverStatus.
func (c *Core) DriverStatus(id string) (DriverStatus, error) {
	if !c.alive() {
		return DriverStatus{}, c.notLeader()
	}
	return DriverStatus{ID: id}, nil
}

// DrainWorkers see Service.DrainWorkers.
func (c *Core) DrainWorkers(_ []string, _, _ bool, done func(int, error)) {
	if !c.alive() {
		done(0, c.notLeader())
		return
	}
	done(0, errNotServed)
}
