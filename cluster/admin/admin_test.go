package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"go.uber.org/goleak"

	"raftmaster/cluster/node"
	"raftmaster/fsm"
	"raftmaster/transport/webui"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeNode is a Raft node of three whose state machine is a real one.
type fakeNode struct {
	mu      sync.Mutex
	status  NodeStatus
	lease   bool
	machine *fsm.Machine
	index   uint64
	// onTransfer is called by TransferLeadership.
	onTransfer func(n *fakeNode, target string) error
	// onAdd and onRemove are called by AddPeer and RemovePeer.
	onAdd    func(n *fakeNode, id, address string, voter bool) error
	onRemove func(n *fakeNode, id string, force bool) error
}

func (n *fakeNode) View() fsm.View { return n.machine.View() }
func (n *fakeNode) LeaseValid() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.lease
}
func (n *fakeNode) Status() NodeStatus {
	n.mu.Lock()
	defer n.mu.Unlock()
	out := n.status
	out.Peers = slices.Clone(out.Peers)
	return out
}
func (n *fakeNode) TransferLeadership(_ context.Context, target string) error {
	return n.onTransfer(n, target)
}

func (n *fakeNode) AddPeer(_ context.Context, id, address string, voter bool) error {
	return n.onAdd(n, id, address, voter)
}
func (n *fakeNode) RemovePeer(_ context.Context, id string, force bool) error {
	return n.onRemove(n, id, force)
}

func (n *fakeNode) set(change func(*NodeStatus)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	change(&n.status)
}

func (n *fakeNode) apply(t *testing.T, cmd fsm.Command) any {
	t.Helper()
	n.index++
	res := n.machine.Apply(n.index, 7, cmd)
	if res.Err != nil {
		t.Fatalf("%T: %v", cmd, res.Err)
	}
	return res.Value
}

type fakeMaster struct{ soft Soft }

func (m *fakeMaster) Soft() Soft { return m.soft }

var identity = Identity{Version: "1.0", MasterURL: "spark://a:7077", ClusterURL: "spark://a:7077,b:7077,c:7077", WebURL: "http://a:8080", StartedMillis: 500}

func newNode() *fakeNode {
	return &fakeNode{lease: true, machine: fsm.NewMachine(), status: NodeStatus{
		NodeID: "n1", BootID: "b1", Address: "a:7077", ClusterID: "c1", Role: webui.RoleLeader, Alive: true, Term: 7,
		CommitIndex: 100, AppliedIndex: 99, LastLogIndex: 101, LeaderID: "n1", LeaderAddress: "a:7077",
		Peers: []PeerStatus{
			{NodeID: "n3", Address: "c:7077", WebURL: "http://c:8080", Member: true, Voter: true, LastContact: 3 * time.Second, LastIndex: 51, Problem: "refused"},
			{NodeID: "n1", Address: "a:7077", Member: true, Voter: true, LastContact: -1},
			{NodeID: "n2", Address: "b:7077", WebURL: "http://b:8080", Version: "0.9", Member: true, Voter: true, Reachable: true, Sure: true, LastContact: 12 * time.Millisecond, LastIndex: 101},
		},
	}}
}

func newBackend(n *fakeNode, soft Soft) *Backend {
	return NewBackend(identity, n, &fakeMaster{soft}, nil, func() time.Time { return time.UnixMilli(1000) })
}

// TestF6AlarmsAndStallReachHealth: what the node complains of is shown as it comes, and a leader that commits nothing is
// not ready, in /readyz and in the metric alike.
func TestF6AlarmsAndStallReachHealth(t *testing.T) {
	const alarm = "entries are not committed: 12 for 5s"
	n := newNode()
	b := newBackend(n, Soft{})
	n.set(func(s *NodeStatus) { s.Alarms = []string{"disk", alarm} })
	if st := b.Brief(); !webui.HealthOf(st).Ready || !slices.Equal(st.Alarms, []string{"disk", alarm}) {
		t.Errorf("alarms alone: ready %v, %q", webui.HealthOf(st).Ready, st.Alarms)
	}
	n.set(func(s *NodeStatus) { s.Stalled = true })
	for name, st := range map[string]webui.Status{"brief": b.Brief(), "full": b.Status()} {
		if h := webui.HealthOf(st); h.Ready || h.Reason != alarm || !st.Stalled || !slices.Equal(h.Alarms, []string{"disk", alarm}) {
			t.Errorf("%s: %+v", name, h)
		}
	}
	n.set(func(s *NodeStatus) { s.Stalled, s.Alarms = false, nil })
	if h := webui.HealthOf(b.Brief()); !h.Ready {
		t.Errorf("after the stall: %+v", h)
	}
}

