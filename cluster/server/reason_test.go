package server

import (
	"slices"
	"strings"
	"testing"
)

// An operator tells a first start, a planned hand-over and a failure apart by the replicated history of leaders.
func TestLeaderHistoryNamesTheReasonOfEachElection(t *testing.T) {
	c := start(t, 3, steadyFailover)
	reasons := func() []string {
		var out []string
		for _, r := range c.leader().server().State().LeaderHistory() {
			out = append(out, r.Reason)
		}
		return out
	}
	has := func(text string) func() bool {
		return func() bool {
			return slices.ContainsFunc(reasons(), func(r string) bool { return strings.Contains(r, text) })
		}
	}
	eventually(t, "the first election is named", has("the cluster was formed"))
	old := c.leader()
	old.stop()
	eventually(t, "the hand-over is named", has("handed leadership over"))
	old.start()
	eventually(t, "all three are up", func() bool { return len(c.running()) == 3 })
	c.settle()
	c.leader().kill()
	eventually(t, "the death is named", has("process is gone"))
}
