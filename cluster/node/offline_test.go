package node

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"raftmaster/cluster/raftstore"
)

// TestTheCopyBeforeARecovery: it is whole and beside the directory, however that is named; or it is not there.
func TestTheCopyBeforeARecovery(t *testing.T) {
	base := t.TempDir()
	dir := filepath.Join(base, "data")
	for name, text := range map[string]string{"raft.db": "log", "snapshots/1/state.bin": "state", "lost+found/x": "no"} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	link := filepath.Join(base, "link")
	if err := os.Symlink("data", link); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	now := time.Unix(1e9, 0)
	for name, want := range map[string]string{".": dir, dir + "/": dir, link: link} {
		to, err := backUp(name, "", now)
		if err != nil || to != want+".before-recover-20010909T014640" {
			t.Fatalf("%s: %s, %v", name, to, err)
		}
		if b, err := os.ReadFile(filepath.Join(to, "snapshots/1/state.bin")); err != nil || string(b) != "state" {
			t.Errorf("%s: %q, %v", name, b, err)
		}
		if _, err := os.Stat(filepath.Join(to, "lost+found")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := backUp(name, "", now); !errors.Is(err, fs.ErrExist) {
			t.Errorf("%s, a second time: %v", name, err)
		}
		if err := os.RemoveAll(to); err != nil {
			t.Fatal(err)
		}
	}
	other := t.TempDir()
	if to, err := backUp(".", other, now); err != nil || to != filepath.Join(other, "data.before-recover-20010909T014640") {
		t.Errorf("%s, %v", to, err)
	}
	if _, err := backUp(link, filepath.Join(dir, "snapshots"), now); !errors.Is(err, errCopyInside) {
		t.Errorf("into itself: %v", err)
	}
	if err := os.Symlink("/etc/hostname", filepath.Join(dir, "journal-0")); err != nil {
		t.Fatal(err)
	}
	if _, err := backUp(dir, "", now); err == nil || !strings.Contains(err.Error(), "journal-0") {
		t.Errorf("with a link: %v", err)
	}
	for _, pattern := range []string{dir + ".*", dir + "/snapshots/*before*"} {
		if left, err := filepath.Glob(pattern); err != nil || len(left) != 0 {
			t.Errorf("a part of a copy stayed: %v, %v", left, err)
		}
	}
}

// TestTheDirectoryStaysItsOwners: a tool that root runs leaves nothing that the master cannot read.
func TestTheDirectoryStaysItsOwners(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("LEFT OUT without root: only root can give files away")
	}
	dir := filepath.Join(t.TempDir(), "data")
	s, err := raftstore.Open(raftstore.Options{Dir: dir, Logger: hclog.NewNullLogger()})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	const owner = 12345
	if err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(path, owner, owner))
	}); err != nil {
		t.Fatal(err)
	}
	owned := func(what, dir string) {
		t.Helper()
		if err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := e.Info()
			if err != nil {
				return err
			}
			if st, ok := info.Sys().(*syscall.Stat_t); !ok || st.Uid != owner || st.Gid != owner {
				t.Errorf("%s: %s is of user %d", what, path, st.Uid)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	if err := DumpLog(dir, 0, 0, hclog.NewNullLogger(), func(LogEntry) error { return nil }); err != nil {
		t.Fatal(err)
	}
	owned("log dump", dir)
	if _, err := Recover(context.Background(), RecoverOptions{DataDir: dir, DryRun: true, Logger: hclog.NewNullLogger()}); !errors.Is(err, ErrUnsafe) {
		t.Errorf("never part of a cluster: %v", err)
	}
	owned("recover", dir)
	to, err := backUp(dir, "", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	owned("the copy", to)
}

// TestNoRecoveryBesideAMajority: masters without a leader elect one at any moment; two of three, this one included, are
// no lost majority.
func TestNoRecoveryBesideAMajority(t *testing.T) {
	slow(t)
	t.Parallel()
	c := startAll(t, 3, nil)
	c.propose()
	c.converge()
	alone, dead, last := c.members[0], c.members[1], c.members[2]
	last.kill()
	dead.kill()
	opts := RecoverOptions{DataDir: last.dir, DryRun: true, Logger: hclog.NewNullLogger()}
	var err error
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		_, err = Recover(context.Background(), opts)
		if err == nil || !strings.Contains(err.Error(), "knows a leader") || time.Now().After(deadline) {
			break
		}
	}
	if !errors.Is(err, ErrUnsafe) || !strings.Contains(err.Error(), "2 of 3 voters") {
		t.Errorf("beside %s, which knows no leader: %v", alone.addr, err)
	}
	opts.Force = true
	if r, err := Recover(context.Background(), opts); err != nil || len(r.Reachable) != 1 {
		t.Errorf("by force: %+v, %v", r, err)
	}
}
