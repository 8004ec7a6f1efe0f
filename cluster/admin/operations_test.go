package admin

import (
	"context"
	"errors"
	"strings"
	"testing"

	"raftmaster/cluster/master"
	"raftmaster/fsm"
	"raftmaster/transport/webui"
)

// fakeOperator is a leader service that commits at once.
type fakeOperator struct {
	t     *testing.T
	n     *fakeNode
	calls int
	err   error
	// before runs before a call takes effect: what happens in the meantime.
	before func()
}

func (f *fakeOperator) begin() error {
	f.calls++
	if f.before != nil {
		f.before()
	}
	return f.err
}

func (f *fakeOperator) KillApplication(_ context.Context, id string) (bool, error) {
	if err := f.begin(); err != nil {
		return false, err
	}
	if a, ok := f.n.View().Application(id); !ok || a.State.Finished() {
		return false, nil
	}
	f.n.apply(f.t, fsm.FinishApplication{Meta: fsm.Meta{NowMillis: 900}, AppID: id, State: fsm.AppKilled, Reason: "killed"})
	return true, nil
}

func (f *fakeOperator) KillDriver(_ context.Context, id string) (master.DriverKill, error) {
	if err := f.begin(); err != nil {
		return master.DriverKill{}, err
	}
	k := f.n.apply(f.t, fsm.RequestKillDriver{Meta: fsm.Meta{NowMillis: 900}, DriverID: id}).(fsm.DriverKill)
	return master.DriverKill{ID: id, Success: k.Known, Message: "Kill request for " + id + " submitted"}, nil
}

func (f *fakeOperator) DecommissionHosts(ctx context.Context, hosts []string) (int, error) {
	var ids []string
	for _, h := range hosts {
		f.n.View().WorkersByHost(h, func(w *fsm.Worker) bool { ids = append(ids, w.ID); return true })
	}
	return f.DecommissionWorkers(ctx, ids)
}

func (f *fakeOperator) DecommissionWorkers(_ context.Context, ids []string) (int, error) {
	if err := f.begin(); err != nil {
		return 0, err
	}
	return f.n.apply(f.t, fsm.DecommissionWorkers{Meta: fsm.Meta{NowMillis: 900}, IDs: ids, Notify: true}).(fsm.DecommissionResult).Matched, nil
}

func (f *fakeOperator) DrainWorkers(_ context.Context, ids []string, on, idleOnly bool) (int, error) {
	if err := f.begin(); err != nil {
		return 0, err
	}
	r := f.n.apply(f.t, fsm.DrainWorkers{Meta: fsm.Meta{NowMillis: 900}, IDs: ids, On: on, IdleOnly: idleOnly}).(fsm.DrainResult)
	return r.Matched - len(r.Busy), nil
}

func (f *fakeOperator) ClearCompleted(context.Context) error {
	if err := f.begin(); err != nil {
		return err
	}
	f.n.apply(f.t, fsm.ClearCompleted{Meta: fsm.Meta{NowMillis: 900}})
	return nil
}

func (f *fakeOperator) UnmarkIncompatible(_ context.Context, workerID, appID string) (int, error) {
	if err := f.begin(); err != nil {
		return 0, err
	}
	return f.n.apply(f.t, fsm.UnmarkIncompatible{Meta: fsm.Meta{NowMillis: 900}, WorkerID: workerID, AppID: appID}).(int), nil
}

// operated is a leader with two workers of one host, an application, a completed one, and drivers.
func operated(t *testing.T) (*fakeNode, *fakeOperator, *Operations, string, string) {
	t.Helper()
	n := newNode()
	appID, doneID := populate(t, n)
	n.apply(t, fsm.RegisterWorker{Meta: fsm.Meta{NowMillis: 600}, ID: "worker-2", Host: "h", Port: 10, Address: fsm.Address{Host: "h", Port: 10}, Cores: 1, MemoryMB: 512})
	op := &fakeOperator{t: t, n: n}
	return n, op, newBackend(n, Soft{}).Operations(op, true), appID, doneID
}

