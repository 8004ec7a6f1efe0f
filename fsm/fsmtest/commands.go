package fsmtest

import (
	"fmt"

	"pgregory.net/rapid"

	"raftmaster/fsm"
)

// The generators draw from small pools of hosts, ids and sizes, so that commands collide often: the same address under
// another id, an executor of another worker, a profile that is defined twice.

// Stamp is the time stamp of generated commands; it never changes, as if the clock stood still.
const Stamp = "20260102030405"

// known is what a state offers as operands.
type known struct {
	workers   []string
	apps      []string
	executors []*fsm.Executor
	drivers   []string
}

func operands(v fsm.View) known {
	var k known
	v.Workers(func(w *fsm.Worker) bool { k.workers = append(k.workers, w.ID); return true })
	v.ActiveApplications(func(a *fsm.Application) bool {
		k.apps = append(k.apps, a.ID)
		v.ExecutorsOfApp(a.ID, func(e *fsm.Executor) bool { k.executors = append(k.executors, e); return true })
		return true
	})
	each := func(d *fsm.Driver) bool { k.drivers = append(k.drivers, d.ID); return true }
	v.Drivers(each)
	v.CompletedDrivers(each)
	return k
}

// Command draws a command that makes some sense in the state, most of the time.
func Command(v fsm.View) *rapid.Generator[fsm.Command] {
	return rapid.Custom(func(t *rapid.T) fsm.Command {
		g := &generator{t: t, view: v, known: operands(v)}
		return g.command()
	})
}

type generator struct {
	t     *rapid.T
	view  fsm.View
	known known
}

func (g *generator) intn(lo, hi int, label string) int {
	return rapid.IntRange(lo, hi).Draw(g.t, label)
}

func (g *generator) bool(label string) bool { return rapid.Bool().Draw(g.t, label) }

// oneIn is true once in n draws, and shrinks to false.
func (g *generator) oneIn(n int, label string) bool { return g.intn(0, n-1, label) == n-1 }

func (g *generator) meta() fsm.Meta {
	// Time goes on with the log, by half a second a command; now and then the clock of another leader is far away.
	now := int64(g.view.Index())*500 + int64(g.intn(1, 1000, "now"))
	if g.oneIn(20, "other clock") {
		now = int64(g.intn(1, 1_000_000, "other now"))
	}
	return fsm.Meta{NowMillis: now, Stamp: Stamp, RequestID: "r"}
}

func (g *generator) command() fsm.Command {
	// Weights: what builds up must outweigh what tears down.
	if g.oneIn(4, "about drivers") {
		return g.driverCommand()
	}
	switch n := g.intn(0, 99, "kind"); {
	case n < 14:
		return g.registerWorker()
	case n < 18:
		return fsm.RemoveWorker{Meta: g.meta(), ID: g.worker(), Reason: "test"}
	case n < 20:
		return fsm.ReapWorkers{Meta: g.meta(), IDs: g.workerList()}
	case n < 30:
		return g.registerApplication()
	case n < 32:
		return g.finishApplication()
	case n < 34:
		return fsm.ConfirmApplication{Meta: g.meta(), AppID: g.app()}
	case n < 54:
		return g.placeExecutors()
	case n < 68:
		return g.executorChanged()
	case n < 76:
		return g.setTargets()
	case n < 79:
		return g.killExecutors()
	case n < 84:
		return g.reconcileWorker()
	case n < 86:
		return fsm.DecommissionWorkers{Meta: g.meta(), IDs: g.workerList(), Notify: g.bool("notify")}
	case n < 87:
		return g.launchReceipts()
	case n < 88:
		return fsm.RaiseLevel{Meta: g.meta(), Level: fsm.Level(g.intn(1, int(fsm.CommandLevel), "level"))}
	case n < 90:
		e := g.executor()
		return fsm.MarkIncompatible{Meta: g.meta(), AppID: e.AppID, ExecID: e.ID, WorkerID: e.WorkerID, Reason: "no family"}
	case n < 93:
		return g.setRelease()
	case n < 96:
		return g.leaderElected()
	case n < 97:
		return fsm.InitCluster{Meta: g.meta(), ClusterID: fmt.Sprintf("cluster-%d", g.intn(0, 1, "cluster"))}
	case n < 98:
		return fsm.ClearCompleted{Meta: g.meta()}
	default:
		return fsm.CheckDigest{Meta: g.meta()}
	}
}

