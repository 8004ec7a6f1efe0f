package fsm

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"io"
)

// A snapshot is
//
//	magic (8 bytes), format version u16, application version (u8 length, text), last index u64, last term u64,
//	records: kind u8, length u32, canonical msgpack,
//	trailer: kind 255, length u32 = 72, number of records u64, digest of the state (32), SHA-256 of all bytes before
//	it (32).
//
// Numbers are big-endian. Records come in ascending kind and, inside a kind, in key order: the same state gives the
// same bytes. Indexes and totals are not written; Restore derives them.

const (
	snapshotMagic = "RAFTMSTR"
	// SnapshotFormat is the version that is written, and the only one that is read.
	SnapshotFormat        = 1
	snapshotFormat uint16 = SnapshotFormat
	// snapshotWriter is for people who look into the file.
	snapshotWriter = "raftmaster/1"
)

// recordKind numbers are explicit and never reused. 32..47 belong to drivers.
type recordKind uint8

const (
	kindGlobals       recordKind = 1
	kindWorker        recordKind = 2
	kindApplication   recordKind = 3
	kindPayload       recordKind = 4
	kindExecutor      recordKind = 5
	kindRemoved       recordKind = 6
	kindStaged        recordKind = 7
	kindDriver        recordKind = 32
	kindDriverPayload recordKind = 33
	kindTrailer       recordKind = 255
)

const trailerBytes = 8 + 2*sha256.Size

// payloadRecord is the payload of an unfinished application, apart from its entity so that the digest of the latter
// need not hash it again at each change.
type payloadRecord struct {
	AppID   string
	Payload []byte
}

// driverPayloadRecord is the same for a driver.
type driverPayloadRecord struct {
	DriverID string
	Payload  []byte
}

// Snapshot is a state that can be written. It may be dropped without being written.
type Snapshot struct{ s *state }

// View gives the state that will be written.
func (s Snapshot) View() View { return View(s) }

// Write writes the snapshot: the same bytes for the same state. It may run while the Machine goes on.
func (s Snapshot) Write(w io.Writer) error {
	st := s.View().state()
	buffered := bufio.NewWriterSize(w, 64<<10)
	sw := &snapshotWriterTo{w: buffered, hash: sha256.New(), sums: newSummer()}
	sw.header(st)
	sw.record(kindGlobals, st.globals)
	st.tables.workers.scan(nil, func(w *Worker) bool { return sw.record(kindWorker, w) })
	st.tables.apps.scan(nil, func(a *Application) bool { return sw.record(kindApplication, a) })
	st.tables.apps.scan(nil, func(a *Application) bool {
		return a.Payload == nil || sw.record(kindPayload, &payloadRecord{AppID: a.ID, Payload: a.Payload})
	})
	st.tables.executors.scan(nil, func(e *Executor) bool { return sw.record(kindExecutor, e) })
	st.tables.removed.scan(nil, func(e *RemovedExecutor) bool { return sw.record(kindRemoved, e) })
	st.tables.staged.scan(nil, func(s *stagedChunk) bool { return sw.record(kindStaged, s) })
	st.tables.drivers.scan(nil, func(d *Driver) bool { return sw.record(kindDriver, d) })
	st.tables.drivers.scan(nil, func(d *Driver) bool {
		return d.Payload == nil || sw.record(kindDriverPayload, &driverPayloadRecord{DriverID: d.ID, Payload: d.Payload})
	})
	sw.trailer(st)
	if sw.err == nil {
		sw.err = buffered.Flush()
	}
	if sw.err != nil {
		return fmt.Errorf("write snapshot: %w", sw.err)
	}
	return nil
}

// snapshotWriterTo writes and hashes; after the first error it does nothing more.
type snapshotWriterTo struct {
	w     io.Writer
	hash  hash.Hash
	sums  *summer
	count uint64
	err   error
}

func (s *snapshotWriterTo) write(p []byte) {
	if s.err != nil {
		return
	}
	s.hash.Write(p)
	_, s.err = s.w.Write(p)
}

func (s *snapshotWriterTo) header(st *state) {
	b := []byte(snapshotMagic)
	b = binary.BigEndian.AppendUint16(b, snapshotFormat)
	b = append(b, byte(len(snapshotWriter)))
	b = append(b, snapshotWriter...)
	b = binary.BigEndian.AppendUint64(b, st.index)
	s.write(binary.BigEndian.AppendUint64(b, st.term))
}

// record writes one record; false stops the iteration over the table.
func (s *snapshotWriterTo) record(kind recordKind, entity any) bool {
	body := s.sums.encode(entity)
	if len(body) > maxSnapshotRecordBytes {
		s.err = fmt.Errorf("record of kind %d has %d bytes, the limit is %d", kind, len(body), maxSnapshotRecordBytes)
		return false
	}
	s.write(binary.BigEndian.AppendUint32([]byte{byte(kind)}, uint32(len(body))))
	s.write(body)
	s.count++
	return s.err == nil
}

func (s *snapshotWriterTo) trailer(st *state) {
	b := binary.BigEndian.AppendUint32([]byte{byte(kindTrailer)}, trailerBytes)
	b = binary.BigEndian.AppendUint64(b, s.count)
	digest := st.digest.digest()
	s.write(append(b, digest[:]...))
	s.write(s.hash.Sum(nil))
}
