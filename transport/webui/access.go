package webui

import (
	"net"
	"net/http"
	"net/url"
	"strings"
)

// refusal is why a caller may not do something: the status of the answer and the reason in words. The zero value: he may.
type refusal struct {
	status int
	why    string
}

// mayChange judges a caller who wants to change something with this token, nil for none: it may do that, or no token is
// configured and the caller is on loopback, uses a name of this machine, and has not been forwarded by a proxy.
func (h *Handler) mayChange(r *http.Request, held *Token) refusal {
	switch {
	case h.tokens != nil && held == nil:
		return refusal{http.StatusUnauthorized, "this call needs the admin token"}
	case h.tokens != nil && !held.Operate:
		return refusal{http.StatusForbidden, "this call needs a token of the role operate, and " + held.Name + " has the role read"}
	case h.tokens != nil:
		return refusal{}
	case !isLoopback(r.RemoteAddr):
		return refusal{http.StatusForbidden, "no admin token is configured, so only a caller on the master's own machine may do this"}
	}
	if name := forwardedBy(r); name != "" {
		return refusal{http.StatusForbidden, "no admin token is configured, and this call came through a proxy (" + name + "): behind a proxy, set a token"}
	}
	if !h.ownHost(r.Host) {
		return refusal{http.StatusForbidden, "no admin token is configured, and the Host of this call is neither loopback nor this master's web UI: behind a proxy, set a token"}
	}
	return refusal{}
}

// authorize answers and returns false unless the caller may change something, see mayChange.
func (h *Handler) authorize(w http.ResponseWriter, r *http.Request) bool {
	no := h.mayChange(r, credentialsOf(r).bearer)
	if no.status == 0 {
		return true
	}
	if no.status == http.StatusUnauthorized {
		askForToken(w, false)
	}
	h.writeError(w, r, no.status, &Error{Code: CodeUnauthorized, Message: no.why})
	return false
}

// sameOrigin tells whether a request that a browser makes comes from a page of this very origin, or of the proxy in front
// that is configured (spark.ui.reverseProxyUrl). Browsers name the origin on every POST; what is no browser names none.
func (h *Handler) sameOrigin(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "none", "same-origin":
	default:
		return false
	}
	origin := r.Header.Get("Origin")
	if origin == "" {
		return true
	}
	u, err := url.Parse(origin)
	if err != nil || u.Host == "" {
		return false
	}
	if h.opts.ReverseProxy && strings.EqualFold(u.Host, hostOf(h.opts.ReverseProxyURL)) {
		return true
	}
	return strings.EqualFold(u.Host, r.Host)
}

// hostOf is the host, with its port, of an address; "" for none.
func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Host
}

// ownAddress tells whether a connection comes from this machine: loopback, or one of its own addresses. Only the address
// of the connection counts, never what a header says of it (G-66).
func ownAddress(remote string) bool {
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		return false
	}
	host, _, _ = strings.Cut(host, "%") // the zone of a link-local address
	ip := net.ParseIP(host)
	if ip == nil || ip.IsLoopback() {
		return ip != nil
	}
	own, err := net.InterfaceAddrs()
	if err != nil {
		return false
	}
	for _, a := range own {
		if n, ok := a.(*net.IPNet); ok && n.IP.Equal(ip) {
			return true
		}
	}
	return false
}
