package webui

import (
	"context"
	"encoding/json"
	"net/http"
	"time"
)

// EventsBoot is the header of an answer of /v1/events with the boot id of the process whose events they are.
const EventsBoot = "Raftmaster-Boot-Id"

// serveEvents is /v1/events?after=SEQ&limit=N: events with a higher number, oldest first. With ?follow the answer is a
// stream of one JSON object per line that goes on as events happen; a blank line now and then keeps it alive. With
// &boot=BOOT_ID the number counts only if it is one of this process: the events of another one are numbered from 1 again.
func (h *Handler) serveEvents(w http.ResponseWriter, r *http.Request) {
	after, err := intParam(r, "after", 0)
	if err != nil {
		h.writeError(w, r, 0, err)
		return
	}
	limit, err := intParam(r, "limit", maxEventsPerAnswer)
	if err != nil {
		h.writeError(w, r, 0, err)
		return
	}
	limit = min(limit, maxEventsPerAnswer)
	bootID := h.opts.State.Brief().BootID
	if of := r.URL.Query().Get("boot"); of != "" && of != bootID {
		after = 0
	}
	w.Header().Set(EventsBoot, bootID)
	if q := r.URL.Query(); q.Has("follow") && q.Get("follow") != "false" && q.Get("follow") != "0" {
		h.followEvents(w, r, after)
		return
	}
	h.list(func(w http.ResponseWriter, r *http.Request) {
		events, _ := h.opts.Events.Since(after, int(limit))
		head := struct {
			Node string `json:"node"`
		}{h.opts.State.Brief().Address}
		writeList(h, w, r, head, "events", events)
	})(w, r)
}

func (h *Handler) followEvents(w http.ResponseWriter, r *http.Request, after uint64) {
	select {
	case h.followers <- struct{}{}:
		defer func() { <-h.followers }()
	default:
		h.writeError(w, r, http.StatusServiceUnavailable, &Error{Code: CodeRefused, Message: "too many event streams are open"})
		return
	}
	w.Header().Set("Content-Type", "application/x-ndjson;charset=utf-8")
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), followMaximum)
	defer cancel()
	out := &lineStream{rc: http.NewResponseController(w), enc: json.NewEncoder(w), w: w}
	keepAlive := time.NewTicker(followKeepAlive)
	defer keepAlive.Stop()
	for {
		events, more := h.opts.Events.Since(after, maxEventsPerAnswer)
		if !out.send(events) {
			return
		}
		if len(events) > 0 {
			after = events[len(events)-1].Seq
			continue
		}
		select {
		case <-ctx.Done():
			return
		case <-more:
		case <-keepAlive.C:
			if !out.blank() {
				return
			}
		}
	}
}

// lineStream writes lines under a deadline of their own, because the stream outlives the server's write time-out.
type lineStream struct {
	rc  *http.ResponseController
	enc *json.Encoder
	w   http.ResponseWriter
}

// send writes the events and flushes; false means that the reader is gone.
func (s *lineStream) send(events []Event) bool {
	if s.rc.SetWriteDeadline(time.Now().Add(followWriteTimeout)) != nil {
		return false
	}
	for i := range events {
		if s.enc.Encode(&events[i]) != nil {
			return false
		}
	}
	return s.rc.Flush() == nil
}

func (s *lineStream) blank() bool {
	if s.rc.SetWriteDeadline(time.Now().Add(followWriteTimeout)) != nil {
		return false
	}
	if _, err := s.w.Write([]byte("\n")); err != nil {
		return false
	}
	return s.rc.Flush() == nil
}
