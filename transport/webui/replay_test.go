package webui

import (
	"encoding/json"
	"net/http"
	"slices"
	"sort"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// sparkMaster is the whole object of /json as a real master gave it.
type sparkMaster struct {
	URL     string `json:"url"`
	Status  string `json:"status"`
	Workers []struct {
		ID                                         string `json:"id"`
		Host                                       string `json:"host"`
		WebUI                                      string `json:"webuiaddress"`
		State                                      string `json:"state"`
		Port, Cores, CoresUsed, Memory, MemoryUsed int
		LastHeartbeat                              int64
	}
	ActiveApps, CompletedApps       []sparkMasterApp
	ActiveDrivers, CompletedDrivers []sparkMasterDriver
}

type sparkMasterApp struct {
	ID, Name, User, State    string
	StartTime, Duration      int64
	Cores, MemoryPerExecutor int
}

type sparkMasterDriver struct {
	ID, StartTime, State, Worker, MainClass string
	Cores, Memory                           int
}

// replayed gives our handler the state that a real master had at the moment of a sample.
func replayed(t *testing.T, s sample) *fixture {
	t.Helper()
	var m sparkMaster
	if err := json.Unmarshal([]byte(s.body), &m); err != nil {
		t.Fatal(err)
	}
	f := newFixture(leaderStatus())
	f.state.status.URL = m.URL
	var c Cluster
	for _, w := range m.Workers {
		c.Workers = append(c.Workers, Worker{ID: w.ID, Host: w.Host, Port: w.Port, WebURL: w.WebUI, State: w.State, Cores: w.Cores,
			CoresUsed: w.CoresUsed, MemoryMB: w.Memory, MemoryUsedMB: w.MemoryUsed, LastHeartbeatMillis: w.LastHeartbeat})
	}
	now := int64(1796040514228)
	for _, a := range m.ActiveApps {
		c.Apps = append(c.Apps, a.app(true))
		now = a.StartTime + a.Duration
	}
	for _, a := range m.CompletedApps {
		c.Apps = append(c.Apps, a.app(false))
	}
	for _, d := range m.ActiveDrivers {
		c.Drivers = append(c.Drivers, d.driver(t, true))
	}
	for _, d := range m.CompletedDrivers {
		c.Drivers = append(c.Drivers, d.driver(t, false))
	}
	f.state.cluster = c
	f.opts.Now = func() time.Time { return time.UnixMilli(now).UTC() }
	return f
}

func (a sparkMasterApp) app(active bool) App {
	out := App{ID: a.ID, Name: a.Name, User: a.User, State: a.State, Active: active, Cores: a.Cores,
		MemoryPerExecutorMB: a.MemoryPerExecutor, StartMillis: a.StartTime}
	if !active {
		out.EndMillis = a.StartTime + a.Duration
	}
	return out
}

func (d sparkMasterDriver) driver(t *testing.T, active bool) Driver {
	t.Helper()
	start, err := strconv.ParseInt(d.StartTime, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	out := Driver{ID: d.ID, State: d.State, Active: active, Cores: d.Cores, MemoryMB: d.Memory, MainClass: d.MainClass, SubmittedMillis: start}
	if d.Worker != "None" {
		out.WorkerID = d.Worker
	}
	out.Waiting = active && out.WorkerID == ""
	return out
}

// TestB190_JSONEqualsRecordedMasters: for what real masters of both releases held, with drivers in every state, /json/ is
// theirs byte for byte. What differs between the releases is listed here: nothing in the body of /json/.
func TestB190_JSONEqualsRecordedMasters(t *testing.T) {
	for _, name := range []string{"3.5.9_master_json_apprunning", "3.5.9_master_json_driverwaiting", "3.5.9_master_json_workerdead",
		"3.5.9_master_json_decommissioned", "4.3.0_master_json_apprunning", "4.3.0_master_json_driverwaiting",
		"4.3.0_master_json_workerdead", "4.3.0_master_json_decommissioned"} {
		t.Run(name, func(t *testing.T) {
			s := readSample(t, "spark-"+name)
			f := replayed(t, s)
			if got := f.get("/json/").Body.String(); got != s.body {
				t.Errorf("(-Spark +ours):\n%s", cmp.Diff(s.body, got))
			}
		})
	}
}

// TestB190_DriverFieldsOfJSON: the sub-paths of 4.3.0 about drivers, byte for byte.
func TestB190_DriverFieldsOfJSON(t *testing.T) {
	full := readSample(t, "spark-4.3.0_master_json_driverwaiting")
	for _, name := range []string{"activedrivers", "clusterutilization"} {
		s := readSample(t, "spark-4.3.0_json_"+name+"_driverwaiting")
		checkSample(t, replayed(t, full), s)
	}
	// 3.5.9 knows no sub-paths: every path below /json/ gives the whole object there.
	old := readSample(t, "spark-3.5.9_json_activedrivers_driverwaiting")
	if !strings.Contains(old.body, `"aliveworkers"`) {
		t.Error("the recorded 3.5.9 answers a sub-path with one field after all: list that difference again")
	}
}

// TestG72_DriverWithoutClass: a driver whose command has fewer than three arguments does not spoil the answer.
func TestG72_DriverWithoutClass(t *testing.T) {
	f := newFixture(leaderStatus())
	f.state.cluster.Drivers = []Driver{{ID: "driver-1", State: "SUBMITTED", Active: true, Waiting: true,
		Resources: []Resource{{Name: "gpu", Addresses: []string{"1", "0"}}}}}
	w := f.get("/json/activedrivers")
	if w.Code != http.StatusOK {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	mustContain(t, w.Body.String(), `"mainclass" : ""`, `"worker" : "None"`, `"starttime" : "0"`, `"addresses" : [ "0", "1" ]`)
}

// metricSamples are recorded answers of Spark's metrics routes, and the sample of /json of about the same moment.
var metricSamples = []struct{ name, path, state string }{
	{"3.5.9_metrics_master_json_apprunning", "/metrics/master/json/", "3.5.9_master_json_apprunning"},
	{"4.3.0_metrics_master_json_apprunning", "/metrics/master/json/", "4.3.0_master_json_apprunning"},
	{"3.5.9_metrics_apps_json_apprunning", "/metrics/applications/json/", "3.5.9_master_json_apprunning"},
	{"4.3.0_metrics_apps_json_apprunning", "/metrics/applications/json/", "4.3.0_master_json_apprunning"},
	{"4.3.0_metrics_apps_json_appdone", "/metrics/applications/json/", "4.3.0_master_json_appdone"},
	{"3.5.9_metrics_master_prom_apprunning", "/metrics/master/prometheus/", "3.5.9_master_json_apprunning"},
	{"4.3.0_metrics_master_prom_apprunning", "/metrics/master/prometheus/", "4.3.0_master_json_apprunning"},
	{"3.5.9_metrics_apps_prom_apprunning", "/metrics/applications/prometheus/", "3.5.9_master_json_apprunning"},
	{"4.3.0_metrics_apps_prom_apprunning", "/metrics/applications/prometheus/", "4.3.0_master_json_apprunning"},
}

// TestG76_SparkMetricsEqualRecordedOnes: every name and type of Spark's metrics, in both forms and of both releases. Only
// the times in names and values differ: Spark takes them some milliseconds after the registration.
func TestG76_SparkMetricsEqualRecordedOnes(t *testing.T) {
	for _, c := range metricSamples {
		t.Run(c.name, func(t *testing.T) {
			s := readSample(t, "spark-"+c.name)
			w := replayed(t, readSample(t, "spark-"+c.state)).get(c.path)
			if w.Code != http.StatusOK || w.Header().Get("Content-Type") != s.header.Get("Content-Type") {
				t.Errorf("%d %s, Spark: %s", w.Code, w.Header().Get("Content-Type"), s.header.Get("Content-Type"))
			}
			want, got := maskTimes(s.body), maskTimes(w.Body.String())
			if strings.TrimRight(got, "\n") != strings.TrimRight(want, "\n") {
				t.Errorf("(-Spark +ours):\n%s", cmp.Diff(strings.Split(want, ","), strings.Split(got, ",")))
			}
		})
	}
}

// maskTimes replaces what is a moment: the creation in names, and runtimes.
func maskTimes(body string) string {
	lines := strings.Split(body, "\n")
	for i, l := range lines {
		if strings.Contains(l, "_runtime_ms_") {
			lines[i] = l[:strings.LastIndex(l, " ")] + " TIME"
		}
	}
	body = strings.Join(lines, "\n")
	fields := strings.Split(body, `_ms":{"value":`)
	for i := 1; i < len(fields); i++ {
		fields[i] = "TIME" + strings.TrimLeft(fields[i], "0123456789")
	}
	body = strings.Join(fields, `_ms":{"value":`)
	var out strings.Builder
	for len(body) > 0 {
		at := strings.Index(body, "1796040")
		if at < 0 {
			break
		}
		out.WriteString(body[:at] + "CREATED")
		body = strings.TrimLeft(body[at:], "0123456789")
	}
	return out.String() + body
}

// TestG76_MetricNamesAreSafe: whatever an application is called, an answer is well-formed and each name is there once.
func TestG76_MetricNamesAreSafe(t *testing.T) {
	f := newFixture(leaderStatus())
	for _, name := range []string{"a b", "a_b", "a b", "quote\" \\ new\nline {x=\"y\"} 1", "ünï", "", strings.Repeat("n", 5000)} {
		f.state.cluster.Apps = append(f.state.cluster.Apps, App{ID: name, Name: name, State: "RUNNING", Active: true, StartMillis: 7, Cores: 1})
	}
	var v struct {
		Gauges map[string]struct{ Value any }
	}
	body := f.get("/metrics/applications/json/").Body.Bytes()
	if err := json.Unmarshal(body, &v); err != nil {
		t.Fatal(err)
	}
	if len(v.Gauges) != 3*6 {
		t.Errorf("%d gauges of 6 different names", len(v.Gauges))
	}
	if n := strings.Count(string(body), `"application.a b.7.cores"`); n != 1 {
		t.Errorf("one name is there %d times", n)
	}
	seen := map[string]bool{}
	for _, line := range strings.Split(strings.TrimSpace(f.get("/metrics/applications/prometheus/").Body.String()), "\n") {
		key, _, _ := strings.Cut(line, " ")
		if seen[key] {
			t.Errorf("twice: %s", key)
		}
		seen[key] = true
		name, labels, _ := strings.Cut(key, "{")
		if !strings.HasPrefix(name, "metrics_") || strings.ContainsFunc(name, func(r rune) bool {
			return r != '_' && (r < '0' || r > '9' && r < 'A' || r > 'Z' && r < 'a' || r > 'z')
		}) || !slices.Contains([]string{`type="gauges"}`, `type="counters"}`, `type="histograms"}`}, labels) {
			t.Errorf("no line of this format: %q", line)
		}
	}
}

// TestB009_StandbyCountsNothing: as on Spark's standbys, so that sums over all masters are right.
func TestB009_StandbyCountsNothing(t *testing.T) {
	f := newFixture(standbyStatus())
	f.state.cluster = Cluster{Workers: []Worker{{ID: "w", State: StateAlive}}, Apps: []App{{ID: "a", Name: "a", Active: true, State: "WAITING"}}}
	mustContain(t, f.get("/metrics/master/json/").Body.String(), `"gauges":{"master.aliveWorkers":{"value":0},"master.apps":{"value":0},"master.waitingApps":{"value":0},"master.workers":{"value":0}}`)
	mustContain(t, f.get("/metrics/applications/json/").Body.String(), `"gauges":{}`)
	f.state.status = leaderStatus()
	f.state.cluster.Workers = append(f.state.cluster.Workers, Worker{ID: "d", State: "DEAD"})
	mustContain(t, f.get("/metrics/master/prometheus/").Body.String(), `metrics_master_workers_Value{type="gauges"} 2`,
		`metrics_master_aliveWorkers_Value{type="gauges"} 1`, `metrics_master_waitingApps_Number{type="gauges"} 1`)
}

// TestG72_ContextPathsRedirect: a path without its final slash leads to the one with it, and keeps its query.
func TestG72_ContextPathsRedirect(t *testing.T) {
	f := newFixture(leaderStatus())
	paths := []string{"/json", "/app", "/app/json", "/environment", "/log", "/logPage", "/metrics/master/json", "/metrics/master/prometheus",
		"/metrics/applications/json", "/metrics/applications/prometheus"}
	sort.Strings(paths)
	for _, path := range paths {
		w := f.get(path + "?appId=app-1")
		if w.Code != http.StatusMovedPermanently || w.Header().Get("Location") != path+"/?appId=app-1" {
			t.Errorf("%s: %d to %q", path, w.Code, w.Header().Get("Location"))
		}
	}
	f.opts.ReverseProxy, f.opts.ReverseProxyURL = true, "https://portal.example/spark/"
	if got := f.get("/json").Header().Get("Location"); got != "/spark/json/" {
		t.Errorf("behind a proxy: %q", got)
	}
}
