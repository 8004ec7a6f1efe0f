package webui

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

func TestMethods(t *testing.T) {
	f := newFixture(leaderStatus())
	f.opts.Metrics = prometheus.NewRegistry()
	for _, path := range []string{"/", "/json/", "/json", "/healthz", "/readyz", "/leader", "/metrics", "/v1/status", "/v1/peers", "/v1/workers", "/v1/apps", "/v1/executors", "/v1/events",
		"/v1/drivers", "/v1/driver?id=x", "/v1/app?id=x", "/v1/why-waiting?id=x", "/v1/incompatible", "/app/?appId=x", "/app/json/", "/environment/", "/log/", "/logPage/",
		"/metrics/master/json/", "/metrics/master/prometheus/", "/metrics/applications/json/", "/metrics/applications/prometheus/", "/app", "/environment"} {
		for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodTrace} {
			if w := f.do(httptest.NewRequest(method, path, nil)); w.Code != http.StatusMethodNotAllowed {
				t.Errorf("%s %s: %d", method, path, w.Code)
			}
		}
		get, head := f.get(path), f.do(httptest.NewRequest(http.MethodHead, path, nil))
		// The body that promhttp writes is dropped by net/http's server, not by a recorder.
		if head.Code != get.Code || (head.Body.Len() != 0 && path != "/metrics") {
			t.Errorf("HEAD %s: %d with %d bytes; GET gives %d", path, head.Code, head.Body.Len(), get.Code)
		}
	}
	if w := f.get("/v1/transfer-leadership"); w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != "POST" {
		t.Errorf("GET of a transfer: %d, Allow %q", w.Code, w.Header().Get("Allow"))
	}
}

// TestG72_UnknownPathsAreNotFound: a mistyped address is not taken for a success; Spark shows its main page with 200.
func TestG72_UnknownPathsAreNotFound(t *testing.T) {
	f := newFixture(leaderStatus())
	for _, path := range []string{"/no/such/page", "/metrics/json", "/metrics/prometheus", "/app/nothing", "/static/webui.css"} {
		w := f.get(path)
		if w.Code != http.StatusNotFound {
			t.Errorf("%s: %d", path, w.Code)
		}
		mustContain(t, w.Body.String(), path, "Main page")
	}
	if w := f.get("/<script>alert(1)</script>"); strings.Contains(w.Body.String(), "<script>") {
		t.Error("the path is not escaped")
	}
	if w := f.get("/v1/nothing"); w.Code != http.StatusNotFound || !strings.Contains(w.Body.String(), CodeNotFound) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestHeaders(t *testing.T) {
	f := newFixture(leaderStatus())
	first, second := f.get("/").Header().Get("Content-Security-Policy"), f.get("/").Header().Get("Content-Security-Policy")
	if first == second {
		t.Error("two answers share a nonce")
	}
	w := f.get("/v1/status")
	for name, want := range map[string]string{"Cache-Control": "no-cache, no-store, must-revalidate", "X-Frame-Options": "SAMEORIGIN",
		"X-Xss-Protection": "0", "X-Content-Type-Options": "nosniff", "Content-Type": "application/json;charset=utf-8"} {
		if got := w.Header().Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	f.opts.AllowFramingFrom, f.opts.XXSSProtection, f.opts.ContentSecurityPolicy = "https://portal.example", "1; mode=block", false
	w = f.get("/")
	if got := w.Header().Get("X-Frame-Options"); got != "ALLOW-FROM https://portal.example" {
		t.Error(got)
	}
	if got := w.Header().Get("X-Xss-Protection"); got != "1; mode=block" {
		t.Error(got)
	}
	if got := w.Header().Get("Content-Security-Policy"); got != "" {
		t.Error(got)
	}
}

func TestGzip(t *testing.T) {
	f := newFixture(leaderStatus())
	req := httptest.NewRequest(http.MethodGet, "/v1/status", nil)
	req.Header.Set("Accept-Encoding", "br, gzip;q=0.5")
	w := f.do(req)
	if w.Header().Get("Content-Encoding") != "gzip" {
		t.Fatal("not compressed")
	}
	zr, err := gzip.NewReader(w.Body)
	if err != nil {
		t.Fatal(err)
	}
	if got := drain(t, zr); got != f.get("/v1/status").Body.String() {
		t.Error("the compressed answer differs")
	}
	req.Header.Set("Accept-Encoding", "gzip;q=0")
	if w := f.do(req); w.Header().Get("Content-Encoding") != "" {
		t.Error("compressed although refused")
	}
}

// TestTransferAuthorization: who may change something.
func TestTransferAuthorization(t *testing.T) {
	const local, remote = "127.0.0.1:5000", "192.0.2.7:5000"
	cases := []struct {
		name, token, caller string
		header              map[string]string
		want                int
	}{
		{"loopback without token", "", local, nil, 200},
		{"IPv6 loopback without token", "", "[::1]:5000", nil, 200},
		{"remote without token", "", remote, nil, 403},
		{"loopback behind a proxy", "", local, map[string]string{"X-Forwarded-For": "192.0.2.7"}, 403},
		{"loopback with token configured", "secret", local, nil, 401},
		{"right token", "secret", remote, map[string]string{"Authorization": "Bearer secret"}, 200},
		{"wrong token", "secret", remote, map[string]string{"Authorization": "Bearer secreT"}, 401},
		{"empty token", "secret", remote, map[string]string{"Authorization": "Bearer "}, 401},
		{"other scheme", "secret", remote, map[string]string{"Authorization": "Basic secret"}, 401},
		{"web page", "", local, map[string]string{"Origin": "http://evil.example"}, 403},
		{"web page of the same host", "", local, map[string]string{"Sec-Fetch-Site": "same-origin"}, 403},
		{"form", "", local, map[string]string{"Content-Type": "text/plain"}, 415},
		{"no content type", "", local, map[string]string{"Content-Type": ""}, 415},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(leaderStatus())
			f.opts.Token = c.token
			req := httptest.NewRequest(http.MethodPost, "/v1/transfer-leadership", strings.NewReader(`{"to":"n2"}`))
			req.RemoteAddr, req.Host = c.caller, "localhost:8080"
			req.Header.Set("Content-Type", "application/json")
			for k, v := range c.header {
				req.Header.Set(k, v)
			}
			w := f.do(req)
			if w.Code != c.want {
				t.Errorf("status %d, want %d: %s", w.Code, c.want, w.Body)
			}
			if called := len(f.lead.asked) > 0; called != (c.want == 200) {
				t.Errorf("the transfer was asked for: %v", called)
			}
		})
	}
}

