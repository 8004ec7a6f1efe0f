package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
)

// signalNames are the names in the line that Spark's master writes, too.
var signalNames = map[os.Signal]string{syscall.SIGTERM: "TERM", syscall.SIGINT: "INT", syscall.SIGHUP: "HUP"}

// sameRequest: signals that come together are one request. timeout(1), for one, signals its child and then its whole
// process group.
const sameRequest = time.Second

// stopper turns signals into the end of a context. The first asks for an orderly stop. One that comes later than
// sameRequest ends the process at once: somebody is in a hurry, and the replicated log does not need an orderly stop.
type stopper struct {
	log     hclog.Logger
	cancel  context.CancelFunc
	hurried func()
	now     func() time.Time
	exit    func(code int)
	first   time.Time
}

func (s *stopper) signal(sig os.Signal) {
	now := s.now()
	if !s.first.IsZero() && now.Sub(s.first) < sameRequest {
		return
	}
	s.log.Warn("RECEIVED SIGNAL " + signalNames[sig])
	if !s.first.IsZero() {
		s.hurried()
		n, _ := sig.(syscall.Signal)
		s.exit(128 + int(n))
		return
	}
	s.first = now
	s.cancel()
}

// notify gives a context that ends at the first SIGTERM, SIGINT or SIGHUP; see stopper. Under nohup(1), which ignores
// SIGHUP, that signal stays ignored (B-008).
func notify(log hclog.Logger, hurried func()) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	s := &stopper{log: log, cancel: cancel, hurried: hurried, now: time.Now, exit: os.Exit}
	ch := make(chan os.Signal, 2)
	done := make(chan struct{})
	signal.Notify(ch, syscall.SIGTERM, syscall.SIGINT)
	if !signal.Ignored(syscall.SIGHUP) {
		signal.Notify(ch, syscall.SIGHUP)
	}
	go func() {
		for {
			select {
			case <-done:
				return
			case sig := <-ch:
				s.signal(sig)
			}
		}
	}()
	return ctx, func() {
		signal.Stop(ch)
		close(done)
		cancel()
	}
}
