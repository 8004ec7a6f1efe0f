package webui

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"

	"raftmaster/transport/internal/uibase"
)

// DebugPart is one part of what a master tells about itself for the search for a fault. Texts are without secrets before
// they get here.
type DebugPart struct {
	// Name is the last part of the path: GET /v1/debug/NAME.
	Name string
	// ContentType is that of the answer.
	ContentType string
	// Write makes the part. What it writes beyond the limit gets ErrDebugFull, upon which it should end.
	Write func(ctx context.Context, w io.Writer) error
}

// ErrDebugFull is what the writer of a DebugPart gets once the part is as long as it may be.
var ErrDebugFull = errors.New("the part is as long as it may be")

// MaxDebugBytes bounds one part.
const MaxDebugBytes = 8 << 20

// DebugTruncated is the header of an answer of /v1/debug/NAME of which the end is missing.
const DebugTruncated = "Raftmaster-Truncated"

// DebugPartsAnswer is the body of /v1/debug.
type DebugPartsAnswer struct {
	Node  string          `json:"node"`
	Parts []DebugPartName `json:"parts"`
}

// DebugPartName names a part that can be asked for.
type DebugPartName struct {
	Name        string `json:"name"`
	ContentType string `json:"content_type"`
}

// debugRoutes serves the parts to callers who may change something: profiles cost time, and configuration and log are
// none of a reader's business. One part is made at a time.
func (h *Handler) debugRoutes() {
	if h.opts.Debug == nil {
		return
	}
	h.mux.HandleFunc("/v1/debug", h.get(h.forOperators(h.serveDebugParts)))
	h.mux.HandleFunc("/v1/debug/{name}", h.get(h.forOperators(h.serveDebug)))
}

// forOperators lets callers through who may change something, and no web pages.
func (h *Handler) forOperators(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		site := r.Header.Get("Sec-Fetch-Site")
		if r.Header.Get("Origin") != "" || (site != "" && site != "none") {
			h.writeError(w, r, http.StatusForbidden, &Error{Code: CodeUnauthorized, Message: "calls from web pages are refused"})
			return
		}
		if h.authorize(w, r) {
			next(w, r)
		}
	}
}

func (h *Handler) serveDebugParts(w http.ResponseWriter, r *http.Request) {
	out := DebugPartsAnswer{Node: h.opts.State.Brief().Address, Parts: []DebugPartName{}}
	for _, p := range h.opts.Debug {
		out.Parts = append(out.Parts, DebugPartName{Name: p.Name, ContentType: p.ContentType})
	}
	h.writeJSON(w, r, http.StatusOK, out)
}

func (h *Handler) serveDebug(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	for _, p := range h.opts.Debug {
		if p.Name == name {
			h.serveDebugPart(w, r, p)
			return
		}
	}
	h.writeError(w, r, http.StatusNotFound, &Error{Code: CodeNotFound, Message: "there is no part " + strconv.Quote(name) + " to debug with; GET /v1/debug names them"})
}

func (h *Handler) serveDebugPart(w http.ResponseWriter, r *http.Request, p DebugPart) {
	select {
	case h.debugging <- struct{}{}:
		defer func() { <-h.debugging }()
	default:
		w.Header().Set("Retry-After", "1")
		h.writeError(w, r, 0, &Error{Code: CodeBusy, Message: "another part is being made: ask again in a moment"})
		return
	}
	h.opts.Log.Info("a part for debugging was asked for", "part", p.Name, "caller", r.RemoteAddr, "actor", actor(r))
	var out boundedBuffer
	if err := p.Write(r.Context(), &out); err != nil && !errors.Is(err, ErrDebugFull) {
		h.writeError(w, r, 0, err)
		return
	}
	if out.full {
		w.Header().Set(DebugTruncated, "true")
	}
	uibase.WriteBody(w, r, http.StatusOK, p.ContentType, out.b)
}

// boundedBuffer keeps the first MaxDebugBytes.
type boundedBuffer struct {
	b    []byte
	full bool
}

func (b *boundedBuffer) Write(p []byte) (int, error) {
	room := MaxDebugBytes - len(b.b)
	if len(p) > room {
		b.b, b.full = append(b.b, p[:room]...), true
		return room, ErrDebugFull
	}
	b.b = append(b.b, p...)
	return len(p), nil
}