// worker names a known worker, or now and then any.
func (g *generator) worker() string {
	if len(g.known.workers) == 0 || g.oneIn(12, "strange worker") {
		return fmt.Sprintf("worker-%d", g.intn(0, 9, "worker"))
	}
	return rapid.SampledFrom(g.known.workers).Draw(g.t, "worker")
}

func (g *generator) workerList() []string {
	out := make([]string, g.intn(0, 3, "workers"))
	for i := range out {
		out[i] = g.worker()
	}
	return out
}

func (g *generator) app() string {
	if len(g.known.apps) == 0 || g.oneIn(12, "strange app") {
		return fmt.Sprintf("app-%s-%04d", Stamp, g.intn(0, 9, "app"))
	}
	return rapid.SampledFrom(g.known.apps).Draw(g.t, "app")
}

// executor gives a booked one, or now and then any.
func (g *generator) executor() *fsm.Executor {
	if len(g.known.executors) == 0 || g.oneIn(12, "strange executor") {
		return &fsm.Executor{AppID: g.app(), ID: g.intn(-1, 9, "exec"), WorkerID: g.worker()}
	}
	return rapid.SampledFrom(g.known.executors).Draw(g.t, "executor")
}

func (g *generator) executorList() []fsm.ExecutorKey {
	out := make([]fsm.ExecutorKey, g.intn(0, 4, "executors"))
	for i := range out {
		out[i] = g.executor().Key()
	}
	return out
}

func (g *generator) registerWorker() fsm.Command {
	n := g.intn(0, 9, "worker")
	host, port := fmt.Sprintf("host-%d", n%5), 7000+n/5
	c := fsm.RegisterWorker{Meta: g.meta(), ID: fmt.Sprintf("worker-%d", n), Host: host, Port: port,
		Address: fsm.Address{Host: host, Port: port}, Cores: g.intn(0, 8, "cores"), MemoryMB: 512 * g.intn(0, 16, "memory"),
		WebUIURL: "http://" + host, Families: uint8(g.intn(0, 31, "families"))}
	if g.oneIn(4, "new process") {
		c.ID = fmt.Sprintf("worker-%d", 10+n)
	}
	if holder, held := g.view.WorkerByAddress(c.Address); held && g.bool("replace") {
		c.ReplaceHolder = holder.ID
	}
	if gpus := g.intn(0, 3, "gpus"); gpus > 0 {
		r := fsm.Resource{Name: "gpu"}
		for i := range gpus {
			r.Addresses = append(r.Addresses, fmt.Sprint(11-i)) // not in the order of text
		}
		c.Resources = append(c.Resources, r)
	}
	return c
}

func (g *generator) profile(id int) fsm.Profile {
	p := fsm.Profile{ID: id, MemoryMB: 512 * g.intn(0, 4, "memory")}
	if g.bool("cores set") {
		cores := g.intn(1, 4, "cores")
		p.Cores = &cores
	}
	if g.oneIn(4, "gpu") {
		p.Resources = []fsm.ResourceAmount{{Name: "gpu", Amount: g.intn(0, 2, "gpus")}}
	}
	return p
}

func (g *generator) registerApplication() fsm.Command {
	n := g.intn(0, 5, "driver")
	c := fsm.RegisterApplication{Meta: g.meta(), Name: fmt.Sprintf("name %d", n), User: "user",
		UIURL: "http://driver", Driver: fsm.Address{Host: "driver", Port: 40000 + n}, DefaultCores: g.intn(0, 12, "default cores"),
		DefaultProfile: g.profile(0), Families: uint8(g.intn(0, 31, "families")), KeepID: g.bool("keep id")}
	if g.bool("max cores set") {
		cores := g.intn(0, 16, "max cores")
		c.MaxCores = &cores
	}
	if g.bool("limit set") {
		limit := g.intn(0, 4, "limit")
		c.InitialExecutorLimit = &limit
	}
	if g.bool("payload set") {
		c.Payload = []byte(fmt.Sprintf("payload %d", n))
	}
	switch g.intn(0, 7, "id") {
	case 0:
		c.IDPattern, c.NumberModulo = "a%2$d", g.intn(0, 3, "modulo")
	case 1:
		c.NameAsID = true
	}
	return c
}

