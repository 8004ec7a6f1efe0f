package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"raftmaster/transport/webui"
)

// fakeGateway is a REST gateway whose driver goes through states, one for each question about it.
type fakeGateway struct {
	url string

	mu      sync.Mutex
	states  []string
	creates []string
	lose    bool // the answer to a submission
}

func startGateway(t *testing.T, states ...string) *fakeGateway {
	t.Helper()
	g := &fakeGateway{states: states}
	s := httptest.NewServer(g)
	t.Cleanup(s.Close)
	g.url = s.URL
	return g
}

func (g *fakeGateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	call, id, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/v1/submissions/"), "/")
	known := id == "driver-1"
	switch {
	case call == "create" && g.lose:
		g.creates = append(g.creates, string(body))
		panic(http.ErrAbortHandler)
	case call == "create":
		g.creates = append(g.creates, string(body))
		fmt.Fprint(w, `{"action":"CreateSubmissionResponse","success":true,"submissionId":"driver-1","message":"Driver successfully submitted as driver-1","serverSparkVersion":"4.3.0"}`)
	case call == "kill":
		fmt.Fprintf(w, `{"action":"KillSubmissionResponse","success":%t,"submissionId":%q,"message":"Kill request for driver-1 submitted"}`, known, id)
	case call == "killall":
		fmt.Fprint(w, `{"action":"KillAllSubmissionResponse","success":true,"message":"Kill request for all drivers submitted"}`)
	case call == "status" && known:
		state := g.states[0]
		if len(g.states) > 1 {
			g.states = g.states[1:]
		}
		fmt.Fprintf(w, `{"action":"SubmissionStatusResponse","success":true,"submissionId":"driver-1","driverState":%q,"workerId":"worker-1","workerHostPort":"h:1","serverSparkVersion":"4.3.0"}`, state)
	default:
		fmt.Fprintf(w, `{"action":"SubmissionStatusResponse","success":false,"submissionId":%q,"serverSparkVersion":"4.3.0"}`, id)
	}
}

func (g *fakeGateway) submitted(t *testing.T) (body struct {
	AppArgs, EnvironmentVariables, SparkProperties any
	ClientSparkVersion, MainClass                  string
}) {
	t.Helper()
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.creates) != 1 {
		t.Fatalf("%d submissions", len(g.creates))
	}
	if err := json.Unmarshal([]byte(g.creates[0]), &body); err != nil {
		t.Fatal(err)
	}
	return body
}

func TestSubmit(t *testing.T) {
	g := startGateway(t, "SUBMITTED")
	t.Setenv("SPARK_TEST_HANDED_ON", "yes")
	r := ctl(t, nil, "submit", "--masters", g.url, "--class", "a.Main", "--driver-memory", "700m", "--driver-cores", "2", "--conf", "spark.x=1=2",
		"--env", "A=b", "--java-modules", "http://h/j.jar", "--not", "-a", "flag")
	check(t, r, exitOK, "driver-1 was accepted by "+strings.TrimPrefix(g.url, "http://"),
		"next: raftctl driver-status --gateway rest --masters "+g.url+" driver-1 --wait")
	b := g.submitted(t)
	text := fmt.Sprint(b.AppArgs, b.EnvironmentVariables, b.SparkProperties)
	for _, want := range []string{"[--not -a flag]", "A:b", "SPARK_TEST_HANDED_ON:yes", "spark.driver.memory:700m", "spark.driver.cores:2", "spark.x:1=2", "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in %s", want, text)
		}
	}
	if b.ClientSparkVersion != "4.3.0" {
		t.Errorf("clientSparkVersion %q", b.ClientSparkVersion)
	}
}

// TestSubmitJSON is the contract for scripts.
func TestSubmitJSON(t *testing.T) {
	g := startGateway(t, "RUNNING", "FINISHED")
	r := ctl(t, nil, "-o", "json", "submit", "--masters", g.url, "--class", "a.Main", "--wait", "--poll", "1ms", "http://h/j.jar")
	host := strings.TrimPrefix(g.url, "http://")
	want := strings.ReplaceAll(`{
  "id": "driver-1",
  "message": "Driver successfully submitted as driver-1",
  "master": "HOST",
  "server_version": "4.3.0",
  "gateway": "rest",
  "status": {
    "id": "driver-1",
    "found": true,
    "state": "FINISHED",
    "worker_id": "worker-1",
    "worker_address": "h:1",
    "message": "",
    "master": "HOST"
  }
}
`, "HOST", host)
	if r.code != exitOK || r.out != want {
		t.Errorf("code %d\n%s\nwant\n%s", r.code, r.out, want)
	}
	for _, line := range []string{"submitted as driver-1", "driver-1 RUNNING on worker-1", "driver-1 FINISHED on worker-1"} {
		if !strings.Contains(r.err, line) {
			t.Errorf("progress lacks %q:\n%s", line, r.err)
		}
	}
}

