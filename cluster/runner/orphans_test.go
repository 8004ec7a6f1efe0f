package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestWorkerKilledLeavesOrphansToTheNext kills a real worker process: its child gets SIGTERM from the kernel, ignores it
// like its grandchild, and both are ended by the next worker.
func TestWorkerKilledLeavesOrphansToTheNext(t *testing.T) {
	work := filepath.Join(t.TempDir(), "work")
	worker, pid := startWorker(t, work, `trap 'echo TERM >> got' TERM; sh -c 'trap "" TERM; echo $$ > grandchild; while :; do sleep 1; done' & while :; do sleep 0.05; done`)
	dir := filepath.Join(work, "app-1", "0")
	grandchild := pidIn(t, filepath.Join(dir, "grandchild"))

	if _, err := New(Options{WorkDir: work}); !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), "process "+strconv.Itoa(worker.Process.Pid)) {
		t.Fatalf("a second worker on the same directory: %v", err)
	}
	if err := worker.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = worker.Wait()
	eventually(t, "the kernel's SIGTERM", func() bool { return exists(filepath.Join(dir, "got")) })

	r := newRunner(t, Options{WorkDir: work, OrphanGrace: 50 * time.Millisecond})
	ended, err := r.EndOrphans(context.Background())
	if err != nil || len(ended) != 1 || ended[0].Pid != pid || ended[0].Name != "app-1/0" || ended[0].Dir != dir || ended[0].Members < 2 {
		t.Fatalf("ended %+v, %v", ended, err)
	}
	if runs(pid) || runs(grandchild) {
		t.Error("an orphan still runs")
	}
	if ended, err := r.EndOrphans(context.Background()); err != nil || len(ended) != 0 {
		t.Errorf("again %+v, %v", ended, err)
	}
}

// TestPoliteChildDiesWithItsWorker shows that the kernel's SIGTERM alone is enough for most.
func TestPoliteChildDiesWithItsWorker(t *testing.T) {
	worker, pid := startWorker(t, t.TempDir(), "exec sleep 600")
	if err := worker.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = worker.Wait()
	eventually(t, "end of the child", func() bool { return !runs(pid) })
}

// bystander is a process of somebody else.
func bystander(t *testing.T, r *Runner) *Process {
	t.Helper()
	return start(t, r, Spec{Name: "bystander", Argv: []string{"/bin/sleep", "600"}, Dir: r.workDir,
		Stdout: filepath.Join(r.workDir, "out"), Stderr: filepath.Join(r.workDir, "err")})
}

