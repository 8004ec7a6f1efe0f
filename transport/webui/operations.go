package webui

import (
	"context"
	"time"
)

// Operations are an operator's changes of the cluster's work. Only the leader makes them; another master answers with
// CodeNotLeader and names it. Every method returns *Error to choose the code of the answer, and answers only what is
// committed; with DryRun it checks everything and changes nothing.
type Operations interface {
	// Kill ends an application, or asks for the end of a driver.
	Kill(ctx context.Context, req KillRequest) (Kill, error)
	// Decommission marks workers DECOMMISSIONED for the rest of their lives and tells them so.
	Decommission(ctx context.Context, req DecommissionRequest) (WorkerChange, error)
	// Drain keeps new work away from a worker, or lets it come again.
	Drain(ctx context.Context, req DrainRequest) (WorkerChange, error)
	// ClearCompleted forgets the completed applications and drivers.
	ClearCompleted(ctx context.Context, req ClearRequest) (Clear, error)
	// ClearIncompatible lets work go again to a worker where it never came up.
	ClearIncompatible(ctx context.Context, req ClearIncompatibleRequest) (ClearIncompatible, error)
}

// Kinds of KillRequest.
const (
	KindApp    = "app"
	KindDriver = "driver"
)

// KillRequest is the body of POST /v1/kill.
type KillRequest struct {
	// Kind is KindApp or KindDriver, ID the application's or driver's id.
	Kind   string `json:"kind"`
	ID     string `json:"id"`
	DryRun bool   `json:"dry_run"`
}

// Kill is the outcome of a KillRequest.
type Kill struct {
	Kind string `json:"kind"`
	ID   string `json:"id"`
	Name string `json:"name"`
	// State is the one before the call.
	State string `json:"state"`
	// Done: it has ended with this call. A running driver ends when its worker says so.
	Done bool `json:"done"`
	// Already: it had ended before, so that nothing was changed.
	Already bool   `json:"already"`
	Message string `json:"message"`
	// Executors and Cores are what an application holds, and a kill frees.
	Executors int  `json:"executors"`
	Cores     int  `json:"cores"`
	DryRun    bool `json:"dry_run"`
}

// DecommissionRequest is the body of POST /v1/decommission. Either Worker or Hosts is given.
type DecommissionRequest struct {
	// Worker is a worker id, host:port, or the host of exactly one worker.
	Worker string `json:"worker"`
	// Hosts decommission all of their workers; compared without regard to case.
	Hosts  []string `json:"hosts"`
	DryRun bool     `json:"dry_run"`
}

// DrainRequest is the body of POST /v1/drain.
type DrainRequest struct {
	// Worker is a worker id, host:port, or the host of exactly one worker.
	Worker string `json:"worker"`
	// On drains it, false lets work come again.
	On bool `json:"on"`
	// IdleOnly refuses to drain a worker that holds executors or drivers.
	IdleOnly bool `json:"idle_only"`
	DryRun   bool `json:"dry_run"`
}

// WorkerChange is the outcome of a change of workers.
type WorkerChange struct {
	// Workers are those that are meant, as they were before the change.
	Workers []Worker `json:"workers"`
	// Changed counts those that the change concerned; the others were so already.
	Changed int  `json:"changed"`
	DryRun  bool `json:"dry_run"`
}

// ClearRequest is the body of POST /v1/clear.
type ClearRequest struct {
	DryRun bool `json:"dry_run"`
}

// Clear is the outcome of a ClearRequest.
type Clear struct {
	// Apps and Drivers are the completed ones that were forgotten, or would be.
	Apps    int  `json:"apps"`
	Drivers int  `json:"drivers"`
	DryRun  bool `json:"dry_run"`
}

// ClearIncompatibleRequest is the body of POST /v1/clear-incompatible.
type ClearIncompatibleRequest struct {
	// Worker is a worker id, host:port, or the host of exactly one worker.
	Worker string `json:"worker"`
	// AppID is one application's; "" means all of them, and drivers.
	AppID  string `json:"app_id"`
	DryRun bool   `json:"dry_run"`
}

// ClearIncompatible is the outcome of a ClearIncompatibleRequest.
type ClearIncompatible struct {
	WorkerID string `json:"worker_id"`
	// Pairs are those that are meant, as they were before the change; none is no error.
	Pairs  []IncompatiblePair `json:"pairs"`
	DryRun bool               `json:"dry_run"`
}

// operationTimeout bounds one operation, the wait for its commit included.
const operationTimeout = 15 * time.Second

func operationLimit[Req any](Req) time.Duration { return operationTimeout }

func (h *Handler) operationRoutes() {
	have := func() bool { return h.opts.Operations != nil }
	h.mux.HandleFunc("/v1/kill", change(h, have, operationLimit[KillRequest],
		func(ctx context.Context, r KillRequest) (Kill, error) { return h.opts.Operations.Kill(ctx, r) }))
	h.mux.HandleFunc("/v1/decommission", change(h, have, operationLimit[DecommissionRequest],
		func(ctx context.Context, r DecommissionRequest) (WorkerChange, error) {
			return h.opts.Operations.Decommission(ctx, r)
		}))
	h.mux.HandleFunc("/v1/drain", change(h, have, operationLimit[DrainRequest],
		func(ctx context.Context, r DrainRequest) (WorkerChange, error) {
			return h.opts.Operations.Drain(ctx, r)
		}))
	h.mux.HandleFunc("/v1/clear", change(h, have, operationLimit[ClearRequest],
		func(ctx context.Context, r ClearRequest) (Clear, error) {
			return h.opts.Operations.ClearCompleted(ctx, r)
		}))
	h.mux.HandleFunc("/v1/clear-incompatible", change(h, have, operationLimit[ClearIncompatibleRequest],
		func(ctx context.Context, r ClearIncompatibleRequest) (ClearIncompatible, error) {
			return h.opts.Operations.ClearIncompatible(ctx, r)
		}))
}
