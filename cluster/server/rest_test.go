package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"raftmaster/cluster/config"
	"raftmaster/cluster/master"
	"raftmaster/cluster/sparkpeer"
	"raftmaster/fsm"
	"raftmaster/transport/rest"
	"raftmaster/transport/sparkmsg"
	"raftmaster/transport/webui"
)

const restPort = 27066

// withREST turns the gateway on.
func withREST(cfg *config.Config) {
	steadyFailover(cfg)
	cfg.RESTEnabled, cfg.RESTHost, cfg.RESTPort = true, cfg.Host, restPort
}

// restAnswer is any answer of the gateway.
type restAnswer struct {
	Status                                                                                   int
	Action, Message, SubmissionID, DriverState, WorkerID, WorkerHostPort, ServerSparkVersion string
	Success                                                                                  bool
}

// rest asks a master's gateway; Status 0 means that it did not answer.
func (m *member) rest(t testing.TB, method, path, body string) restAnswer {
	t.Helper()
	req, err := http.NewRequest(method, fmt.Sprintf("http://%s:%d/v1/submissions/%s", m.cfg.RESTHost, m.cfg.RESTPort, path), strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := web.Do(req)
	if err != nil {
		return restAnswer{Message: err.Error()}
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return restAnswer{Message: err.Error()}
	}
	a := restAnswer{Status: resp.StatusCode}
	if err := json.Unmarshal(text, &a); err != nil {
		a.Message = string(text)
	}
	return a
}

// restBody is a submission by a client of that version.
func restBody(version, master string) string {
	return fmt.Sprintf(`{"action":"CreateSubmissionRequest","clientSparkVersion":%q,"appResource":"file:/a.jar","mainClass":"a.Main","appArgs":["x"],
		"environmentVariables":{"SPARK_A":"1"},"sparkProperties":{"spark.app.name":"n","spark.master":%q,"spark.driver.memory":"512m"}}`, version, master)
}

// launched collects the drivers that workers were told to run.
type launched struct {
	mu   sync.Mutex
	seen map[string]*sparkmsg.LaunchDriver
	on   map[string]string // worker id by driver
}

func (l *launched) note(w *sparkpeer.Worker, m *sparkmsg.LaunchDriver) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seen[m.DriverID], l.on[m.DriverID] = m, w.ID()
}

func (l *launched) get(id string) (*sparkmsg.LaunchDriver, string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.seen[id], l.on[id]
}

// driverWorker is a worker that reports its drivers to l.
func (c *cluster) driverWorker(fam sparkmsg.Family, l *launched) *worker {
	c.t.Helper()
	w := c.worker(fam, 4, func(cfg *sparkpeer.WorkerConfig) { cfg.OnDriver = l.note })
	wait(c.t, w.Log(), "RegisteredWorker")
	return w
}

// TestRESTOfAFullQueue: the client is told that its driver was not accepted, and not that the request is malformed.
func TestRESTOfAFullQueue(t *testing.T) {
	got, err := settled(master.DriverSubmission{Message: "too many", Full: true})
	if err != nil || got.Success || got.Message != "too many" {
		t.Errorf("full: %+v, %v", got, err)
	}
	var invalid *rest.InvalidError
	if _, err := settled(master.DriverSubmission{Message: "no"}); !errors.As(err, &invalid) || invalid.Reason != "no" {
		t.Errorf("refused: %v", err)
	}
}

