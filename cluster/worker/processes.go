package worker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"raftmaster/cluster/launcher"
	"raftmaster/cluster/runner"
	"raftmaster/transport/sparkmsg"
)

const (
	// maxStarts bounds the processes that are being assembled and started at once: a burst of launches must not take all
	// of the machine.
	maxStarts = 8
	// dirMode is that of the directories of executors and drivers, as Spark makes them.
	dirMode = 0o755
)

// processes starts real processes. Its methods return at once; what happens is posted to the Core.
type processes struct {
	log      hclog.Logger
	runner   *runner.Runner
	local    *runner.LocalDirs
	cleaner  *runner.Cleaner
	rolling  *runner.Rolling
	workDir  string
	template launcher.Worker // without Env
	release4 bool            // 4.x words some messages in another way than 3.5
	// driverStep is spark.worker.driverTerminateTimeout.
	driverStep time.Duration
	loop       *loop
	ctx        context.Context // ends with the worker
	cancel     context.CancelFunc
	starts     chan struct{}
	cleaning   chan struct{} // one pass at a time
	wg         sync.WaitGroup

	envOnce sync.Once
	env     func() ([]string, error)
	envDone chan struct{}
	envText []string
	envErr  error
}

func (w *Worker) newProcesses() (*processes, error) {
	s := w.cfg.Settings
	local, err := w.runner.NewLocalDirs(s.LocalDirs)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	p := &processes{
		log: w.log.Named("launch"), runner: w.runner, local: local, workDir: s.WorkDir, driverStep: s.DriverTerminateTimeout,
		release4: !strings.HasPrefix(w.cfg.Home.Release, "3."), loop: w.loop, ctx: ctx, cancel: cancel,
		starts: make(chan struct{}, maxStarts), cleaning: make(chan struct{}, 1), envDone: make(chan struct{}),
		cleaner: runner.NewCleaner(runner.CleanerOptions{WorkDir: s.WorkDir, TTL: s.Cleanup.AppDataTTL, Log: w.log.Named("cleaner")}),
		template: launcher.Worker{
			Home: w.cfg.Home, ID: w.id, Host: s.Host, Port: int(w.self.Port), PublicAddress: s.PublicHost, WebUIPort: w.ui.Port(),
			WebUIURL: w.uiURL, ReverseProxy: s.UI.ReverseProxy, ReverseProxyURL: s.UI.ReverseProxyURL, Properties: s.Properties,
			Redaction: s.Redaction(),
		},
	}
	p.env = func() ([]string, error) { return w.cfg.Environ(ctx) }
	p.rolling = rollingOf(s.Rolling, p.log)
	return p, nil
}

// close waits for everything that runs; the processes have been ended before.
func (p *processes) close() error {
	p.cancel()
	p.wg.Wait()
	return p.local.Close()
}

// Prepare implements Processes: it finds out the environment of children, in the background and once.
func (p *processes) Prepare() {
	p.envOnce.Do(func() {
		p.wg.Go(func() {
			defer close(p.envDone)
			p.envText, p.envErr = p.env()
			if p.envErr != nil {
				p.log.Error("the environment of executors and drivers cannot be made; they cannot be started", "error", p.envErr)
				return
			}
			w := p.template
			w.Env = p.envText
			if err := w.CheckJava(); err != nil {
				p.log.Warn("executors and drivers without a JAVA_HOME of their own cannot be started", "error", err)
			}
		})
	})
}

