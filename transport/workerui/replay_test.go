package workerui

import (
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var releases = []string{"3.5.9", "4.3.0"}

// sample is a recorded answer of a real worker.
type sample struct {
	header http.Header
	body   string
}

func readSample(t *testing.T, name string) sample {
	t.Helper()
	data, err := os.ReadFile("testdata/spark-" + name + ".txt")
	if err != nil {
		t.Fatal(err)
	}
	head, body, ok := strings.Cut(string(data), "\n\n")
	if !ok {
		t.Fatalf("%s: no empty line after the head", name)
	}
	s := sample{header: http.Header{}, body: strings.TrimRight(body, "\n")}
	for _, l := range strings.Split(head, "\n")[2:] {
		k, v, _ := strings.Cut(l, ": ")
		s.header.Add(k, v)
	}
	return s
}

// sparkWorker is what /json of a real worker held.
type sparkWorker struct {
	ID, MasterURL, MasterWebUIURL        string
	Cores, CoresUsed, Memory, MemoryUsed int
	Executors, FinishedExecutors         []sparkExecutor
}

type sparkExecutor struct {
	ID, Memory int
	AppID      string
	AppDesc    struct {
		Name, User, Command      string
		Cores, MemoryPerExecutor int
	}
}

func (e sparkExecutor) executor() Executor {
	return Executor{ID: e.ID, AppID: e.AppID, MemoryMB: e.Memory, App: App{Name: e.AppDesc.Name, User: e.AppDesc.User,
		Command: e.AppDesc.Command, MaxCores: e.AppDesc.Cores, MemoryPerExecutorMB: e.AppDesc.MemoryPerExecutor}}
}

// replayed is the View of the worker that gave a sample of /json.
func replayed(t *testing.T, s sample) View {
	t.Helper()
	var w sparkWorker
	if err := json.Unmarshal([]byte(s.body), &w); err != nil {
		t.Fatal(err)
	}
	v := View{ID: w.ID, MasterURL: w.MasterURL, MasterWebURL: w.MasterWebUIURL, Cores: w.Cores, CoresUsed: w.CoresUsed,
		MemoryMB: w.Memory, MemoryUsedMB: w.MemoryUsed}
	for _, e := range w.Executors {
		v.Executors = append(v.Executors, e.executor())
	}
	for _, e := range w.FinishedExecutors {
		v.FinishedExecutors = append(v.FinishedExecutors, e.executor())
	}
	return v
}

// sameHeaders compares what both releases and we say of an answer; the policy has words of its own in each.
func sameHeaders(t *testing.T, got http.Header, s sample) {
	t.Helper()
	for _, name := range []string{"Content-Type", "Cache-Control", "X-Frame-Options", "X-Content-Type-Options"} {
		if got.Get(name) != s.header.Get(name) {
			t.Errorf("%s: %q, Spark %q", name, got.Get(name), s.header.Get(name))
		}
	}
}

// TestJSONEqualsRecordedWorkers: for what real workers of both releases held, /json/ is theirs byte for byte.
func TestJSONEqualsRecordedWorkers(t *testing.T) {
	for _, release := range releases {
		for _, moment := range []string{"idle", "apprunning", "driverrunning"} {
			t.Run(release+"_"+moment, func(t *testing.T) {
				s := readSample(t, release+"_json_"+moment)
				f := newFixture(t)
				f.backend.view = replayed(t, s)
				for _, path := range []string{"/json/", "/json/executors"} {
					w := f.get(path)
					if w.Code != http.StatusOK || w.Body.String() != s.body {
						t.Errorf("%s: %d (-Spark +ours):\n%s", path, w.Code, cmp.Diff(s.body, w.Body.String()))
					}
					sameHeaders(t, w.Header(), s)
				}
			})
		}
	}
}

// TestG76_MetricsEqualRecordedWorkers: every name and value of Spark's worker, in both forms and of both releases.
func TestG76_MetricsEqualRecordedWorkers(t *testing.T) {
	for _, release := range releases {
		for _, c := range []struct{ name, path, state string }{
			{"metrics_json_idle", "/metrics/json/", "json_idle"},
			{"metrics_json_apprunning", "/metrics/json/", "json_apprunning"},
			{"metrics_prom_apprunning", "/metrics/prometheus/", "json_apprunning"},
		} {
			t.Run(release+"_"+c.name, func(t *testing.T) {
				s := readSample(t, release+"_"+c.name)
				f := newFixture(t)
				f.backend.view = replayed(t, readSample(t, release+"_"+c.state))
				w := f.get(c.path)
				if got := strings.TrimRight(w.Body.String(), "\n"); got != s.body {
					t.Errorf("(-Spark +ours):\n%s", cmp.Diff(strings.Split(s.body, ","), strings.Split(got, ",")))
				}
				sameHeaders(t, w.Header(), s)
			})
		}
	}
}

// TestJSONOfResources: resources, which no recorded worker had, in the shape of ResourceInformation.toJson.
func TestJSONOfResources(t *testing.T) {
	body := newFixture(t).get("/json/").Body.String()
	mustContain(t, body, `"resources" : {
    "gpu" : {
      "name" : "gpu",
      "addresses" : [ "0", "1", "2" ]
    }
  }`, `"resourcesused" : {
    "gpu" : {
      "name" : "gpu",
      "addresses" : [ "1" ]`, `"resourcesperexecutor" : [ {
        "name" : "gpu",
        "amount" : 1
      } ]`)
	if !json.Valid([]byte(body)) {
		t.Error("no JSON")
	}
}