// TestRESTOfACluster goes through the gateway of three masters: S12 (all masters in spark.master), S13 (every order of the
// list), S14 (status on each master), G-73 and G-74 (standbys).
func TestRESTOfACluster(t *testing.T) {
	t.Parallel()
	c := start(t, 3, withREST)
	l := &launched{seen: map[string]*sparkmsg.LaunchDriver{}, on: map[string]string{}}
	b, e := c.driverWorker(sparkmsg.FamilyB, l), c.driverWorker(sparkmsg.FamilyE, l)
	leader := c.leader()
	for _, m := range c.masters {
		want := http.StatusServiceUnavailable
		if m == leader {
			want = http.StatusOK
		}
		eventually(t, "readyz of "+m.cfg.Host, func() bool { return m.rest(t, "GET", "readyz", "").Status == want })
		eventually(t, "the leader's gateway is known to "+m.cfg.Host, func() bool {
			var st webui.Status
			m.into(t, "/v1/status", &st)
			return slices.ContainsFunc(st.Quorum.Peers, func(p webui.Peer) bool {
				return st.Leader != nil && p.NodeID == st.Leader.NodeID && p.RESTURL == leader.server().RESTURL()
			})
		})
	}
	for version, w := range map[string]*worker{"3.5.9": b, "4.3.0": e} {
		id := c.submitEverywhere(t, restBody(version, "spark://"+leader.cfg.Host+":27066"))
		eventually(t, "driver "+id+" is launched", func() bool { m, _ := l.get(id); return m != nil })
		m, on := l.get(id)
		if on != w.ID() {
			t.Errorf("a driver of %s runs on %s", version, on)
		}
		checkDriver(t, c, m.DriverDesc)
		c.statusEverywhere(t, id, w.ID())
		c.killEverywhere(t, id)
		eventually(t, "driver "+id+" is killed", func() bool {
			a := leader.rest(t, "GET", "status/"+id, "")
			return a.Success && a.DriverState == "KILLED" && a.WorkerID == w.ID() // B-141: the worker is kept
		})
	}
	for _, m := range c.masters {
		a := m.rest(t, "POST", "clear", "")
		if a.Status != 200 || a.Success != (m == leader) {
			t.Errorf("G-73: clear on %s: %+v", m.cfg.Host, a)
		}
	}
	leader.server().State().CompletedDrivers(func(d *fsm.Driver) bool {
		t.Errorf("%s is left", d.ID)
		return true
	})
}

// submitEverywhere does as Spark's client does, for every order of the masters but the last: it goes on to the next
// master until one has taken the driver. It gives one driver and kills the others.
func (c *cluster) submitEverywhere(t *testing.T, body string) string {
	t.Helper()
	id := ""
	for first := range c.masters {
		for _, k := range []int{1, 2} {
			order := []*member{c.masters[first], c.masters[(first+k)%3], c.masters[(first+2*k)%3]}
			i := slices.IndexFunc(order, func(m *member) bool {
				a := m.rest(t, "POST", "create", body)
				if !a.Success && !strings.HasPrefix(a.Message, "Current state is not alive: STANDBY. Can only accept driver submissions in ALIVE state. The leader is spark://") {
					t.Errorf("%s: %+v", m.cfg.Host, a)
				}
				if a.Success && id != "" {
					c.killEverywhere(t, a.SubmissionID)
				} else if a.Success {
					id = a.SubmissionID
				}
				return a.Success
			})
			if i < 0 {
				t.Fatal("nobody took the driver")
			}
		}
	}
	return id
}

func (c *cluster) killEverywhere(t *testing.T, id string) {
	t.Helper()
	done := 0
	for _, m := range c.masters {
		a := m.rest(t, "POST", "kill/"+id, "")
		if a.Success {
			done++
		} else if !strings.HasPrefix(a.Message, "Current state is not alive: ") {
			t.Errorf("%+v", a)
		}
	}
	if done != 1 {
		t.Errorf("%s was killed by %d masters", id, done)
	}
}

// statusEverywhere: S14.
func (c *cluster) statusEverywhere(t *testing.T, id, workerID string) {
	t.Helper()
	for _, m := range c.masters {
		a := m.rest(t, "GET", "status/"+id, "")
		switch lead := c.leader(); {
		case m == lead && (a.DriverState != "RUNNING" || a.WorkerID != workerID || !strings.HasSuffix(a.WorkerHostPort, fmt.Sprint(":", workerPort))):
			t.Errorf("status on the leader: %+v", a)
		case m != lead && (a.Success || !strings.Contains(a.Message, "The leader is spark://"+lead.address().String()+", its REST server is "+lead.server().RESTURL())):
			t.Errorf("status on a standby: %+v", a)
		}
	}
}

