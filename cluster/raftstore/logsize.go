package raftstore

import "sync"

// markBytes is how exact the bookkeeping of the log's bytes is: one mark for about so many.
const markBytes = 1 << 20

// mark is a run of entries.
type mark struct {
	first, last uint64
	bytes       int64
}

// logSizes knows how many bytes the entries of the log have, from any index on, to about markBytes. It errs to the larger
// side. The zero value is that of an empty log.
type logSizes struct {
	mu    sync.Mutex
	marks []mark // in the order of their indices
}

// add counts an entry that was stored. One at or before the last stands for all that it replaces.
func (s *logSizes) add(index uint64, bytes int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.marks)
	if n > 0 && index <= s.marks[n-1].last {
		s.cut(index)
		n = len(s.marks)
	}
	if n == 0 || s.marks[n-1].bytes >= markBytes {
		s.marks = append(s.marks, mark{index, index, bytes})
		return
	}
	s.marks[n-1].last = index
	s.marks[n-1].bytes += bytes
}

// cut forgets entries from an index on.
func (s *logSizes) cut(from uint64) {
	for n := len(s.marks); n > 0 && s.marks[n-1].last >= from; n-- {
		if s.marks[n-1].first < from {
			s.marks[n-1].last = from - 1
			return
		}
		s.marks = s.marks[:n-1]
	}
}

// remove forgets a range that reaches to the beginning or to the end.
func (s *logSizes) remove(from, to uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.marks)
	if n == 0 || from > to {
		return
	}
	if to >= s.marks[n-1].last {
		s.cut(from)
		return
	}
	gone := 0
	for gone < n && s.marks[gone].last <= to {
		gone++
	}
	s.marks = append(s.marks[:0], s.marks[gone:]...)
	if s.marks[0].first <= to {
		s.marks[0].first = to + 1
	}
}

// after counts the bytes of the entries behind an index.
func (s *logSizes) after(index uint64) (bytes int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := len(s.marks) - 1; i >= 0 && s.marks[i].last > index; i-- {
		bytes += s.marks[i].bytes
	}
	return bytes
}

// keep gives the first index of the longest end of the log that has at most so many bytes, and false when that is all of it.
func (s *logSizes) keep(bytes int64) (uint64, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := len(s.marks) - 1; i >= 0; i-- {
		if bytes -= s.marks[i].bytes; bytes < 0 {
			return s.marks[i].last + 1, true
		}
	}
	return 0, false
}
