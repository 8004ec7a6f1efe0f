package backup

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"

	"raftmaster/fsm"
)

const (
	fileMagic = "RMBACKUP"
	// Format is the version of the envelope that this release writes, and the newest that it reads.
	Format = 1
	// maxHeader bounds the header, chunkBytes one chunk of the state.
	maxHeader  = 16 << 10
	chunkBytes = 256 << 10
	// MaxState bounds the state inside a file.
	MaxState = fsm.MaxRestoreBytes
	// MaxFile bounds a whole file.
	MaxFile = MaxState + 1<<20
)

// Errors of reading a file.
var (
	// ErrDamaged wraps what is wrong with a file that was ours.
	ErrDamaged = errors.New("the snapshot is damaged")
	// ErrNotOurs: it is no file of raftctl snapshot save.
	ErrNotOurs = errors.New("this is no snapshot that raftctl saved")
	// ErrNewer: a newer release made it.
	ErrNewer = errors.New("the snapshot is of a newer release")
)

// Header says where a snapshot comes from.
type Header struct {
	ClusterID string `json:"cluster_id"`
	// Index and Term are those of the last entry in the state.
	Index uint64 `json:"index"`
	Term  uint64 `json:"term"`
	// TakenMillis is Unix milliseconds at the master that took it, Node and Address who that was, Release its version.
	TakenMillis int64  `json:"taken_millis"`
	Node        string `json:"node_id"`
	Address     string `json:"address"`
	Release     string `json:"release"`
	// StateFormat is that of the state inside.
	StateFormat int `json:"state_format"`
}

// Info is what Read found in a file.
type Info struct {
	Header
	// Format is that of the envelope, Size the bytes of the file, StateSize those of the state, Digest that of the state.
	Format    int    `json:"format"`
	Size      int64  `json:"size"`
	StateSize int64  `json:"state_size"`
	Digest    string `json:"digest"`
	// Totals counts what is in the state.
	Totals fsm.Totals `json:"-"`
}

// Write writes a file; index, term and format of the header are those of the state: the same state and header give the same bytes. It returns the number of bytes.
func Write(w io.Writer, h Header, s fsm.Snapshot) (int64, error) {
	v := s.View()
	h.Index, h.Term, h.StateFormat = v.Index(), v.Term(), fsm.SnapshotFormat
	head, err := json.Marshal(h)
	if err != nil {
		return 0, fmt.Errorf("encode the header: %w", err)
	}
	if len(head) > maxHeader {
		return 0, fmt.Errorf("the header has %d bytes, the limit is %d", len(head), maxHeader)
	}
	out := &hashingWriter{w: w, hash: sha256.New()}
	b := binary.BigEndian.AppendUint16([]byte(fileMagic), Format)
	b = binary.BigEndian.AppendUint32(b, uint32(len(head)))
	if _, err := out.Write(append(b, head...)); err != nil {
		return out.n, err
	}
	chunks := &chunkWriter{out: out}
	buffered := bufio.NewWriterSize(chunks, chunkBytes)
	if err := s.Write(buffered); err != nil {
		return out.n, err
	}
	if err := buffered.Flush(); err != nil {
		return out.n, err
	}
	if _, err := out.Write(binary.BigEndian.AppendUint64(make([]byte, 4), uint64(chunks.total))); err != nil {
		return out.n, err
	}
	_, err = out.Write(out.hash.Sum(nil))
	return out.n, err
}

type hashingWriter struct {
	w    io.Writer
	hash hash.Hash
	n    int64
}

func (h *hashingWriter) Write(p []byte) (int, error) {
	n, err := h.w.Write(p)
	h.hash.Write(p[:n])
	h.n += int64(n)
	return n, err
}

// chunkWriter frames what it is given, at most chunkBytes at a time.
type chunkWriter struct {
	out   io.Writer
	total int64
}

func (c *chunkWriter) Write(p []byte) (int, error) {
	done := 0
	for done < len(p) {
		part := p[done:min(done+chunkBytes, len(p))]
		if _, err := c.out.Write(binary.BigEndian.AppendUint32(nil, uint32(len(part)))); err != nil {
			return done, err
		}
		n, err := c.out.Write(part)
		done += n
		c.total += int64(n)
		if err != nil {
			return done, err
		}
	}
	return done, nil
}

