package runner

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"
)

const (
	defaultEntriesPerSecond = 5000
	// removingPrefix is the name of a directory that is being deleted: out of the way of an application with the old name, and
	// found again when the worker ends meanwhile.
	removingPrefix = ".removing-"
)

// CleanerOptions are a Cleaner's parameters.
type CleanerOptions struct {
	WorkDir string
	// TTL is spark.worker.cleanup.appDataTtl.
	TTL time.Duration
	// EntriesPerSecond bounds how fast directories are read and deleted; 0 means 5000.
	EntriesPerSecond int
	// Clock gives the time that modification times are compared with, and the pauses; nil means the system's.
	Clock Clock
	Log   hclog.Logger
}

// Cleaner deletes directories of ended applications and drivers: each directory under the work directory that nobody
// holds and in which nothing, at any depth, was modified within the TTL (WorkDirCleanup in Worker.scala). Differences to Spark:
// the directory's own time counts as well, so that one just made is never deleted; names that begin with a dot and lost+found stay;
// no link is followed and no other file system entered; a directory that cannot be read wholly stays.
type Cleaner struct {
	o    CleanerOptions
	pass sync.Mutex

	mu   sync.Mutex
	held map[string]int
}

// NewCleaner makes a Cleaner; it does nothing until Clean.
func NewCleaner(o CleanerOptions) *Cleaner {
	if o.EntriesPerSecond <= 0 {
		o.EntriesPerSecond = defaultEntriesPerSecond
	}
	if o.Clock == nil {
		o.Clock = systemClock{}
	}
	if o.Log == nil {
		o.Log = hclog.NewNullLogger()
	}
	return &Cleaner{o: o, held: map[string]int{}}
}

// Hold says that a directory directly under the work directory (an application or driver id) is used. To be called before the
// directory is made; waits for nothing longer than a rename. Calls count.
func (c *Cleaner) Hold(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held[name]++
}

// Release takes back one Hold.
func (c *Cleaner) Release(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.held[name]--; c.held[name] <= 0 {
		delete(c.held, name)
	}
}

func (c *Cleaner) isHeld(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.held[name] > 0
}

// Clean makes one pass and returns the names of the deleted directories, also with an error. One that cannot be looked at
// or deleted does not keep the others. One pass at a time.
func (c *Cleaner) Clean(ctx context.Context) ([]string, error) {
	c.pass.Lock()
	defer c.pass.Unlock()
	work, err := os.Open(c.o.WorkDir)
	if err != nil {
		return nil, fmt.Errorf("clean work directory: %w", err)
	}
	defer work.Close()
	var s unix.Stat_t
	if err := unix.Fstat(int(work.Fd()), &s); err != nil {
		return nil, fmt.Errorf("clean work directory: %w", err)
	}
	w := &walker{ctx: ctx, clock: c.o.Clock, rate: c.o.EntriesPerSecond, tokens: c.o.EntriesPerSecond / 20, device: uint64(s.Dev)}
	after := c.o.Clock.Now().Add(-c.o.TTL)
	var cleaned []string
	var failed []error
	names, err := listDir(work)
	if err != nil {
		failed = append(failed, err)
	}
	for _, name := range names {
		if ctx.Err() != nil {
			failed = append(failed, ctx.Err())
			break
		}
		done, err := c.consider(w, work, name, after)
		if done {
			cleaned = append(cleaned, name)
		}
		if err != nil && ctx.Err() == nil {
			c.o.Log.Warn("directory is not cleaned", "name", name, "error", err)
			failed = append(failed, fmt.Errorf("%s: %w", name, err))
		}
	}
	if len(failed) > 0 {
		return cleaned, fmt.Errorf("clean work directory %s: %w", c.o.WorkDir, errors.Join(failed...))
	}
	return cleaned, nil
}

// listDir reads all names before anything is renamed or removed.
func listDir(dir *os.File) ([]string, error) {
	names, err := dir.Readdirnames(-1)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return names, err
}

// consider deletes one directory if it may; done is true once it has left its name.
func (c *Cleaner) consider(w *walker, work *os.File, name string, after time.Time) (done bool, err error) {
	if strings.HasPrefix(name, removingPrefix) {
		return false, w.remove(work, name, 0)
	}
	if strings.HasPrefix(name, ".") || name == "lost+found" || c.isHeld(name) {
		return false, nil
	}
	if err := w.pace(); err != nil {
		return false, err
	}
	info, err := w.stat(work, name)
	if err != nil || !info.isDir || info.modified.After(after) {
		if errors.Is(err, os.ErrNotExist) {
			err = nil
		}
		return false, err
	}
	dir, err := openDir(work, name)
	if err != nil {
		return false, err
	}
	newer, err := w.anyNewer(dir, after, 0)
	closeErr := dir.Close()
	if newer || err != nil || closeErr != nil {
		return false, errors.Join(err, closeErr)
	}
	removing, err := c.take(work, name)
	if err != nil || removing == "" {
		return false, err
	}
	c.o.Log.Info("removing directory", "name", name)
	return true, w.remove(work, removing, 0)
}

// take renames the directory if nobody holds it; Hold waits meanwhile, so the two never cross.
func (c *Cleaner) take(work *os.File, name string) (removing string, err error) {
	var random [8]byte
	if _, err := rand.Read(random[:]); err != nil {
		return "", err
	}
	removing = removingPrefix + hex.EncodeToString(random[:])
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.held[name] > 0 {
		return "", nil
	}
	if err := unix.Renameat(int(work.Fd()), name, int(work.Fd()), removing); err != nil {
		return "", fmt.Errorf("rename: %w", err)
	}
	return removing, nil
}
