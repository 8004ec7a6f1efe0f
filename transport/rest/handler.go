package rest

import (
	"context"
	"errors"
	"fmt"
	"html"
	"net/http"
	"regexp"
	"runtime/debug"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
)

const (
	version = "v1"
	base    = "/" + version + "/submissions"
	// backendTimeout bounds one request to the Backend: Spark's clients wait ten seconds for an answer
	// (deploy/rest/RestSubmissionClient.scala).
	backendTimeout = 8 * time.Second
	// maxIDBytes bounds a submission id; the longest that a pattern can make is far below.
	maxIDBytes = 512
	// statusUnknownVersion is Spark's own status code.
	statusUnknownVersion = 468
)

// Options are what a Handler needs. Backend, Log, ClusterURL and SparkVersion are required.
type Options struct {
	Backend Backend
	Log     hclog.Logger
	// SparkVersion is said as serverSparkVersion in every answer.
	SparkVersion string
	// ClusterURL is spark://a:7077,b:7077,c:7077: what a driver gets as spark.master.
	ClusterURL string
	// MaxBodyBytes bounds one request body; 0 means 4 MiB.
	MaxBodyBytes int64
	// AllowedAppResources: an appResource must match one of them as a whole; none: every one is allowed. They belong to the
	// Handler.
	AllowedAppResources []*regexp.Regexp
	// PlaceholderEnv gives the value of an environment variable that a submission may ask for as {{NAME}}; nil: none.
	PlaceholderEnv func(name string) (string, bool)
	// Observe, when set, is told of every answer: the call ("create", "kill"...; "" for a path that is none) and its status.
	Observe func(call string, status int)
}

// Handler serves every route of the protocol.
type Handler struct {
	opts Options
	// bodies bounds what is kept of all request bodies together.
	bodies budget
}

// NewHandler builds a Handler. It panics when a required option is missing, which is a mistake of the program.
func NewHandler(opts Options) *Handler {
	if opts.Backend == nil || opts.Log == nil || opts.ClusterURL == "" || opts.SparkVersion == "" {
		panic("rest: Backend, Log, ClusterURL and SparkVersion are required")
	}
	if opts.MaxBodyBytes <= 0 {
		opts.MaxBodyBytes = defaultBodyBytes
	}
	for _, p := range opts.AllowedAppResources {
		p.Longest() // else a|ab does not match the whole of ab
	}
	return &Handler{opts: opts, bodies: budget{left: maxBodiesTogether}}
}

// route is one call of the protocol. Everything below its path belongs to it.
type route struct {
	name, method string
	serve        func(h *Handler, r *http.Request, id string) reply
	// needsID: the first element below the path is a submission id, without which the call is refused.
	needsID bool
}

var routes = []route{
	{name: "create", method: http.MethodPost, serve: (*Handler).create},
	{name: "kill", method: http.MethodPost, serve: (*Handler).kill, needsID: true},
	{name: "killall", method: http.MethodPost, serve: (*Handler).killAll},
	{name: "status", method: http.MethodGet, serve: (*Handler).status, needsID: true},
	{name: "clear", method: http.MethodPost, serve: (*Handler).clear},
	{name: "readyz", method: http.MethodGet, serve: (*Handler).readyz},
}

// reply is an answer before it is written.
type reply struct {
	status int
	fields fields
	// text is sent instead of fields, as HTML: it makes Spark's clients stop instead of asking the next master.
	text string
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	defer h.recoverPanic(w, r)
	rt, id := find(r.URL.Path)
	call, out := "", reply{}
	switch {
	case rt == nil:
		out = h.misdirected(r.URL.Path)
	case !rt.takes(r.Method):
		call, out = rt.name, rt.refuse(w, r.Method)
	case r.Method == http.MethodPost && fromPage(r):
		call, out = rt.name, h.failure(http.StatusForbidden, "Calls from web pages are refused. A proxy that makes them "+
			"for its users must drop the headers Origin and Sec-Fetch-Site.")
	case rt.needsID && id == "":
		call, out = rt.name, h.failure(http.StatusBadRequest, "Submission ID is missing in "+rt.name+" request.")
	case len(id) > maxIDBytes:
		call, out = rt.name, h.failure(http.StatusBadRequest, fmt.Sprintf("Submission ID is longer than %d bytes.", maxIDBytes))
	default:
		call, out = rt.name, rt.serve(h, r, id)
	}
	h.write(w, r, out)
	if h.opts.Observe != nil {
		h.opts.Observe(call, out.status)
	}
}

