package raftstore

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	metrics "github.com/hashicorp/go-metrics/compat"
	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
)

const (
	// batchShare of a file is the longest batch; a longer one goes to bolt at once: its bytes take longer than bolt's
	// second sync.
	batchShare = 4
	// maxSpareBuffer is what is kept of the buffers of a large batch.
	maxSpareBuffer = 1 << 20
)

// errNotCarried is the error of a write while entries of earlier ones cannot be carried over to bolt.
var errNotCarried = errors.New("entries of the journal cannot be carried over")

// journal is raft's log: batches are made durable with one sync in one of two files, served from memory, and carried over
// to bolt in one large transaction when the file is full. Bolt alone holds the rest.
//
// Rules that make every crash harmless. (1) A file is recycled only after all of it is in bolt, durably. (2) Nothing else
// changes in bolt at an index that a file may still hold: DeleteRange and a large batch empty both files first if they must. So
// what is in the files can be put into bolt once more at any time. (3) After a failed write a file takes no more until it
// is recycled.
type journal struct {
	dir  string
	bolt *raftboltdb.BoltStore
	log  hclog.Logger
	// failed is told of carries in the background that did not work.
	failed func(error)

	// write is held by whoever changes the log; it guards what follows.
	write   sync.Mutex
	files   [2]*segment // both nil: there is no journal, all goes to bolt
	active  int
	broken  error         // of the last write; the files must be emptied before the next
	carried chan struct{} // closed when the carry in the background has ended, nil when there was none
	payload []byte
	frame   []byte

	// mu guards what is in memory, and carryErr. It is held for no disk access.
	mu       sync.RWMutex
	memory   memory
	carryErr error
}

// openJournal reads the files of a directory that has them; it changes nothing. Their entries are in memory only, until
// settle.
func openJournal(s *Store, d disk) (*journal, error) {
	j := &journal{dir: s.dir, bolt: s.bolt, log: s.logger, failed: func(err error) { s.noteWrite(s.storageError(err)) }, memory: newMemory()}
	var found [2]*segment
	var logs [2][]*raft.Log
	for i, name := range journalFiles {
		path := filepath.Join(s.dir, name)
		g, l, err := openSegment(d, path, s.identity.NodeID)
		switch {
		case errors.Is(err, fs.ErrNotExist) && !s.identity.Journal:
		case errors.Is(err, fs.ErrNotExist):
			return j, errors.Join(damaged(path, "missing, although "+identityFile+" says that entries may be in it", backupHint), closeSegments(found))
		case err != nil:
			return j, errors.Join(err, closeSegments(found))
		}
		found[i], logs[i] = g, l
	}
	for i, name := range journalFiles {
		if !s.identity.Journal && len(logs[i]) > 0 {
			text := "it holds entries, although " + identityFile + " says that it does not"
			return j, errors.Join(damaged(filepath.Join(s.dir, name), text, backupHint), closeSegments(found))
		}
	}
	if found[0] == nil || found[1] == nil {
		return j, closeSegments(found) // half made: they hold nothing yet
	}
	first := 0
	if found[1].gen < found[0].gen {
		first = 1
	}
	if found[1-first].gen != found[first].gen+1 {
		text := fmt.Sprintf("it is of generation %d beside %d", found[first].gen, found[1-first].gen)
		return j, errors.Join(damaged(found[first].path, text, backupHint), closeSegments(found))
	}
	for _, i := range []int{first, 1 - first} {
		j.memory.put(i, logs[i])
	}
	j.files, j.active = found, first
	return j, nil
}

func closeSegments(files [2]*segment) error {
	var errs []error
	for _, g := range files {
		if g != nil {
			errs = append(errs, g.file.Close())
		}
	}
	return errors.Join(errs...)
}