// assembler gives the launcher once the environment is known.
func (p *processes) assembler(ctx context.Context) (*launcher.Worker, error) {
	p.Prepare()
	select {
	case <-p.envDone:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if p.envErr != nil {
		return nil, p.envErr
	}
	w := p.template
	w.Env = p.envText
	return &w, nil
}

// errKilled is why a start is given up.
var errKilled = errors.New("killed before it was started")

// process is an executor or driver that is to run until it is killed.
type process struct{ cancel context.CancelCauseFunc }

func (p *process) Kill() { p.cancel(errKilled) }

// slot waits for one of the places in which processes are started.
func (p *processes) slot(ctx context.Context) error {
	select {
	case p.starts <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// StartExecutor implements Processes.
func (p *processes) StartExecutor(l ExecutorLaunch, started func(int), ended func(ExecutorEnd)) Process {
	ctx, cancel := context.WithCancelCause(p.ctx)
	p.cleaner.Hold(l.AppID)
	p.wg.Go(func() {
		defer cancel(nil)
		end := p.runExecutor(ctx, &l, started)
		p.cleaner.Release(l.AppID)
		p.loop.post(func(*Core) { ended(end) })
	})
	return &process{cancel}
}

func (p *processes) runExecutor(ctx context.Context, l *ExecutorLaunch, started func(int)) ExecutorEnd {
	proc, err := p.startExecutor(ctx, l)
	l.Command = sparkmsg.Command{} // large, and not needed while the executor runs
	switch {
	case err != nil && ctx.Err() != nil:
		return ExecutorEnd{State: sparkmsg.ExecutorKilled, Message: p.interrupted(l)}
	case err != nil:
		p.log.Error("an executor could not be started", "app_id", l.AppID, "executor_id", l.ExecutorID, "error", err)
		message := err.Error()
		if p.release4 {
			message = "Error running executor: " + message
		}
		return ExecutorEnd{State: sparkmsg.ExecutorFailed, Message: message}
	}
	pid := proc.Pid()
	p.loop.post(func(*Core) { started(pid) })
	select {
	case <-proc.Done():
	case <-ctx.Done():
		proc.Kill(runner.DefaultGrace, runner.DefaultGrace)
		<-proc.Done()
	}
	exit := proc.Exit()
	end := ExecutorEnd{State: sparkmsg.ExecutorExited, Message: fmt.Sprintf("Command exited with code %d", exit.Code)}
	if exit.Hint != "" {
		end.Message += ": " + exit.Hint
	}
	if ctx.Err() != nil {
		end = ExecutorEnd{State: sparkmsg.ExecutorKilled, Message: p.interrupted(l)}
	}
	if exit.Orphaned {
		p.log.Warn("Failed to terminate process; this process will likely be orphaned.", "pid", pid, "app_id", l.AppID, "executor_id", l.ExecutorID)
		return end
	}
	status := int32(exit.Code)
	end.ExitStatus = &status
	return end
}

// interrupted is what a killed executor is reported with; 3.5 says nothing.
func (p *processes) interrupted(l *ExecutorLaunch) string {
	if !p.release4 {
		return ""
	}
	return fmt.Sprintf("Runner thread for executor %s/%d interrupted", l.AppID, l.ExecutorID)
}

// startExecutor makes the directories, assembles the command and starts it.
func (p *processes) startExecutor(ctx context.Context, l *ExecutorLaunch) (proc *runner.Process, err error) {
	if err := p.slot(ctx); err != nil {
		return nil, err
	}
	defer func() { <-p.starts }()
	assemble, err := p.assembler(ctx)
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(p.workDir, l.AppID, strconv.Itoa(int(l.ExecutorID)))
	if err := os.MkdirAll(dir, dirMode); err != nil {
		return nil, fmt.Errorf("failed to create directory %s: %w", dir, err)
	}
	file := ""
	defer func() {
		if err != nil { // a master that tries again and again must not fill the directory
			if file != "" {
				_ = os.Remove(file)
			}
			_ = os.Remove(dir) // fails, rightly, when another instance has written there
		}
	}()
	locals, err := p.local.Create(l.AppID)
	if err != nil {
		return nil, err
	}
	if file, err = launcher.WriteResourcesFile(dir, launcher.ComponentExecutor, l.Resources); err != nil {
		return nil, err
	}
	cmd, err := assemble.Executor(launcher.ExecutorSpec{AppID: l.AppID, ExecutorID: l.ExecutorID, Cores: l.Cores, MemoryMB: l.MemoryMB,
		ResourceProfileID: l.ResourceProfile, Command: l.Command, Dir: dir, LocalDirs: locals, ResourcesFile: file})
	if err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	proc, err = p.runner.Start(specOf(fmt.Sprintf("%s/%d", l.AppID, l.ExecutorID), cmd, true, p.rolling))
	if err != nil {
		return nil, launcher.StartError(cmd, err)
	}
	return proc, nil
}

// specOf is the process of an assembled command; an executor's stderr begins anew, a driver's is continued.
func specOf(name string, cmd launcher.Command, truncate bool, rolling *runner.Rolling) runner.Spec {
	return runner.Spec{Name: name, Argv: cmd.Argv, Env: cmd.Env, Dir: cmd.Dir, Header: cmd.LogHeader, TruncateStderr: truncate,
		Stdout: filepath.Join(cmd.Dir, "stdout"), Stderr: filepath.Join(cmd.Dir, "stderr"), Rolling: rolling}
}

// StartDriver implements Processes.
func (p *processes) StartDriver(l DriverLaunch, started func(int), ended func(DriverEnd)) Process {
	ctx, cancel := context.WithCancelCause(p.ctx)
	p.cleaner.Hold(l.DriverID)
	p.wg.Go(func() {
		defer cancel(nil)
		end := p.runDriver(ctx, l, started)
		p.cleaner.Release(l.DriverID)
		p.loop.post(func(*Core) { ended(end) })
	})
	return &process{cancel}
}

var driverStates = map[runner.DriverState]sparkmsg.DriverState{
	runner.DriverFinished: sparkmsg.DriverFinished, runner.DriverFailed: sparkmsg.DriverFailed,
	runner.DriverKilled: sparkmsg.DriverKilled, runner.DriverError: sparkmsg.DriverError,
}

func (p *processes) runDriver(ctx context.Context, l DriverLaunch, started func(int)) DriverEnd {
	end := p.runner.RunDriver(ctx, runner.DriverPlan{
		Supervise: l.Supervise, Grace: p.driverStep, Hard: p.driverStep,
		Prepare: func(ctx context.Context) (runner.Spec, error) { return p.prepareDriver(ctx, l) },
		Started: func(run int, proc *runner.Process) {
			pid := proc.Pid()
			p.log.Info("a driver was started", "driver_id", l.DriverID, "pid", pid, "run", run)
			p.loop.post(func(*Core) { started(pid) })
		},
		Ended: func(_ int, e runner.Exit, pause time.Duration) {
			p.log.Info(fmt.Sprintf("Command exited with status %d, re-launching after %d s.", e.Code, int(pause.Seconds())), "driver_id", l.DriverID)
		},
	})
	out := DriverEnd{State: driverStates[end.State]}
	if end.Err != nil {
		if end.State != runner.DriverError {
			p.log.Warn("a driver's process may be left over", "driver_id", l.DriverID, "error", end.Err)
			return out
		}
		out.Error = end.Err.Error()
	}
	return out
}

// prepareDriver makes the directory, fetches the jar and assembles the command.
func (p *processes) prepareDriver(ctx context.Context, l DriverLaunch) (runner.Spec, error) {
	if err := p.slot(ctx); err != nil {
		return runner.Spec{}, err
	}
	assemble, err := p.assembler(ctx)
	<-p.starts // a jar may take long to fetch
	if err != nil {
		return runner.Spec{}, err
	}
	dir := filepath.Join(p.workDir, l.DriverID)
	if err := os.MkdirAll(dir, dirMode); err != nil {
		return runner.Spec{}, fmt.Errorf("failed to create directory %s: %w", dir, err)
	}
	jar, err := runner.Fetch(ctx, l.JarURL, dir)
	if err != nil {
		return runner.Spec{}, err
	}
	file, err := launcher.WriteResourcesFile(dir, launcher.ComponentDriver, l.Resources)
	if err != nil {
		return runner.Spec{}, err
	}
	cmd, err := assemble.Driver(launcher.DriverSpec{DriverID: l.DriverID, MemoryMB: l.MemoryMB, Command: l.Command, UserJar: jar,
		Dir: dir, ResourcesFile: file})
	if err != nil {
		return runner.Spec{}, err
	}
	return specOf(l.DriverID, cmd, false, nil), nil
}

// ForgetApplication implements Processes.
func (p *processes) ForgetApplication(appID string) {
	p.wg.Go(func() {
		if err := p.local.Remove(appID); err != nil {
			p.log.Warn("local directories of an application could not be removed", "app_id", appID, "error", err)
		}
	})
}

// CleanWorkDir implements Processes.
func (p *processes) CleanWorkDir() {
	select {
	case p.cleaning <- struct{}{}:
	default:
		return // the last pass is not over
	}
	p.wg.Go(func() {
		defer func() { <-p.cleaning }()
		removed, err := p.cleaner.Clean(p.ctx)
		for _, name := range removed {
			p.log.Info("Removing directory: "+filepath.Join(p.workDir, name), "directory", name)
		}
		if err != nil && p.ctx.Err() == nil {
			p.log.Error("App dir cleanup failed", "error", err)
		}
	})
}
