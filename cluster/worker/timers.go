package worker

import (
	"time"

	"raftmaster/cluster/internal/timers"
)

// timer is a function that runs once, at or after a moment.
type timer = timers.Timer

// after runs fn on the Core's goroutine once d has passed.
func (c *Core) after(d time.Duration, fn func()) *timer { return c.timers.Add(c.now().Add(d), fn) }

// NextDeadline returns when Tick has something to do.
func (c *Core) NextDeadline() (time.Time, bool) { return c.timers.Next() }

// Tick runs every timer that is due.
func (c *Core) Tick() {
	now := c.now()
	for fn := c.timers.Due(now); fn != nil; fn = c.timers.Due(now) {
		fn()
	}
}
