package webui

import (
	"context"
	"encoding/json"
	"errors"
	"mime"
	"net/http"
	"strconv"

	"raftmaster/transport/internal/uibase"
)

// Source tells which node answered a list call, and how far its copy of the state is.
type Source struct {
	// Node is the address of the answering master, State its state.
	Node         string `json:"node"`
	State        string `json:"state"`
	Term         uint64 `json:"term"`
	AppliedIndex uint64 `json:"applied_index"`
}

// PeersAnswer is the body of /v1/peers.
type PeersAnswer struct {
	Source
	Quorum
}

// WorkersAnswer is the body of /v1/workers.
type WorkersAnswer struct {
	Source
	Workers []Worker `json:"workers"`
}

// AppsAnswer is the body of /v1/apps.
type AppsAnswer struct {
	Source
	Apps []App `json:"apps"`
}

// ExecutorsAnswer is the body of /v1/executors and /v1/executors?app=ID.
type ExecutorsAnswer struct {
	Source
	Executors []Executor `json:"executors"`
}

// EventsAnswer is the body of /v1/events without ?follow.
type EventsAnswer struct {
	Node   string  `json:"node"`
	Events []Event `json:"events"`
}

func (h *Handler) source() (Source, Status) {
	st := h.opts.State.Brief()
	return Source{Node: st.Address, State: st.State, Term: st.Term, AppliedIndex: st.AppliedIndex}, st
}

// serveHealthz says that the process is up and answers.
func (h *Handler) serveHealthz(w http.ResponseWriter, r *http.Request) {
	uibase.WriteBody(w, r, http.StatusOK, "text/plain;charset=utf-8", []byte("ok\n"))
}

func (h *Handler) serveReadyz(w http.ResponseWriter, r *http.Request) {
	health := HealthOf(h.opts.State.Brief())
	h.writeJSON(w, r, statusOf(health.Ready), health)
}

func (h *Handler) serveLeader(w http.ResponseWriter, r *http.Request) {
	answer := LeaderOf(h.opts.State.Brief())
	h.writeJSON(w, r, statusOf(answer.IsLeader), answer)
}

func statusOf(good bool) int {
	if good {
		return http.StatusOK
	}
	return http.StatusServiceUnavailable
}

func (h *Handler) serveStatus(w http.ResponseWriter, r *http.Request) {
	st := h.opts.State.Status()
	st.Alarms, st.Notes, st.Quorum.Peers = notNil(st.Alarms), notNil(st.Notes), notNil(st.Quorum.Peers)
	st.LeaderChanges = notNil(st.LeaderChanges)
	h.writeJSON(w, r, http.StatusOK, st)
}

func (h *Handler) serveAPILeader(w http.ResponseWriter, r *http.Request) {
	h.writeJSON(w, r, http.StatusOK, LeaderOf(h.opts.State.Brief()))
}

// serveHealth is /readyz for programs that want the verdict in the body and 200 for "I could judge".
func (h *Handler) serveHealth(w http.ResponseWriter, r *http.Request) {
	h.writeJSON(w, r, http.StatusOK, HealthOf(h.opts.State.Brief()))
}

func (h *Handler) servePeers(w http.ResponseWriter, r *http.Request) {
	src, st := h.source()
	st.Quorum.Peers = notNil(st.Quorum.Peers)
	h.writeJSON(w, r, http.StatusOK, PeersAnswer{Source: src, Quorum: st.Quorum})
}

func (h *Handler) serveWorkers(w http.ResponseWriter, r *http.Request) {
	src, _ := h.source()
	writeList(h, w, r, src, "workers", h.opts.State.Cluster().Workers)
}

func (h *Handler) serveApps(w http.ResponseWriter, r *http.Request) {
	src, _ := h.source()
	apps := h.opts.State.Cluster().Apps
	h.explain(apps, nil)
	writeList(h, w, r, src, "apps", apps)
}

func (h *Handler) serveExecutors(w http.ResponseWriter, r *http.Request) {
	src, _ := h.source()
	writeList(h, w, r, src, "executors", h.opts.State.Executors(r.URL.Query().Get("app")))
}

func (h *Handler) serveDrivers(w http.ResponseWriter, r *http.Request) {
	src, _ := h.source()
	drivers := h.opts.State.Cluster().Drivers
	h.explain(nil, drivers)
	writeList(h, w, r, src, "drivers", drivers)
}

