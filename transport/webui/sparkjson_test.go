package webui

import (
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"raftmaster/transport/internal/uibase"
)

// sample is a recorded answer of a real Spark master: a comment line, the head, an empty line, the body.
type sample struct {
	path   string
	status string
	header http.Header
	body   string
}

func readSample(t *testing.T, name string) sample {
	t.Helper()
	data, err := os.ReadFile("testdata/" + name + ".txt")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.ReplaceAll(string(data), "\r\n", "\n")
	head, body, ok := strings.Cut(text, "\n\n")
	if !ok {
		t.Fatalf("%s: no empty line after the head", name)
	}
	lines := strings.Split(head, "\n")
	s := sample{path: strings.TrimPrefix(strings.TrimPrefix(lines[0], "# GET http://127.0.0.1:22380"), "# GET http://127.0.0.1:22180"), status: lines[1], header: http.Header{}, body: strings.TrimSuffix(body, "\n")}
	for _, l := range lines[2:] {
		k, v, _ := strings.Cut(l, ": ")
		s.header.Add(k, v)
	}
	return s
}

// recorded is the state of the real master at the moments of the samples.
func recorded(f *fixture, active bool, now int64) {
	st := leaderStatus()
	st.URL = "spark://127.0.0.1:22377"
	f.state.status = st
	worker := Worker{ID: "worker-20261130120657-127.0.0.1-22381", Host: "127.0.0.1", Port: 22381, WebURL: "http://127.0.0.1:22382",
		State: StateAlive, Cores: 2, MemoryMB: 2048, LastHeartbeatMillis: 1796040540246}
	app := App{ID: "app-20261130120819-0000", Name: "Sample App", User: "root", State: "FINISHED", Cores: 1,
		MemoryPerExecutorMB: 600, StartMillis: 1796040499244, EndMillis: 1796040499244 + 48346}
	if active {
		worker.CoresUsed, worker.MemoryUsedMB, worker.LastHeartbeatMillis = 1, 600, 1796040510250
		app.State, app.Active, app.EndMillis = "RUNNING", true, 0
	}
	f.state.cluster = Cluster{Workers: []Worker{worker}, Apps: []App{app}}
	f.opts.Now = func() time.Time { return time.UnixMilli(now).UTC() }
}

func TestSparkJSONFullObject(t *testing.T) {
	t.Run("running", func(t *testing.T) {
		f := newFixture(Status{})
		recorded(f, true, 1796040499244+14984)
		checkSample(t, f, readSample(t, "spark-4.3.0_master_json_apprunning"))
	})
	t.Run("done", func(t *testing.T) {
		f := newFixture(Status{})
		recorded(f, false, 1796040549000)
		checkSample(t, f, readSample(t, "spark-4.3.0_master_json_appdone"))
	})
	t.Run("idle", func(t *testing.T) {
		s := readSample(t, "spark-4.3.0_master_json_idle")
		f := newFixture(Status{})
		recorded(f, false, 1796040549000)
		f.state.cluster.Apps = nil
		f.state.cluster.Workers[0].LastHeartbeatMillis = heartbeatOf(t, s)
		checkSample(t, f, s)
	})
	t.Run("standby", func(t *testing.T) {
		s := readSample(t, "spark-3.5.9_standby_json")
		s.path = "/json/"
		f := newFixture(standbyStatus())
		f.state.status.URL = "spark://127.0.0.1:22577"
		f.state.cluster = Cluster{Workers: []Worker{{ID: "replicated, not shown", State: StateAlive, Cores: 4}}}
		if got := f.get("/json/").Body.String(); got != s.body {
			t.Errorf("difference (-want +got):\n%s", cmp.Diff(s.body, got))
		}
	})
}

func heartbeatOf(t *testing.T, s sample) int64 {
	t.Helper()
	var v struct {
		Workers []struct {
			LastHeartbeat int64 `json:"lastheartbeat"`
		} `json:"workers"`
	}
	if err := json.Unmarshal([]byte(s.body), &v); err != nil || len(v.Workers) != 1 {
		t.Fatalf("the sample does not hold one worker: %v", err)
	}
	return v.Workers[0].LastHeartbeat
}

// checkSample compares the body byte for byte, and the headers that are not a matter of the moment.
func checkSample(t *testing.T, f *fixture, s sample) {
	t.Helper()
	w := f.get(s.path)
	if got := w.Body.String(); got != s.body {
		t.Errorf("body (-want +got):\n%s", cmp.Diff(s.body, got))
	}
	if !strings.Contains(s.status, " 200 ") || w.Code != http.StatusOK {
		t.Errorf("status %d, the sample says %q", w.Code, s.status)
	}
	for name, want := range s.header {
		switch name {
		case "Date":
		case "Content-Security-Policy":
			mustContain(t, w.Header().Get(name), "default-src 'self'; script-src 'self' 'nonce-", "object-src 'none'; base-uri 'self';", "frame-ancestors 'self';")
		default:
			if diff := cmp.Diff(want, w.Header().Values(name)); diff != "" {
				t.Errorf("header %s (-want +got):\n%s", name, diff)
			}
		}
	}
}

