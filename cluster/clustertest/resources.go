package clustertest

import (
	"fmt"
	"slices"
	"strconv"

	"raftmaster/fsm"
	"raftmaster/transport/sparkmsg"
)

// gpu is the custom resource of the simulation.
const gpu = "gpu"

// someGPUs gives a worker a few addresses, or none.
func (s *Sim) someGPUs() []string {
	if !s.chance(s.opt.Load.GPU) {
		return nil
	}
	var out []string
	for i := range 1 + s.rng.IntN(4) {
		out = append(out, strconv.Itoa(9+i)) // "10" comes before "9"
	}
	return out
}

// gpuNeed draws how many addresses an executor or a driver wants.
func (s *Sim) gpuNeed() int {
	if !s.chance(s.opt.Load.GPU) {
		return 0
	}
	return 1 + s.rng.IntN(2)
}

func (w *worker) offered() []sparkmsg.ResourceInformation {
	if len(w.gpus) == 0 {
		return nil
	}
	return []sparkmsg.ResourceInformation{{Name: gpu, Addresses: w.gpus}}
}

// held lists the addresses that a worker's processes were given. With going, those on their way out count as well.
func (c *checker) held(w *worker, going bool) []string {
	var out []string
	add := func(resources []sparkmsg.ResourceInformation) {
		for _, r := range resources {
			out = append(out, r.Addresses...)
		}
	}
	for _, e := range w.execs {
		if going || !e.told && !c.killed[e.key] {
			add(e.resources)
		}
	}
	for _, j := range w.jobs {
		if going || !j.told && !c.jobs.killed[j.id] {
			add(j.resources)
		}
	}
	slices.Sort(out)
	return out
}

// oneHand checks that no address of a worker was given to two processes, and only what the worker has.
func (c *checker) oneHand(w *worker) {
	held := c.held(w, false)
	for i, address := range held {
		if i > 0 && held[i-1] == address {
			c.s.fail("%s: the address %s is in two hands", w.name, address)
		}
		if !slices.Contains(w.gpus, address) {
			c.s.fail("%s: the address %s was given, and there is none", w.name, address)
		}
	}
}

// addressesRight checks that the books say which addresses are in use.
func (c *checker) addressesRight(w *worker, entry *fsm.Worker) error {
	var books []string
	for _, r := range entry.ResourcesUsed {
		books = append(books, r.Addresses...)
	}
	slices.Sort(books)
	if real := c.held(w, true); !slices.Equal(books, real) {
		return fmt.Errorf("%s has the addresses %v in use, the books say %v", w.name, real, books)
	}
	return nil
}

// hasFree tells whether a worker's entry has what somebody needs of custom resources.
func hasFree(w *fsm.Worker, needs []fsm.ResourceAmount) bool {
	for _, need := range needs {
		free := 0
		for _, r := range w.Resources {
			if r.Name == need.Name {
				free += len(r.Addresses)
			}
		}
		for _, r := range w.ResourcesUsed {
			if r.Name == need.Name {
				free -= len(r.Addresses)
			}
		}
		if free < need.Amount {
			return false
		}
	}
	return true
}
