package master

import "time"

const (
	// askBurst questions to peers (learnReach, findWorkerRelease) begin at once; beyond that paceEvery lets paceStep more
	// begin. Each costs a connection: thousands of workers that register together are served first, and asked then.
	askBurst  = 64
	paceEvery = 20 * time.Millisecond
	paceStep  = 10
)

// pace lets a few things begin at once and the rest one after another. It belongs to a term.
type pace struct {
	free    int // how many may begin at once
	waiting []paced
	armed   bool
}

// paced is one thing that waits; dropped is called instead of begin when the term ends before its turn.
type paced struct{ begin, dropped func() }

// begin runs p now or when its turn comes.
func (c *Core) begin(p *pace, item paced) {
	if p.free > 0 {
		p.free--
		item.begin()
	} else {
		p.waiting = append(p.waiting, item)
	}
	if !p.armed {
		p.armed = true
		c.after(paceEvery, func() { c.refill(p) })
	}
}

// refill lets the next ones begin, until all have and the whole burst is free again.
func (c *Core) refill(p *pace) {
	p.free = min(p.free+paceStep, askBurst)
	n := min(p.free, len(p.waiting))
	ready := p.waiting[:n]
	p.waiting, p.free = p.waiting[n:], p.free-n
	if len(p.waiting) == 0 {
		p.waiting = nil
	}
	if p.armed = p.free < askBurst; p.armed {
		c.after(paceEvery, func() { c.refill(p) })
	}
	for _, item := range ready {
		item.begin()
	}
}

// drop forgets what waits.
func (p *pace) drop() {
	waiting := p.waiting
	*p = pace{free: askBurst}
	for _, item := range waiting {
		if item.dropped != nil {
			item.dropped()
		}
	}
}
