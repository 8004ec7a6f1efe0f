package uiproxy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
)

// Limits of what is forwarded.
const (
	dialTimeout   = 5 * time.Second
	headerTimeout = 30 * time.Second
	// pageTimeout bounds a whole page.
	pageTimeout = time.Minute
	// maxBody bounds what a browser sends; the forms of Spark's pages are a few bytes.
	maxBody = 1 << 20
	// maxHeader bounds the head of a page.
	maxHeader = 64 << 10
)

// Options are what a Proxy needs. All but Root are required.
type Options struct {
	// Lookup gives the web UI that a live worker, or an unfinished application, has registered.
	Lookup func(id string) (address string, ok bool)
	// OwnHost is the host of this master's own web UI.
	OwnHost func() string
	// Root is the path of these pages at a proxy in front, "" for none.
	Root string
	// Ours tells whether the Authorization of a request proves something to this master: it is not passed on then.
	Ours func(r *http.Request) bool
	// Say answers with a few words instead of a page.
	Say func(w http.ResponseWriter, r *http.Request, status int, title, text string)
	Log hclog.Logger
}

// Proxy is the handler of /proxy/. It may be used from any number of goroutines.
type Proxy struct {
	opts  Options
	proxy *httputil.ReverseProxy
}

type targetKey struct{}

// proxyTarget is where one request goes.
type proxyTarget struct {
	base *url.URL
	// prefix is this master's path for the peer, "/proxy/<id>"; rest is the path at the peer, escaped.
	prefix, rest string
	// loopback: the peer may be dialed on loopback.
	loopback bool
	// head are the headers that this master's own answers carry.
	head http.Header
}

// New makes a Proxy.
func New(opts Options) *Proxy {
	p := &Proxy{opts: opts}
	p.proxy = &httputil.ReverseProxy{
		Rewrite:        p.rewrite,
		ModifyResponse: rewriteAnswer,
		ErrorHandler:   p.failed,
		ErrorLog:       opts.Log.StandardLogger(&hclog.StandardLoggerOptions{InferLevels: true}),
		Transport: &http.Transport{
			DialContext:            dialPeer,
			Proxy:                  nil, // the peer itself, whatever the environment says
			ResponseHeaderTimeout:  headerTimeout,
			TLSHandshakeTimeout:    dialTimeout,
			MaxResponseHeaderBytes: maxHeader,
			// A connection is dialed, and its address judged, for each request.
			DisableKeepAlives: true,
		},
	}
	return p
}

// ServeHTTP takes /proxy/<id> and everything below. Headers that are set on w already go with words of this master only.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id, rest, slash := strings.Cut(strings.TrimPrefix(r.URL.EscapedPath(), "/proxy/"), "/")
	target, err := p.target(id, "/"+rest)
	if err != nil {
		p.opts.Say(w, r, http.StatusNotFound, "Nothing to forward to", strings.ToUpper(err.Error()[:1])+err.Error()[1:]+".")
		return
	}
	if !slash {
		w.Header().Set("Location", target.prefix+"/")
		w.WriteHeader(http.StatusMovedPermanently)
		return
	}
	// A recorder of a test has no deadline; the server's own is the shorter one then.
	if err := http.NewResponseController(w).SetWriteDeadline(time.Now().Add(pageTimeout)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		p.opts.Log.Debug("no deadline for the answer", "path", r.URL.Path, "error", err)
	}
	ctx, cancel := context.WithTimeout(context.WithValue(r.Context(), targetKey{}, target), pageTimeout)
	defer cancel()
	// The peer's own headers count for its pages.
	target.head = w.Header().Clone()
	clear(w.Header())
	r = r.WithContext(ctx)
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	p.proxy.ServeHTTP(w, r)
}

// target finds the registered address of a peer.
func (p *Proxy) target(id, rest string) (*proxyTarget, error) {
	name, err := url.PathUnescape(id)
	if err != nil || id == "" {
		return nil, errors.New("there is no such worker or application")
	}
	address, ok := p.opts.Lookup(name)
	if !ok {
		return nil, fmt.Errorf("no live worker and no running application has the id %q", name)
	}
	base, err := url.Parse(address)
	if err != nil || base.Host == "" || base.User != nil || (base.Scheme != "http" && base.Scheme != "https") {
		return nil, fmt.Errorf("%s has registered no web UI that can be forwarded to", name)
	}
	own := BareHost(p.opts.OwnHost())
	return &proxyTarget{base: base, prefix: p.opts.Root + "/proxy/" + url.PathEscape(name), rest: rest,
		loopback: loopbackHost(own) || BareHost(base.Host) == own}, nil
}

