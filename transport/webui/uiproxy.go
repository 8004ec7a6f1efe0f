package webui

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"path"
	"strings"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
)

// Limits of what is forwarded to the pages of workers and applications.
const (
	proxyDialTimeout   = 5 * time.Second
	proxyHeaderTimeout = 30 * time.Second
	maxProxied         = 64
	maxProxiedPerIP    = 16
	// maxProxiedBody bounds what a browser sends; the forms of Spark's pages are a few bytes.
	maxProxiedBody = 1 << 20
)

// uiProxy is /proxy/<id>/ (spark.ui.reverseProxy): it forwards to the UI address that a live worker, or an unfinished
// application, has registered, and nowhere else. Everybody who reaches the cluster port can register an address, so that
// it does not open what only this machine may reach: link-local addresses (of cloud metadata), and loopback, unless the
// peer itself is there.
type uiProxy struct {
	h      *Handler
	places *places
	proxy  *httputil.ReverseProxy
}

type targetKey struct{}

// proxyTarget is where one request goes.
type proxyTarget struct {
	base *url.URL
	// prefix is this master's path for the peer, "/proxy/<id>"; rest is the path at the peer, escaped.
	prefix, rest string
	// loopback: the peer may be dialed on loopback.
	loopback bool
}

func newUIProxy(h *Handler) *uiProxy {
	p := &uiProxy{h: h, places: newPlaces(maxProxied, maxProxiedPerIP)}
	p.proxy = &httputil.ReverseProxy{
		Rewrite:        p.rewrite,
		ModifyResponse: rewriteLocation,
		ErrorHandler:   p.failed,
		ErrorLog:       h.opts.Log.StandardLogger(&hclog.StandardLoggerOptions{InferLevels: true}),
		Transport: &http.Transport{
			DialContext:            dialPeer,
			Proxy:                  nil, // the peer itself, whatever the environment says
			ResponseHeaderTimeout:  proxyHeaderTimeout,
			TLSHandshakeTimeout:    proxyDialTimeout,
			MaxResponseHeaderBytes: 64 << 10,
			// A connection is dialed, and its address judged, for each request.
			DisableKeepAlives: true,
		},
	}
	return p
}

// ServeHTTP takes /proxy/<id> and everything below.
func (p *uiProxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id, rest, slash := strings.Cut(strings.TrimPrefix(r.URL.EscapedPath(), "/proxy/"), "/")
	target, err := p.target(id, "/"+rest)
	if err != nil {
		p.h.message(w, r, http.StatusNotFound, "Nothing to forward to", sentence(err.Error()))
		return
	}
	if !slash {
		w.Header().Set("Location", target.prefix+"/")
		w.WriteHeader(http.StatusMovedPermanently)
		return
	}
	ip := callerIP(r)
	if !p.places.take(r.Context(), ip, p.h.listWait) {
		w.Header().Set("Retry-After", "1")
		p.h.message(w, r, http.StatusServiceUnavailable, "Busy", "Too many pages are being forwarded: try again in a moment.")
		return
	}
	defer p.places.give(ip)
	// The peer's own headers count for its pages.
	for _, name := range []string{"Cache-Control", "X-Xss-Protection", "X-Content-Type-Options", "X-Frame-Options", "Content-Security-Policy"} {
		w.Header().Del(name)
	}
	// A recorder of a test has no deadline; the server's own is the shorter one then.
	if err := http.NewResponseController(w).SetWriteDeadline(time.Now().Add(answerTimeout)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		p.h.opts.Log.Debug("no deadline for the answer", "path", r.URL.Path, "error", err)
	}
	ctx, cancel := context.WithTimeout(context.WithValue(r.Context(), targetKey{}, target), answerTimeout)
	defer cancel()
	r = r.WithContext(ctx)
	r.Body = http.MaxBytesReader(w, r.Body, maxProxiedBody)
	p.proxy.ServeHTTP(w, r)
}

// target finds the registered address of a peer.
func (p *uiProxy) target(id, rest string) (*proxyTarget, error) {
	name, err := url.PathUnescape(id)
	if err != nil || p.h.opts.Details == nil {
		return nil, errors.New("there is no such worker or application")
	}
	ui, ok := p.h.opts.Details.PeerUI(name)
	if !ok {
		return nil, fmt.Errorf("no live worker and no running application has the id %q", name)
	}
	base, err := url.Parse(ui.URL)
	if err != nil || base.Host == "" || base.User != nil || (base.Scheme != "http" && base.Scheme != "https") {
		return nil, fmt.Errorf("%s has registered no web UI that can be forwarded to", name)
	}
	return &proxyTarget{base: base, prefix: p.h.root + "/proxy/" + url.PathEscape(name), rest: rest,
		loopback: loopbackHost(ui.RPCHost) || strings.EqualFold(bareHost(base.Host), bareHost(ui.RPCHost))}, nil
}

