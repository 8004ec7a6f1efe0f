package backup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"

	"raftmaster/fsm"
)

// Options say how to save on a schedule.
type Options struct {
	// Dir is where files go; it is made with mode 0700.
	Dir string
	// Interval is from one file to the next; Keep files stay at most, and none older than MaxAge (0: whatever their age). The
	// newest file always stays.
	Interval time.Duration
	Keep     int
	MaxAge   time.Duration
	// Take gives the state and where it comes from; ok false: there is nothing to save yet.
	Take func() (h Header, s fsm.Snapshot, ok bool)
	Log  hclog.Logger

	now  func() time.Time                             // nil: the clock
	free func(dir string) (free, all uint64, _ error) // nil: the file system's
}

const (
	fileExtension = ".snapshot"
	stampLayout   = "20060102T150405Z"
	// A file is only made when as much stays free: a tenth of the file system, or reserveBytes where that is less.
	reserveBytes  = 1 << 30
	reserveDivide = 10
	// retryPause is how soon a failed save is tried again, where the interval is longer.
	retryPause = time.Minute
	// nodeDigits of the node's id are in a file's name: masters may share a directory.
	nodeDigits = 8
)

// Schedule saves files until its context ends.
type Schedule struct {
	o Options

	mu      sync.Mutex
	began   time.Time
	last    time.Time // of the last success
	files   int
	bytes   int64
	failure string
	fails   int
	saved   uint64   // index in the newest file
	mine    []string // names of the files that this process has saved and that are there, oldest first
}

// NewSchedule prepares a schedule; Run carries it out.
func NewSchedule(o Options) *Schedule {
	if o.now == nil {
		o.now = time.Now
	}
	if o.free == nil {
		o.free = freeBytes
	}
	return &Schedule{o: o, began: o.now()}
}

// Run saves soon after the start, when a master has caught up, and then at each interval, until ctx ends.
func (s *Schedule) Run(ctx context.Context) {
	soon := min(s.o.Interval, retryPause)
	for wait := soon; ; {
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		wait = s.o.Interval
		if saved, err := s.Save(); err != nil || !saved {
			wait = soon
		}
	}
}

// Save makes one file now, unless nothing has changed since the newest one, and removes those that are not to be kept.
// False: there is nothing to save yet.
func (s *Schedule) Save() (bool, error) {
	h, state, ok := s.o.Take()
	if !ok {
		return false, nil
	}
	err := s.save(h, state)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.o.Log.Error("no snapshot was saved", "dir", s.o.Dir, "error", err)
		s.failure = err.Error()
		s.fails++
		return false, err
	}
	s.failure, s.last = "", s.o.now()
	return true, nil
}

func (s *Schedule) save(h Header, state fsm.Snapshot) error {
	if err := os.MkdirAll(s.o.Dir, 0o700); err != nil {
		return err
	}
	node := h.Node[:min(len(h.Node), nodeDigits)]
	if err := s.removeUnfinished(node); err != nil {
		return err
	}
	index := state.View().Index()
	if index == s.savedIndex() && index > 0 {
		return s.prune(node)
	}
	if err := s.prune(node); err != nil { // first, so that what is not kept makes room
		return err
	}
	if err := s.needSpace(h, state); err != nil {
		return err
	}
	path := filepath.Join(s.o.Dir, fileName(s.o.now(), index, node))
	if _, err := SaveFile(path, func(w io.Writer) error { _, err := Write(w, h, state); return err }); err != nil {
		return err
	}
	s.mu.Lock()
	s.saved = index
	s.mine = append(slices.DeleteFunc(s.mine, func(name string) bool { return name == filepath.Base(path) }), filepath.Base(path))
	s.mu.Unlock()
	s.o.Log.Info("saved a snapshot", "path", path, "index", index)
	return s.prune(node)
}

func (s *Schedule) savedIndex() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.saved
}

// fileName sorts by time, then by index.
func fileName(at time.Time, index uint64, node string) string {
	return fmt.Sprintf("raftmaster-%s-%012d-%s%s", at.UTC().Format(stampLayout), index, node, fileExtension)
}

