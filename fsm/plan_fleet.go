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

	dirty bool // changed since the fleet was ordered
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

// demand is what one executor needs of a worker.
type demand struct {
	cores, memoryMB int
	resources       []ResourceAmount
}

// covers tells whether a worker that cannot give d cannot give o either.
func (d *demand) covers(o *demand) bool {
	return o.cores >= d.cores && o.memoryMB >= d.memoryMB && slices.EqualFunc(d.resources, o.resources,
		func(x, y ResourceAmount) bool { return x.Name == y.Name && y.Amount >= x.Amount })
}

// maxRefused bounds the memory of demands that nobody could meet.
const maxRefused = 32

// fleet is the workers that may get work, in the policy's order. What they have only shrinks during a pass.
type fleet struct {
	params  PlanParams
	order   []*planWorker
	dirty   int
	refused []demand // no worker could give these
	scratch []*planWorker
}

// newFleet reads the index of workers with free cores, which has the order of CoresFreeAsc already.
func newFleet(v View, params PlanParams) *fleet {
	index := &v.state().tables.free
	f := &fleet{params: params, order: make([]*planWorker, 0, index.len())}
	all := make([]planWorker, 0, index.len())
	index.scan(nil, func(w *Worker) bool {
		if params.Usable == nil || params.Usable(w) {
			all = append(all, planWorker{worker: w, coresFree: w.CoresFree(), memoryFree: w.MemoryFreeMB()})
			f.order = append(f.order, &all[len(all)-1])
		}
		return true
	})
	switch params.Policy {
	case CoresFreeAsc:
	case CoresFreeDesc:
		slices.Reverse(f.order)
	default:
		slices.SortFunc(f.order, f.compare)
	}
	return f
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

// changed notes that a worker has lost capacity, and so perhaps its place in the order.
func (f *fleet) changed(w *planWorker) {
	if !w.dirty {
		w.dirty = true
		f.dirty++
	}
}

// reorder puts the changed workers where they belong: it sorts them alone and merges. Workers without free cores go.
func (f *fleet) reorder() {
	if f.dirty == 0 {
		return
	}
	moved := make([]*planWorker, 0, f.dirty)
	kept := f.order[:0]
	for _, w := range f.order {
		switch {
		case !w.dirty:
			kept = append(kept, w)
		case w.coresFree > 0:
			w.dirty = false
			moved = append(moved, w)
		}
	}
	slices.SortFunc(moved, f.compare)
	f.dirty = 0
	// Merge from the back, in place: there was room for all of them.
	i, j := len(kept)-1, len(moved)-1
	merged := kept[:len(kept)+len(moved)]
	for k := len(merged) - 1; j >= 0; k-- {
		if i >= 0 && f.compare(kept[i], moved[j]) > 0 {
			merged[k] = kept[i]
			i--
		} else {
			merged[k] = moved[j]
			j--
		}
	}
	f.order = merged
}

// usable lists the workers that can hold at least one executor of the profile now, in order (B-177). The slice is valid
// until the next call.
func (f *fleet) usable(a *Application, profile Profile) []*planWorker {
	need := demand{cores: coresPerExecutor(profile), memoryMB: profile.MemoryMB, resources: profile.Resources}
	for i := range f.refused {
		if f.refused[i].covers(&need) {
			return nil
		}
	}
	f.reorder()
	out, fits := f.scratch[:0], 0
	for _, w := range f.order {
		if !w.canGive(&need) {
			continue
		}
		fits++
		if incompatible(a, w.worker.ID) || (f.params.Compatible != nil && !f.params.Compatible(a, w.worker)) {
			continue
		}
		out = append(out, w)
	}
	if fits == 0 && len(f.refused) < maxRefused {
		f.refused = append(f.refused, need)
	}
	f.scratch = out
	return out
}

func (w *planWorker) canGive(need *demand) bool {
	if w.coresFree < need.cores || w.memoryFree < need.memoryMB {
		return false
	}
	for _, r := range need.resources {
		if w.freeCount(r.Name) < r.Amount {
			return false
		}
	}
	return true
}
