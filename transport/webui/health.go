package webui

import (
	"fmt"
	"strings"
)

// maxApplyLag is how many committed entries a STANDBY may have unapplied and still count as ready: about a second's
// worth at the highest rate that the log reaches.
const maxApplyLag = 10_000

// HealthOf judges a status: whether this master does what its role asks of it, and why not.
func HealthOf(st Status) Health {
	reason := notReady(st)
	return Health{
		Ready: reason == "", Reason: reason, State: st.State, Role: st.Role, Term: st.Term, Leader: st.Leader,
		Voters: st.Quorum.Voters, Reachable: st.Quorum.Reachable, Tolerance: st.Quorum.Tolerance,
		Alarms: notNil(st.Alarms),
	}
}

// notReady gives the reason, or "" for a leader with a valid lease whose entries commit and for a follower in contact with its leader.
func notReady(st Status) string {
	switch {
	case st.Role == RoleStopped:
		return "this master is stopping"
	case st.ClusterID == "":
		return "the cluster has not been formed yet: not every master of the list has answered"
	case st.State == StateAlive && st.LeaseValid && st.Stalled:
		return StalledReason(st.Alarms)
	case st.State == StateAlive && st.LeaseValid:
		return ""
	case st.State == StateAlive:
		return "this leader has not heard from a majority within its lease"
	case st.Role == RoleLeader:
		return "elected, but not all committed entries are applied yet"
	case st.Leader == nil:
		return fmt.Sprintf("no leader is known: %d of %d voters are in contact, %d are needed",
			st.Quorum.Reachable, st.Quorum.Voters, st.Quorum.Needed)
	case st.Role != RoleFollower:
		return "this master is " + st.Role + ", not a follower"
	}
	for _, p := range st.Quorum.Peers {
		if p.Address == st.Leader.Address && !p.Self && !p.Reachable {
			return "no contact with the leader " + st.Leader.Address
		}
	}
	if st.CommitIndex > st.AppliedIndex && st.CommitIndex-st.AppliedIndex > maxApplyLag {
		return fmt.Sprintf("%d committed entries are not applied yet", st.CommitIndex-st.AppliedIndex)
	}
	return ""
}

// stalledAlarm begins the alarm of a node about entries that it does not commit.
const stalledAlarm = "entries are not committed"

// StalledReason is the node's own words where it has raised the alarm already.
func StalledReason(alarms []string) string {
	for _, a := range alarms {
		if strings.HasPrefix(a, stalledAlarm) {
			return a
		}
	}
	return stalledAlarm + ": this leader changes nothing although it holds its lease"
}

// LeaderAnswer is the body of /leader and /v1/leader.
type LeaderAnswer struct {
	// Node is the address of the master that answers, State and Role its own.
	Node  string `json:"node"`
	State string `json:"state"`
	Role  string `json:"role"`
	Term  uint64 `json:"term"`
	// IsLeader: the answering master is the leader and holds a valid lease.
	IsLeader bool    `json:"is_leader"`
	Leader   *Leader `json:"leader"`
	// LeaderURL is the leader's web URL, "" when unknown.
	LeaderURL string `json:"leader_url"`
}

// LeaderOf condenses a status.
func LeaderOf(st Status) LeaderAnswer {
	a := LeaderAnswer{Node: st.Address, State: st.State, Role: st.Role, Term: st.Term, Leader: st.Leader,
		IsLeader: st.State == StateAlive && st.LeaseValid}
	if st.Leader != nil {
		a.LeaderURL = st.Leader.WebURL
	}
	return a
}

func notNil[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}
