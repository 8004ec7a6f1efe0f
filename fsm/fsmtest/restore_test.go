package fsmtest_test

import (
	"bytes"
	"errors"
	"testing"

	"pgregory.net/rapid"

	"raftmaster/fsm"
	"raftmaster/fsm/fsmtest"
)

// history applies random commands to a machine and gives the next free index.
func history(t *rapid.T, m *fsm.Machine, index uint64, label string) uint64 {
	for range rapid.IntRange(0, 60).Draw(t, label) {
		m.Apply(index, 1, fsmtest.Command(m.View()).Draw(t, "command"))
		index++
	}
	return index
}

func written(t *rapid.T, m *fsm.Machine) []byte {
	var b bytes.Buffer
	if err := m.Snapshot().Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// restore stages and commits a snapshot, in small chunks.
func restoreInto(t *rapid.T, m *fsm.Machine, index uint64, snapshot []byte, same, other bool) (fsm.Result, uint64) {
	size, seq := rapid.IntRange(64, 4096).Draw(t, "chunk"), 0
	for rest := snapshot; len(rest) > 0; seq++ {
		n := min(size, len(rest))
		if r := m.Apply(index, 1, fsm.StageRestore{RestoreID: "r", Seq: seq, Data: rest[:n]}); r.Err != nil {
			t.Fatal(r.Err)
		}
		rest, index = rest[n:], index+1
	}
	// What is staged is a part of the state: it survives a snapshot of it.
	again, err := fsm.Restore(bytes.NewReader(written(t, m)))
	if err != nil || again.View().Digest() != m.View().Digest() {
		t.Fatalf("a snapshot during a restore: %v", err)
	}
	commit := fsm.CommitRestore{Meta: fsm.Meta{NowMillis: int64(index) * 500, Stamp: fsmtest.Stamp}, RestoreID: "r", Chunks: seq, SameCluster: same, OtherCluster: other}
	plan, planErr := fsm.PlanRestore(m.View(), bytes.NewReader(snapshot), commit)
	result := m.Apply(index, 1, commit)
	twin := again.Apply(index, 1, commit)
	if (result.Err == nil) != (twin.Err == nil) || m.View().Digest() != again.View().Digest() {
		t.Fatalf("two replicas differ: %v, %v", result.Err, twin.Err)
	}
	if (planErr == nil) != (result.Err == nil) || (result.Err == nil && result.Value != plan) {
		t.Fatalf("the plan was %+v, %v; done was %+v, %v", plan, planErr, result.Value, result.Err)
	}
	return result, index + 1
}

// TestRestoreOfTheSameState: save and restore with nothing in between changes nothing.
func TestRestoreOfTheSameState(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := fsm.NewMachine()
		index := history(t, m, 1, "before")
		want, snapshot := m.View().Digest(), written(t, m)
		r, _ := restoreInto(t, m, index, snapshot, true, false)
		if r.Err != nil {
			t.Fatal(r.Err)
		}
		if got := m.View().Digest(); got != want {
			t.Fatalf("digest %s after the restore, %s before; %+v", got, want, r.Value)
		}
	})
}

// TestRestoreKeepsItsPromises: whatever has happened since the snapshot, what has registered stays, what has ended stays
// ended, drivers stay where they are, and numbers do not go back.
func TestRestoreKeepsItsPromises(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := fsm.NewMachine()
		index := history(t, m, 1, "before")
		snapshot := written(t, m)
		index = history(t, m, index, "after")
		before := m.View()
		r, _ := restoreInto(t, m, index, snapshot, true, false)
		if errors.Is(r.Err, fsm.ErrOtherSnapshot) {
			return // the cluster got its name in between
		}
		if r.Err != nil {
			t.Fatal(r.Err)
		}
		if r.Value.(fsm.RestoreOutcome).After != m.View().Totals() {
			t.Fatalf("%+v", r.Value)
		}
		promises(t, before, m.View())
		before.Workers(func(w *fsm.Worker) bool {
			if now, ok := m.View().Worker(w.ID); ok && now.Live() && !w.Live() {
				t.Fatalf("worker %s has come back", w.ID)
			}
			return true
		})
	})
}

// TestRestoreIntoAnotherCluster: both lives are joined, or it is refused and nothing has changed.
func TestRestoreIntoAnotherCluster(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		old := fsm.NewMachine()
		old.Apply(1, 1, fsm.InitCluster{ClusterID: "old"})
		history(t, old, 2, "old")
		snapshot := written(t, old)
		m := fsm.NewMachine()
		m.Apply(1, 1, fsm.InitCluster{ClusterID: "new"})
		index := uint64(2)
		if rapid.Bool().Draw(t, "in use") {
			index = history(t, m, index, "new")
		}
		before := m.View()
		apps, drivers := before.Counters()
		r, _ := restoreInto(t, m, index, snapshot, false, false)
		var level *fsm.LevelError
		if errors.As(r.Err, &level) {
			return // this cluster has not come as far yet
		}
		if used := apps+drivers > 0; used != errors.Is(r.Err, fsm.ErrOtherSnapshot) {
			t.Fatalf("in use: %t; %v", used, r.Err)
		} else if used {
			r, _ = restoreInto(t, m, m.View().Index()+1, snapshot, false, true)
		}
		if r.Err != nil {
			if !errors.Is(r.Err, fsm.ErrInvalidCommand) {
				t.Fatal(r.Err)
			}
			return
		}
		promises(t, before, m.View())
		if m.View().ClusterID() != "new" {
			t.Fatal("the cluster has lost its name")
		}
		oldApps, oldDrivers := old.View().Counters()
		if apps, drivers := m.View().Counters(); apps < oldApps+1000 || drivers < oldDrivers+1000 {
			t.Fatalf("numbers %d and %d may be given a second time", apps, drivers)
		}
		old.View().ActiveApplications(func(a *fsm.Application) bool {
			if now, _ := m.View().Application(a.ID); !now.State.Finished() && now.NextExecutorID < a.NextExecutorID+1000 {
				t.Fatalf("%s may give executor ids a second time", a.ID)
			}
			return true
		})
	})
}

