package server

import (
	"context"
	"strings"
	"testing"
	"time"
)

// A leader service that hangs is noticed, and its standbys are none the worse; it is well again when it goes on.
func TestCheckLoopNoticesAHungLeaderService(t *testing.T) {
	c := start(t, 3, nil)
	s := c.leader().server()
	eventuallySays := func(want string) {
		t.Helper()
		eventually(t, want, func() bool { return strings.HasPrefix(s.StatusLine(), want) })
	}
	eventuallySays("leading, term ")
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := s.CheckLoop(ctx); err != nil {
		t.Fatal(err)
	}
	release := make(chan struct{})
	s.svc.Post(func() { <-release })
	short, stop := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer stop()
	if err := s.CheckLoop(short); err == nil || !strings.Contains(err.Error(), "does not answer") {
		t.Errorf("a hung loop: %v", err)
	}
	close(release)
	if err := s.CheckLoop(ctx); err != nil {
		t.Error(err)
	}
}
