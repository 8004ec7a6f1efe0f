package fsm

import (
	"crypto/sha256"
	"math"
	"slices"
)

// tx is the application of one command. Workers and applications are edited as private copies, which reach the tables,
// the indexes and the digest once, in finish; executors are written through, because a command may list them again.
// A tx whose tables are not committed leaves no trace.
type tx struct {
	base    *state
	tables  tables
	totals  Totals
	digest  digestSum
	fleet   uint64
	globals *globals // a private copy once globalsEdited
	sums    *summer
	refs    *workerRefs // of the machine; nil while a snapshot is read

	globalsEdited bool
	workerEdits   []edit[Worker]
	workerIndex   map[string]int
	appEdits      []edit[Application]
	appIndex      map[string]int

	meta    Meta
	index   uint64
	term    uint64
	effects []Effect
	// replacement is what a restore puts in the place of the state; its tables are committed.
	replacement *state
}

// edit is an entity before (nil: it did not exist) and after (nil: deleted).
type edit[T any] struct{ old, new *T }

func newTx(base *state, sums *summer, index, term uint64, meta Meta) *tx {
	return &tx{base: base, tables: base.tables, totals: base.totals, digest: base.digest, fleet: base.fleet, globals: base.globals,
		sums: sums, meta: meta, index: index, term: term}
}

func (t *tx) emit(e Effect) { t.effects = append(t.effects, e) }

// worker reads a worker, edits of this command included; nil if there is none.
func (t *tx) worker(id string) *Worker {
	if i, ok := t.workerIndex[id]; ok {
		return t.workerEdits[i].new
	}
	w, _ := t.tables.workers.get(idKey(id))
	return w
}

// editWorker gives the private copy of an existing worker.
func (t *tx) editWorker(id string) *Worker {
	if i, ok := t.workerIndex[id]; ok {
		return t.workerEdits[i].new
	}
	old, _ := t.tables.workers.get(idKey(id))
	w := *old
	t.recordWorker(id, old, &w)
	return &w
}

func (t *tx) recordWorker(id string, old, changed *Worker) {
	if t.workerIndex == nil {
		t.workerIndex = make(map[string]int)
	}
	t.workerIndex[id] = len(t.workerEdits)
	t.workerEdits = append(t.workerEdits, edit[Worker]{old, changed})
}

// putWorker adds a worker, replaces it, or deletes it (w nil).
func (t *tx) putWorker(id string, w *Worker) {
	if i, ok := t.workerIndex[id]; ok {
		t.workerEdits[i].new = w
		return
	}
	old, _ := t.tables.workers.get(idKey(id))
	t.recordWorker(id, old, w)
}

// app reads an application, edits of this command included; nil if there is none.
func (t *tx) app(id string) *Application {
	if i, ok := t.appIndex[id]; ok {
		return t.appEdits[i].new
	}
	a, _ := t.tables.apps.get(idKey(id))
	return a
}

// activeApp reads an unfinished application; nil if there is none.
func (t *tx) activeApp(id string) *Application {
	if a := t.app(id); a != nil && !a.State.Finished() {
		return a
	}
	return nil
}

// editApp gives the private copy of an existing application; its Profiles may be written to.
func (t *tx) editApp(id string) *Application {
	if i, ok := t.appIndex[id]; ok {
		return t.appEdits[i].new
	}
	old, _ := t.tables.apps.get(idKey(id))
	a := *old
	a.Profiles = slices.Clone(a.Profiles)
	t.recordApp(id, old, &a)
	return &a
}

func (t *tx) recordApp(id string, old, changed *Application) {
	if t.appIndex == nil {
		t.appIndex = make(map[string]int)
	}
	t.appIndex[id] = len(t.appEdits)
	t.appEdits = append(t.appEdits, edit[Application]{old, changed})
}

// putApp adds an application or deletes it (a nil).
func (t *tx) putApp(id string, a *Application) {
	if i, ok := t.appIndex[id]; ok {
		t.appEdits[i].new = a
		return
	}
	old, _ := t.tables.apps.get(idKey(id))
	t.recordApp(id, old, a)
}

