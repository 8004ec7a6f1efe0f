package runner

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
)

const (
	localDirsName = "localdirs"
	// maxLocalDirsBytes bounds what is read of the note of directories.
	maxLocalDirsBytes = 1 << 20
	executorDirPrefix = "executor-"
)

// sparkDir matches what NewLocalDirs makes and RemoveLeftovers may remove; the note could be damaged.
var sparkDir = regexp.MustCompile(`^spark-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// LocalDirs are the directories for the shuffle and spill files of executors: in each root one spark-<uuid> for this
// worker process, and in it one executor-<uuid> for each application, all with mode 0700 (Worker.scala, Utils.scala).
// All methods may be called by any goroutine; Create and Remove of one application not at the same time.
type LocalDirs struct {
	runner *Runner
	roots  []string
	note   string

	mu        sync.Mutex
	made      bool
	parents   []string            // our spark-<uuid>
	leftovers []string            // of an earlier worker
	apps      map[string][]string // application -> its directories
}

// NewLocalDirs uses the given roots. Nothing is made until the first Create. Call it once for a Runner.
func (r *Runner) NewLocalDirs(roots []string) (*LocalDirs, error) {
	l := &LocalDirs{runner: r, note: filepath.Join(r.ledger.dir, localDirsName), apps: map[string][]string{}}
	for _, root := range roots {
		if root == "" {
			continue
		}
		abs, err := filepath.Abs(root)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(l.roots, abs) {
			l.roots = append(l.roots, abs)
		}
	}
	if len(l.roots) == 0 {
		return nil, errors.New("no local directory is given (SPARK_EXECUTOR_DIRS, SPARK_LOCAL_DIRS, spark.local.dir)")
	}
	var err error
	if l.leftovers, err = readNote(l.note); err != nil {
		r.log.Warn("local directories of an earlier worker are not known", "error", err)
	}
	return l, nil
}

func readNote(path string) ([]string, error) {
	file, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var dirs []string
	if err := json.NewDecoder(io.LimitReader(file, maxLocalDirsBytes)).Decode(&dirs); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return slices.DeleteFunc(dirs, func(d string) bool { return !filepath.IsAbs(d) || !sparkDir.MatchString(filepath.Base(d)) }), nil
}

// writeNote replaces the note; mu is held. Without it directories may stay after a crash, nothing worse.
func (l *LocalDirs) writeNote() {
	text, err := json.Marshal(slices.Concat(l.leftovers, l.parents))
	partial := l.note + ".partial"
	if err == nil {
		err = os.WriteFile(partial, text, 0o600)
	}
	if err == nil {
		err = os.Rename(partial, l.note)
	}
	if err != nil {
		l.runner.log.Warn("local directories cannot be noted; a crash of this worker would leave them", "error", err)
	}
}

// makeParents makes spark-<uuid> in each root; mu is held.
func (l *LocalDirs) makeParents() {
	for _, root := range l.roots {
		dir := filepath.Join(root, "spark-"+newUUID())
		err := os.MkdirAll(root, 0o755)
		if err == nil {
			err = os.Mkdir(dir, 0o700)
		}
		if err != nil {
			l.runner.log.Error("local directory is left out", "error", dirError("make directory", dir, err))
			continue
		}
		l.parents = append(l.parents, dir)
	}
	l.made = len(l.parents) > 0
	l.writeNote()
}

// Create gives the application's directories, made at the first call for it. A root that fails is left out and logged;
// if all fail there is an error.
func (l *LocalDirs) Create(appID string) ([]string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if dirs := l.apps[appID]; len(dirs) > 0 {
		return slices.Clone(dirs), nil
	}
	if !l.made {
		l.makeParents()
	}
	var dirs []string
	var last error
	for _, parent := range l.parents {
		dir := filepath.Join(parent, executorDirPrefix+newUUID())
		if err := os.MkdirAll(dir, 0o700); err != nil { // the parent may have been removed by a cleaner of temporary files
			last = dirError("make directory", dir, err)
			l.runner.log.Warn("local directory is left out", "app_id", appID, "error", last)
			continue
		}
		dirs = append(dirs, dir)
	}
	if len(dirs) == 0 {
		if last == nil {
			last = fmt.Errorf("none of %v can be used", l.roots)
		}
		return nil, fmt.Errorf("no local directory for executors: %w", last)
	}
	l.apps[appID] = dirs
	return slices.Clone(dirs), nil
}

// Remove deletes the application's directories with all that is in them; an unknown application is no error. It may take
// long, and follows no symbolic link.
func (l *LocalDirs) Remove(appID string) error {
	l.mu.Lock()
	dirs := l.apps[appID]
	delete(l.apps, appID)
	l.mu.Unlock()
	var err error
	for _, dir := range dirs {
		err = errors.Join(err, os.RemoveAll(dir))
	}
	return err
}

// RemoveLeftovers deletes the spark-<uuid> directories of an earlier worker that was killed, and says how many. Call it after
// EndOrphans, whose processes use them; it may take long.
func (l *LocalDirs) RemoveLeftovers(ctx context.Context) (int, error) {
	l.mu.Lock()
	leftovers := slices.Clone(l.leftovers)
	l.mu.Unlock()
	var kept []string
	var failed error
	removed := 0
	for i, dir := range leftovers {
		if ctx.Err() != nil {
			kept = append(kept, leftovers[i:]...)
			failed = errors.Join(failed, ctx.Err())
			break
		}
		present := exists(dir)
		if err := os.RemoveAll(dir); err != nil {
			kept, failed = append(kept, dir), errors.Join(failed, err)
		} else if present {
			removed++
		}
	}
	if len(leftovers) > 0 {
		l.mu.Lock()
		l.leftovers = kept
		l.writeNote()
		l.mu.Unlock()
	}
	return removed, failed
}

// Close deletes all directories that it made. To be called after the children's end.
func (l *LocalDirs) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var err error
	var kept []string
	for _, dir := range l.parents {
		if removeErr := os.RemoveAll(dir); removeErr != nil {
			err, kept = errors.Join(err, removeErr), append(kept, dir)
		}
	}
	clear(l.apps)
	if l.made {
		l.parents = kept
		l.writeNote()
		l.parents, l.made = nil, false
	}
	return err
}

// newUUID is a random UUID (version 4), as java.util.UUID makes.
func newUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // crypto/rand never fails: it ends the program instead
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[0:4], b[4:6], b[6:8], b[8:10], b[10:])
}
