package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"sort"

	"raftmaster/cmd/internal/cli"
	"raftmaster/transport/webui"
)

// endpointResult is one line of "status" and "health".
type endpointResult struct {
	Endpoint string `json:"endpoint"`
	OK       bool   `json:"ok"`
	Error    string `json:"error"`
}

// statusResult is the JSON of "status".
type statusResult struct {
	// Leader is the leader that confirmed itself, else null.
	Leader    *webui.Leader    `json:"leader"`
	Endpoints []endpointResult `json:"endpoints"`
	// Statuses are those of the masters that answered, in the order of the endpoints.
	Statuses []webui.Status `json:"statuses"`
	// Problem says that the masters are not of one cluster, or that more than one of them leads; else empty.
	Problem string `json:"problem"`
}

func (a *app) status(ctx context.Context) error {
	s, problem := a.client.settledSurvey(ctx)
	best := s.best()
	if best == nil {
		return nobodyError(s)
	}
	if err := a.print.value(statusOf(s, problem), func(w io.Writer) { statusTable(w, s, best) }); err != nil {
		return err
	}
	return a.statusVerdict(ctx, s, problem)
}

// verdict turns a survey into the exit code: no leader, a part only, alarms, or all well.
func (a *app) verdict(ctx context.Context, s survey) error {
	if _, err := a.client.findLeader(ctx, s); err != nil {
		return err
	}
	if err := s.silent(); err != nil {
		return err
	}
	for _, x := range s.answered() {
		if x.value.Quorum.Tolerance < 0 {
			return coded(exitUnhealthy, "%s is not in contact with a majority", x.value.Address)
		}
		if len(x.value.Alarms) > 0 {
			return coded(exitUnhealthy, "%s raises an alarm: %s", x.value.Address, clean(x.value.Alarms[0]))
		}
	}
	return nil
}

func statusTable(w io.Writer, s survey, best *answer[webui.Status]) {
	row(w, "MASTER", "STATE", "ROLE", "TERM", "COMMIT", "APPLIED", "UPTIME", "VERSION", "ENDPOINT")
	for _, x := range s.answers {
		if x.err != nil {
			row(w, "?", "no answer", "-", "-", "-", "-", "-", "-", x.endpoint)
			continue
		}
		v := x.value
		row(w, v.Address, v.State, v.Role, v.Term, v.CommitIndex, v.AppliedIndex, ago(v.NowMillis, v.StartedMillis), v.Version, x.endpoint)
	}
	dataTable(w, s)
	v := best.value
	fmt.Fprintln(w)
	for _, x := range s.answers {
		if x.err != nil {
			row(w, "No answer", x.endpoint+": "+shortError(x.err))
		}
	}
	row(w, "Answered by", v.Address+" ("+v.State+")")
	row(w, "Cluster", v.ClusterURL+"  id "+v.ClusterID)
	if v.Leader != nil {
		row(w, "Leader", v.Leader.Address+"  "+v.Leader.WebURL)
	} else {
		row(w, "Leader", "none known")
	}
	row(w, "Quorum", fmt.Sprintf("%d of %d voters in contact, %d needed, tolerance left %d",
		v.Quorum.Reachable, v.Quorum.Voters, v.Quorum.Needed, v.Quorum.Tolerance))
	row(w, "Commands", levels(v))
	c := v.Counts
	row(w, "Workers", states(c.WorkersByState))
	row(w, "Applications", states(c.AppsByState))
	row(w, "Drivers", states(c.DriversByState))
	row(w, "Executors", c.Executors)
	row(w, "Cores", fmt.Sprintf("%d of %d used", c.CoresUsed, c.Cores))
	row(w, "Memory", memory(c.MemoryUsedMB)+" of "+memory(c.MemoryMB)+" used")
	takeOverTable(w, v)
	for _, alarm := range v.Alarms {
		row(w, "ALARM", alarm)
	}
	for _, note := range v.Notes {
		row(w, "Open", clean(note))
	}
}

// dataTable shows how large each master's data is, and how much more there may be.
func dataTable(w io.Writer, s survey) {
	fmt.Fprintln(w)
	row(w, "MASTER", "LOG ENTRIES", "LOG", "BEHIND SNAPSHOT", "SNAPSHOTS", "FREE", "DATA DIRECTORY")
	for _, x := range s.answers {
		if v := x.value; x.err == nil {
			row(w, v.Address, v.LogEntries, byteSize(v.LogBytes), byteSize(v.UncoveredBytes), byteSize(v.SnapshotBytes), byteSize(v.DiskFreeBytes), clean(v.DataDir))
		}
	}
}