// fromPage tells whether a web page makes the call, through the browser of somebody who reaches this port. Browsers send a
// body of plain text anywhere without asking, so that any page could run a driver here, on a gateway for this machine alone
// too. They always name the origin of a POST; what is no browser names none.
func fromPage(r *http.Request) bool {
	site := r.Header.Get("Sec-Fetch-Site")
	return r.Header.Get("Origin") != "" || (site != "" && site != "none")
}

// within bounds what the Backend may take for a request, from now on: a body that came slowly is no reason to give up.
// Neither is a client that went away, or a server that stops: what was begun is brought to its end.
func within(r *http.Request) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(r.Context()), backendTimeout)
}

// find gives the route of a path and the element below it.
func find(path string) (*route, string) {
	below, ok := strings.CutPrefix(path, base+"/")
	if !ok {
		return nil, ""
	}
	name, rest, _ := strings.Cut(below, "/")
	for i := range routes {
		if routes[i].name == name {
			id, _, _ := strings.Cut(rest, "/")
			return &routes[i], id
		}
	}
	return nil, ""
}

// misdirected answers a path that is no route (ErrorServlet in Spark). A wrong second element is named as such; Spark
// says there that the version is unknown.
func (h *Handler) misdirected(path string) reply {
	parts := strings.FieldsFunc(path, func(r rune) bool { return r == '/' })
	status, text := http.StatusBadRequest, ""
	switch {
	case len(parts) == 0:
		text = "Missing protocol version."
	case parts[0] != version:
		status, text = statusUnknownVersion, fmt.Sprintf("Unknown protocol version '%s'.", clip(parts[0]))
	case len(parts) == 1 || parts[1] != "submissions":
		text = "Missing the /submissions prefix."
	default:
		text = "Missing an action: please specify one of /create, /kill, /killall, /clear, /status, or /readyz."
	}
	out := h.failure(status, text+" Please submit requests through http://[host]:[port]/"+version+"/submissions/...")
	if status == statusUnknownVersion {
		out.fields["highestProtocolVersion"] = version
	}
	return out
}

// takes tells whether a method is one of the call's.
func (rt *route) takes(method string) bool {
	return method == rt.method || (rt.method == http.MethodGet && method == http.MethodHead)
}

// refuse answers wrong methods as a servlet does.
func (rt *route) refuse(w http.ResponseWriter, method string) reply {
	allow := rt.method + ", OPTIONS"
	if rt.method == http.MethodGet {
		allow = "GET, HEAD, OPTIONS"
	}
	w.Header().Set("Allow", allow)
	if method == http.MethodOptions {
		return reply{status: http.StatusOK}
	}
	return reply{status: http.StatusMethodNotAllowed, text: fmt.Sprintf("HTTP method %s is not supported by this URL", clip(method))}
}

// failure is an ErrorResponse.
func (h *Handler) failure(status int, message string) reply {
	return reply{status: status, fields: h.answer("ErrorResponse", fields{"message": message})}
}

// answer adds what every answer has.
func (h *Handler) answer(action string, f fields) fields {
	f["action"], f["serverSparkVersion"] = action, h.opts.SparkVersion
	return f
}

func (h *Handler) write(w http.ResponseWriter, r *http.Request, out reply) {
	var body []byte
	switch {
	case out.text != "":
		w.Header().Set("Content-Type", "text/html;charset=utf-8")
		body = fmt.Appendf(nil, "<html><head><title>Error %d</title></head><body><h2>HTTP ERROR %d</h2><p>%s</p></body></html>\n",
			out.status, out.status, html.EscapeString(out.text))
	case out.fields != nil:
		w.Header().Set("Content-Type", "application/json;charset=utf-8")
		body = out.fields.encode()
	}
	w.Header().Set("Content-Length", fmt.Sprint(len(body)))
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(out.status)
	if r.Method == http.MethodHead {
		return
	}
	if _, err := w.Write(body); err != nil {
		h.opts.Log.Debug("a client did not take its answer", "remote", r.RemoteAddr, "error", err)
	}
}

// recoverPanic keeps a mistake of this program from being more than one failed request.
func (h *Handler) recoverPanic(w http.ResponseWriter, r *http.Request) {
	p := recover()
	if p == nil {
		return
	}
	if err, ok := p.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		panic(p)
	}
	h.opts.Log.Error("a REST request failed", "path", clip(r.URL.Path), "panic", p, "stack", string(debug.Stack()))
	h.write(w, r, reply{status: http.StatusInternalServerError, text: "internal error, see the log of this master"})
}

// clip shortens what a stranger wrote before it is repeated.
func clip(s string) string {
	const most = 100
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "..."
	}
	return s
}