// stalledRaft is a Raft node of which only the state is asked.
type stalledRaft struct{ RaftNode }

func (stalledRaft) Status() node.Status {
	return node.Status{Role: node.RoleLeader, Stalled: true, Alarms: []string{"entries are not committed"}}
}

// TestF6NodeOfPassesTheStallOn: the adapter loses neither the stall nor its alarm.
func TestF6NodeOfPassesTheStallOn(t *testing.T) {
	s := NodeOf(stalledRaft{}, func() bool { return true }).Status()
	if !s.Stalled || !slices.Equal(s.Alarms, []string{"entries are not committed"}) {
		t.Errorf("%+v", s)
	}
}

func TestStatusOfTheLeader(t *testing.T) {
	n := newNode()
	n.apply(t, fsm.LeaderElected{Meta: fsm.Meta{NowMillis: 900}, NodeID: "n2", Reason: "first", Settings: fsm.DefaultSettings()})
	st := newBackend(n, Soft{TakeOverStartedMillis: 910, Awaited: []Awaited{
		{Kind: "worker", ID: "w", Address: "h:1", DeadlineMillis: 2000, Attempts: 2}, {Kind: "app", ID: "x", DeadlineMillis: 1500}}}).Status()
	if st.State != webui.StateAlive || !st.LeaseValid || st.Term != 7 || st.CommitIndex != 100 || st.AppliedIndex != 99 || st.NowMillis != 1000 || st.URL != "spark://a:7077" {
		t.Errorf("%+v", st)
	}
	if diff := cmp.Diff(&webui.Leader{NodeID: "n1", Address: "a:7077", WebURL: "http://a:8080"}, st.Leader); diff != "" {
		t.Error(diff)
	}
	want := webui.Quorum{Voters: 3, Needed: 2, Reachable: 2, Tolerance: 0, Peers: []webui.Peer{
		{NodeID: "n1", Address: "a:7077", WebURL: "http://a:8080", Self: true, Member: true, Voter: true, Role: webui.RoleLeader, Reachable: true, Version: "1.0"},
		{NodeID: "n2", Address: "b:7077", WebURL: "http://b:8080", Member: true, Voter: true, Role: webui.RoleFollower, Reachable: true, LastContactMillis: 12, Version: "0.9"},
		{NodeID: "n3", Address: "c:7077", WebURL: "http://c:8080", Member: true, Voter: true, Role: webui.RoleUnknown, LastContactMillis: 3000, Lag: 50, Problem: "refused"},
	}}
	if diff := cmp.Diff(want, st.Quorum); diff != "" {
		t.Errorf("quorum (-want +got):\n%s", diff)
	}
	if st.TakeOver == nil || st.TakeOver.DeadlineMillis != 2000 || len(st.TakeOver.Awaited) != 2 || st.TakeOver.StartedMillis != 910 || st.TakeOver.Term != 7 {
		t.Errorf("%+v", st.TakeOver)
	}
	if diff := cmp.Diff([]webui.LeaderChange{{Term: 7, Index: 1, NodeID: "n2", Address: "b:7077", TimeMillis: 900, Reason: "first"}}, st.LeaderChanges); diff != "" {
		t.Error(diff)
	}
}

func TestStatusElsewhere(t *testing.T) {
	n := newNode()
	n.lease = false
	if st := newBackend(n, Soft{}).Status(); st.LeaseValid || st.State != webui.StateAlive || st.TakeOver != nil {
		t.Errorf("a leader without a lease: %+v", st)
	}
	n.set(func(s *NodeStatus) { s.NodeID, s.Address, s.Role, s.Alive = "n2", "b:7077", webui.RoleFollower, false })
	n.lease = true // must not matter on a follower
	st := newBackend(n, Soft{Awaited: []Awaited{{Kind: "worker"}}}).Status()
	if st.State != webui.StateStandby || st.LeaseValid || st.TakeOver != nil || st.Leader.Address != "a:7077" {
		t.Errorf("a follower: %+v", st)
	}
	for _, p := range st.Quorum.Peers {
		if p.Lag != webui.Unknown {
			t.Errorf("a follower knows the lag of %s: %d", p.Address, p.Lag)
		}
		if p.Address == "a:7077" && (p.Role != webui.RoleLeader || p.LastContactMillis != webui.Unknown) {
			t.Errorf("the leader as seen by a follower: %+v", p)
		}
	}
	n.set(func(s *NodeStatus) { s.LeaderID, s.LeaderAddress = "", "" })
	if st := newBackend(n, Soft{}).Status(); st.Leader != nil {
		t.Errorf("no leader is known, and %+v is shown", st.Leader)
	}
}