func submit(t *testing.T, n *fakeNode, supervise bool) string {
	t.Helper()
	r := n.apply(t, fsm.SubmitDriver{Meta: fsm.Meta{NowMillis: 600, Stamp: "20261130120000"}, Cores: 1, MemoryMB: 512, Supervise: supervise,
		MainClass: "org.example.Main", JarURL: "file:/a.jar", Payload: []byte{1}, Families: 0b10000})
	return r.(fsm.DriverSubmitted).ID
}

// refusalCode is the code of a refusal; "" for none.
func refusalCode(t *testing.T, err error) string {
	t.Helper()
	if err == nil {
		return ""
	}
	var e *webui.Error
	if !errors.As(err, &e) {
		t.Fatalf("not a webui.Error: %v", err)
	}
	return e.Code
}

// TestG58_KillsAreCommitted: a kill goes through the log, and says what was there.
func TestG58_KillsAreCommitted(t *testing.T) {
	n, op, o, appID, doneID := operated(t)
	ctx := context.Background()
	dry, err := o.Kill(ctx, webui.KillRequest{Kind: webui.KindApp, ID: appID, DryRun: true})
	if err != nil || dry.Done || dry.Executors != 1 || dry.Cores != 2 || dry.State != "RUNNING" || op.calls != 0 {
		t.Errorf("dry run: %+v, %v, %d calls", dry, err, op.calls)
	}
	k, err := o.Kill(ctx, webui.KillRequest{Kind: webui.KindApp, ID: appID})
	if a, _ := n.View().Application(appID); err != nil || !k.Done || a.State != fsm.AppKilled {
		t.Errorf("%+v, %v, %v", k, err, a.State)
	}
	calls := op.calls
	if k, err := o.Kill(ctx, webui.KillRequest{Kind: webui.KindApp, ID: doneID}); err != nil || !k.Already || k.Done || op.calls != calls {
		t.Errorf("an application that has ended: %+v, %v", k, err)
	}
	for _, req := range []webui.KillRequest{{Kind: webui.KindApp, ID: "app-9"}, {Kind: webui.KindDriver, ID: "driver-9"}} {
		if _, err := o.Kill(ctx, req); refusalCode(t, err) != webui.CodeNotFound {
			t.Errorf("%+v: %v", req, err)
		}
	}
	for _, req := range []webui.KillRequest{{}, {Kind: webui.KindApp}, {Kind: "worker", ID: "worker-1"}} {
		if _, err := o.Kill(ctx, req); refusalCode(t, err) != webui.CodeBadRequest {
			t.Errorf("%+v: %v", req, err)
		}
	}
}

// TestB135_KillDriver: a waiting driver has ended at once, a running one when its worker says so, an ended one is left.
func TestB135_KillDriver(t *testing.T) {
	n, op, o, _, _ := operated(t)
	ctx := context.Background()
	waiting, running := submit(t, n, false), submit(t, n, false)
	n.apply(t, fsm.PlaceDrivers{Meta: fsm.Meta{NowMillis: 700}, Placements: []fsm.DriverPlacement{{DriverID: running, WorkerID: "worker-1"}}})
	k, err := o.Kill(ctx, webui.KillRequest{Kind: webui.KindDriver, ID: waiting})
	if err != nil || !k.Done || k.State != "SUBMITTED" || k.Name != "org.example.Main" {
		t.Errorf("waiting: %+v, %v", k, err)
	}
	k, err = o.Kill(ctx, webui.KillRequest{Kind: webui.KindDriver, ID: running})
	if d, _ := n.View().Driver(running); err != nil || k.Done || !d.KillRequested {
		t.Errorf("running: %+v, %v, %+v", k, err, d)
	}
	calls := op.calls
	if k, err := o.Kill(ctx, webui.KillRequest{Kind: webui.KindDriver, ID: waiting}); err != nil || !k.Already || k.State != "KILLED" || op.calls != calls {
		t.Errorf("ended: %+v, %v, %d calls", k, err, op.calls-calls)
	}
}

