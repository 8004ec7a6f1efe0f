package runner

import (
	"errors"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// undo is a stack of what takes a half-done start back.
type undo []func()

func (u *undo) add(f func()) { *u = append(*u, f) }

// run takes back the newest first. Errors are of no use here: the start has failed already, and says why.
func (u *undo) run() {
	for i := len(*u) - 1; i >= 0; i-- {
		(*u)[i]()
	}
	*u = nil
}

// makeDir makes dir and its missing parents, so that those that it made can be removed again. It tries again when another
// start that failed removed a common parent meanwhile.
func makeDir(dir string, back *undo) error {
	var err error
	for range 5 {
		if err = tryMakeDir(dir, back); !errors.Is(err, os.ErrNotExist) {
			break
		}
	}
	if err != nil {
		return dirError("make directory", dir, err)
	}
	return nil
}

func tryMakeDir(dir string, back *undo) error {
	var missing []string
	for d := dir; ; d = filepath.Dir(d) {
		info, err := os.Stat(d)
		if err == nil {
			if !info.IsDir() {
				return unix.ENOTDIR
			}
			break
		}
		if !errors.Is(err, os.ErrNotExist) || d == filepath.Dir(d) {
			return err
		}
		missing = append(missing, d)
	}
	for i := len(missing) - 1; i >= 0; i-- {
		d := missing[i]
		err := os.Mkdir(d, 0o755)
		if errors.Is(err, os.ErrExist) { // another start made it meanwhile
			continue
		}
		if err != nil {
			return err
		}
		back.add(func() { _ = os.Remove(d) }) // fails, rightly, if another start uses it by now
	}
	return nil
}

// openLog opens a log file for appending and gives its descriptor. Executors own their directory and may have put
// anything there: only a regular file is accepted, a symbolic link is not followed and a named pipe not waited for.
func openLog(path string, back *undo) (int, error) {
	const flags = unix.O_WRONLY | unix.O_APPEND | unix.O_CREAT | unix.O_CLOEXEC | unix.O_NOFOLLOW | unix.O_NONBLOCK
	fd, err := openRetry(path, flags|unix.O_EXCL)
	created := err == nil
	if errors.Is(err, unix.EEXIST) {
		fd, err = openRetry(path, flags)
	}
	if err != nil {
		return -1, dirError("open log file", path, err)
	}
	if created {
		back.add(func() { _ = os.Remove(path) })
	}
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil || stat.Mode&unix.S_IFMT != unix.S_IFREG {
		unix.Close(fd)
		return -1, &StartError{Op: "open log file", Path: path, Err: errors.New("not a regular file")}
	}
	// The descriptor's flags are shared with the child: it must not see O_NONBLOCK.
	if err := unix.SetNonblock(fd, false); err != nil {
		unix.Close(fd)
		return -1, dirError("open log file", path, err)
	}
	return fd, nil
}

func openRetry(path string, flags int) (int, error) {
	for {
		fd, err := unix.Open(path, flags, 0o644)
		if !errors.Is(err, unix.EINTR) {
			return fd, err
		}
	}
}

// writeHeader truncates if asked, and writes the whole header.
func writeHeader(fd int, s Spec) error {
	if s.TruncateStderr {
		if err := unix.Ftruncate(fd, 0); err != nil {
			return dirError("empty log file", s.Stderr, err)
		}
	}
	for rest := []byte(s.Header); len(rest) > 0; {
		n, err := unix.Write(fd, rest)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return dirError("write header to", s.Stderr, err)
		}
		rest = rest[max(n, 0):]
	}
	return nil
}
