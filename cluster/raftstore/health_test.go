package raftstore

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

func openHealth(t *testing.T, o Options) *Store {
	t.Helper()
	o.Logger = hclog.NewNullLogger()
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func storeOne(s *Store, index uint64) error {
	return s.Logs().StoreLog(&raft.Log{Index: index, Term: 1, Data: []byte("x")})
}

// A directory that is removed or unmounted takes writes, which no later start finds: they are refused until it is back.
func TestAGoneDirectoryIsNoticedAndComesBack(t *testing.T) {
	root := t.TempDir()
	dir, aside := filepath.Join(root, "data"), filepath.Join(root, "aside")
	var told []error
	s := openHealth(t, Options{Dir: dir, OnHealth: func(err error) { told = append(told, err) }})
	if err := errors.Join(storeOne(s, 1), s.Probe()); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(dir, aside); err != nil {
		t.Fatal(err)
	}
	if err := s.Probe(); !errors.Is(err, ErrGone) || !errors.Is(err, ErrStorage) || !strings.Contains(err.Error(), dir) {
		t.Errorf("Probe: %v", err)
	}
	if err := storeOne(s, 2); !errors.Is(err, ErrGone) {
		t.Errorf("a write into a directory that is gone: %v", err)
	}
	// Another directory in its place is not it.
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{lockFile, logFile, stableFile} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Probe(); !errors.Is(err, ErrGone) || !strings.Contains(err.Error(), "another file") {
		t.Errorf("Probe beside other files: %v", err)
	}
	if err := errors.Join(os.RemoveAll(dir), os.Rename(aside, dir)); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.Probe(), s.Health(), storeOne(s, 2)); err != nil {
		t.Errorf("after it is back: %v", err)
	}
	if len(told) != 2 || told[0] == nil || told[1] != nil {
		t.Errorf("told: %v", told)
	}
}

func TestAHangingWriteIsNoticedWhileItHangs(t *testing.T) {
	var hang atomic.Bool
	release, held := make(chan struct{}), make(chan struct{})
	s := openHealth(t, Options{Dir: t.TempDir(), HangAfter: 20 * time.Millisecond, BeforeSync: func() {
		if hang.Load() {
			close(held)
			<-release
		}
	}})
	if err := storeOne(s, 1); err != nil {
		t.Fatal(err)
	}
	hang.Store(true)
	outcome := make(chan error, 1)
	go func() { outcome <- storeOne(s, 2) }()
	<-held
	for end := time.Now().Add(30 * time.Second); s.Hung() == nil; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it is not noticed")
		}
	}
	if err := s.Probe(); !errors.Is(err, ErrHung) || !errors.Is(s.Health(), ErrHung) {
		t.Errorf("Probe: %v, Health: %v", err, s.Health())
	}
	hang.Store(false)
	close(release)
	if err := <-outcome; err != nil {
		t.Error(err)
	}
	if err := errors.Join(s.Hung(), s.Health(), s.Probe()); err != nil {
		t.Errorf("after it has come back: %v", err)
	}
}

// A disk is slow when every write of some seconds is; one fast write, or a fast probe, ends that.
func TestASlowDiskIsToldFromASlowWrite(t *testing.T) {
	var wait atomic.Int64
	s := openHealth(t, Options{Dir: t.TempDir(), SlowAfter: 30 * time.Millisecond, BeforeSync: func() { time.Sleep(time.Duration(wait.Load())) }})
	backdate := func() {
		s.mu.Lock()
		s.health.since = s.health.since.Add(-slowRun)
		s.mu.Unlock()
	}
	wait.Store(int64(40 * time.Millisecond))
	for i := uint64(1); i <= slowWrites; i++ {
		if s.Slow() != 0 {
			t.Errorf("slow after %d writes", i-1)
		}
		if err := storeOne(s, i); err != nil {
			t.Fatal(err)
		}
		if i == 1 {
			backdate()
		}
	}
	if s.Slow() < 40*time.Millisecond {
		t.Errorf("slow: %v", s.Slow())
	}
	if err := s.Probe(); err != nil {
		t.Fatal(err)
	}
	if s.Slow() == 0 {
		t.Error("a slow probe ends it")
	}
	wait.Store(0)
	for end := time.Now().Add(30 * time.Second); s.Slow() != 0; {
		if err := s.Probe(); err != nil || time.Now().After(end) {
			t.Fatalf("a fast probe does not end it: %v", err)
		}
	}
	// A long batch may take its time.
	wait.Store(int64(40 * time.Millisecond))
	for i := uint64(10); i < 15; i++ {
		if err := s.Logs().StoreLog(&raft.Log{Index: i, Term: 1, Data: make([]byte, slowBytes)}); err != nil {
			t.Fatal(err)
		}
		backdate()
	}
	if s.Slow() != 0 {
		t.Error("long batches count as slow")
	}
}

// A file system with little left is full before a write fails: entries would be stuck in the journal.
func TestAFullFileSystemIsNoticedBeforeAWriteFails(t *testing.T) {
	var free atomic.Int64
	free.Store(1 << 30)
	s := openHealth(t, Options{Dir: t.TempDir(), free: func(string) (int64, error) { return free.Load(), nil }})
	if err := errors.Join(s.Probe(), storeOne(s, 1)); err != nil {
		t.Fatal(err)
	}
	free.Store(minFree - 1)
	if err := s.Probe(); !errors.Is(err, ErrStorage) || !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("Probe: %v", err)
	}
	if err := storeOne(s, 2); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("a write: %v", err)
	}
	free.Store(2*minFree - 1)
	if err := s.Probe(); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("it is writable again on the edge: %v", err)
	}
	free.Store(2 * minFree)
	if err := errors.Join(s.Probe(), s.Health(), storeOne(s, 2)); err != nil {
		t.Error(err)
	}
}

// A file system without a size says 0 of everything; a full one has blocks.
func TestAFileSystemWithoutASizeIsNotFull(t *testing.T) {
	for name, tc := range map[string]struct {
		fs   syscall.Statfs_t
		root bool
		want int64
	}{
		"ramfs":         {syscall.Statfs_t{Bsize: 4096}, false, FreeUnbounded},
		"ramfs as root": {syscall.Statfs_t{Bsize: 4096}, true, FreeUnbounded},
		"full":          {syscall.Statfs_t{Bsize: 4096, Blocks: 100, Bfree: 5}, false, 0},
		"reserve":       {syscall.Statfs_t{Bsize: 4096, Blocks: 100, Bfree: 5}, true, 5 * 4096},
		"some":          {syscall.Statfs_t{Bsize: 4096, Blocks: 100, Bfree: 5, Bavail: 3}, false, 3 * 4096},
	} {
		if got := freeOf(&tc.fs, tc.root); got != tc.want {
			t.Errorf("%s: %d, want %d", name, got, tc.want)
		}
	}
}
