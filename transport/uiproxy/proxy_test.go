package uiproxy

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// peerPages is a worker's web UI; the last request that it got is in seen.
func peerPages(t *testing.T) (s *httptest.Server, seen *http.Request) {
	t.Helper()
	seen = &http.Request{}
	s = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*seen = *r
		switch r.URL.Path {
		case "/away":
			w.Header().Set("Location", "http://elsewhere.example/x")
			w.WriteHeader(http.StatusFound)
		case "/absolute":
			w.Header().Set("Location", "http://"+r.Host+"/jobs/?id=1#top")
			w.WriteHeader(http.StatusFound)
		case "/rooted":
			w.Header().Set("Location", "/jobs/")
			w.WriteHeader(http.StatusFound)
		case "/relative":
			w.Header().Set("Location", "next")
			w.WriteHeader(http.StatusFound)
		case "/large":
			if _, err := io.Copy(io.Discard, r.Body); err != nil {
				return
			}
		default:
			w.Header().Set("X-Peer", "yes")
			w.Header().Set("Service-Worker-Allowed", "/")
			w.Header().Set("Clear-Site-Data", "*")
			_, _ = io.WriteString(w, "page "+r.URL.RequestURI())
		}
	}))
	t.Cleanup(s.Close)
	return s, seen
}

// proxied forwards to the given addresses; own is this master's host, and "ours" its token.
func proxied(own string, peers map[string]string) *Proxy {
	return New(Options{
		Lookup:  func(id string) (string, bool) { u, ok := peers[id]; return u, ok },
		OwnHost: func() string { return own },
		Ours:    func(r *http.Request) bool { return r.Header.Get("Authorization") == "Bearer ours" },
		Say: func(w http.ResponseWriter, _ *http.Request, status int, title, text string) {
			http.Error(w, title+": "+text, status)
		},
		Log: hclog.NewNullLogger(),
	})
}

func get(p *Proxy, target string, header map[string]string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, target, nil)
	for k, v := range header {
		r.Header.Set(k, v)
	}
	w := httptest.NewRecorder()
	w.Header().Set("X-Master", "yes")
	p.ServeHTTP(w, r)
	return w
}

