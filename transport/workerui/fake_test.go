package workerui

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeBackend shows what it is given.
type fakeBackend struct{ view View }

func (f *fakeBackend) View() View { return f.view }

// fixture is a handler over a work directory of its own.
type fixture struct {
	t       testing.TB
	opts    Options
	backend *fakeBackend
	work    string
}

func newFixture(t testing.TB) *fixture {
	work := t.TempDir()
	return &fixture{t: t, work: work, backend: &fakeBackend{view: someView()},
		opts: Options{WorkDir: work, Log: hclog.NewNullLogger(), Version: "1.2.3", ContentSecurityPolicy: true,
			Now: func() time.Time { return time.UnixMilli(1796040540246).UTC() }}}
}

func (f *fixture) handler() *Handler { return NewHandler(f.opts, f.backend) }

func (f *fixture) do(method, target string, header ...string) *httptest.ResponseRecorder {
	return serve(f.handler(), method, target, header...)
}

func serve(h http.Handler, method, target string, header ...string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	r := httptest.NewRequest(method, target, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	h.ServeHTTP(w, r)
	return w
}

func (f *fixture) get(target string) *httptest.ResponseRecorder { return f.do(http.MethodGet, target) }

// write makes a file below the work directory.
func (f *fixture) write(name, content string) string {
	f.t.Helper()
	path := filepath.Join(f.work, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		f.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		f.t.Fatal(err)
	}
	return path
}

// logOf is the body of /log/ without its first line, which is given apart.
func (f *fixture) logOf(query string) (head, body string) {
	f.t.Helper()
	w := f.get("/log/?" + query)
	if w.Code != http.StatusOK {
		f.t.Fatalf("%s: %d %s", query, w.Code, w.Body)
	}
	head, body, ok := strings.Cut(w.Body.String(), "\n")
	if !ok {
		f.t.Fatalf("%s: no first line in %q", query, w.Body)
	}
	return head, body
}

func mustContain(t testing.TB, body string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(body, p) {
			t.Errorf("%q is missing in\n%s", p, body)
		}
	}
}

func mustNotContain(t testing.TB, body string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if strings.Contains(body, p) {
			t.Errorf("%q is in\n%s", p, body)
		}
	}
}

func someView() View {
	code := 1
	return View{ID: "worker-20261130120657-127.0.0.1-22381", URL: "spark://127.0.0.1:22381", MasterURL: "spark://127.0.0.1:22377",
		MasterWebURL: "http://localhost:22380", Registered: true, Connected: true, SparkVersion: "4.3.0", Cores: 4, CoresUsed: 2, MemoryMB: 2048,
		MemoryUsedMB: 1100, StartMillis: 1796040000000, LastHeartbeatMillis: 1796040540000,
		Resources: []Resource{{Name: "gpu", Addresses: []string{"0", "1", "2"}, UsedAddresses: []string{"1"}}},
		Executors: []Executor{{ID: 3, AppID: "app-20261130120819-0001", State: "RUNNING", Cores: 1, MemoryMB: 600, PID: 4711,
			Resources: []Resource{{Name: "gpu", Addresses: []string{"1"}}}, StartMillis: 1796040500000,
			App: App{Name: "An <b>App</b>", User: "alice", UIURL: "http://driver:4040", MemoryPerExecutorMB: 600,
				ResourcesPerExecutor: []ResourceRequest{{"gpu", 1}}, Command: `Command("x")`}}},
		FinishedExecutors: []Executor{
			{ID: 0, AppID: "app-20261130120819-0000", State: "EXITED", Cores: 1, MemoryMB: 600, ExitCode: &code, Message: "Command exited with code 1"},
			{ID: 1, AppID: "app-20261130120819-0000", State: "KILLED", Cores: 1, MemoryMB: 600}},
		Drivers: []Driver{{ID: "driver-20261130121300-0000", MainClass: "org.example.Main", State: "RUNNING", Cores: 1, MemoryMB: 500, Supervise: true,
			Attempts: 2, StartMillis: 1796040500000}},
		FinishedDrivers: []Driver{{ID: "driver-20261130121000-0009", State: "ERROR", Message: "the jar <x> cannot be fetched"}},
	}
}
