package fsmtest_test

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"raftmaster/fsm"
	"raftmaster/fsm/fsmtest"
)

func snapshot(t *rapid.T, m *fsm.Machine) []byte {
	var b bytes.Buffer
	if err := m.Snapshot().Write(&b); err != nil {
		t.Fatalf("snapshot: %v", err)
	}
	return b.Bytes()
}

func restore(t *rapid.T, data []byte) *fsm.Machine {
	m, err := fsm.Restore(bytes.NewReader(data))
	if err != nil {
		t.Fatalf("restore: %v", err)
	}
	return m
}

func throughTheLog(t *rapid.T, cmd fsm.Command) fsm.Command {
	entry, err := fsm.EncodeCommand(cmd)
	if err != nil {
		t.Fatalf("encode %+v: %v", cmd, err)
	}
	decoded, err := fsm.DecodeCommand(entry)
	if err != nil {
		t.Fatalf("decode %+v: %v", cmd, err)
	}
	if diff := cmp.Diff(cmd, decoded, cmpopts.EquateEmpty()); diff != "" {
		t.Fatalf("decode(encode(x)) differs from x:\n%s", diff)
	}
	return decoded
}

// effectChecker verifies what no sequence of commands may break.
type effectChecker struct {
	launched map[fsm.ExecutorKey]bool
	// drivers that were launched, and not put into the queue again since
	drivers map[string]bool
}

func newEffectChecker() *effectChecker {
	return &effectChecker{launched: map[fsm.ExecutorKey]bool{}, drivers: map[string]bool{}}
}

// forget makes room for an id that is given again: one made of a name or with a modulo can be, once nobody knows the
// application any more.
func (c *effectChecker) forget(t *rapid.T, before fsm.View, result fsm.Result) {
	switch r := result.Value.(type) {
	case fsm.RegisterApplicationResult:
		if r.Outcome == fsm.AppRepeated {
			return
		}
		if _, known := before.Application(r.AppID); known {
			t.Fatalf("application %s got an id that another has (G-06, G-07)", r.AppID)
		}
		for key := range c.launched {
			if key.AppID == r.AppID {
				delete(c.launched, key)
			}
		}
	case fsm.DriverSubmitted:
		if _, known := before.Driver(r.ID); known {
			t.Fatalf("driver %s got an id that another has (G-06)", r.ID)
		}
		delete(c.drivers, r.ID)
	case fsm.ReconcileResult:
		for _, id := range r.EndedDrivers {
			delete(c.drivers, id)
		}
	}
}

func (c *effectChecker) check(t *rapid.T, v fsm.View, cmd fsm.Command, result fsm.Result) {
	if result.Err != nil && len(result.Effects) > 0 {
		t.Fatalf("%T was refused, but has effects", cmd)
	}
	for _, effect := range result.Effects {
		switch e := effect.(type) {
		case fsm.LaunchExecutor:
			key := fsm.ExecutorKey{AppID: e.AppID, ExecID: e.ExecID}
			if c.launched[key] {
				t.Fatalf("executor %s was launched twice (G-15)", key)
			}
			c.launched[key] = true
		case fsm.LaunchDriver:
			if c.drivers[e.DriverID] {
				t.Fatalf("driver %s was launched twice (S19, G-45)", e.DriverID)
			}
			c.drivers[e.DriverID] = true
			if d, ok := v.Driver(e.DriverID); !ok || d.WorkerID != e.Worker.ID {
				t.Fatalf("driver %s was launched where it is not booked", e.DriverID)
			}
		case fsm.KillDriver:
			if d, ok := v.Driver(e.DriverID); ok && d.State == fsm.DriverStateRunning && d.WorkerID == e.Worker.ID && !d.KillRequested {
				t.Fatalf("driver %s is killed, but stays booked, and nobody asked for it", e.DriverID)
			}
		case fsm.KillExecutor:
			if held, ok := v.Executor(fsm.ExecutorKey{AppID: e.AppID, ExecID: e.ExecID}); ok && held.WorkerID == e.Worker.ID {
				t.Fatalf("executor %s/%d is killed, but stays booked", e.AppID, e.ExecID)
			}
		case fsm.ApplicationFinished:
			if a, ok := v.Application(e.AppID); ok && !a.State.Finished() {
				t.Fatalf("application %s is announced as finished, but is %s", e.AppID, a.State)
			}
		}
	}
}

