package fsm

import (
	"bytes"
	"fmt"
	"io"
)

// stagedChunk is a part of a snapshot that is being restored. Immutable.
type stagedChunk struct {
	Seq  int    `codec:",omitempty"`
	Data []byte `codec:",omitempty"`

	sum digestSum
}

func (t *tx) stageRestore(c StageRestore) (any, error) {
	if err := firstError(checkID("restore id", c.RestoreID), checkAmount("chunk", c.Seq)); err != nil {
		return nil, invalid(c, "%w", err)
	}
	if len(c.Data) == 0 || len(c.Data) > MaxStageBytes {
		return nil, invalid(c, "a chunk of %d bytes, the limit is %d", len(c.Data), MaxStageBytes)
	}
	g := t.globals
	switch {
	case c.Seq == 0:
		t.dropStaged()
		t.editGlobals().StagedID = c.RestoreID
	case c.RestoreID != g.StagedID || c.Seq != g.StagedChunks:
		return nil, invalid(c, "chunk %d of restore %s does not follow what is staged", c.Seq, clip(c.RestoreID))
	case g.StagedBytes+len(c.Data) > MaxRestoreBytes:
		return nil, fmt.Errorf("%w: a snapshot of more than %d bytes", ErrTooLarge, MaxRestoreBytes)
	}
	t.putStaged(&stagedChunk{Seq: c.Seq, Data: c.Data})
	edited := t.editGlobals()
	edited.StagedChunks++
	edited.StagedBytes += len(c.Data)
	return edited.StagedBytes, nil
}

func (t *tx) putStaged(s *stagedChunk) {
	s.sum = t.sums.sum(kindStaged, s)
	t.digest.add(s.sum)
	t.tables.staged.set(numberKey(uint64(s.Seq)), s)
}

// dropStaged forgets a restore that was not committed.
func (t *tx) dropStaged() {
	if t.globals.StagedID == "" {
		return
	}
	for _, s := range t.tables.staged.collect(nil) {
		t.digest.subtract(s.sum)
		t.tables.staged.del(numberKey(uint64(s.Seq)))
	}
	g := t.editGlobals()
	g.StagedID, g.StagedChunks, g.StagedBytes = "", 0, 0
}

func (t *tx) commitRestore(c CommitRestore) (any, error) {
	g := t.globals
	if c.RestoreID == "" || c.RestoreID != g.StagedID || c.Chunks != g.StagedChunks {
		return nil, invalid(c, "restore %s with %d chunks is not what is staged: another leader took over, or another restore began",
			clip(c.RestoreID), c.Chunks)
	}
	var parts []io.Reader
	for _, s := range t.tables.staged.collect(nil) {
		parts = append(parts, bytes.NewReader(s.Data))
	}
	next, outcome, err := restored(t.base, t.sums, io.MultiReader(parts...), t.index, t.term, c)
	if err != nil {
		return nil, err
	}
	t.replacement = next
	return outcome, nil
}

// PlanRestore tells what a CommitRestore would do to a state, and changes nothing. The error is the one that Apply gives.
func PlanRestore(v View, snapshot io.Reader, c CommitRestore) (RestoreOutcome, error) {
	st := v.state()
	_, outcome, err := restored(st, newSummer(), snapshot, st.index+1, st.term, c)
	return outcome, err
}

// restored joins a snapshot and the state that it replaces.
func restored(base *state, sums *summer, snapshot io.Reader, index, term uint64, c CommitRestore) (*state, RestoreOutcome, error) {
	old, err := Restore(snapshot)
	if err != nil {
		return nil, RestoreOutcome{}, fmt.Errorf("%w: %w", ErrInvalidCommand, err)
	}
	from := old.current.Load()
	if from.globals.level() > base.globals.level() { // an older replica would refuse it, too: it cannot read it
		return nil, RestoreOutcome{}, fmt.Errorf("%w: %w", ErrInvalidCommand, &LevelError{Needed: from.globals.level(), Known: base.globals.level()})
	}
	r := &restoring{tx: newTx(from, sums, index, term, c.Meta), now: View{s: base}, from: from}
	r.same = c.SameCluster && from.globals.ClusterID == base.globals.ClusterID
	r.later = r.same && base.index >= from.index && base.globals.NextAppNumber >= from.globals.NextAppNumber &&
		base.globals.NextDriverNumber >= from.globals.NextDriverNumber
	if !r.same && !c.OtherCluster && !neverUsed(base) {
		return nil, RestoreOutcome{}, ErrOtherSnapshot
	}
	r.outcome = RestoreOutcome{Before: base.totals, Snapshot: from.totals, SnapshotIndex: from.index, Later: r.later}
	if err := r.join(); err != nil {
		return nil, RestoreOutcome{}, err
	}
	next := r.tx.finish()
	next.tables.commit()
	next.fleet = max(base.fleet, next.fleet) + 1
	if err := Check(View{s: next}); err != nil {
		return nil, RestoreOutcome{}, fmt.Errorf("%w: the snapshot and what runs now contradict each other: %w", ErrInvalidCommand, err)
	}
	r.outcome.After = next.totals
	r.now.s.tables.executors.scan(nil, func(e *Executor) bool {
		if _, booked := next.tables.executors.get(executorKey(e.Key())); !booked {
			r.outcome.Unbooked++
		}
		return true
	})
	return next, r.outcome, nil
}

// neverUsed tells whether no application and no driver has ever been here: workers come by themselves.
func neverUsed(s *state) bool {
	return s.globals.NextAppNumber == 0 && s.globals.NextDriverNumber == 0
}
