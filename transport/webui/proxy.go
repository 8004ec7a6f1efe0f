package webui

import (
	"net"
	"net/http"
	"strings"

	"raftmaster/transport/uiproxy"
)

// A proxy on this machine makes every caller look like loopback. What follows recognises the usual ones by what they add
// to a request; one that adds nothing and rewrites the Host cannot be told from a local caller, hence the advice to
// configure a token.

func isLoopback(remote string) bool {
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// proxyHeaders are those by which proxies, load balancers and content networks name the caller or themselves;
// proxyPrefixes are families of such names. All are in the canonical form of net/http.
var (
	proxyHeaders = map[string]bool{
		"Forwarded": true, "Via": true, "X-Real-Ip": true, "X-Client-Ip": true, "X-Cluster-Client-Ip": true, "Client-Ip": true,
		"True-Client-Ip": true, "X-Remote-Addr": true, "X-Remote-Ip": true, "X-Host": true, "X-Proxyuser-Ip": true,
		"X-Request-Start": true, "X-Scheme": true, "Proxy-Connection": true, "Max-Forwards": true, "X-Varnish": true,
		"Cdn-Loop": true, "Fastly-Client-Ip": true, "Fly-Client-Ip": true, "X-Appengine-User-Ip": true, "X-Amzn-Trace-Id": true,
		"X-Cloud-Trace-Context": true,
	}
	proxyPrefixes = []string{"X-Forwarded", "X-Original", "X-Envoy-", "X-Proxy", "X-Azure-", "Cf-"}
)

// forwardedBy names the sign that a proxy has sent the request on, "" for none. An empty header counts: a proxy has
// cleared it.
func forwardedBy(r *http.Request) string {
	for name := range r.Header {
		if proxyHeaders[name] {
			return name
		}
		for _, p := range proxyPrefixes {
			if strings.HasPrefix(name, p) {
				return name
			}
		}
	}
	if !r.ProtoAtLeast(1, 1) {
		return r.Proto // what nginx speaks to its upstreams unless told otherwise; clients of today do not
	}
	return ""
}

// ownHost: host, as a caller wrote it, is a loopback name or address, or the host of this master's web URL.
func (h *Handler) ownHost(host string) bool {
	name := uiproxy.BareHost(host)
	if name == "" {
		return false
	}
	if ip := net.ParseIP(name); ip != nil && ip.IsLoopback() {
		return true
	}
	if name == "localhost" || strings.HasSuffix(name, ".localhost") {
		return true
	}
	return name == uiproxy.BareHost(h.ownName())
}

// ownName is the host, with its port, of this master's web URL; "" when it has none.
func (h *Handler) ownName() string { return hostOf(h.opts.State.Brief().WebURL) }
