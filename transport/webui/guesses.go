package webui

import (
	"crypto/sha256"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// Bounds of wrong tokens from one remote address. The same wrong token again is no further guess: it comes from a program
// that was not told of a new one.
const (
	// maxGuesses may be made at once, and one more every guessEvery.
	maxGuesses = 10
	guessEvery = 6 * time.Second
	// keptGuesses are remembered of one address, to tell repetitions.
	keptGuesses = 4
	// maxGuessers bounds the addresses that are remembered; one more forgets those that have been quiet, else any.
	maxGuessers = 4096
	// guessNoise is how often one address is logged.
	guessNoise = time.Minute
)

// guesses bounds how fast tokens can be guessed.
type guesses struct {
	now func() time.Time

	mu sync.Mutex
	of map[string]*guesser
}

type guesser struct {
	left   float64 // guesses that may be made now
	at     time.Time
	told   time.Time
	wrong  uint64
	recent [][sha256.Size]byte
}

func newGuesses(now func() time.Time) *guesses {
	return &guesses{now: now, of: make(map[string]*guesser)}
}

func (g *guesser) refill(now time.Time) {
	if gone := now.Sub(g.at); gone > 0 {
		g.left = min(maxGuesses, g.left+gone.Seconds()/guessEvery.Seconds())
		g.at = now
	}
}

// wait is how long an address has to wait before its next token is looked at; 0: not at all.
func (s *guesses) wait(remote string) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.of[remote]
	if g == nil {
		return 0
	}
	if g.refill(s.now()); g.left >= 1 {
		return 0
	}
	return time.Duration((1 - g.left) * float64(guessEvery))
}

// failed counts a wrong token. tell: log it now; n is how many wrong ones came from there in all.
func (s *guesses) failed(remote string, sum [sha256.Size]byte) (n uint64, tell bool) {
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.of[remote]
	if g == nil {
		if len(s.of) >= maxGuessers {
			s.forget(now)
		}
		g = &guesser{left: maxGuesses, at: now}
		s.of[remote] = g
	}
	g.refill(now)
	g.wrong++
	if !slices.Contains(g.recent, sum) {
		g.left--
		if g.recent = append(g.recent, sum); len(g.recent) > keptGuesses {
			g.recent = slices.Delete(g.recent, 0, 1)
		}
	}
	if !g.told.IsZero() && now.Sub(g.told) < guessNoise {
		return g.wrong, false
	}
	g.told = now
	return g.wrong, true
}

// forget makes room. The caller holds mu.
func (s *guesses) forget(now time.Time) {
	for k, g := range s.of {
		if g.refill(now); g.left >= maxGuesses {
			delete(s.of, k)
		}
	}
	for k := range s.of {
		if len(s.of) < maxGuessers {
			return
		}
		delete(s.of, k)
	}
}

// guessKey puts the addresses of one IPv6 network together: who has one of them has all.
func guessKey(ip string) string {
	a, err := netip.ParseAddr(ip)
	if err != nil {
		return ip
	}
	if a = a.Unmap().WithZone(""); a.Is6() {
		if p, err := a.Prefix(64); err == nil {
			return p.String()
		}
	}
	return a.String()
}
