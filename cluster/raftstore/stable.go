package raftstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"

	"go.etcd.io/bbolt"
)

// Keys of raft (hashicorp/raft, raft.go). raft saves a vote in two calls, the term first; nothing follows from a vote
// before the second has returned.
const (
	keyVoteTerm = "LastVoteTerm"
	keyVoteCand = "LastVoteCand"
)

// errNotFound has the text by which raft knows a missing key.
var errNotFound = errors.New("not found")

// stableStore is raft's term and vote, in a file of its own: it never grows, so a full disk does not keep a node from
// voting; and the two halves of a vote cost one transaction, which counts when a leader has to be replaced.
type stableStore struct {
	path string
	db   *bbolt.DB

	before func() // each write; nil: nothing

	mu       sync.Mutex
	voteTerm []byte // the first half of a vote that is not on disk yet
}

func openStable(path string) (s *stableStore, err error) {
	defer recoverDamage(path, &err)()
	if err := checkBolt(path); err != nil {
		return nil, err
	}
	db, err := bbolt.Open(path, 0o600, boltOptions())
	if err != nil {
		return nil, boltError(path, err)
	}
	s = &stableStore{path: path, db: db}
	err = db.Update(func(tx *bbolt.Tx) error {
		_, err := tx.CreateBucketIfNotExists(stableBucket)
		return err
	})
	if err != nil {
		return nil, errors.Join(s.fail(err), db.Close())
	}
	return s, nil
}

var stableBucket = []byte("conf")

// reserve makes the file large enough that later votes and terms fit into pages that exist already.
func (s *stableStore) reserve() error {
	key := []byte("reserve")
	if _, err := s.Get(key); err == nil {
		return nil
	}
	if err := s.Set(key, make([]byte, stableReserve)); err != nil {
		return err
	}
	return s.Set(key, []byte("done"))
}

func (s *stableStore) fail(err error) error {
	if err == nil || errors.Is(err, errNotFound) {
		return err
	}
	return fmt.Errorf("%w: %s: %w", ErrStorage, s.path, err)
}

// Set implements raft.StableStore.
func (s *stableStore) Set(key, val []byte) error {
	if s.before != nil {
		s.before()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.db.Update(func(tx *bbolt.Tx) error {
		b := tx.Bucket(stableBucket)
		if string(key) == keyVoteCand && s.voteTerm != nil {
			if err := b.Put([]byte(keyVoteTerm), s.voteTerm); err != nil {
				return err
			}
		}
		return b.Put(key, val)
	})
	if err == nil && string(key) == keyVoteCand {
		s.voteTerm = nil
	}
	return s.fail(err)
}

// Get implements raft.StableStore.
func (s *stableStore) Get(key []byte) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if string(key) == keyVoteTerm && s.voteTerm != nil {
		return s.voteTerm, nil
	}
	var val []byte
	err := s.db.View(func(tx *bbolt.Tx) error {
		v := tx.Bucket(stableBucket).Get(key)
		if v == nil {
			return errNotFound
		}
		val = append([]byte{}, v...)
		return nil
	})
	return val, s.fail(err)
}

// SetUint64 implements raft.StableStore.
func (s *stableStore) SetUint64(key []byte, val uint64) error {
	b := binary.BigEndian.AppendUint64(nil, val)
	if string(key) == keyVoteTerm {
		s.mu.Lock()
		s.voteTerm = b
		s.mu.Unlock()
		return nil
	}
	return s.Set(key, b)
}

// GetUint64 implements raft.StableStore.
func (s *stableStore) GetUint64(key []byte) (uint64, error) {
	b, err := s.Get(key)
	if err != nil {
		return 0, err
	}
	if len(b) != 8 {
		return 0, damaged(s.path, fmt.Sprintf("%s has %d bytes", key, len(b)), backupHint)
	}
	return binary.BigEndian.Uint64(b), nil
}

func (s *stableStore) close() error { return s.db.Close() }