func (t *tx) editGlobals() *globals {
	if !t.globalsEdited {
		g := *t.globals
		t.globals = &g
		t.globalsEdited = true
	}
	return t.globals
}

// executor reads a booked executor; nil if there is none, whatever numbers a peer may name.
func (t *tx) executor(k ExecutorKey) *Executor {
	if k.ExecID < 0 || k.ExecID > math.MaxInt32 {
		return nil
	}
	e, _ := t.tables.executors.get(executorKey(k))
	return e
}

// putExecutor adds an executor or replaces it. The tx owns e.
func (t *tx) putExecutor(e *Executor) {
	key := executorKey(e.Key())
	if old, ok := t.tables.executors.get(key); ok {
		t.digest.subtract(old.sum)
		t.totals.countExecutor(old.State, -1)
	} else {
		t.tables.byWorker.set(workerExecutorKey(e.WorkerID, e.Key()), e.Key())
	}
	e.sum = t.sums.sum(kindExecutor, e)
	t.digest.add(e.sum)
	t.totals.countExecutor(e.State, 1)
	t.tables.executors.set(key, e)
}

func (t *tx) deleteExecutor(e *Executor) {
	t.digest.subtract(e.sum)
	t.totals.countExecutor(e.State, -1)
	t.tables.executors.del(executorKey(e.Key()))
	t.tables.byWorker.del(workerExecutorKey(e.WorkerID, e.Key()))
}

// executorsOfWorker lists a worker's executors by application and executor id.
func (t *tx) executorsOfWorker(workerID string) []*Executor {
	keys := t.tables.byWorker.collect(pairKey(workerID, ""))
	out := make([]*Executor, len(keys))
	for i, k := range keys {
		out[i] = t.executor(k)
	}
	return out
}

func (t *tx) executorsOfApp(appID string) []*Executor {
	return t.tables.executors.collect(pairKey(appID, ""))
}

func (t *tx) putRemoved(r *RemovedExecutor) {
	r.sum = t.sums.sum(kindRemoved, r)
	t.digest.add(r.sum)
	t.tables.removed.set(removedKey(r.AppID, r.Seq), r)
}

func (t *tx) deleteRemoved(appID string, seq uint64) {
	key := removedKey(appID, seq)
	if r, ok := t.tables.removed.get(key); ok {
		t.digest.subtract(r.sum)
		t.tables.removed.del(key)
	}
}

// finish gives the new state, whose tables are still being edited: their commit is the caller's. Index entries of all old
// versions go before those of new ones come, so that one entity may take over another's address. An entry that both
// versions of an entity have stays.
func (t *tx) finish() *state {
	for i := range t.workerEdits {
		if fleetDiffers(&t.workerEdits[i]) {
			t.fleet++
		}
		t.unindexWorker(t.workerEdits[i].old, t.workerEdits[i].new)
	}
	for i := range t.workerEdits {
		t.indexWorker(t.workerEdits[i].old, t.workerEdits[i].new)
	}
	for i := range t.appEdits {
		t.unindexApp(t.appEdits[i].old, t.appEdits[i].new)
	}
	for i := range t.appEdits {
		t.indexApp(t.appEdits[i].old, t.appEdits[i].new)
	}
	if t.globalsEdited {
		t.digest.subtract(t.base.globals.sum)
		t.globals.sum = t.sums.sum(kindGlobals, t.globals)
		t.digest.add(t.globals.sum)
	}
	return &state{index: t.index, term: t.term, globals: t.globals, tables: t.tables, totals: t.totals, fleet: t.fleet, digest: t.digest}
}

// workerRefs are all workers of one version of the fleet.
type workerRefs struct {
	fleet uint64
	list  []WorkerRef
}

// fleetDiffers tells whether an edit changes what state.fleet counts: who the workers are, where, and what they can run.
func fleetDiffers(e *edit[Worker]) bool {
	return e.old == nil || e.new == nil || e.old.Live() != e.new.Live() || e.old.Ref() != e.new.Ref()
}

