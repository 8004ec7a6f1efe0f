package runner

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// drainPatience is how long an end waits for the copiers of rolled logs, so that the last lines are in the files when
// it is reported. A grandchild that holds the pipe can keep them longer.
const drainPatience = time.Second

// Process is a child. All methods may be called by any goroutine.
type Process struct {
	runner     *Runner
	name       string
	pid        int
	ledgerPath string
	copiers    []*copier
	oomBefore  int64
	pidfd      *os.File // nil on a kernel without

	done    chan struct{}
	hasten  chan struct{} // closed by a later Kill with grace 0
	dropped atomic.Bool   // letGo was called

	mu       sync.Mutex
	exit     Exit
	ended    bool // done is closed
	killing  bool
	hastened bool
	sentKill bool // SIGKILL was ours
	reaped   bool // the ids may belong to others: no more signals
}

// Pid is the process id, and the id of its group and session.
func (p *Process) Pid() int { return p.pid }

// Name is Spec.Name.
func (p *Process) Name() string { return p.name }

// Done is closed at the end of the process, or when it is given up as orphaned.
func (p *Process) Done() <-chan struct{} { return p.done }

// Exit says how it ended; before Done is closed only Started is set.
func (p *Process) Exit() Exit {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.exit
}

func (p *Process) givenUp() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.exit.Orphaned
}

// Kill sends SIGTERM to the process group, after grace SIGKILL, and after hard gives the process up as orphaned. It never
// blocks. Called again it can only hasten: a grace of 0 sends SIGKILL at once.
func (p *Process) Kill(grace, hard time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return
	}
	p.exit.Killed = true
	if !p.killing {
		p.killing = true
		go p.escalate(grace, hard)
	} else if grace <= 0 && !p.hastened {
		p.hastened = true
		close(p.hasten)
	}
}

// escalate is ExecutorRunner's and DriverRunner's terminateProcess (Utils.scala), for the whole group.
func (p *Process) escalate(grace, hard time.Duration) {
	if grace > 0 {
		p.signalGroup(unix.SIGTERM)
		timer := time.NewTimer(grace)
		defer timer.Stop()
		select {
		case <-p.done:
			return
		case <-timer.C:
			p.runner.log.Warn("process did not end after SIGTERM", "name", p.name, "pid", p.pid, "grace", grace)
		case <-p.hasten:
		}
	}
	p.signalGroup(unix.SIGKILL)
	timer := time.NewTimer(hard)
	defer timer.Stop()
	select {
	case <-p.done:
	case <-timer.C:
		p.finish(func(e *Exit) { e.Code, e.Orphaned = -1, true })
	}
}

// signalGroup signals every process of the group while the group's id is surely ours.
func (p *Process) signalGroup(sig unix.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reaped {
		return
	}
	if sig == unix.SIGKILL {
		p.sentKill = true
	}
	if err := unix.Kill(-p.pid, sig); err != nil && !errors.Is(err, unix.ESRCH) {
		p.runner.log.Warn("cannot signal a process group", "name", p.name, "pid", p.pid, "signal", sig.String(), "error", err)
	}
}

// watch begins to wait for the child's end.
func (p *Process) watch(pidfd int) {
	if pidfd >= 0 {
		// Only a non-blocking descriptor is given to the poller by os.NewFile.
		if err := unix.SetNonblock(pidfd, true); err != nil {
			p.runner.log.Warn("pidfd", "error", err)
		}
		p.pidfd = os.NewFile(uintptr(pidfd), "pidfd")
	}
	go p.await()
}

// await waits for the end, reports it, has the rest of the group ended and reaps the child.
func (p *Process) await() {
	status, err := p.waitEnd()
	if err != nil {
		if p.dropped.Load() { // it has been reported as orphaned, or the runner is closed
			return
		}
		p.runner.log.Error("cannot wait for a process", "name", p.name, "pid", p.pid, "error", err)
		p.finish(func(e *Exit) { e.Code, e.Orphaned = -1, true })
		return
	}
	p.drain()
	p.finish(func(e *Exit) { p.describe(e, status) })
	p.runner.sweeper.add(p)
}

