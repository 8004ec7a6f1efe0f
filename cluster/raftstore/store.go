package raftstore

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"go.etcd.io/bbolt"
)

// Names in a data directory.
const (
	identityFile = "identity.json"
	logFile      = "raft.db"
	stableFile   = "stable.db"
	lockFile     = "lock"
	snapshotDir  = "snapshots" // raft.FileSnapshotStore's own choice
	damagedDir   = "damaged"
)

const (
	// retainSnapshots: the newest, and the one before in case the newest is damaged.
	retainSnapshots = 2
	// logCacheEntries are kept in memory for followers that are nearly up to date.
	logCacheEntries = 1024
	// lockWait is how long Open waits for a process that is about to end.
	lockWait = time.Second
	// stableReserve is written into stable.db at first, so that a vote can be saved when the disk is full.
	stableReserve = 64 << 10
)

// Options say how to open a store. Logger is required.
type Options struct {
	Dir    string
	Logger hclog.Logger
	// LockWait replaces the default wait for another process when positive.
	LockWait time.Duration
	// WriteFault, when set, runs before each write of the log; its error stands for the disk's.
	WriteFault func() error
}

// Store is an open data directory. Its parts are safe for use by many goroutines.
type Store struct {
	dir    string
	logger hclog.Logger
	fault  func() error

	lock   *os.File
	bolt   *raftboltdb.BoltStore
	cache  *raft.LogCache
	stable *stableStore
	snaps  *snapshotStore

	mu        sync.Mutex
	identity  Identity
	unhealthy error
	closed    bool
}

// Open opens a data directory, makes it when missing, and checks what is in it. The errors name the file and say what
// to do; they wrap one of this package's sentinels.
func Open(o Options) (*Store, error) {
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("%w: create the data directory %s: %w", ErrStorage, o.Dir, err)
	}
	lock, err := acquireLock(o.Dir, o.LockWait)
	if err != nil {
		return nil, err
	}
	s := &Store{dir: o.Dir, logger: o.Logger, fault: o.WriteFault, lock: lock}
	if err := s.open(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Store) open() error {
	var err error
	if s.identity, err = loadIdentity(s.dir); err != nil {
		return err
	}
	if err := s.checkTogether(); err != nil {
		return err
	}
	if s.bolt, err = openBolt(filepath.Join(s.dir, logFile)); err != nil {
		return err
	}
	if s.stable, err = openStable(filepath.Join(s.dir, stableFile)); err != nil {
		return err
	}
	if err := s.stable.reserve(); err != nil {
		return err
	}
	if s.cache, err = raft.NewLogCache(logCacheEntries, s.bolt); err != nil {
		return fmt.Errorf("log cache: %w", err)
	}
	if s.snaps, err = s.openSnapshots(); err != nil {
		return err
	}
	return s.verify()
}

// checkTogether refuses a directory in which a file of a member of a cluster is missing: an empty log, or a forgotten
// vote, would break promises given to other nodes.
func (s *Store) checkTogether() error {
	if s.identity.ClusterID == "" {
		return nil
	}
	for _, name := range []string{logFile, stableFile} {
		path := filepath.Join(s.dir, name)
		if info, err := os.Stat(path); err != nil || info.Size() == 0 {
			return damaged(path, "missing or empty, although this node belongs to cluster "+s.identity.ClusterID, backupHint)
		}
	}
	return nil
}

func acquireLock(dir string, wait time.Duration) (*os.File, error) {
	if wait <= 0 {
		wait = lockWait
	}
	path := filepath.Join(dir, lockFile)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("%w: open %s: %w", ErrStorage, path, err)
	}
	for deadline := time.Now().Add(wait); ; time.Sleep(20 * time.Millisecond) {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			break
		}
		if time.Now().After(deadline) {
			holder := readHolder(f)
			return nil, errors.Join(fmt.Errorf("%w: %s is held by %s; stop it, or give this master its own --data-dir", ErrInUse, dir, holder), f.Close())
		}
	}
	// The lock counts, the number is only for the message above.
	if err := f.Truncate(0); err == nil {
		_, _ = f.WriteAt([]byte(fmt.Sprintf("%d\n", os.Getpid())), 0)
	}
	return f, nil
}

func readHolder(f *os.File) string {
	b := make([]byte, 32)
	n, _ := f.ReadAt(b, 0)
	if pid := strings.TrimSpace(string(b[:n])); pid != "" {
		return "process " + pid
	}
	return "another process"
}

func boltOptions() *bbolt.Options {
	return &bbolt.Options{Timeout: lockWait, FreelistType: bbolt.FreelistMapType, NoFreelistSync: true}
}

// Dir is the data directory.
func (s *Store) Dir() string { return s.dir }

// Logs is the log for raft.
func (s *Store) Logs() raft.LogStore { return (*logStore)(s) }

// Stable is the stable store for raft.
func (s *Store) Stable() raft.StableStore { return s.stable }

// Snapshots is the snapshot store for raft.
func (s *Store) Snapshots() raft.SnapshotStore { return s.snaps }

// HasState tells whether raft has anything in this directory.
func (s *Store) HasState() (bool, error) {
	return raft.HasExistingState(s.Logs(), s.Stable(), s.Snapshots())
}

// Close gives the directory back. Nothing may use the store any more.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	var errs []error
	if s.bolt != nil {
		errs = append(errs, s.bolt.Close())
	}
	if s.stable != nil {
		errs = append(errs, s.stable.close())
	}
	return errors.Join(append(errs, s.lock.Close())...)
}