// TestG69_ReverseProxy: the pages of a registered peer, with its redirects, and without the caller's token.
func TestG69_ReverseProxy(t *testing.T) {
	peer, seen := peerPages(t)
	p := proxied("127.0.0.1:8080", map[string]string{"worker-1": peer.URL})
	w := get(p, "/proxy/worker-1/logPage/?a=b%2Fc", map[string]string{"Authorization": "Bearer ours", "X-Forwarded-For": "6.6.6.6",
		"X-Forwarded-Context": "/evil", "Upgrade": "websocket", "Connection": "Upgrade"})
	if w.Code != 200 || w.Body.String() != "page /logPage/?a=b%2Fc" {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	if h := w.Header(); h.Get("Service-Worker-Allowed")+h.Get("Clear-Site-Data") != "" {
		t.Errorf("the peer reaches beyond its own pages: %v", h)
	}
	if w.Header().Get("X-Peer") != "yes" || w.Header().Get("X-Master") != "" {
		t.Errorf("headers of the answer: %v", w.Header())
	}
	if h := seen.Header; h.Get("Authorization") != "" || h.Get("Upgrade") != "" || h.Get("X-Forwarded-For") != "192.0.2.1" || h.Get("X-Forwarded-Context") != "/proxy/worker-1" {
		t.Errorf("the peer was sent %v", h)
	}
	if get(p, "/proxy/worker-1/", map[string]string{"Authorization": "Bearer theirs"}); seen.Header.Get("Authorization") != "Bearer theirs" {
		t.Error("the peer's own credentials do not reach it")
	}
	for path, want := range map[string]string{"/proxy/worker-1/absolute": "/proxy/worker-1/jobs/?id=1#top", "/proxy/worker-1/rooted": "/proxy/worker-1/jobs/",
		"/proxy/worker-1/away": "http://elsewhere.example/x", "/proxy/worker-1/relative": "next", "/proxy/worker-1": "/proxy/worker-1/"} {
		if got := get(p, path, nil).Header().Get("Location"); got != want {
			t.Errorf("%s leads to %q, want %q", path, got, want)
		}
	}
	for _, path := range []string{"/proxy/worker-2/", "/proxy/", "/proxy/http:%2F%2Fevil.example/", "/proxy/127.0.0.1:8080/"} {
		if w := get(p, path, nil); w.Code != 404 {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
	large := httptest.NewRequest(http.MethodPost, "/proxy/worker-1/large", strings.NewReader(strings.Repeat("x", maxBody+1)))
	rec := httptest.NewRecorder()
	p.ServeHTTP(rec, large)
	if rec.Code != http.StatusRequestEntityTooLarge {
		t.Errorf("a large body: %d", rec.Code)
	}
	peer.Close()
	if w := get(p, "/proxy/worker-1/", nil); w.Code != http.StatusBadGateway || w.Header().Get("X-Master") != "yes" {
		t.Errorf("a peer that is gone: %d %v", w.Code, w.Header())
	}
}

// TestG69_PathPrefixes: behind another proxy, and for a peer whose pages are below a path.
func TestG69_PathPrefixes(t *testing.T) {
	peer, seen := peerPages(t)
	p := proxied("localhost", map[string]string{"app-1": peer.URL + "/ui/"})
	p.opts.Root = "/spark"
	if w := get(p, "/proxy/app-1/rooted", nil); seen.URL.Path != "/ui/rooted" || w.Body.String() != "page /ui/rooted" {
		t.Errorf("the peer was asked for %s", seen.URL.Path)
	}
	if got := get(p, "/proxy/app-1", nil).Header().Get("Location"); got != "/spark/proxy/app-1/" {
		t.Errorf("%q", got)
	}
}

// TestG69_ProxyReachesPeersOnly: an address that somebody registers does not open what only this machine may reach.
func TestG69_ProxyReachesPeersOnly(t *testing.T) {
	peer, seen := peerPages(t)
	port := peer.URL[strings.LastIndex(peer.URL, ":"):]
	for name, address := range map[string]string{
		"loopback":         peer.URL,
		"name of loopback": "http://localhost" + port,
		"mapped loopback":  "http://[::ffff:127.0.0.1]" + port,
		"metadata service": "http://169.254.169.254/",
		"link-local":       "http://[fe80::1]:80/",
		"unspecified":      "http://0.0.0.0" + port,
		"user":             "http://u:p@127.0.0.1" + port,
		"file":             "file:///etc/passwd",
		"no address":       "",
		"broken":           "http://%zz",
	} {
		w := get(proxied("master.example:8080", map[string]string{"w": address}), "/proxy/w/", nil)
		if w.Code != 403 && w.Code != 404 {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
	}
	if seen.URL != nil {
		t.Errorf("the page was asked for: %v", seen.URL)
	}
	// A worker beside the master whose shared name is a loopback address there, as Debian writes it into /etc/hosts.
	if w := get(proxied("localhost:8080", map[string]string{"w": "http://localhost" + port}), "/proxy/w/", nil); w.Code != 200 {
		t.Errorf("on the master's own name: %d", w.Code)
	}
	for ip, want := range map[string]bool{"10.0.0.1": true, "2001:db8::1": true, "127.0.0.1": false, "169.254.1.1": false, "224.0.0.1": false, "::": false, "::1": false,
		"fd00:ec2::254": false, "fd00:ec2::253": true, "100.100.100.200": false, "::ffff:100.100.100.200": false, "100.100.100.201": true} {
		if got := judgePeer(net.ParseIP(ip), false) == nil; got != want {
			t.Errorf("%s: %v", ip, got)
		}
	}
}
