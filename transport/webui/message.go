package webui

import (
	_ "embed"
	"net/http"

	"raftmaster/transport/internal/uibase"
)

//go:embed assets/message.html
var messageHTML string

var messageTemplate = uibase.ParsePage("message", messageHTML)

// messagePage is a page of a few words.
type messagePage struct {
	Title, Text string
	// Link leads on where LinkText says; "" for no link but the one to the main page.
	Link, LinkText string

	Root, Nonce string
}

func (h *Handler) message(w http.ResponseWriter, r *http.Request, status int, title, text string) {
	h.writeMessage(w, r, status, messagePage{Title: title, Text: text})
}

func (h *Handler) writeMessage(w http.ResponseWriter, r *http.Request, status int, page messagePage) {
	page.Root, page.Nonce = h.root, uibase.NonceOf(r.Context())
	h.writePage(w, r, status, messageTemplate, page)
}

// serveUnknown says that there is no such page. Spark shows its main page with 200 for every unknown path; here a
// mistyped address of a scrape or of a health check is not taken for a success (G-72).
func (h *Handler) serveUnknown(w http.ResponseWriter, r *http.Request) {
	h.message(w, r, http.StatusNotFound, "No such page", "This master has no page "+r.URL.Path+". Metrics are at /metrics and "+
		"/metrics/master/json/, health at /healthz and /readyz, the cluster as JSON at /json/.")
}
