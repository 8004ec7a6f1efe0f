package webui

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func readFile(t *testing.T, name string) string {
	t.Helper()
	body, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// fakeDetails knows what it is given.
type fakeDetails struct {
	apps    map[string]AppDetail
	drivers map[string]Driver
	why     map[string]WhyWaiting
	ui      map[string]string
	pairs   []IncompatiblePair
}

func (f *fakeDetails) App(id string) (AppDetail, bool)         { v, ok := f.apps[id]; return v, ok }
func (f *fakeDetails) Driver(id string) (Driver, bool)         { v, ok := f.drivers[id]; return v, ok }
func (f *fakeDetails) WhyWaiting(id string) (WhyWaiting, bool) { v, ok := f.why[id]; return v, ok }
func (f *fakeDetails) Incompatible() []IncompatiblePair        { return f.pairs }
func (f *fakeDetails) Explain() map[string]string {
	out := map[string]string{}
	for id, w := range f.why {
		out[id] = w.Text
	}
	return out
}
func (f *fakeDetails) PeerUI(id string) (string, bool) { v, ok := f.ui[id]; return v, ok }

func newDetails() *fakeDetails {
	status := 7
	return &fakeDetails{
		apps: map[string]AppDetail{
			"app-1": {App: App{ID: "app-1", Name: "<b>one</b>", State: "RUNNING", Active: true, Cores: 3, MaxCores: 8, Executors: 1, UIURL: "http://driver:4040", User: "eve"},
				ExecutorLimit: 2, CoreLimit: 8, CoresLeft: 5, Executors: []Executor{{AppID: "app-1", ID: 4, WorkerID: "worker-1", State: "RUNNING", Cores: 3}},
				Removed: []RemovedExecutor{{ID: 0, WorkerID: "worker-1", State: "EXITED"},
					{ID: 1, WorkerID: "worker-1", WorkerWebURL: "http://worker:8081", State: "FAILED", Message: "Command exited with code 7", ExitStatus: &status}}},
			"app-0": {App: App{ID: "app-0", Name: "old", State: "FINISHED"}, ExecutorLimit: Unlimited, CoreLimit: Unlimited, CoresLeft: Unlimited},
		},
		drivers: map[string]Driver{"driver-1": {ID: "driver-1", State: "RUNNING", Active: true}},
		why: map[string]WhyWaiting{"app-1": {ID: "app-1", SubjectState: "RUNNING", Waiting: true, Limit: LimitMemory,
			Text: "no worker has 1 core and 9000 MiB free"}},
	}
}

// TestB113_ApplicationPage: active and completed applications, with the executors that they have and had.
func TestB113_ApplicationPage(t *testing.T) {
	f := newFixture(leaderStatus())
	f.opts.Details, f.opts.HistoryServerURL = newDetails(), "http://history:18080"
	body := f.get("/app/?appId=app-1").Body.String()
	mustContain(t, body, "Application: &lt;b&gt;one&lt;/b&gt;", "8 (3 granted, 5 left)", "2 (1 held)", "worker-1", "FAILED", "Command exited with code 7 (exit status 7)",
		`href="http://driver:4040"`, "Wants more executors: no worker has 1 core and 9000 MiB free.",
		`href="http://worker:8081/logPage/?appId=app-1&amp;executorId=1&amp;logType=stdout"`)
	for _, no := range []string{"EXITED", "history:18080", "csrfToken", "<b>one"} {
		if strings.Contains(body, no) {
			t.Errorf("the page holds %q", no)
		}
	}
	old := f.get("/app/?appId=app-0").Body.String()
	mustContain(t, old, `href="http://history:18080/history/app-0"`, "Unlimited (0 granted)", "FINISHED")
	if w := f.get("/app/?appId=app-9"); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "No running application with ID app-9") {
		t.Errorf("an unknown id: %d %s", w.Code, w.Body)
	}
	if w := f.get("/app/"); w.Code != http.StatusBadRequest {
		t.Errorf("no id: %d", w.Code)
	}
	f.opts.ReverseProxy = true
	mustContain(t, f.get("/app/?appId=app-1").Body.String(), `href="/proxy/app-1/"`, `href="/proxy/worker-1/logPage/?`)
}

