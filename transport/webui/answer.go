package webui

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Limits of the answers that list things. Their size is the cluster's, and their reader sets the pace.
const (
	// maxLists bounds the lists that are rendered, or wait for their reader, at once; each holds a copy of a table.
	maxLists = 16
	// maxListsPerIP bounds those of one address: a caller, or a proxy, who reads slowly leaves places for the others.
	maxListsPerIP = 4
	// listWait is how long a further one waits for its turn.
	listWait = time.Second
	// chunkBytes is how much of an answer is kept before it goes out.
	chunkBytes = 32 << 10
	// chunkTimeout is the time of a reader for one chunk, answerTimeout for a whole answer.
	chunkTimeout  = 8 * time.Second
	answerTimeout = time.Minute
)

// list lets few renderings run at once; the others wait for a moment and are then asked to come again.
func (h *Handler) list(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ip := callerIP(r)
		if !h.lists.take(r.Context(), ip, h.listWait) {
			h.busyLists.Inc()
			w.Header().Set("Retry-After", "1")
			h.writeError(w, r, http.StatusServiceUnavailable, &Error{Code: CodeBusy, Message: "too many lists are being sent: ask again in a moment"})
			return
		}
		defer h.lists.give(ip)
		next(w, r)
	}
}

// pacedWriter sends in chunks, each under a deadline of its own: who reads slowly may go on, who does not read is cut off.
type pacedWriter struct {
	w     io.Writer
	rc    *http.ResponseController
	until time.Time
}

func newPacedWriter(w http.ResponseWriter) *pacedWriter {
	return &pacedWriter{w: w, rc: http.NewResponseController(w), until: time.Now().Add(answerTimeout)}
}

// Write implements io.Writer. After an error the connection is of no use, which net/http sees for itself.
func (p *pacedWriter) Write(b []byte) (int, error) {
	sent := 0
	for sent < len(b) {
		deadline := time.Now().Add(chunkTimeout)
		if deadline.After(p.until) {
			deadline = p.until
		}
		// A recorder of a test has no deadline.
		if err := p.rc.SetWriteDeadline(deadline); err != nil && !errors.Is(err, http.ErrNotSupported) {
			return sent, err
		}
		n, err := p.w.Write(b[sent:min(len(b), sent+chunkBytes)])
		sent += n
		if err != nil {
			return sent, err
		}
	}
	return sent, nil
}

// errNoBody ends the rendering of an answer to HEAD once its head is known.
var errNoBody = errors.New("no body is wanted")

// answer is a body under construction: what fits one chunk goes out with its length, more as a stream.
type answer struct {
	w           http.ResponseWriter
	r           *http.Request
	contentType string
	buf         []byte
	// out is nil until the head has gone out.
	out io.Writer
	zw  *gzip.Writer
}

// Write implements io.Writer. Errors are those of a caller that is gone, and errNoBody.
func (a *answer) Write(b []byte) (int, error) {
	a.buf = append(a.buf, b...)
	if len(a.buf) < chunkBytes {
		return len(b), nil
	}
	return len(b), a.flush()
}

func (a *answer) flush() error {
	if a.out == nil {
		head := a.w.Header()
		head.Set("Content-Type", a.contentType)
		head.Add("Vary", "Accept-Encoding")
		paced := newPacedWriter(a.w)
		a.out = paced
		if acceptsGzip(a.r) {
			head.Set("Content-Encoding", "gzip")
			a.zw = gzip.NewWriter(paced)
			a.out = a.zw
		}
		a.w.WriteHeader(http.StatusOK)
	}
	if a.r.Method == http.MethodHead {
		return errNoBody
	}
	_, err := a.out.Write(a.buf)
	a.buf = a.buf[:0]
	return err
}

// close sends what is left.
func (a *answer) close() error {
	if a.out == nil {
		writeBody(a.w, a.r, http.StatusOK, a.contentType, a.buf)
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

// errEncode marks a failure to encode, as against one to send.
var errEncode = errors.New("cannot encode an answer")

// finish judges how an answer ended. One that breaks off after its head must not look complete: its connection ends.
func (h *Handler) finish(a *answer, err error) {
	switch {
	case err == nil, errors.Is(err, errNoBody):
		return
	case !errors.Is(err, errEncode):
		h.opts.Log.Debug("a caller did not read its answer", "path", a.r.URL.Path, "caller", a.r.RemoteAddr, "error", err)
	default:
		h.opts.Log.Error("cannot encode an answer", "path", a.r.URL.Path, "error", err)
		if a.out == nil {
			http.Error(a.w, "internal error", http.StatusInternalServerError)
			return
		}
	}
	panic(http.ErrAbortHandler)
}

// writeList sends head with one more field, name, that holds the list: byte for byte what writeJSON makes of both in one
// struct, without ever holding all of it.
func writeList[T any](h *Handler, w http.ResponseWriter, r *http.Request, head any, name string, list []T) {
	a := &answer{w: w, r: r, contentType: "application/json;charset=utf-8"}
	h.finish(a, encodeList(a, head, name, list))
}

func encodeList[T any](a *answer, head any, name string, list []T) error {
	top, err := json.MarshalIndent(head, "", "  ")
	if err != nil {
		return errors.Join(errEncode, err)
	}
	open := strings.TrimSuffix(string(top), "\n}") + ",\n  " + strconv.Quote(name) + ": ["
	if _, err := a.Write([]byte(open)); err != nil {
		return err
	}
	separator, end := "\n    ", "]\n}\n"
	for i := range list {
		element, err := json.MarshalIndent(&list[i], "    ", "  ")
		if err != nil {
			return errors.Join(errEncode, err)
		}
		if _, err := a.Write(append([]byte(separator), element...)); err != nil {
			return err
		}
		separator, end = ",\n    ", "\n  ]\n}\n"
	}
	if _, err := a.Write([]byte(end)); err != nil {
		return err
	}
	return a.close()
}
