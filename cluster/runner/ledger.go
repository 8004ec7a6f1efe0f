package runner

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// stateDir is this package's directory in the work directory. Cleaner leaves names with a dot alone.
	stateDir      = ".raftmaster-worker"
	lockName      = "lock"
	childrenDir   = "children"
	ledgerVersion = 1
	// maxEntryBytes bounds what is read of a ledger file: a name, a path of at most 4,096 bytes and some numbers.
	maxEntryBytes = 64 << 10
	// lockPatience covers the moment in which a killed worker has not quite ended.
	lockPatience = time.Second
)

// intent is the first line of a child's file, written before the fork.
type intent struct {
	Version   int    `json:"v"`
	Boot      string `json:"boot"`
	Namespace string `json:"pidns"`
	Name      string `json:"name"`
	Dir       string `json:"dir"`
	// Argv is the SHA-256 of the argument vector as /proc/PID/cmdline shows it. It finds the child of a worker that died between fork
	// and the second line; the arguments themselves may hold secrets.
	Argv string `json:"argv"`
	// After is the machine's time in ticks before the fork.
	After uint64 `json:"after"`
}

// started is the second line, written after the fork.
type started struct {
	Pid   int    `json:"pid"`
	Start uint64 `json:"start"`
}

// entry is a parsed file; Pid is 0 if the second line is missing.
type entry struct {
	intent
	started
}

// parseEntry reads a child's file. A broken second line counts as missing: the worker died while it wrote it.
func parseEntry(text []byte) (entry, error) {
	var e entry
	if len(text) > maxEntryBytes {
		return e, errors.New("ledger entry is too long")
	}
	first, rest, complete := bytes.Cut(text, []byte("\n"))
	if !complete {
		return e, errors.New("ledger entry is cut off: nothing was started")
	}
	if err := json.Unmarshal(first, &e.intent); err != nil {
		return entry{}, fmt.Errorf("ledger entry: %w", err)
	}
	if e.Version != ledgerVersion {
		return entry{}, fmt.Errorf("ledger entry has version %d, known is %d", e.Version, ledgerVersion)
	}
	if e.Boot == "" || !filepath.IsAbs(e.Dir) {
		return entry{}, errors.New("ledger entry lacks the boot id or the directory")
	}
	second, _, complete := bytes.Cut(rest, []byte("\n"))
	var s started
	if complete && json.Unmarshal(second, &s) == nil && s.Pid > 1 && s.Start > 0 {
		e.started = s
	}
	return e, nil
}

// argvDigest is the digest of an argument vector in the form of /proc/PID/cmdline: each argument ends with a zero byte.
func argvDigest(cmdline []byte) string {
	sum := sha256.Sum256(cmdline)
	return hex.EncodeToString(sum[:])
}

func cmdlineOf(argv []string) []byte { return []byte(strings.Join(argv, "\x00") + "\x00") }

// ledger is the state directory of one live worker.
type ledger struct {
	dir             string
	lock            *os.File
	instance        string // distinguishes this process's files from an earlier one's
	boot, namespace string
	next            atomic.Int64
}

// openLedger makes and locks the state directory. warning tells of what is wrong without being in the way.
func openLedger(workDir string) (l *ledger, warning error, err error) {
	if err := os.MkdirAll(workDir, 0o755); err != nil {
		return nil, nil, dirError("make work directory", workDir, err)
	}
	l = &ledger{dir: filepath.Join(workDir, stateDir)}
	if err := os.Mkdir(l.dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, nil, dirError("write to work directory", workDir, err)
	}
	if l.boot, err = bootID(); err != nil {
		return nil, nil, fmt.Errorf("boot id of this machine: %w", err)
	}
	if l.namespace, err = pidNamespace(); err != nil {
		return nil, nil, fmt.Errorf("process id namespace: %w", err)
	}
	var nonce [8]byte
	if _, err := rand.Read(nonce[:]); err != nil {
		return nil, nil, err
	}
	l.instance = hex.EncodeToString(nonce[:])
	warning, err = l.acquire(workDir)
	if err != nil {
		return nil, nil, err
	}
	return l, warning, nil
}

func (l *ledger) acquire(workDir string) (warning error, err error) {
	path := filepath.Join(l.dir, lockName)
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_CREAT|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, dirError("write to work directory", workDir, &os.PathError{Op: "open", Path: path, Err: err})
	}
	file := os.NewFile(uintptr(fd), path)
	for deadline := time.Now().Add(lockPatience); ; time.Sleep(20 * time.Millisecond) {
		err = unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			break
		}
		if errors.Is(err, unix.EINTR) || errors.Is(err, unix.EWOULDBLOCK) && time.Now().Before(deadline) {
			continue
		}
		defer file.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("%w: %s belongs to process %s; give each worker its own directory", ErrLocked, workDir, holder(file))
		}
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	l.lock = file
	// The text only serves the message above. A full disk must not keep a worker from starting: its cleaner may be what makes room.
	if err := file.Truncate(0); err != nil {
		warning = err
	} else if _, err := file.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0); err != nil {
		warning = dirError("write to work directory", workDir, err)
	}
	return warning, nil
}

// holder reads the process id in the lock file, for a message.
func holder(lock *os.File) string {
	text, err := io.ReadAll(io.LimitReader(lock, 32))
	if err != nil {
		return "unknown"
	}
	if pid, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil {
		return strconv.Itoa(pid)
	}
	return "unknown"
}

// intend writes a child's file before its fork.
func (l *ledger) intend(name, dir string, argv []string) (*os.File, error) {
	ticks, err := machineTicks()
	if err != nil {
		return nil, err
	}
	line, err := json.Marshal(intent{ledgerVersion, l.boot, l.namespace, name, dir, argvDigest(cmdlineOf(argv)), ticks})
	if err != nil {
		return nil, err
	}
	children := filepath.Join(l.dir, childrenDir)
	if err := os.MkdirAll(children, 0o700); err != nil {
		return nil, err
	}
	path := filepath.Join(children, l.instance+"-"+strconv.FormatInt(l.next.Add(1), 10))
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	if _, err := file.Write(append(line, '\n')); err != nil {
		return nil, errors.Join(err, file.Close(), os.Remove(path))
	}
	return file, nil
}

// confirm adds the second line and closes the file.
func (l *ledger) confirm(file *os.File, s started) error {
	line, err := json.Marshal(s)
	if err == nil {
		_, err = file.Write(append(line, '\n'))
	}
	return errors.Join(err, file.Close())
}

// earlier lists the files of earlier worker processes.
func (l *ledger) earlier() ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(l.dir, childrenDir))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var paths []string
	for _, e := range entries {
		if e.Type().IsRegular() && !strings.HasPrefix(e.Name(), l.instance+"-") {
			paths = append(paths, filepath.Join(l.dir, childrenDir, e.Name()))
		}
	}
	return paths, nil
}

// readEntry reads and parses a child's file.
func readEntry(path string) (entry, error) {
	file, err := os.Open(path)
	if err != nil {
		return entry{}, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxEntryBytes+1))
	if err != nil {
		return entry{}, err
	}
	return parseEntry(text)
}

func (l *ledger) close() error { return l.lock.Close() }