func TestTransferBodiesAndErrors(t *testing.T) {
	post := func(f *fixture, body string) *httptest.ResponseRecorder {
		req := httptest.NewRequest(http.MethodPost, "/v1/transfer-leadership", strings.NewReader(body))
		req.RemoteAddr, req.Host = "127.0.0.1:1", "localhost:8080"
		req.Header.Set("Content-Type", "application/json")
		return f.do(req)
	}
	f := newFixture(leaderStatus())
	if w := post(f, ""); w.Code != 200 || f.lead.asked[0] != (TransferRequest{}) {
		t.Errorf("an empty body: %d %v", w.Code, f.lead.asked)
	}
	for _, body := range []string{"{", `{"too":"n2"}`, `{"to":"` + strings.Repeat("x", maxBodyBytes) + `"}`} {
		if w := post(f, body); w.Code != 400 || !strings.Contains(w.Body.String(), CodeBadRequest) {
			t.Errorf("%.20s: %d %s", body, w.Code, w.Body)
		}
	}
	for code, want := range map[string]int{CodeNotLeader: 409, CodeNoLeader: 503, CodeRefused: 409, CodeTimeout: 504, CodeNotFound: 404, CodeBadRequest: 400} {
		f.lead.err = &Error{Code: code, Message: "because", Leader: &Leader{Address: "x:1"}}
		w := post(f, "{}")
		var e Error
		if err := json.Unmarshal(w.Body.Bytes(), &e); err != nil || w.Code != want || e.Code != code || e.Message != "because" || e.Leader.Address != "x:1" {
			t.Errorf("%s: %d %s", code, w.Code, w.Body)
		}
	}
	f.lead.err = errors.New("disk full")
	if w := post(f, "{}"); w.Code != 500 || !strings.Contains(w.Body.String(), "disk full") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	f.opts.Leadership = nil
	if w := post(f, "{}"); w.Code != http.StatusNotImplemented {
		t.Errorf("without a Leadership: %d", w.Code)
	}
}

// Lists are arrays and never null: clients of many languages iterate over them.
func TestAPIListsAreNeverNull(t *testing.T) {
	f := newFixture(Status{State: StateStandby, Role: RoleFresh})
	for _, path := range []string{"/v1/status", "/v1/health", "/v1/peers", "/v1/workers", "/v1/apps", "/v1/executors", "/v1/events"} {
		var v map[string]any
		if err := json.Unmarshal(f.get(path).Body.Bytes(), &v); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"peers", "workers", "apps", "executors", "events", "alarms", "leader_changes"} {
			if got, ok := v[name]; ok && got == nil {
				t.Errorf("%s: %s is null", path, name)
			}
		}
	}
}

func TestExecutorsOfOneApplication(t *testing.T) {
	f := newFixture(leaderStatus())
	f.state.executors = []Executor{{AppID: "a", ID: 0}, {AppID: "b", ID: 0}, {AppID: "b", ID: 1}}
	var all, one ExecutorsAnswer
	if err := json.Unmarshal(f.get("/v1/executors").Body.Bytes(), &all); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(f.get("/v1/executors?app=b").Body.Bytes(), &one); err != nil {
		t.Fatal(err)
	}
	if len(all.Executors) != 3 || len(one.Executors) != 2 || one.Node != "10.0.0.1:7077" || one.AppliedIndex != 42 {
		t.Errorf("%+v, %+v", all, one)
	}
}

// A broken page must not take the connection down without an answer.
func TestPanicIsAnswered(t *testing.T) {
	f := newFixture(leaderStatus())
	f.opts.State = panicState{f.state}
	if w := f.get("/v1/workers"); w.Code != 500 || strings.Contains(w.Body.String(), "boom") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

type panicState struct{ State }

func (panicState) Cluster() Cluster { panic("boom") }
