package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"raftmaster/cluster/drill"
)

// maxShownDifferences and maxShownMoments bound the lists of one round in a table; JSON has them all.
const (
	maxShownDifferences = 40
	maxShownMoments     = 60
)

// stepTitles are the steps in words, by their JSON names.
var stepTitles = map[string]string{
	"leader_gone": "leader gone noticed", "leader_elected": "new leader elected", "leader_alive": "new leader ALIVE",
	"first_registration": "first registration accepted", "workers_attached": "last worker attached", "drivers_attached": "last driver attached",
	"fault_ended": "fault over", "target_back": "master back, log complete", "total": "everything back",
}

func drillPlanTable(w io.Writer, r *drill.Report) {
	row(w, "CHECK", "OK", "DETAIL")
	for _, c := range r.Preflight {
		row(w, c.Name, yesNo(c.OK), c.Detail)
	}
	fmt.Fprintln(w)
	if r.Outcome != drill.Passed {
		fmt.Fprintln(w, "the drill is refused; nothing was changed")
		return
	}
	for _, p := range shortPlan(r.Plan) {
		fmt.Fprintln(w, "would do "+clean(p))
	}
	fmt.Fprintln(w, "nothing was changed")
}

func drillTable(w io.Writer, r *drill.Report) {
	fmt.Fprintf(w, "Drill %s: %s by %s, cluster %s, %s\n", clean(r.Drill), clean(r.Kind), clean(r.By), clean(r.ClusterID), stamp(r.StartedMillis))
	if r.Random {
		fmt.Fprintf(w, "Seed %d\n", r.Seed)
	}
	for _, p := range r.Problems {
		fmt.Fprintf(w, "PROBLEM: %s\n", clean(p))
	}
	// Many rounds are told in a line each; one that did not pass is told whole.
	brief := len(r.Rounds) > 3
	if brief {
		fmt.Fprintln(w)
		row(w, "ROUND", "KIND", "MASTER", "NEW LEADER", "ALIVE", "REGISTRATION", "ATTACHED", "BACK", "TOTAL", "DIFFERENCES", "OUTCOME")
		for i := range r.Rounds {
			roundRow(w, &r.Rounds[i])
		}
	}
	for i := range r.Rounds {
		if x := &r.Rounds[i]; !brief || x.Outcome != drill.Passed {
			fmt.Fprintln(w)
			roundTable(w, x)
		}
	}
	if slices.ContainsFunc(r.Percentiles, func(p drill.Percentiles) bool { return p.Count > 1 }) {
		percentileTable(w, r)
	}
	fmt.Fprintf(w, "\n%s after %s\n", strings.ToUpper(r.Outcome), time.Duration((r.EndedMillis-r.StartedMillis)*int64(time.Millisecond)).Round(time.Millisecond))
}

func millis(p *int64) string {
	if p == nil {
		return "-"
	}
	return fmt.Sprintf("%d ms", *p)
}

func roundRow(w io.Writer, x *drill.Round) {
	moved := "-"
	if x.NewLeader.NodeID != x.Leader.NodeID {
		moved = x.NewLeader.Address
	}
	attached := x.Steps.WorkersAttached
	if d := x.Steps.DriversAttached; d != nil && (attached == nil || *d > *attached) {
		attached = d
	}
	row(w, x.Number, x.Kind, x.Target.Address, moved, millis(x.Steps.LeaderAlive), millis(x.Steps.FirstRegistration), millis(attached),
		millis(x.Steps.TargetBack), millis(x.Steps.Total), fmt.Sprintf("%d (%d damage)", len(x.Differences), x.Damages()), x.Outcome)
}

func roundTable(w io.Writer, x *drill.Round) {
	fmt.Fprintf(w, "Round %d: %s of %s: %s\n", x.Number, clean(x.Kind), clean(x.Target.Address), strings.ToUpper(x.Outcome))
	if x.Fault != "" {
		row(w, "  Fault", x.Fault)
	}
	if x.NewTerm > 0 {
		row(w, "  Leader", fmt.Sprintf("%s (term %d) -> %s (term %d)", x.Leader.Address, x.Term, x.NewLeader.Address, x.NewTerm))
	}
	for _, name := range drill.StepNames() {
		if v := x.Steps.Get(name); v != nil {
			row(w, "  "+stepTitles[name], millis(v))
		}
	}
	for _, m := range x.Restarted {
		text := "back after " + millis(m.BackMillis)
		if m.TransferMillis != nil {
			text = "leadership handed over in " + millis(m.TransferMillis) + ", " + text
		}
		row(w, "  Restarted "+m.Master.Address, text)
	}
	if len(x.Timeline) > 0 {
		fmt.Fprintln(w, "\n  Timeline")
		for i, m := range x.Timeline {
			if i == maxShownMoments {
				fmt.Fprintf(w, "  and %d more\n", len(x.Timeline)-i)
				break
			}
			row(w, fmt.Sprintf("  %+8d ms", m.AtMillis), m.Master, m.What)
		}
	}
	invariantTable(w, x)
	for _, list := range []struct {
		title string
		lines []string
	}{{"PROBLEM", x.Problems}, {"Note", x.Notes}, {"NEXT", x.Advice}, {"Not as before", x.NotAsBefore}} {
		for _, line := range list.lines {
			fmt.Fprintf(w, "  %s: %s\n", list.title, clean(line))
		}
	}
}

