package runner

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestStartErrorsSayWhatIsWrong also checks that nothing is left behind.
func TestStartErrorsSayWhatIsWrong(t *testing.T) {
	r := newRunner(t, Options{})
	script := filepath.Join(r.workDir, "script")
	if err := os.WriteFile(script, []byte("#!/no/such/interpreter\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	plain := filepath.Join(r.workDir, "plain")
	if err := os.WriteFile(plain, []byte("not a program"), 0o755); err != nil {
		t.Fatal(err)
	}
	data := filepath.Join(r.workDir, "data")
	if err := os.WriteFile(data, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name    string
		change  func(*Spec)
		is      error
		mention string
	}{
		{"java", func(s *Spec) { s.Argv[0] = "/opt/none/bin/java" }, unix.ENOENT, "JAVA_HOME"},
		{"program", func(s *Spec) { s.Argv[0] = "/opt/none/x" }, unix.ENOENT, "no such program"},
		{"path", func(s *Spec) { s.Argv[0] = "nosuchprogram" }, unix.ENOENT, "PATH"},
		{"interpreter", func(s *Spec) { s.Argv[0] = script }, unix.ENOENT, "interpreter"},
		{"not executable", func(s *Spec) { s.Argv[0] = data }, unix.EACCES, "may not execute"},
		{"directory", func(s *Spec) { s.Argv[0] = r.workDir }, unix.EACCES, "may not execute"},
		{"no format", func(s *Spec) { s.Argv[0] = plain }, unix.ENOEXEC, "architecture"},
		{"one argument too big", func(s *Spec) { s.Argv = append(s.Argv, strings.Repeat("x", 200<<10)) }, unix.E2BIG, "argument 3 with 204800"},
		{"environment too big", func(s *Spec) { s.Env = append(s.Env, "SECRET="+strings.Repeat("x", 200<<10)) }, unix.E2BIG, "variable SECRET with"},
		{"dir is a file", func(s *Spec) { s.Dir = data }, unix.ENOTDIR, "no directory"},
		{"log is a directory", func(s *Spec) { s.Stdout = r.workDir }, unix.EISDIR, r.workDir},
		{"no program", func(s *Spec) { s.Argv = nil }, nil, "no program"},
		{"zero byte", func(s *Spec) { s.Argv[2] = "a\x00b" }, nil, "zero byte"},
		{"relative", func(s *Spec) { s.Dir = "x" }, nil, "absolute"},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := descriptors(t)
			s := shell(r, "app/0", "exit 0")
			c.change(&s)
			s.Header = "header"
			_, err := r.Start(s)
			if err == nil || c.is != nil && !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.mention) {
				t.Fatalf("error %v", err)
			}
			if strings.Contains(err.Error(), "xxxx") || len(err.Error()) > 600 {
				t.Errorf("the error repeats arguments: %.200s", err)
			}
			if exists(filepath.Join(r.workDir, "app")) {
				t.Error("a directory is left behind")
			}
			if left, err := os.ReadDir(filepath.Join(r.ledger.dir, childrenDir)); err != nil && !errors.Is(err, os.ErrNotExist) || len(left) != 0 {
				t.Errorf("the ledger holds %v, %v", left, err)
			}
			if now := descriptors(t); now > before {
				t.Errorf("%d descriptors before, %d after", before, now)
			}
		})
	}
}

