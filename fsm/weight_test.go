package fsm_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"raftmaster/fsm"
)

// hostileName gives a name of 240 bytes.
func hostileName(kind string, n int) string {
	return fmt.Sprintf("%s%0*d", kind, 240-len(kind), n)
}

func hostileProfile(id, resources int) fsm.Profile {
	p := fsm.Profile{ID: id, Cores: ref(1), MemoryMB: 1}
	for i := range resources {
		p.Resources = append(p.Resources, fsm.ResourceAmount{Name: hostileName("r", i), Amount: 1})
	}
	return p
}

func hostileResources(names, addresses int) []fsm.Resource {
	var out []fsm.Resource
	for i := range names {
		r := fsm.Resource{Name: hostileName("r", i)}
		for j := range addresses {
			r.Addresses = append(r.Addresses, hostileName("a", j))
		}
		out = append(out, r)
	}
	return out
}

// F2: what one application or worker holds is bounded, and the refusal leaves no trace.
func TestF2_EntitiesAreBounded(t *testing.T) {
	m := machineOf(t, []fsm.Command{benchApp(1, 1, nil)})
	app := "app-20260102030405-0000"
	if _, ok := m.View().Application(app); !ok {
		t.Fatal("the application is called otherwise")
	}
	targets := func(profiles, resources int) fsm.SetTargets {
		c := fsm.SetTargets{AppID: app}
		for i := range profiles {
			c.Targets = append(c.Targets, fsm.ProfileTarget{Profile: hostileProfile(i+1, resources), Total: 1})
		}
		return c
	}
	big := benchWorker(1)
	big.Resources = hostileResources(1, 2000)
	many := benchWorker(2)
	many.Resources = hostileResources(1500, 1)
	for name, c := range map[string]struct {
		cmd     fsm.Command
		refused bool
	}{
		"64 resources":          {targets(1, fsm.MaxProfileResources), false},
		"65 resources":          {targets(1, fsm.MaxProfileResources+1), true},
		"255 more profiles":     {targets(fsm.MaxProfiles-1, 0), false},
		"256 more profiles":     {targets(fsm.MaxProfiles, 0), true},
		"more than 256 KiB":     {targets(20, fsm.MaxProfileResources), true},
		"4,096 profiles":        {targets(4096, 1), true},
		"worker with addresses": {big, true},
		"worker with resources": {many, true},
	} {
		t.Run(name, func(t *testing.T) {
			m := machineOf(t, []fsm.Command{benchApp(1, 1, nil)})
			before := m.View().Digest()
			err := m.Apply(m.View().Index()+1, 1, c.cmd).Err
			if refused := errors.Is(err, fsm.ErrTooLarge); refused != c.refused || (err != nil) != c.refused {
				t.Fatalf("refused is %t, want %t: %v", refused, c.refused, err)
			}
			if c.refused && m.View().Digest() != before {
				t.Error("a refused command changed the state")
			}
		})
	}
}

// hostileCommands draws commands whose texts, lists and payloads have any size, allowed or not. Numbers of cores stay
// small: it is the size of records that counts here, not their number.
type hostileCommands struct {
	t   *testing.T
	rng *rand.Rand
	m   *fsm.Machine
}

func (h *hostileCommands) text() string { return strings.Repeat("x", h.rng.IntN(fsm.MaxTextBytes+2)) }

func (h *hostileCommands) app() string {
	return fmt.Sprintf("app-20260102030405-%04d", h.rng.IntN(8))
}

func (h *hostileCommands) driver() string {
	return fmt.Sprintf("driver-20260102030405-%04d", h.rng.IntN(20))
}

func (h *hostileCommands) payload() []byte { return make([]byte, h.rng.IntN(fsm.MaxPayloadBytes+1)) }

func (h *hostileCommands) next(port int) fsm.Command {
	meta := fsm.Meta{Stamp: "20260102030405"}
	switch h.rng.IntN(12) {
	case 0:
		return fsm.RegisterApplication{Meta: meta, Name: h.text(), User: h.text(), UIURL: h.text(),
			Driver: fsm.Address{Host: "d", Port: port}, DefaultProfile: hostileProfile(0, h.rng.IntN(70)), Payload: h.payload()}
	case 1, 2:
		c := fsm.SetTargets{AppID: h.app()}
		for range h.rng.IntN(40) {
			c.Targets = append(c.Targets, fsm.ProfileTarget{Profile: hostileProfile(h.rng.IntN(400), h.rng.IntN(70)), Total: 50})
		}
		return c
	case 3, 4:
		id := h.rng.IntN(6)
		return fsm.RegisterWorker{ID: hostileName("w", id), Host: "h", Port: 1 + id, Address: fsm.Address{Host: "h", Port: 1 + id},
			Cores: 64, MemoryMB: 1 << 20, WebUIURL: h.text(), Resources: hostileResources(h.rng.IntN(70), 1+h.rng.IntN(20))}
	case 5, 6:
		return h.plan()
	case 7:
		return fsm.MarkIncompatible{AppID: h.app(), ExecID: -1, WorkerID: hostileName("w", h.rng.IntN(300)), Reason: h.text()}
	case 8:
		return fsm.LeaderElected{NodeID: "n", Reason: h.text(), Settings: fsm.Settings{RetainedApplications: 4, RetainedDrivers: 4,
			RetainedExecutors: 10, LeaderHistory: 1 << 30}}
	case 9:
		return fsm.FinishApplication{AppID: h.app(), State: fsm.AppKilled, Reason: h.text()}
	case 10:
		return fsm.SubmitDriver{Meta: meta, Cores: 1, MainClass: h.text(), JarURL: h.text(), Payload: h.payload(), Supervise: true,
			ResourceReqs: hostileProfile(0, h.rng.IntN(70)).Resources}
	}
	return h.driverCommand()
}

