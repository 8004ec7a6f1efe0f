package fsm_test

import (
	"bytes"
	"fmt"
	"io"
	"sync"
	"testing"

	"raftmaster/fsm"
)

// The benchmarks run on the largest cluster of the design: 10,000 workers, 1,000 applications, 100,000 executors.
const (
	bigWorkers   = 10_000
	bigApps      = 1_000
	bigExecutors = 100 // per application
)

// bigCluster is built once and forked by its snapshot.
var bigCluster = sync.OnceValue(func() []byte {
	m := fsm.NewMachine()
	index := uint64(0)
	apply := func(cmd fsm.Command) fsm.Result {
		index++
		r := m.Apply(index, 1, cmd)
		if r.Err != nil {
			panic(r.Err)
		}
		return r
	}
	for i := range bigWorkers {
		apply(benchWorker(i))
	}
	for i := range bigApps {
		apply(benchApp(i, bigExecutors, []byte("a payload")))
	}
	for {
		plan := fsm.Plan(m.View(), fsm.PlanParams{SpreadOutApps: true})
		if len(plan.Placements) == 0 {
			break
		}
		for _, p := range apply(fsm.PlaceExecutors{Placements: plan.Placements}).Value.(fsm.PlaceResult).Placed {
			apply(fsm.ExecutorChanged{AppID: p.Key.AppID, ExecID: p.Key.ExecID, WorkerID: p.WorkerID, State: fsm.ExecutorRunning})
		}
	}
	var b bytes.Buffer
	if err := m.Snapshot().Write(&b); err != nil {
		panic(err)
	}
	return b.Bytes()
})

func benchWorker(i int) fsm.RegisterWorker {
	host := fmt.Sprintf("10.0.%d.%d", i/250, i%250)
	return fsm.RegisterWorker{ID: fmt.Sprintf("worker-20260102030405-%s-7078", host), Host: host, Port: 7078,
		Address: fsm.Address{Host: host, Port: 7078}, Cores: 16, MemoryMB: 65536, WebUIURL: "http://" + host + ":8081"}
}

func benchApp(i, executors int, payload []byte) fsm.RegisterApplication {
	cores, one := executors, 1
	return fsm.RegisterApplication{Meta: fsm.Meta{Stamp: "20260102030405"}, Name: fmt.Sprintf("application %d", i),
		Driver: fsm.Address{Host: "driver", Port: 10000 + i}, MaxCores: &cores, Payload: payload,
		DefaultProfile: fsm.Profile{Cores: &one, MemoryMB: 1024}}
}

func benchAppID(i int) string { return fmt.Sprintf("app-20260102030405-%04d", i) }

func benchMachine(b *testing.B) (*fsm.Machine, uint64) {
	b.Helper()
	m, err := fsm.Restore(bytes.NewReader(bigCluster()))
	if err != nil {
		b.Fatal(err)
	}
	if t := m.View().Totals(); t.ExecutorsRunning != bigApps*bigExecutors || t.Workers.Alive != bigWorkers {
		b.Fatalf("the cluster has %+v", t)
	}
	return m, m.View().Index()
}

func someExecutors(v fsm.View) []*fsm.Executor {
	var out []*fsm.Executor
	v.ActiveApplications(func(a *fsm.Application) bool {
		v.ExecutorsOfApp(a.ID, func(e *fsm.Executor) bool {
			out = append(out, e)
			return true
		})
		return len(out) < 10_000
	})
	return out
}

