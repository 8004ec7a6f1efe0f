package raftstore

import (
	"errors"

	"github.com/hashicorp/raft"
)

// logStore is the log that raft sees: journal and bbolt, with errors that name the file and are remembered.
// It is deliberately no raft.MonotonicLogStore: see DiscardBefore and cluster/node's snapshot guard.
type logStore Store

func (l *logStore) store() *Store { return (*Store)(l) }

// FirstIndex implements raft.LogStore.
func (l *logStore) FirstIndex() (uint64, error) {
	first, _, err := l.log.bounds()
	return first, err
}

// LastIndex implements raft.LogStore.
func (l *logStore) LastIndex() (uint64, error) {
	_, last, err := l.log.bounds()
	return last, err
}

// GetLog implements raft.LogStore. A command that the disk has changed since the start is an error: it must not be sent
// to others.
func (l *logStore) GetLog(index uint64, log *raft.Log) error {
	if err := l.log.GetLog(index, log); err != nil {
		return err
	}
	return l.store().checkSeal(log)
}

// StoreLog implements raft.LogStore.
func (l *logStore) StoreLog(log *raft.Log) error { return l.StoreLogs([]*raft.Log{log}) }

// StoreLogs implements raft.LogStore.
func (l *logStore) StoreLogs(logs []*raft.Log) error {
	s := l.store()
	began := s.began(logs)
	err := s.writing(func() error { return l.log.StoreLogs(logs) })
	s.ended(began)
	if err == nil {
		for _, e := range logs {
			s.sizes.add(e.Index, entrySize(e))
		}
	}
	return err
}

// DeleteRange implements raft.LogStore.
func (l *logStore) DeleteRange(from, to uint64) error {
	s := l.store()
	err := s.writing(func() error { return l.log.DeleteRange(from, to) })
	if err == nil {
		s.sizes.remove(from, to)
	}
	return err
}

// Term gives the term of a log entry, and false if the log does not hold it.
func (s *Store) Term(index uint64) (uint64, bool, error) {
	var l raft.Log
	err := s.log.GetLog(index, &l)
	if errors.Is(err, raft.ErrLogNotFound) {
		return 0, false, nil
	}
	return l.Term, err == nil, err
}

// Bounds are the first and the last index of the log; both are 0 when it is empty.
func (s *Store) Bounds() (first, last uint64, err error) { return s.log.bounds() }

// TruncateFrom removes every entry at and after index. Raft must not be running on this store: it keeps its own idea of
// the last entry in memory.
func (s *Store) TruncateFrom(index uint64) error {
	_, last, err := s.Bounds()
	if err != nil {
		return err
	}
	if last < index {
		return nil
	}
	s.logger.Warn("removing the end of the log: it contradicts what the cluster has committed", "from", index, "to", last)
	return s.Logs().DeleteRange(index, last)
}

// entrySize is what an entry counts for, in bytes.
func entrySize(e *raft.Log) int64 { return int64(len(e.Data)+len(e.Extensions)) + entryOverhead }

// BytesAfter counts the bytes of the entries behind an index, to about a MiB; 0 stands for all.
func (s *Store) BytesAfter(index uint64) int64 { return s.sizes.after(index) }

// TrimTo removes entries from the beginning of the log until at most keep bytes remain, but none behind the index covered,
// which a snapshot must hold. Raft's own compaction counts entries only.
func (s *Store) TrimTo(keep int64, covered uint64) error {
	from, ok := s.sizes.keep(keep)
	if !ok || covered == 0 {
		return nil
	}
	to := min(from-1, covered)
	first, _, err := s.Bounds()
	if err != nil || first == 0 || first > to {
		return err
	}
	s.logger.Info("removing entries that a snapshot covers: the log is long in bytes", "from", first, "to", to)
	return s.Logs().DeleteRange(first, to)
}
