package fsm

import (
	"bytes"
	"fmt"
)

// drivers adds what running drivers hold to their workers' sums, and verifies each driver and its indexes.
func (c *checker) drivers() error {
	numbers := make(map[uint64]string)
	return visit(&c.t.drivers, func(d *Driver) error {
		c.totals.countDriver(d, 1)
		if other, twice := numbers[d.Number]; twice {
			return fmt.Errorf("drivers %s and %s have the number %d", other, d.ID, d.Number)
		}
		numbers[d.Number] = d.ID
		if d.Number >= c.v.state().globals.NextDriverNumber {
			return fmt.Errorf("driver %s has a number that was not given yet", d.ID)
		}
		if !bytes.Equal(payloadSum(d.Payload), d.PayloadSum) {
			return fmt.Errorf("driver %s: the payload differs from its checksum", d.ID)
		}
		if d.Cores < 0 || d.MemoryMB < 0 {
			return fmt.Errorf("driver %s has %d cores and %d MB", d.ID, d.Cores, d.MemoryMB)
		}
		if err := c.driverChain(d); err != nil {
			return err
		}
		switch {
		case d.State.Finished():
			return c.completedDriver(d)
		case d.State == DriverStateRunning:
			return c.runningDriver(d)
		case d.State == DriverStateSubmitted:
			return c.waitingDriver(d)
		}
		return fmt.Errorf("driver %s is %s", d.ID, d.State)
	})
}

// driverChain: a relaunched driver has a successor that is known, newer, and names it.
func (c *checker) driverChain(d *Driver) error {
	if (d.State == DriverStateRelaunching) != (d.Successor != "") {
		return fmt.Errorf("driver %s is %s with the successor %q", d.ID, d.State, d.Successor)
	}
	if (d.Predecessor == "") != (d.Origin == "") || d.Origin == d.ID {
		return fmt.Errorf("driver %s: its predecessor is %q, its origin %q", d.ID, d.Predecessor, d.Origin)
	}
	if d.Successor == "" {
		return nil
	}
	next, ok := c.v.Driver(d.Successor)
	if !ok || next.Predecessor != d.ID || next.Number <= d.Number {
		return fmt.Errorf("driver %s: its successor %q is not one", d.ID, d.Successor)
	}
	return nil
}

func (c *checker) completedDriver(d *Driver) error {
	if id, ok := c.t.driverCompleted.get(numberKey(d.CompletedSeq)); !ok || id != d.ID {
		return fmt.Errorf("driver %s is missing in the index of completed ones", d.ID)
	}
	if d.CompletedSeq == 0 || d.CompletedSeq > c.v.state().globals.CompletedDrivers {
		return fmt.Errorf("driver %s has the impossible completion number %d", d.ID, d.CompletedSeq)
	}
	if d.Payload != nil {
		return fmt.Errorf("driver %s is %s, but has its payload", d.ID, d.State)
	}
	return nil
}

func (c *checker) waitingDriver(d *Driver) error {
	if d.WorkerID != "" || len(d.Resources) > 0 || d.KillRequested || d.Delivered || d.CompletedSeq != 0 {
		return fmt.Errorf("driver %s waits, but has worker %q, resources %v, kill requested %t, delivered %t", d.ID, d.WorkerID,
			d.Resources, d.KillRequested, d.Delivered)
	}
	if id, ok := c.t.driverQueue.get(numberKey(d.Number)); !ok || id != d.ID {
		return fmt.Errorf("driver %s is missing in the queue", d.ID)
	}
	return c.activeDriver(d)
}

func (c *checker) activeDriver(d *Driver) error {
	if id, ok := c.t.driverActive.get(numberKey(d.Number)); !ok || id != d.ID {
		return fmt.Errorf("driver %s is missing in the index of unfinished ones", d.ID)
	}
	return nil
}

func (c *checker) runningDriver(d *Driver) error {
	w, ok := c.v.Worker(d.WorkerID)
	if !ok || !w.Live() {
		return fmt.Errorf("driver %s is on worker %q, which is not live", d.ID, d.WorkerID)
	}
	if id, ok := c.t.driversByWorker.get(pairKey(d.WorkerID, d.ID)); !ok || id != d.ID {
		return fmt.Errorf("driver %s is missing in its worker's index", d.ID)
	}
	if d.CompletedSeq != 0 {
		return fmt.Errorf("driver %s is RUNNING with the completion number %d", d.ID, d.CompletedSeq)
	}
	if len(d.Resources) != len(d.ResourceReqs) {
		return fmt.Errorf("driver %s has the resources %v instead of %v", d.ID, d.Resources, d.ResourceReqs)
	}
	for i, need := range d.ResourceReqs {
		if r := d.Resources[i]; r.Name != need.Name || len(r.Addresses) != need.Amount {
			return fmt.Errorf("driver %s has the resources %v instead of %v", d.ID, d.Resources, d.ResourceReqs)
		}
	}
	h := c.worker(d.WorkerID)
	h.cores += d.Cores
	h.memoryMB += d.MemoryMB
	h.drivers++
	if err := h.take(w.ID, d.Resources); err != nil {
		return err
	}
	return c.activeDriver(d)
}
