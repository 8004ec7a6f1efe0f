package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"go.uber.org/goleak"

	"raftmaster/transport/webui"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeMaster is a master whose HTTP side is the real one.
type fakeMaster struct {
	mu        sync.Mutex
	status    webui.Status
	cluster   webui.Cluster
	executors []webui.Executor
	events    []webui.Event
	transfer  func(webui.TransferRequest) (webui.Transfer, error)
	token     string
	url       string
	close     func() // ends the HTTP side
	// peers answers every change of the masters.
	peers func(req any) (webui.PeerChange, error)
	// operate answers every change of the cluster's work; nil: such a master has none.
	operate func(req any) (any, error)
	why     map[string]webui.WhyWaiting
	pairs   []webui.IncompatiblePair
	// levels and debug are what such a master may have.
	levels webui.LogLevels
	debug  []webui.DebugPart
}

// operation gives what operate answers.
func operation[T any](m *fakeMaster, req any) (T, error) {
	v, err := m.operate(req)
	out, _ := v.(T)
	return out, err
}

func (m *fakeMaster) Kill(_ context.Context, r webui.KillRequest) (webui.Kill, error) {
	return operation[webui.Kill](m, r)
}
func (m *fakeMaster) Decommission(_ context.Context, r webui.DecommissionRequest) (webui.WorkerChange, error) {
	return operation[webui.WorkerChange](m, r)
}
func (m *fakeMaster) Drain(_ context.Context, r webui.DrainRequest) (webui.WorkerChange, error) {
	return operation[webui.WorkerChange](m, r)
}
func (m *fakeMaster) ClearCompleted(_ context.Context, r webui.ClearRequest) (webui.Clear, error) {
	return operation[webui.Clear](m, r)
}
func (m *fakeMaster) ClearIncompatible(_ context.Context, r webui.ClearIncompatibleRequest) (webui.ClearIncompatible, error) {
	return operation[webui.ClearIncompatible](m, r)
}
func (m *fakeMaster) Incompatible() []webui.IncompatiblePair { return m.pairs }
func (m *fakeMaster) App(string) (webui.AppDetail, bool)     { return webui.AppDetail{}, false }
func (m *fakeMaster) Driver(id string) (webui.Driver, bool) {
	for _, d := range m.cluster.Drivers {
		if d.ID == id {
			return d, true
		}
	}
	return webui.Driver{}, false
}
func (m *fakeMaster) WhyWaiting(id string) (webui.WhyWaiting, bool) { w, ok := m.why[id]; return w, ok }
func (m *fakeMaster) Explain() map[string]string {
	out := map[string]string{}
	for _, a := range m.cluster.Apps {
		out[a.ID] = a.WhyWaiting
	}
	for id, w := range m.why {
		out[id] = w.Text
	}
	return out
}
func (m *fakeMaster) PeerUI(string) (string, bool) { return "", false }

func (m *fakeMaster) Status() webui.Status { m.mu.Lock(); defer m.mu.Unlock(); return m.status }
func (m *fakeMaster) Brief() webui.Status  { return m.Status() }
func (m *fakeMaster) Cluster() webui.Cluster {
	out := m.cluster
	out.Apps, out.Drivers = slices.Clone(out.Apps), slices.Clone(out.Drivers) // the caller's
	return out
}
func (m *fakeMaster) Executors(string) []webui.Executor { return m.executors }
func (m *fakeMaster) Since(seq uint64, limit int) ([]webui.Event, <-chan struct{}) {
	var out []webui.Event
	for _, e := range m.events {
		if e.Seq > seq {
			out = append(out, e)
		}
	}
	return out, make(chan struct{})
}
func (m *fakeMaster) TransferLeadership(_ context.Context, r webui.TransferRequest) (webui.Transfer, error) {
	return m.transfer(r)
}
func (m *fakeMaster) AddPeer(_ context.Context, r webui.AddPeerRequest) (webui.PeerChange, error) {
	return m.peers(r)
}
func (m *fakeMaster) RemovePeer(_ context.Context, r webui.RemovePeerRequest) (webui.PeerChange, error) {
	return m.peers(r)
}
func (m *fakeMaster) PromotePeer(_ context.Context, r webui.PromotePeerRequest) (webui.PeerChange, error) {
	return m.peers(r)
}