// invariantTable shows what was compared, and what differs.
func invariantTable(w io.Writer, x *drill.Round) {
	if x.After.Node == "" {
		fmt.Fprintln(w, "\n  The states were not compared.")
		return
	}
	fmt.Fprintln(w, "\n  Invariants")
	row(w, "  state", "master", "index", "workers", "applications", "executors", "drivers", "digest")
	for _, s := range []struct {
		name string
		drill.Summary
	}{{"before", x.Before}, {"after", x.After}} {
		row(w, "  "+s.name, s.Node, s.Index, s.Workers, s.Apps, s.Executors, s.Drivers, s.Digest[:min(len(s.Digest), 16)])
	}
	switch {
	case len(x.Differences) == 0:
		fmt.Fprintln(w, "  equal: workers, applications, executors, drivers, ids, cores, memory, marks, targets, queue order")
	case x.Damages() == 0:
		fmt.Fprintf(w, "  nothing lost; %s, each explained by the log:\n", plural(len(x.Differences), "difference"))
	default:
		fmt.Fprintf(w, "  %d of %s are DAMAGE:\n", x.Damages(), plural(len(x.Differences), "difference"))
	}
	shown := 0
	for _, damage := range []bool{true, false} {
		for _, d := range x.Differences {
			if d.Explained == damage {
				continue
			}
			if shown++; shown > maxShownDifferences {
				continue
			}
			mark := "DAMAGE"
			if d.Explained {
				mark = "explained"
			}
			row(w, "  "+mark, d.Kind+" "+d.Subject, d.Change, d.Before+" -> "+d.After, d.Why)
		}
	}
	if shown > maxShownDifferences {
		fmt.Fprintf(w, "  and %d more (-o json has all)\n", shown-maxShownDifferences)
	}
	if x.ReplicasEqual != nil && *x.ReplicasEqual {
		fmt.Fprintln(w, "  all masters have equal states")
	}
}

func percentileTable(w io.Writer, r *drill.Report) {
	fmt.Fprintln(w)
	row(w, "KIND", "STEP", "ROUNDS", "MIN", "MEDIAN", "P95", "MAX")
	for _, p := range r.Percentiles {
		row(w, p.Kind, stepTitles[p.Step], p.Count, millis(&p.Min), millis(&p.Median), millis(&p.P95), millis(&p.Max))
	}
}

func drillStatusTable(w io.Writer, res drillStatusResult) {
	row(w, "MASTER", "CLAIMED BY", "FROM", "FAULT", "ENDS IN", "LAST FAULT", "STARTED AGAIN BY")
	for _, m := range res.Masters {
		by, from, fault, ends, last := "-", "-", "none", "-", "-"
		if m.Claim != nil {
			by, from = m.Claim.By, m.Claim.Caller
		}
		if f := m.Fault; f != nil {
			fault, ends = f.Detail, age(max(0, f.EndsMillis-m.NowMillis))
		}
		if f := m.Last; f != nil {
			last = f.Kind + ", ended by " + f.Ended + " " + ago(m.NowMillis, f.EndedMillis) + " ago"
		}
		row(w, m.Node, by, from, fault, ends, last, m.Supervisor)
	}
	for _, e := range res.Errors {
		row(w, e.Endpoint, "-", "-", e.Error, "-", "-", "-")
	}
}

func drillHistoryTable(w io.Writer, res drillHistoryResult) {
	row(w, "TIME", "DRILL", "KIND", "BY", "CLUSTER", "ROUNDS", "ALIVE (MEDIAN)", "ALIVE (MAX)", "OUTCOME")
	for i := range res.Reports {
		r := &res.Reports[i]
		median, worst := "-", "-"
		if len(r.Rounds) > 0 && r.Kind != drill.All {
			for _, p := range r.Percentiles {
				if p.Step == "leader_alive" {
					median, worst = millis(&p.Median), millis(&p.Max)
				}
			}
		}
		row(w, stamp(r.StartedMillis), r.Drill, r.Kind, r.By, r.ClusterID, len(r.Rounds), median, worst, r.Outcome)
	}
	if res.Broken > 0 {
		fmt.Fprintf(w, "%s of %s cannot be read\n", plural(res.Broken, "line"), res.File)
	}
}
