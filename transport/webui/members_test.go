package webui

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func postTo(f *fixture, path, caller, token, body string) *httptest.ResponseRecorder {
	req := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	req.RemoteAddr, req.Host = caller, "localhost:8080"
	req.Header.Set("Content-Type", "application/json")
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	return f.do(req)
}

// TestPeerChanges: each route hands its request over as it came, and answers with the figures.
func TestPeerChanges(t *testing.T) {
	for _, c := range []struct {
		path, body string
		want       any
	}{
		{"/v1/peers/add", `{"node_id":"n4","address":"d:7077","voter":true,"wait_millis":5000}`, AddPeerRequest{NodeID: "n4", Address: "d:7077", Voter: true, WaitMillis: 5000}},
		{"/v1/peers/remove", `{"peer":"n3","force":true,"dry_run":true}`, RemovePeerRequest{Peer: "n3", Force: true, DryRun: true}},
		{"/v1/peers/promote", `{"peer":"n4","dry_run":true}`, PromotePeerRequest{Peer: "n4", DryRun: true}},
	} {
		f := newFixture(leaderStatus())
		f.lead.change = PeerChange{NodeID: "n4", Before: VotesOf(3, 3), After: VotesOf(4, 4)}
		w := postTo(f, c.path, "127.0.0.1:1", "", c.body)
		mustContain(t, w.Body.String(), `"node_id": "n4"`, `"before": {`, `"tolerance": 1`)
		if diff := cmp.Diff([]any{c.want}, f.lead.peers); diff != "" || w.Code != http.StatusOK {
			t.Errorf("%s: %d, (-want +got):\n%s", c.path, w.Code, diff)
		}
		if w := postTo(f, c.path, "127.0.0.1:1", "", `{"bogus":1}`); w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), c.path) {
			t.Errorf("%s: an unknown field: %d %s", c.path, w.Code, w.Body)
		}
		if w := f.get(c.path); w.Code != http.StatusMethodNotAllowed {
			t.Errorf("GET %s: %d", c.path, w.Code)
		}
		for _, caller := range []struct {
			remote, configured, given string
			want                      int
		}{{"192.0.2.7:1", "", "", 403}, {"127.0.0.1:1", "s", "", 401}, {"192.0.2.7:1", "s", "x", 401}} {
			f := newFixture(leaderStatus())
			f.opts.Token = caller.configured
			if w := postTo(f, c.path, caller.remote, caller.given, c.body); w.Code != caller.want || len(f.lead.peers) != 0 {
				t.Errorf("%s by %+v: %d, done: %v", c.path, caller, w.Code, f.lead.peers)
			}
		}
	}
}

func TestPeerWaitIsBounded(t *testing.T) {
	for millis, want := range map[int64]time.Duration{0: DefaultPeerWait, -5: DefaultPeerWait, 1500: 1500 * time.Millisecond, 1 << 62: MaxPeerWait} {
		if got := (AddPeerRequest{WaitMillis: millis}).Wait(); got != want {
			t.Errorf("%d ms: %v, want %v", millis, got, want)
		}
	}
}

func TestVotesOf(t *testing.T) {
	for _, c := range []struct{ voters, reachable, needed, tolerance int }{{1, 1, 1, 0}, {2, 2, 2, 0}, {3, 3, 2, 1}, {3, 1, 2, -1}, {4, 4, 3, 1}, {5, 4, 3, 1}} {
		if got := VotesOf(c.voters, c.reachable); got != (Votes{c.voters, c.needed, c.reachable, c.tolerance}) {
			t.Errorf("%+v: %+v", c, got)
		}
	}
}
