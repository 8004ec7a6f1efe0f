package server

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// The runtime keeps what a busy time has needed: its heap may be twice what is alive, and without allocations no collection
// finds out that less would do. A master that has become quiet gives that memory back to the system.

const (
	memoryEvery = 10 * time.Second
	// minReclaim is what is worth a collection, in bytes.
	minReclaim = 12 << 20
)

// memoryUse is what the runtime says about its memory, in bytes.
type memoryUse struct {
	allocated uint64 // since the start
	live      uint64 // at the last collection
	objects   uint64 // live and garbage
	free      uint64 // kept from the system without use
}

// memoryKeeper looks every now and then whether memory should be given back.
type memoryKeeper struct {
	last    uint64 // allocated, at the last look
	samples []metrics.Sample
}

func newMemoryKeeper() *memoryKeeper {
	k := &memoryKeeper{}
	for _, name := range []string{"/gc/heap/allocs:bytes", "/gc/heap/live:bytes", "/memory/classes/heap/objects:bytes", "/memory/classes/heap/free:bytes"} {
		k.samples = append(k.samples, metrics.Sample{Name: name})
	}
	return k
}

func (k *memoryKeeper) run(ctx context.Context) {
	tick := time.NewTicker(memoryEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if k.look(k.read()) {
			debug.FreeOSMemory()
		}
	}
}

func (k *memoryKeeper) read() memoryUse {
	metrics.Read(k.samples)
	var v [4]uint64
	for i, s := range k.samples {
		if s.Value.Kind() == metrics.KindUint64 { // else this runtime does not know it: nothing is reclaimed
			v[i] = s.Value.Uint64()
		}
	}
	return memoryUse{allocated: v[0], live: v[1], objects: v[2], free: v[3]}
}

// look tells whether to give memory back: when there is enough for the work of a collection, which grows with what is alive,
// and when so little was allocated since the last look that it will not be needed again at once.
func (k *memoryKeeper) look(u memoryUse) bool {
	allocated := u.allocated - k.last
	k.last = u.allocated
	reclaim := u.free
	if u.objects > u.live {
		reclaim += u.objects - u.live
	}
	return reclaim >= max(minReclaim, u.live/4) && allocated <= reclaim/4
}
