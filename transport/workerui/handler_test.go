package workerui

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// TestWorkerPage: what Spark's page holds, escaped, with links that are right behind any proxy.
func TestWorkerPage(t *testing.T) {
	f := newFixture(t)
	w := f.get("/")
	body := w.Body.String()
	if w.Code != http.StatusOK || w.Header().Get("Content-Type") != "text/html;charset=utf-8" {
		t.Errorf("%d %v", w.Code, w.Header())
	}
	mustContain(t, body, "<title>Spark Worker at 127.0.0.1:22381</title>", "worker-20261130120657-127.0.0.1-22381", "<code>spark://127.0.0.1:22377</code>",
		`href="http://localhost:22380"`, "4 (2 Used)", "2.0 GiB (1.1 GiB Used, 948 MiB free)", "gpu: 1 of 3 used [0, 1, 2]", "gpu: [1]",
		"Running Executors <small>1</small>", "Finished Executors <small>2</small>", "Running Drivers <small>1</small>", "Finished Drivers <small>1</small>",
		"An &lt;b&gt;App&lt;/b&gt;", `href="http://driver:4040"`, "alice", "4711", "org.example.Main", "supervised, 2 starts", "the jar &lt;x&gt; cannot be fetched",
		`href="logPage/?appId=app-20261130120819-0001&amp;executorId=3&amp;logType=stderr"`, `href="download/?appId=app-20261130120819-0001&amp;executorId=3&amp;logType=stdout"`,
		`href="logPage/?driverId=driver-20261130121300-0000&amp;logType=stdout"`, "Command exited with code 1", `<span class="badge good">ready</span>`)
	mustNotContain(t, body, "<b>App", `href="/`, `src="/`)
	// The newest of those that have ended is first.
	if strings.Index(body, "KILLED</span>") > strings.Index(body, "EXITED</span>") {
		t.Error("finished executors are not newest first")
	}
	f.backend.view = View{}
	body = f.get("/").Body.String()
	mustContain(t, body, "none yet", "Takes no executors: no master has accepted this worker yet")
	mustNotContain(t, body, "Finished Executors", "Running Drivers", "Back to Master")
	f.backend.view = someView()
	f.backend.view.Executors[0].App.UIURL = "javascript:alert(1)"
	f.backend.view.MasterWebURL = "javascript:alert(2)"
	mustNotContain(t, f.get("/").Body.String(), `"javascript:`)
	for range 600 {
		f.backend.view.FinishedExecutors = append(f.backend.view.FinishedExecutors, Executor{AppID: "app-x", State: "EXITED"})
	}
	mustContain(t, f.get("/").Body.String(), "and 102 more")
}

// TestPageNamesTheRelease: masters and raftctl submit read the release that a worker runs off its main page, from the first
// span of class "version", where Spark's pages have it (ui/UIUtils.scala). The version of this program must not be taken for it.
func TestPageNamesTheRelease(t *testing.T) {
	release := regexp.MustCompile(`<span class="version[^"]*"[^>]*>\s*([0-9]+\.[0-9]+\.[0-9]+[A-Za-z0-9.\-]*)\s*</span>`)
	f := newFixture(t)
	for range 2000 { // masters read the beginning of a page
		f.backend.view.FinishedExecutors = append(f.backend.view.FinishedExecutors, someView().Executors...)
	}
	for _, version := range []string{"4.3.0", "3.5.9", "4.1.0-preview1"} {
		f.backend.view.SparkVersion = version
		body := f.get("/").Body.Bytes()
		if m := release.FindSubmatch(body[:min(len(body), 64<<10)]); m == nil || string(m[1]) != version {
			t.Errorf("%s: %q", version, m)
		}
	}
	f.backend.view.SparkVersion = ""
	if m := release.FindSubmatch(f.get("/").Body.Bytes()); m != nil {
		t.Errorf("%q without a release", m)
	}
	mustContain(t, f.get("/").Body.String(), "raftmaster worker 1.2.3")
}

// TestAppLinksOfReverseProxy: with spark.ui.reverseProxy applications are reached through the master.
func TestAppLinksOfReverseProxy(t *testing.T) {
	f := newFixture(t)
	f.opts.ReverseProxy = true
	mustContain(t, f.get("/").Body.String(), `href="/proxy/app-20261130120819-0001/"`)
	f.opts.ReverseProxyURL = "https://portal.example/spark/"
	mustContain(t, f.get("/").Body.String(), `href="https://portal.example/spark/proxy/app-20261130120819-0001/"`)
}

