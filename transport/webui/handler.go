package webui

import (
	"compress/gzip"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Handler serves every route of the web UI port.
type Handler struct {
	opts Options
	mux  *http.ServeMux
	// tokenHash stands for the token, see isToken.
	tokenHash [sha256.Size]byte
	followers chan struct{}
	// lists are the lists that are being rendered or sent; others wait listWait for their turn.
	lists    *places
	listWait time.Duration
	// csrfToken is what the forms of this process's pages carry.
	csrfToken string
	// root is the path of these pages at the proxy in front, "" for none.
	root string
	// own are the counters of this package, gathered together with Options.Metrics.
	own                     *prometheus.Registry
	refusedConns, busyLists prometheus.Counter
}

// NewHandler builds the routes. It panics when State, Events or Log is missing, which is a mistake of the program.
func NewHandler(opts Options) *Handler {
	if opts.State == nil || opts.Events == nil || opts.Log == nil {
		panic("webui: State, Events and Log are required")
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.XXSSProtection == "" {
		opts.XXSSProtection = "0"
	}
	h := &Handler{opts: opts, mux: http.NewServeMux(), followers: make(chan struct{}, maxFollowers),
		lists: newPlaces(maxLists, maxListsPerIP), listWait: listWait, csrfToken: newNonce()}
	if opts.ReverseProxy {
		h.root = rootOf(opts.ReverseProxyURL)
	}
	h.registerMetrics()
	h.tokenHash = sha256.Sum256([]byte(opts.Token))
	h.routes()
	return h
}

func (h *Handler) registerMetrics() {
	h.refusedConns = prometheus.NewCounter(prometheus.CounterOpts{Namespace: "raftmaster", Name: "http_connections_refused_total",
		Help: "Connections to the web UI port that were closed at once because too many were open."})
	h.busyLists = prometheus.NewCounter(prometheus.CounterOpts{Namespace: "raftmaster", Name: "http_busy_total",
		Help: "Requests for lists that were answered with 503 because too many were being sent."})
	h.own = prometheus.NewRegistry()
	h.own.MustRegister(h.refusedConns, h.busyLists)
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

type nonceKey struct{}

// ServeHTTP sets the headers that every answer carries, then routes.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	defer h.recoverPanic(w, r)
	head := w.Header()
	head.Set("Cache-Control", "no-cache, no-store, must-revalidate")
	head.Set("X-XSS-Protection", h.opts.XXSSProtection)
	head.Set("X-Content-Type-Options", "nosniff")
	frames := "'self'"
	if h.opts.AllowFramingFrom != "" {
		head.Set("X-Frame-Options", "ALLOW-FROM "+h.opts.AllowFramingFrom)
		frames += " " + h.opts.AllowFramingFrom
	} else {
		head.Set("X-Frame-Options", "SAMEORIGIN")
	}
	nonce := newNonce()
	if h.opts.ContentSecurityPolicy {
		head.Set("Content-Security-Policy", "default-src 'self'; script-src 'self' 'nonce-"+nonce+
			"'; style-src 'self' 'nonce-"+nonce+"'; img-src 'self' data:; object-src 'none'; base-uri 'self'; "+
			"form-action 'self'; frame-ancestors "+frames+";")
	}
	if r.Method == http.MethodTrace {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	h.mux.ServeHTTP(w, r.WithContext(withNonce(r.Context(), nonce)))
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
		if allowed(w, r, http.MethodGet, http.MethodHead) {
			next(w, r)
		}
	}
}

func allowed(w http.ResponseWriter, r *http.Request, methods ...string) bool {
	for _, m := range methods {
		if r.Method == m {
			return true
		}
	}
	w.Header().Set("Allow", strings.Join(methods, ", "))
	w.WriteHeader(http.StatusMethodNotAllowed)
	return false
}

// gzipFrom is the size above which compressing an answer is worth it.
const gzipFrom = 1400

// writeBody sends a whole body with its length, compressed when the caller accepts that and it is worth it.
func writeBody(w http.ResponseWriter, r *http.Request, status int, contentType string, body []byte) {
	head := w.Header()
	head.Set("Content-Type", contentType)
	head.Add("Vary", "Accept-Encoding")
	if len(body) >= gzipFrom && acceptsGzip(r) {
		head.Set("Content-Encoding", "gzip")
		w.WriteHeader(status)
		if r.Method == http.MethodHead {
			return
		}
		zw := gzip.NewWriter(newPacedWriter(w))
		if _, err := zw.Write(body); err == nil {
			closeGzip(zw)
		}
		return
	}
	head.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		writeRest(newPacedWriter(w), body)
	}
}

func acceptsGzip(r *http.Request) bool {
	for _, part := range strings.Split(r.Header.Get("Accept-Encoding"), ",") {
		name, params, _ := strings.Cut(strings.TrimSpace(part), ";")
		if strings.EqualFold(strings.TrimSpace(name), "gzip") {
			q := strings.ReplaceAll(params, " ", "")
			return q != "q=0" && q != "q=0.0"
		}
	}
	return false
}

// newNonce gives 128 random bits; crypto/rand never fails in this release of Go.
func newNonce() string {
	var b [16]byte
	_, _ = rand.Read(b[:])
	return hex.EncodeToString(b[:])
}