// TestLinksEscapeIDs: an id is what a stranger has chosen; it is one part of a path and leads nowhere else.
func TestLinksEscapeIDs(t *testing.T) {
	l := linker{proxy: true, root: "/spark"}
	if got := l.To("w/../x?y#z%20", "http://w:8081"); got != "/spark/proxy/w%2F..%2Fx%3Fy%23z%2520/" {
		t.Error(got)
	}
	if got := (linker{}).To("w/x", "http://w:8081"); got != "http://w:8081" {
		t.Error(got)
	}
}

// TestB113_ApplicationJSON: where Spark answers nothing, the application is shown.
func TestB113_ApplicationJSON(t *testing.T) {
	f := newFixture(leaderStatus())
	f.opts.Details = newDetails()
	var v struct {
		ID               string
		Executors        []struct{ ID int }
		RemovedExecutors []struct{ ID int }
	}
	if err := json.Unmarshal(f.get("/app/json/?appId=app-1").Body.Bytes(), &v); err != nil || v.ID != "app-1" || len(v.Executors) != 1 || len(v.RemovedExecutors) != 2 {
		t.Errorf("%+v, %v", v, err)
	}
	if w := f.get("/app/json/?appId=none"); w.Code != http.StatusOK || w.Body.String() != "{\n}" {
		t.Errorf("%d %q", w.Code, w.Body)
	}
}

// TestS35_CallsAboutOneThing: what the API says of one application, one driver, and why it waits.
func TestS35_CallsAboutOneThing(t *testing.T) {
	f := newFixture(leaderStatus())
	f.opts.Details = newDetails()
	var why WhyAnswer
	if err := json.Unmarshal(f.get("/v1/why-waiting?id=app-1").Body.Bytes(), &why); err != nil || why.Limit != LimitMemory || why.Node != "10.0.0.1:7077" || why.State != StateAlive || why.SubjectState != "RUNNING" {
		t.Errorf("%+v, %v", why, err)
	}
	var driver DriverAnswer
	if err := json.Unmarshal(f.get("/v1/driver?id=driver-1").Body.Bytes(), &driver); err != nil || driver.Driver.State != "RUNNING" {
		t.Errorf("%+v, %v", driver, err)
	}
	var app AppAnswer
	if err := json.Unmarshal(f.get("/v1/app?id=app-1").Body.Bytes(), &app); err != nil || app.App.ID != "app-1" || len(app.Removed) != 2 {
		t.Errorf("%+v, %v", app, err)
	}
	f.opts.Details.(*fakeDetails).pairs = []IncompatiblePair{{WorkerID: "worker-1", Kind: KindApp, AppID: "app-1"}}
	var pairs IncompatibleAnswer
	if err := json.Unmarshal(f.get("/v1/incompatible").Body.Bytes(), &pairs); err != nil || len(pairs.Pairs) != 1 || pairs.Pairs[0].AppID != "app-1" || pairs.Node != "10.0.0.1:7077" {
		t.Errorf("%+v, %v", pairs, err)
	}
	for path, want := range map[string]int{"/v1/why-waiting": 400, "/v1/why-waiting?id=x": 404, "/v1/driver?id=x": 404, "/v1/app?id=x": 404} {
		if w := f.get(path); w.Code != want {
			t.Errorf("%s: %d, want %d", path, w.Code, want)
		}
	}
	f.opts.Details = nil
	if w := f.get("/v1/app?id=app-1"); w.Code != 404 {
		t.Errorf("without details: %d", w.Code)
	}
	if body := f.get("/v1/incompatible").Body.String(); !strings.Contains(body, `"pairs": []`) {
		t.Errorf("without details: %s", body)
	}
}

