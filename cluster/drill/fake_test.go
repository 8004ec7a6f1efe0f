package drill

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"raftmaster/transport/webui"
)

// fakeCluster plays three masters whose first one leads. It implements Client and Prober.
type fakeCluster struct {
	mu      sync.Mutex
	leader  string
	term    uint64
	st      state
	log     []webui.DrillEntry
	workers []webui.Worker
	claims  map[string]string // by address: the drill
	faults  map[string]*webui.DrillFault
	boots   map[string]int
	down    map[string]bool
	noDrill map[string]bool
	probes  int
	// broken changes the status that a master gives; onFault is called when a fault begins or a hand-over is asked for.
	broken  func(address string, st *webui.Status)
	onFault func(kind, address string)
}

var fakeMasters = []string{"a:1", "b:1", "c:1"}

func newFake() *fakeCluster {
	f := &fakeCluster{leader: "a:1", term: 3, st: sampleState(), claims: map[string]string{}, faults: map[string]*webui.DrillFault{},
		boots: map[string]int{}, down: map[string]bool{}, noDrill: map[string]bool{}}
	for _, w := range f.st.Workers {
		f.workers = append(f.workers, webui.Worker{ID: w.ID, State: w.State, Draining: w.Draining, LastHeartbeatMillis: time.Now().UnixMilli()})
	}
	return f
}

func (f *fakeCluster) config(kind string) Config {
	return Config{Client: f, Endpoints: []string{"http://b:1"}, Kind: kind, Limit: 300 * time.Millisecond, Duration: 50 * time.Millisecond, Between: time.Millisecond, Probe: f}
}

var errDown = errors.New("connection refused")

func (f *fakeCluster) Get(ctx context.Context, endpoint, path string, answer any) error {
	return f.call(ctx, endpoint, path, nil, answer)
}

func (f *fakeCluster) Post(ctx context.Context, endpoint, path string, request, answer any) error {
	return f.call(ctx, endpoint, path, request, answer)
}

// call answers as a master does, through JSON.
func (f *fakeCluster) call(ctx context.Context, endpoint, path string, request, answer any) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	at := strings.TrimPrefix(endpoint, "http://")
	if f.down[at] {
		return errDown
	}
	v, err := f.answer(at, path, request)
	if err != nil {
		return err
	}
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return json.Unmarshal(b, answer)
}

func (f *fakeCluster) answer(at, path string, request any) (any, error) {
	path, _, _ = strings.Cut(path, "?")
	if strings.HasPrefix(path, "/v1/drill") && f.noDrill[at] {
		return nil, &webui.Error{Code: webui.CodeNotFound, Message: "no such call"}
	}
	switch path {
	case "/v1/status":
		return f.status(at), nil
	case "/v1/leader":
		return webui.LeaderOf(f.status(at)), nil
	case "/v1/workers":
		return webui.WorkersAnswer{Workers: f.workers}, nil
	case "/v1/drill":
		return f.drill(at), nil
	case "/v1/drill/state":
		return f.st, nil
	case "/v1/drill/log":
		return webui.DrillLog{From: 0, To: f.st.StateIndex, Entries: f.log}, nil
	case "/v1/transfer-leadership":
		f.move("b:1")
		f.begin("transfer", at)
		return webui.Transfer{To: webui.Leader{Address: "b:1"}}, nil
	case "/v1/drill/claim":
		drill := request.(webui.DrillClaimRequest).Drill
		if held := f.claims[at]; held != "" && held != drill {
			return nil, &webui.Error{Code: webui.CodeRefused, Message: "another drill is going on"}
		}
		f.claims[at] = drill
		return f.drill(at), nil
	case "/v1/drill/release":
		delete(f.claims, at)
		delete(f.faults, at)
		return f.drill(at), nil
	}
	return f.fault(at, strings.TrimPrefix(path, "/v1/drill/"), request)
}

func (f *fakeCluster) fault(at, kind string, request any) (any, error) {
	req, ok := request.(webui.DrillFaultRequest)
	if !ok || f.claims[at] != req.Drill {
		return nil, fmt.Errorf("unexpected call %s", kind)
	}
	if kind == webui.DrillEnd {
		delete(f.faults, at)
		return f.drill(at), nil
	}
	st := f.drill(at)
	st.Fault = &webui.DrillFault{Kind: kind, Detail: "fake " + kind}
	switch kind {
	case webui.DrillExit, webui.DrillRestart:
		f.boots[at]++
		delete(f.claims, at)
	default:
		f.faults[at] = st.Fault
		time.AfterFunc(time.Duration(req.DurationMillis)*time.Millisecond, func() {
			f.mu.Lock()
			defer f.mu.Unlock()
			delete(f.faults, at)
		})
	}
	if at == f.leader && kind != webui.DrillSlowDisk && kind != webui.DrillRestart {
		f.move(map[string]string{"a:1": "b:1", "b:1": "c:1", "c:1": "a:1"}[at])
	}
	f.begin(kind, at)
	return st, nil
}

func (f *fakeCluster) begin(kind, at string) {
	if f.onFault != nil {
		f.onFault(kind, at)
	}
}

func (f *fakeCluster) move(to string) { f.leader, f.term = to, f.term+1 }

func (f *fakeCluster) drill(at string) webui.DrillStatus {
	st := webui.DrillStatus{Node: at, NodeID: at[:1], BootID: fmt.Sprint(at, f.boots[at]), Fault: f.faults[at], StartCommand: "start " + at}
	if c := f.claims[at]; c != "" {
		st.Claim = &webui.DrillClaim{Drill: c, By: "somebody"}
	}
	return st
}

func (f *fakeCluster) status(at string) webui.Status {
	st := webui.Status{NodeID: at[:1], Address: at, BootID: fmt.Sprint(at, f.boots[at]), ClusterID: "x", State: webui.StateStandby, Role: webui.RoleFollower, Term: f.term,
		StateIndex: f.st.StateIndex, StateDigest: f.st.StateDigest, NowMillis: time.Now().UnixMilli()}
	if f.leader != "" {
		st.Leader = &webui.Leader{NodeID: f.leader[:1], Address: f.leader}
	}
	if at == f.leader {
		st.State, st.Role, st.LeaseValid = webui.StateAlive, webui.RoleLeader, true
	}
	q := &st.Quorum
	for _, p := range fakeMasters {
		q.Peers = append(q.Peers, webui.Peer{NodeID: p[:1], Address: p, WebURL: "http://" + p, Self: p == at, Member: true, Voter: true, Reachable: !f.down[p]})
		if !f.down[p] {
			q.Reachable++
		}
	}
	q.Voters, q.Needed, q.Tolerance = 3, 2, q.Reachable-2
	if f.broken != nil {
		f.broken(at, &st)
	}
	return st
}

// Register implements Prober.
func (f *fakeCluster) Register(ctx context.Context, _ []string, _ string) (Registration, error) {
	for ctx.Err() == nil {
		f.mu.Lock()
		leader := f.leader
		f.mu.Unlock()
		if leader != "" {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.probes++
			return Registration{AppID: fmt.Sprint("probe", f.probes), Master: leader, At: time.Now()}, nil
		}
		time.Sleep(time.Millisecond)
	}
	return Registration{}, ctx.Err()
}

// idle checks that a drill has left no claim and no fault.
func (f *fakeCluster) idle(t *testing.T) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.claims) > 0 || len(f.faults) > 0 {
		t.Errorf("the drill has left claims %v and faults %v", maps.Clone(f.claims), f.faults)
	}
}
