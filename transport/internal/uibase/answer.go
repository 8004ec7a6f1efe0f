package uibase

import (
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
)

// Limits of one answer.
const (
	// ChunkBytes is how much of an answer is kept before it goes out.
	ChunkBytes = 32 << 10
	// ChunkTimeout is the time of a reader for one chunk, AnswerTimeout for a whole answer.
	ChunkTimeout  = 8 * time.Second
	AnswerTimeout = time.Minute
)

// PacedWriter sends in chunks, each under a deadline of its own: who reads slowly may go on, who does not read is cut off.
type PacedWriter struct {
	w     io.Writer
	rc    *http.ResponseController
	until time.Time
}

// NewPacedWriter gives the whole answer the given time.
func NewPacedWriter(w http.ResponseWriter, whole time.Duration) *PacedWriter {
	return &PacedWriter{w: w, rc: http.NewResponseController(w), until: time.Now().Add(whole)}
}

// Write implements io.Writer. After an error the connection is of no use, which net/http sees for itself.
func (p *PacedWriter) Write(b []byte) (int, error) {
	sent := 0
	for sent < len(b) {
		deadline := time.Now().Add(ChunkTimeout)
		if deadline.After(p.until) {
			deadline = p.until
		}
		// A recorder of a test has no deadline.
		if err := p.rc.SetWriteDeadline(deadline); err != nil && !errors.Is(err, http.ErrNotSupported) {
			return sent, err
		}
		n, err := p.w.Write(b[sent:min(len(b), sent+ChunkBytes)])
		sent += n
		if err != nil {
			return sent, err
		}
	}
	return sent, nil
}

// ErrNoBody ends the rendering of an answer to HEAD once its head is known.
var ErrNoBody = errors.New("no body is wanted")

// Answer is a body under construction: what fits one chunk goes out with its length, more as a stream.
type Answer struct {
	W           http.ResponseWriter
	R           *http.Request
	ContentType string

	buf []byte
	// out is nil until the head has gone out.
	out io.Writer
	zw  *gzip.Writer
}

// Write implements io.Writer. Errors are those of a caller that is gone, and ErrNoBody.
func (a *Answer) Write(b []byte) (int, error) {
	a.buf = append(a.buf, b...)
	if len(a.buf) < ChunkBytes {
		return len(b), nil
	}
	return len(b), a.flush()
}

func (a *Answer) flush() error {
	if a.out == nil {
		head := a.W.Header()
		head.Set("Content-Type", a.ContentType)
		head.Add("Vary", "Accept-Encoding")
		paced := NewPacedWriter(a.W, AnswerTimeout)
		a.out = paced
		if acceptsGzip(a.R) {
			head.Set("Content-Encoding", "gzip")
			a.zw = gzip.NewWriter(paced)
			a.out = a.zw
		}
		a.W.WriteHeader(http.StatusOK)
	}
	if a.R.Method == http.MethodHead {
		return ErrNoBody
	}
	_, err := a.out.Write(a.buf)
	a.buf = a.buf[:0]
	return err
}

// Close sends what is left.
func (a *Answer) Close() error {
	if a.out == nil {
		WriteBody(a.W, a.R, http.StatusOK, a.ContentType, a.buf)
		return nil
	}
	if err := a.flush(); err != nil {
		return err
	}
	if a.zw != nil {
		return a.zw.Close()
	}
	return nil
}

// ErrEncode marks a failure to encode, as against one to send.
var ErrEncode = errors.New("cannot encode an answer")

// Finish judges how an answer ended. One that breaks off after its head must not look complete: its connection ends.
func (a *Answer) Finish(log hclog.Logger, err error) {
	switch {
	case err == nil, errors.Is(err, ErrNoBody):
		return
	case !errors.Is(err, ErrEncode):
		log.Debug("a caller did not read its answer", "path", a.R.URL.Path, "caller", a.R.RemoteAddr, "error", err)
	default:
		log.Error("cannot encode an answer", "path", a.R.URL.Path, "error", err)
		if a.out == nil {
			http.Error(a.W, "internal error", http.StatusInternalServerError)
			return
		}
	}
	panic(http.ErrAbortHandler)
}

// GzipFrom is the size above which compressing an answer is worth it.
const GzipFrom = 1400

// WriteBody sends a whole body with its length, compressed when the caller accepts that and it is worth it.
func WriteBody(w http.ResponseWriter, r *http.Request, status int, contentType string, body []byte) {
	head := w.Header()
	head.Set("Content-Type", contentType)
	head.Add("Vary", "Accept-Encoding")
	if len(body) >= GzipFrom && acceptsGzip(r) {
		head.Set("Content-Encoding", "gzip")
		w.WriteHeader(status)
		if r.Method == http.MethodHead {
			return
		}
		zw := gzip.NewWriter(NewPacedWriter(w, AnswerTimeout))
		if _, err := zw.Write(body); err == nil {
			closeGzip(zw)
		}
		return
	}
	head.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		writeRest(NewPacedWriter(w, AnswerTimeout), body)
	}
}

func acceptsGzip(r *http.Request) bool {
	for _, part := range strings.Split(r.Header.Get("Accept-Encoding"), ",") {
		name, params, _ := strings.Cut(strings.TrimSpace(part), ";")
		if strings.EqualFold(strings.TrimSpace(name), "gzip") {
			q := strings.ReplaceAll(params, " ", "")
			return q != "q=0" && q != "q=0.0"
		}
	}
	return false
}

// A failed write to an HTTP caller means that the caller is gone; there is nobody left to tell.

func writeRest(w io.Writer, body []byte) { _, _ = w.Write(body) }

func closeGzip(zw *gzip.Writer) { _ = zw.Close() }