func writeEntry(t *testing.T, r *Runner, name string, i intent, s *started) string {
	t.Helper()
	dir := filepath.Join(r.ledger.dir, childrenDir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(i)
	if err != nil {
		t.Fatal(err)
	}
	text = append(text, '\n')
	if s != nil {
		line, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		text = append(append(text, line...), '\n')
	}
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestForgedEntriesTouchNobody: ids that were given to other processes, another boot, another container, damage.
func TestForgedEntriesTouchNobody(t *testing.T) {
	other := newRunner(t, Options{})
	victim := bystander(t, other)
	stat, err := readStat(victim.Pid())
	if err != nil {
		t.Fatal(err)
	}
	r := newRunner(t, Options{OrphanGrace: time.Millisecond})
	good := intent{Version: 1, Boot: r.ledger.boot, Namespace: r.ledger.namespace, Name: "app/0", Dir: other.workDir, Argv: "0", After: 0}
	boot, namespace, far := good, good, good
	boot.Boot, namespace.Namespace, far.Version = "another", "pid:[1]", 2
	elsewhere := good
	elsewhere.Dir = "/no/such/directory"
	elsewhere.Argv = argvDigest(cmdlineOf([]string{"/bin/sleep", "600"}))
	writeEntry(t, r, "0-reused", good, &started{victim.Pid(), stat.start - 1})
	writeEntry(t, r, "0-boot", boot, &started{victim.Pid(), stat.start})
	writeEntry(t, r, "0-namespace", namespace, &started{victim.Pid(), stat.start})
	writeEntry(t, r, "0-version", far, &started{victim.Pid(), stat.start})
	writeEntry(t, r, "0-init", good, &started{1, 0})
	writeEntry(t, r, "0-arguments", good, nil)
	writeEntry(t, r, "0-elsewhere", elsewhere, nil)
	for name, text := range map[string]string{"0-empty": "", "0-cut": `{"v":1`, "0-noise": "\x00\xff\n\n"} {
		if err := os.WriteFile(filepath.Join(r.ledger.dir, childrenDir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// The runner's own living children are no orphans either.
	own := bystander(t, r)
	ended, err := r.EndOrphans(context.Background())
	if err != nil || len(ended) != 0 {
		t.Errorf("ended %+v, %v", ended, err)
	}
	if !runs(victim.Pid()) || !runs(own.Pid()) {
		t.Error("a bystander was ended")
	}
	if left, err := os.ReadDir(filepath.Join(r.ledger.dir, childrenDir)); err != nil || len(left) != 1 {
		t.Errorf("the ledger holds %v, %v", left, err)
	}
}

// TestReusedIdKeepsItsGroup: the id's new owner keeps its children, even in the orphan's directory.
func TestReusedIdKeepsItsGroup(t *testing.T) {
	ours := procStat{pid: 10, group: 10, session: 10, state: 'S', start: 50}
	member := procStat{pid: 11, group: 10, session: 10, state: 'S', start: 60}
	zombie := procStat{pid: 10, group: 10, session: 10, state: 'Z', start: 50}
	other := ours
	other.start = 70
	of := func(all ...procStat) []procStat {
		o := &orphan{Orphan: Orphan{Pid: 10, Dir: "/no/such/directory"}, entry: entry{started: started{10, 50}}}
		return o.living(all)
	}
	for _, c := range []struct {
		what string
		got  []procStat
		want int
	}{
		{"both", of(ours, member), 2},
		{"leader is a zombie", of(zombie, member), 1},
		{"id belongs to another", of(other, member), 0},
		{"leader is gone, member is in another directory", of(member), 0},
		{"nobody", of(), 0},
	} {
		if len(c.got) != c.want {
			t.Errorf("%s: %+v", c.what, c.got)
		}
	}
}

// TestUnconfirmedChildIsFound covers a worker that died between fork and the note of the process id.
func TestUnconfirmedChildIsFound(t *testing.T) {
	other := newRunner(t, Options{})
	p := start(t, other, shell(other, "app/0", "exec sleep 600"))
	again := start(t, other, shell(other, "app/1", "exec sleep 600"))
	argv := []string{"sleep", "600"}
	r := newRunner(t, Options{OrphanGrace: 10 * time.Second})
	eventually(t, "exec", func() bool {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.Pid()))
		return err == nil && string(text) == string(cmdlineOf(argv))
	})
	stat, err := readStat(p.Pid())
	if err != nil {
		t.Fatal(err)
	}
	writeEntry(t, r, "0-1", intent{1, r.ledger.boot, r.ledger.namespace, "app/0", filepath.Join(other.workDir, "app/0"), argvDigest(cmdlineOf(argv)), stat.start}, nil)
	ended, err := r.EndOrphans(context.Background())
	if err != nil || len(ended) != 1 || ended[0].Pid != p.Pid() {
		t.Errorf("ended %+v, %v", ended, err)
	}
	end(t, p)
	if !runs(again.Pid()) {
		t.Error("a process in another directory was ended")
	}
}

// TestLeaderlessGroupIsFound: the executor died with its worker, its Python worker did not.
func TestLeaderlessGroupIsFound(t *testing.T) {
	work := t.TempDir()
	worker, pid := startWorker(t, work, `sh -c 'trap "" TERM; echo $$ > grandchild; while :; do sleep 1; done' & wait`)
	grandchild := pidIn(t, filepath.Join(work, "app-1", "0", "grandchild"))
	if err := worker.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = worker.Wait()
	eventually(t, "end of the leader", func() bool { return !runs(pid) })
	r := newRunner(t, Options{WorkDir: work, OrphanGrace: 20 * time.Millisecond})
	ended, err := r.EndOrphans(context.Background())
	if err != nil || len(ended) != 1 || ended[0].Pid != pid || runs(grandchild) {
		t.Errorf("ended %+v, %v, grandchild lives: %v", ended, err, runs(grandchild))
	}
}

func TestEndOrphansObeysItsContext(t *testing.T) {
	work := t.TempDir()
	worker, pid := startWorker(t, work, `trap "" TERM; echo $$ > ready; while :; do sleep 0.1; done`)
	pidIn(t, filepath.Join(work, "app-1", "0", "ready"))
	_ = worker.Process.Kill()
	_ = worker.Wait()
	r := newRunner(t, Options{WorkDir: work, OrphanGrace: time.Hour})
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Millisecond)
	defer cancel()
	ended, err := r.EndOrphans(ctx)
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "app-1/0") || len(ended) != 0 {
		t.Errorf("ended %+v, %v", ended, err)
	}
	r.orphanGrace = time.Millisecond // the entry is still there for another try
	if ended, err := r.EndOrphans(context.Background()); err != nil || len(ended) != 1 || runs(pid) {
		t.Errorf("ended %+v, %v", ended, err)
	}
}

func TestLockIsFreedByClose(t *testing.T) {
	work := t.TempDir()
	for range 2 {
		r, err := New(Options{WorkDir: work})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := New(Options{WorkDir: work}); !errors.Is(err, ErrLocked) {
			t.Fatalf("second runner: %v", err)
		}
		if err := r.Close(0, time.Second); err != nil {
			t.Fatal(err)
		}
	}
}

func TestSignalExactlyLeavesAnotherStartTimeAlone(t *testing.T) {
	r := newRunner(t, Options{})
	p := bystander(t, r)
	seen, err := readStat(p.Pid())
	if err != nil {
		t.Fatal(err)
	}
	forged := seen
	forged.start++
	if err := signalExactly(forged, unix.SIGKILL); err != nil {
		t.Error(err)
	}
	time.Sleep(20 * time.Millisecond)
	if !runs(p.Pid()) {
		t.Fatal("a process with another start time was signalled")
	}
	if err := signalExactly(seen, unix.SIGKILL); err != nil {
		t.Error(err)
	}
	end(t, p)
	eventually(t, "reaped", func() bool { return r.Running() == 0 })
	if err := signalExactly(seen, unix.SIGKILL); err != nil {
		t.Errorf("a process that has ended: %v", err)
	}
}

func TestParseStat(t *testing.T) {
	tail := " 3 4 5 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 12345 0 0"
	for _, name := range []string{"a", "a b", ") S 1 2", "((", ""} {
		s, err := parseStat([]byte("17 (" + name + ") R" + tail))
		if want := (procStat{17, 3, 4, 5, 'R', 12345}); err != nil || s != want {
			t.Errorf("%q: %+v, %v", name, s, err)
		}
	}
	for _, bad := range []string{"", "17", "17 (a) R 1 2", "x (a) R" + tail, ") (", "17 (a) RR" + tail, "17 (a) R" + strings.Replace(tail, "12345", "-", 1)} {
		if s, err := parseStat([]byte(bad)); err == nil {
			t.Errorf("%q: %+v", bad, s)
		}
	}
	self, err := readStat(os.Getpid())
	if err != nil || self.pid != os.Getpid() || self.parent != os.Getppid() {
		t.Errorf("own: %+v, %v", self, err)
	}
	now, err := machineTicks()
	if err != nil || self.start > now || now-self.start > 3600*ticksPerSecond {
		t.Errorf("start %d, now %d, %v", self.start, now, err)
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add([]byte("17 (a) R 3 4 5 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 12345 0 0"))
	f.Add([]byte(") ("))
	f.Fuzz(func(t *testing.T, text []byte) {
		if s, err := parseStat(text); err == nil && s.state == 0 {
			t.Errorf("%q: %+v", text, s)
		}
	})
}

func FuzzParseEntry(f *testing.F) {
	f.Add([]byte(`{"v":1,"boot":"b","pidns":"n","name":"x","dir":"/d","argv":"00","after":1}` + "\n" + `{"pid":5,"start":6}` + "\n"))
	f.Add([]byte(`{"v":1,"boot":"b","dir":"/d"}` + "\n" + `{"pid":1,"start":6}` + "\n"))
	f.Add([]byte("\n\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		e, err := parseEntry(text)
		if err != nil {
			return
		}
		if e.Boot == "" || !filepath.IsAbs(e.Dir) || e.Version != ledgerVersion {
			t.Errorf("accepted %+v", e)
		}
		if e.Pid != 0 && (e.Pid <= 1 || e.Start == 0) || e.Pid == 0 && e.Start != 0 {
			t.Errorf("accepted process %+v", e.started)
		}
	})
}

func TestLedgerRoundTrip(t *testing.T) {
	l, warning, err := openLedger(t.TempDir())
	if err != nil || warning != nil {
		t.Fatal(err, warning)
	}
	defer l.close()
	file, err := l.intend("app/0", "/d", []string{"a", ""})
	if err != nil {
		t.Fatal(err)
	}
	if e, err := readEntry(file.Name()); err != nil || e.Pid != 0 || e.Name != "app/0" || e.Dir != "/d" || e.Argv != argvDigest([]byte("a\x00\x00")) {
		t.Errorf("%+v, %v", e, err)
	}
	if err := l.confirm(file, started{7, 8}); err != nil {
		t.Fatal(err)
	}
	if e, err := readEntry(file.Name()); err != nil || e.Pid != 7 || e.Start != 8 {
		t.Errorf("%+v, %v", e, err)
	}
	if paths, err := l.earlier(); err != nil || len(paths) != 0 {
		t.Errorf("own entries counted as earlier: %v, %v", paths, err)
	}
	_ = syscall.Unlink(file.Name())
}
