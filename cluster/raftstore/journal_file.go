package raftstore

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/hashicorp/raft"
)

// journalFiles take turns: one is written while the other is carried over to bolt.
var journalFiles = [2]string{"journal-0", "journal-1"}

// journalSize is the size of each file in bytes: some 500 batches of single entries. It is written when a directory is used for
// the first time, so it must not be large.
const journalSize = 2 << 20

// disk is what a journal needs of a file system; tests put failures in its place.
type disk interface {
	// create makes a file of that size whose space is reserved; it need not be durable yet.
	create(path string, size int64) (diskFile, error)
	open(path string) (diskFile, error)
}

// diskFile is an open file of a journal. Sync makes its bytes, not its times, durable.
type diskFile interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	Sync() error
}

type realDisk struct{}

type realFile struct{ *os.File }

// Sync replaces that of os.File by fdatasync: the size never changes.
func (f realFile) Sync() error {
	for {
		err := syscall.Fdatasync(int(f.Fd()))
		if !errors.Is(err, syscall.EINTR) {
			return os.NewSyscallError("fdatasync", err)
		}
	}
}

func (realDisk) open(path string) (diskFile, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	return realFile{f}, nil
}

func (realDisk) create(path string, size int64) (diskFile, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	// Space that is only reserved would have to be marked as written with each batch: a second write, of the file system's
	// own journal, for each sync.
	if err := writeZeros(f, 0, size); err != nil {
		return nil, errors.Join(err, f.Close(), os.Remove(path))
	}
	return realFile{f}, nil
}

func writeZeros(f io.WriterAt, from, to int64) error {
	zeros := make([]byte, 1<<20)
	for from < to {
		n, err := f.WriteAt(zeros[:min(int64(len(zeros)), to-from)], from)
		if err != nil {
			return err
		}
		from += int64(n)
	}
	return nil
}

// segment is one file of the journal. Who holds the log's append lock, or carries it over, owns it.
type segment struct {
	path   string
	owner  string
	file   diskFile
	size   int64
	gen    uint64
	next   uint32 // number of the next batch
	end    int64  // where it goes
	torn   bool   // behind end is a batch that was not completed
	last   []byte // the last batch as it was found at the opening
	lastAt int64  // and where
}

// createSegment makes a file, durably and as a whole, or not at all.
func createSegment(d disk, path, owner string, size int64, generation uint64) (*segment, error) {
	g := &segment{path: path, owner: owner, size: size, gen: generation, next: 1, end: dataStart}
	f, err := d.create(path+tmpSuffix, g.size)
	if err != nil {
		return nil, err
	}
	g.file = f
	if err := g.writeHeader(generation); err != nil {
		return nil, errors.Join(err, f.Close(), os.Remove(path+tmpSuffix))
	}
	if err := os.Rename(path+tmpSuffix, path); err != nil {
		return nil, errors.Join(err, f.Close(), os.Remove(path+tmpSuffix))
	}
	if err := syncDir(filepath.Dir(path)); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return g, nil
}

// openSegment reads a file. A file that is not there gives fs.ErrNotExist.
func openSegment(d disk, path, owner string) (g *segment, logs []*raft.Log, err error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, err
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%w: stat %s: %w", ErrStorage, path, err)
	}
	if info.Size() < dataStart || info.Size() > maxJournalSize || info.Size()%pageSize != 0 {
		return nil, nil, damaged(path, fmt.Sprintf("it has %d bytes", info.Size()), backupHint)
	}
	f, err := d.open(path)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: open %s: %w", ErrStorage, path, err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close())
		}
	}()
	data := make([]byte, info.Size())
	if _, err := f.ReadAt(data, 0); err != nil && !errors.Is(err, io.EOF) {
		return nil, nil, fmt.Errorf("%w: read %s: %w", ErrStorage, path, err)
	}
	h, err := checkHeaders(path, owner, data)
	if err != nil {
		return nil, nil, err
	}
	s, err := scanJournal(data, h.generation)
	if err != nil {
		return nil, nil, damaged(path, err.Error(), backupHint)
	}
	return &segment{
		path: path, owner: owner, file: f, size: h.size, gen: h.generation, next: s.next, end: int64(s.end), torn: s.torn,
		last: append([]byte(nil), data[s.last:s.end]...), lastAt: int64(s.last),
	}, s.logs, nil
}

// checkHeaders finds the header that counts.
func checkHeaders(path, owner string, data []byte) (journalHeader, error) {
	var best journalHeader
	found := false
	for _, at := range []int{0, pageSize} {
		h, ok := decodeHeader(data[at:])
		if !ok {
			continue
		}
		if h.format != journalFormat {
			return h, fmt.Errorf("%w: %s: format %d, this release reads format %d", ErrForeign, path, h.format, journalFormat)
		}
		if !found || h.generation > best.generation {
			best, found = h, true
		}
	}
	switch {
	case !found:
		return best, damaged(path, "no valid header", backupHint)
	case best.size != int64(len(data)):
		return best, damaged(path, fmt.Sprintf("truncated: %d of %d bytes are there", len(data), best.size), backupHint)
	case best.owner != owner[:min(len(owner), maxOwner)]:
		return best, fmt.Errorf("%w: %s: a journal of node %s, this is node %s", ErrForeign, path, best.owner, owner)
	}
	return best, nil
}

// writeHeader makes a generation the valid one, durably.
func (g *segment) writeHeader(generation uint64) error {
	h := journalHeader{format: journalFormat, generation: generation, size: g.size, owner: g.owner}
	if err := g.write(h.encode(), headerSlot(generation)); err != nil {
		return err
	}
	return g.file.Sync()
}

func (g *segment) write(b []byte, at int64) error {
	n, err := g.file.WriteAt(b, at)
	if err == nil && n < len(b) {
		err = io.ErrShortWrite
	}
	return err
}

// fits tells whether a batch of that many bytes, whole pages, has room.
func (g *segment) fits(n int) bool { return g.end+int64(n) <= g.size }

// append writes a batch durably. After an error nothing may be appended to this generation: what the pages hold is not
// known, and the kernel may take them for written (fsync reports a failure once).
func (g *segment) append(batch []byte) error {
	err := g.write(batch, g.end)
	if err == nil {
		err = g.file.Sync()
	}
	if err != nil {
		g.torn = true
		return err
	}
	g.end += int64(len(batch))
	g.next++
	return nil
}

// confirm writes header and last batch again as they were found. The process before may have ended between a write and its
// sync, or after a sync that failed: then only the page cache may have them, and takes them for written.
func (g *segment) confirm() error {
	if err := g.write(g.last, g.lastAt); err != nil {
		return err
	}
	if err := g.writeHeader(g.gen); err != nil {
		return err
	}
	g.last = nil
	return nil
}

// recycle empties the file: all that it holds is in bolt. What was not completed is overwritten first, so that its halves
// of sectors cannot be taken for damage later.
func (g *segment) recycle() error {
	if g.torn {
		if err := writeZeros(g.file, g.end, g.size); err != nil {
			return err
		}
		if err := g.file.Sync(); err != nil {
			return err
		}
		g.torn = false
	}
	if err := g.writeHeader(g.gen + 2); err != nil {
		return err
	}
	g.gen += 2
	g.next, g.end, g.last = 1, dataStart, nil
	return nil
}

// empty tells whether nothing was written since the file was recycled.
func (g *segment) empty() bool { return g.end == dataStart && !g.torn }
