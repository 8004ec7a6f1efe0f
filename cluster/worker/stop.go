package worker

// Stop begins the worker's end: nothing new is launched, and every process is ended. See Drained.
func (c *Core) Stop() {
	if c.stopping {
		return
	}
	c.stopping = true
	c.retry.Stop()
	c.patience.Stop()
	for _, e := range c.sortedExecutors() {
		e.process.Kill()
	}
	for _, d := range c.sortedDrivers() {
		d.process.Kill()
	}
}

// Drained tells how many processes are left, and how many reports no master has taken yet.
func (c *Core) Drained() (processes, reports int) {
	for _, n := range c.driverNews {
		if !n.taken {
			reports++
		}
	}
	return len(c.executors) + len(c.drivers), reports + len(c.reports)
}
