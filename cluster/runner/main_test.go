package runner

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// helperVariable makes this test binary play a child or a worker instead of running tests.
const helperVariable = "RUNNER_TEST_HELPER"

func TestMain(m *testing.M) {
	switch mode := os.Getenv(helperVariable); mode {
	case "":
	case "worker":
		workerHelper()
		return
	case "stubborn":
		stubbornHelper()
		return
	default:
		fmt.Fprintln(os.Stderr, "unknown helper", mode)
		os.Exit(97)
	}
	goleak.VerifyTestMain(m)
}

// workerHelper is a worker: it starts the shell script of its first argument in the work directory of its second, says
// the process id, and waits to be killed.
func workerHelper() {
	r, err := New(Options{WorkDir: os.Args[2]})
	if err != nil {
		fmt.Println("error", err)
		os.Exit(96)
	}
	dir := filepath.Join(os.Args[2], "app-1", "0")
	p, err := r.Start(Spec{Name: "app-1/0", Argv: []string{"/bin/sh", "-c", os.Args[1]}, Env: []string{"PATH=/bin:/usr/bin"},
		Dir: dir, Stdout: filepath.Join(dir, "stdout"), Stderr: filepath.Join(dir, "stderr")})
	if err != nil {
		fmt.Println("error", err)
		os.Exit(95)
	}
	fmt.Println("pid", p.Pid())
	select {}
}

// stubbornHelper ignores SIGTERM and says when it is ready.
func stubbornHelper() {
	signal.Ignore(syscall.SIGTERM)
	fmt.Println("ready")
	for {
		time.Sleep(time.Hour)
	}
}

// newRunner makes a runner that is closed at the end of the test.
func newRunner(t *testing.T, o Options) *Runner {
	t.Helper()
	if o.WorkDir == "" {
		o.WorkDir = filepath.Join(t.TempDir(), "work")
	}
	r, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(0, 10*time.Second); err != nil {
			t.Error(err)
		}
	})
	return r
}

// shell is a Spec for a script.
func shell(r *Runner, name, script string) Spec {
	dir := filepath.Join(r.workDir, name)
	return Spec{Name: name, Argv: []string{"/bin/sh", "-c", script}, Env: []string{"PATH=/bin:/usr/bin"}, Dir: dir,
		Stdout: filepath.Join(dir, "stdout"), Stderr: filepath.Join(dir, "stderr")}
}

// helper is a Spec for a mode of this binary.
func helper(t *testing.T, r *Runner, name, mode string) Spec {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s := shell(r, name, "")
	s.Argv, s.Env = []string{exe}, []string{helperVariable + "=" + mode}
	return s
}

func start(t *testing.T, r *Runner, s Spec) *Process {
	t.Helper()
	p, err := r.Start(s)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// end waits for a process.
func end(t *testing.T, p *Process) Exit {
	t.Helper()
	select {
	case <-p.Done():
	case <-time.After(30 * time.Second):
		t.Fatalf("process %d has not ended", p.Pid())
	}
	return p.Exit()
}

// eventually polls with a generous deadline.
func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !f(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("waited in vain for: " + what)
		}
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// runs is true while a process lives (zombies do not).
func runs(pid int) bool {
	s, err := readStat(pid)
	return err == nil && !s.ended()
}

// pidIn waits for a file that a script writes a process id to.
func pidIn(t *testing.T, path string) int {
	t.Helper()
	pid := 0
	eventually(t, "a process id in "+path, func() bool {
		text, err := os.ReadFile(path)
		if err != nil || !strings.HasSuffix(string(text), "\n") {
			return false
		}
		pid, err = strconv.Atoi(strings.TrimSpace(string(text)))
		return err == nil
	})
	return pid
}

// startWorker runs the worker helper and gives its process and the child's id.
func startWorker(t *testing.T, workDir, script string) (*exec.Cmd, int) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, script, workDir)
	cmd.Env = append(os.Environ(), helperVariable+"=worker")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	var pid int
	if _, err := fmt.Fscanf(out, "pid %d\n", &pid); err != nil {
		t.Fatal("the worker did not start its child: ", err)
	}
	return cmd, pid
}

// fakeClock moves only by Advance. Timers fire when their time has come.
type fakeClock struct {
	mu     sync.Mutex
	now    time.Time
	timers []fakeTimer
	asked  []time.Duration // by After, in order
}

type fakeTimer struct {
	at time.Time
	c  chan time.Time
}

func newFakeClock() *fakeClock { return &fakeClock{now: time.UnixMilli(1_700_000_000_000)} }

func (c *fakeClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *fakeClock) After(d time.Duration) <-chan time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked = append(c.asked, d)
	timer := fakeTimer{c.now.Add(d), make(chan time.Time, 1)}
	c.timers = append(c.timers, timer)
	return timer.c
}

func (c *fakeClock) pauses() []time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]time.Duration(nil), c.asked...)
}

func (c *fakeClock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
	var left []fakeTimer
	for _, timer := range c.timers {
		if timer.at.After(c.now) {
			left = append(left, timer)
		} else {
			timer.c <- c.now
		}
	}
	c.timers = left
}

// racingClock lets every timer fire at once and moves by its duration.
type racingClock struct{ *fakeClock }

func (c racingClock) After(d time.Duration) <-chan time.Time {
	timer := c.fakeClock.After(d)
	c.Advance(d)
	return timer
}