// needSpace refuses a file that would leave less free than the reserve: the log may be on the same file system, and must
// never find it full.
func (s *Schedule) needSpace(h Header, state fsm.Snapshot) error {
	size, err := Write(io.Discard, h, state)
	if err != nil {
		return err
	}
	free, all, err := s.o.free(s.o.Dir)
	if err != nil {
		return fmt.Errorf("find out what is free in %s: %w", s.o.Dir, err)
	}
	reserve := min(all/reserveDivide, reserveBytes)
	if free < uint64(size)+reserve {
		return fmt.Errorf("%s has %d MiB free: a snapshot of %d KiB would leave less than the reserve of %d MiB; make room, or keep fewer files", s.o.Dir, free>>20, size>>10, reserve>>20)
	}
	return nil
}

func freeBytes(dir string) (free, all uint64, err error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return 0, 0, err
	}
	return st.Bavail * uint64(st.Bsize), st.Blocks * uint64(st.Bsize), nil
}

// ownFiles lists this node's files, oldest first: what this process has saved comes last, whatever the names say. A clock that
// was ahead once, or an index that has gone back with a cold copy, must not make each new file the oldest one, which goes.
func (s *Schedule) ownFiles(node string) ([]string, error) {
	entries, err := os.ReadDir(s.o.Dir)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, e := range entries {
		if _, ok := takenAt(e.Name()); ok && strings.HasSuffix(e.Name(), "-"+node+fileExtension) && e.Type().IsRegular() {
			out = append(out, e.Name())
		}
	}
	slices.SortFunc(out, func(a, b string) int { return cmp.Or(cmp.Compare(s.order(a), s.order(b)), cmp.Compare(a, b)) })
	return out, nil
}

// order is the place of a file among those that this process has saved, -1 when it is none of them.
func (s *Schedule) order(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Index(s.mine, name)
}

// takenAt reads the time in a file's name.
func takenAt(name string) (time.Time, bool) {
	parts := strings.Split(name, "-")
	if len(parts) != 4 || parts[0] != "raftmaster" {
		return time.Time{}, false
	}
	t, err := time.Parse(stampLayout, parts[1])
	return t, err == nil
}

// prune removes this node's files that are not to be kept.
func (s *Schedule) prune(node string) error {
	files, err := s.ownFiles(node)
	if err != nil {
		return err
	}
	var errs []error
	kept, bytes, stays := 0, int64(0), make(map[string]bool)
	for i, name := range files {
		newest := i == len(files)-1
		at, _ := takenAt(name)
		tooOld := s.o.MaxAge > 0 && s.o.now().Sub(at) > s.o.MaxAge
		path := filepath.Join(s.o.Dir, name)
		if !newest && (len(files)-i > s.o.Keep || tooOld) {
			errs = append(errs, ignoreMissing(os.Remove(path)))
			continue
		}
		if st, err := os.Stat(path); err == nil {
			kept++
			bytes += st.Size()
			stays[name] = true
		}
	}
	s.mu.Lock()
	s.files, s.bytes = kept, bytes
	s.mine = slices.DeleteFunc(s.mine, func(name string) bool { return !stays[name] })
	s.mu.Unlock()
	return errors.Join(errs...)
}

// removeUnfinished removes what a process that was killed has left.
func (s *Schedule) removeUnfinished(node string) error {
	left, err := filepath.Glob(filepath.Join(s.o.Dir, ".raftmaster-*-"+node+fileExtension+tmpPattern+"*"))
	var errs []error
	for _, path := range left {
		errs = append(errs, ignoreMissing(os.Remove(path)))
	}
	return errors.Join(append(errs, err)...)
}

// Alarm says why the last save failed, "" when it did not.
func (s *Schedule) Alarm() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failure != "" {
		return "no snapshot was saved: " + s.failure
	}
	return ""
}

// Stats are for metrics.
type Stats struct {
	// Age is the time since the last success, or since the start of the schedule while there was none.
	Age      time.Duration
	Failures int
	// Files and Bytes are this node's files in the directory.
	Files int
	Bytes int64
}

// Stats gives the figures as of now.
func (s *Schedule) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	since := s.last
	if since.IsZero() {
		since = s.began
	}
	return Stats{Age: s.o.now().Sub(since), Failures: s.fails, Files: s.files, Bytes: s.bytes}
}
