package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// maxDepth bounds the descriptors that a walk holds, one for each level.
	maxDepth = 200
	// namesAtOnce bounds the memory of a directory with millions of entries.
	namesAtOnce = 256
)

var errTooDeep = fmt.Errorf("directories are nested more than %d deep", maxDepth)

// walker reads and removes trees through directory descriptors: a link that takes a directory's place between look and
// step leads nowhere. It stays on one file system.
type walker struct {
	ctx    context.Context
	clock  Clock
	rate   int // entries a second
	tokens int
	device uint64
}

// entryInfo is what a walk needs of one directory entry, links not followed.
type entryInfo struct {
	isDir    bool
	modified time.Time
}

// pace is called before every entry. It sleeps after each twentieth of a second's worth.
func (w *walker) pace() error {
	if w.tokens--; w.tokens > 0 {
		return w.ctx.Err()
	}
	w.tokens = max(1, w.rate/20)
	select {
	case <-w.clock.After(time.Second / 20):
	case <-w.ctx.Done():
	}
	return w.ctx.Err()
}

func (w *walker) stat(dir *os.File, name string) (entryInfo, error) {
	var s unix.Stat_t
	if err := retryEINTR(func() error { return unix.Fstatat(int(dir.Fd()), name, &s, unix.AT_SYMLINK_NOFOLLOW) }); err != nil {
		return entryInfo{}, err
	}
	info := entryInfo{isDir: s.Mode&unix.S_IFMT == unix.S_IFDIR, modified: time.Unix(s.Mtim.Unix())}
	if info.isDir && w.device != 0 && uint64(s.Dev) != w.device {
		return info, fmt.Errorf("%s is another file system", name)
	}
	return info, nil
}

func retryEINTR(f func() error) error {
	for {
		if err := f(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// openDir opens a directory below dir, never through a link.
func openDir(dir *os.File, name string) (*os.File, error) {
	fd := -1
	err := retryEINTR(func() (err error) {
		fd, err = unix.Openat(int(dir.Fd()), name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		return err
	})
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	return os.NewFile(uintptr(fd), name), nil
}

// anyNewer is true if an entry anywhere below dir was modified after the time: Utils.doesDirectoryContainAnyNewFiles, which
// looks at files and directories. What cannot be read counts as an error, and so as in use.
func (w *walker) anyNewer(dir *os.File, after time.Time, depth int) (bool, error) {
	if depth > maxDepth {
		return false, errTooDeep
	}
	for {
		names, err := dir.Readdirnames(namesAtOnce)
		for _, name := range names {
			if err := w.pace(); err != nil {
				return false, err
			}
			newer, err := w.entryNewer(dir, name, after, depth)
			if newer || err != nil {
				return newer, err
			}
		}
		if errors.Is(err, io.EOF) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
	}
}

func (w *walker) entryNewer(dir *os.File, name string, after time.Time, depth int) (bool, error) {
	info, err := w.stat(dir, name)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil || info.modified.After(after) || !info.isDir {
		return err == nil && info.modified.After(after), err
	}
	below, err := openDir(dir, name)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer below.Close()
	return w.anyNewer(below, after, depth+1)
}

// remove deletes an entry with all that is below it.
func (w *walker) remove(dir *os.File, name string, depth int) error {
	if depth > maxDepth {
		return errTooDeep
	}
	if err := w.pace(); err != nil {
		return err
	}
	info, err := w.stat(dir, name)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	flags := 0
	if info.isDir {
		if err := w.empty(dir, name, depth); err != nil {
			return err
		}
		flags = unix.AT_REMOVEDIR
	}
	err = retryEINTR(func() error { return unix.Unlinkat(int(dir.Fd()), name, flags) })
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return &os.PathError{Op: "remove", Path: name, Err: err}
	}
	return nil
}

// emptyPasses bounds how often a directory is read again: entries may move while it shrinks, and somebody may go on writing.
const emptyPasses = 10

// empty deletes all that is in a directory.
func (w *walker) empty(dir *os.File, name string, depth int) error {
	below, err := openDir(dir, name)
	if err != nil {
		return err
	}
	defer below.Close()
	for range emptyPasses {
		removed, err := w.emptyOnce(below, depth)
		if err != nil || removed == 0 {
			return err
		}
		if _, err := below.Seek(0, io.SeekStart); err != nil {
			return err
		}
	}
	return nil // if there is still something, the caller's unlink says so
}

func (w *walker) emptyOnce(dir *os.File, depth int) (removed int, err error) {
	for {
		names, err := dir.Readdirnames(namesAtOnce)
		for _, name := range names {
			if err := w.remove(dir, name, depth+1); err != nil {
				return removed, err
			}
			removed++
		}
		if errors.Is(err, io.EOF) {
			return removed, nil
		}
		if err != nil {
			return removed, err
		}
	}
}
