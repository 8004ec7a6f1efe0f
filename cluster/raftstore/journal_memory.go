package raftstore

import (
	"math"

	"github.com/hashicorp/raft"
)

const (
	// cacheEntries and cacheBytes bound what stays in memory of entries that are in bolt, for followers that are nearly up
	// to date. Entries that are not in bolt yet are bounded by the size of the journal.
	cacheEntries = 1024
	cacheBytes   = 4 << 20
	// entryOverhead is what an entry costs beside its data, in bytes, roughly.
	entryOverhead = 128
)

// held is an entry in memory.
type held struct {
	log    raft.Log
	pinned bool // a file of the journal holds it, and bolt may not
}

func (h *held) size() int64 { return entrySize(&h.log) }

// pins are the entries of one file of the journal.
type pins struct {
	held      []*held
	low, high uint64 // their bounds; math.MaxUint64 and 0 when there are none
	failed    bool   // it may hold a batch, too, whose write has failed
}

var noPins = pins{low: math.MaxUint64}

// memory are the entries of the journal and the last ones of bolt. The owner locks.
type memory struct {
	byIndex map[uint64]*held
	queue   []*held // in the order of their writing: pinned ones after all others
	bytes   int64   // of queue
	files   [2]pins
}

func newMemory() memory {
	return memory{byIndex: make(map[uint64]*held), files: [2]pins{noPins, noPins}}
}

// put adds entries that a file of the journal holds.
func (m *memory) put(file int, logs []*raft.Log) {
	p := &m.files[file]
	for _, h := range m.add(logs) {
		h.pinned = true
		p.held = append(p.held, h)
		p.low, p.high = min(p.low, h.log.Index), max(p.high, h.log.Index)
	}
}

// putCarried adds entries that are in bolt. Behind pinned ones they could not be evicted, and are left to bolt.
func (m *memory) putCarried(logs []*raft.Log) {
	m.forget(logs[0].Index, logs[len(logs)-1].Index)
	if len(m.files[0].held)+len(m.files[1].held) == 0 {
		m.add(logs)
		m.evict()
	}
}

func (m *memory) add(logs []*raft.Log) []*held {
	// Copies: raft's own are part of larger things that need not live as long.
	added := make([]*held, len(logs))
	block := make([]held, len(logs))
	for i, l := range logs {
		block[i].log = *l
		added[i] = &block[i]
		m.byIndex[l.Index] = added[i]
		m.bytes += added[i].size()
	}
	m.queue = append(m.queue, added...)
	return added
}

// release unpins what a file held: it is in bolt, and gone from the file.
func (m *memory) release(file int) {
	for _, h := range m.files[file].held {
		h.pinned = false
	}
	m.files[file] = noPins
	m.evict()
}

func (m *memory) evict() {
	for len(m.queue) > 0 && !m.queue[0].pinned && (m.bytes > cacheBytes || len(m.queue) > cacheEntries) {
		h := m.queue[0]
		m.queue[0] = nil
		m.queue = m.queue[1:]
		m.remove(h)
	}
}

func (m *memory) remove(h *held) {
	m.bytes -= h.size()
	if m.byIndex[h.log.Index] == h {
		delete(m.byIndex, h.log.Index)
	}
}

// forget removes entries that are not pinned.
func (m *memory) forget(from, to uint64) {
	var kept []*held
	for _, h := range m.queue {
		if i := h.log.Index; !h.pinned && i >= from && i <= to {
			m.remove(h)
		} else {
			kept = append(kept, h)
		}
	}
	m.queue = kept
}

// clearOf tells whether no file can hold an entry that the removal of all up to an index concerns. A batch whose write
// has failed may come back after a crash: it must not do so behind a gap.
func (m *memory) clearOf(to uint64) bool {
	return !m.files[0].failed && !m.files[1].failed && to < min(m.files[0].low, m.files[1].low)
}