// serveOne answers a question about the thing that the query names: find gives what there is to say of it.
func serveOne[T any](h *Handler, w http.ResponseWriter, r *http.Request, what string, find func(d Details, id string) (T, bool)) {
	id := r.URL.Query().Get("id")
	if id == "" {
		h.writeError(w, r, http.StatusBadRequest, &Error{Code: CodeBadRequest, Message: "name the " + what + ": ?id=ID"})
		return
	}
	if h.opts.Details != nil {
		if v, ok := find(h.opts.Details, id); ok {
			h.writeJSON(w, r, http.StatusOK, v)
			return
		}
	}
	h.writeError(w, r, http.StatusNotFound, &Error{Code: CodeNotFound, Message: "no " + what + " has the id " + strconv.Quote(id) +
		"; it may have been dropped from the completed ones"})
}

func (h *Handler) serveApp(w http.ResponseWriter, r *http.Request) {
	serveOne(h, w, r, "application", func(d Details, id string) (AppAnswer, bool) {
		src, _ := h.source()
		app, ok := d.App(id)
		return AppAnswer{Source: src, AppDetail: app}, ok
	})
}

func (h *Handler) serveDriver(w http.ResponseWriter, r *http.Request) {
	serveOne(h, w, r, "driver", func(d Details, id string) (DriverAnswer, bool) {
		src, _ := h.source()
		driver, ok := d.Driver(id)
		return DriverAnswer{Source: src, Driver: driver}, ok
	})
}

func (h *Handler) serveWhy(w http.ResponseWriter, r *http.Request) {
	serveOne(h, w, r, "application or driver", func(d Details, id string) (WhyAnswer, bool) {
		src, _ := h.source()
		why, ok := d.WhyWaiting(id)
		return WhyAnswer{Source: src, WhyWaiting: why}, ok
	})
}

func (h *Handler) serveIncompatible(w http.ResponseWriter, r *http.Request) {
	src, _ := h.source()
	var pairs []IncompatiblePair
	if h.opts.Details != nil {
		pairs = h.opts.Details.Incompatible()
	}
	writeList(h, w, r, src, "pairs", pairs)
}

// notFromForeignPage refuses calls that a web page makes through the browser of somebody who may use this API: the
// pages of this master contain no such call, and a browser always names its origin on a POST.
func (h *Handler) notFromForeignPage(w http.ResponseWriter, r *http.Request) bool {
	site := r.Header.Get("Sec-Fetch-Site")
	if r.Header.Get("Origin") != "" || (site != "" && site != "none") {
		h.writeError(w, r, http.StatusForbidden, &Error{Code: CodeUnauthorized, Message: "calls from web pages are refused"})
		return false
	}
	mediaType, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || mediaType != "application/json" {
		h.writeError(w, r, http.StatusUnsupportedMediaType, &Error{Code: CodeBadRequest, Message: "the body must be application/json"})
		return false
	}
	return true
}

// writeJSON sends v as indented JSON with a final newline. What may be long goes through writeList.
func (h *Handler) writeJSON(w http.ResponseWriter, r *http.Request, status int, v any) {
	body, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		h.opts.Log.Error("cannot encode an answer", "path", r.URL.Path, "error", err)
		http.Error(w, "internal error", http.StatusInternalServerError)
		return
	}
	uibase.WriteBody(w, r, status, "application/json;charset=utf-8", append(body, '\n'))
}

// writeError answers with an *Error; status 0 takes the usual status of its code.
func (h *Handler) writeError(w http.ResponseWriter, r *http.Request, status int, err error) {
	var e *Error
	switch {
	case errors.As(err, &e):
	case errors.Is(err, context.DeadlineExceeded):
		e = &Error{Code: CodeTimeout, Message: err.Error()}
	default:
		e = &Error{Code: CodeInternal, Message: err.Error()}
	}
	if status == 0 {
		status = codeStatus(e.Code)
	}
	h.writeJSON(w, r, status, e)
}

func codeStatus(code string) int {
	switch code {
	case CodeBadRequest:
		return http.StatusBadRequest
	case CodeUnauthorized:
		return http.StatusForbidden
	case CodeNotFound:
		return http.StatusNotFound
	case CodeNotLeader, CodeRefused:
		return http.StatusConflict
	case CodeNoLeader, CodeBusy:
		return http.StatusServiceUnavailable
	case CodeTimeout:
		return http.StatusGatewayTimeout
	}
	return http.StatusInternalServerError
}

// intParam reads a non-negative number from the query; absent gives fallback.
func intParam(r *http.Request, name string, fallback uint64) (uint64, error) {
	s := r.URL.Query().Get(name)
	if s == "" {
		return fallback, nil
	}
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return 0, &Error{Code: CodeBadRequest, Message: name + " must be a whole number, not " + strconv.Quote(s)}
	}
	return n, nil
}