// serve starts the master's HTTP side.
func (m *fakeMaster) serve(t *testing.T) {
	t.Helper()
	s := httptest.NewServer(webui.NewHandler(webui.Options{State: m, Events: m, Leadership: m, Operations: m, Details: m, LogLevels: m.levels, Debug: m.debug, Token: m.token, Log: hclog.NewNullLogger()}))
	t.Cleanup(s.Close)
	m.url, m.close = s.URL, s.Close
	m.mu.Lock()
	m.status.WebURL = s.URL
	m.mu.Unlock()
}

// newCluster is a healthy cluster of three whose first master leads.
func newCluster(t *testing.T) []*fakeMaster {
	t.Helper()
	ms := make([]*fakeMaster, 3)
	for i := range ms {
		ms[i] = &fakeMaster{}
		ms[i].serve(t)
	}
	addresses := []string{"a:7077", "b:7077", "c:7077"}
	for i, m := range ms {
		st := webui.Status{Version: "1.0", NodeID: addresses[i][:1], Address: addresses[i], ClusterID: "c1", ClusterURL: "spark://a:7077,b:7077,c:7077",
			State: webui.StateStandby, Role: webui.RoleFollower, Term: 7, CommitIndex: 42, AppliedIndex: 42, WebURL: m.url,
			StartedMillis: time.Now().Add(-time.Hour).UnixMilli(), NowMillis: time.Now().UnixMilli(),
			Leader: &webui.Leader{NodeID: "a", Address: "a:7077", WebURL: ms[0].url},
			Quorum: webui.Quorum{Voters: 3, Needed: 2, Reachable: 3, Tolerance: 1}, StateIndex: 40, StateDigest: "d1"}
		for j, p := range ms {
			role := webui.RoleFollower
			if j == 0 {
				role = webui.RoleLeader
			}
			st.Quorum.Peers = append(st.Quorum.Peers, webui.Peer{NodeID: addresses[j][:1], Address: addresses[j], WebURL: p.url, Self: i == j, Member: true, Voter: true, Role: role, Reachable: true})
		}
		m.status = st
	}
	ms[0].status.State, ms[0].status.Role, ms[0].status.LeaseValid = webui.StateAlive, webui.RoleLeader, true
	return ms
}

// loseLeader leaves the masters without a leader.
func loseLeader(ms []*fakeMaster) {
	for _, m := range ms {
		m.status.State, m.status.Role, m.status.LeaseValid, m.status.Leader = webui.StateStandby, webui.RoleCandidate, false, nil
		m.status.Quorum.Reachable, m.status.Quorum.Tolerance = 1, -1
	}
}

func endpoints(ms []*fakeMaster, more ...string) string {
	var out []string
	for _, m := range ms {
		out = append(out, m.url)
	}
	return strings.Join(append(out, more...), ",")
}

// deadEndpoint refuses connections; mute accepts them and never answers.
func deadEndpoint(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	url := "http://" + ln.Addr().String()
	if err := ln.Close(); err != nil {
		t.Fatal(err)
	}
	return url
}

func muteEndpoint(t *testing.T) string {
	t.Helper()
	release := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	t.Cleanup(func() { close(release); s.Close() })
	return s.URL
}

type result struct {
	code     int
	out, err string
}

// ctl runs raftctl without a terminal; env adds to an empty environment.
func ctl(t *testing.T, env map[string]string, args ...string) result {
	t.Helper()
	return ctlOn(t, terminal{}, env, args...)
}

func ctlOn(t *testing.T, term terminal, env map[string]string, args ...string) result {
	t.Helper()
	var out, errOut bytes.Buffer
	term.out, term.err = &out, &errOut
	if term.in == nil {
		term.in = strings.NewReader("")
	}
	term.lookupEnv = func(k string) (string, bool) { v, ok := env[k]; return v, ok }
	code := run(context.Background(), term, args)
	return result{code, out.String(), errOut.String()}
}

