package server

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"

	"raftmaster/cluster/config"
	"raftmaster/fsm"
	"raftmaster/transport/certtest"
	"raftmaster/transport/sparkmsg"
	"raftmaster/transport/webui"
)

// post sends a form, or JSON, to a master and does not follow where it leads.
func (m *member) post(path, contentType, body string) (status int, answer string, head http.Header) {
	client := *web
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	resp, err := client.Post(m.webURL()+path, contentType, strings.NewReader(body))
	if err != nil {
		return 0, err.Error(), nil
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err.Error(), nil
	}
	return resp.StatusCode, string(b), resp.Header
}

func (m *member) form(path string, values url.Values) (status int, answer string, head http.Header) {
	return m.post(path, "application/x-www-form-urlencoded", values.Encode())
}

// operate makes a call of the admin API.
func (m *member) operate(t testing.TB, path string, req any, out any) {
	t.Helper()
	body, err := json.Marshal(req)
	if err != nil {
		t.Fatal(err)
	}
	status, answer, _ := m.post(path, "application/json", string(body))
	if status != http.StatusOK {
		t.Fatalf("%s: %d %s", path, status, answer)
	}
	if err := json.Unmarshal([]byte(answer), out); err != nil {
		t.Fatal(err)
	}
}

var csrfPattern = regexp.MustCompile(`name="csrfToken" value="([0-9a-f]+)"`)

// TestB112_G74_KillOverHTTP: the kill form of the leader's page ends an application, whose driver is told; a standby
// changes nothing and names the leader.
func TestB112_G74_KillOverHTTP(t *testing.T) {
	t.Parallel()
	c := start(t, 3, steadyFailover)
	c.readyWorker(sparkmsg.FamilyE, 2)
	a := c.readyApp(sparkmsg.FamilyE, 2)
	c.runs(a, 2)
	l := c.leader()
	status, page := l.get("/")
	token := csrfPattern.FindStringSubmatch(page)
	if status != http.StatusOK || token == nil {
		t.Fatalf("the page of the leader has no form: %d", status)
	}
	kill := url.Values{"id": {a.ID()}, "terminate": {"true"}, "csrfToken": {token[1]}}
	for _, m := range c.standbys() {
		if _, page := m.get("/"); csrfPattern.MatchString(page) {
			t.Error("the page of a standby has forms")
		}
		if status, answer, _ := m.form("/app/kill/", kill); status != http.StatusForbidden || !strings.Contains(answer, "CSRF") {
			t.Errorf("a standby took the token of another process: %d %s", status, answer)
		}
		status, answer, _ := m.post("/v1/kill", "application/json", fmt.Sprintf(`{"kind":"app","id":%q}`, a.ID()))
		if status != http.StatusConflict || !strings.Contains(answer, l.webURL()) {
			t.Errorf("a standby answered %d %s", status, answer)
		}
	}
	if app, _ := l.server().State().Application(a.ID()); app.State != fsm.AppRunning {
		t.Fatalf("%s", app.State)
	}
	if status, answer, head := l.form("/app/kill/", kill); status != http.StatusFound || head.Get("Location") != "/" {
		t.Fatalf("%d %s", status, answer)
	}
	wait(t, a.Log(), "ApplicationRemoved")
	if app, _ := l.server().State().Application(a.ID()); app.State != fsm.AppKilled {
		t.Errorf("%s", app.State)
	}
	if status, page := l.get("/app/?appId=" + url.QueryEscape(a.ID())); status != http.StatusOK || !strings.Contains(page, "KILLED") {
		t.Errorf("the page of the killed application: %d", status)
	}
	var cleared webui.Clear
	l.operate(t, "/v1/clear", webui.ClearRequest{}, &cleared)
	if _, ok := l.server().State().Application(a.ID()); ok || cleared.Apps != 1 {
		t.Errorf("cleared: %+v", cleared)
	}
}

// TestS34_S35_DrainOverHTTP: a drained worker gets nothing, which is what its applications wait for; after an undrain they
// run.
func TestS34_S35_DrainOverHTTP(t *testing.T) {
	t.Parallel()
	c := start(t, 1, steadyFailover)
	w := c.readyWorker(sparkmsg.FamilyE, 2)
	l := c.leader()
	var change webui.WorkerChange
	l.operate(t, "/v1/drain", webui.DrainRequest{Worker: w.ID(), On: true, IdleOnly: true}, &change)
	if change.Changed != 1 {
		t.Fatalf("%+v", change)
	}
	a := c.readyApp(sparkmsg.FamilyE, 1)
	var why webui.WhyAnswer
	eventually(t, "the application waits for the drained worker", func() bool {
		l.into(t, "/v1/why-waiting?id="+url.QueryEscape(a.ID()), &why)
		return why.Limit == webui.LimitDrain && why.Waiting
	})
	if got := l.server().ids(a.ID()); len(got) != 0 {
		t.Errorf("the drained worker got executors: %v", got)
	}
	l.operate(t, "/v1/drain", webui.DrainRequest{Worker: w.ID()}, &change)
	c.runs(a, 1)
}