func loopbackHost(host string) bool {
	name := bareHost(host)
	ip := net.ParseIP(name)
	return name == "localhost" || ip != nil && ip.IsLoopback()
}

// rewrite makes the request to the peer. What proves who the caller is to this master stays here.
func (p *uiProxy) rewrite(pr *httputil.ProxyRequest) {
	t := pr.In.Context().Value(targetKey{}).(*proxyTarget)
	out := pr.Out
	out.URL.Scheme, out.URL.Host = t.base.Scheme, t.base.Host
	raw := strings.TrimRight(t.base.EscapedPath(), "/") + t.rest
	if decoded, err := url.PathUnescape(raw); err == nil {
		out.URL.Path, out.URL.RawPath = decoded, raw
	}
	out.Host = ""
	pr.SetXForwarded()
	out.Header.Set("X-Forwarded-Context", t.prefix) // what Spark's pages put in front of their links
	if p.h.bearer(pr.In) || p.h.basic(pr.In) {
		out.Header.Del("Authorization")
	}
	out.Header.Del("Upgrade") // a stream of its own would escape the limits here
}

// rewriteLocation leads redirects of the peer back through this master.
func rewriteLocation(resp *http.Response) error {
	t := resp.Request.Context().Value(targetKey{}).(*proxyTarget)
	location := resp.Header.Get("Location")
	if location == "" {
		return nil
	}
	u, err := url.Parse(location)
	if err != nil {
		resp.Header.Del("Location")
		return nil
	}
	if u.Host != "" && (u.Host != t.base.Host || u.Scheme != "" && u.Scheme != t.base.Scheme) {
		return nil // elsewhere: the browser's own business
	}
	if u.Host == "" && !strings.HasPrefix(u.Path, "/") {
		return nil // relative, which stays right
	}
	to := t.prefix + strings.TrimPrefix(orElse(u.EscapedPath(), "/"), strings.TrimRight(t.base.EscapedPath(), "/"))
	if u.RawQuery != "" {
		to += "?" + u.RawQuery
	}
	if u.Fragment != "" {
		to += "#" + u.EscapedFragment()
	}
	resp.Header.Set("Location", to)
	return nil
}

func (p *uiProxy) failed(w http.ResponseWriter, r *http.Request, err error) {
	p.h.opts.Log.Debug("a page could not be forwarded", "path", path.Clean(r.URL.Path), "error", err)
	status, text := http.StatusBadGateway, "The page cannot be reached from this master."
	var large *http.MaxBytesError
	switch {
	case errors.Is(err, errForbiddenPeer):
		status, text = http.StatusForbidden, "The registered address is one that this master does not forward to."
	case errors.As(err, &large):
		status, text = http.StatusRequestEntityTooLarge, "The request is too large to be forwarded."
	case errors.Is(err, context.DeadlineExceeded):
		status, text = http.StatusGatewayTimeout, "The page did not answer in time."
	}
	p.h.message(w, r, status, "Not forwarded", text)
}

// errForbiddenPeer: the address is not one of a worker or application.
var errForbiddenPeer = errors.New("address that is not forwarded to")

// dialPeer judges the address that is really dialed, after the name has been resolved.
func dialPeer(ctx context.Context, network, address string) (net.Conn, error) {
	t, ok := ctx.Value(targetKey{}).(*proxyTarget)
	d := net.Dialer{Timeout: proxyDialTimeout, Control: func(_, address string, _ syscall.RawConn) error {
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			return err
		}
		host, _, _ = strings.Cut(host, "%")
		return judgePeer(net.ParseIP(host), ok && t.loopback)
	}}
	return d.DialContext(ctx, network, address)
}

func judgePeer(ip net.IP, loopback bool) error {
	switch {
	case ip == nil, ip.IsUnspecified(), ip.IsMulticast(), ip.IsLinkLocalUnicast(), ip.IsLoopback() && !loopback:
		return errForbiddenPeer
	}
	return nil
}