// TestRandomCommands runs one log on two machines. The second reads every command from its encoding and is now and
// then replaced by its own snapshot; both must agree on everything after every entry.
func TestRandomCommands(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		first, second := fsm.NewMachine(), fsm.NewMachine()
		checker := newEffectChecker()
		index := uint64(0)
		for range rapid.IntRange(1, 60).Draw(t, "length") {
			index += uint64(rapid.IntRange(1, 2).Draw(t, "gap"))
			term := index/20 + 1
			cmd := fsmtest.Command(first.View()).Draw(t, "command")
			before := first.View()
			a := first.Apply(index, term, cmd)
			b := second.Apply(index, term, throughTheLog(t, cmd))
			if diff := cmp.Diff(a, b, cmpopts.EquateEmpty(), sameText); diff != "" {
				t.Fatalf("%T: results differ:\n%s", cmd, diff)
			}
			v := first.View()
			checker.forget(t, before, a)
			checker.check(t, v, cmd, a)
			if err := fsm.Check(v); err != nil {
				t.Fatalf("after %T: %v", cmd, err)
			}
			if v.Digest() != fsm.RecomputeDigest(v) {
				t.Fatalf("after %T: the incremental digest differs from the recomputed one", cmd)
			}
			if v.Digest() != second.View().Digest() {
				t.Fatalf("after %T: the replicas' digests differ", cmd)
			}
			if rapid.IntRange(0, 9).Draw(t, "restart") == 9 {
				data := snapshot(t, second)
				if !bytes.Equal(data, snapshot(t, first)) {
					t.Fatal("equal states gave different snapshots")
				}
				second = restore(t, data)
				if !bytes.Equal(data, snapshot(t, second)) {
					t.Fatal("the snapshot of a restored state differs from what was restored")
				}
				if second.View().Digest() != v.Digest() || second.View().Totals() != v.Totals() {
					t.Fatal("the restored state differs")
				}
			}
		}
	})
}

// sameText compares refusals, which each machine makes anew, by what they say.
var sameText = cmp.FilterValues(func(a, b error) bool { return a != nil && b != nil },
	cmp.Comparer(func(a, b error) bool {
		return a.Error() == b.Error() && errors.Is(a, fsm.ErrInvalidCommand) == errors.Is(b, fsm.ErrInvalidCommand)
	}))

// grow gives a machine after some random commands.
func grow(t *rapid.T, length int) (*fsm.Machine, uint64) {
	m := fsm.NewMachine()
	n := rapid.IntRange(1, length).Draw(t, "length")
	for i := range n {
		m.Apply(uint64(i+1), 1, fsmtest.Command(m.View()).Draw(t, "command"))
	}
	return m, uint64(n)
}

func fork(t *rapid.T, m *fsm.Machine) *fsm.Machine { return restore(t, snapshot(t, m)) }

// TestOldViewsDoNotChange keeps views while the machine goes on.
func TestOldViewsDoNotChange(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := fsm.NewMachine()
		var views []fsm.View
		var digests []fsm.Digest
		for i := range rapid.IntRange(1, 40).Draw(t, "length") {
			m.Apply(uint64(i+1), 1, fsmtest.Command(m.View()).Draw(t, "command"))
			views, digests = append(views, m.View()), append(digests, m.View().Digest())
		}
		for i, v := range views {
			if fsm.RecomputeDigest(v) != digests[i] {
				t.Fatalf("the view at index %d changed later", v.Index())
			}
			if err := fsm.Check(v); err != nil {
				t.Fatalf("the view at index %d: %v", v.Index(), err)
			}
		}
	})
}

