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
	// active is the name of the file that is written now, whether it is there or not.
	active string
	files  []logFile
	size   int64
}

func (l *logFiles) close() { _ = l.dir.Close() } // it was only read

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
		var files []logFile
		files, err = listOnce(ctx, dir, active)
		if err == nil {
			l := &logFiles{dir: dir, active: active, files: files}
			err = h.measure(ctx, l, shown)
			if err == nil {
				return l, nil
			}
		}
		if !errors.Is(err, errMoved) && !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	_ = dir.Close() // it was only read
	return nil, err
}

// listOnce fails with errMoved, or that a file does not exist, when the log was rolled meanwhile.
func listOnce(ctx context.Context, dir *os.Root, active string) ([]logFile, error) {
	before, err := statActive(dir, active)
	if err != nil {
		return nil, err
	}
	names, err := namesWithPrefix(ctx, dir, active)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(names, func(a, b string) int {
		if (a == active) != (b == active) {
			if a == active {
				return 1
			}
			return -1
		}
		return strings.Compare(strings.TrimSuffix(a, gzipSuffix), strings.TrimSuffix(b, gzipSuffix))
	})
	var files []logFile
	for _, name := range names {
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
	after, err := statActive(dir, active)
	if err != nil {
		return nil, err
	}
	if (before == nil) != (after == nil) || before != nil && !os.SameFile(before, after) {
		return nil, errMoved
	}
	return files, nil
}

// statActive looks at the active file; nil when there is none.
func statActive(dir *os.Root, active string) (fs.FileInfo, error) {
	info, err := dir.Lstat(active)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return info, err
}

// namesWithPrefix reads a directory in pieces: the job may have filled it.
func namesWithPrefix(ctx context.Context, dir *os.Root, prefix string) ([]string, error) {
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
		if seen += len(entries); seen > maxDirEntries || len(names) > maxLogFiles {
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

// open opens the file that was listed, under its present name when it has been rolled since. It never blocks on a FIFO that
// took its place.
func (l *logFiles) open(ctx context.Context, i int) (*os.File, error) {
	want := l.files[i]
	f, err := openSame(l.dir, want.name, want.info)
	if err == nil {
		return f, nil
	}
	// A rolled file keeps the beginning of its name.
	names, listErr := namesWithPrefix(ctx, l.dir, l.active)
	if listErr != nil {
		return nil, listErr
	}
	for _, name := range names {
		if info, statErr := l.dir.Lstat(name); statErr == nil && os.SameFile(info, want.info) {
			return openSame(l.dir, name, want.info)
		}
	}
	return nil, err
}

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