func (h *hostileCommands) plan() fsm.Command {
	plan := fsm.Plan(h.m.View(), fsm.PlanParams{})
	if plan.More && len(plan.Placements)+len(plan.Drivers) == 0 {
		h.t.Fatal("one placement fills the command: nothing can ever be planned")
	}
	var cmd fsm.Command = fsm.PlaceExecutors{Placements: plan.Placements}
	if len(plan.Drivers) > 0 {
		cmd = fsm.PlaceDrivers{Placements: plan.Drivers}
	}
	if _, err := fsm.EncodeCommand(cmd); err != nil {
		h.t.Fatal(err)
	}
	return cmd
}

func (h *hostileCommands) driverCommand() fsm.Command {
	d, ok := h.m.View().Driver(h.driver())
	switch {
	case !ok || d.WorkerID == "":
		return fsm.RequestKillDriver{DriverID: h.driver()}
	case h.rng.IntN(4) == 0:
		return fsm.RemoveWorker{ID: d.WorkerID, Reason: h.text()}
	}
	return fsm.DriverChanged{DriverID: d.ID, WorkerID: d.WorkerID, State: fsm.DriverStateFailed, Exception: h.text() + h.text()}
}

// F2: whatever commands of hostile sizes come, the state can be written as a snapshot and read again.
func TestF2_EveryAcceptedStateHasASnapshot(t *testing.T) {
	seeds := uint64(3)
	if testing.Short() {
		seeds = 1
	}
	for seed := range seeds {
		h := &hostileCommands{t: t, rng: rand.New(rand.NewPCG(seed, 7)), m: fsm.NewMachine()}
		m := h.m
		accepted, refused, drivers, executors := 0, 0, 0, 0
		for i := range uint64(400) {
			r := m.Apply(i+1, 1, h.next(1+int(i)))
			if r.Err != nil {
				refused++
				continue
			}
			accepted++
			switch placed := r.Value.(type) {
			case fsm.PlaceDriversResult:
				drivers += len(placed.Placed)
			case fsm.PlaceResult:
				executors += len(placed.Placed)
			}
		}
		if accepted < 100 || refused < 10 || drivers == 0 || executors == 0 {
			t.Fatalf("%d commands were accepted, %d refused, %d drivers and %d executors placed: the test is worthless", accepted,
				refused, drivers, executors)
		}
		data := snapshotOf(t, m)
		restored, err := fsm.Restore(bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		if restored.View().Digest() != m.View().Digest() {
			t.Error("the restored state differs")
		}
		if err := fsm.Check(restored.View()); err != nil {
			t.Error(err)
		}
		t.Logf("%d accepted, %d refused, %d drivers and %d executors placed, %d bytes", accepted, refused, drivers, executors, len(data))
	}
}

// F2: many workers that cannot run an application do not make its record grow without end.
func TestF2_IncompatibleWorkersAreBounded(t *testing.T) {
	cmds := []fsm.Command{benchApp(1, 1, nil)}
	for i := range 1200 {
		w := benchWorker(i)
		w.ID = hostileName("w", i)
		cmds = append(cmds, w, fsm.MarkIncompatible{AppID: "app-20260102030405-0000", ExecID: -1, WorkerID: w.ID})
	}
	m := machineOf(t, cmds)
	a, _ := m.View().Application("app-20260102030405-0000")
	if n := len(a.IncompatibleWorkers); n < 1000 || n > 1100 {
		t.Errorf("%d workers are remembered, want about 1050", n)
	}
}

// F10: what ends in log lines and in paths has no control characters.
func TestF10_ControlCharactersAreRefused(t *testing.T) {
	for name, change := range map[string]func(*fsm.RegisterWorker){
		"id": func(c *fsm.RegisterWorker) { c.ID += "\n" }, "host": func(c *fsm.RegisterWorker) { c.Host += "\r" },
		"RPC host": func(c *fsm.RegisterWorker) { c.Address.Host += "\x1b[1m" }, "URL": func(c *fsm.RegisterWorker) { c.WebUIURL += "\u0085" },
		"resource": func(c *fsm.RegisterWorker) { c.Resources = []fsm.Resource{{Name: "g\tpu", Addresses: []string{"0"}}} },
		"address":  func(c *fsm.RegisterWorker) { c.Resources = []fsm.Resource{{Name: "gpu", Addresses: []string{"0\x7f"}}} },
	} {
		c := benchWorker(1)
		change(&c)
		if err := fsm.NewMachine().Apply(1, 1, c).Err; !errors.Is(err, fsm.ErrInvalidCommand) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// F10: only the worker that holds an executor is believed about it.
func TestF10_ReportOfNobodyChangesNothing(t *testing.T) {
	m := machineOf(t, []fsm.Command{benchWorker(1), benchApp(1, 1, nil)})
	plan := fsm.Plan(m.View(), fsm.PlanParams{})
	if len(plan.Placements) == 0 {
		t.Fatal("nothing was planned")
	}
	index := m.View().Index()
	key := m.Apply(index+1, 1, fsm.PlaceExecutors{Placements: plan.Placements}).Value.(fsm.PlaceResult).Placed[0].Key
	for i, sender := range []string{"", "stranger"} {
		r := m.Apply(index+2+uint64(i), 1, fsm.ExecutorChanged{AppID: key.AppID, ExecID: key.ExecID, WorkerID: sender, State: fsm.ExecutorExited})
		if _, alive := m.View().Executor(key); !alive || r.Value.(fsm.ExecutorChangedResult).Known || len(r.Effects) > 0 {
			t.Errorf("the report of %q was believed", sender)
		}
	}
}
