package fsm

import (
	"cmp"
	"slices"
	"strings"
)

// planWorker is a worker with what the pass has taken from it so far.
type planWorker struct {
	worker                *Worker
	coresFree, memoryFree int
	taken                 []Resource // addresses given away in this pass

	// Of the request in hand.
	assignedCores, assignedExecutors int

	moved bool // from the fleet's base
	dirty bool // lost capacity since the fleet was ordered
}

// freeCount counts the free addresses of a resource.
func (w *planWorker) freeCount(name string) int {
	all := addressesOf(w.worker.Resources, name)
	if len(all) == 0 {
		return 0
	}
	return len(w.freeAddresses(name))
}

func (w *planWorker) freeAddresses(name string) []string {
	free := freeAddresses(w.worker, name)
	taken := addressesOf(w.taken, name)
	if len(taken) == 0 {
		return free
	}
	out := make([]string, 0, len(free))
	for _, a := range free {
		if _, gone := slices.BinarySearch(taken, a); !gone {
			out = append(out, a)
		}
	}
	return out
}

// take gives one executor's addresses: the first free ones in lexicographic order (B-061).
func (w *planWorker) take(needs []ResourceAmount) []Resource {
	if len(needs) == 0 {
		return nil
	}
	out := make([]Resource, len(needs))
	for i, need := range needs {
		out[i] = Resource{Name: need.Name, Addresses: slices.Clone(w.freeAddresses(need.Name)[:need.Amount])}
	}
	w.taken = addResources(w.taken, out)
	return out
}

// maxRefused bounds the memory of demands that nobody could meet.
const maxRefused = 32

// fleet offers the workers that may get work in the policy's order. What they have only shrinks during a pass. A worker
// that has not been touched yet stays in base; one that has lost capacity moves to changed, which is sorted afresh. With
// the default policy, base is read from the state's index only as far as somebody looks: replacing one executor among ten
// thousand workers reads a handful of them.
type fleet struct {
	params  PlanParams
	base    []*planWorker  // in order, with those that have moved
	more    func() *Worker // the rest of base, nil at its end
	changed []*planWorker  // in order, with free cores
	dirty   []*planWorker  // lost capacity since changed was sorted
	refused []Demand       // no worker could give these
	scratch []*planWorker
	chunk   []planWorker
}

func newFleet(v View, params PlanParams) *fleet {
	i := v.state().tables.free.tree.Root().Iterator()
	f := &fleet{params: params, more: func() *Worker { _, w, _ := i.Next(); return w }}
	if params.Policy == CoresFreeDesc {
		return f // the order of the index
	}
	for f.load() {
	}
	if params.Policy == CoresFreeAsc {
		slices.Reverse(f.base)
	} else {
		slices.SortFunc(f.base, f.compare)
	}
	return f
}

// load appends the next usable worker to base; false at the end.
func (f *fleet) load() bool {
	for w := f.more(); w != nil; w = f.more() {
		if f.params.Usable == nil || f.params.Usable(w) {
			f.base = append(f.base, f.allocate(w))
			return true
		}
	}
	f.more = func() *Worker { return nil }
	return false
}

// allocate takes from a chunk: a pass may look at thousands of workers.
func (f *fleet) allocate(w *Worker) *planWorker {
	const chunk = 64
	if len(f.chunk) == 0 {
		f.chunk = make([]planWorker, chunk)
	}
	pw := &f.chunk[0]
	f.chunk = f.chunk[1:]
	pw.worker, pw.coresFree, pw.memoryFree = w, w.CoresFree(), w.MemoryFreeMB()
	return pw
}

// compare orders by the policy (B-177).
func (f *fleet) compare(a, b *planWorker) int {
	switch f.params.Policy {
	case CoresFreeAsc:
		return cmp.Or(cmp.Compare(a.coresFree, b.coresFree), strings.Compare(a.worker.ID, b.worker.ID))
	case CoresFreeDesc:
		return cmp.Or(cmp.Compare(b.coresFree, a.coresFree), strings.Compare(b.worker.ID, a.worker.ID))
	case MemoryFreeAsc:
		return cmp.Or(cmp.Compare(a.memoryFree, b.memoryFree), strings.Compare(a.worker.ID, b.worker.ID))
	case MemoryFreeDesc:
		return cmp.Or(cmp.Compare(b.memoryFree, a.memoryFree), strings.Compare(b.worker.ID, a.worker.ID))
	}
	return strings.Compare(a.worker.ID, b.worker.ID)
}

// lost notes that a worker has lost capacity, and so perhaps its place in the order.
func (f *fleet) lost(w *planWorker) {
	w.moved = true
	if !w.dirty {
		w.dirty = true
		f.dirty = append(f.dirty, w)
	}
}

// reorder puts the workers that lost capacity where they now belong. Those without free cores go.
func (f *fleet) reorder() {
	if len(f.dirty) == 0 {
		return
	}
	f.changed = slices.DeleteFunc(f.changed, func(w *planWorker) bool { return w.dirty })
	for _, w := range f.dirty {
		w.dirty = false
	}
	f.dirty = slices.DeleteFunc(f.dirty, func(w *planWorker) bool { return w.coresFree == 0 })
	slices.SortFunc(f.dirty, f.compare)
	// Merge from the back, in place.
	i, j := len(f.changed)-1, len(f.dirty)-1
	f.changed = append(f.changed, f.dirty...)
	for k := len(f.changed) - 1; j >= 0; k-- {
		if i >= 0 && f.compare(f.changed[i], f.dirty[j]) > 0 {
			f.changed[k] = f.changed[i]
			i--
		} else {
			f.changed[k] = f.dirty[j]
			j--
		}
	}
	f.dirty = f.dirty[:0]
	for len(f.base) > 0 && f.base[0].moved {
		f.base = f.base[1:]
	}
}

// walk visits all workers in order until fn returns false.
func (f *fleet) walk(fn func(*planWorker) bool) {
	f.reorder()
	next := 0 // in changed
	for i := 0; i < len(f.base) || f.load(); i++ {
		w := f.base[i]
		if w.moved {
			continue
		}
		for ; next < len(f.changed) && f.compare(f.changed[next], w) < 0; next++ {
			if !fn(f.changed[next]) {
				return
			}
		}
		if !fn(w) {
			return
		}
	}
	for ; next < len(f.changed); next++ {
		if !fn(f.changed[next]) {
			return
		}
	}
}

// usable lists workers that can hold at least one executor of the profile now, in order (B-177), but no more than limit
// of them: each can be given something, so that others would get nothing. The slice is valid until the next call.
func (f *fleet) usable(a *Application, profile Profile, limit int) []*planWorker {
	need := profile.Demand()
	if f.isRefused(&need) {
		return nil
	}
	out, fits := f.scratch[:0], 0
	f.walk(func(w *planWorker) bool {
		if !w.canGive(&need) {
			return true
		}
		fits++
		if incompatible(a, w.worker.ID) || (f.params.Compatible != nil && !f.params.Compatible(a, w.worker)) {
			return true
		}
		out = append(out, w)
		return len(out) < limit
	})
	if fits == 0 {
		f.refuse(&need)
	}
	f.scratch = out
	return out
}

func (w *planWorker) canGive(need *Demand) bool {
	return need.Short(w.coresFree, w.memoryFree, w.freeCount) == Enough
}
