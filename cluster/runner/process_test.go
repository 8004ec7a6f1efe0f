package runner

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestOutputExitAndHeader(t *testing.T) {
	r := newRunner(t, Options{})
	s := shell(r, "app/0", `echo out; echo err >&2; echo "$A|$PWD|$(umask)"; exit 7`)
	s.Env = append(s.Env, "A=b c")
	s.Header = "Spark Executor Command: \"x\"\n========\n\n"
	s.TruncateStderr = true
	if err := os.MkdirAll(s.Dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{s.Stdout, s.Stderr} {
		if err := os.WriteFile(path, []byte("before\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	e := end(t, start(t, r, s))
	if e.Code != 7 || e.Signaled || e.Killed || e.Orphaned || e.Hint != "" || e.Ended.Before(e.Started) {
		t.Errorf("exit %+v", e)
	}
	if got := read(t, s.Stdout); !strings.HasPrefix(got, "before\nout\nb c|"+s.Dir+"|") {
		t.Errorf("stdout %q", got)
	}
	if got := read(t, s.Stderr); got != s.Header+"err\n" {
		t.Errorf("stderr of an executor is not truncated: %q", got)
	}
	s.TruncateStderr = false
	end(t, start(t, r, s))
	if got := read(t, s.Stderr); got != s.Header+"err\n"+s.Header+"err\n" {
		t.Errorf("stderr of a driver is not appended to: %q", got)
	}
}

func TestNewLogFilesHaveUsualModes(t *testing.T) {
	r := newRunner(t, Options{})
	s := shell(r, "app/0", "exit 0")
	end(t, start(t, r, s))
	old := unix.Umask(0o22)
	unix.Umask(old)
	for path, want := range map[string]os.FileMode{s.Stdout: 0o644, s.Stderr: 0o644, s.Dir: os.ModeDir | 0o755, filepath.Join(r.workDir, stateDir): os.ModeDir | 0o700} {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if want &^= os.FileMode(old); info.Mode() != want {
			t.Errorf("%s has mode %v, want %v", path, info.Mode(), want)
		}
	}
}

func TestChildInheritsNoDescriptor(t *testing.T) {
	r := newRunner(t, Options{})
	for name, rolling := range map[string]*Rolling{"app/0": nil, "app/1": {MaxSize: minRollSize, Layout: "--2006"}} {
		s := shell(r, name, "exec ls -l /proc/self/fd")
		s.Rolling = rolling
		if e := end(t, start(t, r, s)); e.Code != 0 {
			t.Fatalf("exit %+v", e)
		}
		want := []string{"0 -> /dev/null", "1 -> " + s.Stdout, "2 -> " + s.Stderr}
		var got []string
		for _, line := range strings.Split(read(t, s.Stdout), "\n") {
			fields := strings.Fields(line)
			if len(fields) > 3 && !strings.HasPrefix(fields[len(fields)-1], "/proc/") { // ls's own look
				got = append(got, strings.Join(fields[len(fields)-3:], " "))
			}
		}
		if rolling != nil && len(got) == 3 && strings.HasPrefix(got[1], "1 -> pipe:") && strings.HasPrefix(got[2], "2 -> pipe:") {
			got = want
		}
		if !slices.Equal(got, want) {
			t.Errorf("descriptors %q, want %q", got, want)
		}
	}
}

func TestChildLeadsItsSession(t *testing.T) {
	r := newRunner(t, Options{})
	p := start(t, r, shell(r, "app/0", "exec sleep 600"))
	if s, err := readStat(p.Pid()); err != nil || s.group != p.Pid() || s.session != p.Pid() || s.parent != os.Getpid() {
		t.Errorf("%+v, %v", s, err)
	}
}

func TestSignalIsReportedAsByAJVM(t *testing.T) {
	r := newRunner(t, Options{})
	e := end(t, start(t, r, shell(r, "app/0", "kill -TERM $$")))
	if e.Code != 143 || !e.Signaled || e.Signal != 15 || e.Killed || e.Hint != "" {
		t.Errorf("exit %+v", e)
	}
	e = end(t, start(t, r, shell(r, "app/1", "kill -KILL $$")))
	if e.Code != 137 || !strings.Contains(e.Hint, "out-of-memory") {
		t.Errorf("exit %+v", e)
	}
}

func TestOOMCounter(t *testing.T) {
	file := filepath.Join(t.TempDir(), "memory.events")
	write := func(n int) {
		if err := os.WriteFile(file, []byte(fmt.Sprintf("low 0\noom 3\noom_kill %d\n", n)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(2)
	r := newRunner(t, Options{})
	r.oom = &oomCounter{file}
	p := start(t, r, shell(r, "app/0", "sleep 60 & wait"))
	write(3)
	if err := unix.Kill(p.Pid(), unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if e := end(t, p); e.Code != 137 || !strings.Contains(e.Hint, "memory limit of this worker's control group") {
		t.Errorf("exit %+v", e)
	}
	got := oomCandidates("4:memory:/a/b\n0::/\n5:cpu:/x\nnonsense\n")
	want := []string{"/sys/fs/cgroup/memory/a/b/memory.oom_control", "/sys/fs/cgroup/memory/memory.oom_control",
		"/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory.events"}
	if !slices.Equal(got, want) {
		t.Errorf("candidates %q", got)
	}
}

func TestKillEscalates(t *testing.T) {
	r := newRunner(t, Options{})
	t.Run("polite", func(t *testing.T) {
		p := start(t, r, shell(r, "app/0", "sleep 60 & wait"))
		p.Kill(30*time.Second, 30*time.Second)
		if e := end(t, p); e.Code != 143 || !e.Killed || e.Hint != "" {
			t.Errorf("exit %+v", e)
		}
	})
	stubborn := func(t *testing.T, name string) *Process {
		s := helper(t, r, name, "stubborn")
		p := start(t, r, s)
		eventually(t, "the child ignores SIGTERM", func() bool { return strings.Contains(read(t, s.Stdout), "ready") })
		return p
	}
	t.Run("ignores SIGTERM", func(t *testing.T) {
		p := stubborn(t, "app/1")
		p.Kill(50*time.Millisecond, 30*time.Second)
		if e := end(t, p); e.Code != 137 || !e.Killed || e.Hint != "" {
			t.Errorf("exit %+v", e)
		}
	})
	t.Run("second kill hastens", func(t *testing.T) {
		p := stubborn(t, "app/2")
		p.Kill(time.Hour, 30*time.Second)
		p.Kill(time.Hour, 30*time.Second)
		p.Kill(0, 0)
		p.Kill(0, 0)
		if e := end(t, p); e.Code != 137 {
			t.Errorf("exit %+v", e)
		}
	})
	t.Run("after the end", func(t *testing.T) {
		p := start(t, r, shell(r, "app/3", "exit 3"))
		e := end(t, p)
		p.Kill(time.Second, time.Second)
		if again := p.Exit(); again != e || again.Killed {
			t.Errorf("exit %+v after a late kill", again)
		}
	})
}

func TestStoppedProcessIsKilled(t *testing.T) {
	r := newRunner(t, Options{})
	p := start(t, r, shell(r, "app/0", "kill -STOP $$"))
	eventually(t, "stopped", func() bool { s, err := readStat(p.Pid()); return err == nil && s.state == 'T' })
	p.Kill(20*time.Millisecond, 30*time.Second)
	if e := end(t, p); e.Code != 137 {
		t.Errorf("exit %+v", e)
	}
}

// TestGrandchildrenEndWithTheirLeader covers a member of the group, one that made a group of its own in the session (as
// pyspark.daemon does), and one that ignores SIGTERM.
func TestGrandchildrenEndWithTheirLeader(t *testing.T) {
	const script = `
sh -c 'echo $$ > a; exec sleep 600' &
set -m
sh -c 'echo $$ > b; exec sleep 600' &
set +m
sh -c 'trap "" TERM; echo $$ > c; while :; do sleep 1; done' &
while [ ! -s a ] || [ ! -s b ] || [ ! -s c ]; do sleep 0.01; done
echo x > ready
`
	for _, how := range []string{"killed", "exits"} {
		t.Run(how, func(t *testing.T) {
			r := newRunner(t, Options{GroupGrace: 200 * time.Millisecond})
			tail := "exit 0"
			if how == "killed" {
				tail = "wait"
			}
			s := shell(r, "app/0", script+tail)
			s.Argv[0] = "/bin/bash" // sh has no job control without a terminal
			p := start(t, r, s)
			var pids []int
			for _, name := range []string{"a", "b", "c"} {
				pids = append(pids, pidIn(t, filepath.Join(s.Dir, name)))
			}
			eventually(t, "ready", func() bool { return exists(filepath.Join(s.Dir, "ready")) })
			b, err := readStat(pids[1])
			if how == "killed" && (err != nil || b.group == p.Pid() || b.session != p.Pid()) {
				t.Fatalf("the second grandchild has no group of its own: %+v %v", b, err)
			}
			if how == "killed" {
				p.Kill(100*time.Millisecond, 30*time.Second)
			}
			end(t, p)
			for _, pid := range pids {
				eventually(t, "end of a grandchild", func() bool { return !runs(pid) })
			}
			eventually(t, "the leader is reaped", func() bool { return r.Running() == 0 })
		})
	}
}

// TestLeaderStaysAZombieUntilItsGroupIsGone shows that the group's id cannot be another's while it is signalled.
func TestLeaderStaysAZombieUntilItsGroupIsGone(t *testing.T) {
	r := newRunner(t, Options{GroupGrace: 200 * time.Millisecond})
	s := shell(r, "app/0", `sh -c 'trap "" TERM; echo $$ > a; while :; do sleep 1; done' & while [ ! -s a ]; do sleep 0.01; done; exit 0`)
	p := start(t, r, s)
	end(t, p)
	grandchild := pidIn(t, filepath.Join(s.Dir, "a"))
	for runs(grandchild) {
		stat, err := readStat(p.Pid())
		if err == nil && stat.ended() {
			time.Sleep(10 * time.Millisecond)
			continue
		}
		if runs(grandchild) {
			t.Fatalf("the leader is gone while its group lives: %+v %v", stat, err)
		}
	}
	eventually(t, "the leader is reaped", func() bool { _, err := readStat(p.Pid()); return errors.Is(err, os.ErrNotExist) })
}

// TestUnendingProcessIsGivenUp uses a process whose end nobody can see: its group is never signalled.
func TestUnendingProcessIsGivenUp(t *testing.T) {
	r := newRunner(t, Options{})
	p := start(t, r, shell(r, "app/0", "sleep 600 & wait"))
	p.mu.Lock()
	p.reaped = true // signals are held back from now on, as if they had no effect
	p.mu.Unlock()
	p.Kill(10*time.Millisecond, 10*time.Millisecond)
	if e := end(t, p); !e.Orphaned || e.Code != -1 || !e.Killed {
		t.Errorf("exit %+v", e)
	}
	if err := r.Close(time.Millisecond, time.Millisecond); err == nil || !strings.Contains(err.Error(), "likely orphaned: app/0") {
		t.Errorf("close: %v", err)
	}
	if !exists(p.ledgerPath) {
		t.Error("the ledger has forgotten an orphan")
	}
	if err := unix.Kill(-p.Pid(), unix.SIGKILL); err != nil {
		t.Error(err)
	}
	if _, err := syscall.Wait4(p.Pid(), nil, 0, nil); err != nil {
		t.Error(err)
	}
}

func descriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

func threads(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

func Test200AtOnce(t *testing.T) {
	for _, rolled := range []bool{false, true} {
		t.Run(fmt.Sprintf("rolling=%v", rolled), func(t *testing.T) {
			r := newRunner(t, Options{})
			end(t, start(t, r, shell(r, "warm", "exit 0")))
			eventually(t, "reaped", func() bool { return r.Running() == 0 })
			before := descriptors(t)
			var wg sync.WaitGroup
			var mu sync.Mutex
			var all []*Process
			for i := range 200 {
				wg.Go(func() {
					s := shell(r, fmt.Sprintf("app/%d", i), "echo hello; exec sleep 600")
					if rolled {
						s.Rolling = &Rolling{MaxSize: minRollSize, Layout: "--2006"}
					}
					if i%10 == 9 {
						s.Argv = []string{"/no/such/java"}
					}
					p, err := r.Start(s)
					if (err != nil) != (i%10 == 9) {
						t.Errorf("%d: %v", i, err)
					}
					if err == nil {
						mu.Lock()
						all = append(all, p)
						mu.Unlock()
					}
				})
			}
			wg.Wait()
			if n := threads(t); n > 100 {
				t.Errorf("%d threads wait for 180 children", n)
			}
			if len(all) != 180 || r.Running() != 180 {
				t.Fatalf("%d started, %d running", len(all), r.Running())
			}
			for _, p := range all {
				p.Kill(20*time.Second, 20*time.Second)
			}
			for _, p := range all {
				if e := end(t, p); e.Code != 143 {
					t.Errorf("exit %+v", e)
				}
			}
			eventually(t, "all reaped", func() bool { return r.Running() == 0 })
			eventually(t, "descriptors closed", func() bool { return descriptors(t) <= before })
			if left, err := os.ReadDir(filepath.Join(r.ledger.dir, childrenDir)); err != nil || len(left) != 0 {
				t.Errorf("ledger holds %v, %v", left, err)
			}
			if _, err := os.Stat(filepath.Join(r.workDir, "app", "9")); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("a failed start left its directory: %v", err)
			}
		})
	}
}

// TestDeathSignalDoesNotComeFromOtherThreads ends threads of this process while children run: only the forking thread counts.
func TestDeathSignalDoesNotComeFromOtherThreads(t *testing.T) {
	r := newRunner(t, Options{})
	var processes []*Process
	for i := range 20 {
		ready := make(chan *Process)
		go func() {
			lockedForever() // this goroutine's thread ends with it
			p, err := r.Start(shell(r, fmt.Sprintf("app/%d", i), "exec sleep 600"))
			if err != nil {
				t.Error(err)
			}
			ready <- p
		}()
		if p := <-ready; p != nil {
			processes = append(processes, p)
		}
	}
	time.Sleep(200 * time.Millisecond)
	for _, p := range processes {
		if !runs(p.Pid()) {
			t.Errorf("process %d ended with a thread: %+v", p.Pid(), p.Exit())
		}
	}
}

// TestStartThatHangs: Start comes back, other starts go on, and a process that comes too late is ended.
func TestStartThatHangs(t *testing.T) {
	r := newRunner(t, Options{})
	hang := make(chan struct{})
	late := shell(r, "late", "exec sleep 600")
	r.patience = 50 * time.Millisecond
	r.touch = func(_, dir string) {
		if dir == late.Dir {
			<-hang
		}
	}
	_, err := r.Start(late)
	if err == nil || !errors.Is(err, errStartStuck) || !strings.Contains(err.Error(), "hangs") {
		t.Errorf("start that hangs: %v", err)
	}
	r.patience = 30 * time.Second
	if e := end(t, start(t, r, shell(r, "app/0", "exit 0"))); e.Code != 0 {
		t.Errorf("exit %+v", e)
	}
	close(hang)
	eventually(t, "the late process has started", func() bool { return exists(late.Stdout) })
	r.starting.Wait()
	eventually(t, "the late process is ended", func() bool { return r.Running() == 0 })
}

// TestCloseDoesNotWaitForAnEarlierKill: Close's own grace counts.
func TestCloseDoesNotWaitForAnEarlierKill(t *testing.T) {
	r := newRunner(t, Options{})
	s := helper(t, r, "app/0", "stubborn")
	p := start(t, r, s)
	eventually(t, "the child ignores SIGTERM", func() bool { return strings.Contains(read(t, s.Stdout), "ready") })
	p.Kill(time.Hour, time.Hour)
	if err := r.Close(50*time.Millisecond, 20*time.Second); err != nil {
		t.Fatal(err)
	}
	if e := end(t, p); e.Code != 137 {
		t.Errorf("exit %+v", e)
	}
}

func BenchmarkStart(b *testing.B) {
	r, err := New(Options{WorkDir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	s := shell(r, "app/0", "")
	s.Argv = []string{"/bin/true"}
	b.ReportAllocs()
	for b.Loop() {
		p, err := r.Start(s)
		if err != nil {
			b.Fatal(err)
		}
		<-p.Done()
	}
	if err := r.Close(time.Second, time.Second); err != nil {
		b.Fatal(err)
	}
}

func TestCloseEndsChildrenAndStarts(t *testing.T) {
	r := newRunner(t, Options{})
	p := start(t, r, shell(r, "app/0", "exec sleep 600"))
	if err := r.Close(10*time.Second, 10*time.Second); err != nil {
		t.Fatal(err)
	}
	if e := end(t, p); e.Code != 143 || !e.Killed {
		t.Errorf("exit %+v", e)
	}
	if _, err := r.Start(shell(r, "app/1", "exit 0")); !errors.Is(err, ErrClosed) {
		t.Errorf("start after close: %v", err)
	}
	if err := r.Close(0, 0); err != nil {
		t.Errorf("second close: %v", err)
	}
}