// TestB065_DecommissionByHostAndID: all workers of a host in any case, or one of them by its id or address.
func TestB065_DecommissionByHostAndID(t *testing.T) {
	n, op, o, _, _ := operated(t)
	ctx := context.Background()
	state := func(id string) fsm.WorkerState { w, _ := n.View().Worker(id); return w.State }
	if _, err := o.Decommission(ctx, webui.DecommissionRequest{Worker: "h"}); refusalCode(t, err) != webui.CodeBadRequest || !strings.Contains(err.Error(), "worker-1, worker-2") {
		t.Errorf("the host of two workers as a worker: %v", err)
	}
	dry, err := o.Decommission(ctx, webui.DecommissionRequest{Hosts: []string{"H", "h"}, DryRun: true})
	if err != nil || len(dry.Workers) != 2 || dry.Changed != 2 || op.calls != 0 {
		t.Errorf("dry run: %+v, %v", dry, err)
	}
	one, err := o.Decommission(ctx, webui.DecommissionRequest{Worker: "h:10"})
	if err != nil || one.Changed != 1 || state("worker-2") != fsm.WorkerDecommissioned || state("worker-1") != fsm.WorkerAlive {
		t.Errorf("by address: %+v, %v", one, err)
	}
	both, err := o.Decommission(ctx, webui.DecommissionRequest{Hosts: []string{"H"}})
	if err != nil || len(both.Workers) != 2 || both.Changed != 1 || state("worker-1") != fsm.WorkerDecommissioned {
		t.Errorf("by host: %+v, %v", both, err)
	}
	for name, c := range map[string]struct {
		req  webui.DecommissionRequest
		want string
	}{
		"nobody there": {webui.DecommissionRequest{Hosts: []string{"x"}}, webui.CodeNotFound},
		"no such id":   {webui.DecommissionRequest{Worker: "worker-9"}, webui.CodeNotFound},
		"nothing":      {webui.DecommissionRequest{}, webui.CodeBadRequest},
		"both":         {webui.DecommissionRequest{Worker: "worker-1", Hosts: []string{"h"}}, webui.CodeBadRequest},
	} {
		if _, err := o.Decommission(ctx, c.req); refusalCode(t, err) != c.want {
			t.Errorf("%s: %v", name, err)
		}
	}
	n.apply(t, fsm.RemoveWorker{Meta: fsm.Meta{NowMillis: 900}, ID: "worker-1", Reason: "gone"})
	if _, err := o.Decommission(ctx, webui.DecommissionRequest{Worker: "worker-1"}); refusalCode(t, err) != webui.CodeRefused {
		t.Errorf("a DEAD one: %v", err)
	}
}

// TestS33_DecommissionOffByAPI: the refusal comes before anything is looked up, in a dry run too.
func TestS33_DecommissionOffByAPI(t *testing.T) {
	n, op, _, _, _ := operated(t)
	o := newBackend(n, Soft{}).Operations(op, false)
	for _, dry := range []bool{true, false} {
		_, err := o.Decommission(context.Background(), webui.DecommissionRequest{Worker: "worker-1", DryRun: dry})
		if refusalCode(t, err) != webui.CodeRefused || !strings.Contains(err.Error(), "spark.decommission.enabled") || op.calls != 0 {
			t.Errorf("dry run %v: %v", dry, err)
		}
	}
}

