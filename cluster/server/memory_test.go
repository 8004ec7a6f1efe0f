package server

import (
	"runtime/debug"
	"testing"
)

func TestQuietMastersGiveMemoryBack(t *testing.T) {
	const mb = 1 << 20
	for name, c := range map[string]struct {
		use       memoryUse
		allocated uint64 // since the look before
		want      bool
	}{
		"quiet after a busy time":         {memoryUse{live: 40 * mb, objects: 60 * mb, free: 20 * mb}, 2 * mb, true},
		"busy":                            {memoryUse{live: 40 * mb, objects: 60 * mb, free: 20 * mb}, 20 * mb, false},
		"little to gain":                  {memoryUse{live: 10 * mb, objects: 12 * mb, free: 9 * mb}, 0, false},
		"little to gain for a large heap": {memoryUse{live: 400 * mb, objects: 440 * mb, free: 20 * mb}, 0, false},
		"a large heap":                    {memoryUse{live: 400 * mb, objects: 500 * mb, free: 20 * mb}, 20 * mb, true},
		"garbage only":                    {memoryUse{live: 10 * mb, objects: 25 * mb}, 3 * mb, true},
		"less there than was alive":       {memoryUse{live: 40 * mb, objects: 30 * mb, free: 5 * mb}, 0, false},
		"busy for what there is to gain":  {memoryUse{live: 10 * mb, objects: 12 * mb, free: 14 * mb}, 30 * mb, false},
	} {
		t.Run(name, func(t *testing.T) {
			k := newMemoryKeeper()
			k.last = 1000 * mb
			c.use.allocated = k.last + c.allocated
			if got := k.look(c.use); got != c.want {
				t.Errorf("look = %v", got)
			}
			if k.last != c.use.allocated {
				t.Error("the look is not remembered")
			}
		})
	}
}

// The runtime knows what is read, and giving memory back leaves less that could be given back.
func TestMemoryIsReadFromTheRuntime(t *testing.T) {
	k := newMemoryKeeper()
	garbage := make([][]byte, 0, 64)
	for range 64 {
		garbage = append(garbage, make([]byte, 1<<20))
	}
	before := k.read()
	if before.allocated < 64<<20 || before.objects < 64<<20 {
		t.Fatalf("read %+v with 64 MB in use", before)
	}
	clear(garbage)
	debug.FreeOSMemory()
	after := k.read()
	if after.objects > before.objects-32<<20 || after.free > 32<<20 || after.live == 0 {
		t.Errorf("before %+v, after %+v", before, after)
	}
}
