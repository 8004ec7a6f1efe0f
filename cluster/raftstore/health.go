package raftstore

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/hashicorp/raft"
)

// ErrGone: the files that this process has open are not at the path of the data directory any more: it was removed or
// moved away, or its file system was unmounted. What is written goes where no later start finds it.
var ErrGone = errors.New("the data directory is gone")

// ErrHung: a write of the log has not come back for long.
var ErrHung = errors.New("a write of the log hangs")

const (
	// slowRun is for how long every write must be slow before the disk counts as slow, slowWrites how many there must be.
	slowRun    = 5 * time.Second
	slowWrites = 3
	// slowBytes: a longer batch may take longer.
	slowBytes = 1 << 20
	// probeSize is written to find out whether the disk takes writes again: about what a batch of entries needs.
	probeSize = 256 << 10
	// minFree must be left on the file system: the next file of the journal that is carried over to bolt may need as much. With
	// less no entry is taken, although the journal, whose space is reserved, would take some more: they would be stuck in it. What
	// was full is so until there is twice as much.
	minFree = journalSize + probeSize
)

// health is what a store knows of its disk; Store.mu guards it.
type health struct {
	last    error // of the last write; see Health
	refused error // found by Probe: gone or full; no write is tried meanwhile

	started time.Time     // of the batch that is being written, zero for none
	slow    time.Duration // what the last batch of a run of slow ones took
	writes  int           // in that run
	since   time.Time     // its beginning
}

// began notes that a batch is about to be written; what it gives is for ended. Raft writes one at a time.
func (s *Store) began(logs []*raft.Log) time.Time {
	now, bytes := time.Now(), int64(0)
	for _, l := range logs {
		bytes += entrySize(l)
	}
	s.mu.Lock()
	s.health.started = now
	s.mu.Unlock()
	if bytes > slowBytes {
		return time.Time{}
	}
	return now
}

// ended notes how long a batch took.
func (s *Store) ended(began time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := &s.health
	h.started = time.Time{}
	took := time.Since(began)
	switch {
	case began.IsZero():
	case took < s.slowAfter:
		h.slow, h.writes, h.since = 0, 0, time.Time{}
	default:
		if h.writes == 0 {
			h.since = began
		}
		h.slow, h.writes = took, h.writes+1
	}
}

// Slow is what the last write took when every one of the last seconds took too long, else 0.
func (s *Store) Slow() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h := &s.health; h.writes >= slowWrites && time.Since(h.since) >= slowRun {
		return h.slow
	}
	return 0
}

// Hung gives an error, which wraps ErrHung, while a batch of entries takes longer than Options.HangAfter. It takes a short lock
// only: no disk is asked.
func (s *Store) Hung() error {
	s.mu.Lock()
	started := s.health.started
	s.mu.Unlock()
	if took := time.Since(started); !started.IsZero() && took > s.hangAfter {
		return fmt.Errorf("%w: %w: %s, for %d s", ErrStorage, ErrHung, filepath.Join(s.dir, logFile), int(took.Seconds()))
	}
	return nil
}

// writing runs a write of the log and remembers whether the disk takes writes.
func (s *Store) writing(write func() error) error {
	if s.before != nil {
		s.before()
	}
	s.mu.Lock()
	err := s.health.refused
	s.mu.Unlock()
	if err == nil && s.fault != nil {
		err = s.fault()
	}
	if err == nil {
		err = write()
	}
	if err != nil {
		err = s.storageError(err)
	}
	s.noteWrite(err)
	return err
}

func (s *Store) storageError(err error) error {
	if errors.Is(err, ErrStorage) {
		return err
	}
	return fmt.Errorf("%w: write %s: %w", ErrStorage, filepath.Join(s.dir, logFile), err)
}

// noteWrite remembers how a write of the log went, and tells Options.OnHealth about a change.
func (s *Store) noteWrite(err error) {
	s.mu.Lock()
	before := s.health.last
	s.health.last = err
	s.mu.Unlock()
	switch {
	case before == nil && err != nil:
		s.logger.Error("the raft log cannot be written; this node cannot lead until it can", "error", err)
	case before != nil && err == nil:
		s.logger.Info("the raft log can be written again", "path", filepath.Join(s.dir, logFile))
	default:
		return
	}
	if s.onHealth != nil {
		s.onHealth(err)
	}
}