func TestSparkJSONFields(t *testing.T) {
	for _, field := range []string{"activeapps", "aliveworkers", "applications", "clusterutilization", "cores", "coresused", "memory",
		"memoryused", "resources", "resourcesused", "status", "url", "workers", "completedapps", "activedrivers", "completeddrivers", "nosuchfield"} {
		t.Run(field, func(t *testing.T) {
			s := readSample(t, "spark-4.3.0_json_"+field)
			f := newFixture(Status{})
			recorded(f, true, 1796040499244+15145)
			if s.path != "/json/"+field {
				t.Fatalf("the sample is of %s", s.path)
			}
			checkSample(t, f, s)
		})
	}
	t.Run("utilization without capacity is 100", func(t *testing.T) {
		f := newFixture(leaderStatus())
		checkSample(t, f, readSample(t, "spark-4.3.0_json_clusterutilization_empty"))
	})
	t.Run("only the first segment counts", func(t *testing.T) {
		f := newFixture(leaderStatus())
		for _, path := range []string{"/json/status/", "/json/status/more", "/json/status123"} {
			if got := f.get(path).Body.String(); got != "{\n  \"status\" : \"ALIVE\"\n}" {
				t.Errorf("%s: %s", path, got)
			}
		}
		if got := f.get("/json/123").Body.String(); !strings.HasPrefix(got, "{\n  \"url\"") {
			t.Errorf("/json/123 is not the full object: %s", got)
		}
	})
}

func TestSparkJSONRedirect(t *testing.T) {
	s := readSample(t, "spark-4.3.0_json_redirect")
	w := newFixture(leaderStatus()).get("/json")
	if w.Code != http.StatusMovedPermanently || !strings.Contains(s.status, " 301 ") {
		t.Errorf("status %d, the sample says %q", w.Code, s.status)
	}
	if got, want := w.Header().Get("Location"), s.header.Get("Location"); got != want {
		t.Errorf("Location %q, want %q", got, want)
	}
}

// A leader whose lease has run out must not show its tables as the truth.
func TestSparkJSONWithoutLeaseIsStandby(t *testing.T) {
	f := newFixture(leaderStatus())
	f.state.status.LeaseValid = false
	f.state.cluster = Cluster{Workers: []Worker{{ID: "w", State: StateAlive}}}
	got := f.get("/json/").Body.String()
	mustContain(t, got, `"status" : "STANDBY"`, `"workers" : [ ]`)
}

func TestSparkJSONResourcesAndTypes(t *testing.T) {
	f := newFixture(leaderStatus())
	f.state.cluster = Cluster{
		Workers: []Worker{
			{ID: "w1", State: StateAlive, Cores: 2, Resources: []Resource{{Name: "gpu", Addresses: []string{"1", "0"}, UsedAddresses: []string{"1"}}}},
			{ID: "w2", State: "DEAD", Cores: 8, Resources: []Resource{{Name: "gpu", Addresses: []string{"7"}}}},
		},
		Apps: []App{{ID: "a", Active: true, Resources: []ResourceRequest{{Name: "gpu", Amount: 1}}}},
	}
	got := f.get("/json/").Body.String()
	mustContain(t, got, `"cores" : 2,`, `"aliveworkers" : 1`,
		"\"resourcesused\" : {\n      \"gpu\" : {\n        \"name\" : \"gpu\",\n        \"addresses\" : [ \"1\" ]\n      }\n    }",
		"\"resourcesfree\" : {\n      \"gpu\" : {\n        \"name\" : \"gpu\",\n        \"addresses\" : [ \"0\" ]",
		"\"resources\" : [ {\n    \"gpu\" : {\n      \"name\" : \"gpu\",\n      \"addresses\" : [ \"0\", \"1\" ]\n    }\n  } ]",
		"\"resourcesperexecutor\" : [ {\n      \"name\" : \"gpu\",\n      \"amount\" : 1\n    } ]")
	if !json.Valid([]byte(got)) {
		t.Error("this is no JSON")
	}
}

func TestAppendJSONStringRoundTrip(t *testing.T) {
	for _, s := range []string{"", "plain", "quote \" backslash \\", "\b\t\n\f\r\x00\x1f", "ünïcode 😀", "</script>", "\u2028"} {
		out := uibase.AppendJSONString(nil, s)
		var back string
		if err := json.Unmarshal(out, &back); err != nil || back != s {
			t.Errorf("%q became %s: %q, %v", s, out, back, err)
		}
	}
	if got := string(uibase.AppendJSONString(nil, "a\xffb\x1b")); got != "\"a\uFFFDb\\u001B\"" {
		t.Errorf("broken UTF-8 became %s", got)
	}
}

func TestJavaDate(t *testing.T) {
	at := time.Date(2026, 12, 3, 4, 5, 6, 0, time.UTC)
	if got := at.Format(javaDate); got != "Thu Dec 03 04:05:06 UTC 2026" {
		t.Error(got)
	}
}