// BenchmarkApply measures single commands on the big cluster.
func BenchmarkApply(b *testing.B) {
	b.Run("RegisterWorkerDuplicate", func(b *testing.B) {
		benchApply(b, func(i int) fsm.Command { return benchWorker(i % bigWorkers) })
	})
	b.Run("RegisterApplication", func(b *testing.B) {
		benchApply(b, func(i int) fsm.Command {
			c := benchApp(i, 1, []byte("a payload"))
			c.Driver = fsm.Address{Host: fmt.Sprintf("host-%d", i/50000), Port: 1 + i%50000}
			return c
		})
	})
	b.Run("RegisterApplication16KiB", func(b *testing.B) {
		payload := bytes.Repeat([]byte("p"), 16<<10)
		benchApply(b, func(i int) fsm.Command {
			c := benchApp(i, 1, payload)
			c.Driver = fsm.Address{Host: fmt.Sprintf("host-%d", i/50000), Port: 1 + i%50000}
			return c
		})
	})
	b.Run("SetTargets", func(b *testing.B) {
		benchApply(b, func(i int) fsm.Command {
			return fsm.SetTargets{AppID: benchAppID(i % bigApps),
				Targets: []fsm.ProfileTarget{{Profile: fsm.Profile{ID: 0}, Total: 100 + i%7}}}
		})
	})
	b.Run("CheckDigest", func(b *testing.B) {
		benchApply(b, func(int) fsm.Command { return fsm.CheckDigest{} })
	})
	b.Run("ConfirmApplication", func(b *testing.B) {
		benchApply(b, func(i int) fsm.Command { return fsm.ConfirmApplication{AppID: benchAppID(i % bigApps)} })
	})
	b.Run("SetRelease", func(b *testing.B) {
		benchApply(b, func(i int) fsm.Command {
			return fsm.SetRelease{WorkerID: benchWorker(i % bigWorkers).ID, Release: "4.3.0", Families: uint8(1 + i%7)}
		})
	})
	b.Run("LeaderElected", func(b *testing.B) {
		benchApply(b, func(int) fsm.Command {
			return fsm.LeaderElected{NodeID: "node", Reason: "bench", Settings: fsm.DefaultSettings()}
		})
	})
	b.Run("ReconcileWorkerOf10", func(b *testing.B) {
		m, index := benchMachine(b)
		lists := make([]fsm.ReconcileWorker, 100)
		for i := range lists {
			lists[i].WorkerID = benchWorker(i).ID
			m.View().ExecutorsOfWorker(lists[i].WorkerID, func(e *fsm.Executor) bool {
				lists[i].Reported = append(lists[i].Reported, fsm.ReportedExecutor{AppID: e.AppID, ExecID: e.ID, State: e.State})
				return true
			})
		}
		for i := 0; b.Loop(); i++ {
			index++
			m.Apply(index, 1, lists[i%len(lists)])
		}
	})
	b.Run("DecommissionAndRemoveWorkerOf10", func(b *testing.B) {
		benchApply(b, func(i int) fsm.Command {
			id := benchWorker(i / 2 % bigWorkers).ID
			if i%2 == 0 {
				return fsm.DecommissionWorkers{IDs: []string{id}}
			}
			return fsm.RemoveWorker{ID: id, Reason: "bench"}
		})
	})
	b.Run("FinishApplicationOf100", func(b *testing.B) {
		benchApply(b, func(i int) fsm.Command {
			return fsm.FinishApplication{AppID: benchAppID(i), State: fsm.AppFinished}
		})
	})
	b.Run("KillExecutors", func(b *testing.B) {
		benchApply(b, func(i int) fsm.Command {
			return fsm.KillExecutors{AppID: benchAppID(i / bigExecutors), IDs: []int{i % bigExecutors}}
		})
	})
	b.Run("RemoveAndRegisterWorker", func(b *testing.B) {
		benchApply(b, func(i int) fsm.Command {
			if i%2 == 0 {
				return fsm.RemoveWorker{ID: benchWorker(i / 2 % bigWorkers).ID, Reason: "bench"}
			}
			return benchWorker(i / 2 % bigWorkers)
		})
	})
}

