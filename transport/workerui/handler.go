package workerui

import "net/http"

// Handler serves every route of the port. It is an http.Handler of its own, for tests and for other servers.
type Handler struct {
	opts    Options
	backend Backend
	mux     *http.ServeMux
}

// NewHandler builds the routes.
func NewHandler(opts Options, backend Backend) *Handler {
	return &Handler{opts: opts, backend: backend, mux: http.NewServeMux()}
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.mux.ServeHTTP(w, r) }
