package runner

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

const (
	defaultStall    = 60 * time.Second
	defaultReserve  = 64 << 20
	defaultAttempts = 3
	// spaceCheckBytes is how often the disk's free space is looked at again while a file of unknown or wrong size comes in.
	spaceCheckBytes = 16 << 20
	fetchBuffer     = 256 << 10
	// stuckPatience is how long a cancelled read has to return before its goroutine is left behind.
	stuckPatience = time.Second
	maxURLBytes   = 16 << 10
	maxNameBytes  = 255
	partialPrefix = ".fetching-"
)

// reservedNames are files of a driver's directory: a jar of that name would be taken for a log or the other way round.
var reservedNames = map[string]bool{"stdout": true, "stderr": true}

// Fetcher opens files of one URL scheme.
type Fetcher interface {
	// Open gives the content from offset on if it can, else from the start: Source.Offset says which. validator is the first
	// Source's Validator, "" at first; content that has changed since must start at 0. It ends its work when ctx ends.
	Open(ctx context.Context, u *url.URL, offset int64, validator string) (Source, error)
}

// Source is an open remote file.
type Source struct {
	Body io.ReadCloser
	// Offset is where Body begins. Size is the whole file's, -1 if unknown.
	Offset, Size int64
	// Validator names this version of the content ("": resuming is not possible).
	Validator string
}

// PermanentError wraps an error of a Fetcher that another attempt does not mend.
type PermanentError struct{ Err error }

func (e *PermanentError) Error() string { return e.Err.Error() }
func (e *PermanentError) Unwrap() error { return e.Err }

func permanent(format string, args ...any) error { return &PermanentError{fmt.Errorf(format, args...)} }

// FetchOptions are the limits of Fetch; zero values mean the defaults.
type FetchOptions struct {
	// Schemes adds or replaces fetchers by lower-case scheme. file, local, http and https are built in.
	Schemes map[string]Fetcher
	// Client is used for http and https; nil means one without proxy, as a worker JVM is, with at most ten redirects.
	Client *http.Client
	// StallTimeout ends a transfer without progress; 60 s by default.
	StallTimeout time.Duration
	// Reserve is how many bytes must stay free on the disk; 64 MiB by default.
	Reserve int64
	// MaxBytes bounds a file; 0 leaves only the disk's free space.
	MaxBytes int64
	// Attempts is how often a transfer is tried, each going on where the last broke; 3 by default.
	Attempts int
}

// Fetch copies a driver's jar into dir under its URL's last path element and returns its path, with default options.
func Fetch(ctx context.Context, jarURL, dir string) (string, error) {
	return FetchOptions{}.Fetch(ctx, jarURL, dir)
}

// Fetch copies a driver's jar into dir, which exists, under its URL's last path element and returns its path (DriverRunner.scala,
// Utils.fetchFile). A file that is already there is left as it is, and an empty URL gives dir itself: Python submissions over REST
// have none. A partial file has a hidden name and does not stay. Errors name the URL without user, password and query.
func (o FetchOptions) Fetch(ctx context.Context, jarURL, dir string) (string, error) {
	if jarURL == "" {
		return dir, nil
	}
	u, err := parseJarURL(jarURL)
	if err != nil {
		return "", err
	}
	name, err := jarName(u)
	if err != nil {
		return "", fmt.Errorf("jar %s: %w", publicURL(u), err)
	}
	target := filepath.Join(dir, name)
	info, err := os.Lstat(target)
	switch {
	case err == nil && info.Mode().IsRegular():
		return target, nil
	case err == nil:
		return "", fmt.Errorf("jar %s: %s is there already and no file", publicURL(u), target)
	case !errors.Is(err, os.ErrNotExist):
		return "", fmt.Errorf("jar %s: %w", publicURL(u), err)
	}
	fetcher, err := o.fetcher(u)
	if err != nil {
		return "", fmt.Errorf("jar %s: %w", publicURL(u), err)
	}
	if err := o.withDefaults().transfer(ctx, fetcher, u, dir, target); err != nil {
		return "", fmt.Errorf("jar %s: %w", publicURL(u), err)
	}
	return target, nil
}

func (o FetchOptions) withDefaults() FetchOptions {
	if o.StallTimeout <= 0 {
		o.StallTimeout = defaultStall
	}
	if o.Reserve <= 0 {
		o.Reserve = defaultReserve
	}
	if o.Attempts <= 0 {
		o.Attempts = defaultAttempts
	}
	return o
}