// loopbackHost tells whether a bare host is this machine's alone.
func loopbackHost(name string) bool {
	ip := net.ParseIP(name)
	return name == "localhost" || ip != nil && ip.IsLoopback()
}

// rewrite makes the request to the peer. What proves who the caller is to this master stays here.
func (p *Proxy) rewrite(pr *httputil.ProxyRequest) {
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
	if p.opts.Ours(pr.In) {
		out.Header.Del("Authorization")
	}
	out.Header.Del("Upgrade") // a stream of its own would escape the limits here
}

// rewriteAnswer keeps the peer's pages below their own path: with a service worker above it a peer would answer for this
// master's pages too, and Clear-Site-Data would empty what the browser holds of them.
func rewriteAnswer(resp *http.Response) error {
	resp.Header.Del("Service-Worker-Allowed")
	resp.Header.Del("Clear-Site-Data")
	if location := resp.Header.Get("Location"); location != "" {
		rewriteLocation(resp, location)
	}
	return nil
}

// rewriteLocation leads redirects of the peer back through this master.
func rewriteLocation(resp *http.Response, location string) {
	t := resp.Request.Context().Value(targetKey{}).(*proxyTarget)
	u, err := url.Parse(location)
	if err != nil {
		resp.Header.Del("Location")
		return
	}
	if u.Host != "" && (u.Host != t.base.Host || u.Scheme != "" && u.Scheme != t.base.Scheme) {
		return // elsewhere: the browser's own business
	}
	if u.Host == "" && !strings.HasPrefix(u.Path, "/") {
		return // relative, which stays right
	}
	to := t.prefix + strings.TrimPrefix(cmp.Or(u.EscapedPath(), "/"), strings.TrimRight(t.base.EscapedPath(), "/"))
	if u.RawQuery != "" {
		to += "?" + u.RawQuery
	}
	if u.Fragment != "" {
		to += "#" + u.EscapedFragment()
	}
	resp.Header.Set("Location", to)
}

func (p *Proxy) failed(w http.ResponseWriter, r *http.Request, err error) {
	p.opts.Log.Debug("a page could not be forwarded", "path", path.Clean(r.URL.Path), "error", err)
	if t, ok := r.Context().Value(targetKey{}).(*proxyTarget); ok {
		maps.Copy(w.Header(), t.head)
	}
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
	p.opts.Say(w, r, status, "Not forwarded", text)
}

// errForbiddenPeer: the address is not one of a worker or application.
var errForbiddenPeer = errors.New("address that is not forwarded to")

// dialPeer judges the address that is really dialed, after the name has been resolved.
func dialPeer(ctx context.Context, network, address string) (net.Conn, error) {
	t, ok := ctx.Value(targetKey{}).(*proxyTarget)
	d := net.Dialer{Timeout: dialTimeout, Control: func(_, address string, _ syscall.RawConn) error {
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			return err
		}
		host, _, _ = strings.Cut(host, "%")
		return judgePeer(net.ParseIP(host), ok && t.loopback)
	}}
	return d.DialContext(ctx, network, address)
}

// metadataAddresses are those of cloud metadata services that are not link-local: of AWS (IPv6) and of Alibaba Cloud.
var metadataAddresses = []net.IP{net.ParseIP("fd00:ec2::254"), net.ParseIP("100.100.100.200")}

func judgePeer(ip net.IP, loopback bool) error {
	switch {
	case ip == nil, ip.IsUnspecified(), ip.IsMulticast(), ip.IsLinkLocalUnicast(), ip.IsLoopback() && !loopback,
		slices.ContainsFunc(metadataAddresses, ip.Equal):
		return errForbiddenPeer
	}
	return nil
}

// BareHost is a host without port, brackets and final dot, in lower case.
func BareHost(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	return strings.ToLower(strings.TrimSuffix(host, "."))
}
