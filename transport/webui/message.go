package webui

import (
	"bytes"
	_ "embed"
	"html/template"
	"net/http"
)

//go:embed assets/message.html
var messageHTML string

var messageTemplate = template.Must(template.New("message").Parse(messageHTML))

// messagePage is a page of a few words.
type messagePage struct {
	Title, Text string
	// Link leads on where LinkText says; "" for no link but the one to the main page.
	Link, LinkText string

	Root, Nonce string
	CSS         template.CSS
}

func (h *Handler) message(w http.ResponseWriter, r *http.Request, status int, title, text string) {
	h.writeMessage(w, r, status, messagePage{Title: title, Text: text})
}

func (h *Handler) writeMessage(w http.ResponseWriter, r *http.Request, status int, page messagePage) {
	page.Root, page.Nonce, page.CSS = h.root, nonceOf(r.Context()), template.CSS(clusterCSS)
	var body bytes.Buffer
	if err := messageTemplate.Execute(&body, page); err != nil {
		h.opts.Log.Error("cannot build a page", "path", r.URL.Path, "error", err)
		http.Error(w, "internal error", http.StatusInternalServerError)
		return
	}
	writeBody(w, r, status, "text/html;charset=utf-8", body.Bytes())
}

// serveUnknown says that there is no such page. Spark shows its main page with 200 for every unknown path; here a
// mistyped address of a scrape or of a health check is not taken for a success (G-72).
func (h *Handler) serveUnknown(w http.ResponseWriter, r *http.Request) {
	h.message(w, r, http.StatusNotFound, "No such page", "This master has no page "+r.URL.Path+". Metrics are at /metrics and "+
		"/metrics/master/json/, health at /healthz and /readyz, the cluster as JSON at /json/.")
}