// Read reads a whole file and verifies all of it: the envelope, its checksum, and the state with its own checksum, digest
// and invariants. It gives the state's bytes, too, in fsm's format. The error wraps one of this package's, or is the
// reader's.
func Read(r io.Reader) (Info, []byte, error) {
	in := &hashingReader{r: bufio.NewReaderSize(r, 64<<10), hash: sha256.New()}
	info, err := in.header()
	if err != nil {
		return info, nil, err
	}
	state, err := in.state()
	if err != nil {
		return info, nil, err
	}
	info.StateSize = int64(len(state))
	if err := in.trailer(info.StateSize); err != nil {
		return info, nil, err
	}
	info.Size = in.n
	m, err := fsm.Restore(bytes.NewReader(state))
	if err != nil {
		return info, nil, fmt.Errorf("%w: the file is whole, but the state in it is not: %w", ErrDamaged, err)
	}
	v := m.View()
	if v.Index() != info.Index || v.Term() != info.Term {
		return info, nil, fmt.Errorf("%w: the header is not that of the state", ErrDamaged)
	}
	info.Digest, info.Totals = v.Digest().String(), v.Totals()
	return info, state, nil
}

type hashingReader struct {
	r    *bufio.Reader
	hash hash.Hash
	n    int64
}

// read fills p; what names the part that it belongs to.
func (h *hashingReader) read(p []byte, what string) error {
	n, err := io.ReadFull(h.r, p)
	h.hash.Write(p[:n])
	h.n += int64(n)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: it is cut off in %s, after %d bytes", ErrDamaged, what, h.n)
	}
	if err != nil {
		return fmt.Errorf("read the snapshot: %w", err)
	}
	return nil
}

func (h *hashingReader) header() (Info, error) {
	var info Info
	head := make([]byte, len(fileMagic)+6)
	if err := h.read(head, "its first bytes"); err != nil {
		if errors.Is(err, ErrDamaged) {
			return info, ErrNotOurs
		}
		return info, err
	}
	if string(head[:len(fileMagic)]) != fileMagic {
		return info, ErrNotOurs
	}
	info.Format = int(binary.BigEndian.Uint16(head[len(fileMagic):]))
	if info.Format > Format {
		return info, fmt.Errorf("%w: its format is %d, this release reads up to %d: use a raftctl and masters of the release that saved it, or newer", ErrNewer, info.Format, Format)
	}
	size := binary.BigEndian.Uint32(head[len(fileMagic)+2:])
	if info.Format == 0 || size > maxHeader {
		return info, fmt.Errorf("%w: its header says format %d and %d bytes", ErrDamaged, info.Format, size)
	}
	text := make([]byte, size)
	if err := h.read(text, "its header"); err != nil {
		return info, err
	}
	if err := json.Unmarshal(text, &info.Header); err != nil {
		return info, fmt.Errorf("%w: its header cannot be read: %w", ErrDamaged, err)
	}
	if info.StateFormat > fsm.SnapshotFormat {
		return info, fmt.Errorf("%w: it was saved by release %s with the state in format %d, this release reads up to %d", ErrNewer, info.Release, info.StateFormat, fsm.SnapshotFormat)
	}
	return info, nil
}

// state reads the chunks. The buffer grows with the bytes that arrive, not with those that are announced.
func (h *hashingReader) state() ([]byte, error) {
	var state []byte
	for {
		var head [4]byte
		if err := h.read(head[:], "the state"); err != nil {
			return nil, err
		}
		size := int(binary.BigEndian.Uint32(head[:]))
		switch {
		case size == 0:
			return state, nil
		case size > chunkBytes:
			return nil, fmt.Errorf("%w: a chunk of %d bytes at byte %d, the limit is %d", ErrDamaged, size, h.n, chunkBytes)
		case len(state)+size > MaxState:
			return nil, fmt.Errorf("%w: the state has more than %d bytes", ErrDamaged, MaxState)
		}
		start := len(state)
		state = append(state, make([]byte, size)...)
		if err := h.read(state[start:], "the state"); err != nil {
			return nil, err
		}
	}
}

func (h *hashingReader) trailer(stateSize int64) error {
	var size [8]byte
	if err := h.read(size[:], "its end"); err != nil {
		return err
	}
	want := h.hash.Sum(nil)
	got := make([]byte, sha256.Size)
	if err := h.read(got, "its checksum"); err != nil {
		return err
	}
	if !bytes.Equal(got, want) {
		return fmt.Errorf("%w: its checksum does not hold: bytes have changed since it was saved", ErrDamaged)
	}
	if int64(binary.BigEndian.Uint64(size[:])) != stateSize {
		return fmt.Errorf("%w: the state has %d bytes, not %d", ErrDamaged, stateSize, binary.BigEndian.Uint64(size[:]))
	}
	if _, err := h.r.ReadByte(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: bytes follow its end", ErrDamaged)
	}
	return nil
}
