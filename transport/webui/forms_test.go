package webui

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
)

// fakeOperations records what it was asked.
type fakeOperations struct {
	kills         []KillRequest
	decommissions []DecommissionRequest
	drains        []DrainRequest
	compat        []ClearIncompatibleRequest
	clears        int
	err           error
}

func (f *fakeOperations) Kill(_ context.Context, req KillRequest) (Kill, error) {
	f.kills = append(f.kills, req)
	return Kill{Kind: req.Kind, ID: req.ID, Done: true}, f.err
}

func (f *fakeOperations) Decommission(_ context.Context, req DecommissionRequest) (WorkerChange, error) {
	f.decommissions = append(f.decommissions, req)
	return WorkerChange{Changed: 1}, f.err
}

func (f *fakeOperations) Drain(_ context.Context, req DrainRequest) (WorkerChange, error) {
	f.drains = append(f.drains, req)
	return WorkerChange{Changed: 1}, f.err
}

func (f *fakeOperations) ClearCompleted(context.Context, ClearRequest) (Clear, error) {
	f.clears++
	return Clear{Apps: 2}, f.err
}

func (f *fakeOperations) ClearIncompatible(_ context.Context, req ClearIncompatibleRequest) (ClearIncompatible, error) {
	f.compat = append(f.compat, req)
	return ClearIncompatible{WorkerID: req.Worker}, f.err
}

// forms is a leader with kill forms, reached from its own machine.
type forms struct {
	*fixture
	ops *fakeOperations
	h   *Handler
}

func newForms(change func(*Options)) *forms {
	f := &forms{fixture: newFixture(leaderStatus()), ops: &fakeOperations{}}
	f.state.cluster = Cluster{
		Apps:    []App{{ID: "app-1", Name: "one", State: "RUNNING", Active: true}, {ID: "app-0", State: "FINISHED"}},
		Drivers: []Driver{{ID: "driver-1", State: "RUNNING", Active: true}, {ID: "driver-0", State: "FINISHED"}},
	}
	f.opts.Operations, f.opts.KillEnabled, f.opts.DecommissionEnabled = f.ops, true, true
	if change != nil {
		change(&f.opts)
	}
	f.h = NewHandler(f.opts)
	return f
}

const localCaller, remoteCaller = "127.0.0.1:5000", "192.0.2.7:5000"