// populate registers a worker, two applications and an executor, and ends one application.
func populate(t *testing.T, n *fakeNode) (appID, doneID string) {
	t.Helper()
	meta := fsm.Meta{NowMillis: 600, Stamp: "20261130120000"}
	cores, max := 2, 4
	n.apply(t, fsm.LeaderElected{Meta: meta, NodeID: "n1", Settings: fsm.DefaultSettings()})
	n.apply(t, fsm.RegisterWorker{Meta: meta, ID: "worker-1", Host: "h", Port: 9, Address: fsm.Address{Host: "h", Port: 9}, Cores: 8, MemoryMB: 4096,
		WebUIURL: "http://h:8081", Families: 0b11000, Resources: []fsm.Resource{{Name: "gpu", Addresses: []string{"0", "1"}}}})
	register := func(port int) string {
		res := n.apply(t, fsm.RegisterApplication{Meta: meta, Name: "Pi", User: "ann", UIURL: "http://d:4040", Driver: fsm.Address{Host: "d", Port: port},
			MaxCores: &max, DefaultCores: fsm.UnlimitedCores, Payload: []byte{1}, Families: 0b10000,
			DefaultProfile: fsm.Profile{Cores: &cores, MemoryMB: 1024, Resources: []fsm.ResourceAmount{{Name: "gpu", Amount: 1}}}})
		return res.(fsm.RegisterApplicationResult).AppID
	}
	doneID = register(1)
	n.apply(t, fsm.FinishApplication{Meta: fsm.Meta{NowMillis: 700}, AppID: doneID, State: fsm.AppFailed, Reason: "driver gone"})
	appID = register(2)
	n.apply(t, fsm.PlaceExecutors{Meta: meta, Placements: []fsm.Placement{{AppID: appID, WorkerID: "worker-1", Cores: 2, MemoryMB: 1024,
		Resources: []fsm.Resource{{Name: "gpu", Addresses: []string{"1"}}}}}})
	return appID, doneID
}

func TestTables(t *testing.T) {
	n := newNode()
	appID, doneID := populate(t, n)
	b := newBackend(n, Soft{HeartbeatMillis: map[string]int64{"worker-1": 999}, WorkerNotes: map[string]string{"worker-1": "note"}})
	c := b.Cluster()
	wantWorkers := []webui.Worker{{ID: "worker-1", Host: "h", Port: 9, WebURL: "http://h:8081", State: "ALIVE", Cores: 8, CoresUsed: 2, MemoryMB: 4096,
		MemoryUsedMB: 1024, Executors: 1, LastHeartbeatMillis: 999, RegisteredMillis: 600, Family: "DE", Note: "note",
		Resources: []webui.Resource{{Name: "gpu", Addresses: []string{"0", "1"}, UsedAddresses: []string{"1"}}}}}
	if diff := cmp.Diff(wantWorkers, c.Workers); diff != "" {
		t.Errorf("workers (-want +got):\n%s", diff)
	}
	app := webui.App{ID: appID, Name: "Pi", User: "ann", State: "RUNNING", Active: true, Cores: 2, MaxCores: 4, Executors: 1, MemoryPerExecutorMB: 1024,
		CoresPerExecutor: 2, Resources: []webui.ResourceRequest{{Name: "gpu", Amount: 1}}, UIURL: "http://d:4040", DriverAddress: "d:2", StartMillis: 600,
		Family: "E"}
	done := app
	done.ID, done.State, done.Active, done.Cores, done.Executors, done.DriverAddress = doneID, "FAILED", false, 0, 0, "d:1"
	done.EndMillis, done.EndReason = 700, "driver gone"
	if diff := cmp.Diff([]webui.App{app, done}, c.Apps); diff != "" {
		t.Errorf("applications (-want +got):\n%s", diff)
	}
	wantExecutors := []webui.Executor{{AppID: appID, ID: 0, WorkerID: "worker-1", Worker: "h:9", State: "LAUNCHING", Cores: 2, MemoryMB: 1024, StartMillis: 600}}
	for _, id := range []string{"", appID} {
		if diff := cmp.Diff(wantExecutors, b.Executors(id)); diff != "" {
			t.Errorf("executors of %q (-want +got):\n%s", id, diff)
		}
	}
	if got := b.Executors("app-no"); len(got) != 0 {
		t.Errorf("executors of nobody: %+v", got)
	}
	n.apply(t, fsm.RemoveWorker{Meta: fsm.Meta{NowMillis: 800}, ID: "worker-1", Reason: "no heartbeat"})
	c = newBackend(n, Soft{}).Cluster()
	if w := c.Workers[0]; w.State != "DEAD" || w.Note != "no heartbeat" || w.LastHeartbeatMillis != 0 {
		t.Errorf("a dead worker: %+v", w)
	}
}

