package runner

import (
	"errors"
	"math"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// forkPatience bounds how long Start waits for its turn and for exec: a program on a file system that hangs must not
// hold the worker for ever.
const forkPatience = 60 * time.Second

var errForkStuck = errors.New("no answer from the kernel for a minute: the program's or the work directory's file system hangs")

// forkRequest is one fork. Its descriptors are closed by the forking thread once the fork is over, or by Start if the
// thread never took it.
type forkRequest struct {
	program string
	spec    Spec
	files   []uintptr // stdin, stdout, stderr of the child
	release func()    // closes them
	result  chan forkResult
	// settled is set by whoever comes first: Start that gives up, or the thread that delivers.
	settled atomic.Bool
}

type forkResult struct {
	pid, pidfd int
	err        error
}

// forkThread makes all forks, until requests is closed. See the package's comment for why there is one thread.
func (r *Runner) forkThread() {
	defer close(r.forkEnded)
	// Never unlocked: the thread ends with this goroutine, and children that even Close could not end get SIGTERM then.
	runtime.LockOSThread()
	for req := range r.forks {
		result := fork(req)
		req.release()
		if req.settled.CompareAndSwap(false, true) {
			req.result <- result
		} else if result.err == nil {
			r.abandonFork(req.spec, result)
		}
	}
}

func fork(req *forkRequest) forkResult {
	pidfd := -1
	pid, err := syscall.ForkExec(req.program, req.spec.Argv, &syscall.ProcAttr{
		Dir:   req.spec.Dir,
		Env:   req.spec.Env,
		Files: req.files,
		Sys: &syscall.SysProcAttr{
			Setsid:    true, // a session has its own process group as well
			Pdeathsig: syscall.SIGTERM,
			PidFD:     &pidfd,
		},
	})
	return forkResult{pid, pidfd, err}
}

// fork hands a request to the forking thread and waits for the outcome.
func (r *Runner) fork(req *forkRequest) forkResult {
	timeout := time.NewTimer(forkPatience)
	defer timeout.Stop()
	select {
	case r.forks <- req:
	case <-r.closing:
		req.release()
		return forkResult{err: ErrClosed}
	case <-timeout.C:
		req.release()
		return forkResult{err: errForkStuck}
	}
	select {
	case result := <-req.result:
		return result
	case <-timeout.C:
		if !req.settled.CompareAndSwap(false, true) {
			return <-req.result
		}
		return forkResult{err: errForkStuck}
	}
}

// abandonFork ends a child whose Start has given up.
func (r *Runner) abandonFork(s Spec, result forkResult) {
	r.log.Warn("a process started after its start was given up; ending it", "name", s.Name, "pid", result.pid)
	p := r.adopt(s, result, nil, nil)
	p.Kill(0, DefaultGrace)
}

// keepDescriptors marks what this process itself inherited (from a shell, say) as not to be inherited further. What Go
// opens is marked already.
var keepDescriptors = sync.OnceValue(func() error {
	const first = 3
	err := unix.CloseRange(first, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC)
	if err == nil {
		return nil
	}
	entries, err := os.ReadDir("/proc/self/fd") // a kernel before 5.11
	if err != nil {
		return err
	}
	for _, e := range entries {
		if fd, err := strconv.Atoi(e.Name()); err == nil && fd >= first {
			unix.CloseOnExec(fd)
		}
	}
	return nil
})

// devNull is the standard input of every child.
func devNull() (*os.File, error) { return os.Open(os.DevNull) }
