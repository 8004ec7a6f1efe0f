package runner

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"
)

const (
	// startsAtOnce bounds how many starts prepare files and wait for the forking thread.
	startsAtOnce = 8
	// closeMargin is what Close waits beyond the kill's own steps: for what is left of groups.
	closeMargin = 3 * time.Second
)

// Runner starts and ends the children of one worker. All methods may be called by any goroutine. Nothing else in the
// process may wait for children that it did not start (wait4 with -1).
type Runner struct {
	workDir     string
	orphanGrace time.Duration
	clock       Clock
	log         hclog.Logger
	ledger      *ledger
	null        *os.File
	oom         *oomCounter

	slots     chan struct{}
	forks     chan *forkRequest
	endForks  chan struct{}
	forkEnded chan struct{}
	closing   chan struct{}
	patience  time.Duration
	touch     func(program, dir string)
	sweeper   *sweeper

	mu       sync.Mutex
	closed   bool
	starting sync.WaitGroup // starts under way; Add under mu, not after closed
	children map[*Process]struct{}
	changed  chan struct{} // closed and replaced when children shrinks
}

// New locks the work directory (ErrLocked if another live worker has it) and starts the forking thread. The children of
// an earlier worker are not touched until EndOrphans.
func New(o Options) (*Runner, error) {
	if o.WorkDir == "" {
		return nil, errors.New("runner: no work directory")
	}
	workDir, err := filepath.Abs(o.WorkDir)
	if err != nil {
		return nil, err
	}
	r := &Runner{
		workDir: workDir, orphanGrace: o.OrphanGrace, clock: o.Clock, log: o.Log,
		slots: make(chan struct{}, startsAtOnce), forks: make(chan *forkRequest), endForks: make(chan struct{}),
		forkEnded: make(chan struct{}), patience: startPatience, touch: touchProgram, closing: make(chan struct{}), children: map[*Process]struct{}{}, changed: make(chan struct{}),
	}
	if r.orphanGrace == 0 {
		r.orphanGrace = DefaultOrphanGrace
	}
	if r.clock == nil {
		r.clock = systemClock{}
	}
	if r.log == nil {
		r.log = hclog.NewNullLogger()
	}
	var warning error
	if r.ledger, warning, err = openLedger(workDir); err != nil {
		return nil, err
	}
	if warning != nil {
		r.log.Warn("work directory", "error", warning)
	}
	if r.null, err = devNull(); err != nil {
		return nil, errors.Join(err, r.ledger.close())
	}
	if err := keepDescriptors(); err != nil {
		r.log.Warn("children may inherit descriptors of this process's parent", "error", err)
	}
	r.oom = findOOMCounter()
	groupGrace := o.GroupGrace
	if groupGrace == 0 {
		groupGrace = DefaultGroupGrace
	}
	r.sweeper = newSweeper(r.log, groupGrace)
	go r.forkThread()
	return r, nil
}

// startOutcome is what an attempt to start delivers.
type startOutcome struct {
	process *Process
	err     error
}

// Start makes the directory and files and starts the process. An error says what is wrong and how it may be mended
// (usually a *StartError), and then nothing is left behind. It returns when the program runs, or has failed to; a minute at
// most: should a file system that hung let the start succeed later, the process is ended at once.
func (r *Runner) Start(s Spec) (*Process, error) {
	if err := check(s); err != nil {
		return nil, err
	}
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return nil, ErrClosed
	}
	r.starting.Add(1)
	r.mu.Unlock()
	outcome := make(chan startOutcome, 1)
	var settled atomic.Bool
	go func() {
		defer r.starting.Done()
		p, err := r.startInTurn(s)
		if settled.CompareAndSwap(false, true) {
			outcome <- startOutcome{p, err}
		} else if p != nil {
			r.log.Warn("a process started after its start was given up; ending it", "name", s.Name, "pid", p.pid)
			p.Kill(0, DefaultGrace)
		}
	}()
	timeout := time.NewTimer(r.patience)
	defer timeout.Stop()
	select {
	case o := <-outcome:
		return o.process, o.err
	case <-timeout.C:
	}
	if !settled.CompareAndSwap(false, true) {
		o := <-outcome
		return o.process, o.err
	}
	return nil, &StartError{Op: "start", Path: s.Argv[0], Err: errStartStuck}
}

