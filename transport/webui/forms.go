package webui

import (
	"context"
	"crypto/subtle"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"raftmaster/transport/internal/uibase"
)

// The forms of Spark's page (MasterPage.scala, MasterWebUI.scala): POST /app/kill/, /driver/kill/ and /workers/kill/. They
// keep Spark's parameters, answers and settings. Unlike Spark's they are closed to strangers: a caller must hold the admin
// token or, while none is configured, be on this machine (docs/OPERATIONS.md, Security). And they answer what was
// committed: an id that nobody knows, or a master that does not lead, is said.

// Values of Options.DecommissionAllow.
const (
	AllowLocal = "LOCAL"
	AllowDeny  = "DENY"
	AllowAll   = "ALLOW"
)

// missingCSRF is what Spark 4.3.0 says.
const missingCSRF = "Missing or invalid CSRF token on a state-changing endpoint."

func (h *Handler) formRoutes() {
	for path, kind := range map[string]string{"/app/kill": KindApp, "/driver/kill": KindDriver} {
		serve := func(w http.ResponseWriter, r *http.Request) { h.serveKillForm(w, r, kind) }
		h.mux.HandleFunc(path, serve)
		h.mux.HandleFunc(path+"/{$}", serve)
	}
	h.mux.HandleFunc("/workers/kill", h.serveWorkersKill)
	h.mux.HandleFunc("/workers/kill/{$}", h.serveWorkersKill)
}

// killShown tells whether the pages for this caller have kill buttons: where a press of one may succeed.
func (h *Handler) killShown(r *http.Request, st Status) bool {
	if !h.opts.KillEnabled || h.opts.Operations == nil || st.State != StateAlive || !st.LeaseValid {
		return false
	}
	held := credentialsOf(r).any()
	if held == nil {
		held = &Token{Operate: true} // the browser asks for it when the button is pressed
	}
	return h.mayUseForms(r, held).status == 0
}

// mayUseForms is mayChange for the forms. Pages that are forwarded below /proxy/ share the origin of this master, so that
// their scripts may do what their reader may: then being on this machine is not enough.
func (h *Handler) mayUseForms(r *http.Request, held *Token) refusal {
	if h.opts.ReverseProxy && h.tokens == nil {
		return refusal{http.StatusForbidden, "with spark.ui.reverseProxy the kill forms need an admin token, and none is configured: use raftctl kill on the leader's machine"}
	}
	return h.mayChange(r, held)
}

func (h *Handler) serveKillForm(w http.ResponseWriter, r *http.Request, kind string) {
	if !uibase.AllowMethods(w, r, http.MethodPost) {
		return
	}
	if !h.opts.KillEnabled || h.opts.Operations == nil {
		h.message(w, r, http.StatusMethodNotAllowed, "Nothing was changed", "Killing from the web UI is switched off (spark.ui.killEnabled).")
		return
	}
	if !h.readForm(w, r) {
		return
	}
	// No page can make a browser send a bearer token, so that who does needs no other proof.
	given := r.Form.Get("csrfToken")
	if credentialsOf(r).bearer == nil && subtle.ConstantTimeCompare([]byte(given), []byte(h.csrfToken)) != 1 {
		h.message(w, r, http.StatusForbidden, "Nothing was changed", missingCSRF)
		return
	}
	if no := h.mayUseForms(r, credentialsOf(r).any()); no.status != 0 {
		h.refuseForm(w, r, no)
		return
	}
	terminate, err := strconv.ParseBool(strings.ToLower(orElse(r.Form.Get("terminate"), "false")))
	if err != nil {
		h.message(w, r, http.StatusBadRequest, "Nothing was changed", "terminate must be true or false.")
		return
	}
	id := r.Form.Get("id")
	if !terminate || id == "" {
		h.toIndex(w) // as Spark: nothing is asked for
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), operationTimeout)
	defer cancel()
	h.opts.Log.Info("a kill was asked for in the web UI", "kind", kind, "id", id, "caller", r.RemoteAddr)
	req := KillRequest{Kind: kind, ID: id}
	_, err = h.opts.Operations.Kill(ctx, req)
	h.operated(r, "kill", req, err)
	if err != nil {
		h.formFailed(w, r, err)
		return
	}
	h.toIndex(w)
}

// readForm refuses foreign pages and reads the parameters, from the address and from the body as Spark does.
func (h *Handler) readForm(w http.ResponseWriter, r *http.Request) bool {
	if !h.sameOrigin(r) {
		h.message(w, r, http.StatusForbidden, "Nothing was changed", "Calls from pages of other sites are refused. A proxy in front must pass the "+
			"Host of the browser on, or be named by spark.ui.reverseProxyUrl.")
		return false
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxBodyBytes)
	if err := r.ParseForm(); err != nil {
		h.message(w, r, http.StatusBadRequest, "Nothing was changed", "The form cannot be read.")
		return false
	}
	return true
}