// TestRandomBatches: entries applied together do what they do one by one, refused ones among them included.
func TestRandomBatches(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		single, batched := fsm.NewMachine(), fsm.NewMachine()
		index := uint64(0)
		for range rapid.IntRange(1, 12).Draw(t, "batches") {
			var entries []fsm.Entry
			var want []fsm.Result
			for range rapid.IntRange(0, 12).Draw(t, "length") {
				index++
				cmd := fsmtest.Command(single.View()).Draw(t, "command")
				entries = append(entries, fsm.Entry{Index: index, Term: 1, Cmd: throughTheLog(t, cmd)})
				want = append(want, single.Apply(index, 1, cmd))
			}
			before := batched.View()
			old := before.Digest()
			got := batched.ApplyBatch(entries)
			if diff := cmp.Diff(want, got, cmpopts.EquateEmpty(), sameText); diff != "" {
				t.Fatalf("results differ:\n%s", diff)
			}
			if before.Digest() != old || fsm.RecomputeDigest(before) != old {
				t.Fatal("the batch changed a view that was taken before it")
			}
			if err := errors.Join(fsm.Check(before), fsm.Check(batched.View())); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(snapshot(t, batched), snapshot(t, single)) {
				t.Fatal("the states differ")
			}
		}
	})
}

// TestBatchOrSingle: a batch of decisions has the effect of its parts, one by one.
func TestBatchOrSingle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		batch, index := grow(t, 40)
		single := fork(t, batch)
		planned := fsm.Plan(batch.View(), fsmtest.Params().Draw(t, "params"))
		plan, drivers := planned.Placements, planned.Drivers
		var ids []string
		batch.View().Workers(func(w *fsm.Worker) bool { ids = append(ids, w.ID); return len(ids) < 3 })

		var effects []fsm.Effect
		for i, cmd := range []fsm.Command{fsm.PlaceDrivers{Placements: drivers}, fsm.PlaceExecutors{Placements: plan},
			fsm.DecommissionWorkers{IDs: ids, Notify: true}} {
			effects = append(effects, batch.Apply(index+uint64(i)+1, 1, cmd).Effects...)
		}
		var parts []fsm.Effect
		for _, p := range drivers {
			index++
			parts = append(parts, single.Apply(index, 1, fsm.PlaceDrivers{Placements: []fsm.DriverPlacement{p}}).Effects...)
		}
		for _, p := range plan {
			index++
			parts = append(parts, single.Apply(index, 1, fsm.PlaceExecutors{Placements: []fsm.Placement{p}}).Effects...)
		}
		for _, id := range ids {
			index++
			parts = append(parts, single.Apply(index, 1, fsm.DecommissionWorkers{IDs: []string{id}, Notify: true}).Effects...)
		}
		if diff := cmp.Diff(effects, parts); diff != "" {
			t.Fatalf("effects differ:\n%s", diff)
		}
		if batch.View().Digest() != single.View().Digest() {
			t.Fatal("states differ")
		}
	})
}

// TestPlannerEqualsModel compares Plan with the reference model, with and without the leader's filters, and verifies
// that a plan for the current state is booked as a whole (B-175..B-182).
func TestPlannerEqualsModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, index := grow(t, 60)
		params := fsmtest.Params().Draw(t, "params")
		if rapid.Bool().Draw(t, "filters") {
			salt := rapid.IntRange(0, 3).Draw(t, "salt")
			params.Usable = func(w *fsm.Worker) bool { return (len(w.ID)+w.Port+salt)%4 != 0 }
			params.Compatible = func(a *fsm.Application, w *fsm.Worker) bool { return a.Families&w.Families != 0 }
			params.DriverCompatible = func(d *fsm.Driver, w *fsm.Worker) bool { return d.Families&w.Families != 0 }
		}
		v := m.View()
		drivers, executors := fsmtest.ScheduleAll(v, params)
		got := fsm.Plan(v, params)
		if diff := cmp.Diff(drivers, got.Drivers, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("drivers, model against planner (-/+):\n%s", diff)
		}
		if diff := cmp.Diff(executors, got.Placements, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("executors, model against planner (-/+):\n%s", diff)
		}
		index++
		if dropped := m.Apply(index, 1, fsm.PlaceDrivers{Placements: got.Drivers}).Value.(fsm.PlaceDriversResult).Dropped; len(dropped) > 0 {
			t.Fatalf("a plan for the current state was not booked: %+v", dropped)
		}
		checkHeldBack(t, v, params, got)
		result := m.Apply(index+1, 1, fsm.PlaceExecutors{Placements: got.Placements}).Value.(fsm.PlaceResult)
		if len(result.Dropped) > 0 {
			t.Fatalf("a plan for the current state was not booked: %+v", result.Dropped)
		}
		if err := fsm.Check(m.View()); err != nil {
			t.Fatal(err)
		}
	})
}

