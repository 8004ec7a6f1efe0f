package workerui

import (
	"embed"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"path"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"raftmaster/transport/internal/uibase"
)

//go:embed assets/static
var staticFiles embed.FS

//go:embed assets/message.html
var messageHTML string

var messageTemplate = uibase.ParsePage("message", messageHTML)

// Handler serves every route of the port. It is an http.Handler of its own, for tests and for other servers.
type Handler struct {
	opts    Options
	backend Backend
	mux     *http.ServeMux
	headers uibase.Headers
	// answers are those that are built or sent, downloads whole logs.
	answers, downloads *uibase.Places
	lengths            *lengths
	// maxFiles bounds the files of a log.
	maxFiles     int
	metrics      *prometheus.Registry
	refusedConns prometheus.Counter
	busyAnswers  prometheus.Counter
}

// NewHandler builds the routes. It panics when a logger, a work directory or the backend is missing, which is a mistake of
// the program.
func NewHandler(opts Options, backend Backend) *Handler {
	if opts.Log == nil || opts.WorkDir == "" || backend == nil {
		panic("workerui: a work directory, a logger and a backend are required")
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	h := &Handler{opts: opts, backend: backend, mux: http.NewServeMux(),
		headers: uibase.Headers{AllowFramingFrom: opts.AllowFramingFrom, XXSSProtection: opts.XXSSProtection,
			ContentSecurityPolicy: opts.ContentSecurityPolicy},
		answers:   uibase.NewPlaces(maxAnswers, maxAnswersPerIP),
		downloads: uibase.NewPlaces(maxDownloads, maxDownloadsPerIP),
		lengths:   newLengths(opts.CompressedLogLengths),
		maxFiles:  maxLogFiles}
	h.registerMetrics()
	h.routes()
	return h
}

func (h *Handler) routes() {
	h.mux.HandleFunc("/", h.serveUnknown)
	h.mux.HandleFunc("/{$}", h.get(h.answer(h.servePage)))
	h.redirect("/json")
	// Spark's worker has no sub-paths of /json: each gives the whole object.
	h.mux.HandleFunc("/json/", h.get(h.answer(h.serveJSON)))
	h.page("/logPage", h.answer(h.serveLogPage))
	h.page("/log", h.answer(h.serveLog))
	h.page("/download", h.serveDownload)
	h.page("/metrics/json", h.answer(h.sparkMetrics("text/json;charset=utf-8", uibase.WriteMetricsJSON)))
	h.page("/metrics/prometheus", h.answer(h.sparkMetrics(plainText, uibase.WriteMetricsPrometheus)))
	gathered := prometheus.Gatherers{h.metrics}
	if h.opts.Metrics != nil {
		gathered = append(gathered, h.opts.Metrics)
	}
	own := promhttp.HandlerFor(gathered, promhttp.HandlerOpts{
		ErrorLog: h.opts.Log.StandardLogger(nil), MaxRequestsInFlight: 8, Timeout: 10 * time.Second})
	h.mux.HandleFunc("/metrics", h.get(own.ServeHTTP))
	h.mux.HandleFunc("/healthz", h.get(h.serveHealthz))
	h.mux.HandleFunc("/readyz", h.get(h.serveReadyz))
	h.mux.HandleFunc("/static/", h.get(h.serveStatic))
}

// page serves a path of Spark's UI with its final slash, and redirects from the one without.
func (h *Handler) page(path string, serve http.HandlerFunc) {
	h.redirect(path)
	h.mux.HandleFunc(path+"/{$}", h.get(serve))
}

// redirect sends callers of a path without its final slash to the one with it, with 301 as Spark 4 does. The place is named
// from here, so that it is right behind any proxy.
func (h *Handler) redirect(from string) {
	h.mux.HandleFunc(from, h.get(func(w http.ResponseWriter, r *http.Request) {
		to := path.Base(from) + "/"
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
	http.Error(w, "internal error, see the worker's log", http.StatusInternalServerError)
}

// get lets GET and HEAD through. As with Spark's servlets, OPTIONS names them, and the others are answered with 405.
func (h *Handler) get(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodOptions {
			w.Header().Set("Allow", "GET, HEAD, OPTIONS")
			w.WriteHeader(http.StatusOK)
			return
		}
		if uibase.AllowMethods(w, r, http.MethodGet, http.MethodHead) {
			next(w, r)
		}
	}
}

// answer lets few answers be built at once; the others wait for a moment and are then asked to come again.
func (h *Handler) answer(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ip := uibase.CallerIP(r)
		if !h.answers.Take(r.Context(), ip, answerWait) {
			h.busy(w, r)
			return
		}
		defer h.answers.Give(ip)
		next(w, r)
	}
}

func (h *Handler) busy(w http.ResponseWriter, r *http.Request) {
	h.busyAnswers.Inc()
	w.Header().Set("Retry-After", "1")
	h.message(w, r, http.StatusServiceUnavailable, "Busy", "Too much is being sent: try again in a moment.")
}

// ConnectionRefused counts a connection that was closed because too many were open (webui.Start calls it).
func (h *Handler) ConnectionRefused() { h.refusedConns.Inc() }

// messagePage is a page of a few words.
type messagePage struct {
	Title, Text, Nonce string
}

func (h *Handler) message(w http.ResponseWriter, r *http.Request, status int, title, text string) {
	h.writePage(w, r, status, messageTemplate, messagePage{Title: title, Text: text, Nonce: uibase.NonceOf(r.Context())})
}

func (h *Handler) writePage(w http.ResponseWriter, r *http.Request, status int, page *template.Template, data any) {
	body, err := uibase.BuildPage(page, h.opts.Now(), data)
	if err != nil {
		h.opts.Log.Error("cannot build a page", "path", r.URL.Path, "error", err)
		http.Error(w, "the page cannot be built, see the worker's log", http.StatusInternalServerError)
		return
	}
	uibase.WriteBody(w, r, status, "text/html;charset=utf-8", body)
}

// serveUnknown says that there is no such page. Spark shows its main page with 200 for every unknown path; here a mistyped
// address of a scrape or of a health check is not taken for a success (G-72).
func (h *Handler) serveUnknown(w http.ResponseWriter, r *http.Request) {
	h.message(w, r, http.StatusNotFound, "No such page", "This worker has no page "+printable(r.URL.Path)+
		". The worker is at /, as JSON at /json/; metrics are at /metrics and /metrics/json/, health at /healthz and /readyz.")
}

// serveStatic gives the files of the pages; no directory is listed.
func (h *Handler) serveStatic(w http.ResponseWriter, r *http.Request) {
	body, err := fs.ReadFile(staticFiles, "assets"+r.URL.Path)
	if err != nil {
		h.serveUnknown(w, r)
		return
	}
	contentType := plainText
	if path.Ext(r.URL.Path) == ".js" {
		contentType = "text/javascript;charset=utf-8"
	}
	uibase.WriteBody(w, r, http.StatusOK, contentType, body)
}

// serveHealthz tells that the process answers.
func (h *Handler) serveHealthz(w http.ResponseWriter, r *http.Request) {
	uibase.WriteBody(w, r, http.StatusOK, plainText, []byte("ok\n"))
}

// serveReadyz tells whether the worker takes executors, and why not.
func (h *Handler) serveReadyz(w http.ResponseWriter, r *http.Request) {
	status, text := http.StatusOK, "ready"
	if why := notReady(h.backend.View()); why != "" {
		status, text = http.StatusServiceUnavailable, why
	}
	uibase.WriteBody(w, r, status, plainText, []byte(text+"\n"))
}

// notReady says why a worker takes no executors, "" when it does.
func notReady(v View) string {
	switch {
	case v.Decommissioned:
		return "this worker is decommissioned"
	case !v.Registered:
		return "no master has accepted this worker yet"
	case !v.Connected:
		return "this worker has no contact with its master"
	}
	return ""
}
