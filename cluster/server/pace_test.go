//go:build !race

package server

import "time"

// The pace of these tests.
const (
	quickFailover = 200 * time.Millisecond // the shortest time-out that they use
	sideBySide    = 8                      // tests at a time
	leaderKills   = 52
)