func TestTransfer(t *testing.T) {
	code := func(err error) string {
		var e *webui.Error
		if errors.As(err, &e) {
			return e.Code
		}
		return fmt.Sprint(err)
	}
	moved := func(n *fakeNode, target string) error {
		if target == "" {
			target = "n2"
		}
		n.set(func(s *NodeStatus) {
			s.Role, s.Alive, s.LeaderID, s.LeaderAddress, s.Term = webui.RoleFollower, false, target, "b:7077", s.Term+1
		})
		return nil
	}
	for _, to := range []string{"", "n2", "b:7077"} {
		n := newNode()
		n.onTransfer = moved
		got, err := newBackend(n, Soft{}).TransferLeadership(context.Background(), webui.TransferRequest{To: to})
		if err != nil || got.To != (webui.Leader{NodeID: "n2", Address: "b:7077", WebURL: "http://b:8080"}) || got.Term != 8 || got.From.Address != "a:7077" {
			t.Errorf("to %q: %+v, %v", to, got, err)
		}
	}
	never := func(*fakeNode, string) error { t.Error("Raft was asked"); return nil }
	for _, c := range []struct {
		to     string
		change func(*NodeStatus)
		want   string
	}{
		{"n1", nil, webui.CodeRefused},
		{"n3", nil, webui.CodeRefused}, // not in contact
		{"n9", nil, webui.CodeNotFound},
		{"n2", func(s *NodeStatus) { s.Peers[2].Voter = false }, webui.CodeRefused},
		{"", func(s *NodeStatus) { s.Peers[2].Reachable = false }, webui.CodeRefused},
		{"n2", func(s *NodeStatus) { s.Role, s.LeaderID = webui.RoleFollower, "n3" }, webui.CodeNotLeader},
		{"n2", func(s *NodeStatus) { s.Role, s.LeaderID, s.LeaderAddress = webui.RoleCandidate, "", "" }, webui.CodeNoLeader},
	} {
		n := newNode()
		n.onTransfer = never
		if c.change != nil {
			n.set(c.change)
		}
		if _, err := newBackend(n, Soft{}).TransferLeadership(context.Background(), webui.TransferRequest{To: c.to}); code(err) != c.want {
			t.Errorf("to %q: %v, want %s", c.to, err, c.want)
		}
	}
	n := newNode()
	n.onTransfer = never
	if got, err := newBackend(n, Soft{}).TransferLeadership(context.Background(), webui.TransferRequest{To: "n2", DryRun: true}); err != nil || !got.DryRun || got.To.NodeID != "n2" || got.Term != 7 {
		t.Errorf("dry run: %+v, %v", got, err)
	}
	n.onTransfer = func(*fakeNode, string) error { return errors.New("the target is behind") }
	if _, err := newBackend(n, Soft{}).TransferLeadership(context.Background(), webui.TransferRequest{}); code(err) != webui.CodeRefused || !strings.Contains(err.Error(), "behind") {
		t.Error(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	n.onTransfer = func(*fakeNode, string) error { return nil } // given up, and nobody follows
	if _, err := newBackend(n, Soft{}).TransferLeadership(ctx, webui.TransferRequest{}); code(err) != webui.CodeTimeout {
		t.Error(err)
	}
}

func TestRing(t *testing.T) {
	r := NewRing(3, func() time.Time { return time.UnixMilli(77) })
	seqs := func(events []webui.Event) (out []uint64) {
		for _, e := range events {
			out = append(out, e.Seq)
		}
		return out
	}
	none, more := r.Since(0, 10)
	if len(none) != 0 {
		t.Fatal(none)
	}
	r.Add(webui.Event{Kind: "a", Message: strings.Repeat("x", 10_000)})
	select {
	case <-more:
	default:
		t.Error("a new event did not close the channel")
	}
	events, _ := r.Since(0, 10)
	if events[0].TimeMillis != 77 || len(events[0].Message) > maxEventText+4 {
		t.Errorf("%d bytes at %d", len(events[0].Message), events[0].TimeMillis)
	}
	for range 4 {
		r.Add(webui.Event{TimeMillis: 5})
	}
	for _, c := range []struct {
		after uint64
		limit int
		want  []uint64
	}{{0, 10, []uint64{3, 4, 5}}, {1, 10, []uint64{3, 4, 5}}, {3, 10, []uint64{4, 5}}, {5, 10, nil}, {0, 2, []uint64{3, 4}}, {99, 10, []uint64{3, 4, 5}}} {
		events, _ := r.Since(c.after, c.limit)
		if diff := cmp.Diff(c.want, seqs(events)); diff != "" {
			t.Errorf("after %d: %s", c.after, diff)
		}
	}
}

func TestRingFromManyGoroutines(t *testing.T) {
	r := NewRing(16, nil)
	var wg sync.WaitGroup
	for range 8 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for range 100 {
				r.Add(webui.Event{Kind: "x"})
				r.Since(0, 10)
			}
		}()
	}
	wg.Wait()
	if events, _ := r.Since(0, 100); len(events) != 16 || events[15].Seq != 800 {
		t.Errorf("%d events, the last is %d", len(events), events[len(events)-1].Seq)
	}
}

