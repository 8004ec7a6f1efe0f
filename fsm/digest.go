package fsm

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"

	"github.com/hashicorp/go-msgpack/v2/codec"
)

// Digest is a hash of the whole state: equal on replicas that hold equal state, whatever way they came to it. The last
// index and term are not part of it.
type Digest [32]byte

// String gives the digest in hexadecimal.
func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// digestSum is an entity's part of the digest: the SHA-256 of its snapshot record, as four numbers. The digest is the
// sum over all entities, modulo 2^64 in each lane: independent of order, and changed by subtracting the old part of an
// entity and adding the new one. It detects divergence; it is no defence against forgery.
type digestSum [4]uint64

func (d *digestSum) add(o digestSum) {
	for i := range d {
		d[i] += o[i]
	}
}

func (d *digestSum) subtract(o digestSum) {
	for i := range d {
		d[i] -= o[i]
	}
}

func (d digestSum) digest() Digest {
	var out Digest
	for i, lane := range d {
		binary.BigEndian.PutUint64(out[8*i:], lane)
	}
	return out
}

// summer encodes entities and hashes them, with buffers of its own: one goroutine.
type summer struct {
	buf []byte
	enc *codec.Encoder
}

func newSummer() *summer {
	s := &summer{}
	s.enc = codec.NewEncoderBytes(&s.buf, msgpackHandle)
	return s
}

// encode gives the canonical record of an entity, valid until the next call. Entities are plain structs of this
// package, which msgpack can always encode: a failure is a programmer's error.
func (s *summer) encode(entity any) []byte {
	s.buf = s.buf[:0]
	s.enc.ResetBytes(&s.buf)
	if err := s.enc.Encode(entity); err != nil {
		panic(fmt.Sprintf("fsm: cannot encode %T: %v", entity, err))
	}
	return s.buf
}

func (s *summer) sum(kind recordKind, entity any) digestSum {
	body := s.encode(entity)
	h := sha256.New()
	h.Write([]byte{byte(kind)})
	h.Write(body)
	var full [sha256.Size]byte
	h.Sum(full[:0])
	var out digestSum
	for i := range out {
		out[i] = binary.BigEndian.Uint64(full[8*i:])
	}
	return out
}

// RecomputeDigest hashes every entity afresh: what Digest must equal. O(size of the state); for tests and for doubt.
func RecomputeDigest(v View) Digest {
	s, st := newSummer(), v.state()
	total := s.sum(kindGlobals, st.globals)
	v.Workers(func(w *Worker) bool { total.add(s.sum(kindWorker, w)); return true })
	st.tables.apps.scan(nil, func(a *Application) bool { total.add(s.sum(kindApplication, a)); return true })
	st.tables.executors.scan(nil, func(e *Executor) bool { total.add(s.sum(kindExecutor, e)); return true })
	st.tables.removed.scan(nil, func(e *RemovedExecutor) bool { total.add(s.sum(kindRemoved, e)); return true })
	st.tables.staged.scan(nil, func(c *stagedChunk) bool { total.add(s.sum(kindStaged, c)); return true })
	st.tables.drivers.scan(nil, func(d *Driver) bool { total.add(s.sum(kindDriver, d)); return true })
	return total.digest()
}
