package webui

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"

	"raftmaster/transport/internal/uibase"
)

// manyApps fills a fixture with so many applications that no list of them fits a chunk.
func manyApps(f *fixture, n int) {
	for i := range n {
		f.state.cluster.Apps = append(f.state.cluster.Apps, App{ID: fmt.Sprintf("app-%06d", i), Name: "<&> " + strings.Repeat("n", 40), Active: i%2 == 0,
			State: "RUNNING", Resources: []ResourceRequest{{Name: "gpu", Amount: 1}}})
		f.state.cluster.Workers = append(f.state.cluster.Workers, Worker{ID: fmt.Sprintf("worker-%d", i), State: StateAlive, Cores: 2,
			Resources: []Resource{{Name: "gpu", Addresses: []string{"0", "1"}, UsedAddresses: []string{"1"}}}})
	}
}

// TestF1StreamedListsKeepTheirBytes: long and short lists are what one call of encoding/json gives, compressed or not.
func TestF1StreamedListsKeepTheirBytes(t *testing.T) {
	for _, n := range []int{0, 1, 2, 500} {
		f := newFixture(leaderStatus())
		manyApps(f, n)
		for range n {
			f.events.add(Event{Kind: "worker", Message: "m"})
			f.state.executors = append(f.state.executors, Executor{AppID: "a"})
		}
		src := Source{Node: "10.0.0.1:7077", State: StateAlive, Term: 7, AppliedIndex: 42}
		events, _ := f.events.Since(0, maxEventsPerAnswer)
		for path, v := range map[string]any{
			"/v1/apps":      AppsAnswer{src, notNil(f.state.cluster.Apps)},
			"/v1/workers":   WorkersAnswer{src, notNil(f.state.cluster.Workers)},
			"/v1/executors": ExecutorsAnswer{src, notNil(f.state.executors)},
			"/v1/events":    EventsAnswer{"10.0.0.1:7077", notNil(events)},
		} {
			want, err := json.MarshalIndent(v, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			checkStreamed(t, f, path, string(want)+"\n")
		}
	}
}

// checkStreamed asks for path plainly, compressed and by HEAD.
func checkStreamed(t *testing.T, f *fixture, path, want string) {
	t.Helper()
	plain := f.get(path)
	if got := plain.Body.String(); got != want {
		t.Errorf("%s: %d bytes differ from the %d expected", path, len(got), len(want))
	}
	if long := len(want) > uibase.ChunkBytes; (plain.Header().Get("Content-Length") == "") != long {
		t.Errorf("%s: %d bytes with Content-Length %q", path, len(want), plain.Header().Get("Content-Length"))
	}
	req := httptest.NewRequest(http.MethodGet, path, nil)
	req.Header.Set("Accept-Encoding", "gzip")
	if w := f.do(req); len(want) >= uibase.GzipFrom {
		zr, err := gzip.NewReader(w.Body)
		if err != nil {
			t.Fatal(err)
		}
		if got := drain(t, zr); got != want {
			t.Errorf("%s compressed: %d bytes differ from the %d expected", path, len(got), len(want))
		}
	}
	if w := f.do(httptest.NewRequest(http.MethodHead, path, nil)); w.Code != http.StatusOK || w.Body.Len() != 0 {
		t.Errorf("HEAD %s: %d, %d bytes", path, w.Code, w.Body.Len())
	}
}

// TestF1StreamedSparkJSONKeepsItsBytes compares a long /json/ with the same object written as a whole.
func TestF1StreamedSparkJSONKeepsItsBytes(t *testing.T) {
	f := newFixture(leaderStatus())
	manyApps(f, 300)
	full := masterState("spark://10.0.0.1:7077", StateAlive, f.state.cluster, f.opts.Now())
	whole := uibase.Object{}
	for _, field := range full {
		if list, ok := field.Value.(uibase.List); ok {
			array := uibase.Array{}
			for i := range list.N {
				array = append(array, list.At(i))
			}
			field.Value = array
		}
		whole = append(whole, field)
	}
	checkStreamed(t, f, "/json/", string(uibase.AppendJSON(nil, whole, 0)))
	checkStreamed(t, f, "/json/workers", string(uibase.AppendJSON(nil, selectField(whole, "workers", 0), 0)))
}

// TestF1SaturatedListsAnswer503: with every place taken a list is refused in time, and probes are answered.
func TestF1SaturatedListsAnswer503(t *testing.T) {
	f := newFixture(leaderStatus())
	f.opts.Metrics = prometheus.NewRegistry()
	h := NewHandler(f.opts)
	h.listWait = time.Millisecond
	for i := range maxLists {
		if !h.lists.Take(context.Background(), fmt.Sprintf("192.0.2.%d", i), 0) {
			t.Fatal("a free place is refused")
		}
	}
	get := func(path string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		return w
	}
	lists := []string{"/", "/json/", "/json/workers", "/v1/status", "/v1/workers", "/v1/apps", "/v1/executors", "/v1/events"}
	for _, path := range lists {
		if w := get(path); w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") != "1" || !strings.Contains(w.Body.String(), CodeBusy) {
			t.Errorf("%s: %d, Retry-After %q, %s", path, w.Code, w.Header().Get("Retry-After"), w.Body)
		}
	}
	for _, path := range []string{"/healthz", "/readyz", "/leader", "/v1/leader", "/v1/health", "/v1/peers", "/metrics"} {
		if w := get(path); w.Code != http.StatusOK {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
	if got := counted(t, h, "raftmaster_http_busy_total"); got != float64(len(lists)) {
		t.Errorf("%v refusals counted, %d made", got, len(lists))
	}
	mustContain(t, get("/metrics").Body.String(), "raftmaster_http_busy_total 8", "raftmaster_http_connections_refused_total 0")
	h.lists.Give("192.0.2.0")
	for range 2 { // the place comes back after each
		if w := get("/v1/apps"); w.Code != http.StatusOK {
			t.Errorf("with a place free: %d", w.Code)
		}
	}
}

// counted reads one of the handler's own counters.
func counted(t *testing.T, h *Handler, name string) float64 {
	t.Helper()
	families, err := h.own.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	t.Fatalf("no metric %s", name)
	return 0
}

// stuckConn is a connection whose reader has stopped: a write lasts until its deadline.
type stuckConn struct {
	httptest.ResponseRecorder
	deadlines []time.Time
	taken     int
	stuck     int
}

func (s *stuckConn) SetWriteDeadline(t time.Time) error {
	s.deadlines = append(s.deadlines, t)
	return nil
}

func (s *stuckConn) Write(b []byte) (int, error) {
	if s.taken+len(b) > s.stuck {
		return 0, context.DeadlineExceeded
	}
	s.taken += len(b)
	return len(b), nil
}

// TestF1EachChunkHasADeadline: no write is larger than a chunk or without a deadline of its own, an answer that breaks off
// ends its connection, and its place is free again.
func TestF1EachChunkHasADeadline(t *testing.T) {
	f := newFixture(leaderStatus())
	manyApps(f, 1000)
	h := NewHandler(f.opts)
	for _, path := range []string{"/v1/apps", "/json/"} {
		w := &stuckConn{ResponseRecorder: *httptest.NewRecorder(), stuck: 3*uibase.ChunkBytes + 1}
		start := time.Now()
		aborted := func() (v any) {
			defer func() { v = recover() }()
			h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
			return nil
		}()
		if aborted != http.ErrAbortHandler {
			t.Errorf("%s: the handler ended with %v", path, aborted)
		}
		if len(w.deadlines) < 3 || w.taken == 0 {
			t.Errorf("%s: %d deadlines for %d bytes", path, len(w.deadlines), w.taken)
		}
		for _, d := range w.deadlines {
			if d.Before(start.Add(uibase.ChunkTimeout)) || d.After(time.Now().Add(uibase.ChunkTimeout)) {
				t.Errorf("%s: a deadline %v after the start", path, d.Sub(start))
			}
		}
		if h.lists.Held() != 0 {
			t.Errorf("%s: the place is still taken", path)
		}
	}
}

// TestF1ConnectionsAreBounded: connections beyond the number per address, and in all, are closed at once and counted, and
// a place comes back when its connection ends.
func TestF1ConnectionsAreBounded(t *testing.T) {
	h := NewHandler(newFixture(leaderStatus()).opts)
	inner, err := Listen(context.Background(), "MasterUI", "127.0.0.1", 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	ln := newLimitListener(inner, 3, 2)
	ln.refused = h.refusedConns.Inc
	s := start(ln, newHTTPServer(h, hclog.NewNullLogger()), hclog.NewNullLogger())
	dial := func(from string) net.Conn {
		t.Helper()
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: 30 * time.Second}
		c, err := d.Dial("tcp", s.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	// served tells whether the connection is answered; a refused one ends without a byte.
	served := func(c net.Conn) bool {
		t.Helper()
		if err := c.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
			t.Fatal(err)
		}
		_, werr := io.WriteString(c, "GET /healthz HTTP/1.1\r\nHost: h\r\n\r\n")
		n, rerr := c.Read(make([]byte, 1))
		if n == 0 && isTimeout(rerr) {
			t.Fatalf("neither answered nor closed: %v, %v", werr, rerr)
		}
		return n == 1
	}
	var open []net.Conn
	for _, c := range []struct {
		from string
		want bool
	}{{"127.0.0.1", true}, {"127.0.0.1", true}, {"127.0.0.1", false}, {"127.0.0.2", true}, {"127.0.0.3", false}} {
		conn := dial(c.from)
		open = append(open, conn)
		if got := served(conn); got != c.want {
			t.Errorf("%+v: served %v", c, got)
		}
	}
	if got := counted(t, h, "raftmaster_http_connections_refused_total"); got != 2 {
		t.Errorf("%v refused connections counted, want 2", got)
	}
	for _, c := range open {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	for deadline := time.Now().Add(30 * time.Second); ; {
		c := dial("127.0.0.1")
		ok := served(c)
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if ok {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("no place came back")
		}
		time.Sleep(10 * time.Millisecond)
	}
	if err := s.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
	ln.mu.Lock()
	defer ln.mu.Unlock()
	if ln.open != 0 || len(ln.byIP) != 0 {
		t.Errorf("after the shutdown %d connections are counted, by address %v", ln.open, ln.byIP)
	}
}

func isTimeout(err error) bool {
	e, ok := err.(net.Error)
	return ok && e.Timeout()
}
