package webui

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"raftmaster/transport/internal/uibase"
)

// Snapshots saves and restores the replicated state. Methods return *Error to choose the code of the answer.
type Snapshots interface {
	// SaveSnapshot writes the state as applied here; any master can. begin is called once, before the first byte, with what
	// is about to be written.
	SaveSnapshot(ctx context.Context, w io.Writer, begin func(SnapshotHead)) error
	// RestoreSnapshot reads and verifies all of body before it changes anything. Leader only.
	RestoreSnapshot(ctx context.Context, req RestoreRequest, body io.Reader) (Restore, error)
}

// SnapshotHead is told in the headers of the answer, for whoever watches a download.
type SnapshotHead struct {
	Index uint64
	// AboutBytes is roughly the size of what follows, 0 when nobody knows.
	AboutBytes int64
}

// Headers of the answer to GET /v1/snapshot.
const (
	HeaderSnapshotIndex = "X-Raftmaster-Index"
	HeaderSnapshotBytes = "X-Raftmaster-About-Bytes"
	// SnapshotContentType is the media type of snapshots, both ways. No web page can send it without being asked about.
	SnapshotContentType = "application/vnd.raftmaster.snapshot"
)

// RestoreRequest is the query of POST /v1/snapshot/restore: ?dry_run=true&force_other_cluster=true. The snapshot is the body.
type RestoreRequest struct {
	DryRun            bool `json:"dry_run"`
	ForceOtherCluster bool `json:"force_other_cluster"`
}

// Restore is the outcome of a RestoreRequest.
type Restore struct {
	// Index, Cluster, TakenMillis and Release are those of the snapshot.
	Index       uint64 `json:"index"`
	Cluster     string `json:"cluster_id"`
	TakenMillis int64  `json:"taken_millis"`
	Release     string `json:"release"`
	// OtherCluster: the snapshot is of another cluster than this one.
	OtherCluster bool `json:"other_cluster"`
	// Later: this cluster knows all that has happened since the snapshot.
	Later bool `json:"later"`
	// Before is what this cluster has, Snapshot what the file has, After what the cluster has then.
	Before   RestoreCounts `json:"before"`
	Snapshot RestoreCounts `json:"snapshot"`
	After    RestoreCounts `json:"after"`
	// KeptApps and KeptDrivers run now and stay although the snapshot does not know them; EndedApps and EndedDrivers run in
	// the snapshot and count as ended; Unbooked executors run now and are killed.
	KeptApps     int  `json:"kept_apps"`
	KeptDrivers  int  `json:"kept_drivers"`
	EndedApps    int  `json:"ended_apps"`
	EndedDrivers int  `json:"ended_drivers"`
	Unbooked     int  `json:"unbooked_executors"`
	DryRun       bool `json:"dry_run"`
}

// RestoreCounts are numbers of things.
type RestoreCounts struct {
	WorkersLive      int `json:"workers_live"`
	WorkersDead      int `json:"workers_dead"`
	AppsActive       int `json:"apps_active"`
	AppsCompleted    int `json:"apps_completed"`
	Executors        int `json:"executors"`
	DriversActive    int `json:"drivers_active"`
	DriversCompleted int `json:"drivers_completed"`
}

const (
	// snapshotTimeout bounds one transfer of a snapshot, snapshotPace the time for the next part of it: who is slower is cut
	// off.
	snapshotTimeout = 30 * time.Minute
	snapshotPace    = 30 * time.Second
	// maxTransfers bounds the transfers at once: each holds a state, or the bytes of one, in memory.
	maxTransfers = 2
	// maxSnapshotUpload bounds an upload; a little above what can be restored, so that the reason is said.
	maxSnapshotUpload = 600 << 20
)

func (h *Handler) snapshotRoutes() {
	h.mux.HandleFunc("/v1/snapshot", h.transfer(http.MethodGet, h.serveSnapshot))
	h.mux.HandleFunc("/v1/snapshot/restore", h.transfer(http.MethodPost, h.serveRestore))
}

// transfer lets one method through, for callers who may change something: a snapshot holds what applications keep secret.
func (h *Handler) transfer(method string, next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !uibase.AllowMethods(w, r, method) {
			return
		}
		if site := r.Header.Get("Sec-Fetch-Site"); r.Header.Get("Origin") != "" || (site != "" && site != "none") {
			h.writeError(w, r, http.StatusForbidden, &Error{Code: CodeUnauthorized, Message: "calls from web pages are refused"})
			return
		}
		if !h.authorize(w, r) {
			return
		}
		if h.opts.Snapshots == nil {
			h.writeError(w, r, http.StatusNotImplemented, &Error{Code: CodeRefused, Message: "this master has no part that could do this"})
			return
		}
		select {
		case h.transfers <- struct{}{}:
			defer func() { <-h.transfers }()
			next(w, r)
		default:
			w.Header().Set("Retry-After", "5")
			h.writeError(w, r, http.StatusServiceUnavailable, &Error{Code: CodeBusy, Message: "other snapshots are being sent: ask again in a moment"})
		}
	}
}

