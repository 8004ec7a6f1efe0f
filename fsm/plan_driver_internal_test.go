package fsm

import (
	"fmt"
	"testing"
)

// G-56: what fits nowhere is found by a few workers, whatever the number of workers and of demands.
func TestG56_LargestWorkersStandForAll(t *testing.T) {
	m := NewMachine()
	index := uint64(0)
	register := func(cores, memory int, gpus ...string) {
		t.Helper()
		index++
		host := fmt.Sprintf("host%d", index)
		cmd := RegisterWorker{ID: host, Host: host, Port: 7000, Address: Address{Host: host, Port: 7000}, Cores: cores, MemoryMB: memory}
		if len(gpus) > 0 {
			cmd.Resources = []Resource{{Name: "gpu", Addresses: gpus}}
		}
		if r := m.Apply(index, 1, cmd); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	for n := range 500 {
		register(1+n%8, 8192)
		register(4, 1024*(1+n%16))
	}
	register(2, 1024, "0", "1")
	register(2, 1024, "0")
	if n := len(largestWorkers(m.View())); n != 3 { // 8 cores, 16 GiB, two gpus
		t.Errorf("%d workers stand for all", n)
	}
	if n := len(largestWorkers(NewMachine().View())); n != 0 {
		t.Errorf("%d workers of none", n)
	}
	dp := &driverPass{pass: &pass{view: m.View()}}
	for _, c := range []struct {
		need Demand
		fits bool
	}{
		{Demand{Cores: 8, MemoryMB: 8192}, true},
		{Demand{Cores: 8, MemoryMB: 8193}, false},
		{Demand{Cores: 4, MemoryMB: 16384}, true},
		{Demand{Cores: 5, MemoryMB: 16384}, false},
		{Demand{Cores: 2, MemoryMB: 1024, Resources: []ResourceAmount{{Name: "gpu", Amount: 2}}}, true},
		{Demand{Cores: 3, MemoryMB: 1024, Resources: []ResourceAmount{{Name: "gpu", Amount: 1}}}, false},
		{Demand{Cores: 1, MemoryMB: 1, Resources: []ResourceAmount{{Name: "fpga", Amount: 1}}}, false},
	} {
		if got := dp.fitsIdle(&c.need); got != c.fits {
			t.Errorf("%+v fits: %t", c.need, got)
		}
	}
}
