package sparktest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// TB is the part of testing.TB that this package needs, so that the benchmark
// programs under scripts can drive clusters too. Fatalf must not return.
type TB interface {
	Helper()
	Name() string
	Failed() bool
	Logf(format string, args ...any)
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
	Cleanup(func())
}

// markEnv is set in the environment of every process of a cluster, and inherited
// by what they start, so that Close finds executors and Python workers too.
const markEnv = "RAFTMASTER_TEST_CLUSTER"

// Process is one operating system process of a cluster. Its methods may be
// called from any goroutine.
type Process struct {
	Name    string
	LogPath string // standard output and error together

	cmd  *exec.Cmd
	done chan struct{} // closed when the process has been waited for
	err  error         // its outcome; read after done
}

type processSpec struct {
	name string
	log  string
	dir  string
	env  []string
	args []string
}

func startProcess(spec processSpec) (*Process, error) {
	log, err := os.OpenFile(spec.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("log of %s: %w", spec.name, err)
	}
	defer log.Close()
	cmd := exec.Command(spec.args[0], spec.args[1:]...)
	cmd.Env, cmd.Dir = spec.env, spec.dir
	cmd.Stdout, cmd.Stderr = log, log
	// Pdeathsig reaches the process itself when the test binary dies, however it
	// dies; executors and Python workers follow their parents.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", spec.name, err)
	}
	p := &Process{Name: spec.name, LogPath: spec.log, cmd: cmd, done: make(chan struct{})}
	go func() {
		p.err = cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// PID returns the process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Running reports whether the process has not ended.
func (p *Process) Running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// Signal sends a signal to the process alone, not to its group: a worker can be
// killed or paused while its executors run on.
func (p *Process) Signal(sig syscall.Signal) error {
	if !p.Running() {
		return fmt.Errorf("%s has ended (%v)", p.Name, p.err)
	}
	return p.cmd.Process.Signal(sig)
}

// Wait waits for the end and returns the exit code, -1 if a signal ended the
// process. It gives up after the time-out.
func (p *Process) Wait(timeout time.Duration) (int, error) {
	select {
	case <-p.done:
	case <-time.After(timeout):
		return 0, fmt.Errorf("%s still runs after %v", p.Name, timeout)
	}
	var exit *exec.ExitError
	if p.err != nil && !errors.As(p.err, &exit) {
		return 0, fmt.Errorf("wait for %s: %w", p.Name, p.err)
	}
	return p.cmd.ProcessState.ExitCode(), nil
}

// Log returns everything that the process has printed so far.
func (p *Process) Log() string {
	data, err := os.ReadFile(p.LogPath)
	if err != nil {
		return fmt.Sprintf("(log of %s cannot be read: %v)", p.Name, err)
	}
	return string(data)
}

// LogMatches returns the matches of the pattern in the log so far.
func (p *Process) LogMatches(pattern string) []string {
	return regexp.MustCompile(pattern).FindAllString(p.Log(), -1)
}

// kill ends the process and its group, and waits for it.
func (p *Process) kill() {
	if p.Running() {
		_ = syscall.Kill(-p.PID(), syscall.SIGKILL) // it may end by itself meanwhile
	}
	<-p.done
}

// marked lists the processes whose environment carries the mark, this one excepted.
func marked(mark string) []int {
	needle := []byte(markEnv + "=" + mark + "\x00")
	environs, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		return nil
	}
	var pids []int
	for _, path := range environs {
		data, err := os.ReadFile(path)
		if err != nil || !bytes.Contains(data, needle) {
			continue
		}
		if pid, err := strconv.Atoi(strings.Split(path, "/")[2]); err == nil && pid != os.Getpid() {
			pids = append(pids, pid)
		}
	}
	return pids
}

// reapMarked kills every process whose environment carries the mark and returns
// how many there were. It repeats until none is left, because a dying worker may
// still be starting an executor.
func reapMarked(mark string) (killed int) {
	deadline := time.Now().Add(10 * time.Second)
	for time.Now().Before(deadline) {
		pids := marked(mark)
		if len(pids) == 0 {
			return killed
		}
		for _, pid := range pids {
			if syscall.Kill(pid, syscall.SIGKILL) == nil {
				killed++
			}
		}
		time.Sleep(20 * time.Millisecond)
	}
	return killed
}

// lastLines returns the last n lines of text.
func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	if len(lines) > n {
		lines = lines[len(lines)-n:]
	}
	return strings.Join(lines, "\n")
}

// Eventually polls until cond returns nil, and fails the test with the last
// error when it has not within the time-out.
func Eventually(tb TB, timeout time.Duration, what string, cond func() error) {
	tb.Helper()
	deadline := time.Now().Add(timeout)
	for pause := 5 * time.Millisecond; ; pause = min(pause*3/2, 200*time.Millisecond) {
		err := cond()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			tb.Fatalf("%s: not within %v: %v", what, timeout, err)
		}
		time.Sleep(pause)
	}
}