func (g *generator) finishApplication() fsm.Command {
	state := rapid.SampledFrom([]fsm.AppState{fsm.AppFinished, fsm.AppFailed, fsm.AppKilled, fsm.AppWaiting}).Draw(g.t, "state")
	return fsm.FinishApplication{Meta: g.meta(), AppID: g.app(), State: state, Reason: "test"}
}

// placeExecutors is a real plan most of the time, else one that was never right.
func (g *generator) placeExecutors() fsm.Command {
	if g.intn(0, 3, "plan") > 0 {
		plan := fsm.Plan(g.view, Params().Draw(g.t, "params"))
		return fsm.PlaceExecutors{Meta: g.meta(), Placements: plan.Placements}
	}
	c := fsm.PlaceExecutors{Meta: g.meta()}
	for range g.intn(0, 3, "placements") {
		p := fsm.Placement{AppID: g.app(), ProfileID: g.intn(0, 2, "profile"), WorkerID: g.worker(), Cores: g.intn(-1, 4, "cores"),
			MemoryMB: 512 * g.intn(0, 4, "memory")}
		if a, ok := g.view.Application(p.AppID); ok && g.bool("fitting memory") {
			if ps, ok := a.Profile(p.ProfileID); ok {
				p.MemoryMB = ps.Profile.MemoryMB
			}
		}
		if g.oneIn(3, "gpu") {
			p.Resources = []fsm.Resource{{Name: "gpu", Addresses: []string{fmt.Sprint(g.intn(9, 11, "address"))}}}
		}
		c.Placements = append(c.Placements, p)
	}
	return c
}

// Params draws a planner's settings.
func Params() *rapid.Generator[fsm.PlanParams] {
	return rapid.Custom(func(t *rapid.T) fsm.PlanParams {
		return fsm.PlanParams{SpreadOutApps: rapid.Bool().Draw(t, "spread out"),
			NowMillis: int64(rapid.IntRange(0, 1_000_000).Draw(t, "now")), SpreadOutDrivers: rapid.Bool().Draw(t, "spread out drivers"),
			MaxDrivers: rapid.IntRange(0, 4).Draw(t, "max drivers"),
			Policy:     fsm.SelectionPolicy(rapid.IntRange(int(fsm.CoresFreeDesc), int(fsm.WorkerID)).Draw(t, "policy"))}
	})
}

func (g *generator) executorState() fsm.ExecutorState {
	return rapid.SampledFrom([]fsm.ExecutorState{fsm.ExecutorRunning, fsm.ExecutorLaunching, fsm.ExecutorExited,
		fsm.ExecutorFailed, fsm.ExecutorKilled, fsm.ExecutorLost, fsm.ExecutorDecommissioned, 77}).Draw(g.t, "state")
}

// crash takes an executor one step further in a crash loop: placed, RUNNING, failed.
func (g *generator) crash() fsm.Command {
	if len(g.known.executors) == 0 {
		return fsm.PlaceExecutors{Meta: g.meta(), Placements: fsm.Plan(g.view, fsm.PlanParams{NowMillis: 1 << 40}).Placements}
	}
	e := g.known.executors[0]
	c := fsm.ExecutorChanged{Meta: g.meta(), AppID: e.AppID, ExecID: e.ID, WorkerID: e.WorkerID, State: fsm.ExecutorRunning}
	if e.State != fsm.ExecutorLaunching {
		status := 1
		c.State, c.ExitStatus = fsm.ExecutorExited, &status
	}
	return c
}

