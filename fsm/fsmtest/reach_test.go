package fsmtest_test

import (
	"testing"

	"raftmaster/fsm"
	"raftmaster/fsm/fsmtest"
)

// TestGeneratorsReachEverything: properties prove nothing about what their commands never bring about.
func TestGeneratorsReachEverything(t *testing.T) {
	seen := map[string]int{}
	count := func(what string, happened bool) {
		if happened {
			seen[what]++
		}
	}
	for run := range 600 {
		m := fsm.NewMachine()
		for i := range 80 {
			before := m.View()
			cmd := fsmtest.Command(before).Example(run*1000 + i)
			r := m.Apply(uint64(i+1), 1, cmd)
			v := m.View()
			switch value := r.Value.(type) {
			case fsm.DriverKill:
				count("waiting driver killed", value.Known && value.Waiting)
				count("running driver asked to end", value.Known && !value.Waiting)
				if c := cmd.(fsm.RequestKillDriver); value.Known {
					count("killed by a predecessor's id", value.ID != c.DriverID)
				}
			case fsm.ReconcileResult:
				for _, id := range value.EndedDrivers {
					d, _ := v.Driver(id)
					count("missing driver back in the queue", d != nil && d.State == fsm.DriverStateSubmitted)
					count("missing driver in error", d != nil && d.State == fsm.DriverStateError)
					count("missing driver relaunched", d != nil && d.State == fsm.DriverStateRelaunching)
				}
				count("strange driver killed", len(value.KilledDrivers) > 0)
			case fsm.PlaceDriversResult:
				count("driver dropped", len(value.Dropped) > 0)
			case fsm.DrainResult:
				count("drained", len(value.Changed) > 0)
				count("busy", len(value.Busy) > 0)
			case fsm.DriverChangedResult:
				count("driver's end believed", value.Known)
				count("driver's end not believed", !value.Known)
			case fsm.ExecutorChangedResult:
				count("application failed", value.AppFailed)
			case int:
				_, unmark := cmd.(fsm.UnmarkIncompatible)
				count("unmarked", unmark && value > 0)
			}
			for _, effect := range r.Effects {
				launch, ok := effect.(fsm.LaunchDriver)
				count("driver launched", ok)
				count("driver launched with a GPU", len(launch.Resources) > 0)
				count("driver launched beside executors", ok && v.Totals().ExecutorsRunning > 0)
			}
			_, removed := cmd.(fsm.RemoveWorker)
			count("driver relaunched", removed && v.Totals().DriversWaiting > before.Totals().DriversWaiting)
			v.ActiveApplications(func(a *fsm.Application) bool { count("quick failure", a.LoopFailures > 0); return true })
		}
	}
	for _, what := range []string{"waiting driver killed", "running driver asked to end", "killed by a predecessor's id",
		"missing driver back in the queue", "missing driver in error", "missing driver relaunched", "strange driver killed", "driver dropped",
		"drained", "busy", "driver's end believed", "driver's end not believed", "application failed", "unmarked", "driver launched",
		"driver launched with a GPU", "driver launched beside executors", "driver relaunched", "quick failure"} {
		if seen[what] == 0 {
			t.Errorf("no command ever brought about: %s", what)
		}
	}
	t.Log(seen)
}
