package webui

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"

	_ "embed"

	"raftmaster/transport/internal/uibase"
)

//go:embed assets/log.html
var logHTML string

// Limits of the log pages. Spark's default is 100 KiB, without a bound.
const (
	defaultLogBytes = 100 << 10
	maxLogBytes     = 1 << 20
)

// logTypes are those that Spark 4 knows (LogPage.scala of the master).
var logTypes = []string{"stderr", "stdout", "out"}

// logRange is a part of a log file.
type logRange struct {
	Path             string
	Start, End, Size int64
	Text             string
}

// readLog reads the part that the query asks for: the last byteLength bytes, or those from offset on. Only that part of
// the file is ever read.
func (h *Handler) readLog(r *http.Request) (logRange, error) {
	q := r.URL.Query()
	kind := q.Get("logType")
	known := false
	for _, t := range logTypes {
		known = known || t == kind
	}
	if !known {
		return logRange{}, errors.New("Error: Log type must be one of stderr, stdout, out")
	}
	files := map[string]string{}
	if h.opts.LogFiles != nil {
		files = h.opts.LogFiles()
	}
	path := files[kind]
	if path == "" {
		return logRange{}, errors.New("Error: " + noLogFile(kind))
	}
	length, err := intParam(r, "byteLength", defaultLogBytes)
	if err != nil {
		return logRange{}, fmt.Errorf("Error: %w", err)
	}
	f, err := os.Open(path)
	if err != nil {
		return logRange{}, errors.New("Error: the log file of this master cannot be opened")
	}
	defer func() { _ = f.Close() }() // it was only read
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return logRange{}, errors.New("Error: " + noLogFile(kind))
	}
	size, n := info.Size(), int64(min(length, maxLogBytes))
	start := max(0, size-n)
	if s := q.Get("offset"); s != "" {
		offset, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			return logRange{}, errors.New("Error: offset must be a whole number")
		}
		start = min(max(0, offset), size)
	}
	body := make([]byte, min(n, size-start))
	got, err := f.ReadAt(body, start)
	if err != nil && !errors.Is(err, io.EOF) {
		return logRange{}, errors.New("Error: the log file of this master cannot be read")
	}
	return logRange{Path: path, Start: start, End: start + int64(got), Size: size, Text: string(body[:got])}, nil
}

func noLogFile(kind string) string {
	return "the " + kind + " of this master is no file: it writes its log to standard error, which here goes elsewhere (a terminal, a pipe, the journal of systemd)"
}

// head is the first line of Spark's answer.
func (l logRange) head() string {
	return fmt.Sprintf("==== Bytes %d-%d of %d of %s ====", l.Start, l.End, l.Size, l.Path)
}

// serveLog is /log/: text.
func (h *Handler) serveLog(w http.ResponseWriter, r *http.Request) {
	part, err := h.readLog(r)
	body := part.head() + "\n" + part.Text
	if err != nil {
		body = err.Error()
	}
	uibase.WriteBody(w, r, http.StatusOK, "text/plain;charset=utf-8", []byte(body))
}

// logPage is /logPage/: the same in a page.
type logPage struct {
	Title, Nonce, Root, Type string
	S                        Status
	L                        logRange
	Error                    string
	// Back is the offset of the part before; Length that of a part.
	Back, Length int64
	// Earlier: there is one.
	Earlier bool
}

func (h *Handler) serveLogPage(w http.ResponseWriter, r *http.Request) {
	st := h.opts.State.Brief()
	p := logPage{Title: "Log of " + st.URL, Nonce: uibase.NonceOf(r.Context()), Root: h.root, S: st,
		Type: r.URL.Query().Get("logType"), Length: defaultLogBytes}
	part, err := h.readLog(r)
	if err != nil {
		p.Error = err.Error()
	} else {
		p.L, p.Back, p.Earlier = part, max(0, part.Start-defaultLogBytes), part.Start > 0
		p.Title = filepath.Base(part.Path) + " of " + st.URL
	}
	h.writePage(w, r, http.StatusOK, logTemplate, p)
}

// ProcessLogFiles finds the files that standard output and standard error of this process go to, as with Spark's start
// scripts. Types that go elsewhere are left out.
func ProcessLogFiles() map[string]string {
	out := map[string]string{}
	for kind, f := range map[string]*os.File{"stdout": os.Stdout, "stderr": os.Stderr} {
		info, err := f.Stat()
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		path, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(int(f.Fd())))
		if err != nil {
			continue
		}
		if now, err := os.Stat(path); err != nil || !os.SameFile(info, now) {
			continue // deleted, or rotated away
		}
		out[kind] = path
	}
	// Spark's "out" is the file that its start script sends both to.
	for _, kind := range []string{"stderr", "stdout"} {
		if out[kind] != "" && filepath.Ext(out[kind]) == ".out" {
			out["out"] = out[kind]
		}
	}
	return out
}
