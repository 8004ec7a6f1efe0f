package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/hashicorp/go-hclog"
)

// signalNames are the names in the line that Spark's master writes, too.
var signalNames = map[os.Signal]string{syscall.SIGTERM: "TERM", syscall.SIGINT: "INT"}

// notify gives a context that ends at the first SIGTERM or SIGINT. A second one ends the process at once: somebody is
// in a hurry, and the replicated log does not need an orderly stop.
func notify(log hclog.Logger) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	ch := make(chan os.Signal, 2)
	done := make(chan struct{})
	signal.Notify(ch, syscall.SIGTERM, syscall.SIGINT)
	go func() {
		for {
			select {
			case <-done:
				return
			case s := <-ch:
				log.Warn("RECEIVED SIGNAL " + signalNames[s])
				if ctx.Err() != nil {
					n, _ := s.(syscall.Signal)
					os.Exit(128 + int(n))
				}
				cancel()
			}
		}
	}()
	return ctx, func() {
		signal.Stop(ch)
		close(done)
		cancel()
	}
}
