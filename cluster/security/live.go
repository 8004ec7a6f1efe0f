package security

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"

	"raftmaster/cluster/config"
)

// maxFileBytes bounds a certificate file; bundles of public authorities have some 200 KiB.
const maxFileBytes = 4 << 20

// file is one of the files behind a live value.
type file struct {
	path string
	// secret: nobody but its owner and group may be able to read it.
	secret bool
}

func (f file) read() ([]byte, error) {
	if f.secret {
		data, err := config.ReadSecretFile(f.path, maxFileBytes)
		if err != nil {
			return nil, fmt.Errorf("%s: it %w", f.path, err)
		}
		return data, nil
	}
	r, err := os.Open(f.path)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(r, maxFileBytes+1))
	if closeErr := r.Close(); err == nil {
		err = closeErr
	}
	if err == nil && len(data) > maxFileBytes {
		err = fmt.Errorf("%s has more than %d bytes", f.path, maxFileBytes)
	}
	return data, err
}

// live is a value that is read from files, and read again when they change.
type live[T any] struct {
	// what names the value in logs and alarms.
	what  string
	files []file
	// parse judges the contents, in the order of files. Its error names the file.
	parse func(contents [][]byte) (*T, error)

	value atomic.Pointer[T]

	mu      sync.Mutex
	problem string // why the files, as they are now, cannot be used; "" when they are in use
	// seen is the digest of the files when they were looked at last, tried that of the last ones that were judged.
	seen, tried [sha256.Size]byte
}

// get is the value in use; nil before load.
func (l *live[T]) get() *T { return l.value.Load() }

// contents reads all files. The digest is of them, or of why they cannot be read.
func (l *live[T]) contents() ([][]byte, [sha256.Size]byte, error) {
	h := sha256.New()
	var out [][]byte
	for _, f := range l.files {
		data, err := f.read()
		if err != nil {
			return nil, sha256.Sum256([]byte(err.Error())), err
		}
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(data))))
		h.Write(data)
		out = append(out, data)
	}
	return out, [sha256.Size]byte(h.Sum(nil)), nil
}

// load reads the value for the first time.
func (l *live[T]) load() error {
	contents, digest, err := l.contents()
	if err != nil {
		return fmt.Errorf("%s: %w", l.what, err)
	}
	v, err := l.parse(contents)
	if err != nil {
		return fmt.Errorf("%s: %w", l.what, err)
	}
	l.seen, l.tried = digest, digest
	l.value.Store(v)
	return nil
}

// outcome is what a look at the files has found.
type outcome int

const (
	unchanged outcome = iota
	replaced
	refused
)

// poll looks at the files. They are judged once two looks in a row have found the same, because several files are not
// replaced at one moment. What was refused is judged again at each look: a certificate that is not good yet will be.
func (l *live[T]) poll() (outcome, error) {
	contents, digest, err := l.contents()
	l.mu.Lock()
	defer l.mu.Unlock()
	again := digest == l.tried
	switch {
	case again && (l.problem == "" || err != nil):
		l.seen = digest
		return unchanged, nil
	case digest != l.seen && !again:
		l.seen = digest
		return unchanged, nil
	}
	l.seen, l.tried = digest, digest
	var v *T
	if err == nil {
		v, err = l.parse(contents)
	}
	if err != nil {
		l.problem = fmt.Sprintf("%s cannot be replaced, the old goes on: %v", l.what, err)
		if again {
			return unchanged, nil // it was said
		}
		return refused, err
	}
	l.problem = ""
	l.value.Store(v)
	return replaced, nil
}

func (l *live[T]) trouble() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.problem
}

func (l *live[T]) name() string { return l.what }