func check(t *testing.T, r result, code int, wants ...string) {
	t.Helper()
	if r.code != code {
		t.Errorf("exit code %d, want %d\nstdout: %s\nstderr: %s", r.code, code, r.out, r.err)
	}
	for _, want := range wants {
		if !strings.Contains(r.out+r.err, want) {
			t.Errorf("the output lacks %q\nstdout: %s\nstderr: %s", want, r.out, r.err)
		}
	}
}

func TestHealthyCluster(t *testing.T) {
	ms := newCluster(t)
	e := endpoints(ms)
	check(t, ctl(t, nil, "--endpoints", e, "status"), exitOK, "a:7077", "ALIVE", "c:7077", "STANDBY", "3 of 3 voters in contact", "tolerance left 1", "Answered by")
	r := ctl(t, nil, "--endpoints", e, "leader")
	check(t, r, exitOK)
	if r.out != "a:7077\n" {
		t.Errorf("leader prints %q: it must be one word for scripts", r.out)
	}
	check(t, ctl(t, nil, "--endpoints", e, "health"), exitOK, "yes")
	check(t, ctl(t, nil, "--endpoints", e, "peers", "list"), exitOK, "b:7077", "follower", "answered by a:7077")
	check(t, ctl(t, nil, "--endpoints", e, "version"), exitOK, "raftctl", "1.0")
}

// One endpoint that is not the leader is enough: the leader is found through it.
func TestLeaderIsFoundThroughAStandby(t *testing.T) {
	ms := newCluster(t)
	ms[0].cluster.Workers = []webui.Worker{{ID: "worker-on-the-leader", State: "ALIVE"}}
	r := ctl(t, map[string]string{"RAFTCTL_ENDPOINTS": strings.TrimPrefix(ms[1].url, "http://")}, "workers")
	check(t, r, exitOK, "worker-on-the-leader", "answered by a:7077")
}

func TestTables(t *testing.T) {
	ms := newCluster(t)
	now := time.Now().UnixMilli()
	ms[0].cluster = webui.Cluster{
		Workers: []webui.Worker{{ID: "worker-1", State: "ALIVE", Host: "h", Port: 1, Cores: 8, CoresUsed: 2, MemoryMB: 2048, LastHeartbeatMillis: now, Family: "DE", Note: "awaiting its list"}},
		Apps:    []webui.App{{ID: "app-1", Name: "evil\x1b[2Jname\u202e", State: "WAITING", Active: true, StartMillis: now - 1500, WhyWaiting: "no free cores"}},
	}
	ms[0].executors = []webui.Executor{{AppID: "app-1", ID: 3, State: "RUNNING", Cores: 2, MemoryMB: 512, WorkerID: "worker-1", StartMillis: now}}
	e := endpoints(ms)
	check(t, ctl(t, nil, "--endpoints", e, "workers"), exitOK, "worker-1", "2/8", "2.0 GiB", "family DE", "awaiting its list")
	r := ctl(t, nil, "--endpoints", e, "apps")
	check(t, r, exitOK, "app-1", "no free cores", `evil\x1b[2Jname\u202e`)
	if strings.ContainsAny(r.out, "\x1b\u202e") {
		t.Error("a name drives the terminal")
	}
	check(t, ctl(t, nil, "--endpoints", e, "executors", "--app", "app-1"), exitOK, "RUNNING", "512 MiB")
}