// ids lists the executors of an application.
func (s *Server) ids(appID string) (out []int) {
	s.State().ExecutorsOfApp(appID, func(e *fsm.Executor) bool { out = append(out, e.ID); return true })
	return out
}

// TestS33_DecommissionSurvivesTheLeader: POST /workers/kill/ marks the workers of a host and tells them; the next leader
// knows it, and nothing new is started there. With the setting off nothing changes.
func TestS33_DecommissionSurvivesTheLeader(t *testing.T) {
	t.Parallel()
	slow(t)
	c := start(t, 3, func(cfg *config.Config) { cfg.Deploy.DecommissionEnabled = true })
	w := c.readyWorker(sparkmsg.FamilyE, 2)
	host := w.Address().Host
	l := c.leader()
	if status, answer, _ := l.form("/workers/kill/", url.Values{"host": {"nowhere"}}); status != http.StatusNotFound {
		t.Errorf("no match: %d %s", status, answer)
	}
	for _, m := range c.standbys() {
		if status, answer, _ := m.form("/workers/kill/", url.Values{"host": {host}}); status != http.StatusConflict || !strings.Contains(answer, l.webURL()) {
			t.Errorf("a standby: %d %s", status, answer)
		}
	}
	if status, answer, _ := l.form("/workers/kill/", url.Values{"host": {strings.ToUpper(host)}}); status != http.StatusOK || answer != "" {
		t.Fatalf("%d %s", status, answer)
	}
	wait(t, w.Log(), "DecommissionWorker")
	l.kill()
	next := c.leader()
	c.followed(next)
	if x, ok := next.server().State().Worker(w.ID()); !ok || x.State != fsm.WorkerDecommissioned {
		t.Fatalf("the next leader has %+v", x)
	}
	a := c.readyApp(sparkmsg.FamilyE, 1)
	var why webui.WhyAnswer
	eventually(t, "the application waits", func() bool {
		next.into(t, "/v1/why-waiting?id="+url.QueryEscape(a.ID()), &why)
		return why.Waiting
	})
	if why.Limit != webui.LimitDecommission || len(next.server().ids(a.ID())) != 0 {
		t.Errorf("%+v", why)
	}
	c.unregister(a)
}

// metricNames are the names on /metrics that begin with raftmaster_.
var metricNames = regexp.MustCompile(`(?m)^# TYPE (raftmaster_\w+) (\w+)$`)

// documented finds the table of docs/METRICS.md: | `name` | type | ...
var documented = regexp.MustCompile("(?m)^\\| `(raftmaster_\\w+)` \\| (\\w+) \\|")

// TestG76_MetricsAreDocumented: the table of docs/METRICS.md lists exactly what a master serves.
func TestG76_MetricsAreDocumented(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/METRICS.md")
	if err != nil {
		t.Fatal(err)
	}
	secure := withClusterTLS(t, certtest.New(t, "ca"))
	c := start(t, 3, func(cfg *config.Config) { withREST(cfg); secure(cfg); cfg.Snapshots.Dir = t.TempDir() })
	c.readyWorker(sparkmsg.FamilyE, 1)
	c.leader().rest(t, http.MethodGet, "readyz", "") // answers are counted by call
	served, listed := map[string]string{}, map[string]string{}
	for _, m := range documented.FindAllSubmatch(text, -1) {
		if bytes.HasPrefix(m[1], []byte("raftmaster_worker_")) {
			continue // of workers, see transport/workerui
		}
		if listed[string(m[1])] != "" {
			t.Errorf("%s is documented twice", m[1])
		}
		listed[string(m[1])] = string(m[2])
	}
	// raft's own metrics are those of the process; the others of each master, and some of the leader's alone.
	eventuallyNil(t, "every documented metric is served", func() error {
		for _, m := range c.masters {
			_, body := m.get("/metrics")
			for _, s := range metricNames.FindAllStringSubmatch(body, -1) {
				if !strings.HasPrefix(s[1], "raftmaster_raft_") {
					served[s[1]] = s[2]
				}
			}
		}
		for name, kind := range listed {
			if served[name] != kind {
				return fmt.Errorf("%s is documented as a %s, and served as %q", name, kind, served[name])
			}
		}
		return nil
	})
	for name, kind := range served {
		if listed[name] == "" {
			t.Errorf("%s (%s) is not documented", name, kind)
		}
	}
	if !bytes.Contains(text, []byte("raftmaster_raft_")) {
		t.Error("raft's own metrics are not mentioned")
	}
}