// TestG72_WordsOfThePage: an application that runs and wants more is not said to wait, and one core is one core.
func TestG72_WordsOfThePage(t *testing.T) {
	f := newFixture(leaderStatus())
	f.state.cluster.Apps = []App{{ID: "r", State: "RUNNING", Active: true, WhyWaiting: "no worker has 1 core free"},
		{ID: "w", State: "WAITING", Active: true, WhyWaiting: "no worker is ALIVE"}}
	f.state.cluster.Workers = []Worker{{ID: "worker-1", State: StateAlive, Draining: true, Drivers: 2}}
	f.state.cluster.Drivers = []Driver{{ID: "driver-2", State: "SUBMITTED", Active: true, Waiting: true, Supervise: true, Attempt: 3, WhyWaiting: "no worker has <1> gpu free"},
		{ID: "driver-3", State: "RUNNING", Active: true, LaunchUnconfirmed: true, WorkerID: "worker-1", WorkerWebURL: "http://worker:8081"},
		{ID: "driver-1", State: "RELAUNCHING", Successor: "driver-2", WorkerID: "worker-1", WorkerWebURL: "http://worker:8081"}}
	f.state.status.Counts.DriversByState = map[string]int{"SUBMITTED": 1}
	f.state.status.Counts.WaitingDrivers = 1
	mustContain(t, f.get("/").Body.String(), `<tr class="wants"><td colspan="10">wants more executors: no worker has 1 core free`,
		`<tr class="why"><td colspan="10">waiting: no worker is ALIVE`, `<tr class="why"><td colspan="9">waiting: no worker has &lt;1&gt; gpu free`, "draining", "Running Drivers", "Completed Drivers", "goes on as driver-2", "relaunch 3", "launch not confirmed yet", "(1 waiting)", "none yet",
		`href="http://worker:8081/logPage/?driverId=driver-3&amp;logType=stdout"`, `href="http://worker:8081/logPage/?driverId=driver-1&amp;logType=stderr"`)
}

// TestG75_LogPages: a part of the log file, never more than is asked for, and an honest answer where there is none.
func TestG75_LogPages(t *testing.T) {
	path := filepath.Join(t.TempDir(), "master.out")
	text := strings.Repeat("0123456789", 30_000) + "<end>"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	f := newFixture(leaderStatus())
	f.opts.LogFiles = func() map[string]string { return map[string]string{"stderr": path, "out": t.TempDir()} }
	n := len(text)
	for query, want := range map[string]string{
		"self&logType=stderr":                          fmt.Sprintf("==== Bytes %d-%d of %d of %s ====\n%s", n-defaultLogBytes, n, n, path, text[n-defaultLogBytes:]),
		"self&logType=stderr&byteLength=5":             fmt.Sprintf("==== Bytes %d-%d of %d of %s ====\n<end>", n-5, n, n, path),
		"self&logType=stderr&offset=3&byteLength=4":    fmt.Sprintf("==== Bytes 3-7 of %d of %s ====\n3456", n, path),
		"self&logType=stderr&offset=-3&byteLength=1":   fmt.Sprintf("==== Bytes 0-1 of %d of %s ====\n0", n, path),
		"self&logType=stderr&offset=999999999":         fmt.Sprintf("==== Bytes %d-%d of %d of %s ====\n", n, n, n, path),
		"self&logType=secrets":                         "Error: Log type must be one of stderr, stdout, out",
		"self&logType=stderr&offset=x":                 "Error: offset must be a whole number",
		"self&logType=stdout":                          "Error: " + noLogFile("stdout"),
		"self&logType=out":                             "Error: " + noLogFile("out"), // a directory
		"self&logType=" + url.QueryEscape("../../etc"): "Error: Log type must be one of stderr, stdout, out",
	} {
		w := f.get("/log/?" + query)
		if w.Code != http.StatusOK || w.Body.String() != want || w.Header().Get("Content-Type") != "text/plain;charset=utf-8" {
			t.Errorf("%s: %d %.120q, want %.120q", query, w.Code, w.Body, want)
		}
	}
	large := filepath.Join(t.TempDir(), "large.out")
	if err := os.WriteFile(large, make([]byte, 2*maxLogBytes), 0o600); err != nil {
		t.Fatal(err)
	}
	f.opts.LogFiles = func() map[string]string { return map[string]string{"stderr": large} }
	if w := f.get("/log/?self&logType=stderr&byteLength=99999999"); w.Body.Len() < maxLogBytes || w.Body.Len() > maxLogBytes+500 {
		t.Errorf("%d bytes", w.Body.Len())
	}
	f.opts.LogFiles = func() map[string]string { return map[string]string{"stderr": path, "out": t.TempDir()} }
	mustContain(t, f.get("/logPage/?self&logType=stderr&byteLength=5").Body.String(), "&lt;end&gt;", "earlier", "master.out")
	mustContain(t, f.get("/logPage/?self&logType=stdout").Body.String(), "is no file")
	f.opts.LogFiles = nil
	mustContain(t, f.get("/log/?self&logType=stderr").Body.String(), "is no file")
}