// TestS34_Drain: the mark comes and goes; only an idle worker with IdleOnly, also if it gets busy in the meantime.
func TestS34_Drain(t *testing.T) {
	n, op, o, _, _ := operated(t)
	ctx := context.Background()
	draining := func(id string) bool { w, _ := n.View().Worker(id); return w.Draining }
	if _, err := o.Drain(ctx, webui.DrainRequest{Worker: "worker-1", On: true, IdleOnly: true}); refusalCode(t, err) != webui.CodeRefused || !strings.Contains(err.Error(), "1 executor and 0 drivers") {
		t.Errorf("busy: %v", err)
	}
	dry, err := o.Drain(ctx, webui.DrainRequest{Worker: "worker-1", On: true, DryRun: true})
	if err != nil || dry.Changed != 1 || op.calls != 0 || draining("worker-1") {
		t.Errorf("dry run: %+v, %v", dry, err)
	}
	if c, err := o.Drain(ctx, webui.DrainRequest{Worker: "worker-1", On: true}); err != nil || c.Changed != 1 || !draining("worker-1") {
		t.Errorf("%+v, %v", c, err)
	}
	if _, err := o.Drain(ctx, webui.DrainRequest{Worker: "worker-1", On: true, IdleOnly: true}); refusalCode(t, err) != webui.CodeRefused {
		t.Errorf("idle only, drained and busy: %v", err)
	}
	if c, err := o.Drain(ctx, webui.DrainRequest{Worker: "worker-1", On: true}); err != nil || c.Changed != 0 {
		t.Errorf("again: %+v, %v", c, err)
	}
	if w := newBackend(n, Soft{}).Cluster().Workers[0]; !w.Draining {
		t.Errorf("the list does not show it: %+v", w)
	}
	if c, err := o.Drain(ctx, webui.DrainRequest{Worker: "h:9", On: false}); err != nil || c.Changed != 1 || draining("worker-1") {
		t.Errorf("undrain: %+v, %v", c, err)
	}
	id := submit(t, n, false)
	op.before = func() {
		op.before = nil
		n.apply(t, fsm.PlaceDrivers{Meta: fsm.Meta{NowMillis: 700}, Placements: []fsm.DriverPlacement{{DriverID: id, WorkerID: "worker-2"}}})
	}
	if _, err := o.Drain(ctx, webui.DrainRequest{Worker: "worker-2", On: true, IdleOnly: true}); refusalCode(t, err) != webui.CodeRefused || !strings.Contains(err.Error(), "1 driver") || draining("worker-2") {
		t.Errorf("busy in the meantime: %v", err)
	}
	n.apply(t, fsm.RemoveWorker{Meta: fsm.Meta{NowMillis: 900}, ID: "worker-1", Reason: "gone"})
	calls := op.calls
	if _, err := o.Drain(ctx, webui.DrainRequest{Worker: "worker-1", On: true}); refusalCode(t, err) != webui.CodeRefused || !strings.Contains(err.Error(), "DEAD") || op.calls != calls {
		t.Errorf("a DEAD worker: %v", err)
	}
	for _, req := range []webui.DrainRequest{{On: true}, {Worker: "worker-1", IdleOnly: true}} {
		if _, err := o.Drain(ctx, req); refusalCode(t, err) != webui.CodeBadRequest {
			t.Errorf("%+v: %v", req, err)
		}
	}
}

// TestB142_Clear: the completed ones are forgotten, on the leader alone (G-73).
func TestB142_Clear(t *testing.T) {
	n, op, o, _, doneID := operated(t)
	ctx := context.Background()
	id := submit(t, n, false)
	n.apply(t, fsm.RequestKillDriver{Meta: fsm.Meta{NowMillis: 900}, DriverID: id})
	dry, err := o.ClearCompleted(ctx, webui.ClearRequest{DryRun: true})
	if err != nil || dry.Apps != 1 || dry.Drivers != 1 || op.calls != 0 {
		t.Errorf("dry run: %+v, %v", dry, err)
	}
	if done, err := o.ClearCompleted(ctx, webui.ClearRequest{}); err != nil || done.Apps != 1 || done.Drivers != 1 {
		t.Errorf("%+v, %v", done, err)
	}
	if _, ok := n.View().Application(doneID); ok {
		t.Error("a completed application is still there")
	}
}

