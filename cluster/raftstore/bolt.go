package raftstore

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime/debug"

	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
)

// buckets are what raft-boltdb keeps in its files.
var buckets = map[string]bool{"logs": true, "conf": true}

// openBolt checks a file and opens it. bbolt reads pages through a memory map and trusts them; so whatever it meets in
// a damaged file (a panic, a fault beyond the end) becomes an error here.
func openBolt(path string) (db *raftboltdb.BoltStore, err error) {
	defer recoverDamage(path, &err)()
	if err := checkBolt(path); err != nil {
		return nil, err
	}
	db, err = raftboltdb.New(raftboltdb.Options{Path: path, BoltOptions: boltOptions()})
	if err != nil {
		return nil, boltError(path, err)
	}
	return db, nil
}

// recoverDamage turns panics and memory faults of reading a damaged file into an error. Use: defer recoverDamage(..)().
func recoverDamage(path string, err *error) func() {
	old := debug.SetPanicOnFault(true)
	return func() {
		debug.SetPanicOnFault(old)
		if r := recover(); r != nil {
			*err = damaged(path, fmt.Sprintf("unreadable: %v", r), backupHint)
		}
	}
}

// checkBolt refuses a file that is no bolt database, one of something else, and one that is shorter than it says.
func checkBolt(path string) error {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) || (err == nil && info.Size() == 0) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%w: stat %s: %w", ErrStorage, path, err)
	}
	o := boltOptions()
	o.ReadOnly = true
	db, err := bbolt.Open(path, 0o600, o)
	if err != nil {
		return boltError(path, err)
	}
	err = db.View(func(tx *bbolt.Tx) error {
		if tx.Size() > info.Size() {
			return damaged(path, fmt.Sprintf("truncated: %d of %d bytes are there", info.Size(), tx.Size()), backupHint)
		}
		return walk(path, tx)
	})
	return errors.Join(err, db.Close())
}

// walk reads every page that is in use. bbolt does so, too, when it opens a file for writing, but in a goroutine of its
// own, where a panic ends the process; here it can be caught.
func walk(path string, tx *bbolt.Tx) error {
	err := tx.ForEach(func(name []byte, b *bbolt.Bucket) error {
		if !buckets[string(name)] {
			return fmt.Errorf("%w: %s: a bolt database with a bucket %q; is this the right data directory?", ErrForeign, path, name)
		}
		return b.ForEach(func(_, _ []byte) error { return nil })
	})
	if err != nil {
		return err
	}
	for bad := range tx.Check() {
		err = errors.Join(err, bad)
	}
	if err != nil {
		return damaged(path, err.Error(), backupHint)
	}
	return nil
}

func boltError(path string, err error) error {
	switch {
	case errors.Is(err, berrors.ErrTimeout):
		return fmt.Errorf("%w: %s is locked by another process", ErrInUse, path)
	case errors.Is(err, berrors.ErrInvalid), errors.Is(err, berrors.ErrChecksum), errors.Is(err, berrors.ErrVersionMismatch):
		return damaged(path, err.Error(), "if it is not a file of raftmaster, name another --data-dir; otherwise "+backupHint)
	}
	return fmt.Errorf("%w: open %s: %w", ErrStorage, path, err)
}