// send makes one request; the header "caller" is the address of the connection.
func (f *forms) send(method, target string, form url.Values, header map[string]string) *httptest.ResponseRecorder {
	var r *http.Request
	if form == nil {
		r = httptest.NewRequest(method, target, nil)
	} else {
		r = httptest.NewRequest(method, target, strings.NewReader(form.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	r.RemoteAddr, r.Host = localCaller, "localhost:8080"
	for k, v := range header {
		switch k {
		case "caller":
			r.RemoteAddr = v
		case "Host":
			r.Host = v
		default:
			r.Header.Set(k, v)
		}
	}
	w := httptest.NewRecorder()
	f.h.ServeHTTP(w, r)
	return w
}

var tokenPattern = regexp.MustCompile(`name="csrfToken" value="([0-9a-f]{32})"`)

// csrf reads the token from the main page as this machine sees it.
func (f *forms) csrf(t *testing.T, header map[string]string) string {
	t.Helper()
	m := tokenPattern.FindStringSubmatch(f.send(http.MethodGet, "/", nil, header).Body.String())
	if m == nil {
		t.Fatal("the page has no form with a CSRF token")
	}
	return m[1]
}

// TestB112_KillFromUI: the form of the page ends an application or a driver and leads back to the main page, with the
// parameters in the body or in the address as Spark takes them.
func TestB112_KillFromUI(t *testing.T) {
	f := newForms(nil)
	token := f.csrf(t, nil)
	for path, want := range map[string]KillRequest{"/app/kill/": {Kind: KindApp, ID: "app-1"}, "/driver/kill/": {Kind: KindDriver, ID: "driver-1"}} {
		form := url.Values{"id": {want.ID}, "terminate": {"true"}, "csrfToken": {token}}
		for name, w := range map[string]*httptest.ResponseRecorder{
			"body":       f.send(http.MethodPost, path, form, nil),
			"address":    f.send(http.MethodPost, path+"?"+form.Encode(), nil, nil),
			"no slash":   f.send(http.MethodPost, strings.TrimRight(path, "/"), form, nil),
			"TRUE":       f.send(http.MethodPost, path, url.Values{"id": {want.ID}, "terminate": {"TRUE"}, "csrfToken": {token}}, nil),
			"own origin": f.send(http.MethodPost, path, form, map[string]string{"Origin": "http://localhost:8080", "Sec-Fetch-Site": "same-origin"}),
		} {
			if w.Code != http.StatusFound || w.Header().Get("Location") != "/" {
				t.Errorf("%s, %s: %d to %q: %s", path, name, w.Code, w.Header().Get("Location"), w.Body)
			}
		}
		if len(f.ops.kills) != 5 || f.ops.kills[4] != want {
			t.Errorf("%s: asked for %v", path, f.ops.kills)
		}
		f.ops.kills = nil
	}
}

// TestB112_FormFieldsAreSparks: the fields of the page's forms are those of the recorded page of 4.3.0.
func TestB112_FormFieldsAreSparks(t *testing.T) {
	field := regexp.MustCompile(`<input type="hidden" name="(\w+)"`)
	action := regexp.MustCompile(`action="/?((?:app|driver)/kill/)" method="POST"`)
	names := func(re *regexp.Regexp, text string) string {
		out := ""
		for _, m := range re.FindAllStringSubmatch(text, -1) {
			out += m[1] + " "
		}
		return out
	}
	recorded := readFile(t, "spark-4.3.0_ui_csrf.txt")
	page := newForms(nil).send(http.MethodGet, "/", nil, nil).Body.String()
	header := regexp.MustCompile(`<th[^>]*>((?:Submi|Main)[^<]*)</th>`)
	recordedHead := regexp.MustCompile(`(?s)<thead>.*?</thead>`).FindString(recorded)
	drivers := page[strings.Index(page, "Running Drivers"):]
	for _, m := range regexp.MustCompile(`<th[^>]*>([^<]*)</th>`).FindAllStringSubmatch(recordedHead, -1) {
		if !regexp.MustCompile(`<th[^>]*>` + m[1] + `</th>`).MatchString(drivers) {
			t.Errorf("the table of drivers has no column %q", m[1])
		}
	}
	if !header.MatchString(recordedHead) {
		t.Error("the recorded page has no table of drivers")
	}
	for _, re := range []*regexp.Regexp{field, action} {
		if got, want := names(re, page), names(re, recorded); got != want || want == "" {
			t.Errorf("ours %q, Spark's %q", got, want)
		}
	}
	// 3.5.9 has no CSRF token: a difference to that release.
	if strings.Contains(readFile(t, "spark-3.5.9_ui_csrf.txt"), "csrfToken") {
		t.Error("3.5.9 has a CSRF token after all")
	}
}

// TestB112_NothingIsAskedFor: what Spark takes for "no", and wrong requests, change nothing.
func TestB112_NothingIsAskedFor(t *testing.T) {
	f := newForms(nil)
	token := f.csrf(t, nil)
	for _, c := range []struct {
		name   string
		method string
		form   url.Values
		want   int
	}{
		{"terminate missing", http.MethodPost, url.Values{"id": {"app-1"}, "csrfToken": {token}}, http.StatusFound},
		{"terminate false", http.MethodPost, url.Values{"id": {"app-1"}, "terminate": {"false"}, "csrfToken": {token}}, http.StatusFound},
		{"id missing", http.MethodPost, url.Values{"terminate": {"true"}, "csrfToken": {token}}, http.StatusFound},
		{"terminate is no boolean", http.MethodPost, url.Values{"id": {"app-1"}, "terminate": {"maybe"}, "csrfToken": {token}}, http.StatusBadRequest},
		{"GET", http.MethodGet, nil, http.StatusMethodNotAllowed},
		{"HEAD", http.MethodHead, nil, http.StatusMethodNotAllowed},
		{"PUT", http.MethodPut, nil, http.StatusMethodNotAllowed},
		{"too large", http.MethodPost, url.Values{"id": {strings.Repeat("x", maxBodyBytes)}}, http.StatusBadRequest},
	} {
		if w := f.send(c.method, "/app/kill/", c.form, nil); w.Code != c.want {
			t.Errorf("%s: %d, want %d", c.name, w.Code, c.want)
		}
	}
	if len(f.ops.kills) != 0 {
		t.Errorf("killed: %v", f.ops.kills)
	}
}

// TestG66_KillNeedsTokens: a foreign page, a missing CSRF token, a stranger: each is refused, and nothing changes. Spark up
// to 4.2.0 serves all of them.
func TestG66_KillNeedsTokens(t *testing.T) {
	withToken := func(o *Options) { o.Token = "secret" }
	const right, wrong = "right", "wrong"
	basic := func(password string) string {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.SetBasicAuth("anybody", password)
		return r.Header.Get("Authorization")
	}
	for _, c := range []struct {
		name   string
		change func(*Options)
		csrf   string
		header map[string]string
		want   int
	}{
		{"this machine", nil, right, nil, 302},
		{"no CSRF token", nil, "", nil, 403},
		{"wrong CSRF token", nil, wrong, nil, 403},
		{"foreign origin", nil, right, map[string]string{"Origin": "http://evil.example"}, 403},
		{"null origin", nil, right, map[string]string{"Origin": "null"}, 403},
		{"foreign site", nil, right, map[string]string{"Sec-Fetch-Site": "cross-site"}, 403},
		{"name that was rebound", nil, right, map[string]string{"Host": "evil.example:8080"}, 403},
		{"another machine", nil, right, map[string]string{"caller": remoteCaller}, 403},
		{"a proxy on this machine", nil, right, map[string]string{"X-Forwarded-For": "192.0.2.7"}, 403},
		{"claims to be local", nil, right, map[string]string{"caller": remoteCaller, "X-Forwarded-For": "127.0.0.1"}, 403},
		{"admin token configured, none given", withToken, right, nil, 401},
		{"admin token as password", withToken, right, map[string]string{"caller": remoteCaller, "Authorization": basic("secret")}, 302},
		{"wrong password", withToken, right, map[string]string{"Authorization": basic("other")}, 401},
		{"password without CSRF token", withToken, "", map[string]string{"Authorization": basic("secret")}, 403},
		{"bearer needs no CSRF token", withToken, "", map[string]string{"caller": remoteCaller, "Authorization": "Bearer secret"}, 302},
		{"wrong bearer", withToken, "", map[string]string{"Authorization": "Bearer other"}, 403},
		{"bearer from a foreign page", withToken, right, map[string]string{"Authorization": "Bearer secret", "Origin": "http://evil.example"}, 403},
		{"reverse proxy and no token", func(o *Options) { o.ReverseProxy = true }, right, nil, 403},
		{"reverse proxy and a token", func(o *Options) { o.ReverseProxy, o.Token = true, "secret" }, right, map[string]string{"Authorization": basic("secret")}, 302},
		{"the proxy in front", func(o *Options) {
			o.ReverseProxy, o.ReverseProxyURL, o.Token = true, "https://portal.example/spark", "secret"
		}, right, map[string]string{"Authorization": basic("secret"), "Origin": "https://portal.example"}, 302},
		{"another site behind the proxy in front", func(o *Options) {
			o.ReverseProxy, o.ReverseProxyURL, o.Token = true, "https://portal.example/spark", "secret"
		}, right, map[string]string{"Authorization": basic("secret"), "Origin": "https://other.example"}, 403},
		{"switched off", func(o *Options) { o.KillEnabled = false }, right, nil, 405},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newForms(c.change)
			token := map[string]string{right: f.h.csrfToken, wrong: strings.Repeat("0", 32), "": ""}[c.csrf]
			w := f.send(http.MethodPost, "/driver/kill/", url.Values{"id": {"driver-1"}, "terminate": {"true"}, "csrfToken": {token}}, c.header)
			if w.Code != c.want {
				t.Errorf("%d, want %d: %s", w.Code, c.want, w.Body)
			}
			if done := len(f.ops.kills) == 1; done != (c.want == 302) {
				t.Errorf("killed: %v", f.ops.kills)
			}
			if c.want == 401 && !strings.HasPrefix(w.Header().Get("WWW-Authenticate"), "Basic ") {
				t.Errorf("the browser is not told to ask: %v", w.Header())
			}
		})
	}
	w := newForms(nil).send(http.MethodPost, "/app/kill/", url.Values{"id": {"app-1"}, "terminate": {"true"}}, nil)
	mustContain(t, w.Body.String(), missingCSRF)
	if one, other := newForms(nil), newForms(nil); one.h.csrfToken == other.h.csrfToken {
		t.Error("two processes share a CSRF token")
	}
}

// TestG66_ButtonsWhereTheyWork: the page has kill buttons for callers whose press could succeed, and for what is unfinished.
func TestG66_ButtonsWhereTheyWork(t *testing.T) {
	count := func(f *forms, header map[string]string) int {
		return strings.Count(f.send(http.MethodGet, "/", nil, header).Body.String(), `name="csrfToken"`)
	}
	if n := count(newForms(nil), nil); n != 2 {
		t.Errorf("%d forms for one application and one driver", n)
	}
	for name, n := range map[string]int{
		"another machine": count(newForms(nil), map[string]string{"caller": remoteCaller}),
		"foreign name":    count(newForms(nil), map[string]string{"Host": "evil.example"}),
		"switched off":    count(newForms(func(o *Options) { o.KillEnabled = false }), nil),
		"standby": func() int {
			f := newForms(nil)
			f.state.status = standbyStatus()
			return count(f, nil)
		}(),
	} {
		if n != 0 {
			t.Errorf("%s: %d forms", name, n)
		}
	}
	if n := count(newForms(func(o *Options) { o.Token = "secret" }), map[string]string{"caller": remoteCaller}); n != 2 {
		t.Errorf("with a token configured the browser can ask for it: %d forms", n)
	}
}

// TestG74_FormsOnAStandby: the answer names the leader, and links to it.
func TestG74_FormsOnAStandby(t *testing.T) {
	f := newForms(nil)
	f.state.status = standbyStatus()
	f.ops.err = &Error{Code: CodeNotLeader, Message: "this master is not the leader; the leader is 10.0.0.1:7077",
		Leader: &Leader{Address: "10.0.0.1:7077", WebURL: "http://10.0.0.1:8080"}}
	w := f.send(http.MethodPost, "/app/kill/", url.Values{"id": {"app-1"}, "terminate": {"true"}, "csrfToken": {f.h.csrfToken}}, nil)
	if w.Code != http.StatusConflict {
		t.Errorf("%d", w.Code)
	}
	mustContain(t, w.Body.String(), "Nothing was changed", "the leader is 10.0.0.1:7077", `href="http://10.0.0.1:8080"`)
	if w := f.send(http.MethodPost, "/workers/kill/", url.Values{"host": {"h"}}, nil); w.Code != http.StatusConflict {
		t.Errorf("%d", w.Code)
	}
	f.ops.err = &Error{Code: CodeTimeout, Message: "no answer"}
	w = f.send(http.MethodPost, "/app/kill/", url.Values{"id": {"app-1"}, "terminate": {"true"}, "csrfToken": {f.h.csrfToken}}, nil)
	if w.Code != http.StatusGatewayTimeout {
		t.Errorf("%d", w.Code)
	}
	mustContain(t, w.Body.String(), "not known whether")
	f.ops.err = &Error{Code: CodeNotFound, Message: `no application has the id "app-9"`}
	w = f.send(http.MethodPost, "/app/kill/", url.Values{"id": {"app-9"}, "terminate": {"true"}, "csrfToken": {f.h.csrfToken}}, nil)
	if w.Code != http.StatusNotFound {
		t.Errorf("an unknown id: %d", w.Code)
	}
}

// TestB065_DecommissionByHost: who may, and what is answered.
func TestB065_DecommissionByHost(t *testing.T) {
	mode := func(m string) func(*Options) { return func(o *Options) { o.DecommissionAllow = m } }
	tokened := func(o *Options) { o.Token = "secret" }
	hosts := url.Values{"host": {"h1", "H2"}}
	for _, c := range []struct {
		name   string
		change func(*Options)
		method string
		header map[string]string
		form   url.Values
		want   int
	}{
		{"local by default", nil, http.MethodPost, nil, hosts, 200},
		{"LOCAL from elsewhere", mode(AllowLocal), http.MethodPost, map[string]string{"caller": remoteCaller}, hosts, 403},
		{"LOCAL, a header claims to be local", mode(AllowLocal), http.MethodPost, map[string]string{"caller": remoteCaller, "X-Forwarded-For": "127.0.0.1"}, hosts, 403},
		{"LOCAL through a proxy here", mode(AllowLocal), http.MethodPost, map[string]string{"X-Forwarded-For": "192.0.2.7"}, hosts, 403},
		{"DENY", mode(AllowDeny), http.MethodPost, nil, hosts, 403},
		{"ALLOW from elsewhere", mode(AllowAll), http.MethodPost, map[string]string{"caller": remoteCaller}, hosts, 200},
		{"ALLOW, a web page", mode(AllowAll), http.MethodPost, map[string]string{"Origin": "http://evil.example"}, hosts, 403},
		{"ALLOW, this master's page", mode(AllowAll), http.MethodPost, map[string]string{"Sec-Fetch-Site": "same-origin"}, hosts, 403},
		{"token configured", tokened, http.MethodPost, nil, hosts, 401},
		{"token given", tokened, http.MethodPost, map[string]string{"Authorization": "Bearer secret"}, hosts, 200},
		{"GET", nil, http.MethodGet, nil, nil, 405},
		{"no host", nil, http.MethodPost, nil, url.Values{}, 404},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newForms(c.change)
			w := f.send(c.method, "/workers/kill/", c.form, c.header)
			if w.Code != c.want {
				t.Fatalf("%d, want %d: %s", w.Code, c.want, w.Body)
			}
			if c.want != 200 {
				if len(f.ops.decommissions) != 0 {
					t.Errorf("decommissioned: %v", f.ops.decommissions)
				}
				return
			}
			if w.Body.Len() != 0 || len(f.ops.decommissions) != 1 || strings.Join(f.ops.decommissions[0].Hosts, " ") != "h1 H2" {
				t.Errorf("%d bytes, %v", w.Body.Len(), f.ops.decommissions)
			}
		})
	}
	f := newForms(nil)
	if w := f.send(http.MethodPost, "/workers/kill/?host=a&host=b", nil, nil); w.Code != 200 || strings.Join(f.ops.decommissions[0].Hosts, " ") != "a b" {
		t.Errorf("hosts in the address: %d, %v", w.Code, f.ops.decommissions)
	}
	f.ops.err = &Error{Code: CodeNotFound, Message: "no worker"}
	if w := f.send(http.MethodPost, "/workers/kill/?host=a", nil, nil); w.Code != 404 {
		t.Errorf("no match: %d", w.Code)
	}
}

