package fsmtest_test

import (
	"testing"

	"pgregory.net/rapid"

	"raftmaster/fsm"
)

// loop is one application, one executor of which starts and ends again and again. Beside it, another may run all the
// time.
type loop struct {
	t       *rapid.T
	m       *fsm.Machine
	now     int64
	limit   int
	witness bool
	app     string

	// The model of G-44: failures towards the limit, those in a row that were quick, and the end of the last pause.
	retries, quick int
	last, pause    int64
}

func (l *loop) meta() fsm.Meta { return fsm.Meta{NowMillis: l.now, Stamp: "20260102030405"} }

func (l *loop) apply(cmd fsm.Command) any {
	r := l.m.Apply(l.m.View().Index()+1, 1, cmd)
	if r.Err != nil {
		l.t.Fatal(r.Err)
	}
	return r.Value
}

// place plans and gives the new executor; -1 if there is none.
func (l *loop) place() int {
	plan := fsm.Plan(l.m.View(), fsm.PlanParams{NowMillis: l.now})
	if waits := l.pause > l.now; waits != (len(plan.Placements) == 0) || (waits && plan.WakeAtMillis != l.pause) {
		l.t.Fatalf("at %d, with a pause until %d, %d executors were planned, again at %d", l.now, l.pause, len(plan.Placements), plan.WakeAtMillis)
	}
	placed := l.apply(fsm.PlaceExecutors{Meta: l.meta(), Placements: plan.Placements}).(fsm.PlaceResult).Placed
	if len(placed) == 0 {
		return -1
	}
	return placed[0].Key.ExecID
}

func (l *loop) report(id int, state fsm.ExecutorState, status int) fsm.ExecutorChangedResult {
	return l.apply(fsm.ExecutorChanged{Meta: l.meta(), AppID: l.app, ExecID: id, WorkerID: "w", State: state, ExitStatus: &status}).(fsm.ExecutorChangedResult)
}

// end is the model's view of an executor's end; ran < 0 means that it was never RUNNING.
func (l *loop) end(ran int64, status int) (failed bool) {
	if ran >= 30_000 {
		l.retries, l.quick, l.pause = 0, 0, 0
	}
	if status == 0 {
		return false
	}
	if l.quick > 0 && l.now > max(l.last, l.pause)+60_000 { // the loop was over
		l.quick, l.pause = 0, 0
		if ran >= 0 {
			l.retries = 0
		}
	}
	l.retries++
	if ran >= 0 || l.limit < 0 || l.retries >= l.limit {
		l.quick++
		l.last = l.now
		if seconds := []int64{0, 0, 0, 1, 2, 4, 8, 16, 32, 60}[min(l.quick, 9)]; seconds > 0 {
			l.pause = l.now + 1000*seconds
		}
	}
	return l.limit >= 0 && l.retries >= l.limit && !l.witness
}

// TestCrashLoopG44 compares the machine with the rule in other words, for executors that end in all ways at all times.
func TestCrashLoopG44(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := &loop{t: t, m: fsm.NewMachine(), limit: rapid.SampledFrom([]int{-1, 0, 3, 10}).Draw(t, "limit"), witness: rapid.Bool().Draw(t, "witness")}
		cores, limit := 1, 1
		if l.witness {
			limit = 2
		}
		l.apply(fsm.LeaderElected{NodeID: "n", Settings: fsm.Settings{MaxExecutorRetries: l.limit}})
		l.apply(fsm.RegisterWorker{ID: "w", Host: "h", Port: 1, Address: fsm.Address{Host: "h", Port: 1}, Cores: limit, MemoryMB: 4096})
		l.app = l.apply(fsm.RegisterApplication{Meta: l.meta(), Driver: fsm.Address{Host: "d", Port: 1}, DefaultProfile: fsm.Profile{Cores: &cores, MemoryMB: 1}}).(fsm.RegisterApplicationResult).AppID
		id := l.place()
		if l.witness {
			l.report(1, fsm.ExecutorRunning, 0)
		}
		for range rapid.IntRange(1, 25).Draw(t, "executors") {
			l.now += rapid.SampledFrom([]int64{0, 10, 1500, 29_000}).Draw(t, "launch")
			started, ran := l.now, int64(-1)
			if rapid.IntRange(0, 3).Draw(t, "runs") > 0 {
				l.report(id, fsm.ExecutorRunning, 0)
				l.now += rapid.SampledFrom([]int64{0, 5, 5, 2000, 29_999, 30_000, 200_000}).Draw(t, "run")
				ran = l.now - started
			}
			status := min(rapid.IntRange(0, 5).Draw(t, "status"), 1)
			failed := l.end(ran, status)
			if got := l.report(id, fsm.ExecutorExited, status); got.AppFailed != failed {
				t.Fatalf("failed is %t, want %t, after %d failures with limit %d", got.AppFailed, failed, l.retries, l.limit)
			}
			if failed {
				return
			}
			a, _ := l.m.View().Application(l.app)
			if a.RetryCount != l.retries || a.LoopFailures != l.quick || a.NotBeforeMillis != l.pause {
				t.Fatalf("%d retries, %d quick failures, pause until %d instead of %d, %d, %d", a.RetryCount, a.LoopFailures, a.NotBeforeMillis,
					l.retries, l.quick, l.pause)
			}
			for id = l.place(); id < 0; id = l.place() {
				l.now += rapid.SampledFrom([]int64{500, 1000, 10_000, 100_000}).Draw(t, "wait")
			}
		}
	})
}