// checkDriver: what a worker was told is what was submitted, with all masters.
func checkDriver(t *testing.T, c *cluster, d *sparkmsg.DriverDescription) {
	t.Helper()
	cmd := d.Command
	if d.JarURL != "file:/a.jar" || d.Mem != 512 || d.Cores != 1 || !slices.Contains(cmd.JavaOpts, "-Dspark.master="+c.masters[0].cfg.ClusterURL()) ||
		!slices.Equal(cmd.Arguments, []string{"{{WORKER_URL}}", "{{USER_JAR}}", "a.Main", "x"}) || len(cmd.Unread) > 0 {
		t.Errorf("%+v", d)
	}
}

// TestRESTClientOfNoKnownRelease: a client that names no release of a live worker gets any worker, whose family then
// decides how the description is written.
func TestRESTClientOfNoKnownRelease(t *testing.T) {
	t.Parallel()
	c := start(t, 1, withREST)
	l := &launched{seen: map[string]*sparkmsg.LaunchDriver{}, on: map[string]string{}}
	c.driverWorker(sparkmsg.FamilyD, l)
	for _, version := range []string{"1.5.0", "3.5.9", "curl"} {
		a := c.leader().rest(t, "POST", "create", restBody(version, ""))
		if !a.Success {
			t.Fatalf("%s: %+v", version, a)
		}
		eventually(t, "the driver of client "+version, func() bool { m, _ := l.get(a.SubmissionID); return m != nil })
		m, _ := l.get(a.SubmissionID)
		checkDriver(t, c, m.DriverDesc)
	}
}

// TestRESTAfterFailover: what was committed is known to the next leader.
func TestRESTAfterFailover(t *testing.T) {
	t.Parallel()
	slow(t)
	c := start(t, 3, withREST)
	first := c.leader()
	a := first.rest(t, "POST", "create", restBody("4.3.0", "")) // nobody can run it
	if !a.Success {
		t.Fatalf("%+v", a)
	}
	first.stop()
	eventually(t, "the next leader knows the driver", func() bool {
		l := c.findLeader()
		return l != nil && l != first && l.rest(t, "GET", "status/"+a.SubmissionID, "").DriverState == "SUBMITTED"
	})
	if got := c.leader().rest(t, "POST", "kill/"+a.SubmissionID, ""); !got.Success {
		t.Errorf("%+v", got)
	}
}

// TestRESTPort: the gateway takes the next free port, says so, and is not there when it is off.
func TestRESTPort(t *testing.T) {
	t.Parallel()
	c := prepare(t, 1, func(cfg *config.Config) {
		withREST(cfg)
		cfg.PortMaxRetries = 2
	})
	m := c.masters[0]
	taken, err := net.Listen("tcp", fmt.Sprintf("%s:%d", m.cfg.Host, restPort))
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	c.startAll()
	c.leader()
	m.cfg.RESTPort = restPort + 1
	eventually(t, "the gateway is ready", func() bool { return m.rest(t, "GET", "readyz", "").Status == 200 })
	want := fmt.Sprintf("http://%s:%d", m.cfg.Host, restPort+1)
	var st webui.Status
	m.into(t, "/v1/status", &st)
	if m.server().RESTURL() != want || st.RESTURL != want {
		t.Errorf("%s, status says %s", m.server().RESTURL(), st.RESTURL)
	}
	if _, metrics := m.get("/metrics"); !strings.Contains(metrics, `raftmaster_rest_requests_total{call="readyz",status="200"} `) {
		t.Error("the gateway is not in /metrics")
	}
	line := fmt.Sprintf("Started REST server for submitting applications on %s with port %d", m.cfg.Host, restPort+1)
	if !strings.Contains(m.log.String(), line) {
		t.Errorf("the log lacks %q", line)
	}
}

func TestRESTOff(t *testing.T) {
	t.Parallel()
	c := start(t, 1, nil)
	m := c.masters[0]
	m.cfg.RESTHost, m.cfg.RESTPort = m.cfg.Host, restPort
	if a := m.rest(t, "GET", "readyz", ""); a.Status != 0 || m.server().RESTURL() != "" || strings.Contains(m.log.String(), "REST server") {
		t.Errorf("%+v %s", a, m.server().RESTURL())
	}
}

