package webui

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"
)

// fakeTokens knows who has which token.
type fakeTokens struct {
	of    map[string]Token
	reads bool
}

func (f fakeTokens) Find(given string) (Token, bool) { t, ok := f.of[given]; return t, ok }
func (f fakeTokens) ReadsNeedToken() bool            { return f.reads }

var twoTokens = map[string]Token{"look": {Name: "grafana"}, "act": {Name: "ann", Operate: true}}

func call(h *Handler, method, path, remote, auth, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.RemoteAddr, r.Host = remote, "localhost:8080"
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/json")
	}
	switch kind, value, _ := strings.Cut(auth, " "); kind {
	case "bearer":
		r.Header.Set("Authorization", "Bearer "+value)
	case "basic":
		r.SetBasicAuth("anybody", value)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestATokenThatMayReadChangesNothing(t *testing.T) {
	var done []Action
	f := newForms(func(o *Options) {
		o.Tokens = fakeTokens{of: twoTokens}
		o.Operated = func(a Action) { done = append(done, a) }
	})
	for auth, want := range map[string]int{"": 401, "bearer look": 403, "bearer act": 200, "bearer other": 401, "basic act": 401} {
		before := len(f.ops.kills)
		w := call(f.h, http.MethodPost, "/v1/kill", "192.0.2.1:1", auth, `{"kind":"app","id":"app-1"}`)
		if w.Code != want || (len(f.ops.kills) > before) != (want == 200) {
			t.Errorf("%q: %d, want %d: %s", auth, w.Code, want, w.Body)
		}
		if auth == "bearer look" && !strings.Contains(w.Body.String(), "grafana has the role read") {
			t.Errorf("%s", w.Body)
		}
	}
	if len(done) != 1 || done[0] != (Action{Actor: "ann", What: "kill", Request: "kind=app id=app-1"}) {
		t.Errorf("recorded: %+v", done)
	}
}

func TestActionsCarryTheNameOfTheirToken(t *testing.T) {
	var done []Action
	f := newForms(func(o *Options) { o.Operated = func(a Action) { done = append(done, a) } })
	post := func(body string) {
		t.Helper()
		call(f.h, http.MethodPost, "/v1/kill", "127.0.0.1:1", "", body)
	}
	post(`{"kind":"app","id":"app-1","dry_run":true}`)
	f.ops.err = errors.New("no")
	post(`{"kind":"app","id":"app-1"}`)
	if len(done) != 1 || done[0].Actor != "local" || done[0].Err == nil {
		t.Errorf("without a token: %+v", done)
	}
}

func TestReadsNeedATokenOnceAReadTokenIsConfigured(t *testing.T) {
	f := newFixture(leaderStatus())
	f.opts.Metrics = prometheus.NewRegistry()
	for _, reads := range []bool{false, true} {
		f.opts.Tokens = fakeTokens{of: twoTokens, reads: reads}
		h := NewHandler(f.opts)
		for _, path := range []string{"/", "/json/", "/environment/", "/v1/status", "/v1/events", "/v1/health", "/v1/nothing", "/nothing", "/log/",
			"/metrics/applications/json/", "/metrics/applications/prometheus/", "/metrics/applications/json"} {
			open := call(h, http.MethodGet, path, "127.0.0.1:1", "", "")
			if (open.Code == http.StatusUnauthorized) != reads {
				t.Errorf("%s without a token, reads %v: %d", path, reads, open.Code)
			}
			if reads && len(open.Header().Values("WWW-Authenticate")) != 2 {
				t.Errorf("%s does not say how: %v", path, open.Header())
			}
			for _, auth := range []string{"bearer look", "bearer act", "basic look"} {
				if w := call(h, http.MethodGet, path, "192.0.2.1:1", auth, ""); w.Code == http.StatusUnauthorized {
					t.Errorf("%s with %s: %d", path, auth, w.Code)
				}
			}
		}
		for _, path := range []string{"/healthz", "/readyz", "/leader", "/metrics", "/metrics/master/json/", "/metrics/master/prometheus/"} {
			if w := call(h, http.MethodGet, path, "192.0.2.1:1", "", ""); w.Code != http.StatusOK {
				t.Errorf("%s is for everybody: %d", path, w.Code)
			}
		}
	}
}

func TestAFormTellsAReaderWhyNot(t *testing.T) {
	f := newForms(func(o *Options) { o.Tokens = fakeTokens{of: twoTokens, reads: true} })
	if page := call(f.h, http.MethodGet, "/", "192.0.2.1:1", "basic look", ""); strings.Contains(page.Body.String(), "/app/kill/") {
		t.Error("a reader is shown the button")
	}
	if page := call(f.h, http.MethodGet, "/", "192.0.2.1:1", "basic act", ""); !strings.Contains(page.Body.String(), "/app/kill/") {
		t.Error("an operator is not shown the button")
	}
}

func TestGuessingIsSlowedDownPerAddress(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	log := &strings.Builder{}
	f := newFixture(leaderStatus())
	f.opts.Now, f.opts.Tokens = func() time.Time { return now }, fakeTokens{of: twoTokens}
	f.opts.Log = hclog.New(&hclog.LoggerOptions{Output: log})
	h := NewHandler(f.opts)
	try := func(remote, token string) int {
		return call(h, http.MethodGet, "/v1/status", remote, "bearer "+token, "").Code
	}
	for range 3 * maxGuesses { // a program with an old token
		if code := try("192.0.2.9:1", "old"); code != http.StatusOK {
			t.Fatalf("a repeated wrong token: %d", code)
		}
	}
	for i := range maxGuesses {
		if code := try("192.0.2.1:1", fmt.Sprint("guess", i)); code != http.StatusOK {
			t.Fatalf("guess %d: %d", i, code)
		}
	}
	for _, token := range []string{"one more", "act"} {
		if code := try("192.0.2.1:2", token); code != http.StatusTooManyRequests {
			t.Errorf("%s: %d", token, code)
		}
	}
	if code := try("192.0.2.2:1", "act"); code != http.StatusOK {
		t.Errorf("another address: %d", code)
	}
	if code := call(h, http.MethodGet, "/v1/status", "192.0.2.1:3", "", "").Code; code != http.StatusOK {
		t.Errorf("without a token: %d", code)
	}
	now = now.Add(guessEvery)
	if code := try("192.0.2.1:1", "act"); code != http.StatusOK {
		t.Errorf("after a while: %d", code)
	}
	if n := strings.Count(log.String(), "wrong tokens were presented"); n != 2 {
		t.Errorf("%d lines for two addresses in a minute:\n%s", n, log)
	}
	for _, secret := range []string{"guess1", "one more", "old"} {
		if strings.Contains(log.String(), secret) {
			t.Errorf("the log shows what was presented: %s", log)
		}
	}
	now = now.Add(guessNoise)
	try("192.0.2.1:1", "guess")
	if n := strings.Count(log.String(), "wrong tokens were presented"); n != 3 {
		t.Errorf("%d lines a minute later", n)
	}
}

func TestGuessersAreBounded(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	s := newGuesses(func() time.Time { return now })
	for i := range 3 * maxGuessers {
		s.failed(fmt.Sprint(i), sha256.Sum256([]byte{byte(i)}))
	}
	if len(s.of) > maxGuessers {
		t.Errorf("%d addresses are kept", len(s.of))
	}
	for ip, want := range map[string]string{"::ffff:10.0.0.1": "10.0.0.1", "10.0.0.1": "10.0.0.1", "2001:db8:1:2:3::4": "2001:db8:1:2::/64", "fe80::1%eth0": "fe80::/64", "odd": "odd"} {
		if got := guessKey(ip); got != want {
			t.Errorf("%s: %s", ip, got)
		}
	}
}