// parseJarURL reads a URL or a plain absolute path. The text is not in the errors: it may hold a password.
func parseJarURL(text string) (*url.URL, error) {
	if len(text) > maxURLBytes {
		return nil, fmt.Errorf("jar URL is longer than %d bytes", maxURLBytes)
	}
	u, err := url.Parse(text)
	if err != nil {
		var parse *url.Error
		if errors.As(err, &parse) {
			err = parse.Err
		}
		return nil, fmt.Errorf("jar URL is malformed: %w", err)
	}
	if u.Scheme == "" {
		u.Scheme = "file"
	}
	if u.Opaque != "" || !strings.HasPrefix(u.Path, "/") {
		return nil, fmt.Errorf("jar URL of scheme %s has no absolute path", clip(u.Scheme))
	}
	return u, nil
}

// jarName is the last element of the decoded path; elements at the end that are empty do not count, as in Java's split.
func jarName(u *url.URL) (string, error) {
	path := strings.TrimRight(u.Path, "/")
	name := path[strings.LastIndexByte(path, '/')+1:]
	switch {
	case name == "":
		return "", errors.New("the URL names no file")
	case name == "." || name == ".." || strings.ContainsRune(name, 0):
		return "", errors.New("the URL's last element is no file name")
	case len(name) > maxNameBytes:
		return "", fmt.Errorf("the file name is longer than %d bytes", maxNameBytes)
	case reservedNames[name] || strings.HasPrefix(name, partialPrefix):
		return "", fmt.Errorf("the file name %s is one of the worker's own", name)
	}
	return name, nil
}

// publicURL is a URL without what may be secret.
func publicURL(u *url.URL) string {
	public := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}
	return public.String()
}

func (o FetchOptions) fetcher(u *url.URL) (Fetcher, error) {
	if f := o.Schemes[u.Scheme]; f != nil {
		return f, nil
	}
	switch u.Scheme {
	case "file", "local":
		return fileFetcher{}, nil
	case "http", "https":
		return newHTTPFetcher(o.Client), nil
	}
	return nil, fmt.Errorf("this worker cannot read the scheme %q: give an http(s) URL or a path that exists on the workers (file:), or let the driver run on a worker of Spark",
		clip(u.Scheme))
}

// transfer writes to a hidden file and renames it, unless target has appeared meanwhile.
func (o FetchOptions) transfer(ctx context.Context, f Fetcher, u *url.URL, dir, target string) error {
	var random [8]byte
	if _, err := rand.Read(random[:]); err != nil {
		return err
	}
	partial := filepath.Join(dir, partialPrefix+hex.EncodeToString(random[:]))
	out, err := os.OpenFile(partial, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return dirError("write to", dir, err)
	}
	d := &download{o: o, fetcher: f, url: u, dir: dir, out: out, stuck: make(chan error, 1)}
	// In a goroutine of its own, because a read from a dead network file system cannot be interrupted: then it is left
	// behind, and removes its file when the read returns.
	result := make(chan error, 1)
	go func() {
		err := d.run(ctx)
		if closeErr := out.Close(); err == nil && closeErr != nil {
			err = dirError("write to", dir, closeErr)
		}
		if err == nil {
			err = renameNew(partial, target)
		}
		if err != nil {
			err = errors.Join(err, removeIfThere(partial))
		}
		result <- err
	}()
	select {
	case err := <-result:
		return err
	case err := <-d.stuck:
		return err
	case <-ctx.Done():
	}
	timer := time.NewTimer(stuckPatience)
	defer timer.Stop()
	select {
	case err := <-result:
		return err
	case <-timer.C:
		return ctx.Err()
	}
}

func removeIfThere(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// renameNew gives the file its name without replacing another; another that is there now is as good.
func renameNew(from, to string) error {
	err := unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_NOREPLACE)
	switch {
	case errors.Is(err, unix.EEXIST):
		return os.Remove(from)
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOSYS): // file systems without the flag
		return os.Rename(from, to)
	case err != nil:
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
	}
	return nil
}

// download is one transfer with its attempts.
type download struct {
	o         FetchOptions
	fetcher   Fetcher
	url       *url.URL
	dir       string
	out       *os.File
	written   int64
	checked   int64 // written at the last look at the disk
	validator string
	attempts  atomic.Int64 // that have ended
	stuck     chan error   // holds one: an attempt did not even end when it was cancelled
}