// TestWaitExitCodes: the end of the driver is the exit code, through a gateway and through the admin API.
func TestWaitExitCodes(t *testing.T) {
	for state, code := range map[string]int{"FINISHED": exitOK, "FAILED": exitError, "ERROR": exitError, "KILLED": exitUnhealthy, "RELAUNCHING": exitUnhealthy} {
		g := startGateway(t, "RUNNING", state)
		r := ctl(t, nil, "driver-status", "--gateway", "rest", "--masters", g.url, "--wait", "--poll", "1ms", "driver-1")
		check(t, r, code, state, "worker-1 h:1")
		ms := newCluster(t)
		ms[0].cluster.Drivers = []webui.Driver{{ID: "driver-1", State: state, WorkerID: "worker-1", Worker: "h:1"}}
		r = ctl(t, nil, "--endpoints", endpoints(ms), "driver-status", "--wait", "--poll", "1ms", "driver-1")
		check(t, r, code, state, "worker-1 h:1")
	}
	g := startGateway(t, "RUNNING")
	r := ctl(t, nil, "driver-status", "--gateway", "rest", "--masters", g.url, "--wait", "--poll", "1ms", "--wait-timeout", "50ms", "driver-1")
	check(t, r, exitTimeout, "has not ended within 50ms", "raftctl kill driver driver-1")
}

func TestGatewayStatusAndKill(t *testing.T) {
	g := startGateway(t, "RUNNING")
	rest := []string{"--gateway", "rest", "--masters", g.url}
	with := func(args ...string) result { return ctl(t, nil, append(args, rest...)...) }
	check(t, with("driver-status", "driver-1"), exitOK, "State   RUNNING", "answered by")
	check(t, with("driver-status", "driver-2"), exitError, "does not know driver driver-2", "next: raftctl drivers")
	check(t, with("kill", "driver", "driver-1"), exitRefused, "Kill driver driver-1 (RUNNING on worker-1)?", "--yes")
	check(t, with("kill", "driver", "driver-1", "--dry-run"), exitOK, "would kill driver driver-1", "nothing was changed")
	check(t, with("kill", "driver", "driver-1", "--yes"), exitOK, "Kill request for driver-1 submitted")
	check(t, with("kill", "driver", "driver-2", "--yes"), exitError, "does not know driver")
	check(t, with("kill", "driver", "--all", "--yes"), exitOK, "all drivers")
}

// TestSubmitLost: a lost answer is told as what it is, and the submission is not repeated.
func TestSubmitLost(t *testing.T) {
	g := startGateway(t, "RUNNING")
	g.lose = true
	r := ctl(t, nil, "submit", "--masters", g.url, "--class", "a.Main", "http://h/j.jar")
	check(t, r, exitTimeout, "unknown whether", "a driver of main class a.Main", "next: raftctl drivers")
	g.submitted(t)
}

