package webui

import (
	_ "embed"
	"html/template"
	"net/http"
	neturl "net/url"
	"strings"

	"raftmaster/transport/internal/uibase"
)

//go:embed assets/app.html
var appHTML string

// appPage is /app/?appId=ID: one application with its executors, active or completed (ApplicationPage.scala).
type appPage struct {
	Title  string
	Nonce  string
	Root   string
	S      Status
	D      AppDetail
	Driver string
	Why    *WhyWaiting
	// UILink leads to the application's own pages while it is active, HistoryLink to those at a history server.
	UILink, HistoryLink string
	// Removed are newest first. Only those that did not end in order are shown, as in Spark.
	Removed []RemovedExecutor
	Kill    bool
	CSRF    string
	Links   linker
}

// linker makes the addresses of workers and applications: their own, or those below /proxy/.
type linker struct {
	proxy bool
	root  string
}

// To gives the address of a peer's page.
func (l linker) To(id, url string) string {
	if url == "" || !l.proxy {
		return url
	}
	return l.root + "/proxy/" + neturl.PathEscape(id) + "/"
}

func (h *Handler) links() linker { return linker{proxy: h.opts.ReverseProxy, root: h.root} }

func (h *Handler) serveAppPage(w http.ResponseWriter, r *http.Request) {
	id := r.URL.Query().Get("appId")
	if id == "" {
		// Spark fails with a stack trace here.
		h.message(w, r, http.StatusBadRequest, "Which application?", "Name one: /app/?appId=ID.")
		return
	}
	var detail AppDetail
	ok := false
	if h.opts.Details != nil {
		detail, ok = h.opts.Details.App(id)
	}
	if !ok {
		h.message(w, r, http.StatusOK, "No running application with ID "+id, "It may have been dropped from the completed applications.")
		return
	}
	h.writePage(w, r, http.StatusOK, appTemplate, h.appPage(r, detail))
}

func (h *Handler) appPage(r *http.Request, d AppDetail) appPage {
	st := h.opts.State.Brief()
	p := appPage{Title: "Application: " + d.App.Name, Nonce: uibase.NonceOf(r.Context()), Root: h.root,
		S: st, D: d, Links: h.links(), CSRF: h.csrfToken, Kill: d.App.Active && h.killShown(r, st)}
	if d.App.Active {
		p.UILink = p.Links.To(d.App.ID, d.App.UIURL)
		if why, ok := h.opts.Details.WhyWaiting(d.App.ID); ok && why.Waiting {
			p.Why = &why
		}
	} else if h.opts.HistoryServerURL != "" {
		p.HistoryLink = strings.TrimRight(h.opts.HistoryServerURL, "/") + "/history/" + neturl.PathEscape(d.App.ID)
	}
	for i := len(d.Removed) - 1; i >= 0; i-- {
		if d.Removed[i].State != "EXITED" {
			p.Removed = append(p.Removed, d.Removed[i])
		}
	}
	return p
}

// writePage executes a template at the present time.
func (h *Handler) writePage(w http.ResponseWriter, r *http.Request, status int, tmpl *template.Template, data any) {
	body, err := uibase.BuildPage(tmpl, h.opts.Now(), data)
	if err != nil {
		h.opts.Log.Error("cannot build a page", "path", r.URL.Path, "error", err)
		h.writeError(w, r, http.StatusInternalServerError, &Error{Code: CodeInternal, Message: "the page cannot be built, see the master's log"})
		return
	}
	uibase.WriteBody(w, r, status, "text/html;charset=utf-8", body)
}

// serveAppJSON is /app/json/?appId=ID, where Spark answers nothing at all: the application as in /json, with its executors.
func (h *Handler) serveAppJSON(w http.ResponseWriter, r *http.Request) {
	a := &uibase.Answer{W: w, R: r, ContentType: "text/json;charset=utf-8"}
	out := uibase.Object{}
	if h.opts.Details != nil {
		if d, ok := h.opts.Details.App(r.URL.Query().Get("appId")); ok {
			out = append(sparkApp(&d.App, h.opts.Now()),
				uibase.Field{"executors", uibase.ListOf(d.Executors, func(e Executor) any { return appExecutor(&e) })},
				uibase.Field{"removedexecutors", uibase.ListOf(d.Removed, func(e RemovedExecutor) any { return removedExecutor(&e) })})
		}
	}
	err := uibase.WriteJSON(a, out)
	if err == nil {
		err = a.Close()
	}
	a.Finish(h.opts.Log, err)
}

func appExecutor(e *Executor) uibase.Object {
	return uibase.Object{{"id", e.ID}, {"worker", e.WorkerID}, {"cores", e.Cores}, {"memory", e.MemoryMB},
		{"resourceprofileid", e.ProfileID}, {"state", e.State}, {"starttime", e.StartMillis}}
}

func removedExecutor(e *RemovedExecutor) uibase.Object {
	return uibase.Object{{"id", e.ID}, {"worker", e.WorkerID}, {"cores", e.Cores}, {"memory", e.MemoryMB},
		{"resourceprofileid", e.ProfileID}, {"state", e.State}, {"starttime", e.StartMillis}, {"endtime", e.EndMillis}, {"message", e.Message}}
}