func (d *download) run(ctx context.Context) error {
	var err error
	for attempt := range d.o.Attempts {
		if attempt > 0 {
			select {
			case <-time.After(time.Duration(attempt) * 200 * time.Millisecond):
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		err = d.attempt(ctx)
		var final *PermanentError
		if err == nil || errors.As(err, &final) || ctx.Err() != nil {
			return err
		}
	}
	return fmt.Errorf("%w (tried %d times, %d bytes came)", err, d.o.Attempts, d.written)
}

// attempt opens the source once and reads to its end.
func (d *download) attempt(parent context.Context) error {
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	defer d.attempts.Add(1)
	stall := time.AfterFunc(d.o.StallTimeout, func() { d.stalled(cancel) })
	defer stall.Stop()
	source, err := d.fetcher.Open(ctx, d.url, d.written, d.validator)
	if err != nil {
		return because(ctx, err)
	}
	defer source.Body.Close()
	// A source that ignores the context is closed under its reader.
	defer context.AfterFunc(ctx, func() { _ = source.Body.Close() })()
	if err := d.begin(source); err != nil {
		return err
	}
	if err := d.copy(ctx, source.Body, stall); err != nil {
		return because(ctx, err)
	}
	if source.Size >= 0 && d.written != source.Size {
		return fmt.Errorf("%d bytes came instead of %d", d.written, source.Size)
	}
	return nil
}

// stalled cancels an attempt, and has it left behind if it does not end.
func (d *download) stalled(cancel context.CancelCauseFunc) {
	reason := fmt.Errorf("no progress for %v", d.o.StallTimeout)
	this := d.attempts.Load()
	cancel(reason)
	time.AfterFunc(stuckPatience, func() {
		if d.attempts.Load() == this {
			select {
			case d.stuck <- reason:
			default:
			}
		}
	})
}

// because prefers the context's reason to the read error that it causes.
func because(ctx context.Context, err error) error {
	if reason := context.Cause(ctx); reason != nil {
		return reason
	}
	return err
}

// begin goes on at the source's offset and refuses what is too large before any byte of it is read.
func (d *download) begin(s Source) error {
	if s.Offset != d.written {
		if s.Offset != 0 {
			return permanent("the source begins at %d instead of %d", s.Offset, d.written)
		}
		if err := d.out.Truncate(0); err != nil {
			return &PermanentError{dirError("write to", d.dir, err)}
		}
		if _, err := d.out.Seek(0, io.SeekStart); err != nil {
			return &PermanentError{err}
		}
		d.written = 0
	}
	d.validator = s.Validator
	d.checked = d.written
	return d.room(max(s.Size, d.written) - d.written)
}

// room checks that so many more bytes may come.
func (d *download) room(more int64) error {
	if d.o.MaxBytes > 0 && d.written+more > d.o.MaxBytes {
		return permanent("larger than the limit of %d bytes", d.o.MaxBytes)
	}
	var s unix.Statfs_t
	if err := unix.Fstatfs(int(d.out.Fd()), &s); err != nil {
		return &PermanentError{dirError("free space of", d.dir, err)}
	}
	free := int64(s.Bavail) * s.Bsize
	if more > free-d.o.Reserve {
		return &PermanentError{&StartError{Op: "write to", Path: d.dir, Err: unix.ENOSPC,
			Hint: fmt.Sprintf("%d bytes are free, %d of them must stay free, %d or more would come", free, d.o.Reserve, max(more, 1))}}
	}
	return nil
}

func (d *download) copy(ctx context.Context, body io.Reader, stall *time.Timer) error {
	buffer := make([]byte, fetchBuffer)
	for {
		n, readErr := body.Read(buffer)
		if n > 0 {
			stall.Reset(d.o.StallTimeout)
			if d.o.MaxBytes > 0 && d.written+int64(n) > d.o.MaxBytes || d.written-d.checked >= spaceCheckBytes {
				if err := d.room(int64(n)); err != nil {
					return err
				}
				d.checked = d.written
			}
			if _, err := d.out.Write(buffer[:n]); err != nil {
				return &PermanentError{dirError("write to", d.dir, err)}
			}
			d.written += int64(n)
		}
		switch {
		case errors.Is(readErr, io.EOF):
			return nil
		case readErr != nil:
			return readErr
		case ctx.Err() != nil:
			return ctx.Err()
		}
	}
}
