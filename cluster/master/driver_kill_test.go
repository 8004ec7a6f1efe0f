package master

import (
	"testing"
	"time"

	"raftmaster/fsm"
	"raftmaster/transport/sparkmsg"
)

// G-36: a kill is not repeated for ever to a worker that does not have the driver, and has nothing more to report of it.
// That it never listed the driver shows nothing about what it can read: the kill came before a list.
func TestG36_RepeatedKillIsSettledByTheWorkersList(t *testing.T) {
	for name, listed := range map[string]bool{"listed before": true, "never listed": false} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			fw := w.joined(1)
			id, stays := w.submitted(), w.submitted()
			if listed {
				fw.register()
				fw.latestDrivers(id, stays)
			}
			w.killDriver(id)
			asked := len(got[*sparkmsg.MasterChanged](w.net, fw.addr))
			w.advance(killRepeat + 2*time.Second)
			if len(got[*sparkmsg.MasterChanged](w.net, fw.addr)) == asked {
				t.Fatal("the worker is not asked for its list")
			}
			fw.schedulerDrivers(stays)
			w.wantDriver(id, fsm.DriverStateKilled)
			w.wantDriver(stays, fsm.DriverStateRunning)
			kills := len(fw.driverKills())
			w.advance(3 * killRepeat)
			wantLen(t, "KillDriver after the list", fw.driverKills()[kills:], 0)
			w.submitted()
			wantLen(t, "launches, the worker being usable again", fw.driverLaunches(), 3)
		})
	}
}