// confirm makes durable what openJournal found after a process that did not end in order. A flush must follow.
func (j *journal) confirm() error {
	for i, g := range j.files {
		if g == nil {
			continue
		}
		if g.torn {
			j.log.Warn("cutting off a batch of log entries whose writing was never completed", "path", g.path, "at", g.end)
		}
		if err := g.confirm(); err != nil {
			return fmt.Errorf("%w: write %s: %w", ErrStorage, g.path, err)
		}
		if n := len(j.memory.files[i].held); n > 0 {
			j.log.Info("carrying over what the journal holds", "path", g.path, "entries", n)
		}
	}
	return nil
}

// flush carries everything over.
func (j *journal) flush() error {
	j.write.Lock()
	defer j.write.Unlock()
	return j.empty()
}

// create makes the files. Without them every write goes to bolt.
func (j *journal) create(d disk, owner string, size int64) error {
	var made [2]*segment
	for i, name := range journalFiles {
		g, err := createSegment(d, filepath.Join(j.dir, name), owner, size, uint64(i+1))
		if err != nil {
			return errors.Join(err, closeSegments(made))
		}
		made[i] = g
	}
	j.files, j.active = made, 0
	return nil
}

// StoreLogs makes entries durable.
func (j *journal) StoreLogs(logs []*raft.Log) error {
	if len(logs) == 0 {
		return nil
	}
	j.write.Lock()
	defer j.write.Unlock()
	defer metrics.MeasureSince([]string{"raft", "journal", "storeLogs"}, time.Now())
	if err := j.usable(); err != nil {
		return err
	}
	if j.files[0] == nil || int64(payloadSize(logs)) > (j.files[0].size-dataStart)/batchShare {
		return j.storeDirectly(logs)
	}
	payload, err := appendPayload(j.payload[:0], logs)
	if err != nil {
		return err
	}
	g, err := j.room(batchSize(len(payload)))
	if err != nil {
		return err
	}
	j.payload, j.frame = payload, appendBatch(j.frame[:0], payload, g.gen, g.next)
	err = g.append(j.frame)
	if cap(j.frame) > maxSpareBuffer {
		j.payload, j.frame = nil, nil
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if err != nil {
		j.broken = err
		j.memory.files[j.active].failed = true
		return fmt.Errorf("%s: %w", filepath.Base(g.path), err)
	}
	j.memory.put(j.active, logs)
	return nil
}

// storeDirectly writes to bolt. The files may stay as they are when they hold nothing at or behind these entries.
func (j *journal) storeDirectly(logs []*raft.Log) error {
	j.mu.RLock()
	behind := max(j.memory.files[0].high, j.memory.files[1].high) < logs[0].Index
	j.mu.RUnlock()
	if !behind {
		if err := j.empty(); err != nil {
			return err
		}
	}
	if err := j.bolt.StoreLogs(logs); err != nil {
		return err
	}
	j.mu.Lock()
	j.memory.putCarried(logs)
	j.mu.Unlock()
	return nil
}

// usable repairs the files if a write or a carry has failed before.
func (j *journal) usable() error {
	if j.carried != nil && j.broken == nil {
		select {
		case <-j.carried:
			j.broken = j.carryError()
		default:
		}
	}
	if j.broken == nil {
		return nil
	}
	return j.empty()
}

func (j *journal) carryError() error {
	j.mu.RLock()
	defer j.mu.RUnlock()
	return j.carryErr
}

// room gives the file for the next batch of n bytes. When the active one is full the other one takes over; if that one is
// still being carried over, the caller waits: this bounds the memory.
func (j *journal) room(n int) (*segment, error) {
	g := j.files[j.active]
	if g.fits(n) {
		return g, nil
	}
	if j.carried != nil {
		<-j.carried
		if err := j.carryError(); err != nil {
			j.broken = err
			return nil, err
		}
	}
	full := j.active
	j.active = 1 - j.active
	done := make(chan struct{})
	j.carried = done
	go func() {
		defer close(done)
		err := j.carry(full)
		j.mu.Lock()
		j.carryErr = err
		j.mu.Unlock()
		if err != nil {
			j.failed(err)
		}
	}()
	return j.files[j.active], nil
}

// carry brings a file's entries to bolt and recycles it. The file is the caller's alone.
func (j *journal) carry(file int) error {
	g := j.files[file]
	if g.empty() {
		return nil
	}
	j.mu.RLock()
	pinned := j.memory.files[file].held
	j.mu.RUnlock()
	if len(pinned) > 0 {
		logs := make([]*raft.Log, len(pinned))
		for i, h := range pinned {
			logs[i] = &h.log
		}
		if err := j.bolt.StoreLogs(logs); err != nil {
			return fmt.Errorf("%w: %w", errNotCarried, err)
		}
	}
	if err := g.recycle(); err != nil {
		return fmt.Errorf("recycle %s: %w", filepath.Base(g.path), err)
	}
	j.mu.Lock()
	j.memory.release(file)
	j.mu.Unlock()
	return nil
}

// empty carries everything over and makes the files usable again. The caller holds write.
func (j *journal) empty() error {
	if j.carried != nil {
		<-j.carried
		j.carried = nil
	}
	if j.files[0] == nil {
		j.broken = nil
		return nil
	}
	older := 0
	if j.files[1].gen < j.files[0].gen {
		older = 1
	}
	for _, file := range []int{older, 1 - older} {
		if err := j.carry(file); err != nil {
			j.broken = err
			return err
		}
	}
	j.active = 0
	if j.files[1].gen < j.files[0].gen {
		j.active = 1
	}
	j.broken = nil
	j.mu.Lock()
	j.carryErr = nil
	j.mu.Unlock()
	return nil
}

// repair tries to make the log writable after a failure.
func (j *journal) repair() error {
	j.write.Lock()
	defer j.write.Unlock()
	return j.usable()
}

// DeleteRange removes entries, durably. One that ends before all that the files hold, as a compaction does, holds up
// nobody.
func (j *journal) DeleteRange(from, to uint64) error {
	j.mu.Lock()
	if j.memory.clearOf(to) {
		j.memory.forget(from, to)
		j.mu.Unlock()
		return j.bolt.DeleteRange(from, to)
	}
	j.mu.Unlock()
	j.write.Lock()
	defer j.write.Unlock()
	if err := j.empty(); err != nil {
		return err
	}
	j.mu.Lock()
	j.memory.forget(from, to)
	j.mu.Unlock()
	return j.bolt.DeleteRange(from, to)
}

// GetLog gives an entry, or raft.ErrLogNotFound.
func (j *journal) GetLog(index uint64, entry *raft.Log) error {
	j.mu.RLock()
	h := j.memory.byIndex[index]
	j.mu.RUnlock()
	if h != nil {
		*entry = h.log
		return nil
	}
	*entry = raft.Log{} // the decoder would write into its bytes, which may be those of an entry in memory
	return j.bolt.GetLog(index, entry)
}

// bounds are the first and the last index; 0 when the log is empty. Memory is asked first: what leaves it meanwhile is
// in bolt.
func (j *journal) bounds() (first, last uint64, err error) {
	j.mu.RLock()
	f := &j.memory.files
	low, high := min(f[0].low, f[1].low), max(f[0].high, f[1].high)
	j.mu.RUnlock()
	if first, err = j.bolt.FirstIndex(); err != nil {
		return 0, 0, err
	}
	if last, err = j.bolt.LastIndex(); err != nil {
		return 0, 0, err
	}
	if low != math.MaxUint64 && (first == 0 || low < first) {
		first = low
	}
	return first, max(last, high), nil
}

// close gives the files back; settled says whether they may be emptied. It tells whether they hold nothing.
func (j *journal) close(settled bool) (empty bool, err error) {
	j.write.Lock()
	defer j.write.Unlock()
	if settled {
		err = j.empty()
	}
	empty = settled && err == nil
	return empty, errors.Join(err, closeSegments(j.files))
}