func promises(t *rapid.T, before, after fsm.View) {
	if err := fsm.Check(after); err != nil {
		t.Fatal(err)
	}
	if fsm.RecomputeDigest(after) != after.Digest() {
		t.Fatal("the digest is not that of the state")
	}
	a1, d1 := before.Counters()
	if a2, d2 := after.Counters(); a2 < a1 || d2 < d1 {
		t.Fatalf("counters went back from %d, %d to %d, %d", a1, d1, a2, d2)
	}
	before.Workers(func(w *fsm.Worker) bool {
		now, ok := after.Worker(w.ID)
		if w.Live() && (!ok || !now.Live() || now.Address != w.Address || (w.Decommissioned && !now.Decommissioned) || (w.Draining && !now.Draining)) {
			t.Fatalf("worker %s: %+v became %+v", w.ID, w, now)
		}
		return true
	})
	before.ActiveApplications(func(a *fsm.Application) bool {
		now, ok := after.Application(a.ID)
		if !ok || now.State.Finished() || now.Driver != a.Driver || now.NextExecutorID < a.NextExecutorID {
			t.Fatalf("application %s: %+v became %+v", a.ID, a, now)
		}
		for i, p := range a.Profiles {
			if now.Profiles[i].Target != p.Target {
				t.Fatalf("application %s: target %d became %d", a.ID, p.Target, now.Profiles[i].Target)
			}
		}
		return true
	})
	before.CompletedApplications(func(a *fsm.Application) bool {
		if now, ok := after.Application(a.ID); ok && now.Number == a.Number && !now.State.Finished() {
			t.Fatalf("application %s has ended and goes on", a.ID)
		}
		return true
	})
	before.Drivers(func(d *fsm.Driver) bool {
		now, ok := after.Driver(d.ID)
		if !d.State.Finished() && (!ok || now.State != d.State || now.WorkerID != d.WorkerID) {
			t.Fatalf("driver %s: %+v became %+v", d.ID, d, now)
		}
		if d.State.Finished() && ok && now.Number == d.Number && !now.State.Finished() {
			t.Fatalf("driver %s has ended and goes on", d.ID)
		}
		return true
	})
}

// TestARestoreThatIsNotCommitted: it changes nothing, and a new leader, or the next restore, drops it.
func TestARestoreThatIsNotCommitted(t *testing.T) {
	m := fsm.NewMachine()
	index := uint64(0)
	apply := func(cmd fsm.Command) error {
		index++
		return m.Apply(index, 1, cmd).Err
	}
	elected := fsm.LeaderElected{NodeID: "n", Reason: "r", Settings: fsm.DefaultSettings()}
	must := func(cmd fsm.Command) {
		t.Helper()
		if err := apply(cmd); err != nil {
			t.Fatal(err)
		}
	}
	refused := func(what string, cmd fsm.Command) {
		t.Helper()
		before := m.View().Digest()
		if err := apply(cmd); err == nil {
			t.Errorf("%s: not refused", what)
		} else if !errors.Is(err, fsm.ErrInvalidCommand) {
			t.Errorf("%s: %v", what, err)
		}
		if m.View().Digest() != before {
			t.Errorf("%s: the state has changed", what)
		}
	}
	must(elected)
	refused("a second chunk first", fsm.StageRestore{RestoreID: "a", Seq: 1, Data: []byte("x")})
	refused("an empty chunk", fsm.StageRestore{RestoreID: "a", Data: nil})
	refused("a large chunk", fsm.StageRestore{RestoreID: "a", Data: make([]byte, fsm.MaxStageBytes+1)})
	refused("no id", fsm.StageRestore{Data: []byte("x")})
	refused("nothing is staged", fsm.CommitRestore{RestoreID: "a"})
	must(fsm.StageRestore{RestoreID: "a", Data: []byte("x")})
	refused("another's chunk", fsm.StageRestore{RestoreID: "b", Seq: 1, Data: []byte("x")})
	refused("a chunk too many", fsm.CommitRestore{RestoreID: "a", Chunks: 2})
	refused("no snapshot", fsm.CommitRestore{RestoreID: "a", Chunks: 1})
	must(fsm.StageRestore{RestoreID: "b", Data: []byte("y")})
	refused("the one before", fsm.CommitRestore{RestoreID: "a", Chunks: 1})
	must(elected)
	refused("the one of the former leader", fsm.CommitRestore{RestoreID: "b", Chunks: 1})
	twin := fsm.NewMachine()
	for i := range uint64(2) {
		if r := twin.Apply(i+1, 1, elected); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	if err := fsm.Check(m.View()); err != nil {
		t.Error(err)
	}
	if m.View().Totals() != twin.View().Totals() || fsm.RecomputeDigest(m.View()) != m.View().Digest() {
		t.Error("something of the restores has stayed")
	}
}