// TestRESTWaitsForALeader: nobody is turned away because an election is under way; but one who is told where the leader
// is, or whose outcome is not known, is not kept waiting.
func TestRESTWaitsForALeader(t *testing.T) {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	other := errors.New("no word")
	for _, c := range []struct {
		name   string
		ctx    context.Context
		leader string
		errs   []error // of the calls; nil after them
		calls  int
		want   error
	}{
		{"leads", context.Background(), "", nil, 1, nil},
		{"election", context.Background(), "", []error{&master.NotLeaderError{}, &master.NotLeaderError{}}, 3, nil},
		{"another leads", context.Background(), "The leader is x.", []error{&master.NotLeaderError{}}, 1, &rest.NotAliveError{}},
		{"outcome unknown", context.Background(), "", []error{other}, 1, other},
		{"the client is gone", ended, "", []error{&master.NotLeaderError{}}, 1, &rest.NotAliveError{}},
	} {
		calls := 0
		_, err := retried(c.ctx, nil, func() *rest.NotAliveError { return &rest.NotAliveError{State: "STANDBY", Leader: c.leader} }, func() (int, error) {
			calls++
			if calls <= len(c.errs) {
				return 0, c.errs[calls-1]
			}
			return 1, nil
		})
		var refused *rest.NotAliveError
		isRefused := errors.As(err, &refused)
		if _, want := c.want.(*rest.NotAliveError); calls != c.calls || want != isRefused || (!want && !errors.Is(err, c.want)) {
			t.Errorf("%s: %d calls, %v", c.name, calls, err)
		}
	}
	began := time.Now()
	_, err := retried(context.Background(), nil, func() *rest.NotAliveError { return &rest.NotAliveError{} }, func() (int, error) { return 0, &master.NotLeaderError{} })
	if took := time.Since(began); err == nil || took < leaderWait {
		t.Errorf("%v after %s", err, took)
	}
}

// TestRESTPlaceholders: G-65, only what an operator has named is given away.
func TestRESTPlaceholders(t *testing.T) {
	t.Setenv("REST_TEST_ZONE", "z")
	t.Setenv("REST_TEST_SECRET", "hunter2")
	s := &Server{cfg: config.Config{REST: config.REST{PlaceholderEnv: []string{"REST_TEST_ZONE", "REST_TEST_UNSET"}}}}
	for name, want := range map[string]string{"REST_TEST_ZONE": "z", "REST_TEST_SECRET": "", "REST_TEST_UNSET": ""} {
		if v, ok := s.placeholder(name); v != want || ok != (want != "") {
			t.Errorf("%s: %q, %v", name, v, ok)
		}
	}
}

// TestRESTHost: clients are told a name that they can dial.
func TestRESTHost(t *testing.T) {
	for _, c := range []struct{ host, advertise, rest, want string }{
		{"0.0.0.0", "a", "0.0.0.0", "a"}, {"10.0.0.1", "a", "10.0.0.1", "a"}, {"a", "a", "::", "a"}, {"a", "a", "[::]", "a"}, {"a", "a", "127.0.0.1", "127.0.0.1"}, {"a", "b", "rest.example", "rest.example"},
	} {
		s := &Server{cfg: config.Config{Host: c.host, AdvertiseHost: c.advertise, RESTHost: c.rest}}
		if got := s.restHost(); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}

// TestEnvironmentIsRedacted: neither a property nor a variable that looks like a secret is shown, and only the variables
// that were asked for.
func TestEnvironmentIsRedacted(t *testing.T) {
	t.Setenv("REST_TEST_ZONE", "z")
	t.Setenv("REST_TEST_TOKEN", "hunter2")
	s := &Server{cfg: config.Config{Properties: map[string]string{"spark.x": "y", "spark.my.password": "hunter2", "spark.url": "http://h?token=hunter2"},
		UI: config.UI{VisibleEnvVarPrefixes: []string{"REST_TEST_"}, RedactionRegex: config.DefaultRedactionRegex}}}
	text := fmt.Sprint(s.environment()())
	if strings.Contains(text, "hunter2") || !strings.Contains(text, "{REST_TEST_ZONE z}") || !strings.Contains(text, "{spark.x y}") || strings.Contains(text, "PATH") {
		t.Error(text)
	}
	s.cfg.UI.RedactionRegex = "(?<!broken"
	if text := fmt.Sprint(s.environment()()); strings.Contains(text, "{spark.x y}") {
		t.Error(text)
	}
}
