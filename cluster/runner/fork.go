package runner

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// startPatience bounds how long Start waits: a program or a work directory on a file system that hangs must not hold the
// worker for ever.
const startPatience = 60 * time.Second

var errStartStuck = errors.New("no answer from the kernel in time: the file system of the program or of the work directory hangs")

// forkRequest is one fork. The forking thread closes the child's descriptors once it is over.
type forkRequest struct {
	program string
	spec    Spec
	files   []uintptr // stdin, stdout, stderr of the child
	release func()    // closes them
	result  chan forkResult
}

type forkResult struct {
	pid, pidfd int
	err        error
}

// forkThread makes all forks, until endForks is closed. See the package's comment for why there is one thread.
func (r *Runner) forkThread() {
	defer close(r.forkEnded)
	// Never unlocked: the thread ends with this goroutine, and children that even Close could not end get SIGTERM then.
	runtime.LockOSThread()
	for {
		select {
		case req := <-r.forks:
			result := forkExec(req)
			req.release()
			req.result <- result
		case <-r.endForks:
			return
		}
	}
}

func forkExec(req *forkRequest) forkResult {
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
	select {
	case r.forks <- req:
		return <-req.result
	case <-r.closing:
		req.release()
		return forkResult{err: ErrClosed}
	}
}

// touchProgram reads the beginning of a program. Go's fork holds up the whole process until exec is over (the garbage
// collector waits for it): a file system that hangs has to show it before. What is wrong otherwise, exec says better.
func touchProgram(program, dir string) {
	if !filepath.IsAbs(program) {
		program = filepath.Join(dir, program)
	}
	if info, err := os.Stat(program); err != nil || !info.Mode().IsRegular() {
		return
	}
	file, err := os.Open(program)
	if err != nil {
		return
	}
	defer file.Close()
	_, _ = file.Read(make([]byte, 1))
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