// TestHeaders: those of Spark 4.3 on every answer, with a policy that lets the page's own script and style in alone.
func TestHeaders(t *testing.T) {
	f := newFixture(t)
	for _, path := range []string{"/", "/json/", "/nosuch", "/static/log.js", "/metrics", "/healthz"} {
		head := f.get(path).Header()
		if head.Get("X-Frame-Options") != "SAMEORIGIN" || head.Get("X-Content-Type-Options") != "nosniff" || head.Get("X-XSS-Protection") != "0" ||
			head.Get("Cache-Control") != "no-cache, no-store, must-revalidate" || !strings.Contains(head.Get("Content-Security-Policy"), "default-src 'self'") {
			t.Errorf("%s: %v", path, head)
		}
	}
	w := f.get("/")
	_, nonce, _ := strings.Cut(w.Header().Get("Content-Security-Policy"), "'nonce-")
	nonce, _, _ = strings.Cut(nonce, "'")
	mustContain(t, w.Body.String(), `<style nonce="`+nonce+`">`)
	mustNotContain(t, w.Body.String(), "style=", "onclick=")
	f.opts.ContentSecurityPolicy, f.opts.AllowFramingFrom = false, "https://portal.example"
	if head := f.get("/").Header(); head.Get("Content-Security-Policy") != "" || head.Get("X-Frame-Options") != "ALLOW-FROM https://portal.example" {
		t.Errorf("%v", head)
	}
}

// TestMethods: GET, and HEAD without a body; the others as Spark's worker answers them.
func TestMethods(t *testing.T) {
	f := newFixture(t)
	f.write("app-1/0/stderr", "text")
	for _, path := range []string{"/", "/json/", "/log/?" + stderrOfApp1, "/logPage/?" + stderrOfApp1, "/download/?" + stderrOfApp1, "/metrics/json/",
		"/metrics/prometheus/", "/healthz", "/static/log.js"} {
		for method, want := range map[string]int{"POST": 405, "PUT": 405, "DELETE": 405, "PATCH": 405, "TRACE": 405, "OPTIONS": 200, "HEAD": 200, "GET": 200} {
			w := f.do(method, path)
			if w.Code != want || method != "GET" && w.Body.Len() != 0 {
				t.Errorf("%s %s: %d %q", method, path, w.Code, w.Body)
			}
			if method == "HEAD" && w.Header().Get("Content-Length") != f.get(path).Header().Get("Content-Length") {
				t.Errorf("HEAD %s: another length", path)
			}
		}
	}
}

// TestG72_RedirectsAndUnknownPaths: the final slash is added where the path is, so that it is right behind a proxy too; what
// there is not is 404, while Spark shows its main page.
func TestG72_RedirectsAndUnknownPaths(t *testing.T) {
	f := newFixture(t)
	for path, to := range map[string]string{"/json": "json/", "/log?a=b&c": "log/?a=b&c", "/logPage?x": "logPage/?x", "/metrics/json": "json/",
		"/metrics/prometheus": "prometheus/", "/download": "download/"} {
		if w := f.get(path); w.Code != http.StatusMovedPermanently || w.Header().Get("Location") != to {
			t.Errorf("%s: %d %q", path, w.Code, w.Header().Get("Location"))
		}
	}
	for _, path := range []string{"/nosuch", "/log/x", "/static/", "/static", "/static/nosuch", "/static/../log.html", "/static/%2e%2e/log.html", "/app/kill/",
		"/driver/kill/", "/metrics/nosuch", "/jsonx", "/metrics/"} {
		if w := f.get(path); w.Code == http.StatusOK || w.Code >= 500 {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
	mustContain(t, f.get("/%3Cb%3E").Body.String(), "no page /&lt;b&gt;")
}

// TestHealth: /healthz while the process answers, /readyz while it takes executors.
func TestHealth(t *testing.T) {
	f := newFixture(t)
	if w := f.get("/readyz"); w.Code != http.StatusOK || w.Body.String() != "ready\n" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	for why, change := range map[string]func(v *View){
		"no master has accepted": func(v *View) { v.Registered, v.Connected = false, false },
		"no contact":             func(v *View) { v.Connected = false },
		"decommissioned":         func(v *View) { v.Decommissioned = true },
	} {
		f.backend.view = someView()
		change(&f.backend.view)
		if w := f.get("/readyz"); w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), why) {
			t.Errorf("%s: %d %s", why, w.Code, w.Body)
		}
		if w := f.get("/healthz"); w.Code != http.StatusOK {
			t.Errorf("%d", w.Code)
		}
	}
}

