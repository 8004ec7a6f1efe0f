package raftstore

import (
	"cmp"
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
	// lockWait is how long Open waits for a process that is about to end.
	lockWait = time.Second
	// stableReserve is written into stable.db at first, so that a vote can be saved when the disk is full.
	stableReserve = 64 << 10

	defaultSlowAfter = time.Second
	defaultHangAfter = 3 * time.Second
)

// Options say how to open a store. Logger is required.
type Options struct {
	Dir    string
	Logger hclog.Logger
	// LockWait replaces the default wait for another process when positive.
	LockWait time.Duration
	// WriteFault, when set, runs before each write of the log; its error stands for the disk's.
	WriteFault func() error
	// BeforeSync, when set, runs before each write of the log and of a vote, which each cost a sync; a wait in it is a slow
	// disk's.
	BeforeSync func()
	// SlowAfter is from when on a write of a batch of entries counts as slow (default 1 s), HangAfter from when on as hanging
	// (default 3 s).
	SlowAfter, HangAfter time.Duration
	// OnHealth, when set, is told when the log cannot be written, with the reason, and with nil when it can again. It runs on the
	// goroutine that writes and must not block.
	OnHealth func(error)

	free        func(dir string) (int64, error) // nil: FreeBytes
	disk        disk                            // nil: the real one
	journalSize int64                           // of each file; 0: journalSize
}

// Store is an open data directory. Its parts are safe for use by many goroutines.
type Store struct {
	dir    string
	logger hclog.Logger
	fault  func() error
	before func()

	slowAfter, hangAfter time.Duration
	onHealth             func(error)
	free                 func(dir string) (int64, error)
	places               []place

	lock    *os.File
	bolt    *raftboltdb.BoltStore
	log     *journal
	sizes   logSizes
	stable  *stableStore
	snaps   *snapshotStore
	settled bool // Open has found nothing wrong

	mu       sync.Mutex
	identity Identity
	health   health
	closed   bool
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
	if o.free == nil {
		o.free = FreeBytes
	}
	if o.disk == nil {
		o.disk = realDisk{}
	}
	if o.journalSize == 0 {
		o.journalSize = journalSize
	}
	s := &Store{
		dir: o.Dir, logger: o.Logger, fault: o.WriteFault, before: o.BeforeSync, lock: lock, onHealth: o.OnHealth,
		free: o.free, slowAfter: cmp.Or(o.SlowAfter, defaultSlowAfter), hangAfter: cmp.Or(o.HangAfter, defaultHangAfter),
	}
	if err := s.open(o); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Store) open(o Options) error {
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
	if s.log, err = openJournal(s, o.disk); err != nil {
		return err
	}
	if s.stable, err = openStable(filepath.Join(s.dir, stableFile)); err != nil {
		return err
	}
	if err := s.stable.reserve(); err != nil {
		return err
	}
	s.stable.before = s.before
	if s.snaps, err = s.openSnapshots(); err != nil {
		return err
	}
	if err := s.notePlaces(); err != nil {
		return err
	}
	if err := s.verify(); err != nil {
		return err
	}
	return s.settle(o)
}

// settle changes what verify has found in order: it makes the journal ready.
func (s *Store) settle(o Options) error {
	if s.identity.Journal {
		if err := s.log.confirm(); err != nil {
			return err
		}
	}
	s.settled = true
	if err := s.log.flush(); err != nil {
		s.noteWrite(s.storageError(err)) // it can be read and can vote; each write, and each probe, tries again
		return nil
	}
	if err := s.makeJournal(o); err != nil {
		s.logger.Warn("the journal cannot be made: until the next start each batch of entries costs two syncs of the disk instead of one", "error", err)
	}
	return nil
}

// makeJournal makes the files and says so in the identity before the first entry can be in them.
func (s *Store) makeJournal(o Options) error {
	if s.log.files[0] == nil {
		if err := s.log.create(o.disk, s.identity.NodeID, o.journalSize); err != nil {
			return err
		}
	}
	err := s.markJournal(true)
	if err != nil {
		files := s.log.files
		s.log.files = [2]*segment{}
		err = errors.Join(err, closeSegments(files))
	}
	return err
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
	closed := s.closed
	s.closed = true
	s.mu.Unlock()
	if closed {
		return nil
	}
	var errs []error
	empty := false
	if s.log != nil {
		var err error
		empty, err = s.log.close(s.settled)
		errs = append(errs, err)
	}
	if s.bolt != nil {
		errs = append(errs, s.bolt.Close())
	}
	if s.stable != nil {
		errs = append(errs, s.stable.close())
	}
	if empty && errors.Join(errs...) == nil {
		if err := s.markJournal(false); err != nil {
			s.logger.Warn("the journal is empty, but that cannot be noted; only an earlier release minds", "error", err)
		}
	}
	return errors.Join(append(errs, s.lock.Close())...)
}