// byteSize is a size in the unit that fits.
func byteSize(n int64) string {
	switch {
	case n < 1<<20:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	case n < 1<<30:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
}

func takeOverTable(w io.Writer, v webui.Status) {
	if v.TakeOver == nil {
		return
	}
	row(w, "Take-over", fmt.Sprintf("term %d, %d peers have not answered yet", v.TakeOver.Term, len(v.TakeOver.Awaited)))
	for _, p := range v.TakeOver.Awaited {
		row(w, "  awaited", fmt.Sprintf("%s %s at %s, until %s, tried %d times", p.Kind, p.ID, p.Address, stamp(p.DeadlineMillis), p.Attempts))
	}
}

func states(m map[string]int) string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	sort.Strings(names)
	out := ""
	for _, name := range names {
		if out != "" {
			out += ", "
		}
		out += fmt.Sprintf("%d %s", m[name], name)
	}
	return out
}

// leader prints one word. The leader must confirm it: what a standby believes may be old.
func (a *app) leader(ctx context.Context) error {
	l, err := a.askLeader(ctx)
	if err != nil {
		return err
	}
	return a.print.value(l, func(w io.Writer) { fmt.Fprintln(w, clean(l.Node)) })
}

// askLeader has the leader confirm itself.
func (a *app) askLeader(ctx context.Context) (webui.LeaderAnswer, error) {
	var l webui.LeaderAnswer
	s, problem := a.client.settledSurvey(ctx)
	if problem != "" {
		return l, coded(exitUnhealthy, "%s", problem)
	}
	endpoint, err := a.client.findLeader(ctx, s)
	if err != nil {
		return l, err
	}
	if err := a.client.get(ctx, endpoint, "/v1/leader", &l); err != nil {
		return l, err
	}
	if !l.IsLeader {
		return l, coded(exitNoLeader, "the leadership of %s ended while it was being asked; try again", l.Node)
	}
	return l, nil
}

// healthResult is the JSON of "health".
type healthResult struct {
	Healthy bool             `json:"healthy"`
	Masters []masterHealth   `json:"masters"`
	Errors  []endpointResult `json:"errors"`
	// Problem is as in statusResult.
	Problem string `json:"problem"`
}

type masterHealth struct {
	Endpoint string `json:"endpoint"`
	webui.Health
}

func (a *app) health(ctx context.Context) error {
	answers := askAll[webui.Health](ctx, a.client, "/v1/health")
	res := healthResult{Healthy: true, Masters: []masterHealth{}, Errors: []endpointResult{}}
	for _, x := range answers {
		if x.err != nil {
			res.Errors = append(res.Errors, endpointResult{Endpoint: x.endpoint, Error: shortError(x.err)})
			res.Healthy = false
			continue
		}
		res.Masters = append(res.Masters, masterHealth{Endpoint: x.endpoint, Health: x.value})
		res.Healthy = res.Healthy && x.value.Ready && len(x.value.Alarms) == 0
	}
	s, problem := a.client.settledSurvey(ctx)
	if len(res.Masters) == 0 {
		return nobodyError(s)
	}
	res.Problem, res.Healthy = problem, res.Healthy && problem == ""
	if err := a.print.value(res, func(w io.Writer) { healthTable(w, res) }); err != nil {
		return err
	}
	if problem != "" {
		return coded(exitUnhealthy, "%s", problem)
	}
	if _, err := a.client.findLeader(ctx, s); err != nil {
		return err
	}
	if !res.Healthy {
		return coded(exitUnhealthy, "unhealthy: see above")
	}
	return nil
}

func healthTable(w io.Writer, res healthResult) {
	row(w, "ENDPOINT", "READY", "STATE", "ROLE", "TERM", "VOTERS", "TOLERANCE", "REASON")
	for _, m := range res.Masters {
		reason := m.Reason
		for _, alarm := range m.Alarms {
			if reason != "" {
				reason += "; "
			}
			reason += "ALARM: " + alarm
		}
		row(w, m.Endpoint, yesNo(m.Ready), m.State, m.Role, m.Term, fmt.Sprintf("%d/%d", m.Reachable, m.Voters), m.Tolerance, reason)
	}
	for _, e := range res.Errors {
		row(w, e.Endpoint, "no", "no answer", "-", "-", "-", "-", e.Error)
	}
}

// versionsResult is the JSON of "version".
type versionsResult struct {
	cli.Build
	// Masters gives the version by address of the masters that answered.
	Masters map[string]string `json:"masters"`
}

// versions prints the client's own version in any case. That nobody answers where nobody was named is no failure.
func (a *app) versions(ctx context.Context) error {
	res := versionsResult{Build: cli.BuildOf(version, commit), Masters: map[string]string{}}
	s := a.client.survey(ctx)
	for _, x := range s.answered() {
		res.Masters[x.value.Address] = x.value.Version
	}
	err := a.print.value(res, func(w io.Writer) {
		row(w, "raftctl", res.Version)
		row(w, "commit", cmp.Or(res.Commit, "not recorded"))
		row(w, "go", res.Go+" "+res.Platform)
		for _, x := range s.answered() {
			row(w, x.value.Address, x.value.Version)
		}
	})
	if err != nil || !a.named {
		return err
	}
	return s.silent()
}
