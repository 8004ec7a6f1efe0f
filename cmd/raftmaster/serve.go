package main

import (
	"context"

	"github.com/hashicorp/go-hclog"

	"raftmaster/cluster/config"
	"raftmaster/cluster/server"
	"raftmaster/cluster/worker"
	"raftmaster/cmd/internal/sdnotify"
)

// serve runs one master.
var serve runServer = server.Run

// serveNotifying runs one master and tells the service manager about it.
func (p *program) serveNotifying(ctx context.Context, cfg config.Config, log hclog.Logger, version string) error {
	return server.RunWatched(ctx, cfg, log, version, func(ctx context.Context, s *server.Server) {
		p.notifier.Run(ctx, sdnotify.Service{Check: s.CheckLoop, Status: s.StatusLine, Log: log})
	})
}

// notifyOfWorker tells the service manager about a worker.
func (p *program) notifyOfWorker(log hclog.Logger) func(context.Context, *worker.Worker) {
	if p.notifier == nil {
		return nil
	}
	return func(ctx context.Context, w *worker.Worker) {
		p.notifier.Run(ctx, sdnotify.Service{Check: w.CheckLoop, Status: w.StatusLine, Log: log})
	}
}