func (g *generator) executorChanged() fsm.Command {
	if g.oneIn(3, "crash") {
		return g.crash()
	}
	e := g.executor()
	c := fsm.ExecutorChanged{Meta: g.meta(), AppID: e.AppID, ExecID: e.ID, State: fsm.ExecutorRunning}
	if g.bool("other state") {
		c.State = g.executorState()
	}
	switch g.intn(0, 4, "reporter") {
	case 0:
	case 1:
		c.WorkerID = g.worker()
	default:
		c.WorkerID = e.WorkerID
	}
	if g.bool("message set") {
		message := "message"
		c.Message = &message
	}
	if g.bool("exit status set") {
		status := g.intn(0, 1, "exit status")
		c.ExitStatus = &status
	}
	return c
}

func (g *generator) setTargets() fsm.Command {
	c := fsm.SetTargets{Meta: g.meta(), AppID: g.app()}
	for range g.intn(0, 3, "targets") {
		c.Targets = append(c.Targets, fsm.ProfileTarget{Profile: g.profile(g.intn(0, 3, "profile")), Total: g.intn(0, 6, "total")})
	}
	return c
}

func (g *generator) killExecutors() fsm.Command {
	e := g.executor()
	c := fsm.KillExecutors{Meta: g.meta(), AppID: e.AppID, IDs: []int{e.ID}}
	if g.bool("more") {
		c.IDs = append(c.IDs, g.intn(-1, 9, "exec"))
	}
	return c
}

func (g *generator) reconcileWorker() fsm.Command {
	c := fsm.ReconcileWorker{Meta: g.meta(), WorkerID: g.worker()}
	g.view.ExecutorsOfWorker(c.WorkerID, func(e *fsm.Executor) bool {
		switch g.intn(0, 3, "listed") {
		case 0, 1:
			c.Reported = append(c.Reported, fsm.ReportedExecutor{AppID: e.AppID, ExecID: e.ID, ProfileID: e.ProfileID,
				Cores: e.Cores, MemoryMB: e.MemoryMB, State: g.executorState(), Resources: e.Resources})
		case 2:
			c.Missing = append(c.Missing, e.Key())
		}
		return true
	})
	if g.bool("stranger") {
		e := g.executor()
		c.Reported = append(c.Reported, fsm.ReportedExecutor{AppID: e.AppID, ExecID: e.ID, State: fsm.ExecutorRunning})
	}
	if g.oneIn(4, "strange missing") {
		c.Missing = append(c.Missing, g.executor().Key())
	}
	g.reconcileDrivers(&c)
	return c
}

// launchReceipts names what the worker holds, and strangers.
func (g *generator) launchReceipts() fsm.Command {
	c := fsm.LaunchReceipts{Meta: g.meta(), WorkerID: g.worker(), Executors: g.executorList(), Drivers: g.driverList()}
	g.view.ExecutorsOfWorker(c.WorkerID, func(e *fsm.Executor) bool {
		if g.bool("executor received") {
			c.Executors = append(c.Executors, e.Key())
		}
		return true
	})
	g.view.DriversOnWorker(c.WorkerID, func(d *fsm.Driver) bool {
		if g.bool("driver received") {
			c.Drivers = append(c.Drivers, d.ID)
		}
		return true
	})
	return c
}

func (g *generator) setRelease() fsm.Command {
	c := fsm.SetRelease{Meta: g.meta(), Release: "4.3.0", Families: uint8(g.intn(0, 31, "families"))}
	switch g.intn(0, 5, "of") {
	case 0: // neither: invalid
	case 5:
		c.DriverID = g.driver()
	case 1, 2:
		c.WorkerID = g.worker()
	default:
		c.AppID = g.app()
	}
	return c
}

func (g *generator) leaderElected() fsm.Command {
	return fsm.LeaderElected{Meta: g.meta(), NodeID: fmt.Sprintf("node-%d", g.intn(0, 2, "node")), Reason: "test",
		Settings: fsm.Settings{MaxExecutorRetries: g.intn(-1, 8, "retries"), RetainedApplications: g.intn(0, 3, "applications"),
			RetainedDrivers: g.intn(0, 3, "drivers"), RetainedExecutors: g.intn(0, 3, "executors"),
			LeaderHistory: g.intn(0, 3, "leaders"), DriverRelaunchDelayMillis: int64(g.intn(0, 1000, "delay"))}}
}
