package fsm

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
)

// Restore reads a snapshot into a new Machine. It verifies the checksum, the digest and all invariants; the error
// wraps ErrSnapshot, or is the reader's.
func Restore(r io.Reader) (*Machine, error) {
	sr := &snapshotReader{r: bufio.NewReaderSize(r, 64<<10), hash: sha256.New()}
	s, err := sr.restore()
	if err != nil {
		return nil, err
	}
	if err := Check(View{s: s}); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSnapshot, err)
	}
	return machineAt(s), nil
}

func badSnapshot(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrSnapshot, fmt.Sprintf(format, args...))
}

// snapshotReader builds a state from records.
type snapshotReader struct {
	r     *bufio.Reader
	hash  hash.Hash
	tx    *tx
	kind  recordKind // of the last record
	count uint64
	body  []byte
	apps  map[string]*Application

	drivers map[string]*Driver
	staged  int // chunks so far
}

// read fills p and hashes it. A snapshot that ends too early is a bad one.
func (s *snapshotReader) read(p []byte) error {
	if _, err := io.ReadFull(s.r, p); err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return badSnapshot("it is cut off")
		}
		return fmt.Errorf("read snapshot: %w", err)
	}
	s.hash.Write(p)
	return nil
}

func (s *snapshotReader) restore() (*state, error) {
	index, term, err := s.header()
	if err != nil {
		return nil, err
	}
	empty := &state{globals: &globals{}, tables: newTables()}
	s.tx = newTx(empty, newSummer(), index, term, Meta{})
	s.apps, s.drivers = make(map[string]*Application), make(map[string]*Driver)
	for {
		kind, err := s.next()
		if err != nil {
			return nil, err
		}
		if kind == kindTrailer {
			break
		}
		if err := s.add(kind); err != nil {
			return nil, err
		}
	}
	if !s.tx.globalsEdited {
		return nil, badSnapshot("it has no globals")
	}
	// The count and the digest in the trailer were read by next.
	if n := binary.BigEndian.Uint64(s.body); n != s.count {
		return nil, badSnapshot("it says %d records, but has %d", n, s.count)
	}
	st := s.tx.finish()
	st.tables.commit()
	if got := st.digest.digest(); !bytes.Equal(got[:], s.body[8:8+sha256.Size]) {
		return nil, badSnapshot("the digest differs")
	}
	return st, nil
}

func (s *snapshotReader) header() (index, term uint64, err error) {
	head := make([]byte, len(snapshotMagic)+3)
	if err := s.read(head); err != nil {
		return 0, 0, err
	}
	if string(head[:len(snapshotMagic)]) != snapshotMagic {
		return 0, 0, badSnapshot("it does not begin with the magic word")
	}
	if f := binary.BigEndian.Uint16(head[len(snapshotMagic):]); f != snapshotFormat {
		return 0, 0, badSnapshot("format %d, this release reads %d", f, snapshotFormat)
	}
	rest := make([]byte, int(head[len(head)-1])+16)
	if err := s.read(rest); err != nil {
		return 0, 0, err
	}
	numbers := rest[len(rest)-16:]
	return binary.BigEndian.Uint64(numbers), binary.BigEndian.Uint64(numbers[8:]), nil
}

// next reads one record into body. The trailer's checksum is verified here, where the hash of all before it is known.
func (s *snapshotReader) next() (recordKind, error) {
	var head [5]byte
	if err := s.read(head[:]); err != nil {
		return 0, err
	}
	kind, n := recordKind(head[0]), int(binary.BigEndian.Uint32(head[1:]))
	switch {
	case kind < s.kind:
		return 0, badSnapshot("kind %d comes after kind %d", kind, s.kind)
	case n > maxSnapshotRecordBytes:
		return 0, badSnapshot("record of %d bytes, the limit is %d", n, maxSnapshotRecordBytes)
	case kind == kindTrailer && n != trailerBytes:
		return 0, badSnapshot("trailer of %d bytes", n)
	}
	s.kind = kind
	if kind != kindTrailer {
		s.count++
		return kind, s.readBody(n)
	}
	if err := s.readBody(n - sha256.Size); err != nil {
		return 0, err
	}
	want := s.hash.Sum(nil)
	var got [sha256.Size]byte
	if err := s.read(got[:]); err != nil {
		return 0, err
	}
	if !bytes.Equal(want, got[:]) {
		return 0, badSnapshot("the checksum differs")
	}
	if _, err := s.r.ReadByte(); !errors.Is(err, io.EOF) {
		return 0, badSnapshot("bytes follow its end")
	}
	return kind, nil
}

// readBody grows the buffer with the bytes that arrive, not with the length that was announced.
func (s *snapshotReader) readBody(n int) error {
	const chunk = 64 << 10
	s.body = s.body[:0]
	for n > 0 {
		step := min(n, chunk)
		start := len(s.body)
		s.body = append(s.body, make([]byte, step)...)
		if err := s.read(s.body[start:]); err != nil {
			return err
		}
		n -= step
	}
	return nil
}