// BenchmarkApplyDrivers measures the commands about drivers on the big cluster.
func BenchmarkApplyDrivers(b *testing.B) {
	submit := fsm.SubmitDriver{Meta: fsm.Meta{Stamp: "20260102030405"}, Cores: 1, MemoryMB: 1024, MainClass: "Main",
		JarURL: "file:/a.jar", Supervise: true, Payload: bytes.Repeat([]byte("p"), 2<<10)}
	id := func(i int) string { return fmt.Sprintf("driver-20260102030405-%04d", i) }
	b.Run("SubmitAndKillWaiting", func(b *testing.B) {
		benchApply(b, func(i int) fsm.Command {
			if i%2 == 0 {
				return submit
			}
			return fsm.RequestKillDriver{DriverID: id(i / 2)}
		})
	})
	b.Run("SubmitPlaceReceiptFinish", func(b *testing.B) {
		benchApply(b, func(i int) fsm.Command {
			driver, worker := id(i/4), benchWorker(i/4%bigWorkers).ID
			switch i % 4 {
			case 0:
				return submit
			case 1:
				return fsm.PlaceDrivers{Placements: []fsm.DriverPlacement{{DriverID: driver, WorkerID: worker}}}
			case 2:
				return fsm.LaunchReceipts{WorkerID: worker, Drivers: []string{driver}}
			}
			return fsm.DriverChanged{DriverID: driver, WorkerID: worker, State: fsm.DriverStateFinished}
		})
	})
	b.Run("LoseWorkerOf10AndRelaunch", func(b *testing.B) {
		m, index := benchMachine(b)
		apply := func(cmd fsm.Command) {
			index++
			if r := m.Apply(index, 1, cmd); r.Err != nil {
				b.Fatal(r.Err)
			}
		}
		apply(submit)
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			w := benchWorker(i % bigWorkers)
			apply(fsm.PlaceDrivers{Placements: []fsm.DriverPlacement{{DriverID: id(i), WorkerID: w.ID}}})
			apply(fsm.RemoveWorker{ID: w.ID, Reason: "bench"})
			apply(w)
		}
	})
	b.Run("KillAllOf100", func(b *testing.B) {
		benchApply(b, func(i int) fsm.Command {
			if i%101 < 100 {
				return submit
			}
			return fsm.KillAllDrivers{}
		})
	})
	b.Run("MarkAndUnmarkIncompatible", func(b *testing.B) {
		benchApply(b, func(i int) fsm.Command {
			app, worker := benchAppID(i/2%bigApps), benchWorker(i/2%bigWorkers).ID
			if i%2 == 0 {
				return fsm.MarkIncompatible{AppID: app, ExecID: -1, WorkerID: worker}
			}
			return fsm.UnmarkIncompatible{AppID: app, WorkerID: worker}
		})
	})
	b.Run("ReconcileWorkerOf10Drivers", func(b *testing.B) {
		m, index := benchMachine(b)
		list := fsm.ReconcileWorker{WorkerID: benchWorker(bigWorkers - 1).ID}
		place := fsm.PlaceDrivers{}
		small := submit
		small.Cores = 0
		for i := range 10 {
			list.ReportedDrivers = append(list.ReportedDrivers, id(i))
			place.Placements = append(place.Placements, fsm.DriverPlacement{DriverID: id(i), WorkerID: list.WorkerID})
			index++
			m.Apply(index, 1, small)
		}
		index++
		m.Apply(index, 1, place)
		if n := m.View().Totals().DriversRunning; n != 10 {
			b.Fatalf("%d drivers run", n)
		}
		b.ReportAllocs()
		for b.Loop() {
			index++
			m.Apply(index, 1, list)
		}
	})
	b.Run("DrainAndUndrain", func(b *testing.B) {
		benchApply(b, func(i int) fsm.Command {
			return fsm.DrainWorkers{IDs: []string{benchWorker(i / 2 % bigWorkers).ID}, On: i%2 == 0}
		})
	})
}

