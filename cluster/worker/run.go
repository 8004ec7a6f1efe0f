package worker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"time"

	"raftmaster/cluster/launcher"
	"raftmaster/cluster/runner"
	"raftmaster/transport/sparkmsg"
)

const (
	// endBound is how long a stop waits for executors and drivers: both steps of the kill escalation, and a little.
	endBound = 2*runner.DefaultGrace + 2*time.Second
	// reportBound is how long it waits after that for a master to take what became of them.
	reportBound    = 2 * time.Second
	drainPoll      = 20 * time.Millisecond
	uiCloseTimeout = 2 * time.Second
)

// systemClock is the machine's clock.
type systemClock struct{}

func (systemClock) Now() time.Time { return time.Now() }

// Run serves until ctx ends, and returns nil after a stop in order. An *ExitError says that the worker cannot or must
// not go on. It may be called once.
func (w *Worker) Run(ctx context.Context) (err error) {
	began := time.Now()
	defer func() {
		err = errors.Join(err, w.Close())
		w.wg.Wait()
	}()
	w.ui.Serve()
	w.log.Info(fmt.Sprintf("Starting Spark worker %s with %d cores, %d MiB RAM", w.self, w.cfg.Settings.Cores, w.cfg.Settings.MemoryMB))
	w.log.Info("Running Spark version "+w.cfg.Home.Release, "family", w.family)
	w.log.Info("Spark home: " + w.cfg.Home.Dir)
	w.log.Info(fmt.Sprintf("Bound WorkerWebUI to %s, and started at %s", w.ui.Addr(), w.uiURL))
	if !w.cfg.Settings.DecommissionEnabled {
		w.log.Info("Worker decommissioning not enabled.")
	}
	if err := w.endOrphans(ctx); err != nil {
		return err
	}
	resources, err := w.discover(ctx)
	if ctx.Err() != nil {
		return nil // stopped during the start, which is in order
	}
	if err != nil {
		return err
	}
	core := w.newCore(resources)
	stop := make(chan struct{})
	w.wg.Go(func() { w.loop.run(core, stop) })
	w.wg.Go(w.accept)
	w.loop.post(func(c *Core) { c.Start() })
	watching, unwatch := context.WithCancel(ctx)
	defer unwatch()
	if w.cfg.Up != nil {
		w.wg.Go(func() { w.cfg.Up(watching, w) })
	}
	w.log.Debug("ready to register", "milliseconds", time.Since(began).Milliseconds())
	select {
	case <-ctx.Done():
	case e := <-w.exits:
		err = e
	}
	unwatch()
	w.drain(err == nil)
	close(stop)
	<-w.loop.ended
	return err
}

func (w *Worker) newCore(resources []sparkmsg.ResourceInformation) *Core {
	return NewCore(w.coreConfig(resources), Deps{
		Clock: systemClock{}, Network: &network{rpc: w.rpc, family: w.family, loop: w.loop}, Processes: w.procs, Log: w.log,
		Exit: func(code int, reason string) { w.exits <- &ExitError{Code: code, Reason: reason} },
	})
}

// endOrphans ends what an earlier worker on this work directory has left running, before any master gives out its cores
// again.
func (w *Worker) endOrphans(ctx context.Context) error {
	orphans, err := w.runner.EndOrphans(ctx)
	for _, o := range orphans {
		w.log.Warn("ended a process that an earlier worker had left behind", "name", o.Name, "pid", o.Pid, "members", o.Members)
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return nil
	case err != nil:
		return &ExitError{Code: 1, Reason: "processes of an earlier worker with this work directory cannot be ended", Err: err}
	}
	w.wg.Go(func() {
		if _, err := w.procs.local.RemoveLeftovers(w.procs.ctx); err != nil && w.procs.ctx.Err() == nil {
			w.log.Warn("directories of an earlier worker could not be removed", "error", err)
		}
	})
	return nil
}

// discover finds the custom resources.
func (w *Worker) discover(ctx context.Context) ([]sparkmsg.ResourceInformation, error) {
	s := w.cfg.Settings
	if s.ResourcesFile == "" && len(s.Resources) == 0 {
		return nil, nil
	}
	assemble, err := w.procs.assembler(ctx)
	if err != nil {
		return nil, &ExitError{Code: 1, Reason: "the environment cannot be made", Err: err}
	}
	req := launcher.ResourceRequest{File: s.ResourcesFile, Env: assemble.Env, Dir: filepath.Clean(s.WorkDir)}
	for _, r := range s.Resources {
		req.Wanted = append(req.Wanted, launcher.WantedResource{Name: r.Name, Amount: r.Amount, Script: r.Script, Vendor: r.Vendor})
	}
	found, err := launcher.Resources(ctx, req)
	if err != nil {
		return nil, &ExitError{Code: 1, Reason: "Failed to setup worker resources", Err: err}
	}
	return found, nil
}

// accept serves connections until the listener is closed.
func (w *Worker) accept() {
	for {
		nc, err := w.listener.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			w.log.Error("accept failed", "error", err)
			time.Sleep(100 * time.Millisecond) // out of descriptors, most likely: others close some
			continue
		}
		w.wg.Go(func() { w.rpc.ServeConn(nc) })
	}
}

// drain ends the processes and, if the masters are there to hear it, waits until what became of them is told.
func (w *Worker) drain(report bool) {
	w.loop.post(func(c *Core) { c.Stop() })
	left := func(done func(processes, reports int) bool, bound time.Duration) bool {
		for deadline := time.Now().Add(bound); time.Now().Before(deadline); time.Sleep(drainPoll) {
			var processes, reports int
			if !w.loop.ask(func(c *Core) { processes, reports = c.Drained() }) || done(processes, reports) {
				return false
			}
		}
		return true
	}
	if left(func(processes, _ int) bool { return processes == 0 }, endBound) {
		w.log.Warn("some executors or drivers did not end in time")
	}
	if report && left(func(_, reports int) bool { return reports == 0 }, reportBound) {
		w.log.Warn("no master has taken all that became of executors and drivers")
	}
}
