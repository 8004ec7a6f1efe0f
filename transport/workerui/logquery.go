package workerui

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// logQuery is what a request asks for (worker/ui/LogPage.scala).
type logQuery struct {
	// names lead from the work directory to that of the log; nil with self, the worker's own log.
	names []string
	self  bool
	// logType is stderr or stdout, or out with self, unless it is wrong.
	logType string
	// offset is where the part begins; tail, when it is not given, means the last length bytes.
	offset int64
	tail   bool
	length int64
}

// errBadQuery is answered with 400; everything else that is wrong with a request is said in the text of a log, as Spark does.
type errBadQuery string

func (e errBadQuery) Error() string { return string(e) }

// sayError is an error whose text is for the caller.
type sayError string

func (e sayError) Error() string { return string(e) }

// parseLogQuery reads the parameters. Spark answers 500 where identifiers are missing; here that is the 400 that it answers
// for numbers that are none.
func parseLogQuery(q url.Values) (logQuery, error) {
	out := logQuery{logType: q.Get("logType"), tail: true, length: defaultLogBytes}
	app, executor, driver, self := q.Has("appId"), q.Has("executorId"), q.Has("driverId"), q.Has("self")
	switch {
	case app && executor && !driver && !self:
		out.names = []string{q.Get("appId"), q.Get("executorId")}
	case driver && !app && !executor && !self:
		out.names = []string{q.Get("driverId")}
	case self && !app && !executor && !driver:
		out.self = true
	default:
		return out, errBadQuery("Request must specify either application or driver identifiers")
	}
	if s := q.Get("offset"); s != "" {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			return out, errBadQuery("offset must be a whole number")
		}
		out.offset, out.tail = n, false
	}
	if s := q.Get("byteLength"); s != "" {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil || n < 0 {
			return out, errBadQuery("byteLength must be a whole number, 0 or more")
		}
		out.length = min(n, maxLogBytes)
	}
	return out, nil
}

// values are the parameters that name the log, for links.
func (q logQuery) values() url.Values {
	v := url.Values{"logType": {q.logType}}
	switch {
	case q.self:
		v.Set("self", "")
	case len(q.names) == 2:
		v.Set("appId", q.names[0])
		v.Set("executorId", q.names[1])
	default:
		v.Set("driverId", q.names[0])
	}
	return v
}

// types are the log types that there can be.
func (q logQuery) types() []string {
	if q.self {
		return []string{"stderr", "stdout", "out"}
	}
	return []string{"stderr", "stdout"}
}

// dir is the directory of the log as it is shown, with its final slash.
func (h *Handler) shownDir(q logQuery) string {
	if q.self {
		return ""
	}
	return printable(h.opts.WorkDir + "/" + strings.Join(q.names, "/") + "/")
}

// printable keeps what a caller wrote from forging lines.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return '?'
		}
		return r
	}, s)
}

// openLog finds the files of a log, which the caller must close, and its path as it is shown.
func (h *Handler) openLog(ctx context.Context, q logQuery) (*logFiles, string, error) {
	shown := h.shownDir(q)
	if !slices.Contains(q.types(), q.logType) {
		return nil, shown + printable(q.logType), sayError("Error: Log type must be one of " + strings.Join(q.types(), ", "))
	}
	if q.self {
		return h.openOwnLog(q.logType)
	}
	for _, name := range q.names {
		if !validName(name) {
			return nil, shown + q.logType, sayError("Error: invalid log directory " + shown)
		}
	}
	dir, err := openLogDir(h.opts.WorkDir, q.names)
	if errors.Is(err, errOutside) || errors.Is(err, fs.ErrNotExist) {
		return nil, shown + q.logType, sayError("Error: invalid log directory " + shown)
	}
	if err == nil {
		var l *logFiles
		if l, err = h.listLog(ctx, dir, shown, q.logType); err == nil {
			return l, shown + q.logType, nil
		}
	}
	return nil, shown + q.logType, h.said(err, shown)
}

// openOwnLog opens the file that the worker's own log goes to. Where that is comes from the operator, not from the request.
func (h *Handler) openOwnLog(logType string) (*logFiles, string, error) {
	path := ""
	if h.opts.LogFiles != nil {
		path = h.opts.LogFiles()[logType]
	}
	if path == "" {
		return nil, logType, sayError("Error: the " + logType + " of this worker is no file: it goes elsewhere (a terminal, a pipe, the journal of systemd)")
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, path, h.said(err, path)
	}
	dir, err := os.OpenRoot(filepath.Dir(real))
	if err != nil {
		return nil, path, h.said(err, path)
	}
	file, info, err := openActive(dir, filepath.Base(real))
	if err == nil && file == nil {
		err = errIrregular
	}
	if err != nil {
		_ = dir.Close() // it was only read
		return nil, path, h.said(err, path)
	}
	return &logFiles{dir: dir, live: file, files: []logFile{{name: info.Name(), info: info, size: info.Size()}}, size: info.Size()}, path, nil
}

// said turns a failure into what a caller may know of it, in Spark's words.
func (h *Handler) said(err error, shown string) error {
	why := "the log cannot be read, see the worker's log"
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		why = "the compressed files of this log take too long to be unpacked"
	case errors.Is(err, context.Canceled):
		why = "the request has ended"
	case errors.Is(err, errTooMany):
		why = "the directory of this log holds too many files"
	case isChanging(err), errors.Is(err, errIrregular):
		why = "the log is changing at this moment, try again"
	default:
		h.opts.Log.Warn("a log cannot be read", "log", shown, "error", err)
	}
	return sayError("Error getting logs due to exception: " + why)
}

// logPart is a part of a log, with the numbers of its bytes.
type logPart struct {
	Path             string
	Start, End, Size int64
	Data             []byte
	// Error says why there is nothing, "" when there is something.
	Error string
}

// readLog reads the part that a query asks for, and only that: at most maxLogBytes.
func (h *Handler) readLog(r *http.Request, q logQuery) logPart {
	ctx, cancel := context.WithTimeout(r.Context(), readTimeout)
	defer cancel()
	for attempt := 1; ; attempt++ {
		l, path, err := h.openLog(ctx, q)
		if err != nil {
			return logPart{Path: path, Error: err.Error()}
		}
		part, err := readPart(ctx, l, q)
		l.close()
		part.Path = path
		if err == nil {
			return part
		}
		if attempt == listAttempts || !isChanging(err) {
			return logPart{Path: path, Error: h.said(err, path).Error()}
		}
	}
}

func readPart(ctx context.Context, l *logFiles, q logQuery) (logPart, error) {
	start := q.offset
	if q.tail {
		start = l.size - q.length
	}
	start = min(max(0, start), l.size)
	reader := l.reader(ctx)
	defer reader.close()
	reader.pos = start
	data := make([]byte, min(q.length, l.size-start))
	n, err := io.ReadFull(reader, data)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = nil // a file that has become shorter since it was listed gives what there is
	}
	return logPart{Start: start, End: start + int64(n), Size: l.size, Data: data[:n]}, err
}