// checkHeldBack verifies what a plan says about the drivers that it did not place.
func checkHeldBack(t *rapid.T, v fsm.View, params fsm.PlanParams, plan fsm.PlanResult) {
	placed, wake, over := map[string]bool{}, int64(0), 0
	for _, p := range plan.Drivers {
		placed[p.DriverID] = true
	}
	earliest := func(millis int64) {
		if millis > params.NowMillis && (wake == 0 || millis < wake) {
			wake = millis
		}
	}
	var hopeless []string
	running := v.Totals().DriversRunning
	v.WaitingDrivers(func(d *fsm.Driver) bool {
		earliest(d.NotBeforeMillis)
		switch {
		case d.NotBeforeMillis > params.NowMillis:
		case placed[d.ID]:
			running++
		case params.MaxDrivers > 0 && running >= params.MaxDrivers:
			over++
		case fitsNoIdleWorker(v, d):
			hopeless = append(hopeless, d.ID)
		}
		return true
	})
	v.WantingApplications(func(a *fsm.Application) bool { earliest(a.NotBeforeMillis); return true })
	if plan.WakeAtMillis != wake || plan.DriversOverLimit != over {
		t.Fatalf("wake at %d instead of %d, %d over the limit instead of %d", plan.WakeAtMillis, wake, plan.DriversOverLimit, over)
	}
	if diff := cmp.Diff(hopeless, plan.HopelessDrivers); diff != "" {
		t.Fatalf("hopeless drivers (-want +got):\n%s", diff)
	}
}

func fitsNoIdleWorker(v fsm.View, d *fsm.Driver) bool {
	none := true
	v.Workers(func(w *fsm.Worker) bool {
		fits := w.State == fsm.WorkerAlive && w.Cores >= d.Cores && w.MemoryMB >= d.MemoryMB
		for _, need := range d.ResourceReqs {
			have := 0
			for _, r := range w.Resources {
				if r.Name == need.Name {
					have = len(r.Addresses)
				}
			}
			fits = fits && have >= need.Amount
		}
		none = none && !fits
		return true
	})
	return none
}

// TestReconcileTwiceG17: the same list a second time changes nothing.
func TestReconcileTwiceG17(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, index := grow(t, 60)
		var cmd fsm.Command
		for cmd == nil {
			if c, ok := fsmtest.Command(m.View()).Draw(t, "command").(fsm.ReconcileWorker); ok {
				cmd = c
			}
		}
		m.Apply(index+1, 1, cmd)
		before := m.View().Digest()
		again := m.Apply(index+2, 1, cmd)
		if m.View().Digest() != before {
			t.Fatal("the second list changed the state")
		}
		for _, effect := range again.Effects {
			_, kill := effect.(fsm.KillExecutor)
			_, killDriver := effect.(fsm.KillDriver)
			if !kill && !killDriver {
				t.Fatalf("the second list has the effect %#v", effect)
			}
		}
	})
}

// TestReplay: a whole log replayed from its encodings gives the same results.
func TestReplay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := fsm.NewMachine()
		var log [][]byte
		var outcomes []string
		for i := range rapid.IntRange(1, 50).Draw(t, "length") {
			cmd := fsmtest.Command(m.View()).Draw(t, "command")
			entry, err := fsm.EncodeCommand(cmd)
			if err != nil {
				t.Fatal(err)
			}
			log = append(log, entry)
			outcomes = append(outcomes, fmt.Sprintf("%+v", m.Apply(uint64(i+1), 1, cmd).Value))
		}
		again := fsm.NewMachine()
		for i, entry := range log {
			cmd, err := fsm.DecodeCommand(entry)
			if err != nil {
				t.Fatal(err)
			}
			if got := fmt.Sprintf("%+v", again.Apply(uint64(i+1), 1, cmd).Value); got != outcomes[i] {
				t.Fatalf("entry %d: %s instead of %s", i, got, outcomes[i])
			}
		}
		if again.View().Digest() != m.View().Digest() {
			t.Fatal("the replayed state differs")
		}
	})
}
