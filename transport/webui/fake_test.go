package webui

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeState is a State that shows what it is given.
type fakeState struct {
	status    Status
	cluster   Cluster
	executors []Executor
}

func (f *fakeState) Status() Status   { return f.status }
func (f *fakeState) Brief() Status    { return f.status }
func (f *fakeState) Cluster() Cluster { return f.cluster }
func (f *fakeState) Executors(appID string) []Executor {
	var out []Executor
	for _, e := range f.executors {
		if appID == "" || e.AppID == appID {
			out = append(out, e)
		}
	}
	return out
}

// fakeEvents keeps everything.
type fakeEvents struct {
	mu   sync.Mutex
	list []Event
	more chan struct{}
}

func newFakeEvents() *fakeEvents { return &fakeEvents{more: make(chan struct{})} }

func (f *fakeEvents) add(e Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	e.Seq = uint64(len(f.list) + 1)
	f.list = append(f.list, e)
	close(f.more)
	f.more = make(chan struct{})
}

func (f *fakeEvents) Since(seq uint64, limit int) ([]Event, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []Event
	for _, e := range f.list {
		if e.Seq > seq && len(out) < limit {
			out = append(out, e)
		}
	}
	return out, f.more
}

// fakeLeadership records what it was asked.
type fakeLeadership struct {
	asked []TransferRequest
	out   Transfer
	err   error

	peers  []any
	change PeerChange
}

func (f *fakeLeadership) AddPeer(_ context.Context, req AddPeerRequest) (PeerChange, error) {
	f.peers = append(f.peers, req)
	return f.change, f.err
}

func (f *fakeLeadership) RemovePeer(_ context.Context, req RemovePeerRequest) (PeerChange, error) {
	f.peers = append(f.peers, req)
	return f.change, f.err
}

func (f *fakeLeadership) PromotePeer(_ context.Context, req PromotePeerRequest) (PeerChange, error) {
	f.peers = append(f.peers, req)
	return f.change, f.err
}

func (f *fakeLeadership) TransferLeadership(_ context.Context, req TransferRequest) (Transfer, error) {
	f.asked = append(f.asked, req)
	return f.out, f.err
}

// leaderStatus is a healthy leader of three.
func leaderStatus() Status {
	return Status{
		Version: "1.0", NodeID: "n1", Address: "10.0.0.1:7077", ClusterID: "c1", URL: "spark://10.0.0.1:7077",
		ClusterURL: "spark://10.0.0.1:7077,10.0.0.2:7077,10.0.0.3:7077", WebURL: "http://10.0.0.1:8080",
		State: StateAlive, Role: RoleLeader, LeaseValid: true, Term: 7, CommitIndex: 42, AppliedIndex: 42, LastLogIndex: 42,
		Leader: &Leader{NodeID: "n1", Address: "10.0.0.1:7077", WebURL: "http://10.0.0.1:8080"},
		Quorum: Quorum{Voters: 3, Needed: 2, Reachable: 3, Tolerance: 1, Peers: []Peer{
			{NodeID: "n1", Address: "10.0.0.1:7077", WebURL: "http://10.0.0.1:8080", Self: true, Voter: true, Role: RoleLeader, Reachable: true},
			{NodeID: "n2", Address: "10.0.0.2:7077", WebURL: "http://10.0.0.2:8080", Voter: true, Role: RoleFollower, Reachable: true, LastContactMillis: 12},
			{NodeID: "n3", Address: "10.0.0.3:7077", WebURL: "http://10.0.0.3:8080", Voter: true, Role: RoleFollower, Reachable: true, LastContactMillis: 15, Lag: 3},
		}},
		Counts: Counts{WorkersByState: map[string]int{"ALIVE": 1}, AppsByState: map[string]int{"RUNNING": 1}},
	}
}

// standbyStatus is a healthy follower of the same cluster.
func standbyStatus() Status {
	st := leaderStatus()
	st.NodeID, st.Address, st.URL, st.WebURL = "n2", "10.0.0.2:7077", "spark://10.0.0.2:7077", "http://10.0.0.2:8080"
	st.State, st.Role, st.LeaseValid = StateStandby, RoleFollower, false
	st.Quorum.Peers[0].Self, st.Quorum.Peers[1].Self = false, true
	return st
}

type fixture struct {
	state  *fakeState
	events *fakeEvents
	lead   *fakeLeadership
	opts   Options
}

func newFixture(st Status) *fixture {
	f := &fixture{state: &fakeState{status: st}, events: newFakeEvents(), lead: &fakeLeadership{}}
	f.opts = Options{State: f.state, Events: f.events, Leadership: f.lead, ContentSecurityPolicy: true,
		Log: hclog.NewNullLogger(), Now: func() time.Time { return time.UnixMilli(1796040514228).UTC() }}
	return f
}

// do sends one request to a handler of its own; remote is the caller's address.
func (f *fixture) do(req *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	NewHandler(f.opts).ServeHTTP(w, req)
	return w
}

func (f *fixture) get(path string) *httptest.ResponseRecorder {
	return f.do(httptest.NewRequest(http.MethodGet, path, nil))
}

func mustContain(t *testing.T, body string, wants ...string) {
	t.Helper()
	for _, want := range wants {
		if !strings.Contains(body, want) {
			t.Errorf("the answer lacks %q", want)
		}
	}
}

func drain(t *testing.T, r io.Reader) string {
	t.Helper()
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