func benchApply(b *testing.B, command func(i int) fsm.Command) {
	m, index := benchMachine(b)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		index++
		if r := m.Apply(index, 1, command(i)); r.Err != nil {
			b.Fatal(r.Err)
		}
	}
}

// BenchmarkExecutorCycle measures one executor's life on the big cluster: exit, plan, place, running.
func BenchmarkExecutorCycle(b *testing.B) {
	m, index := benchMachine(b)
	executors := someExecutors(m.View())
	status := 0
	apply := func(cmd fsm.Command) fsm.Result {
		index++
		return m.Apply(index, 1, cmd)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		e := executors[i%len(executors)]
		apply(fsm.ExecutorChanged{AppID: e.AppID, ExecID: e.ID, WorkerID: e.WorkerID, State: fsm.ExecutorExited, ExitStatus: &status})
		plan := fsm.Plan(m.View(), fsm.PlanParams{SpreadOutApps: true})
		if len(plan.Placements) != 1 {
			b.Fatalf("planned %d executors", len(plan.Placements))
		}
		placed := apply(fsm.PlaceExecutors{Placements: plan.Placements}).Value.(fsm.PlaceResult).Placed[0]
		apply(fsm.ExecutorChanged{AppID: placed.Key.AppID, ExecID: placed.Key.ExecID, WorkerID: placed.WorkerID, State: fsm.ExecutorRunning})
		executors[i%len(executors)] = &fsm.Executor{AppID: placed.Key.AppID, ID: placed.Key.ExecID, WorkerID: placed.WorkerID}
	}
}

// BenchmarkPlan measures one pass on the big cluster, in which every worker has free cores.
func BenchmarkPlan(b *testing.B) {
	b.Run("NothingWanted", func(b *testing.B) {
		m, _ := benchMachine(b)
		benchPlan(b, m.View(), 0)
	})
	b.Run("OneApplicationWants10", func(b *testing.B) {
		m, index := benchMachine(b)
		c := benchApp(0, 10, nil)
		c.Driver.Host = "other"
		m.Apply(index+1, 1, c)
		benchPlan(b, m.View(), 10)
	})
	b.Run("1000ApplicationsFitNowhere", func(b *testing.B) {
		m, index := benchMachine(b)
		for i := range 1000 {
			c := benchApp(i, 10, nil)
			c.Driver.Host, c.DefaultProfile.MemoryMB = "other", 1<<20
			index++
			m.Apply(index, 1, c)
		}
		benchPlan(b, m.View(), 0)
	})
	b.Run("1000ApplicationsWaitInAFullCluster", func(b *testing.B) {
		m, index := benchMachine(b)
		hog := benchApp(0, fsm.UnlimitedCores, nil)
		hog.Driver.Host, hog.DefaultProfile.MemoryMB = "hog", 1
		index++
		m.Apply(index, 1, hog)
		for more := true; more; {
			plan := fsm.Plan(m.View(), fsm.PlanParams{})
			index++
			m.Apply(index, 1, fsm.PlaceExecutors{Placements: plan.Placements})
			more = plan.More
		}
		for i := range 1000 {
			c := benchApp(i, 10, nil)
			c.Driver.Host = "other"
			index++
			m.Apply(index, 1, c)
		}
		benchPlan(b, m.View(), 0)
	})
	b.Run("1000ApplicationsWant2", func(b *testing.B) {
		m, index := benchMachine(b)
		for i := range 1000 {
			c := benchApp(i, 2, nil)
			c.Driver.Host = "other"
			index++
			m.Apply(index, 1, c)
		}
		benchPlan(b, m.View(), 2000)
	})
	b.Run("OneApplicationWantsAll", func(b *testing.B) {
		m, index := benchMachine(b)
		c := benchApp(0, 1<<20, nil)
		c.Driver.Host = "other"
		m.Apply(index+1, 1, c)
		benchPlan(b, m.View(), fsm.MaxPlacements)
	})
}