// TestJSON: every verb gives JSON with snake case names and no prose on standard output.
func TestJSON(t *testing.T) {
	ms := newCluster(t)
	ms[0].events = []webui.Event{{Seq: 1, Kind: "leader", Message: "m"}}
	ms[0].transfer = func(webui.TransferRequest) (webui.Transfer, error) { return webui.Transfer{Term: 8}, nil }
	names := map[string][]string{
		"status": {"leader", "endpoints", "statuses"}, "leader": {"node", "is_leader", "leader_url", "term"}, "health": {"healthy", "masters", "errors"},
		"peers list": {"node", "voters", "tolerance", "peers"}, "workers": {"node", "applied_index", "workers"}, "apps": {"apps"}, "executors": {"executors"},
		"events": {"events", "errors"}, "version": {"version", "commit", "go", "platform", "masters"}, "transfer-leadership --yes": {"from", "to", "term", "duration_millis"},
	}
	for verb, fields := range names {
		r := ctl(t, nil, append([]string{"--endpoints", endpoints(ms), "-o", "json"}, strings.Fields(verb)...)...)
		var v map[string]any
		if err := json.Unmarshal([]byte(r.out), &v); err != nil || r.code != exitOK {
			t.Errorf("%s: exit code %d, %v: %s%s", verb, r.code, err, r.out, r.err)
			continue
		}
		for _, f := range fields {
			if _, ok := v[f]; !ok {
				t.Errorf("%s: no field %q in %s", verb, f, r.out)
			}
		}
	}
}

// TestUsageErrors: exit code 2.
func TestUsageErrors(t *testing.T) {
	for _, args := range [][]string{
		{}, {"frobnicate"}, {"status", "extra"}, {"--no-such-flag", "status"}, {"-o", "yaml", "status"}, {"--timeout", "0s", "status"}, {"--timeout", "soon", "status"},
		{"--endpoints", "spark://a:7077", "status"}, {"--endpoints", "ftp://a", "status"}, {"--endpoints", ",", "status"}, {"--token-file", "/no/such/file", "status"},
		{"peers"}, {"peers", "list", "x"}, {"transfer-leadership", "--to"},
	} {
		r := ctl(t, map[string]string{"RAFTCTL_ENDPOINTS": "http://127.0.0.1:1"}, args...)
		if r.code != exitUsage || !strings.Contains(r.err, "raftctl: ") {
			t.Errorf("%q: exit code %d, want %d: %s", args, r.code, exitUsage, r.err)
		}
	}
	empty := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(empty, []byte("\nsecret"), 0o600); err != nil {
		t.Fatal(err)
	}
	check(t, ctl(t, nil, "--token-file", empty, "status"), exitUsage, "empty first line")
	check(t, ctl(t, nil, "--token-file", "/dev/zero", "status"), exitUsage, "/dev/zero has control characters")
	check(t, ctl(t, nil, "completion", "bash"), exitOK, "__start_raftctl")
	check(t, ctl(t, nil, "--help"), exitOK, "Exit codes", "transfer-leadership")
}

// TestNobodyAnswers: exit code 1 when refused, 124 when silent; the endpoints and the next step are named.
func TestNobodyAnswers(t *testing.T) {
	dead := deadEndpoint(t)
	for _, verb := range []string{"status", "leader", "health", "peers list", "workers", "apps", "executors", "events", "events --follow", "transfer-leadership --yes"} {
		r := ctl(t, nil, append([]string{"--endpoints", dead}, strings.Fields(verb)...)...)
		check(t, r, exitError, dead, "connection refused", "next:", "/healthz")
	}
	mute := muteEndpoint(t)
	for _, verb := range []string{"status", "leader", "workers", "events", "health"} {
		check(t, ctl(t, nil, "--endpoints", mute, "--timeout", "100ms", verb), exitTimeout, "time-out")
	}
}

// TestNoLeader: exit code 3, with the voters, who answered, who did not, and the next command.
func TestNoLeader(t *testing.T) {
	ms := newCluster(t)
	loseLeader(ms)
	dead := deadEndpoint(t)
	e := endpoints(ms[:1], dead)
	for _, verb := range []string{"status", "leader", "health", "transfer-leadership --yes"} {
		r := ctl(t, nil, append([]string{"--endpoints", e}, strings.Fields(verb)...)...)
		check(t, r, exitNoLeader, "no leader", "a:7077, b:7077, c:7077", "a:7077 (candidate, term 7)", dead, "1 of 3 voters answered and 2 are needed")
	}
	check(t, ctl(t, nil, "--endpoints", endpoints(ms), "status"), exitNoLeader, "a majority is up", "raftctl events --follow")
	for _, m := range ms {
		m.status.Quorum.Peers = nil
	}
	check(t, ctl(t, nil, "--endpoints", endpoints(ms), "leader"), exitNoLeader, "has not been formed")
}