// TestS33_DecommissionOff: with decommissioning off nothing is marked.
func TestS33_DecommissionOff(t *testing.T) {
	f := newForms(func(o *Options) { o.DecommissionEnabled, o.DecommissionAllow = false, AllowAll })
	w := f.send(http.MethodPost, "/workers/kill/?host=h", nil, nil)
	if w.Code != http.StatusMethodNotAllowed || len(f.ops.decommissions) != 0 {
		t.Errorf("%d, %v", w.Code, f.ops.decommissions)
	}
	mustContain(t, w.Body.String(), "spark.decommission.enabled")
}

// TestG66_OwnAddresses: which connections come from this machine.
func TestG66_OwnAddresses(t *testing.T) {
	for addr, want := range map[string]bool{"127.0.0.1:1": true, "127.8.9.1:1": true, "[::1]:1": true, "192.0.2.7:1": false, "nonsense": false, "host:1": false} {
		if got := ownAddress(addr); got != want {
			t.Errorf("%s: %v", addr, got)
		}
	}
}

// TestG71_OperationsOfTheAPI: each call reaches its operation, and none without the right to it.
func TestG71_OperationsOfTheAPI(t *testing.T) {
	f := newForms(func(o *Options) { o.Token = "secret" })
	send := func(path, body, auth string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Authorization", auth)
		w := httptest.NewRecorder()
		f.h.ServeHTTP(w, r)
		return w
	}
	calls := map[string]string{"/v1/kill": `{"kind":"app","id":"app-1","dry_run":true}`, "/v1/decommission": `{"worker":"w"}`,
		"/v1/drain": `{"worker":"w","on":true,"idle_only":true}`, "/v1/clear": `{}`,
		"/v1/clear-incompatible": `{"worker":"w","app_id":"app-1"}`}
	for path, body := range calls {
		if w := send(path, body, "Bearer other"); w.Code != http.StatusUnauthorized {
			t.Errorf("%s without the token: %d", path, w.Code)
		}
	}
	if len(f.ops.kills)+len(f.ops.decommissions)+len(f.ops.drains)+len(f.ops.compat)+f.ops.clears != 0 {
		t.Error("a stranger changed something")
	}
	for path, body := range calls {
		if w := send(path, body, "Bearer secret"); w.Code != http.StatusOK {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
		if w := send(path, `{"nonsense":1}`, "Bearer secret"); w.Code != http.StatusBadRequest {
			t.Errorf("%s with an unknown field: %d", path, w.Code)
		}
		if w := send(path, body+`{"dry_run":true}`, "Bearer secret"); w.Code != http.StatusBadRequest {
			t.Errorf("%s with two values: %d", path, w.Code)
		}
	}
	if len(f.ops.kills) != 1 || f.ops.kills[0] != (KillRequest{Kind: KindApp, ID: "app-1", DryRun: true}) ||
		len(f.ops.drains) != 1 || f.ops.drains[0] != (DrainRequest{Worker: "w", On: true, IdleOnly: true}) ||
		len(f.ops.compat) != 1 || f.ops.compat[0] != (ClearIncompatibleRequest{Worker: "w", AppID: "app-1"}) ||
		len(f.ops.decommissions) != 1 || f.ops.decommissions[0].Worker != "w" || f.ops.clears != 1 {
		t.Errorf("%+v", f.ops)
	}
	f.opts.Operations = nil
	f.h = NewHandler(f.opts)
	if w := send("/v1/kill", "{}", "Bearer secret"); w.Code != http.StatusNotImplemented {
		t.Errorf("without operations: %d", w.Code)
	}
}
