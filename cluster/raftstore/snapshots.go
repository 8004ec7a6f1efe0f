package raftstore

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"sync"

	"github.com/hashicorp/raft"
)

const tmpSuffix = ".tmp"

// snapshotStore is raft's file snapshot store, with one rule added that raft 1.7.3 leaves out (Raft paper, figure 13,
// rules 6 and 7): after a snapshot from elsewhere, log entries may stay only if the log holds the snapshot's last
// entry with the same term. Without it, entries that contradict the snapshot stay below it; a later leadership of this
// node could send them to others, and a longer contradicting tail makes the installation repeat for ever
// (hashicorp/raft #697). See also Store.TruncateFrom.
type snapshotStore struct {
	*raft.FileSnapshotStore
	store *Store

	mu         sync.Mutex
	installing *installation
	failed     error // of the last snapshot that was to be taken here, nil when it is good
}

type installation struct{ index, term uint64 }

// ExpectInstall says that the snapshot which is created next with that index and term comes from another node. A
// snapshot that is older than one of ours needs no clearing of the log, and must not cause it.
func (s *Store) ExpectInstall(index, term uint64) error {
	own, err := s.NewestSnapshot()
	if err != nil {
		return fmt.Errorf("%w: list the snapshots: %w", ErrStorage, err)
	}
	s.snaps.mu.Lock()
	defer s.snaps.mu.Unlock()
	s.snaps.installing = nil
	if own == nil || own.Index < index {
		s.snaps.installing = &installation{index, term}
	}
	return nil
}

// Create implements raft.SnapshotStore.
func (s *snapshotStore) Create(version raft.SnapshotVersion, index, term uint64, c raft.Configuration, ci uint64, t raft.Transport) (raft.SnapshotSink, error) {
	var sink raft.SnapshotSink
	var err error
	if s.store.fault != nil {
		err = s.store.fault()
	}
	if err == nil {
		sink, err = s.FileSnapshotStore.Create(version, index, term, c, ci, t)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	ours := s.installing == nil || *s.installing != (installation{index, term})
	if err != nil {
		err = fmt.Errorf("%w: create a snapshot in %s: %w", ErrStorage, s.store.dir, err)
		if ours {
			s.failed = err
		}
		return nil, err
	}
	if ours {
		return &ownSink{SnapshotSink: sink, store: s}, nil
	}
	s.installing = nil
	return &installSink{SnapshotSink: sink, store: s.store, index: index, term: term}, nil
}

// SnapshotHealth is the error of the last snapshot that was to be taken here, nil when it worked or there was none. While
// there is one, the log is not compacted.
func (s *Store) SnapshotHealth() error {
	s.snaps.mu.Lock()
	defer s.snaps.mu.Unlock()
	return s.snaps.failed
}

// ownSink remembers how the taking of a snapshot ends: raft only logs it.
type ownSink struct {
	raft.SnapshotSink
	store *snapshotStore
	err   error
}

// Write implements raft.SnapshotSink.
func (k *ownSink) Write(p []byte) (int, error) {
	n, err := k.SnapshotSink.Write(p)
	if err != nil {
		err = fmt.Errorf("%w: write the snapshot %s: %w", ErrStorage, k.ID(), err)
		k.err = err
	}
	return n, err
}

// Close implements raft.SnapshotSink.
func (k *ownSink) Close() error {
	err := k.SnapshotSink.Close()
	if err != nil {
		err = fmt.Errorf("%w: finish the snapshot %s: %w", ErrStorage, k.ID(), err)
	}
	k.store.ended(err)
	return err
}

// Cancel implements raft.SnapshotSink.
func (k *ownSink) Cancel() error {
	err := k.err
	if err == nil {
		err = fmt.Errorf("the snapshot %s could not be completed", k.ID())
	}
	k.store.ended(err)
	return k.SnapshotSink.Cancel()
}

func (s *snapshotStore) ended(err error) {
	s.mu.Lock()
	s.failed = err
	s.mu.Unlock()
}

// installSink clears the log of what contradicts the snapshot, once that is durable.
type installSink struct {
	raft.SnapshotSink
	store       *Store
	index, term uint64
}

// Close implements raft.SnapshotSink.
func (k *installSink) Close() error {
	if err := k.SnapshotSink.Close(); err != nil {
		return err
	}
	return k.store.discardUnlessMatching(k.index, k.term)
}

// discardUnlessMatching empties the log unless it holds the entry. It is called on raft's main goroutine, which is the
// only one that appends. A longer tail than index never gets here: the snapshot guard of cluster/node removes it first.
func (s *Store) discardUnlessMatching(index, term uint64) error {
	have, ok, err := s.Term(index)
	if err != nil {
		return fmt.Errorf("%w: read the log: %w", ErrStorage, err)
	}
	if ok && have == term {
		return nil
	}
	first, last, err := s.Bounds()
	if err != nil || last == 0 {
		return err
	}
	s.logger.Info("discarding the log behind an installed snapshot", "from", first, "to", last, "snapshot_index", index, "snapshot_term", term)
	return s.Logs().DeleteRange(first, last)
}

// openSnapshots opens the snapshots and checks every checksum. A damaged newest one is set aside when the older one and
// the log cover its range, else the start is refused.
func (s *Store) openSnapshots() (*snapshotStore, error) {
	files, err := raft.NewFileSnapshotStoreWithLogger(s.dir, retainSnapshots, s.logger.Named("snapshot"))
	if err != nil {
		return nil, fmt.Errorf("%w: open the snapshots in %s: %w", ErrStorage, s.dir, err)
	}
	names, err := s.snapshotNames()
	if err != nil {
		return nil, err
	}
	for i, name := range names { // newest first
		path := filepath.Join(s.dir, snapshotDir, name.id)
		bad := verifySnapshot(files, name.id)
		if bad == nil {
			continue
		}
		if i > 0 { // not needed as long as a newer one is intact
			s.logger.Warn("an old snapshot is damaged; setting it aside", "path", path, "error", bad)
			if err := s.setAside(name.id); err != nil {
				return nil, err
			}
			continue
		}
		if err := s.mayFallBack(files, names, path, bad); err != nil {
			return nil, err
		}
		s.logger.Error("the newest snapshot is damaged; going back to the one before, the log covers the rest", "path", path, "error", bad)
		if err := s.setAside(name.id); err != nil {
			return nil, err
		}
	}
	return &snapshotStore{FileSnapshotStore: files, store: s}, nil
}

// verifySnapshot reads a snapshot's metadata and compares its checksum.
func verifySnapshot(files *raft.FileSnapshotStore, id string) error {
	_, r, err := files.Open(id)
	if err != nil {
		return err
	}
	return r.Close()
}

// mayFallBack decides whether the log replaces a damaged newest snapshot.
func (s *Store) mayFallBack(files *raft.FileSnapshotStore, names []snapshotName, path string, bad error) error {
	refusal := damaged(path, "the newest snapshot is damaged ("+bad.Error()+") and no older snapshot with the log covers its range", backupHint)
	first, last, err := s.Bounds()
	if err != nil {
		return fmt.Errorf("%w: read the log: %w", ErrStorage, err)
	}
	if len(names) < 2 {
		if first == 1 && last >= names[0].index {
			return nil // the log goes back to the beginning
		}
		return refusal
	}
	if verifySnapshot(files, names[1].id) != nil || first == 0 || first > names[1].index+1 || last < names[0].index {
		return refusal
	}
	return nil
}

// setAside moves a snapshot out of raft's sight without destroying it.
func (s *Store) setAside(id string) error {
	to := filepath.Join(s.dir, damagedDir)
	if err := os.MkdirAll(to, 0o700); err != nil {
		return fmt.Errorf("%w: create %s: %w", ErrStorage, to, err)
	}
	if err := os.Rename(filepath.Join(s.dir, snapshotDir, id), filepath.Join(to, id)); err != nil {
		return fmt.Errorf("%w: move a damaged snapshot to %s: %w", ErrStorage, to, err)
	}
	return nil
}

type snapshotName struct {
	id          string
	term, index uint64
	millis      uint64
}

// snapshotNames lists snapshot directories, newest first, by their names (term-index-milliseconds), because the
// metadata of a damaged one may be unreadable. What a crash left unfinished is removed.
func (s *Store) snapshotNames() ([]snapshotName, error) {
	dir := filepath.Join(s.dir, snapshotDir)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("%w: read %s: %w", ErrStorage, dir, err)
	}
	var names []snapshotName
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), tmpSuffix) {
			if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
				return nil, fmt.Errorf("%w: remove an unfinished snapshot in %s: %w", ErrStorage, dir, err)
			}
			continue
		}
		if n, ok := parseSnapshotName(e.Name()); ok && e.IsDir() {
			names = append(names, n)
		}
	}
	sort.Slice(names, func(i, j int) bool {
		a, b := names[i], names[j]
		if a.term != b.term {
			return a.term > b.term
		}
		if a.index != b.index {
			return a.index > b.index
		}
		return a.millis > b.millis
	})
	return names, nil
}

