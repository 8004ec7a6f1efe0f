package raftstore

import (
	"errors"
	"fmt"
)

// Errors of opening and using a data directory. All but ErrStorage are refusals that need a human.
var (
	// ErrInUse: another process holds the data directory.
	ErrInUse = errors.New("data directory is in use")
	// ErrDamaged: a file is damaged, or missing beside files that need it.
	ErrDamaged = errors.New("data directory is damaged")
	// ErrForeign: a file is not ours.
	ErrForeign = errors.New("not a raftmaster data file")
	// ErrOtherCluster: the directory belongs to another cluster.
	ErrOtherCluster = errors.New("data directory of another cluster")
	// ErrStorage: the disk refused a write or a read (full, I/O error). It may heal.
	ErrStorage = errors.New("storage failed")
)

const (
	rejoinHint = "if the other masters are well, move this data directory away, start with an empty one, and replace this master with raftctl peers remove and peers add"
	backupHint = "restore the directory from a backup, or " + rejoinHint +
		"; if no other master is well, form a new cluster of empty directories and give it the newest snapshot with raftctl snapshot restore"
)

func damaged(path, what, hint string) error {
	return fmt.Errorf("%w: %s: %s; %s", ErrDamaged, path, what, hint)
}
