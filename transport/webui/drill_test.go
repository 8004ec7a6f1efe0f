package webui

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
)

// fakeDrills notes the calls.
type fakeDrills struct{ calls []string }

func (d *fakeDrills) DrillStatus() DrillStatus { return DrillStatus{Node: "a:1"} }
func (d *fakeDrills) DrillState() DrillState {
	return DrillState{StateIndex: 9, StateDigest: "x", Executors: []DrillExecutor{{AppID: "app", ID: 3}}}
}
func (d *fakeDrills) DrillLog(after uint64, limit int) DrillLog {
	return DrillLog{From: after, To: 9, Entries: []DrillEntry{{Index: 9, Command: "SetTargets", Subjects: []string{"app"}}}}
}
func (d *fakeDrills) Claim(ctx context.Context, r DrillClaimRequest) (DrillStatus, error) {
	d.calls = append(d.calls, "claim "+r.Drill+" from "+CallerOf(ctx))
	return DrillStatus{}, nil
}
func (d *fakeDrills) Release(ctx context.Context, r DrillReleaseRequest) (DrillStatus, error) {
	d.calls = append(d.calls, "release "+r.Drill)
	return DrillStatus{}, nil
}
func (d *fakeDrills) Inject(_ context.Context, r DrillFaultRequest) (DrillStatus, error) {
	d.calls = append(d.calls, r.Kind)
	return DrillStatus{}, nil
}

func drillHandler(d Drills) *Handler {
	return NewHandler(Options{State: &fakeState{status: leaderStatus()}, Events: newFakeEvents(), Drills: d, Tokens: fakeTokens{of: twoTokens}, Log: hclog.NewNullLogger()})
}

var drillKinds = []string{DrillExit, DrillRestart, DrillPause, DrillPartition, DrillSlowDisk, DrillFullDisk, DrillEnd}

// TestDrillsNeedTheOperateRight: a token that may read, and a caller without one, make no fault; neither does a web page.
func TestDrillsNeedTheOperateRight(t *testing.T) {
	d := &fakeDrills{}
	h := drillHandler(d)
	for _, kind := range append([]string{"claim", "release"}, drillKinds...) {
		for auth, want := range map[string]int{"": 401, "bearer look": 403, "bearer other": 401} {
			if w := call(h, http.MethodPost, "/v1/drill/"+kind, "192.0.2.1:1", auth, `{"drill":"x"}`); w.Code != want {
				t.Errorf("%s with %q: %d %s", kind, auth, w.Code, w.Body)
			}
		}
		if w := call(h, http.MethodGet, "/v1/drill/"+kind, "192.0.2.1:1", "bearer act", ""); w.Code != http.StatusMethodNotAllowed {
			t.Errorf("GET of %s: %d", kind, w.Code)
		}
	}
	if len(d.calls) > 0 {
		t.Fatalf("calls %q", d.calls)
	}
	for _, kind := range drillKinds {
		if w := call(h, http.MethodPost, "/v1/drill/"+kind, "192.0.2.1:1", "bearer act", `{"drill":"x","duration_millis":5}`); w.Code != http.StatusOK {
			t.Errorf("%s: %d %s", kind, w.Code, w.Body)
		}
	}
	if got := strings.Join(d.calls, " "); got != strings.Join(drillKinds, " ") {
		t.Errorf("calls %q", got)
	}
	d.calls = nil
	call(h, http.MethodPost, "/v1/drill/claim", "192.0.2.1:7", "bearer act", `{"drill":"x"}`)
	if len(d.calls) != 1 || d.calls[0] != "claim x from ann (192.0.2.1:7)" {
		t.Errorf("calls %q", d.calls)
	}
}

func TestDrillsAreUnknownWithoutAnInterface(t *testing.T) {
	h := drillHandler(nil)
	for _, path := range append([]string{"", "/state", "/log", "/claim", "/release"}, "/"+DrillExit, "/"+DrillPause) {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			if w := call(h, method, "/v1/drill"+path, "127.0.0.1:1", "bearer act", "{}"); w.Code != http.StatusNotFound {
				t.Errorf("%s %s: %d", method, path, w.Code)
			}
		}
	}
}

// The streamed answers have the fields of their types.
func TestDrillStateAndLogAreReadAsTheyAreWritten(t *testing.T) {
	h := drillHandler(&fakeDrills{})
	var st DrillState
	if err := json.Unmarshal(call(h, http.MethodGet, "/v1/drill/state", "127.0.0.1:1", "bearer look", "").Body.Bytes(), &st); err != nil ||
		st.StateIndex != 9 || len(st.Executors) != 1 || st.Executors[0].ID != 3 || st.Node == "" || st.Workers == nil {
		t.Errorf("%+v, %v", st, err)
	}
	var log DrillLog
	if err := json.Unmarshal(call(h, http.MethodGet, "/v1/drill/log?after=4", "127.0.0.1:1", "bearer look", "").Body.Bytes(), &log); err != nil ||
		log.From != 4 || log.To != 9 || len(log.Entries) != 1 || log.Entries[0].Command != "SetTargets" {
		t.Errorf("%+v, %v", log, err)
	}
	if w := call(h, http.MethodGet, "/v1/drill/log?after=x", "127.0.0.1:1", "bearer look", ""); w.Code != http.StatusBadRequest {
		t.Errorf("%d", w.Code)
	}
}