// TestG74_OperationsNameTheLeader: a standby changes nothing and says who leads; a leader that loses its office on the way
// says that the outcome is open.
func TestG74_OperationsNameTheLeader(t *testing.T) {
	n, op, o, appID, _ := operated(t)
	n.apply(t, fsm.MarkIncompatible{Meta: fsm.Meta{NowMillis: 700}, AppID: appID, ExecID: -1, WorkerID: "worker-2", Reason: "silent"})
	ctx := context.Background()
	all := map[string]func() error{
		"kill":         func() error { _, err := o.Kill(ctx, webui.KillRequest{Kind: webui.KindApp, ID: appID}); return err },
		"drain":        func() error { _, err := o.Drain(ctx, webui.DrainRequest{Worker: "worker-1", On: true}); return err },
		"decommission": func() error { _, err := o.Decommission(ctx, webui.DecommissionRequest{Worker: "worker-1"}); return err },
		"clear":        func() error { _, err := o.ClearCompleted(ctx, webui.ClearRequest{}); return err },
		"compat": func() error {
			_, err := o.ClearIncompatible(ctx, webui.ClearIncompatibleRequest{Worker: "worker-2"})
			return err
		},
	}
	for name, do := range all {
		for what, c := range map[string]struct {
			err  error
			want string
		}{
			"outcome open": {master.ErrUnknownOutcome, webui.CodeTimeout},
			"no commit":    {context.DeadlineExceeded, webui.CodeTimeout},
			"deposed":      {&master.NotLeaderError{State: "STANDBY"}, webui.CodeNotLeader},
			"refused":      {&master.DecommissionOffError{}, webui.CodeRefused},
			"broken":       {errors.New("disk"), webui.CodeInternal},
		} {
			op.err = c.err
			if err := do(); refusalCode(t, err) != c.want {
				t.Errorf("%s, %s: %v", name, what, err)
			}
		}
	}
	calls := op.calls
	n.set(func(s *NodeStatus) {
		s.Role, s.Alive, s.LeaderID, s.LeaderAddress = webui.RoleFollower, false, "n2", "b:7077"
	})
	for name, do := range all {
		err := do()
		var e *webui.Error
		if !errors.As(err, &e) || e.Code != webui.CodeNotLeader || e.Leader == nil || e.Leader.WebURL != "http://b:8080" {
			t.Errorf("%s on a standby: %v", name, err)
		}
	}
	n.set(func(s *NodeStatus) { s.LeaderID, s.LeaderAddress = "", "" })
	for name, do := range all {
		if err := do(); refusalCode(t, err) != webui.CodeNoLeader {
			t.Errorf("%s without a leader: %v", name, err)
		}
	}
	if op.calls != calls {
		t.Error("a standby asked for a change")
	}
}

// TestS35_ClearIncompatible: what never came up on a worker is listed, and forgotten by worker and application; nothing to
// forget is no error, and changes nothing.
func TestS35_ClearIncompatible(t *testing.T) {
	n, op, _, appID, _ := operated(t)
	n.apply(t, fsm.MarkIncompatible{Meta: fsm.Meta{NowMillis: 700}, AppID: appID, ExecID: -1, WorkerID: "worker-2", Reason: "silent"})
	b := newBackend(n, Soft{UnreadableDrivers: map[string][]uint8{"worker-2": {0b11000}}})
	o, ctx := b.Operations(op, true), context.Background()
	pairs := b.Incompatible()
	if len(pairs) != 2 || pairs[0].Kind != webui.KindApp || pairs[0].AppID != appID || pairs[0].WorkerID != "worker-2" || pairs[0].Worker != "h:10" ||
		pairs[1].Kind != webui.KindDriver || pairs[1].DriverFamily != "DE" {
		t.Fatalf("%+v", pairs)
	}
	marked := func() bool { a, _ := n.View().Application(appID); return len(a.IncompatibleWorkers) > 0 }
	for name, c := range map[string]struct {
		req  webui.ClearIncompatibleRequest
		want int
		code string
	}{
		"dry run":      {webui.ClearIncompatibleRequest{Worker: "worker-2", DryRun: true}, 2, ""},
		"by address":   {webui.ClearIncompatibleRequest{Worker: "h:10", DryRun: true}, 2, ""},
		"by app":       {webui.ClearIncompatibleRequest{Worker: "worker-2", AppID: appID, DryRun: true}, 1, ""},
		"not marked":   {webui.ClearIncompatibleRequest{Worker: "worker-1"}, 0, ""},
		"unknown":      {webui.ClearIncompatibleRequest{Worker: "worker-9"}, 0, webui.CodeNotFound},
		"unknown app":  {webui.ClearIncompatibleRequest{Worker: "worker-2", AppID: "app-9"}, 0, webui.CodeNotFound},
		"names nobody": {webui.ClearIncompatibleRequest{}, 0, webui.CodeBadRequest},
	} {
		out, err := o.ClearIncompatible(ctx, c.req)
		if refusalCode(t, err) != c.code || len(out.Pairs) != c.want || op.calls != 0 || !marked() {
			t.Errorf("%s: %+v, %v, %d calls", name, out, err, op.calls)
		}
	}
	if out, err := o.ClearIncompatible(ctx, webui.ClearIncompatibleRequest{Worker: "h:10", AppID: appID}); err != nil || out.WorkerID != "worker-2" || len(out.Pairs) != 1 || marked() {
		t.Errorf("%+v, %v", out, err)
	}
}