// startInTurn waits for a slot and takes back what a failed start has done.
func (r *Runner) startInTurn(s Spec) (*Process, error) {
	select {
	case r.slots <- struct{}{}:
		defer func() { <-r.slots }()
	case <-r.closing:
		return nil, ErrClosed
	}
	var back undo
	p, err := r.start(s, &back)
	if err != nil {
		back.run()
		return nil, err
	}
	return p, nil
}

// check finds what would be an error of the caller.
func check(s Spec) error {
	switch {
	case len(s.Argv) == 0 || s.Argv[0] == "":
		return errors.New("start: no program")
	case !filepath.IsAbs(s.Dir) || !filepath.IsAbs(s.Stdout) || !filepath.IsAbs(s.Stderr):
		return errors.New("start: directory and log files must be absolute")
	}
	for i, list := range [][]string{s.Argv, s.Env} {
		for j, v := range list {
			if strings.ContainsRune(v, 0) {
				return fmt.Errorf("start: %s %d holds a zero byte", []string{"argument", "variable"}[i], j)
			}
		}
	}
	return nil
}

func (r *Runner) start(s Spec, back *undo) (*Process, error) {
	if err := makeDir(s.Dir, back); err != nil {
		return nil, err
	}
	program, err := lookup(s)
	if err != nil {
		return nil, err
	}
	r.touch(program, s.Dir)
	outputs, err := r.openOutputs(s, back)
	if err != nil {
		return nil, err
	}
	file, err := r.ledger.intend(s.Name, s.Dir, s.Argv)
	if err != nil {
		outputs.release()
		outputs.closePipes()
		return nil, dirError("note the process in", r.ledger.dir, err)
	}
	back.add(func() { _ = file.Close(); _ = os.Remove(file.Name()) })
	result := r.fork(&forkRequest{
		program: program, spec: s, release: outputs.release, result: make(chan forkResult, 1),
		files: []uintptr{r.null.Fd(), uintptr(outputs.stdout), uintptr(outputs.stderr)},
	})
	if result.err != nil {
		outputs.closePipes()
		if errors.Is(result.err, ErrClosed) {
			return nil, result.err
		}
		return nil, forkError(s, program, result.err)
	}
	return r.adopt(s, result, file, outputs.copiers), nil
}

// adopt makes the Process of a forked child.
func (r *Runner) adopt(s Spec, result forkResult, file *os.File, copiers []*copier) *Process {
	p := &Process{
		runner: r, name: s.Name, pid: result.pid, done: make(chan struct{}), hasten: make(chan struct{}), copiers: copiers,
		oomBefore: r.oom.read(),
	}
	p.exit.Started = r.clock.Now()
	stat, err := readStat(result.pid) // it is not reaped, so it is there, dead or alive
	if err != nil {
		r.log.Warn("start time of a process cannot be read; after a crash of this worker it is looked for by its arguments",
			"name", s.Name, "pid", p.pid, "error", err)
	}
	if file != nil {
		p.ledgerPath = file.Name()
		if err := r.ledger.confirm(file, started{p.pid, stat.start}); err != nil {
			r.log.Warn("process id cannot be noted; after a crash of this worker it is looked for by its arguments",
				"name", s.Name, "pid", p.pid, "error", err)
		}
	}
	for _, c := range copiers {
		go c.run()
	}
	r.mu.Lock()
	r.children[p] = struct{}{}
	r.mu.Unlock()
	p.watch(result.pidfd)
	return p
}

// outputs are the child's standard output and error.
type outputs struct {
	stdout, stderr int
	copiers        []*copier
	release        func() // closes what the child has by now
}

