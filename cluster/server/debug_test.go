package server

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"raftmaster/transport/webui"
)

// TestLogLevelGoesBack: a level for a time ends by itself, a later one replaces it, and the last one for good stays.
func TestLogLevelGoesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := hclog.New(&hclog.LoggerOptions{Level: hclog.Info, Output: io.Discard})
		var mu sync.Mutex
		var events []webui.Event
		l := newLogLevels(log, "a:7077", func(e webui.Event) { mu.Lock(); events = append(events, e); mu.Unlock() })
		set := func(level string, life time.Duration) webui.LogLevel {
			t.Helper()
			v, err := l.SetLogLevel(context.Background(), webui.LogLevelRequest{Level: level, ForMillis: life.Milliseconds()})
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
		child := log.Named("child")
		if v := set("debug", 10*time.Minute); v.Before != "info" || v.Then != "info" || v.UntilMillis != time.Now().Add(10*time.Minute).UnixMilli() || !child.IsDebug() {
			t.Errorf("%+v", v)
		}
		time.Sleep(9 * time.Minute)
		set("trace", 10*time.Minute) // its time counts from now, and it goes back to info
		time.Sleep(9 * time.Minute)
		if v := l.LogLevel(); v.Level != "trace" {
			t.Errorf("after 9 minutes: %+v", v)
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if v := l.LogLevel(); v.Level != "info" || v.UntilMillis != 0 || v.Then != "" || len(events) != 1 || events[0].Kind != "log-level" {
			t.Errorf("%+v, %+v", v, events)
		}
		set("debug", time.Minute)
		set("warn", 0)
		time.Sleep(time.Hour)
		if v := l.LogLevel(); v.Level != "warn" || v.Configured != "info" || len(events) != 1 {
			t.Errorf("%+v, %+v", v, events)
		}
		set("trace", time.Hour)
		l.close()
		if log.GetLevel() != hclog.Warn {
			t.Errorf("the level of a time outlives its master: %v", log.GetLevel())
		}
		for _, bad := range []webui.LogLevelRequest{{}, {Level: "off"}, {Level: "info", ForMillis: -1}, {Level: "info", ForMillis: webui.MaxLogLevelMillis + 1}, {Level: "info"}} {
			if _, err := l.SetLogLevel(context.Background(), bad); err == nil {
				t.Errorf("%+v was taken", bad) // the last one because the master has stopped
			}
		}
	})
}

// TestLogRing keeps the last lines of its own master, in bounded memory.
func TestLogRing(t *testing.T) {
	root := hclog.NewInterceptLogger(&hclog.LoggerOptions{Name: "dev", Level: hclog.Info, Output: io.Discard})
	one, two := newLogRing(root.Named("master1")), newLogRing(root.Named("master2"))
	defer one.close()
	defer two.close()
	root.Named("master1").Named("raft").Info("of one", "k", "v")
	root.Named("master2").Warn("of two")
	root.Named("master1").Debug("below the level")
	if text, ok := one.text(); !ok || !strings.Contains(text, "dev.master1.raft: of one: k=v") || strings.Contains(text, "two") || strings.Contains(text, "below") {
		t.Errorf("%q", text)
	}
	for i := range 20_000 {
		root.Named("master1").Info("line", "i", i, "long", strings.Repeat("x", i%8000))
	}
	text, _ := one.text()
	if len(text) > logRingBytes || len(text) < logRingBytes/2 || !strings.Contains(text, "i=19999") || strings.Contains(text, "of one") {
		t.Errorf("%d bytes are kept", len(text))
	}
	if _, ok := newLogRing(hclog.NewNullLogger()).text(); ok {
		t.Error("a logger that cannot be listened to is said to be kept")
	}
}

// TestDebugIsForOperators: strangers, readers and web pages get nothing; an operator gets every part.
func TestDebugIsForOperators(t *testing.T) {
	t.Parallel()
	c := start(t, 1, nil)
	m := c.leader()
	ask := func(path string, header http.Header) (int, []byte) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, m.server().URL()+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header = header
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		if err == nil {
			err = resp.Body.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, body
	}
	status, body := ask("/v1/debug", http.Header{})
	if status != http.StatusOK {
		t.Fatalf("%d %s", status, body)
	}
	for _, part := range m.server().debugParts() {
		if !bytes.Contains(body, fmt.Appendf(nil, "%q", part.Name)) {
			t.Errorf("the list lacks %s", part.Name)
		}
		want := http.StatusOK
		if part.Name == "log" {
			want = http.StatusInternalServerError // this test's logger cannot be listened to
		}
		if status, body := ask("/v1/debug/"+part.Name, http.Header{}); status != want || len(body) == 0 {
			t.Errorf("%s: %d %s", part.Name, status, body)
		}
		for _, from := range []http.Header{{"Origin": {"http://evil"}}, {"Sec-Fetch-Site": {"cross-site"}}, {"X-Forwarded-For": {"10.0.0.9"}}} {
			if status, _ := ask("/v1/debug/"+part.Name, from); status != http.StatusForbidden {
				t.Errorf("%s with %v: %d", part.Name, from, status)
			}
		}
	}
	if status, _ := ask("/v1/debug/nothing", http.Header{}); status != http.StatusNotFound {
		t.Errorf("an unknown part: %d", status)
	}
	if status, _ := ask("/debug/pprof/heap", http.Header{}); status != http.StatusNotFound {
		t.Errorf("a public profile: %d", status)
	}
}