func (h *Handler) serveSnapshot(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), snapshotTimeout)
	defer cancel()
	out := &pacedWriter{ctx: ctx, w: w, deadline: h.deadline(r, http.NewResponseController(w).SetWriteDeadline)}
	began := false
	err := h.opts.Snapshots.SaveSnapshot(ctx, out, func(head SnapshotHead) {
		began = true
		w.Header().Set("Content-Type", SnapshotContentType)
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("Content-Disposition", `attachment; filename="raftmaster.snapshot"`)
		w.Header().Set(HeaderSnapshotIndex, strconv.FormatUint(head.Index, 10))
		if head.AboutBytes > 0 {
			w.Header().Set(HeaderSnapshotBytes, strconv.FormatInt(head.AboutBytes, 10))
		}
	})
	h.operated(r, "snapshot/save", "a copy of the whole state", err)
	switch {
	case err == nil:
		h.opts.Log.Info("a snapshot was sent", "caller", r.RemoteAddr, "actor", actor(r), "bytes", out.n)
	case began && out.n > 0:
		// The end with the checksum is missing: the receiver knows that it has not got everything.
		h.opts.Log.Warn("a snapshot was not sent to its end", "caller", r.RemoteAddr, "bytes", out.n, "error", err)
		panic(http.ErrAbortHandler)
	default:
		h.writeError(w, r, 0, err)
	}
}

func (h *Handler) serveRestore(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Content-Type") != SnapshotContentType {
		h.writeError(w, r, http.StatusUnsupportedMediaType, &Error{Code: CodeBadRequest, Message: "the body must be a snapshot, of the type " + SnapshotContentType})
		return
	}
	var req RestoreRequest
	for name, into := range map[string]*bool{"dry_run": &req.DryRun, "force_other_cluster": &req.ForceOtherCluster} {
		if s := r.URL.Query().Get(name); s != "" {
			v, err := strconv.ParseBool(s)
			if err != nil {
				h.writeError(w, r, http.StatusBadRequest, &Error{Code: CodeBadRequest, Message: name + " must be true or false, not " + strconv.Quote(s)})
				return
			}
			*into = v
		}
	}
	ctx, cancel := context.WithTimeout(r.Context(), snapshotTimeout)
	defer cancel()
	rc := http.NewResponseController(w)
	body := &pacedReader{ctx: ctx, r: http.MaxBytesReader(w, r.Body, maxSnapshotUpload), deadline: h.deadline(r, rc.SetReadDeadline)}
	h.deadline(r, rc.SetWriteDeadline)(snapshotTimeout + writeTimeout)
	done, err := h.opts.Snapshots.RestoreSnapshot(ctx, req, body)
	h.operated(r, "snapshot/restore", req, err)
	if err != nil {
		h.opts.Log.Warn("no snapshot was restored", "caller", r.RemoteAddr, "actor", actor(r), "error", err)
		h.writeError(w, r, 0, err)
		return
	}
	h.writeJSON(w, r, http.StatusOK, done)
}

// deadline sets one of a connection; a recorder of a test has none.
func (h *Handler) deadline(r *http.Request, set func(time.Time) error) func(time.Duration) {
	return func(d time.Duration) {
		if err := set(time.Now().Add(d)); err != nil && !errors.Is(err, http.ErrNotSupported) {
			h.opts.Log.Debug("no deadline for a transfer", "path", r.URL.Path, "error", err)
		}
	}
}

// pacedWriter gives each part of an answer a time of its own.
type pacedWriter struct {
	ctx      context.Context
	w        io.Writer
	deadline func(time.Duration)
	n        int64
}

func (p *pacedWriter) Write(b []byte) (int, error) {
	if err := p.ctx.Err(); err != nil {
		return 0, err
	}
	p.deadline(snapshotPace)
	n, err := p.w.Write(b)
	p.n += int64(n)
	return n, err
}

// pacedReader does the same for the parts of a request's body.
type pacedReader struct {
	ctx      context.Context
	r        io.Reader
	deadline func(time.Duration)
}

func (p *pacedReader) Read(b []byte) (int, error) {
	if err := p.ctx.Err(); err != nil {
		return 0, err
	}
	p.deadline(snapshotPace)
	return p.r.Read(b)
}
