package webui

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"

	"raftmaster/transport/internal/uibase"
)

// AddPeerRequest is the body of POST /v1/peers/add.
type AddPeerRequest struct {
	// NodeID is the generated identity of the new master, Address its host:port on the cluster port.
	NodeID  string `json:"node_id"`
	Address string `json:"address"`
	// Voter: it gets a vote as soon as it holds the log; until then, and without this, it only receives the log.
	Voter bool `json:"voter"`
	// WaitMillis bounds how long the leader waits for that, up to MaxPeerWait; 0 takes DefaultPeerWait.
	WaitMillis int64 `json:"wait_millis"`
	// DryRun checks everything and changes nothing.
	DryRun bool `json:"dry_run"`
}

// RemovePeerRequest is the body of POST /v1/peers/remove.
type RemovePeerRequest struct {
	// Peer is the node id, or the address, of a member.
	Peer string `json:"peer"`
	// Force removes it although the cluster stops serving then, or although it is the leader.
	Force  bool `json:"force"`
	DryRun bool `json:"dry_run"`
}

// PromotePeerRequest is the body of POST /v1/peers/promote.
type PromotePeerRequest struct {
	// Peer is the node id, or the address, of a member without a vote.
	Peer   string `json:"peer"`
	DryRun bool   `json:"dry_run"`
}

// How long the leader waits for a new voter to catch up.
const (
	DefaultPeerWait = time.Minute
	MaxPeerWait     = 10 * time.Minute
)

// Wait is WaitMillis within its bounds.
func (r AddPeerRequest) Wait() time.Duration {
	if r.WaitMillis <= 0 {
		return DefaultPeerWait
	}
	return min(time.Duration(min(r.WaitMillis, MaxPeerWait.Milliseconds()))*time.Millisecond, MaxPeerWait)
}

// PeerChange is what a change of the masters has done, or with DryRun would do.
type PeerChange struct {
	// NodeID and Address are those of the master that was added, promoted or removed; Voter: it has a vote now, or had one
	// before it was removed.
	NodeID  string `json:"node_id"`
	Address string `json:"address"`
	Voter   bool   `json:"voter"`
	// Reachable: it was in contact with the leader at the time of the change.
	Reachable bool `json:"reachable"`
	// Before and After are the votes around the change.
	Before Votes `json:"before"`
	After  Votes `json:"after"`
	DryRun bool  `json:"dry_run"`
}

// Votes are the figures of Quorum without its peers.
type Votes struct {
	Voters    int `json:"voters"`
	Needed    int `json:"needed"`
	Reachable int `json:"reachable"`
	Tolerance int `json:"tolerance"`
}

// VotesOf computes the majority and what may be lost of that many voters.
func VotesOf(voters, reachable int) Votes {
	needed := voters/2 + 1
	return Votes{Voters: voters, Needed: needed, Reachable: reachable, Tolerance: reachable - needed}
}

// changeTimeout bounds a change of the masters that waits for nobody to catch up.
const changeTimeout = 30 * time.Second

func (h *Handler) memberRoutes() {
	have := func() bool { return h.opts.Leadership != nil }
	h.mux.HandleFunc("/v1/transfer-leadership", change(h, have, func(TransferRequest) time.Duration { return transferTimeout },
		func(ctx context.Context, r TransferRequest) (Transfer, error) {
			return h.opts.Leadership.TransferLeadership(ctx, r)
		}))
	h.mux.HandleFunc("/v1/peers/add", change(h, have, func(r AddPeerRequest) time.Duration { return changeTimeout + r.Wait() },
		func(ctx context.Context, r AddPeerRequest) (PeerChange, error) {
			return h.opts.Leadership.AddPeer(ctx, r)
		}))
	h.mux.HandleFunc("/v1/peers/remove", change(h, have, func(RemovePeerRequest) time.Duration { return changeTimeout },
		func(ctx context.Context, r RemovePeerRequest) (PeerChange, error) {
			return h.opts.Leadership.RemovePeer(ctx, r)
		}))
	h.mux.HandleFunc("/v1/peers/promote", change(h, have, func(PromotePeerRequest) time.Duration { return changeTimeout },
		func(ctx context.Context, r PromotePeerRequest) (PeerChange, error) {
			return h.opts.Leadership.PromotePeer(ctx, r)
		}))
}

// change serves a POST that changes something: it is refused to web pages and to callers who may not, and answered by
// the leader alone; other masters name it. have: this master has what makes the change; limit bounds one call by its
// request.
func change[Req, Answer any](h *Handler, have func() bool, limit func(Req) time.Duration, do func(context.Context, Req) (Answer, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !uibase.AllowMethods(w, r, http.MethodPost) || !h.notFromForeignPage(w, r) || !h.authorize(w, r) {
			return
		}
		if !have() {
			h.writeError(w, r, http.StatusNotImplemented, &Error{Code: CodeRefused, Message: "this master has no part that could do this"})
			return
		}
		var req Req
		dec := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBodyBytes))
		dec.DisallowUnknownFields()
		err := dec.Decode(&req)
		if err == nil && dec.More() {
			err = errors.New("there is more after the first value") // which may have been a dry_run
		}
		if err != nil && !errors.Is(err, io.EOF) {
			h.writeError(w, r, http.StatusBadRequest, &Error{Code: CodeBadRequest, Message: "the body is no request of " + r.URL.Path + ": " + err.Error()})
			return
		}
		timeout := limit(req)
		// A recorder of a test has no deadline; the server's own is the shorter one then.
		if err := http.NewResponseController(w).SetWriteDeadline(time.Now().Add(timeout + writeTimeout)); err != nil && !errors.Is(err, http.ErrNotSupported) {
			h.opts.Log.Debug("no deadline for the answer", "path", r.URL.Path, "error", err)
		}
		ctx, cancel := context.WithTimeout(r.Context(), timeout)
		defer cancel()
		level, what := hclog.Info, strings.TrimPrefix(r.URL.Path, "/v1/")
		if what == "drill/claim" { // which is renewed all the time
			level = hclog.Debug
		}
		h.opts.Log.Log(level, "a change was asked for", "path", r.URL.Path, "request", fmt.Sprintf("%+v", req), "caller", r.RemoteAddr, "actor", actor(r))
		done, err := do(ctx, req)
		if level == hclog.Info {
			h.operated(r, what, req, err)
		}
		if err != nil {
			h.opts.Log.Warn("a change was not made", "path", r.URL.Path, "request", fmt.Sprintf("%+v", req), "caller", r.RemoteAddr, "error", err)
			h.writeError(w, r, 0, err)
			return
		}
		h.writeJSON(w, r, http.StatusOK, done)
	}
}
