package workerui

import (
	"compress/gzip"
	"context"
	"io"
	"os"
	"sync"
)

// lengthKey is a compressed file as it was: one that has changed since has another key.
type lengthKey struct {
	dir, name   string
	size, mtime int64
}

// lengths remembers what compressed files hold, as counting means to unpack them (Spark: Utils.getFileLength).
type lengths struct {
	mu    sync.Mutex
	kept  map[lengthKey]int64
	limit int
	// busy bounds the files that are unpacked at once.
	busy chan struct{}
}

func newLengths(limit int) *lengths {
	if limit <= 0 {
		limit = defaultKeptLengths
	}
	return &lengths{kept: make(map[lengthKey]int64), limit: limit, busy: make(chan struct{}, maxUnpackings)}
}

func (c *lengths) get(k lengthKey) (int64, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, ok := c.kept[k]
	return n, ok
}

func (c *lengths) put(k lengthKey, n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for old := range c.kept {
		if len(c.kept) < c.limit {
			break
		}
		delete(c.kept, old) // any: what is looked at again is counted again
	}
	c.kept[k] = n
}

// measure fills in what compressed files add to a log, and the length of all of it.
func (h *Handler) measure(ctx context.Context, l *logFiles, shown string) error {
	l.size = 0
	for i := range l.files {
		if f := &l.files[i]; f.gzip {
			n, err := h.unpackedLength(ctx, l, i, shown)
			if err != nil {
				return err
			}
			f.size = n
		}
		l.size += l.files[i].size
	}
	return nil
}

func (h *Handler) unpackedLength(ctx context.Context, l *logFiles, i int, shown string) (int64, error) {
	info := l.files[i].info
	key := lengthKey{shown, l.files[i].name, info.Size(), info.ModTime().UnixNano()}
	if n, ok := h.lengths.get(key); ok {
		return n, nil
	}
	select {
	case h.lengths.busy <- struct{}{}:
		defer func() { <-h.lengths.busy }()
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	f, err := l.openRolled(i)
	if err != nil {
		return 0, err
	}
	defer func() { _ = f.Close() }() // it was only read
	n, err := io.Copy(io.Discard, unpack(ctx, f))
	if ctx.Err() != nil {
		return 0, ctx.Err()
	}
	if err != nil {
		// Damaged, or not compressed at all: what can be unpacked is shown.
		h.opts.Log.Debug("a compressed log ends early", "file", l.files[i].name, "dir", shown, "error", err)
	}
	h.lengths.put(key, n)
	return n, nil
}

// unpack reads a compressed file until ctx ends.
func unpack(ctx context.Context, f *os.File) io.Reader {
	zr, err := gzip.NewReader(&untilDone{ctx: ctx, r: f})
	if err != nil {
		return &failedReader{err}
	}
	return &untilDone{ctx: ctx, r: zr}
}

type failedReader struct{ err error }

func (f *failedReader) Read([]byte) (int, error) { return 0, f.err }

// untilDone fails once its context has ended.
type untilDone struct {
	ctx context.Context
	r   io.Reader
}

func (u *untilDone) Read(b []byte) (int, error) {
	if err := u.ctx.Err(); err != nil {
		return 0, err
	}
	return u.r.Read(b)
}