// BenchmarkPlanDrivers measures one pass with drivers that wait, on the big cluster.
func BenchmarkPlanDrivers(b *testing.B) {
	for _, c := range []struct {
		name            string
		waiting, cores  int
		incomparable    bool // each wants one core less than the one before, and one MiB more
		consolidated    bool
		placed, notThat int
	}{
		{name: "1Fits", waiting: 1, cores: 1, placed: 1},
		{name: "1FitsConsolidated", waiting: 1, cores: 1, consolidated: true, placed: 1},
		{name: "100Fit", waiting: 100, cores: 1, placed: 100},
		{name: "1000FitNowhere", waiting: 1000, cores: 1000, notThat: 1000},
		{name: "10000OfAsManySizesFitNowhere", waiting: 10000, cores: 20000, incomparable: true, notThat: 10000},
	} {
		b.Run(c.name, func(b *testing.B) {
			m, index := benchMachine(b)
			for n := range c.waiting {
				index++
				cmd := fsm.SubmitDriver{Meta: fsm.Meta{Stamp: "20260102030405"}, Cores: c.cores, MemoryMB: 1024}
				if c.incomparable {
					cmd.Cores, cmd.MemoryMB = c.cores-n, 1024+n
				}
				m.Apply(index, 1, cmd)
			}
			v := m.View()
			b.ReportAllocs()
			for b.Loop() {
				plan := fsm.Plan(v, fsm.PlanParams{SpreadOutDrivers: !c.consolidated, SpreadOutApps: true})
				if len(plan.Drivers) != c.placed || len(plan.HopelessDrivers) != c.notThat {
					b.Fatalf("planned %d drivers, %d are hopeless", len(plan.Drivers), len(plan.HopelessDrivers))
				}
			}
		})
	}
}

func benchPlan(b *testing.B, v fsm.View, want int) {
	b.Helper()
	b.ReportAllocs()
	for b.Loop() {
		if got := len(fsm.Plan(v, fsm.PlanParams{SpreadOutApps: true}).Placements); got != want {
			b.Fatalf("planned %d executors instead of %d", got, want)
		}
	}
}

// BenchmarkSnapshot measures the whole big cluster.
func BenchmarkSnapshot(b *testing.B) {
	data := bigCluster()
	b.Run("Take", func(b *testing.B) {
		m, _ := benchMachine(b)
		for b.Loop() {
			m.Snapshot()
		}
	})
	b.Run("Write", func(b *testing.B) {
		m, _ := benchMachine(b)
		b.SetBytes(int64(len(data)))
		for b.Loop() {
			if err := m.Snapshot().Write(io.Discard); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("Restore", func(b *testing.B) {
		b.SetBytes(int64(len(data)))
		for b.Loop() {
			if _, err := fsm.Restore(bytes.NewReader(data)); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkCodec measures the encoding of a frequent and of a large command.
func BenchmarkCodec(b *testing.B) {
	large := fsm.PlaceExecutors{}
	for i := range 1000 {
		large.Placements = append(large.Placements, fsm.Placement{AppID: "app-20260102030405-0000",
			WorkerID: benchWorker(i).ID, Cores: 1, MemoryMB: 1024})
	}
	for _, c := range []struct {
		name string
		cmd  fsm.Command
	}{
		{"ExecutorChanged", fsm.ExecutorChanged{AppID: "app-20260102030405-0000", ExecID: 5, State: fsm.ExecutorRunning}},
		{"PlaceExecutors1000", large},
	} {
		entry, err := fsm.EncodeCommand(c.cmd)
		if err != nil {
			b.Fatal(err)
		}
		b.Run("Encode"+c.name, func(b *testing.B) {
			b.SetBytes(int64(len(entry)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := fsm.EncodeCommand(c.cmd); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run("Decode"+c.name, func(b *testing.B) {
			b.SetBytes(int64(len(entry)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := fsm.DecodeCommand(entry); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