func TestMetrics(t *testing.T) {
	n := newNode()
	populate(t, n)
	reg := prometheus.NewPedanticRegistry()
	m, err := NewMetrics(reg, newBackend(n, Soft{Awaited: []Awaited{{Kind: "app"}}}))
	if err != nil {
		t.Fatal(err)
	}
	m.Applied(time.Millisecond)
	m.DecodeError("frame")
	m.ConnectionOpened("spark")
	m.ConnectionOpened("spark")
	m.ConnectionClosed("spark")
	m.Committed("RegisterWorker", time.Millisecond)
	want := `
raftmaster_alive 1
raftmaster_applied_index 99
raftmaster_apps{state="COMPLETED"} 1
raftmaster_apps{state="RUNNING"} 1
raftmaster_apps{state="WAITING"} 0
raftmaster_commit_index 100
raftmaster_connections{kind="internal"} 0
raftmaster_connections{kind="spark"} 1
raftmaster_cores 8
raftmaster_cores_used 2
raftmaster_decode_errors_total{reason="frame"} 1
raftmaster_executors{state="LAUNCHING"} 1
raftmaster_executors{state="RUNNING"} 0
raftmaster_leader_changes_total 1
raftmaster_memory_used_bytes 1.073741824e+09
raftmaster_peer_lag_entries{peer="c:7077"} 50
raftmaster_peer_last_contact_seconds{peer="b:7077"} 0.012
raftmaster_quorum_reachable_voters 2
raftmaster_quorum_tolerance 0
raftmaster_quorum_voters 3
raftmaster_ready 1
raftmaster_role{role="follower"} 0
raftmaster_role{role="leader"} 1
raftmaster_take_over_awaited_peers 1
raftmaster_term 7
raftmaster_workers{state="ALIVE"} 1
raftmaster_workers{state="DEAD"} 0
raftmaster_apply_duration_seconds_count 1
raftmaster_commit_duration_seconds_count{command="RegisterWorker"} 1
raftmaster_info{address="a:7077",cluster_id="c1",node_id="n1",version="1.0"} 1
`
	got := gather(t, reg)
	for _, line := range strings.Split(strings.TrimSpace(want), "\n") {
		if !strings.Contains(got, "\n"+line+"\n") {
			t.Errorf("missing: %s", line)
		}
	}
	if problems, err := promlint.New(strings.NewReader(got)).Lint(); err != nil || len(problems) > 0 {
		t.Errorf("%v %v", problems, err)
	}
	if _, err := NewMetrics(reg, newBackend(n, Soft{})); err == nil {
		t.Error("metrics were registered twice without an error")
	}
}

// A peer chooses class names: it must not be able to fill the metrics, or to break them.
func TestDecodeErrorLabelsAreBounded(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	m, err := NewMetrics(reg, newBackend(newNode(), Soft{}))
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"", "a\xffb", "x\ny", "ünïcode", strings.Repeat("x", 1000), `quote"`} {
		m.DecodeError(bad)
	}
	for i := range 1000 {
		m.DecodeError(fmt.Sprintf("org.evil.Class%d", i))
	}
	got := gather(t, reg)
	if n := strings.Count(got, "raftmaster_decode_errors_total{"); n != maxReasons+1 {
		t.Errorf("%d label values, want %d and %q", n, maxReasons, otherReason)
	}
	if want := fmt.Sprintf("raftmaster_decode_errors_total{reason=\"other\"} %d\n", 1000-(maxReasons-2)+6); !strings.Contains(got, want) {
		t.Errorf("lacks %q", want)
	}
}
