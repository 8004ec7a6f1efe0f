package server

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/hashicorp/go-hclog"

	"raftmaster/cluster/config"
)

// Up is called when a master is up: its ports answer, and its Raft node takes part. ctx ends when the master begins to stop,
// which waits until the call has returned.
type Up func(ctx context.Context, s *Server)

// RunWatched is Run with somebody who is told when the master is up, such as a service manager.
func RunWatched(ctx context.Context, cfg config.Config, log hclog.Logger, version string, up Up) error {
	s, err := Start(cfg, log, version)
	if err != nil {
		return err
	}
	watching, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	if up != nil {
		wg.Go(func() { up(watching, s) })
	}
	defer func() { stop(); wg.Wait() }()
	select {
	case <-ctx.Done():
		stop()
		wg.Wait()
		return s.Stop()
	case err := <-s.fatal: // the node has said so, or a drill
		if errors.Is(err, errDrillExit) {
			s.Kill()
			return err
		}
		return errors.Join(err, s.Stop())
	}
}

// CheckLoop returns nil when the leader service has answered: its goroutine decides everything, on a standby as well, and never
// waits for a disk or a peer. A disk that hangs is not its business: that costs the leadership alone, and passes.
func (s *Server) CheckLoop(ctx context.Context) error {
	answered := make(chan struct{})
	s.svc.Post(func() { close(answered) })
	select {
	case <-answered:
		return nil
	case <-s.svc.Ended():
		return errors.New("the leader service has ended")
	case <-ctx.Done():
		return fmt.Errorf("the leader service does not answer: %w", ctx.Err())
	}
}

// StatusLine says in a few words what this master does.
func (s *Server) StatusLine() string {
	id, address := s.node.Leader()
	term := s.term.Load()
	switch {
	case s.alive.Load():
		return fmt.Sprintf("leading, term %d", term)
	case id == s.node.NodeID():
		return "taking the lead over"
	case id != "":
		return "standby of " + address
	case s.node.ClusterID() == "":
		return "waiting for the other masters of the list"
	}
	return "standby, no leader is known"
}