// sameWorkerPlace tells whether two versions of a worker have the same entries in the indexes by address and host.
func sameWorkerPlace(old, w *Worker) bool {
	return old != nil && w != nil && old.Live() && w.Live() && old.Address == w.Address && old.ID == w.ID
}

// sameFreeKey tells whether two versions of a worker stand at the same place among those that take work.
func sameFreeKey(old, w *Worker) bool {
	return old != nil && w != nil && old.takesWork() && w.takesWork() && old.CoresFree() == w.CoresFree() && old.ID == w.ID
}

func (t *tx) unindexWorker(old, w *Worker) {
	if old == nil {
		return
	}
	t.digest.subtract(old.sum)
	t.totals.countWorker(old, -1)
	switch {
	case sameWorkerPlace(old, w):
	case old.Live():
		t.tables.workerByAddress.del(addressKey(old.Address))
		t.tables.workerByHost.del(hostKey(old.Address.Host, old.ID))
	default:
		t.tables.deadByHostPort.del(pairKey(old.HostPort(), old.ID))
	}
	if old.takesWork() && !sameFreeKey(old, w) {
		t.tables.free.del(freeKey(old))
	}
}

func (t *tx) indexWorker(old, w *Worker) {
	if w == nil {
		if old != nil {
			t.tables.workers.del(idKey(old.ID))
		}
		return
	}
	w.sum = t.sums.sum(kindWorker, w)
	t.digest.add(w.sum)
	t.totals.countWorker(w, 1)
	t.tables.workers.set(idKey(w.ID), w)
	switch {
	case sameWorkerPlace(old, w):
	case w.Live():
		t.tables.workerByAddress.set(addressKey(w.Address), w.ID)
		t.tables.workerByHost.set(hostKey(w.Address.Host, w.ID), w.ID)
	default:
		t.tables.deadByHostPort.set(pairKey(w.HostPort(), w.ID), w.ID)
	}
	if w.takesWork() {
		t.tables.free.set(freeKey(w), w)
	}
}

// sameAppPlace tells whether two versions of an application have the same entries in the queue and by driver.
func sameAppPlace(old, a *Application) bool {
	return old != nil && a != nil && !old.State.Finished() && !a.State.Finished() && old.Driver == a.Driver &&
		old.Number == a.Number && old.ID == a.ID
}

func (t *tx) unindexApp(old, a *Application) {
	if old == nil {
		return
	}
	t.digest.subtract(old.sum)
	t.totals.countApp(old, -1)
	same := sameAppPlace(old, a)
	switch {
	case same:
	case old.State.Finished():
		t.tables.completed.del(numberKey(old.CompletedSeq))
		return
	default:
		t.tables.appByDriver.del(addressKey(old.Driver))
		t.tables.queue.del(numberKey(old.Number))
	}
	if wantsExecutors(old) && !(same && wantsExecutors(a)) {
		t.tables.wanting.del(numberKey(old.Number))
	}
}

func (t *tx) indexApp(old, a *Application) {
	if a == nil {
		if old != nil {
			t.tables.apps.del(idKey(old.ID))
		}
		return
	}
	a.sum = t.sums.sum(kindApplication, a)
	t.digest.add(a.sum)
	t.totals.countApp(a, 1)
	t.tables.apps.set(idKey(a.ID), a)
	same := sameAppPlace(old, a)
	switch {
	case same:
	case a.State.Finished():
		t.tables.completed.set(numberKey(a.CompletedSeq), a.ID)
		return
	default:
		t.tables.appByDriver.set(addressKey(a.Driver), a.ID)
		t.tables.queue.set(numberKey(a.Number), a.ID)
	}
	if wantsExecutors(a) && !(same && wantsExecutors(old)) {
		t.tables.wanting.set(numberKey(a.Number), a.ID)
	}
}

func payloadSum(payload []byte) []byte {
	if payload == nil {
		return nil
	}
	sum := sha256.Sum256(payload)
	return sum[:]
}
