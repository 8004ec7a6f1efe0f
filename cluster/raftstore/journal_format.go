package raftstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"time"

	"github.com/hashicorp/raft"
)

// The format of a journal file, version 1; numbers are big endian, checksums CRC-32C. The file has a fixed size and is
// used again and again. Pages 0 and 1 hold headers (see journalHeader), of which the one with the higher generation
// counts. From page 2 on follow batches, each at the beginning of a page, so that no byte of an acknowledged batch is
// ever written again. A batch is a run of sectors, each with its own checksum and the name of its place:
//
//	crc u32 (of all that follows) | generation u64 | batch u32 | index u32 | count u32 | 488 bytes of the payload
//
// The last sector of a batch has no payload. It tells two faults apart that look alike otherwise: a batch whose writing
// was cut off anywhere, even within a sector, lacks at least one sector that is *intact and of before* (zero, or of an earlier
// generation); one whose bytes were changed afterwards lacks none. The former was never acknowledged and is cut off, the
// latter is refused.
const (
	sectorSize = 512
	sectorHead = 24
	sectorBody = sectorSize - sectorHead
	pageSize   = 4096
	dataStart  = 2 * pageSize
)

const (
	journalFormat = 1
	journalMagic  = "RMJOURNL"
	// maxJournalSize bounds what a header may say, in bytes.
	maxJournalSize = 1 << 30
	// maxOwner is the room for a node id in a header.
	maxOwner = 64
)

// sector names a place in a journal.
type sector struct {
	generation          uint64
	batch, index, count uint32
}

// sectorState is what became of a sector.
type sectorState int

const (
	sectorBad    sectorState = iota // neither intact nor empty
	sectorZero                      // never written
	sectorIntact                    // its checksum holds
)

func putSector(b []byte, s sector) {
	binary.BigEndian.PutUint64(b[4:], s.generation)
	binary.BigEndian.PutUint32(b[12:], s.batch)
	binary.BigEndian.PutUint32(b[16:], s.index)
	binary.BigEndian.PutUint32(b[20:], s.count)
	binary.BigEndian.PutUint32(b, crc32.Checksum(b[4:sectorSize], castagnoli))
}

func readSector(b []byte) (sector, sectorState) {
	if binary.BigEndian.Uint32(b) != crc32.Checksum(b[4:sectorSize], castagnoli) {
		for _, c := range b[:sectorSize] {
			if c != 0 {
				return sector{}, sectorBad
			}
		}
		return sector{}, sectorZero
	}
	return sector{
		generation: binary.BigEndian.Uint64(b[4:]), batch: binary.BigEndian.Uint32(b[12:]),
		index: binary.BigEndian.Uint32(b[16:]), count: binary.BigEndian.Uint32(b[20:]),
	}, sectorIntact
}

// batchSize is the length in the file of a batch with that much payload, whole pages.
func batchSize(payload int) int {
	sectors := (payload+sectorBody-1)/sectorBody + 1
	return (sectors*sectorSize + pageSize - 1) / pageSize * pageSize
}

// appendBatch frames a payload; the result is a whole number of pages.
func appendBatch(b, payload []byte, generation uint64, batch uint32) []byte {
	start := len(b)
	b = append(b, make([]byte, batchSize(len(payload)))...)
	count := uint32((len(payload)+sectorBody-1)/sectorBody + 1)
	for i := range count {
		at := b[start+int(i)*sectorSize:]
		n := copy(at[sectorHead:sectorSize], payload)
		payload = payload[n:]
		putSector(at, sector{generation, batch, i, count})
	}
	return b
}

// journalHeader says what a file is. Magic, format and checksum have the same place in every format.
//
//	magic 8 bytes | format u32 | generation u64 | size u64 | length of the owner u8 | owner, 64 bytes | ... | crc u32 at 508
type journalHeader struct {
	format     uint32
	generation uint64
	size       int64
	owner      string // node id
}

func (h journalHeader) encode() []byte {
	b := make([]byte, sectorSize)
	copy(b, journalMagic)
	binary.BigEndian.PutUint32(b[8:], h.format)
	binary.BigEndian.PutUint64(b[12:], h.generation)
	binary.BigEndian.PutUint64(b[20:], uint64(h.size))
	b[28] = byte(copy(b[29:29+maxOwner], h.owner))
	binary.BigEndian.PutUint32(b[508:], crc32.Checksum(b[:508], castagnoli))
	return b
}

