package workerui

import (
	"context"
	"errors"
	"io"
	"os"
)

// logReader reads a log as one text, file after file, of which it holds one open. It implements io.ReadSeeker.
type logReader struct {
	ctx context.Context
	l   *logFiles
	pos int64
	// cur is the file that is open, -1 for none, and start where it begins in the log; at is the place that unpacked, the
	// reader of a compressed one, has come to in it.
	cur       int
	start, at int64
	file      *os.File
	unpacked  io.Reader
}

func (l *logFiles) reader(ctx context.Context) *logReader {
	return &logReader{ctx: ctx, l: l, cur: -1}
}

func (r *logReader) close() {
	if r.file != nil && r.file != r.l.live {
		_ = r.file.Close() // it was only read
	}
	r.file, r.unpacked, r.cur = nil, nil, -1
}

// Seek implements io.Seeker; nothing is read for it.
func (r *logReader) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += r.pos
	case io.SeekEnd:
		offset += r.l.size
	}
	if offset < 0 {
		return 0, errors.New("seek before the beginning of a log")
	}
	r.pos = offset
	return offset, nil
}

// Read implements io.Reader. It ends with io.EOF at the size that was listed, however much a file has grown since, and
// with io.ErrUnexpectedEOF where a file has become shorter.
func (r *logReader) Read(b []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	if r.pos >= r.l.size {
		return 0, io.EOF
	}
	if len(b) == 0 {
		return 0, nil
	}
	if err := r.find(); err != nil {
		return 0, err
	}
	inside := r.pos - r.start
	b = b[:min(int64(len(b)), r.l.files[r.cur].size-inside)]
	n, err := r.readFile(b, inside)
	r.pos += int64(n)
	if n > 0 {
		return n, nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return 0, err
}

// find opens the file that holds pos.
func (r *logReader) find() error {
	start := int64(0)
	for i, f := range r.l.files {
		if r.pos >= start+f.size {
			start += f.size
			continue
		}
		if r.cur == i {
			return nil
		}
		r.close()
		file := r.l.live
		if file == nil || i < len(r.l.files)-1 {
			var err error
			if file, err = r.l.openRolled(i); err != nil {
				return err
			}
		}
		r.file, r.cur, r.start = file, i, start
		return nil
	}
	return io.EOF
}

func (r *logReader) readFile(b []byte, inside int64) (int, error) {
	if !r.l.files[r.cur].gzip {
		return r.file.ReadAt(b, inside)
	}
	if r.unpacked == nil || r.at > inside {
		if _, err := r.file.Seek(0, io.SeekStart); err != nil {
			return 0, err
		}
		r.unpacked, r.at = unpack(r.ctx, r.file), 0
	}
	skipped, err := io.CopyN(io.Discard, r.unpacked, inside-r.at)
	r.at += skipped
	if err != nil {
		return 0, err
	}
	n, err := r.unpacked.Read(b)
	r.at += int64(n)
	return n, err
}