// Health is why the log cannot be written at this moment: the error of the last write of the log, that the directory is gone,
// or that a write hangs. nil when all is well, as far as is known.
func (s *Store) Health() error {
	if err := s.Hung(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.health.last
}

// Probe looks whether the data directory is still there and has space, and tries a write when the last one failed or was slow. It returns what
// Health is then. It must be called now and then, because a node that does not lead has nothing else to write.
func (s *Store) Probe() error {
	if err := s.Hung(); err != nil {
		s.noteWrite(err) // until it comes back; another write would only wait, too
		return err
	}
	refused := s.absent()
	if refused == nil {
		refused = s.full()
	}
	s.mu.Lock()
	s.health.refused = refused
	well := s.health.last == nil && s.health.writes == 0
	s.mu.Unlock()
	if refused != nil {
		s.noteWrite(refused)
		return refused
	}
	if well {
		return nil
	}
	return s.probeWrite()
}

func (s *Store) probeWrite() error {
	began, key := time.Now(), []byte("probe")
	err := s.writing(func() error {
		if err := s.log.repair(); err != nil {
			return err
		}
		if err := s.bolt.Set(key, make([]byte, probeSize)); err != nil {
			return err
		}
		return s.bolt.Set(key, nil)
	})
	if took := time.Since(began); err == nil && took < s.slowAfter {
		s.mu.Lock()
		s.health.slow, s.health.writes, s.health.since = 0, 0, time.Time{}
		s.mu.Unlock()
	}
	return err
}

// full tells whether the file system has too little space for what is to come.
func (s *Store) full() error {
	free, err := s.free(s.dir)
	if err != nil {
		return fmt.Errorf("%w: the file system of %s: %w", ErrStorage, s.dir, err)
	}
	s.mu.Lock()
	need := int64(minFree)
	if errors.Is(s.health.refused, syscall.ENOSPC) {
		need *= 2
	}
	s.mu.Unlock()
	if free >= need {
		return nil
	}
	return fmt.Errorf("%w: %s: %w: %d KiB are free and %d are needed", ErrStorage, s.dir, syscall.ENOSPC, free>>10, need>>10)
}

// FreeUnbounded stands for the free space of a file system that counts none: ramfs, a tmpfs without a size, and some of FUSE.
// They give 0 for everything. A write there fails when it fails.
const FreeUnbounded int64 = 1 << 60

// FreeBytes is what a file system has left for this process, in bytes; FreeUnbounded when it does not say.
func FreeBytes(dir string) (int64, error) {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(dir, &fs); err != nil {
		return 0, err
	}
	return freeOf(&fs, os.Geteuid() == 0), nil
}

func freeOf(fs *syscall.Statfs_t, root bool) int64 {
	if fs.Blocks == 0 {
		return FreeUnbounded
	}
	if root {
		return int64(fs.Bfree) * fs.Bsize // the reserve for root as well
	}
	return int64(fs.Bavail) * fs.Bsize
}

// place is an open file and what it was at the opening.
type place struct {
	path string
	info fs.FileInfo
}

// notePlaces remembers which files are open, for absent.
func (s *Store) notePlaces() error {
	for _, name := range []string{lockFile, logFile, stableFile} {
		path := filepath.Join(s.dir, name)
		info, err := os.Stat(path)
		if err != nil {
			return fmt.Errorf("%w: stat %s: %w", ErrStorage, path, err)
		}
		s.places = append(s.places, place{path, info})
	}
	return nil
}

// absent tells why the open files are not those at the path of the directory.
func (s *Store) absent() error {
	i := slices.IndexFunc(s.places, func(p place) bool {
		info, err := os.Stat(p.path)
		return err != nil || !os.SameFile(info, p.info)
	})
	if i < 0 {
		return nil
	}
	_, err := os.Stat(s.places[i].path)
	if err == nil {
		err = fmt.Errorf("%s is another file than the one that is open", s.places[i].path)
	}
	return fmt.Errorf("%w: %w: %w; put it back (mount it), and this master goes on by itself; if it is lost for good, stop this master and replace it",
		ErrStorage, ErrGone, err)
}