// waitEnd waits until the child is a zombie, and leaves it so.
func (p *Process) waitEnd() (exitStatus, error) {
	if p.pidfd == nil {
		return peek(unix.P_PID, p.pid, 0)
	}
	raw, err := p.pidfd.SyscallConn()
	if err != nil {
		return exitStatus{}, err
	}
	var status exitStatus
	var waitErr error
	err = raw.Read(func(fd uintptr) bool {
		status, waitErr = peek(unix.P_PIDFD, int(fd), unix.WNOHANG)
		return waitErr != nil || status.code != 0
	})
	if err == nil {
		return status, waitErr
	}
	if p.dropped.Load() {
		return exitStatus{}, os.ErrClosed
	}
	return peek(unix.P_PID, p.pid, 0) // the poller did not take it: wait on a thread
}

// exitStatus is what waitid says: code is CLD_EXITED, CLD_KILLED or CLD_DUMPED, 0 if the child runs.
type exitStatus struct{ code, status int }

const (
	cldExited = 1 // <bits/siginfo-consts.h>
	// siginfoFields is the offset of the fields that depend on the signal, and statusOffset of si_status, behind pid and uid.
	siginfoFields = (12 + unsafe.Sizeof(uintptr(0)) - 1) / unsafe.Sizeof(uintptr(0)) * unsafe.Sizeof(uintptr(0))
	statusOffset  = siginfoFields + 8
)

// peek asks for the end of a child without reaping it.
func peek(idType, id, options int) (exitStatus, error) {
	for {
		var info unix.Siginfo
		err := unix.Waitid(idType, id, &info, unix.WEXITED|unix.WNOWAIT|options, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || info.Signo == 0 {
			return exitStatus{}, err
		}
		// Package unix does not name si_status.
		status := *(*int32)(unsafe.Add(unsafe.Pointer(&info), statusOffset))
		return exitStatus{code: int(info.Code), status: int(status)}, nil
	}
}

// describe fills the exit; p.mu is held.
func (p *Process) describe(e *Exit, s exitStatus) {
	if s.code == cldExited {
		e.Code = s.status
		return
	}
	e.Signaled, e.Signal, e.Code = true, s.status, 128+s.status
	if s.status != int(unix.SIGKILL) || p.sentKill {
		return
	}
	if p.runner.oom.read() > p.oomBefore {
		e.Hint = "The kernel's out-of-memory killer ended it: the memory limit of this worker's control group was reached"
	} else {
		e.Hint = "Ended by SIGKILL that this worker did not send, often the kernel's out-of-memory killer"
	}
}

// drain gives the copiers a moment to write what the child has said.
func (p *Process) drain() {
	if len(p.copiers) == 0 {
		return
	}
	timer := time.NewTimer(drainPatience)
	defer timer.Stop()
	for _, c := range p.copiers {
		select {
		case <-c.ended:
		case <-timer.C:
			return
		}
	}
}

// finish sets the exit once and closes done.
func (p *Process) finish(set func(*Exit)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return
	}
	p.ended = true
	set(&p.exit)
	p.exit.Ended = p.runner.clock.Now()
	if p.exit.Orphaned {
		p.runner.log.Error("process will likely be orphaned: it did not end after SIGKILL", "name", p.name, "pid", p.pid)
	}
	close(p.done)
}

// reap frees the ids. gone is true if nothing of the group is left.
func (p *Process) reap(gone bool) error {
	p.mu.Lock()
	_, err := unix.Wait4(p.pid, nil, unix.WNOHANG, nil)
	p.reaped = true
	p.mu.Unlock()
	if p.pidfd != nil {
		err = errors.Join(err, p.pidfd.Close())
	}
	for _, c := range p.copiers {
		c.stop()
	}
	if gone && p.ledgerPath != "" {
		if removeErr := os.Remove(p.ledgerPath); removeErr != nil && !errors.Is(removeErr, os.ErrNotExist) {
			err = errors.Join(err, removeErr)
		}
	}
	p.runner.forget(p)
	if err != nil {
		return fmt.Errorf("end of process %d: %w", p.pid, err)
	}
	return nil
}

// letGo ends the goroutines of a child that does not end.
func (p *Process) letGo() {
	p.dropped.Store(true)
	for _, c := range p.copiers {
		c.stop()
	}
	if p.pidfd != nil {
		_ = p.pidfd.Close() // wakes await; there is nothing to lose in a pidfd
	}
}