// add takes the record in body into the state. Keys that come twice, and keys that could not have been made, are
// errors; all that concerns several records is left to Check.
func (s *snapshotReader) add(kind recordKind) error {
	var err error
	switch kind {
	case kindGlobals:
		err = s.addGlobals()
	case kindWorker:
		err = s.addWorker()
	case kindApplication:
		err = s.addApplication()
	case kindPayload:
		err = s.addPayload()
	case kindExecutor:
		err = s.addExecutor()
	case kindRemoved:
		err = s.addRemoved()
	case kindStaged:
		err = s.addStaged()
	case kindDriver:
		err = s.addDriver()
	case kindDriverPayload:
		err = s.addDriverPayload()
	default:
		err = errors.New("unknown kind: the snapshot is of a newer release")
	}
	if err != nil {
		return fmt.Errorf("%w: record %d of kind %d: %w", ErrSnapshot, s.count, kind, err)
	}
	return nil
}

var errTwice = errors.New("it comes twice")

func (s *snapshotReader) addGlobals() error {
	if s.tx.globalsEdited {
		return errTwice
	}
	if err := checkLevel(s.body); err != nil {
		return err
	}
	return decodeMsgpack(s.body, s.tx.editGlobals())
}

func (s *snapshotReader) addWorker() error {
	w := &Worker{}
	if err := firstError(decodeMsgpack(s.body, w), checkID("worker id", w.ID), checkAddress("worker", w.Address)); err != nil {
		return err
	}
	if s.tx.worker(w.ID) != nil {
		return errTwice
	}
	s.tx.putWorker(w.ID, w)
	return nil
}

func (s *snapshotReader) addApplication() error {
	a := &Application{}
	if err := firstError(decodeMsgpack(s.body, a), checkID("application id", a.ID), checkAddress("driver", a.Driver)); err != nil {
		return err
	}
	if s.tx.app(a.ID) != nil {
		return errTwice
	}
	s.tx.putApp(a.ID, a)
	s.apps[a.ID] = a
	return nil
}

func (s *snapshotReader) addPayload() error {
	var p payloadRecord
	if err := decodeMsgpack(s.body, &p); err != nil {
		return err
	}
	a, ok := s.apps[p.AppID]
	switch {
	case !ok:
		return errors.New("payload without its application")
	case a.Payload != nil:
		return errTwice
	case !bytes.Equal(payloadSum(p.Payload), a.PayloadSum):
		return errors.New("payload differs from its checksum")
	}
	a.Payload = p.Payload
	return nil
}

func (s *snapshotReader) addExecutor() error {
	e := &Executor{}
	if err := firstError(decodeMsgpack(s.body, e), checkID("worker id", e.WorkerID), checkID("application id", e.AppID),
		checkAmount("executor id", e.ID)); err != nil {
		return err
	}
	if s.tx.executor(e.Key()) != nil {
		return errTwice
	}
	s.tx.putExecutor(e)
	return nil
}

func (s *snapshotReader) addRemoved() error {
	e := &RemovedExecutor{}
	if err := firstError(decodeMsgpack(s.body, e), checkID("application id", e.AppID)); err != nil {
		return err
	}
	if _, twice := s.tx.tables.removed.get(removedKey(e.AppID, e.Seq)); twice {
		return errTwice
	}
	s.tx.putRemoved(e)
	return nil
}

// addStaged takes a chunk of a restore that was under way. What it belongs to is in the globals, which came before.
func (s *snapshotReader) addStaged() error {
	c := &stagedChunk{}
	if err := decodeMsgpack(s.body, c); err != nil {
		return err
	}
	if want := s.staged; c.Seq != want || len(c.Data) == 0 || len(c.Data) > MaxStageBytes {
		return fmt.Errorf("chunk %d of %d bytes, after %d chunks", c.Seq, len(c.Data), want)
	}
	s.staged++
	s.tx.putStaged(c)
	return nil
}

func (s *snapshotReader) addDriver() error {
	d := &Driver{}
	if err := firstError(decodeMsgpack(s.body, d), checkID("driver id", d.ID)); err != nil {
		return err
	}
	if s.tx.driver(d.ID) != nil {
		return errTwice
	}
	s.tx.putDriver(d)
	s.drivers[d.ID] = d
	return nil
}

func (s *snapshotReader) addDriverPayload() error {
	var p driverPayloadRecord
	if err := decodeMsgpack(s.body, &p); err != nil {
		return err
	}
	d, ok := s.drivers[p.DriverID]
	switch {
	case !ok:
		return errors.New("payload without its driver")
	case d.Payload != nil:
		return errTwice
	case !bytes.Equal(payloadSum(p.Payload), d.PayloadSum):
		return errors.New("payload differs from its checksum")
	}
	d.Payload = p.Payload
	s.tx.totals.DriverPayloadBytes += len(p.Payload)
	return nil
}