// TestHostileLogFiles: what an executor put in place of its log is not followed, and what was there stays.
func TestHostileLogFiles(t *testing.T) {
	r := newRunner(t, Options{})
	s := shell(r, "app/0", "echo evil")
	if err := os.MkdirAll(s.Dir, 0o755); err != nil {
		t.Fatal(err)
	}
	target := filepath.Join(t.TempDir(), "target")
	if err := os.WriteFile(target, []byte("precious"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, s.Stderr); err != nil {
		t.Fatal(err)
	}
	s.TruncateStderr = true
	if _, err := r.Start(s); err == nil || !errors.Is(err, unix.ELOOP) {
		t.Errorf("symbolic link: %v", err)
	}
	if got := read(t, target); got != "precious" {
		t.Errorf("target is %q", got)
	}
	if err := os.Remove(s.Stderr); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(s.Stderr, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Start(s); err == nil {
		t.Error("a named pipe was taken for a log file")
	}
	reader, err := os.OpenFile(s.Stderr, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	if _, err := r.Start(s); err == nil || !strings.Contains(err.Error(), "regular file") {
		t.Errorf("named pipe with a reader: %v", err)
	}
}

func TestLimitErrorsAreExplained(t *testing.T) {
	s := Spec{Argv: []string{"/bin/true"}, Dir: "/"}
	for err, mention := range map[error]string{unix.EAGAIN: "pids.max", unix.ENOMEM: "memory", unix.EMFILE: "ulimit -n"} {
		if text := forkError(s, "/bin/true", err).Error(); !strings.Contains(text, mention) {
			t.Errorf("%v: %s", err, text)
		}
	}
	for err, mention := range map[error]string{unix.ENOSPC: "full", unix.EDQUOT: "quota", unix.EROFS: "read-only", unix.EACCES: "may not write"} {
		wrapped := dirError("make directory", "/w", &os.PathError{Op: "mkdir", Path: "/w", Err: err})
		if text := wrapped.Error(); !strings.Contains(text, mention) || strings.Count(text, "/w") != 1 || !errors.Is(wrapped, err) {
			t.Errorf("%v: %s", err, text)
		}
	}
}

func TestWorkDirectoryWithoutRightsOrPlace(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := New(Options{WorkDir: filepath.Join(file, "work")}); err == nil || !strings.Contains(err.Error(), "no directory") {
		t.Errorf("below a file: %v", err)
	}
	if _, err := New(Options{}); err == nil {
		t.Error("no work directory")
	}
	if _, err := New(Options{WorkDir: "/proc/no-such-work"}); err == nil || !strings.Contains(err.Error(), "/proc/no-such-work") {
		t.Errorf("in /proc: %v", err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Mkdir(link, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(link, stateDir), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(file, filepath.Join(link, stateDir, lockName)); err != nil {
		t.Fatal(err)
	}
	if _, err := New(Options{WorkDir: link}); !errors.Is(err, unix.ELOOP) {
		t.Errorf("the lock is a link: %v", err)
	}
}

// TestWorkDirectoryOfAnother runs on a thread with another user's rights.
func TestWorkDirectoryOfAnother(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("LEFT OUT without root: only root can take another user's rights")
	}
	dir := t.TempDir()
	result := make(chan error, 2)
	go func() {
		lockedForever() // the thread ends with this goroutine, and its rights with it
		const nobody = 65534
		if _, err := unix.SetfsuidRetUid(nobody); err != nil {
			result <- err
			return
		}
		_, err := New(Options{WorkDir: filepath.Join(dir, "work")})
		result <- err
	}()
	if err := <-result; !errors.Is(err, unix.EACCES) || !strings.Contains(err.Error(), "may not write") {
		t.Errorf("no rights: %v", err)
	}
}

// tmpfs mounts a small file system, which only root may.
func tmpfs(t *testing.T, options string) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, options); err != nil {
		t.Skip("LEFT OUT without the right to mount: cannot mount a file system here: ", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func fill(t *testing.T, dir string) string {
	t.Helper()
	path := filepath.Join(dir, "ballast")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	block := make([]byte, 4096)
	for err == nil {
		_, err = file.Write(block)
	}
	if !errors.Is(err, unix.ENOSPC) {
		t.Fatal(err)
	}
	return path
}

func TestFullDisk(t *testing.T) {
	dir := tmpfs(t, "size=1m")
	r := newRunner(t, Options{WorkDir: filepath.Join(dir, "work")})
	ballast := fill(t, dir)
	s := shell(r, "app/0", "exit 0")
	s.Header = "header"
	_, err := r.Start(s)
	if !errors.Is(err, unix.ENOSPC) || !strings.Contains(err.Error(), "the disk is full") {
		t.Errorf("start on a full disk: %v", err)
	}
	if exists(filepath.Join(r.workDir, "app")) {
		t.Error("a directory is left behind")
	}
	// A full disk does not keep a worker from starting: it may be the one that cleans it.
	if err := r.Close(0, time.Second); err != nil {
		t.Fatal(err)
	}
	again := newRunner(t, Options{WorkDir: r.workDir})
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	if e := end(t, start(t, again, s)); e.Code != 0 {
		t.Errorf("exit %+v", e)
	}
}

func TestNoInodesLeft(t *testing.T) {
	dir := tmpfs(t, "size=1m,nr_inodes=6") // root, work, state, lock: two are left
	r := newRunner(t, Options{WorkDir: filepath.Join(dir, "work")})
	if _, err := r.Start(shell(r, "app/0", "exit 0")); !errors.Is(err, unix.ENOSPC) || !strings.Contains(err.Error(), "inodes") {
		t.Errorf("start without inodes: %v", err)
	}
	if exists(filepath.Join(r.workDir, "app")) {
		t.Error("a directory is left behind")
	}
}

func TestReadOnlyDisk(t *testing.T) {
	dir := tmpfs(t, "size=1m")
	if err := unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	if _, err := New(Options{WorkDir: filepath.Join(dir, "work")}); !errors.Is(err, unix.EROFS) || !strings.Contains(err.Error(), "read-only") {
		t.Errorf("read-only: %v", err)
	}
}
