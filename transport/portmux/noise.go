package portmux

import (
	"sync"
	"time"
)

// noiseInterval is how often the same complaint about the same host may be logged.
const noiseInterval = time.Minute

// maxNoiseKeys bounds the memory of the limiter; when it is full it forgets everything.
const maxNoiseKeys = 1024

// noiseLimiter lets one log line per key and minute through. The zero value is ready.
type noiseLimiter struct {
	mu   sync.Mutex
	last map[string]time.Time
}

func (n *noiseLimiter) allow(key string) bool {
	now := time.Now()
	n.mu.Lock()
	defer n.mu.Unlock()
	if t, ok := n.last[key]; ok && now.Sub(t) < noiseInterval {
		return false
	}
	if n.last == nil || len(n.last) >= maxNoiseKeys {
		n.last = make(map[string]time.Time)
	}
	n.last[key] = now
	return true
}
