package sparkrpc

import (
	"sync"
	"time"
)

const (
	lineInterval = time.Minute // one line per peer and class
	maxLineKeys  = 1024        // remembered pairs; beyond, all others share one

	// sweepInterval keeps a flood of new pairs from costing a pass over all of them each.
	sweepInterval = time.Second
)

type lineKey struct{ host, class string }

// lineLimiter lets one log line per peer and class pass in a minute, with bounded memory.
type lineLimiter struct {
	mu    sync.Mutex
	now   func() time.Time
	last  map[lineKey]time.Time
	other time.Time // last line of those that found no room
	swept time.Time // when old pairs were last looked for
}

func newLineLimiter() *lineLimiter {
	return &lineLimiter{now: time.Now, last: map[lineKey]time.Time{}}
}

// allow reports whether a line about this peer and class may be written now.
func (l *lineLimiter) allow(host, class string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now, key := l.now(), lineKey{host, class}
	if t, ok := l.last[key]; ok {
		if now.Sub(t) < lineInterval {
			return false
		}
		l.last[key] = now
		return true
	}
	if len(l.last) >= maxLineKeys && now.Sub(l.swept) >= sweepInterval {
		l.swept = now
		for k, t := range l.last {
			if now.Sub(t) >= lineInterval {
				delete(l.last, k)
			}
		}
	}
	if len(l.last) >= maxLineKeys {
		if now.Sub(l.other) < lineInterval {
			return false
		}
		l.other = now
		return true
	}
	l.last[key] = now
	return true
}