// A leader that lost its lease, and a standby's belief in it, are no leader.
func TestLeaderWithoutLease(t *testing.T) {
	ms := newCluster(t)
	ms[0].status.LeaseValid = false
	check(t, ctl(t, nil, "--endpoints", endpoints(ms), "leader"), exitNoLeader)
	check(t, ctl(t, nil, "--endpoints", ms[1].url, "leader"), exitNoLeader)
}

// Lists are shown without a leader, and say how old they may be.
func TestListsWithoutLeader(t *testing.T) {
	ms := newCluster(t)
	loseLeader(ms)
	ms[1].status.AppliedIndex = 50
	ms[1].cluster.Workers = []webui.Worker{{ID: "worker-of-b"}}
	r := ctl(t, nil, "--endpoints", endpoints(ms), "workers")
	check(t, r, exitOK, "worker-of-b", "no leader: this is what b:7077 has applied", "index 50", "out of date")
	if strings.Contains(r.out, "out of date") {
		t.Error("the remark is on standard output")
	}
}

// TestPartial: exit code 4 when some master does not answer or is not well.
func TestPartial(t *testing.T) {
	ms := newCluster(t)
	dead := deadEndpoint(t)
	e := endpoints(ms[:2], dead)
	check(t, ctl(t, nil, "--endpoints", e, "status"), exitUnhealthy, "1 of 3 endpoints did not answer", "a:7077", dead)
	check(t, ctl(t, nil, "--endpoints", e, "health"), exitUnhealthy, dead, "connection refused")
	check(t, ctl(t, nil, "--endpoints", e, "events"), exitUnhealthy, dead)
	for _, verb := range []string{"workers", "apps", "executors", "peers list", "version"} {
		check(t, ctl(t, nil, append([]string{"--endpoints", e}, strings.Fields(verb)...)...), exitUnhealthy, "1 of 3 endpoints did not answer: "+dead+" (", "a:7077")
	}
	r := ctl(t, nil, "--endpoints", e, "status")
	for _, line := range strings.Split(r.out, "\n") {
		if strings.HasPrefix(line, "?") && strings.Contains(line, "refused") {
			t.Errorf("an error in a column of the table: %q", line)
		}
	}

	ms[1].status.Quorum.Peers[0].Reachable = false
	check(t, ctl(t, nil, "--endpoints", endpoints(ms), "health"), exitUnhealthy, "no contact with the leader")
	ms[1].status.Quorum.Peers[0].Reachable = true
	ms[2].status.Alarms = []string{"disk nearly full"}
	check(t, ctl(t, nil, "--endpoints", endpoints(ms), "status"), exitUnhealthy, "c:7077", "disk nearly full")
	check(t, ctl(t, nil, "--endpoints", endpoints(ms), "health"), exitUnhealthy, "disk nearly full")
}

// Something else that answers on the port is named as such.
func TestNotARaftmaster(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if _, err := w.Write([]byte("<html>hello")); err != nil {
			t.Error(err)
		}
	}))
	defer s.Close()
	check(t, ctl(t, nil, "--endpoints", s.URL, "status"), exitError, "no raftmaster")
	teapot := httptest.NewServer(http.NotFoundHandler())
	defer teapot.Close()
	check(t, ctl(t, nil, "--endpoints", teapot.URL, "status"), exitError, "404")
}

// A leader that was elected a moment ago is waited for, briefly.
func TestLeaderThatIsTakingOver(t *testing.T) {
	ms := newCluster(t)
	ms[0].status.State, ms[0].status.LeaseValid = webui.StateStandby, false
	timer := time.AfterFunc(250*time.Millisecond, func() {
		ms[0].mu.Lock()
		defer ms[0].mu.Unlock()
		ms[0].status.State, ms[0].status.LeaseValid = webui.StateAlive, true
	})
	defer timer.Stop()
	check(t, ctl(t, nil, "--endpoints", endpoints(ms[1:]), "leader"), exitOK, "a:7077")
}