func (o *outputs) closePipes() {
	for _, c := range o.copiers {
		c.discard()
	}
}

func (r *Runner) openOutputs(s Spec, back *undo) (*outputs, error) {
	out, err := openLog(s.Stdout, back)
	if err != nil {
		return nil, err
	}
	errFD, err := openLog(s.Stderr, back)
	if err != nil {
		unix.Close(out)
		return nil, err
	}
	closeBoth := func() { unix.Close(out); unix.Close(errFD) }
	if err := writeHeader(errFD, s); err != nil {
		closeBoth()
		return nil, err
	}
	if s.Rolling == nil {
		return &outputs{stdout: out, stderr: errFD, release: closeBoth}, nil
	}
	outCopier, outWriter, err := newCopier(s.Stdout, out, *s.Rolling, r.clock, r.log)
	if err != nil {
		closeBoth()
		return nil, err
	}
	errCopier, errWriter, err := newCopier(s.Stderr, errFD, *s.Rolling, r.clock, r.log)
	if err != nil {
		outCopier.discard()
		unix.Close(outWriter)
		unix.Close(errFD)
		return nil, err
	}
	return &outputs{stdout: outWriter, stderr: errWriter, copiers: []*copier{outCopier, errCopier},
		release: func() { unix.Close(outWriter); unix.Close(errWriter) }}, nil
}

// Running is the number of children whose end is not yet complete.
func (r *Runner) Running() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.children)
}

// forget takes a child off the table when nothing of it is left, or when nothing more can be done.
func (r *Runner) forget(p *Process) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.children, p)
	close(r.changed)
	r.changed = make(chan struct{})
}

// Close kills all children, waits for them (at most grace + hard and a little), unlocks the work directory and ends all
// goroutines. Start fails from then on. An error names what could not be ended; its ledger entry stays.
func (r *Runner) Close(grace, hard time.Duration) error {
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return nil
	}
	r.closed = true
	close(r.closing)
	r.mu.Unlock()
	r.waitStarts()

	for _, p := range r.living() {
		p.Kill(grace, hard)
	}
	err := r.waitGone(grace)
	if err != nil {
		for _, p := range r.living() { // some may have been given more time by an earlier Kill
			p.Kill(0, hard)
		}
		err = r.waitGone(hard + r.sweeper.grace + closeMargin)
	}
	for _, p := range r.living() {
		p.letGo()
	}
	r.sweeper.stop()
	close(r.endForks)
	<-r.forkEnded
	return errors.Join(err, r.null.Close(), r.ledger.close())
}

// waitStarts waits for starts under way; those that hang in the kernel are left behind, and cannot fork any more.
func (r *Runner) waitStarts() {
	done := make(chan struct{})
	go func() {
		r.starting.Wait()
		close(done)
	}()
	timeout := time.NewTimer(closeMargin)
	defer timeout.Stop()
	select {
	case <-done:
	case <-timeout.C:
		r.log.Error("a start hangs in the kernel and is left behind")
	}
}

func (r *Runner) living() []*Process {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []*Process
	for p := range r.children {
		all = append(all, p)
	}
	return all
}

// waitGone waits until every child is forgotten or given up.
func (r *Runner) waitGone(patience time.Duration) error {
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	for {
		r.mu.Lock()
		changed := r.changed
		waiting, stuck := 0, []string(nil)
		for p := range r.children {
			if p.givenUp() {
				stuck = append(stuck, fmt.Sprintf("%s (pid %d)", p.name, p.pid))
			} else {
				waiting++
			}
		}
		r.mu.Unlock()
		if waiting == 0 {
			if len(stuck) > 0 {
				return fmt.Errorf("likely orphaned: %s", strings.Join(stuck, ", "))
			}
			return nil
		}
		select {
		case <-changed:
		case <-timeout.C:
			return fmt.Errorf("%d processes have not ended", waiting+len(stuck))
		}
	}
}
