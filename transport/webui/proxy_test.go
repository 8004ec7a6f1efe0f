package webui

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// localPost is a change asked for from this machine, by the name of this machine.
func localPost(path, body string) *http.Request {
	req := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	req.RemoteAddr, req.Host = "127.0.0.1:5000", "localhost:8080"
	req.Header.Set("Content-Type", "application/json")
	return req
}

// TestF11ProxiedCallsNeedAToken: a reverse proxy on the master's machine must not lend its callers the rights of a local one.
func TestF11ProxiedCallsNeedAToken(t *testing.T) {
	try := func(token string, change func(*http.Request)) int {
		f := newFixture(leaderStatus())
		f.opts.Token = token
		req := localPost("/v1/transfer-leadership", "{}")
		change(req)
		w := f.do(req)
		if done := len(f.lead.asked) > 0; done != (w.Code == http.StatusOK) {
			t.Errorf("status %d, done %v", w.Code, done)
		}
		return w.Code
	}
	for _, name := range []string{"X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Forwarded-Server", "x-forwarded-anything",
		"Forwarded", "Via", "X-Real-IP", "CF-Connecting-IP", "Cf-Ray", "True-Client-IP", "X-Client-IP", "X-Envoy-External-Address", "X-Original-URL"} {
		for _, value := range []string{"192.0.2.7", ""} {
			if got := try("", func(r *http.Request) { r.Header.Set(name, value) }); got != http.StatusForbidden {
				t.Errorf("%s: %q: %d", name, value, got)
			}
			if got := try("s", func(r *http.Request) { r.Header.Set(name, value); r.Header.Set("Authorization", "Bearer s") }); got != http.StatusOK {
				t.Errorf("%s: %q with the token: %d", name, value, got)
			}
		}
	}
	if got := try("", func(r *http.Request) { r.Proto, r.ProtoMinor = "HTTP/1.0", 0 }); got != http.StatusForbidden {
		t.Errorf("HTTP/1.0, as nginx speaks it: %d", got)
	}
	for host, want := range map[string]int{
		"localhost": 200, "LOCALHOST:8080": 200, "localhost.": 200, "master.localhost:1": 200, "127.0.0.1:8080": 200, "127.77.1.1": 200,
		"[::1]:8080": 200, "[::1]": 200, "10.0.0.1:8080": 200, "10.0.0.1": 200,
		"": 403, "spark.example.com": 403, "10.0.0.2:8080": 403, "localhost.example.com": 403, "127.0.0.1.example.com": 403, "notlocalhost": 403, ":8080": 403,
	} {
		if got := try("", func(r *http.Request) { r.Host = host }); got != want {
			t.Errorf("Host %q: %d, want %d", host, got, want)
		}
	}
	if got := try("s", func(r *http.Request) { r.Host = "spark.example.com"; r.Header.Set("Authorization", "Bearer s") }); got != http.StatusOK {
		t.Errorf("any Host with the token: %d", got)
	}
}