// TestG68_Environment: the process's own facts, and of the environment only what is asked for.
func TestG68_Environment(t *testing.T) {
	f := newFixture(leaderStatus())
	f.opts.Environment = func() []EnvironmentSection {
		return []EnvironmentSection{{Title: "Spark properties", Rows: []EnvironmentRow{{"spark.a", "<1>"}, {"spark.secret", Redacted}}},
			{Title: "Environment variables", Rows: VisibleVariables([]string{"SPARK_X=1", "HOME=/root", "SPARK_Y=2=3"}, []string{"SPARK_"})}}
	}
	body := f.get("/environment/").Body.String()
	mustContain(t, body, "Go version", "spark.a", "&lt;1&gt;", "SPARK_X", "2=3", "no JVM")
	if strings.Contains(body, "/root") {
		t.Error("a variable that nobody asked for is shown")
	}
	if got := VisibleVariables([]string{"A=1"}, nil); len(got) != 0 {
		t.Errorf("without prefixes: %v", got)
	}
	if got := VisibleVariables([]string{"A=1"}, []string{""}); len(got) != 0 {
		t.Errorf("an empty prefix: %v", got)
	}
}

// TestG66_ProxyGivesNoLoopbackRights: what is forwarded to this master itself is no call from its own machine.
func TestG66_ProxyGivesNoLoopbackRights(t *testing.T) {
	f := newForms(func(o *Options) { o.ReverseProxy = true })
	f.state.status.WebURL = "http://127.0.0.1:8080"
	own := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { f.h.ServeHTTP(w, r) }))
	defer own.Close()
	f.opts.Details = &fakeDetails{ui: map[string]string{"w": own.URL}}
	f.h = NewHandler(f.opts)
	r := httptest.NewRequest(http.MethodPost, "/proxy/w/v1/kill", strings.NewReader(`{"kind":"app","id":"app-1"}`))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	f.h.ServeHTTP(w, r)
	if w.Code != http.StatusForbidden || len(f.ops.kills) != 0 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// TestG69_ProxiedPagesAreBounded: no caller takes all places, the headers of this master are not mixed with the peer's, and
// without the setting nothing is forwarded.
func TestG69_ProxiedPagesAreBounded(t *testing.T) {
	release, started := make(chan struct{}), make(chan struct{}, maxProxied)
	peer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			started <- struct{}{}
			<-release
		}
		w.Header().Set("X-Frame-Options", "PEER")
		_, _ = io.WriteString(w, r.Header.Get("Authorization"))
	}))
	defer peer.Close()
	f := newFixture(leaderStatus())
	f.state.status.WebURL = "http://127.0.0.1:8080"
	f.opts.Details = &fakeDetails{ui: map[string]string{"w": peer.URL}}
	if w := f.get("/proxy/w/"); w.Code != http.StatusNotFound {
		t.Errorf("switched off: %d", w.Code)
	}
	f.opts.ReverseProxy, f.opts.Token = true, "secret"
	h := NewHandler(f.opts)
	h.listWait = time.Millisecond
	get := func(path, from, auth string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodGet, path, nil)
		r.RemoteAddr = from
		r.Header.Set("Authorization", auth)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
	done := make(chan int)
	for range maxProxiedPerIP {
		go func() { done <- get("/proxy/w/slow", "192.0.2.1:1", "").Code }()
	}
	for range maxProxiedPerIP {
		<-started
	}
	if w := get("/proxy/w/", "192.0.2.1:1", ""); w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
		t.Errorf("one more of the same caller: %d", w.Code)
	}
	w := get("/proxy/w/", "192.0.2.2:1", "Bearer secret")
	if w.Code != http.StatusOK || w.Body.String() != "" {
		t.Errorf("another caller: %d, the peer was sent %q", w.Code, w.Body)
	}
	if got := w.Header().Values("X-Frame-Options"); len(got) != 1 || got[0] != "PEER" || w.Header().Get("Content-Security-Policy") != "" {
		t.Errorf("headers of ours are mixed with the peer's: %v", w.Header())
	}
	close(release)
	for range maxProxiedPerIP {
		if code := <-done; code != http.StatusOK {
			t.Errorf("a slow page: %d", code)
		}
	}
	if w := get("/proxy/nobody/", "192.0.2.2:1", ""); w.Code != http.StatusNotFound || w.Header().Get("Content-Security-Policy") == "" {
		t.Errorf("nobody: %d %v", w.Code, w.Header())
	}
}