// decodeHeader reads a header; false when there is none that is intact.
func decodeHeader(b []byte) (journalHeader, bool) {
	if len(b) < sectorSize || string(b[:8]) != journalMagic || binary.BigEndian.Uint32(b[508:]) != crc32.Checksum(b[:508], castagnoli) {
		return journalHeader{}, false
	}
	h := journalHeader{format: binary.BigEndian.Uint32(b[8:]), generation: binary.BigEndian.Uint64(b[12:]), size: int64(binary.BigEndian.Uint64(b[20:]))}
	h.owner = string(b[29 : 29+min(int(b[28]), maxOwner)])
	return h, true
}

// headerSlot is where the header of a generation is written: never over the one that is valid now.
func headerSlot(generation uint64) int64 { return int64(generation / 2 % 2 * pageSize) }

var errRecord = errors.New("a record that makes no sense")

// appendPayload encodes the entries of a batch: their number as u32, then for each
// index u64 | term u64 | type u8 | length u8, time | length u32, data | length u32, extensions.
func appendPayload(b []byte, logs []*raft.Log) ([]byte, error) {
	b = binary.BigEndian.AppendUint32(b, uint32(len(logs)))
	for _, l := range logs {
		b = binary.BigEndian.AppendUint64(b, l.Index)
		b = binary.BigEndian.AppendUint64(b, l.Term)
		b = append(b, byte(l.Type), 0)
		at := len(b)
		var err error
		if b, err = l.AppendedAt.AppendBinary(b); err != nil {
			return nil, fmt.Errorf("encode the time of entry %d: %w", l.Index, err)
		}
		b[at-1] = byte(len(b) - at)
		b = binary.BigEndian.AppendUint32(b, uint32(len(l.Data)))
		b = append(b, l.Data...)
		b = binary.BigEndian.AppendUint32(b, uint32(len(l.Extensions)))
		b = append(b, l.Extensions...)
	}
	return b, nil
}

// payloadSize is at least what appendPayload makes.
func payloadSize(logs []*raft.Log) int {
	n := 4
	for _, l := range logs {
		n += 48 + len(l.Data) + len(l.Extensions)
	}
	return n
}

// decodePayload decodes a batch; zeros may follow. The result shares no memory with b.
func decodePayload(b []byte) ([]*raft.Log, error) {
	r := &recordReader{b: b}
	n := r.uint32()
	if int64(n) > int64(len(b))/26 { // the least that an entry has
		return nil, fmt.Errorf("%w: %d entries in %d bytes", errRecord, n, len(b))
	}
	logs := make([]*raft.Log, 0, n)
	for range n {
		l := &raft.Log{Index: r.uint64(), Term: r.uint64(), Type: raft.LogType(r.uint8())}
		l.AppendedAt = r.time()
		l.Data = r.bytes()
		l.Extensions = r.bytes()
		logs = append(logs, l)
	}
	for _, c := range r.b {
		if c != 0 {
			r.failed = true
		}
	}
	if r.failed || len(logs) == 0 {
		return nil, errRecord
	}
	return logs, nil
}

// recordReader takes fields off the front; after a failure it gives zero values.
type recordReader struct {
	b      []byte
	failed bool
}

func (r *recordReader) take(n int) []byte {
	if r.failed || n > len(r.b) {
		r.failed = true
		return nil
	}
	out := r.b[:n]
	r.b = r.b[n:]
	return out
}

func (r *recordReader) uint8() (v uint8) {
	if b := r.take(1); b != nil {
		v = b[0]
	}
	return v
}

func (r *recordReader) uint32() (v uint32) {
	if b := r.take(4); b != nil {
		v = binary.BigEndian.Uint32(b)
	}
	return v
}

func (r *recordReader) uint64() (v uint64) {
	if b := r.take(8); b != nil {
		v = binary.BigEndian.Uint64(b)
	}
	return v
}

// bytes gives nil for an empty field.
func (r *recordReader) bytes() []byte {
	n := r.uint32()
	if int64(n) > int64(len(r.b)) {
		r.failed = true
		return nil
	}
	return append([]byte(nil), r.take(int(n))...)
}

func (r *recordReader) time() (t time.Time) {
	if b := r.take(int(r.uint8())); t.UnmarshalBinary(b) != nil {
		r.failed = true
	}
	return t
}
