package raftstore

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/hashicorp/raft"
)

// verify reads the whole log once, because raft panics on an entry that it cannot read, and checks the commands'
// checksums and that log and snapshots leave no gap.
func (s *Store) verify() (err error) {
	path := filepath.Join(s.dir, logFile)
	defer recoverDamage(path, &err)()
	first, last, err := s.Bounds()
	if err != nil {
		return fmt.Errorf("%w: read %s: %w", ErrStorage, path, err)
	}
	snap, err := s.NewestSnapshot()
	if err != nil {
		return fmt.Errorf("%w: list the snapshots: %w", ErrStorage, err)
	}
	covered := uint64(0) // everything up to here is in a snapshot
	if snap != nil {
		covered = snap.Index
	}
	if last > covered && first > covered+1 {
		return damaged(path, fmt.Sprintf("the log begins at entry %d, but the newest snapshot ends at %d", first, covered), backupHint)
	}
	var entry raft.Log
	for i := first; i <= last && i > 0; i++ {
		switch err := s.log.GetLog(i, &entry); {
		case err == nil && entry.Index == i:
			if err := s.checkSeal(&entry); err != nil {
				return err
			}
			s.sizes.add(i, entrySize(&entry))
		case errors.Is(err, raft.ErrLogNotFound) && i <= covered: // below a snapshot nobody reads it
		case err == nil:
			return damaged(path, fmt.Sprintf("entry %d says that it is entry %d", i, entry.Index), backupHint)
		default:
			return damaged(path, fmt.Sprintf("entry %d of %d to %d cannot be read: %v", i, first, last, err), backupHint)
		}
	}
	return nil
}
