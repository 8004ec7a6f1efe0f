package workerui

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"
	"unicode"
)

// gzipSuffix marks a file that was compressed after it was rolled (RollingFileAppender.GZIP_LOG_SUFFIX).
const gzipSuffix = ".gz"

// Reasons for not showing a log.
var (
	errOutside   = errors.New("not a directory of this worker")
	errMoved     = errors.New("the log is being rolled")
	errTooMany   = errors.New("the directory holds too many files")
	errIrregular = errors.New("not a regular file")
)

// logFile is one file of a log: the active one, or one that was rolled.
type logFile struct {
	name string
	// info is the file that was listed; a file of the same name that is another one is never read in its place.
	info fs.FileInfo
	gzip bool
	// size is what it adds to the log, unpacked.
	size int64
}

// logFiles is a log as it was at one moment: its files, oldest first.
type logFiles struct {
	dir *os.Root
	// live is the active file, which is held open because it may be rolled at any moment; nil when there is none. It is the
	// last of files.
	live  *os.File
	files []logFile
	size  int64
}

func (l *logFiles) close() {
	_ = l.dir.Close() // it was only read
	if l.live != nil {
		_ = l.live.Close() // it was only read
	}
}

// validName tells whether an id may be the name of a directory: one name, and nothing that means something to a path.
func validName(s string) bool {
	return s != "" && s != "." && s != ".." && len(s) <= maxName && !strings.ContainsAny(s, `/\`) &&
		!strings.ContainsFunc(s, unicode.IsControl)
}

// openLogDir opens a directory below the work directory, name by name. No name is a symbolic link, whoever made it: what is
// opened is compared with what was looked at.
func openLogDir(workDir string, names []string) (*os.Root, error) {
	dir, err := os.OpenRoot(workDir)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		sub, err := openBeneath(dir, name)
		_ = dir.Close() // it was only read
		if err != nil {
			return nil, err
		}
		dir = sub
	}
	return dir, nil
}

func openBeneath(dir *os.Root, name string) (*os.Root, error) {
	if !validName(name) {
		return nil, errOutside
	}
	seen, err := dir.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !seen.IsDir() {
		return nil, errOutside
	}
	sub, err := dir.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	if opened, err := sub.Stat("."); err != nil || !os.SameFile(seen, opened) {
		_ = sub.Close() // it was only read
		return nil, errors.Join(errOutside, err)
	}
	return sub, nil
}

// listLog finds the files of a log and takes over dir, which it closes unless it succeeds. Spark's rule
// (RollingFileAppender.getSortedRolledOverFiles): every file whose name begins with that of the active one, in the order of
// their names without ".gz", and the active one last. Anything but a regular file is left out, and so is a compressed
// file whose original is still there.
func (h *Handler) listLog(ctx context.Context, dir *os.Root, shown, active string) (*logFiles, error) {
	var err error
	for range listAttempts {
		var l *logFiles
		l, err = listOnce(ctx, dir, active, h.maxFiles)
		if err == nil {
			if err = h.measure(ctx, l, shown); err == nil {
				return l, nil
			}
			if l.live != nil {
				_ = l.live.Close() // it was only read
			}
		}
		if !isChanging(err) {
			break
		}
	}
	_ = dir.Close() // it was only read
	return nil, err
}

// isChanging tells an error that comes of a log being rolled at that moment.
func isChanging(err error) bool { return errors.Is(err, errMoved) || errors.Is(err, fs.ErrNotExist) }

// listOnce fails with an error that isChanging when the log was rolled meanwhile.
func listOnce(ctx context.Context, dir *os.Root, active string, maxFiles int) (*logFiles, error) {
	live, info, err := openActive(dir, active)
	if err != nil {
		return nil, err
	}
	l := &logFiles{dir: dir, live: live}
	l.files, err = listRolled(ctx, dir, active, maxFiles)
	if err == nil && live != nil {
		l.files = append(l.files, logFile{name: active, info: info, size: info.Size()})
	}
	if err == nil {
		err = sameActive(dir, active, info)
	}
	if err != nil && live != nil {
		_ = live.Close() // it was only read
	}
	return l, err
}

// openActive opens the file that is written now; nil without an error when there is none, or no regular one.
func openActive(dir *os.Root, active string) (*os.File, fs.FileInfo, error) {
	info, err := dir.Lstat(active)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !info.Mode().IsRegular() {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	f, err := openSame(dir, active, info)
	return f, info, err
}

// sameActive fails with errMoved when the active file is another one than it was.
func sameActive(dir *os.Root, active string, was fs.FileInfo) error {
	is, err := dir.Lstat(active)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !is.Mode().IsRegular() {
		is, err = nil, nil
	}
	if err == nil && ((is == nil) != (was == nil) || is != nil && !os.SameFile(is, was)) {
		err = errMoved
	}
	return err
}

// listRolled lists the files that have been rolled, oldest first.
func listRolled(ctx context.Context, dir *os.Root, active string, maxFiles int) ([]logFile, error) {
	names, err := namesWithPrefix(ctx, dir, active, maxFiles)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(names, func(a, b string) int {
		return strings.Compare(strings.TrimSuffix(a, gzipSuffix), strings.TrimSuffix(b, gzipSuffix))
	})
	var files []logFile
	for _, name := range names {
		if name == active {
			continue
		}
		info, err := dir.Lstat(name)
		if err != nil {
			return nil, err
		}
		plain, packed := strings.CutSuffix(name, gzipSuffix)
		if !info.Mode().IsRegular() || packed && slices.Contains(names, plain) {
			continue
		}
		files = append(files, logFile{name: name, info: info, gzip: packed, size: info.Size()})
	}
	return files, nil
}

// namesWithPrefix reads a directory in pieces: the job may have filled it.
func namesWithPrefix(ctx context.Context, dir *os.Root, prefix string, maxFiles int) ([]string, error) {
	d, err := dir.Open(".")
	if err != nil {
		return nil, err
	}
	defer func() { _ = d.Close() }() // it was only read
	var names []string
	for seen := 0; ; {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		entries, err := d.ReadDir(1024)
		for _, e := range entries {
			if strings.HasPrefix(e.Name(), prefix) && e.Type().IsRegular() {
				names = append(names, e.Name())
			}
		}
		if seen += len(entries); seen > maxDirEntries || len(names) > maxFiles {
			return nil, errTooMany
		}
		if errors.Is(err, io.EOF) {
			return names, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// openRolled opens a file that was listed. It is found by its name, which names a moment and is never used again; by its
// number (inode) alone another one could be found, as numbers of removed files are.
func (l *logFiles) openRolled(i int) (*os.File, error) {
	return openSame(l.dir, l.files[i].name, l.files[i].info)
}

// openSame opens a regular file that was looked at, and no other that has its name now. It never blocks on a FIFO that took
// its place.
func openSame(dir *os.Root, name string, want fs.FileInfo) (*os.File, error) {
	f, err := dir.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	switch {
	case err == nil && os.SameFile(info, want) && info.Mode().IsRegular():
		return f, nil
	case err == nil && !info.Mode().IsRegular():
		err = errIrregular
	case err == nil:
		err = errMoved
	}
	_ = f.Close() // it was only read
	return nil, fmt.Errorf("%s: %w", name, err)
}