func TestGatewayMistakes(t *testing.T) {
	g := startGateway(t, "RUNNING")
	ms := newCluster(t)
	dead := strings.TrimPrefix(deadEndpoint(t), "http://")
	web := strings.TrimPrefix(ms[0].url, "http://")
	jar := []string{"--class", "a.Main", "http://h/j.jar"}
	for name, c := range map[string]struct {
		args  []string
		code  int
		wants []string
	}{
		"no jar":             {[]string{"submit", "--masters", g.url, "--class", "a"}, exitUsage, []string{"needs the URL of a jar"}},
		"directory":          {[]string{"submit", "--masters", g.url, "--class", "a", t.TempDir()}, exitUsage, []string{"directory"}},
		"no class":           {[]string{"submit", "--masters", g.url, "http://h/j.jar"}, exitUsage, []string{"main class"}},
		"late options":       {[]string{"submit", "--masters", g.url, "http://h/j.jar", "--class", "a"}, exitUsage, []string{"give the options before it"}},
		"memory":             {[]string{"submit", "--masters", g.url, "--class", "a", "--driver-memory", "512", "http://h/j.jar"}, exitUsage, []string{"counts bytes"}},
		"conf":               {[]string{"submit", "--masters", g.url, "--conf", "x", "--class", "a", "http://h/j.jar"}, exitUsage, []string{"NAME=VALUE"}},
		"admin gateway":      {append([]string{"submit", "--gateway", "admin"}, jar...), exitUsage, []string{"rest or rpc"}},
		"unknown gateway":    {append([]string{"submit", "--gateway", "yarn"}, jar...), exitUsage, []string{"--gateway yarn"}},
		"masters of admin":   {[]string{"driver-status", "--masters", g.url, "x"}, exitUsage, []string{"--endpoints"}},
		"web port for REST":  {append([]string{"submit", "--masters", ms[0].url}, jar...), exitError, []string{"no REST submission gateway", "next: check --masters"}},
		"web port for RPC":   {append([]string{"submit", "--masters", "spark://" + web}, jar...), exitError, []string{"speaks HTTP", "7077"}},
		"dead masters":       {append([]string{"submit", "--masters", "spark://" + dead, "--spark-version", "4.3.0", "--patience", "1s"}, jar...), exitNoLeader, []string{dead + ": cannot be reached: connect: connection refused", "next:"}},
		"release":            {append([]string{"submit", "--masters", "spark://" + dead, "--spark-version", "2.4"}, jar...), exitUsage, []string{"3.2 to 4.3"}},
		"unknown release":    {append([]string{"--endpoints", endpoints(ms), "submit", "--gateway", "rpc"}, jar...), exitUsage, []string{"knows no live worker", "--spark-version"}},
		"no REST gateway":    {append([]string{"--endpoints", endpoints(ms), "submit", "--gateway", "rest"}, jar...), exitError, []string{"no master has the REST gateway on", "--gateway rpc"}},
		"http for RPC":       {append([]string{"submit", "--gateway", "rpc", "--masters", g.url}, jar...), exitUsage, []string{"cluster port"}},
		"kill all by admin":  {[]string{"kill", "driver", "--all"}, exitUsage, []string{"--gateway rest and rpc"}},
		"kill nothing":       {[]string{"kill", "driver"}, exitUsage, []string{"needs ID"}},
		"kill one and all":   {[]string{"kill", "driver", "x", "--all"}, exitUsage, []string{"needs ID, or --all"}},
		"id":                 {[]string{"driver-status", "--gateway", "rest", "--masters", g.url, "../x"}, exitUsage, []string{"an id looks like"}},
		"poll":               {[]string{"driver-status", "--wait", "--poll", "0s", "x"}, exitUsage, []string{"--poll"}},
		"huge arguments":     {append(append([]string{"submit", "--gateway", "rpc", "--masters", "spark://" + dead, "--spark-version", "4.3.0"}, jar...), strings.Repeat("x", 600<<10)), exitUsage, []string{"shorten its arguments"}},
		"patience":           {append([]string{"submit", "--masters", g.url, "--patience", "0s"}, jar...), exitUsage, []string{"--patience"}},
		"canary memory":      {[]string{"canary", "--memory", "much"}, exitUsage, []string{"--memory"}},
		"canary little":      {[]string{"--endpoints", ms[0].url, "canary", "--memory", "100m"}, exitUsage, []string{"450 MiB"}},
		"canary worker":      {[]string{"--endpoints", ms[0].url, "canary", "--worker", "nobody"}, exitUsage, []string{"knows none of that name"}},
		"canary no workers":  {[]string{"--endpoints", ms[0].url, "canary"}, exitUsage, []string{"it has no workers"}},
		"canary no leader":   {[]string{"--endpoints", "http://" + dead, "canary"}, exitNoLeader, []string{"no leader was found", "next:"}},
		"canary masters":     {[]string{"canary", "--masters", "http://h:8080"}, exitUsage, []string{"cluster port"}},
		"canary cluster URL": {[]string{"--endpoints", "spark://h:7077", "canary"}, exitUsage, []string{"web UI"}},
	} {
		t.Run(name, func(t *testing.T) { check(t, ctl(t, nil, c.args...), c.code, c.wants...) })
	}
	if g.creates != nil {
		t.Errorf("%d submissions arrived", len(g.creates))
	}
}
