package webui

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
)

// TestReadiness walks the matrix of roles and troubles: who is ready, who leads, and what is said.
func TestReadiness(t *testing.T) {
	cases := []struct {
		name   string
		base   func() Status
		change func(*Status)
		ready  int
		leader int
		reason string
	}{
		{"leader", leaderStatus, nil, 200, 200, ""},
		{"leader without lease", leaderStatus, func(s *Status) { s.LeaseValid = false }, 503, 503, "within its lease"},
		{"elected, barrier not passed", leaderStatus, func(s *Status) { s.State = StateStandby; s.LeaseValid = false }, 503, 503, "not all committed entries"},
		{"leader with a peer lost", leaderStatus, func(s *Status) { s.Quorum.Peers[1].Reachable = false; s.Quorum.Reachable = 2; s.Quorum.Tolerance = 0 }, 200, 200, ""},
		{"alarms do not take a leader out", leaderStatus, func(s *Status) { s.Alarms = []string{"disk"} }, 200, 200, ""},
		{"stalled leader (F6)", leaderStatus, func(s *Status) { s.Stalled = true }, 503, 200, "entries are not committed"},
		{"stalled leader with its alarm (F6)", leaderStatus, func(s *Status) {
			s.Stalled, s.Alarms = true, []string{"disk", "entries are not committed: since 5 s"}
		}, 503, 200, "entries are not committed: since 5 s"},
		{"stalled standby (F6)", standbyStatus, func(s *Status) { s.Stalled = true }, 200, 503, ""},
		{"standby", standbyStatus, nil, 200, 503, ""},
		{"standby that is behind a little", standbyStatus, func(s *Status) { s.CommitIndex = 1000 }, 200, 503, ""},
		{"standby that is far behind", standbyStatus, func(s *Status) { s.CommitIndex = 1_000_000 }, 503, 503, "not applied yet"},
		{"standby without a leader", standbyStatus, func(s *Status) { s.Leader = nil; s.Quorum.Reachable = 1 }, 503, 503, "1 of 3 voters are in contact, 2 are needed"},
		{"standby out of contact with its leader", standbyStatus, func(s *Status) { s.Quorum.Peers[0].Reachable = false }, 503, 503, "no contact with the leader 10.0.0.1:7077"},
		{"candidate", standbyStatus, func(s *Status) { s.Role = RoleCandidate }, 503, 503, "candidate"},
		{"candidate without leader", standbyStatus, func(s *Status) { s.Role = RoleCandidate; s.Leader = nil }, 503, 503, "no leader is known"},
		{"cluster not formed", standbyStatus, func(s *Status) { s.Role = RoleFresh; s.ClusterID = "" }, 503, 503, "not been formed"},
		{"stopping", leaderStatus, func(s *Status) { s.Role = RoleStopped }, 503, 200, "stopping"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			st := c.base()
			if c.change != nil {
				c.change(&st)
			}
			f := newFixture(st)
			w := f.get("/readyz")
			var h Health
			if err := json.Unmarshal(w.Body.Bytes(), &h); err != nil {
				t.Fatal(err)
			}
			if w.Code != c.ready || h.Ready != (c.ready == 200) || !strings.Contains(h.Reason, c.reason) || (h.Reason == "") != h.Ready {
				t.Errorf("/readyz: %d, %+v; want %d and reason %q", w.Code, h, c.ready, c.reason)
			}
			if v1 := f.get("/v1/health"); v1.Code != http.StatusOK || v1.Body.String() != w.Body.String() {
				t.Errorf("/v1/health: %d %s", v1.Code, v1.Body)
			}
			if l := f.get("/leader"); l.Code != c.leader {
				t.Errorf("/leader: %d, want %d", l.Code, c.leader)
			}
			if l := f.get("/v1/leader"); l.Code != http.StatusOK {
				t.Errorf("/v1/leader: %d", l.Code)
			}
			if z := f.get("/healthz"); z.Code != http.StatusOK {
				t.Errorf("/healthz: %d", z.Code)
			}
		})
	}
}

func TestLeaderBodyNamesTheLeader(t *testing.T) {
	w := newFixture(standbyStatus()).get("/leader")
	var a LeaderAnswer
	if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil {
		t.Fatal(err)
	}
	if a.IsLeader || a.Node != "10.0.0.2:7077" || a.Role != RoleFollower || a.LeaderURL != "http://10.0.0.1:8080" || a.Term != 7 {
		t.Errorf("%+v", a)
	}
}
