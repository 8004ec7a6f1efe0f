package fsm_test

import (
	"fmt"

	"raftmaster/fsm"
)

// Driver commands of scripts. "3" is the id of the driver with that number.

func driverID(number string) string { return "driver-20260102030405-" + fmt.Sprintf("%04s", number) }

func (s *script) drivers(key string) []string {
	var out []string
	for _, number := range s.list(key) {
		out = append(out, driverID(number))
	}
	return out
}

func (s *script) driverState(name string) fsm.DriverState {
	for state := fsm.DriverStateSubmitted; state.Valid(); state++ {
		if state.String() == name {
			return state
		}
	}
	s.d.Fatalf(s.t, "unknown state %q", name)
	return 0
}

func (s *script) driverCommand(m fsm.Meta) fsm.Command {
	id := driverID(s.text("id", "0"))
	switch s.d.Cmd {
	case "submit-driver":
		c := fsm.SubmitDriver{Meta: m, Cores: s.number("cores", 1), MemoryMB: s.number("mem", 1024), Supervise: s.has("supervise"),
			MainClass: "Main", JarURL: "file:/a.jar", Payload: []byte("description"), IDPattern: s.text("pattern", "")}
		if n := s.number("gpus", 0); n > 0 {
			c.ResourceReqs = []fsm.ResourceAmount{{Name: "gpu", Amount: n}}
		}
		return c
	case "kill-driver":
		return fsm.RequestKillDriver{Meta: m, DriverID: id}
	case "kill-all-drivers":
		return fsm.KillAllDrivers{Meta: m}
	case "driver":
		return fsm.DriverChanged{Meta: m, DriverID: id, WorkerID: s.text("worker", ""), State: s.driverState(s.text("state", "")),
			Exception: s.text("exception", "")}
	case "place-driver":
		return fsm.PlaceDrivers{Meta: m, Placements: []fsm.DriverPlacement{{DriverID: id, WorkerID: s.text("worker", "")}}}
	case "drain":
		return fsm.DrainWorkers{Meta: m, IDs: s.list("ids"), On: !s.has("off"), IdleOnly: s.has("idle-only")}
	case "unmark":
		c := fsm.UnmarkIncompatible{Meta: m, WorkerID: s.text("worker", "")}
		if s.has("app") {
			c.AppID = s.app()
		}
		return c
	}
	return nil
}