func parseSnapshotName(id string) (snapshotName, bool) {
	parts := strings.Split(id, "-")
	if len(parts) != 3 {
		return snapshotName{}, false
	}
	var v [3]uint64
	for i, p := range parts {
		var err error
		if v[i], err = strconv.ParseUint(p, 10, 64); err != nil {
			return snapshotName{}, false
		}
	}
	return snapshotName{id: id, term: v[0], index: v[1], millis: v[2]}, true
}

// NewestSnapshot gives the newest snapshot's metadata, nil when there is none.
func (s *Store) NewestSnapshot() (*raft.SnapshotMeta, error) {
	list, err := s.snaps.List()
	if err != nil || len(list) == 0 {
		return nil, err
	}
	return list[0], nil
}

// OpenSnapshot opens a snapshot whose checksum holds.
func (s *Store) OpenSnapshot(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	return s.snaps.Open(id)
}

// Sizes are the bytes of the log and of the snapshots on disk.
func (s *Store) Sizes() (log, snapshots int64, err error) {
	for _, name := range []string{logFile, stableFile, journalFiles[0], journalFiles[1]} {
		info, err := os.Stat(filepath.Join(s.dir, name))
		if errors.Is(err, fs.ErrNotExist) && s.log.files[0] == nil {
			continue
		}
		if err != nil {
			return 0, 0, err
		}
		log += info.Size()
	}
	err = filepath.WalkDir(filepath.Join(s.dir, snapshotDir), func(_ string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // reaped while we look
		}
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if err == nil {
			snapshots += info.Size()
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
	return log, snapshots, err
}
