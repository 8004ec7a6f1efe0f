package workerui

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"raftmaster/transport/uiproxy"
)

// running is a server over the fixture, with a client that follows no redirect.
func (f *fixture) running() (*Server, *http.Client) {
	f.t.Helper()
	f.opts.Host = "127.0.0.1"
	s, err := NewServer(f.opts, f.backend)
	if err != nil {
		f.t.Fatal(err)
	}
	s.Serve()
	client := &http.Client{Transport: &http.Transport{}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	f.t.Cleanup(func() {
		client.CloseIdleConnections()
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := s.Close(ctx); err != nil {
			f.t.Error(err)
		}
	})
	return s, client
}

func fetch(t *testing.T, c *http.Client, url string) (*http.Response, string) {
	t.Helper()
	resp, err := c.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		t.Fatal(err)
	}
	return resp, string(body)
}

// TestPortWalk: a busy port is passed over as Spark's UI does it, and the port is known before the first answer.
func TestPortWalk(t *testing.T) {
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = busy.Close() }()
	f := newFixture(t)
	f.opts.Host, f.opts.Port, f.opts.MaxRetries = "127.0.0.1", busy.Addr().(*net.TCPAddr).Port, 16
	s, err := NewServer(f.opts, f.backend)
	if err != nil {
		t.Fatal(err)
	}
	if s.Port() == f.opts.Port || s.Port() == 0 || !strings.HasSuffix(s.Addr().String(), ":"+strconv.Itoa(s.Port())) {
		t.Errorf("port %d after %d", s.Port(), f.opts.Port)
	}
	if err := s.Close(context.Background()); err != nil {
		t.Error(err)
	}
	f.opts.MaxRetries = 0
	if _, err := NewServer(f.opts, f.backend); err == nil || !strings.Contains(err.Error(), "WorkerUI") {
		t.Errorf("%v", err)
	}
	if _, err := NewServer(Options{Log: hclog.NewNullLogger()}, f.backend); err == nil {
		t.Error("no work directory is needed")
	}
}

// TestThroughTheMaster: the pages, their links, redirects and logs through /proxy/<id>/ of a master (spark.ui.reverseProxy).
func TestThroughTheMaster(t *testing.T) {
	f := newFixture(t)
	f.write("app-1/0/stderr", "through the proxy")
	s, client := f.running()
	id := f.backend.view.ID
	proxy := uiproxy.New(uiproxy.Options{
		Lookup:  func(given string) (string, bool) { return "http://" + s.Addr().String(), given == id },
		OwnHost: func() string { return "127.0.0.1" },
		Ours:    func(*http.Request) bool { return false },
		Say:     func(w http.ResponseWriter, _ *http.Request, status int, _, text string) { http.Error(w, text, status) },
		Log:     hclog.NewNullLogger(),
	})
	master := httptest.NewServer(proxy)
	defer master.Close()
	base := master.URL + "/proxy/" + id
	resp, body := fetch(t, client, base+"/")
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Security-Policy") == "" {
		t.Errorf("%d %v", resp.StatusCode, resp.Header)
	}
	mustContain(t, body, `href="logPage/?appId=`)
	resp, _ = fetch(t, client, base+"/json")
	to, err := resp.Location()
	if err != nil || to.String() != base+"/json/" {
		t.Errorf("a redirect leads to %v, %v", to, err)
	}
	_, body = fetch(t, client, base+"/logPage/?"+stderrOfApp1)
	mustContain(t, body, "through the proxy", `src="../static/log.js"`)
	resp, body = fetch(t, client, base+"/static/log.js")
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "text/javascript;charset=utf-8" {
		t.Errorf("%d %v", resp.StatusCode, resp.Header)
	}
	mustContain(t, body, "Load More")
	_, body = fetch(t, client, base+"/log/?"+stderrOfApp1)
	mustContain(t, body, "==== Bytes 0-17 of 17 of ", "through the proxy")
	_, body = fetch(t, client, base+"/download/?"+stderrOfApp1)
	if body != "through the proxy" {
		t.Errorf("%q", body)
	}
}

// TestCloseEndsDownloads: who downloads a long log does not hold up the end of the worker.
func TestCloseEndsDownloads(t *testing.T) {
	f := newFixture(t)
	if err := os.Truncate(f.write("app-1/0/stderr", ""), 1<<40); err != nil {
		t.Fatal(err)
	}
	f.opts.Host = "127.0.0.1"
	s, err := NewServer(f.opts, f.backend)
	if err != nil {
		t.Fatal(err)
	}
	s.Serve()
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	resp, err := client.Get("http://" + s.Addr().String() + "/download/?" + stderrOfApp1)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if _, err := io.CopyN(io.Discard, resp.Body, 1<<20); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { _, err := io.Copy(io.Discard, resp.Body); ended <- err }()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := s.Close(ctx); err != nil {
		t.Errorf("%v", err)
	}
	if err := <-ended; err == nil {
		t.Error("a part of a log looks like all of it")
	}
}

// TestTruncatedDownloadIsBroken: a log that becomes shorter while it is sent ends as a broken transfer, not as a whole one.
func TestTruncatedDownloadIsBroken(t *testing.T) {
	f := newFixture(t)
	path := f.write("app-1/0/stderr", "")
	if err := os.Truncate(path, 1<<30); err != nil {
		t.Fatal(err)
	}
	s, client := f.running()
	resp, err := client.Get("http://" + s.Addr().String() + "/download/?" + stderrOfApp1)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if err := os.Truncate(path, 1<<20); err != nil {
		t.Fatal(err)
	}
	if n, err := io.Copy(io.Discard, resp.Body); err == nil || n >= 1<<30 {
		t.Errorf("%d bytes, %v", n, err)
	}
}

// TestDownloadsLeavePlaces: one address gets its share of downloads, and the next is told to come again.
func TestDownloadsLeavePlaces(t *testing.T) {
	f := newFixture(t)
	f.write("app-1/0/stderr", "x")
	h := f.handler()
	for range maxDownloadsPerIP {
		if !h.downloads.Take(context.Background(), "192.0.2.1", 0) { // the address of httptest's requests
			t.Fatal("no place")
		}
	}
	w := serve(h, http.MethodGet, "/download/?"+stderrOfApp1)
	if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") != "1" {
		t.Errorf("%d", w.Code)
	}
	if w := serve(h, http.MethodGet, "/log/?"+stderrOfApp1); w.Code != http.StatusOK {
		t.Errorf("pages wait for downloads: %d", w.Code)
	}
	mustContain(t, serve(h, http.MethodGet, "/metrics").Body.String(), "raftmaster_worker_http_busy_total 1")
}
