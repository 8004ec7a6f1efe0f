package workerui

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	_ "embed"

	"raftmaster/transport/internal/uibase"
)

//go:embed assets/log.html
var logHTML string

var logTemplate = uibase.ParsePage("log", logHTML)

const plainText = "text/plain;charset=utf-8"

// serveLog is /log/: the part as it is in the file, below a line that says which part it is. Bytes that are no UTF-8 are
// left as they are, so that parts put together give the file; the type and "nosniff" keep them text.
func (h *Handler) serveLog(w http.ResponseWriter, r *http.Request) {
	q, err := parseLogQuery(r.URL.Query())
	if err != nil {
		h.refuse(w, r, err)
		return
	}
	part := h.readLog(r, q)
	head := fmt.Sprintf("==== Bytes %d-%d of %d of %s ====\n", part.Start, part.End, part.Size, part.Path)
	uibase.WriteBody(w, r, http.StatusOK, plainText, append([]byte(head+part.Error), part.Data...))
}

// logPage is /logPage/.
type logPage struct {
	Title, Nonce string
	// Up leads from this page to the others.
	Up string
	V  View
	L  logPart
	// Text is what is shown of the part.
	Text string
	// Query names the log; Types are the links to the logs beside it.
	Query string
	Types []logLink
	// Length is that of a part. Newest, More, New and Download lead to the last part, the one before, the one after and the
	// whole; More is "" at the beginning.
	Length                      int64
	Newest, More, New, Download string
}

// logLink is a link to a log of another type.
type logLink struct {
	Type, URL string
	Self      bool
}

func (h *Handler) serveLogPage(w http.ResponseWriter, r *http.Request) {
	q, err := parseLogQuery(r.URL.Query())
	if err != nil {
		h.refuse(w, r, err)
		return
	}
	part := h.readLog(r, q)
	query, length := q.values().Encode(), cmp.Or(q.length, defaultLogBytes)
	p := logPage{Title: title(q), Nonce: uibase.NonceOf(r.Context()), Up: "../", V: h.backend.View(), L: part,
		Text: showText(part.Data), Query: query, Length: length, Newest: "?" + query, Download: "../download/?" + query,
		New: partURL(query, part.End, length)}
	if part.Start > 0 {
		back := max(0, part.Start-length)
		p.More = partURL(query, back, part.Start-back)
	}
	for _, t := range q.types() {
		beside := q
		beside.logType = t
		p.Types = append(p.Types, logLink{Type: t, URL: "?" + beside.values().Encode(), Self: t == q.logType})
	}
	h.writePage(w, r, http.StatusOK, logTemplate, p)
}

// partURL leads from a log page to another part of the same log.
func partURL(query string, offset, length int64) string {
	return fmt.Sprintf("?%s&offset=%d&byteLength=%d", query, offset, length)
}

func title(q logQuery) string {
	logType := printable(q.logType)
	switch {
	case q.self:
		return logType + " of this worker"
	case len(q.names) == 2:
		return logType + " of executor " + printable(q.names[0]) + "/" + printable(q.names[1])
	}
	return logType + " of " + printable(q.names[0])
}

// showText makes a log printable: what is no UTF-8 is U+FFFD, and a control character that does something to a terminal or
// to a page is its picture (U+2400 and on). html/template escapes the rest.
func showText(data []byte) string {
	var b strings.Builder
	b.Grow(len(data))
	for len(data) > 0 {
		c, size := utf8.DecodeRune(data)
		data = data[size:]
		switch {
		case c == '\r' && len(data) > 0 && data[0] == '\n':
		case c == '\n' || c == '\t':
			b.WriteRune(c)
		case c < 0x20:
			b.WriteRune(0x2400 + c)
		case c == 0x7f:
			b.WriteRune(0x2421)
		default:
			b.WriteRune(c)
		}
	}
	return b.String()
}

// serveDownload is /download/: the whole log as one file, which is streamed. A Range takes a part of it. Spark has no such
// page.
func (h *Handler) serveDownload(w http.ResponseWriter, r *http.Request) {
	q, err := parseLogQuery(r.URL.Query())
	if err != nil {
		h.refuse(w, r, err)
		return
	}
	ip := uibase.CallerIP(r)
	if !h.downloads.Take(r.Context(), ip, answerWait) {
		h.busy(w, r)
		return
	}
	defer h.downloads.Give(ip)
	listing, listed := context.WithTimeout(r.Context(), readTimeout)
	l, _, err := h.openLog(listing, q)
	listed()
	if err != nil {
		h.message(w, r, http.StatusNotFound, "No log", err.Error())
		return
	}
	defer l.close()
	reader := l.reader(r.Context())
	defer reader.close()
	head := w.Header()
	head.Set("Content-Type", plainText)
	head.Set("Content-Disposition", `attachment; filename="`+downloadName(q)+`"`)
	if strings.Count(r.Header.Get("Range"), ",") >= maxRanges {
		r.Header.Del("Range") // the whole is a right answer to any
	}
	http.ServeContent(&pacedResponse{ResponseWriter: w, paced: uibase.NewPacedWriter(w, downloadTimeout)}, r, "", time.Time{}, reader)
}

// downloadName is a file name that needs no quoting anywhere.
func downloadName(q logQuery) string {
	name := "worker"
	if !q.self {
		name = strings.Join(q.names, "-")
	}
	return strings.Map(func(r rune) rune {
		if r < 0x80 && (r == '-' || r == '.' || r == '_' || r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z') {
			return r
		}
		return '_'
	}, name+"-"+q.logType) + ".txt"
}

// pacedResponse sends the body in chunks, each under a deadline of its own.
type pacedResponse struct {
	http.ResponseWriter
	paced *uibase.PacedWriter
}

// Write implements io.Writer.
func (p *pacedResponse) Write(b []byte) (int, error) { return p.paced.Write(b) }

// refuse answers a request that cannot be understood.
func (h *Handler) refuse(w http.ResponseWriter, r *http.Request, err error) {
	status := http.StatusInternalServerError
	var bad errBadQuery
	if errors.As(err, &bad) {
		status = http.StatusBadRequest
	}
	h.message(w, r, status, "Which log?", err.Error()+".")
}

// logURL is a page about a log of an executor (id is its number) or, without an application, of a driver.
func logURL(page, app, id, logType string) string {
	q := logQuery{names: []string{app, id}, logType: logType}
	if app == "" {
		q.names = []string{id}
	}
	return (&url.URL{Path: page, RawQuery: q.values().Encode()}).String()
}
