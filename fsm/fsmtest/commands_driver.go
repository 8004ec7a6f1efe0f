package fsmtest

import (
	"fmt"

	"pgregory.net/rapid"

	"raftmaster/fsm"
)

// driverCommand draws a command about drivers, drained workers or forgotten incompatibilities.
func (g *generator) driverCommand() fsm.Command {
	switch n := g.intn(0, 22, "driver kind"); {
	case n < 5:
		return g.submitDriver()
	case n < 11:
		return g.placeDrivers()
	case n < 14:
		return g.driverChanged()
	case n < 16:
		return fsm.RequestKillDriver{Meta: g.meta(), DriverID: g.driver()}
	case n < 17:
		return fsm.KillAllDrivers{Meta: g.meta()}
	case n < 19:
		return fsm.DrainWorkers{Meta: g.meta(), IDs: g.workerList(), On: g.bool("on"), IdleOnly: g.bool("idle only")}
	case n < 22:
		return g.receivedOrMissing()
	}
	c := fsm.UnmarkIncompatible{Meta: g.meta(), WorkerID: g.worker()}
	if a, ok := g.view.Application(g.app()); ok && len(a.IncompatibleWorkers) > 0 {
		c.WorkerID = a.IncompatibleWorkers[0]
	}
	if g.bool("one application") {
		c.AppID = g.app()
	}
	return c
}

// driver names a known driver, completed ones included, or now and then any.
func (g *generator) driver() string {
	if len(g.known.drivers) == 0 || g.oneIn(12, "strange driver") {
		return fmt.Sprintf("driver-%s-%04d", Stamp, g.intn(0, 9, "driver"))
	}
	return rapid.SampledFrom(g.known.drivers).Draw(g.t, "driver")
}

func (g *generator) driverList() []string {
	var out []string
	for range g.intn(0, 3, "drivers") {
		out = append(out, g.driver())
	}
	return out
}

func (g *generator) submitDriver() fsm.Command {
	c := fsm.SubmitDriver{Meta: g.meta(), Cores: g.intn(0, 4, "cores"), MemoryMB: 512 * g.intn(0, 4, "memory"),
		Supervise: g.bool("supervise"), MainClass: "Main", JarURL: "file:/a.jar", Families: uint8(g.intn(0, 31, "families")),
		Release: "4.3.0"}
	if g.oneIn(4, "gpu") {
		c.ResourceReqs = []fsm.ResourceAmount{{Name: "gpu", Amount: g.intn(0, 2, "gpus")}}
	}
	if g.bool("payload set") {
		c.Payload = []byte("payload")
	}
	if g.oneIn(5, "pattern") {
		c.IDPattern = rapid.SampledFrom([]string{"d", "driver-%s-%d", "%2$d", "%q"}).Draw(g.t, "pattern")
	}
	return c
}

// placeDrivers is a real plan most of the time, else one that was never right.
func (g *generator) placeDrivers() fsm.Command {
	if g.intn(0, 3, "plan") > 0 {
		return fsm.PlaceDrivers{Meta: g.meta(), Placements: fsm.Plan(g.view, Params().Draw(g.t, "params")).Drivers}
	}
	c := fsm.PlaceDrivers{Meta: g.meta()}
	for range g.intn(0, 3, "placements") {
		c.Placements = append(c.Placements, fsm.DriverPlacement{DriverID: g.driver(), WorkerID: g.worker()})
	}
	return c
}

func (g *generator) driverChanged() fsm.Command {
	c := fsm.DriverChanged{Meta: g.meta(), DriverID: g.driver(), State: rapid.SampledFrom([]fsm.DriverState{fsm.DriverStateFinished,
		fsm.DriverStateFailed, fsm.DriverStateKilled, fsm.DriverStateError, fsm.DriverStateRunning, 77}).Draw(g.t, "state")}
	if d, ok := g.view.Driver(c.DriverID); ok && !g.oneIn(4, "strange reporter") {
		c.WorkerID = d.WorkerID
	} else {
		c.WorkerID = g.worker()
	}
	if g.bool("exception set") {
		c.Exception = "exception"
	}
	return c
}

// receivedOrMissing says of a running driver that its worker has received it, or does not have it.
func (g *generator) receivedOrMissing() fsm.Command {
	d, ok := g.view.Driver(g.driver())
	if !ok || d.State != fsm.DriverStateRunning {
		return fsm.LaunchReceipts{Meta: g.meta(), WorkerID: g.worker(), Drivers: g.driverList()}
	}
	if g.bool("received") {
		return fsm.LaunchReceipts{Meta: g.meta(), WorkerID: d.WorkerID, Drivers: []string{d.ID}}
	}
	return fsm.ReconcileWorker{Meta: g.meta(), WorkerID: d.WorkerID, MissingDrivers: []string{d.ID}, RequeueAtMillis: 1 + int64(g.intn(0, 500_000, "requeue at")),
		Unasked: g.bool("unasked")}
}

// reconcileDrivers adds a worker's list of drivers, and what it lacks.
func (g *generator) reconcileDrivers(c *fsm.ReconcileWorker) {
	g.view.DriversOnWorker(c.WorkerID, func(d *fsm.Driver) bool {
		switch g.intn(0, 2, "listed") {
		case 0:
			c.ReportedDrivers = append(c.ReportedDrivers, d.ID)
		case 1:
			c.MissingDrivers = append(c.MissingDrivers, d.ID)
		}
		return true
	})
	if g.oneIn(3, "strange driver listed") {
		c.ReportedDrivers = append(c.ReportedDrivers, g.driver())
	}
	if g.oneIn(4, "strange driver missing") {
		c.MissingDrivers = append(c.MissingDrivers, g.driver())
	}
	if len(c.MissingDrivers) > 0 {
		c.RequeueAtMillis = int64(g.intn(-1, 1_000_000, "requeue at"))
	}
}
