package runner

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"sync"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"
)

const (
	copyBuffer = 32 << 10
	gzipSuffix = ".gz"
	// maxClashes bounds the search for an unused name, as in Spark.
	maxClashes = 10000
)

// copier moves one output of a child from a pipe to a file that rolls. It always reads on: what cannot be written, because
// the disk is full, is dropped and counted, so that the child is not stopped by its own log.
type copier struct {
	path   string
	pipe   *os.File
	policy Rolling
	clock  Clock
	log    hclog.Logger
	ended  chan struct{}
	stopMu sync.Once

	// of run's goroutine
	file        *os.File // nil while it cannot be opened
	sinceRoll   int64
	nextRoll    int64
	dropped     int64
	dropCause   error
	compressing chan struct{} // closed when the last compression has ended
}

// newCopier takes over fd, the open log file, and gives the descriptor for the child.
func newCopier(path string, fd int, policy Rolling, clock Clock, log hclog.Logger) (c *copier, writer int, err error) {
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
		return nil, -1, dirError("make a pipe for", path, err)
	}
	// Ours is in the poller; the child's end stays blocking.
	if err := unix.SetNonblock(ends[0], true); err != nil {
		unix.Close(ends[0])
		unix.Close(ends[1])
		return nil, -1, dirError("make a pipe for", path, err)
	}
	c = &copier{
		path: path, pipe: os.NewFile(uintptr(ends[0]), path), policy: policy, clock: clock, log: log,
		ended: make(chan struct{}), file: os.NewFile(uintptr(fd), path), compressing: make(chan struct{}),
	}
	close(c.compressing)
	return c, ends[1], nil
}

// discard closes a copier that never ran.
func (c *copier) discard() {
	_ = c.pipe.Close()
	_ = c.file.Close()
}

// stop ends a copier whose pipe is held by a process that has left the group.
func (c *copier) stop() {
	c.stopMu.Do(func() { _ = c.pipe.Close() })
}

// run copies until all writers have closed the pipe, or stop.
func (c *copier) run() {
	defer close(c.ended)
	if c.policy.Interval > 0 {
		c.nextRoll = c.policy.after(c.clock.Now())
	}
	buffer := make([]byte, copyBuffer)
	for {
		n, err := c.pipe.Read(buffer)
		if n > 0 {
			c.append(buffer[:n])
		}
		if err != nil {
			if !errors.Is(err, io.EOF) && !errors.Is(err, os.ErrClosed) {
				c.log.Warn("log pipe", "file", c.path, "error", err)
			}
			break
		}
	}
	c.note()
	c.stop()
	if c.file != nil {
		if err := c.file.Close(); err != nil {
			c.log.Warn("log file", "file", c.path, "error", err)
		}
	}
	<-c.compressing
}

func (c *copier) append(data []byte) {
	if c.due(int64(len(data))) {
		c.roll()
	}
	if c.file == nil {
		fd, err := openLog(c.path, &undo{})
		if err != nil {
			c.drop(int64(len(data)), err)
			return
		}
		c.file = os.NewFile(uintptr(fd), c.path)
	}
	if !c.note() {
		c.drop(int64(len(data)), nil)
		return
	}
	n, err := c.file.Write(data)
	c.sinceRoll += int64(n)
	if err != nil {
		c.drop(int64(len(data)-n), err)
	}
}

// due is TimeBasedRollingPolicy's and SizeBasedRollingPolicy's shouldRollover.
func (c *copier) due(more int64) bool {
	if c.policy.Interval > 0 {
		return c.clock.Now().UnixMilli() > c.nextRoll
	}
	return c.sinceRoll+more > c.policy.MaxSize
}

func (c *copier) drop(n int64, why error) {
	if why != nil {
		if c.dropped == 0 {
			c.log.Warn("output of a process is dropped", "file", c.path, "error", why)
		}
		c.dropCause = why
	}
	c.dropped += n
}

// note says in the file what was dropped; false if even that cannot be written.
func (c *copier) note() bool {
	if c.dropped == 0 {
		return true
	}
	if c.file == nil {
		return false
	}
	line := fmt.Sprintf("\n[raftmaster worker: %d bytes of output were dropped here: %v]\n", c.dropped, cause(c.dropCause))
	n, err := c.file.WriteString(line)
	c.sinceRoll += int64(n)
	if err != nil {
		c.dropCause = err
		return false
	}
	c.log.Info("output of a process is written again", "file", c.path, "dropped", c.dropped)
	c.dropped = 0
	return true
}

// roll renames the active file and removes old ones. When the rename fails the active file is written on; the next roll is
// due as if it had worked, so that a broken disk is not asked at every write.
func (c *copier) roll() {
	if c.file != nil {
		if err := c.file.Close(); err != nil {
			c.log.Warn("log file", "file", c.path, "error", err)
		}
		c.file = nil
	}
	<-c.compressing
	rolled := c.freeName(c.path + c.policy.suffix(c.clock.Now()))
	if err := os.Rename(c.path, rolled); err != nil {
		c.log.Warn("cannot roll a log file", "file", c.path, "error", err)
	} else if c.policy.Compress {
		c.compressing = make(chan struct{})
		go c.compress(rolled, c.compressing)
	} else {
		c.removeOld()
	}
	c.sinceRoll = 0
	if c.policy.Interval > 0 {
		c.nextRoll = c.policy.after(c.clock.Now())
	}
}

// freeName appends "--0", "--1"... to a name that is taken, compressed or not (RollingFileAppender.moveFile).
func (c *copier) freeName(name string) string {
	candidate := name
	for i := 0; i < maxClashes && (exists(candidate) || exists(candidate+gzipSuffix)); i++ {
		candidate = name + "--" + strconv.Itoa(i)
	}
	return candidate
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// compress makes the .gz beside the child's output, so that the child does not wait for it.
func (c *copier) compress(path string, ended chan struct{}) {
	defer close(ended)
	if err := gzipFile(path); err != nil {
		c.log.Warn("cannot compress a log file; it stays as it is", "file", path, "error", err)
	}
	c.removeOld()
}

func gzipFile(path string) (err error) {
	// The directory is the child's: a pipe that it has put there must not be waited for, nor a link followed.
	in, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("not a regular file")
	}
	if err != nil {
		return err
	}
	// A hidden name: no reader takes half a file for a log.
	partial := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+gzipSuffix+".partial")
	out, err := os.OpenFile(partial, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	packer := gzip.NewWriter(out)
	_, err = io.Copy(packer, in)
	err = errors.Join(err, packer.Close(), out.Close())
	if err == nil {
		err = os.Rename(partial, path+gzipSuffix)
	}
	if err != nil {
		return errors.Join(err, os.Remove(partial))
	}
	return os.Remove(path)
}

// removeOld keeps the newest MaxRetained rolled files; names sort by time (RollingFileAppender.deleteOldFiles).
func (c *copier) removeOld() {
	if c.policy.MaxRetained <= 0 {
		return
	}
	dir, base := filepath.Split(c.path)
	entries, err := os.ReadDir(dir)
	if err != nil {
		c.log.Warn("cannot list rolled log files", "file", c.path, "error", err)
		return
	}
	var rolled []string
	for _, e := range entries {
		// Spark removes whatever begins with the file's name; the two dashes spare a user's own files.
		if strings.HasPrefix(e.Name(), base+"--") && e.Type().IsRegular() {
			rolled = append(rolled, e.Name())
		}
	}
	sort.Strings(rolled)
	for _, name := range rolled[:max(0, len(rolled)-c.policy.MaxRetained)] {
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			c.log.Warn("cannot remove a rolled log file", "file", name, "error", err)
		}
	}
}
