package rest

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
)

const (
	defaultBodyBytes = 4 << 20
	// maxBodiesTogether bounds the request bodies that are held at one time: one of ordinary size for each connection that the
	// port takes. A body of nothing but very short texts takes twenty times its size while it is decoded.
	maxBodiesTogether = 16 << 20
	// firstBodyBytes is the buffer that a body starts with; nearly every submission fits in.
	firstBodyBytes = 16 << 10
)

// budget counts bytes that may still be held.
type budget struct {
	mu   sync.Mutex
	left int64
}

func (b *budget) take(n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if n > b.left {
		return false
	}
	b.left -= n
	return true
}

func (b *budget) give(n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left += n
}

// readBody reads the body within the limits, or says why not. The capacity of what it returns is taken from h.bodies, and
// the caller gives it back. The buffer grows with what has really arrived, whatever length was announced.
func (h *Handler) readBody(r *http.Request) ([]byte, *reply) {
	tooLarge := func() *reply {
		out := h.failure(http.StatusRequestEntityTooLarge,
			fmt.Sprintf("The request is larger than %d bytes (spark.master.rest.maxRequestBodySize).", h.opts.MaxBodyBytes))
		return &out
	}
	if r.ContentLength > h.opts.MaxBodyBytes {
		return nil, tooLarge()
	}
	var body []byte
	for want := min(int64(firstBodyBytes), h.opts.MaxBodyBytes+1); ; want = min(2*want, h.opts.MaxBodyBytes+1) {
		if !h.bodies.take(want) {
			h.bodies.give(int64(cap(body)))
			out := h.failure(http.StatusServiceUnavailable, "Too many submissions are being received. Please submit again.")
			return nil, &out
		}
		grown := make([]byte, len(body), want)
		copy(grown, body)
		h.bodies.give(int64(cap(body)))
		body = grown
		var err error
		for len(body) < cap(body) && err == nil {
			var n int
			n, err = r.Body.Read(body[len(body):cap(body)])
			body = body[:len(body)+n]
		}
		switch {
		case int64(len(body)) > h.opts.MaxBodyBytes:
			h.bodies.give(int64(cap(body)))
			return nil, tooLarge()
		case errors.Is(err, io.EOF):
			return body, nil
		case err != nil:
			h.bodies.give(int64(cap(body)))
			out := h.failure(http.StatusBadRequest, "Malformed request: the body ended early.")
			return nil, &out
		}
	}
}
