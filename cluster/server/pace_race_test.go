//go:build race

package server

import "time"

// The pace of these tests under the race detector, which makes everything several times slower.
const (
	quickFailover = 600 * time.Millisecond // the shortest time-out that they use
	sideBySide    = 4                      // tests at a time
	leaderKills   = 20
)
