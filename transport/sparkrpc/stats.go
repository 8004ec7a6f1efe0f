package sparkrpc

import (
	"maps"
	"sync"
	"sync/atomic"
)

// maxClasses bounds the keys of the decode error counter, which peers choose.
const maxClasses = 64

// counters are the numbers behind Stats.
type counters struct {
	refused, framesIn, framesOut, badFrames, dials, dialFailures atomic.Uint64

	mu           sync.Mutex // leaf lock
	decodeErrors map[string]uint64
	dropped      map[string]uint64
}

func (s *counters) init() {
	s.decodeErrors, s.dropped = map[string]uint64{}, map[string]uint64{}
}

// decodeClass returns the key under which a class is counted: itself, or "other" when there are too many.
func (s *counters) decodeClass(class string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.decodeErrors[class]; !ok && len(s.decodeErrors) >= maxClasses {
		class = "other"
	}
	s.decodeErrors[class]++
	return class
}

// countDropped counts pushes that will never be written.
func (e *Endpoint) countDropped(reason string, n int) {
	if n == 0 {
		return
	}
	e.stats.mu.Lock()
	e.stats.dropped[reason] += uint64(n)
	e.stats.mu.Unlock()
	if e.cfg.Metrics.Dropped != nil {
		e.cfg.Metrics.Dropped(reason, n)
	}
}

// Stats returns the counters.
func (e *Endpoint) Stats() Stats {
	e.mu.Lock()
	s := Stats{Conns: len(e.conns), Peers: len(e.peers), Queued: e.queued}
	e.mu.Unlock()
	s.Refused, s.BadFrames = e.stats.refused.Load(), e.stats.badFrames.Load()
	s.FramesIn, s.FramesOut = e.stats.framesIn.Load(), e.stats.framesOut.Load()
	s.Dials, s.DialFailures = e.stats.dials.Load(), e.stats.dialFailures.Load()
	e.stats.mu.Lock()
	defer e.stats.mu.Unlock()
	s.DecodeErrors, s.Dropped = maps.Clone(e.stats.decodeErrors), maps.Clone(e.stats.dropped)
	return s
}
