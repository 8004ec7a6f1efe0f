package worker

import (
	"context"
	"strings"
	"testing"
	"time"
)

// A loop that hangs is noticed, and is well again when it goes on.
func TestCheckLoopNoticesAHungLoop(t *testing.T) {
	b := newBench(t, nil)
	w, stop := &Worker{loop: newLoop()}, make(chan struct{})
	go w.loop.run(b.Core, stop)
	defer func() { close(stop); <-w.loop.ended }()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := w.CheckLoop(ctx); err != nil || !strings.Contains(w.StatusLine(), "not registered with a master; 0 executors") {
		t.Fatalf("%v, %q", err, w.StatusLine())
	}
	release := make(chan struct{})
	w.loop.post(func(*Core) { <-release })
	short, end := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer end()
	if err := w.CheckLoop(short); err == nil || !strings.Contains(err.Error(), "does not answer") {
		t.Errorf("a hung loop: %v", err)
	}
	close(release)
	if err := w.CheckLoop(ctx); err != nil {
		t.Error(err)
	}
}