// TestMetrics: our own names, those of Go and of the process, and what the worker adds; texts of any kind do no harm.
func TestMetrics(t *testing.T) {
	f := newFixture(t)
	more := prometheus.NewRegistry()
	c := prometheus.NewCounter(prometheus.CounterOpts{Name: "raftmaster_worker_launches_total", Help: "."})
	more.MustRegister(c)
	c.Inc()
	f.opts.Metrics = more
	h := f.handler()
	h.ConnectionRefused()
	body := serve(h, http.MethodGet, "/metrics").Body.String()
	mustContain(t, body, "raftmaster_worker_ready 1", "raftmaster_worker_cores 4", "raftmaster_worker_cores_used 2", "raftmaster_worker_memory_bytes 2.147483648e+09",
		"raftmaster_worker_executors 1", "raftmaster_worker_drivers 1", `raftmaster_worker_resource_addresses{resource="gpu",state="free"} 2`,
		`raftmaster_worker_info{master="spark://127.0.0.1:22377",spark_version="4.3.0",version="1.2.3",worker_id="worker-20261130120657-127.0.0.1-22381"} 1`,
		"raftmaster_worker_launches_total 1", "raftmaster_worker_http_connections_refused_total 1", "go_goroutines ", "process_resident_memory_bytes ",
		"raftmaster_worker_last_heartbeat_timestamp_seconds 1.79604054e+09")
	f.backend.view.ID, f.backend.view.MasterURL = "a\xff\"\n", "\x00"
	f.backend.view.Resources = []Resource{{Name: "g\xff"}, {Name: "g\xfe"}, {Name: "x"}}
	if w := f.get("/metrics"); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `resource="x"`) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// TestG76_WorkerMetricsAreDocumented: docs/METRICS.md has a line for each of our own.
func TestG76_WorkerMetricsAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/METRICS.md")
	if err != nil {
		t.Fatal(err)
	}
	served := regexp.MustCompile(`(?m)^# TYPE (raftmaster_worker_\w+) (\w+)$`).FindAllStringSubmatch(newFixture(t).get("/metrics").Body.String(), -1)
	if len(served) < len(viewGauges) {
		t.Errorf("%d metrics", len(served))
	}
	for _, m := range served {
		if line := "\n| `" + m[1] + "` | " + m[2] + " |"; strings.Count(string(text), line) != 1 {
			t.Errorf("no line, or several, for %s (%s)", m[1], m[2])
		}
	}
}

// TestGzip: long answers are compressed for who accepts that.
func TestGzip(t *testing.T) {
	f := newFixture(t)
	plain := f.get("/json/").Body.String()
	w := f.do(http.MethodGet, "/json/", "Accept-Encoding", "gzip")
	if w.Header().Get("Content-Encoding") != "gzip" {
		t.Fatalf("%v", w.Header())
	}
	zr, err := gzip.NewReader(bytes.NewReader(w.Body.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(zr); err != nil || string(got) != plain {
		t.Errorf("%v", err)
	}
}

// panicBackend is a mistake of the program.
type panicBackend struct{}

func (panicBackend) View() View { panic("a mistake") }

// TestPanicIsAnswered: a broken page is answered with 500, and the others go on.
func TestPanicIsAnswered(t *testing.T) {
	f := newFixture(t)
	h := NewHandler(f.opts, panicBackend{})
	if w := serve(h, http.MethodGet, "/"); w.Code != http.StatusInternalServerError || strings.Contains(w.Body.String(), "a mistake") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if w := serve(h, http.MethodGet, "/healthz"); w.Code != http.StatusOK {
		t.Errorf("%d", w.Code)
	}
	if h.answers.Held() != 0 {
		t.Error("the place is still taken")
	}
}
