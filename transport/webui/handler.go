package webui

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"raftmaster/transport/internal/uibase"
)

// Handler serves every route of the web UI port.
type Handler struct {
	opts Options
	mux  *http.ServeMux
	// headers are those of every answer.
	headers uibase.Headers
	// tokens is nil while none is configured.
	tokens    Tokens
	guesses   *guesses
	followers chan struct{}
	transfers chan struct{} // snapshots that are being sent
	// debugging holds the one who has a DebugPart made.
	debugging chan struct{}
	// lists are the lists that are being rendered or sent; others wait listWait for their turn.
	lists    *uibase.Places
	listWait time.Duration
	// csrfToken is what the forms of this process's pages carry.
	csrfToken string
	// root is the path of these pages at the proxy in front, "" for none.
	root string
	// own are the counters of this package, gathered together with Options.Metrics.
	own                                                *prometheus.Registry
	refusedConns, busyLists, authFailures, authLimited prometheus.Counter
}

// NewHandler builds the routes. It panics when State, Events or Log is missing, which is a mistake of the program.
func NewHandler(opts Options) *Handler {
	if opts.State == nil || opts.Events == nil || opts.Log == nil {
		panic("webui: State, Events and Log are required")
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	h := &Handler{opts: opts, mux: http.NewServeMux(), followers: make(chan struct{}, maxFollowers), transfers: make(chan struct{}, maxTransfers), debugging: make(chan struct{}, 1),
		lists: uibase.NewPlaces(maxLists, maxListsPerIP), listWait: listWait, csrfToken: uibase.NewNonce(),
		headers: uibase.Headers{AllowFramingFrom: opts.AllowFramingFrom, XXSSProtection: opts.XXSSProtection,
			ContentSecurityPolicy: opts.ContentSecurityPolicy}}
	if opts.ReverseProxy {
		h.root = rootOf(opts.ReverseProxyURL)
	}
	h.registerMetrics()
	if h.tokens = opts.Tokens; h.tokens == nil && opts.Token != "" {
		h.tokens = oneToken(sha256.Sum256([]byte(opts.Token)))
	}
	h.guesses = newGuesses(opts.Now)
	h.routes()
	return h
}

// ConnectionRefused counts a connection that was closed because too many were open (Start calls it).
func (h *Handler) ConnectionRefused() { h.refusedConns.Inc() }

func (h *Handler) registerMetrics() {
	h.refusedConns = prometheus.NewCounter(prometheus.CounterOpts{Namespace: "raftmaster", Name: "http_connections_refused_total",
		Help: "Connections to the web UI port that were closed at once because too many were open."})
	h.busyLists = prometheus.NewCounter(prometheus.CounterOpts{Namespace: "raftmaster", Name: "http_busy_total",
		Help: "Requests for lists that were answered with 503 because too many were being sent."})
	h.authFailures = prometheus.NewCounter(prometheus.CounterOpts{Namespace: "raftmaster", Name: "auth_failures_total",
		Help: "Requests to the web UI port with a token that nobody has."})
	h.authLimited = prometheus.NewCounter(prometheus.CounterOpts{Namespace: "raftmaster", Name: "auth_limited_total",
		Help: "Requests to the web UI port that were answered with 429 because too many wrong tokens came from their address."})
	h.own = prometheus.NewRegistry()
	h.own.MustRegister(h.refusedConns, h.busyLists, h.authFailures, h.authLimited)
}

func (h *Handler) routes() {
	h.mux.HandleFunc("/", h.serveUnknown)
	h.mux.HandleFunc("/{$}", h.get(h.list(h.servePage)))
	h.mux.HandleFunc("/json/", h.get(h.list(h.serveSparkJSON)))
	h.mux.HandleFunc("/healthz", h.get(h.serveHealthz))
	h.mux.HandleFunc("/readyz", h.get(h.serveReadyz))
	h.mux.HandleFunc("/leader", h.get(h.serveLeader))
	if h.opts.Metrics != nil {
		metrics := promhttp.HandlerFor(prometheus.Gatherers{h.opts.Metrics, h.own}, promhttp.HandlerOpts{
			ErrorLog: h.opts.Log.StandardLogger(nil), MaxRequestsInFlight: 8, Timeout: 10 * time.Second,
		})
		h.mux.HandleFunc("/metrics", h.get(metrics.ServeHTTP))
	}
	h.mux.HandleFunc("/v1/status", h.get(h.list(h.serveStatus)))
	h.mux.HandleFunc("/v1/leader", h.get(h.serveAPILeader))
	h.mux.HandleFunc("/v1/health", h.get(h.serveHealth))
	h.mux.HandleFunc("/v1/peers", h.get(h.servePeers))
	h.mux.HandleFunc("/v1/workers", h.get(h.list(h.serveWorkers)))
	h.mux.HandleFunc("/v1/apps", h.get(h.list(h.serveApps)))
	h.mux.HandleFunc("/v1/app", h.get(h.list(h.serveApp)))
	h.mux.HandleFunc("/v1/drivers", h.get(h.list(h.serveDrivers)))
	h.mux.HandleFunc("/v1/driver", h.get(h.serveDriver))
	h.mux.HandleFunc("/v1/why-waiting", h.get(h.list(h.serveWhy)))
	h.mux.HandleFunc("/v1/incompatible", h.get(h.list(h.serveIncompatible)))
	h.mux.HandleFunc("/v1/executors", h.get(h.list(h.serveExecutors)))
	h.mux.HandleFunc("/v1/events", h.get(h.serveEvents))
	h.memberRoutes()
	h.operationRoutes()
	h.drillRoutes()
	h.snapshotRoutes()
	h.logLevelRoutes()
	h.debugRoutes()
	h.mux.HandleFunc("/v1/", func(w http.ResponseWriter, r *http.Request) {
		h.writeError(w, r, http.StatusNotFound, &Error{Code: CodeNotFound, Message: "no such call: " + r.URL.Path})
	})
	h.formRoutes()
	h.sparkMetricRoutes()
	h.redirect("/json")
	h.page("/app", h.list(h.serveAppPage))
	h.page("/app/json", h.list(h.serveAppJSON))
	h.page("/environment", h.serveEnvironment)
	h.page("/logPage", h.list(h.serveLogPage))
	h.page("/log", h.list(h.serveLog))
	if h.opts.ReverseProxy {
		h.mux.Handle("/proxy/", h.uiProxy())
	}
}

// page serves a path of Spark's UI with its final slash, and redirects from the one without.
func (h *Handler) page(path string, serve http.HandlerFunc) {
	h.redirect(path)
	h.mux.HandleFunc(path+"/{$}", h.get(serve))
}

// redirect sends callers of a path without its final slash to the one with it, as Spark 4 does: 301, relative.
func (h *Handler) redirect(path string) {
	h.mux.HandleFunc(path, h.get(func(w http.ResponseWriter, r *http.Request) {
		to := h.root + path + "/"
		if r.URL.RawQuery != "" {
			to += "?" + r.URL.RawQuery
		}
		w.Header().Set("Location", to)
		w.WriteHeader(http.StatusMovedPermanently)
	}))
}

// ServeHTTP sets the headers that every answer carries, then routes.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	defer h.recoverPanic(w, r)
	r = h.headers.Set(w, r)
	if r.Method == http.MethodTrace {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	r, ok := h.identify(w, r)
	if !ok || !h.mayLook(w, r) {
		return
	}
	h.mux.ServeHTTP(w, r)
}

// recoverPanic keeps one broken page from ending the connection without an answer, and leaves a trace of it.
func (h *Handler) recoverPanic(w http.ResponseWriter, r *http.Request) {
	v := recover()
	if v == nil {
		return
	}
	if err, ok := v.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		panic(v)
	}
	h.opts.Log.Error("HTTP handler failed", "method", r.Method, "path", r.URL.Path, "error", fmt.Sprint(v))
	h.writeError(w, r, http.StatusInternalServerError, &Error{Code: CodeInternal, Message: "internal error, see the master's log"})
}

// get lets GET and HEAD through.
func (h *Handler) get(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if uibase.AllowMethods(w, r, http.MethodGet, http.MethodHead) {
			next(w, r)
		}
	}
}
