package master

import (
	"sync/atomic"
	"time"

	"raftmaster/transport/sparkmsg"
)

// beats notes the heartbeats of a worker that need no thought, those of a worker that this leader holds and can reach,
// without a detour through the Core's goroutine: nearly all that a large cluster sends. A nil beats is allowed.
type beats struct {
	clock Clock
	base  time.Time
	off   atomic.Bool
	last  atomic.Int64 // time since base, in nanoseconds
}

// repeater is a Conn that can hand over a message that comes again unchanged; see sparkrpc.Conn.OnRepeat.
type repeater interface {
	OnRepeat(msg sparkmsg.Message, take func() bool)
}

// followBeats lets the next heartbeats of a worker on this connection only be noted, until something about the worker
// changes.
func (c *Core) followBeats(w *workerSoft, conn Conn, m *sparkmsg.Heartbeat) {
	r, ok := conn.(repeater)
	if !ok {
		return
	}
	w.beats.stop() // those of an earlier connection
	w.beats = &beats{clock: c.deps.Clock, base: c.now()}
	r.OnRepeat(m, w.beats.note)
}

// note may be called from any goroutine; false means that the Core must see this heartbeat.
func (b *beats) note() bool {
	if b.off.Load() {
		return false
	}
	b.last.Store(int64(b.clock.Now().Sub(b.base)))
	return true
}

// stop sends all further heartbeats to the Core.
func (b *beats) stop() {
	if b != nil {
		b.off.Store(true)
	}
}

// hear takes over what was noted. It must be called before the clocks of a worker are read.
func (w *workerSoft) hear() {
	if w.beats == nil {
		return
	}
	at := w.beats.base.Add(time.Duration(w.beats.last.Load()))
	if at.After(w.beatAt) {
		w.beatAt = at
	}
	if at.After(w.lastSeen) {
		w.lastSeen = at
	}
}

// stopBeats sends every heartbeat to the Core again.
func (c *Core) stopBeats() {
	for _, w := range c.workers {
		w.beats.stop()
	}
}