// toIndex sends the browser back to the main page.
func (h *Handler) toIndex(w http.ResponseWriter) {
	w.Header().Set("Location", h.root+"/")
	w.WriteHeader(http.StatusFound)
}

func (h *Handler) refuseForm(w http.ResponseWriter, r *http.Request, no refusal) {
	if no.status == http.StatusUnauthorized {
		askForToken(w, true)
	}
	h.message(w, r, no.status, "Nothing was changed", sentence(no.why))
}

// formFailed says why an operation was not done, and where it could be.
func (h *Handler) formFailed(w http.ResponseWriter, r *http.Request, err error) {
	h.opts.Log.Warn("a change was not made", "path", r.URL.Path, "caller", r.RemoteAddr, "error", err)
	var e *Error
	if !errors.As(err, &e) {
		e = &Error{Code: CodeInternal, Message: err.Error()}
		if errors.Is(err, context.DeadlineExceeded) {
			e.Code = CodeTimeout
		}
	}
	title := "Nothing was changed"
	if e.Code == CodeTimeout || e.Code == CodeInternal {
		title = "It is not known whether anything was changed"
	}
	page := messagePage{Title: title, Text: sentence(e.Message)}
	if e.Leader != nil {
		page.Link, page.LinkText = e.Leader.WebURL, "the leader, "+e.Leader.Address
	}
	h.writeMessage(w, r, codeStatus(e.Code), page)
}

// serveWorkersKill decommissions all workers of the given hosts: 200 without a body if there is one, 404 if none. Pages
// have no such form, so that calls of browsers are refused altogether.
func (h *Handler) serveWorkersKill(w http.ResponseWriter, r *http.Request) {
	if !uibase.AllowMethods(w, r, http.MethodPost) {
		return
	}
	if !h.opts.DecommissionEnabled || h.opts.Operations == nil {
		// A worker with the same setting would be marked, and live on (S33).
		h.message(w, r, http.StatusMethodNotAllowed, "Nothing was changed", "Decommissioning is switched off (spark.decommission.enabled).")
		return
	}
	if site := r.Header.Get("Sec-Fetch-Site"); r.Header.Get("Origin") != "" || (site != "" && site != "none") {
		h.message(w, r, http.StatusForbidden, "Nothing was changed", "Calls from web pages are refused.")
		return
	}
	if no := h.mayDecommission(r); no.status != 0 {
		h.refuseForm(w, r, no)
		return
	}
	if !h.readForm(w, r) {
		return
	}
	hosts := r.Form["host"]
	if len(hosts) == 0 {
		h.message(w, r, http.StatusNotFound, "Nothing was changed", "No host was given.")
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), operationTimeout)
	defer cancel()
	h.opts.Log.Info("a decommission was asked for", "hosts", strings.Join(hosts, " "), "caller", r.RemoteAddr)
	req := DecommissionRequest{Hosts: hosts}
	_, err := h.opts.Operations.Decommission(ctx, req)
	h.operated(r, "decommission", req, err)
	if err != nil {
		h.formFailed(w, r, err)
		return
	}
	w.Header().Set("Content-Length", "0")
	w.WriteHeader(http.StatusOK)
}

// mayDecommission applies spark.master.ui.decommission.allow.mode to the address of the connection, and the token where
// there is one. LOCAL does not take a forwarding proxy on this machine for the caller.
func (h *Handler) mayDecommission(r *http.Request) refusal {
	forwarded := forwardedBy(r)
	switch mode := orElse(h.opts.DecommissionAllow, AllowLocal); {
	case mode == AllowDeny:
		return refusal{http.StatusForbidden, "spark.master.ui.decommission.allow.mode is DENY"}
	case mode == AllowLocal && !ownAddress(r.RemoteAddr):
		return refusal{http.StatusForbidden, "spark.master.ui.decommission.allow.mode is LOCAL, and this call comes from another machine"}
	case mode == AllowLocal && forwarded != "":
		return refusal{http.StatusForbidden, "spark.master.ui.decommission.allow.mode is LOCAL, and this call came through a proxy (" + forwarded + ")"}
	case h.tokens != nil:
		return h.mayChange(r, credentialsOf(r).any())
	}
	return refusal{}
}

func orElse(s, fallback string) string {
	if s == "" {
		return fallback
	}
	return s
}

// sentence makes one of a message that starts and ends like an error.
func sentence(s string) string {
	if s == "" {
		return s
	}
	s = strings.ToUpper(s[:1]) + s[1:]
	if !strings.HasSuffix(s, ".") {
		s += "."
	}
	return s
}

// rootOf is the path under which a proxy in front shows these pages: "" for none.
func rootOf(reverseProxyURL string) string {
	u, err := url.Parse(reverseProxyURL)
	if err != nil {
		return ""
	}
	return strings.TrimRight(u.EscapedPath(), "/")
}
