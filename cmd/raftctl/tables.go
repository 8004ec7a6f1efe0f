package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"raftmaster/transport/webui"
)

// fromBest fetches a list from the leader, or without one from the master that knows the most, and says so.
func fromBest[T any](ctx context.Context, a *app, path string, v *T) (endpoint string, err error) {
	s := a.client.survey(ctx)
	a.silent = s.silent()
	endpoint, err = a.client.findLeader(ctx, s)
	if err != nil {
		best := s.best()
		if best == nil {
			return "", nobodyError(s)
		}
		endpoint = best.endpoint
		a.note("no leader: this is what %s has applied (%s, term %d, index %d); it may be out of date",
			best.value.Address, best.value.State, best.value.Term, best.value.AppliedIndex)
	}
	if err := a.client.get(ctx, endpoint, path, v); err != nil {
		if isTimeout(err) {
			return "", coded(exitTimeout, "%s did not answer within %v", endpoint, a.timeout)
		}
		var e *apiError
		if errors.As(err, &e) {
			return "", &codedError{apiExitCode(e), fmt.Errorf("%s: %s%s", endpoint, e.body.Message, hint(e, a.client.token != ""))}
		}
		return "", fmt.Errorf("%s: %w", endpoint, err)
	}
	return endpoint, nil
}

// listed prints a list. It is the whole list; yet when endpoints did not answer, that is said, and the exit code tells.
func (a *app) listed(v any, table func(w io.Writer)) error {
	if err := a.print.value(v, table); err != nil {
		return err
	}
	return a.silent
}

// answeredBy puts the source below a table.
func answeredBy(w io.Writer, src webui.Source, endpoint string) {
	fmt.Fprintf(w, "\nanswered by %s (%s, term %d) at %s\n", clean(src.Node), clean(src.State), src.Term, endpoint)
}

func (a *app) peers(ctx context.Context) error {
	var v webui.PeersAnswer
	endpoint, err := fromBest(ctx, a, "/v1/peers", &v)
	if err != nil {
		return err
	}
	return a.listed(v, func(w io.Writer) {
		row(w, "ADDRESS", "ROLE", "VOTER", "CONTACT", "LAST CONTACT", "LAG", "VERSION", "LEVEL", "NODE ID", "PROBLEM")
		for _, p := range v.Peers {
			row(w, p.Address, p.Role, voter(p), yesNo(p.Reachable), age(p.LastContactMillis), number(p.Lag), p.Version, level(p), p.NodeID, p.Problem)
		}
		fmt.Fprintf(w, "\n%d of %d voters in contact, %d needed, tolerance left %d\n", v.Reachable, v.Voters, v.Needed, v.Tolerance)
		answeredBy(w, v.Source, endpoint)
	})
}

// level is the level of commands that a master knows.
func level(p webui.Peer) string {
	if p.CommandLevel == 0 {
		return "-"
	}
	return strconv.Itoa(p.CommandLevel)
}

// levels tells which level of commands the cluster uses, and who keeps it from a higher one.
func levels(v webui.Status) string {
	text, highest := "level "+strconv.Itoa(v.CommandLevel), v.CommandLevel
	for _, p := range v.Quorum.Peers {
		highest = max(highest, p.CommandLevel)
	}
	var old []string
	for _, p := range v.Quorum.Peers {
		if p.Member && p.CommandLevel < highest {
			old = append(old, fmt.Sprintf("%s (release %s)", clean(p.Address), cmp.Or(clean(p.Version), "not known")))
		}
	}
	if len(old) > 0 && highest > v.CommandLevel {
		text += fmt.Sprintf(", until these are upgraded to level %d: %s", highest, strings.Join(old, ", "))
	}
	return text
}

// voter tells members without a vote from masters that are none of the cluster's.
func voter(p webui.Peer) string {
	if !p.Member {
		return "no member"
	}
	return yesNo(p.Voter)
}

func (a *app) workers(ctx context.Context) error {
	var v webui.WorkersAnswer
	endpoint, err := fromBest(ctx, a, "/v1/workers", &v)
	if err != nil {
		return err
	}
	now := time.Now().UnixMilli()
	return a.listed(v, func(w io.Writer) {
		row(w, "WORKER", "STATE", "ADDRESS", "CORES", "MEMORY", "EXECUTORS", "DRIVERS", "HEARTBEAT", "SPARK", "NOTE")
		for _, x := range v.Workers {
			note := x.Note
			if x.Draining {
				note = strings.TrimSuffix("drained; "+note, "; ")
			}
			row(w, x.ID, x.State, fmt.Sprintf("%s:%d", x.Host, x.Port), fmt.Sprintf("%d/%d", x.CoresUsed, x.Cores),
				memory(x.MemoryUsedMB)+" / "+memory(x.MemoryMB), x.Executors, x.Drivers, ago(now, x.LastHeartbeatMillis), release(x.SparkVersion, x.Family), note)
		}
		answeredBy(w, v.Source, endpoint)
	})
}

func release(version, family string) string {
	switch {
	case version != "":
		return version
	case family != "":
		return "family " + family
	}
	return ""
}

func (a *app) apps(ctx context.Context) error {
	var v webui.AppsAnswer
	endpoint, err := fromBest(ctx, a, "/v1/apps", &v)
	if err != nil {
		return err
	}
	now := time.Now().UnixMilli()
	return a.listed(v, func(w io.Writer) {
		row(w, "APPLICATION", "NAME", "STATE", "CORES", "EXECUTORS", "MEMORY/EXEC", "USER", "SUBMITTED", "DURATION", "NOTE")
		for _, x := range v.Apps {
			end := x.EndMillis
			if end == 0 {
				end = now
			}
			note := x.WhyWaiting
			if note == "" {
				note = x.EndReason
			}
			row(w, x.ID, x.Name, x.State, x.Cores, x.Executors, memory(x.MemoryPerExecutorMB), x.User, stamp(x.StartMillis), age(end-x.StartMillis), note)
		}
		answeredBy(w, v.Source, endpoint)
	})
}

func (a *app) executorsCommand() *cobra.Command {
	appID := ""
	cmd := a.verb("executors", "List the executors that have not ended", func(ctx context.Context) error { return a.executors(ctx, appID) })
	cmd.Flags().StringVar(&appID, "app", "", "only those of this application")
	return cmd
}

func (a *app) executors(ctx context.Context, appID string) error {
	path := "/v1/executors"
	if appID != "" {
		path += "?app=" + url.QueryEscape(appID)
	}
	var v webui.ExecutorsAnswer
	endpoint, err := fromBest(ctx, a, path, &v)
	if err != nil {
		return err
	}
	now := time.Now().UnixMilli()
	return a.listed(v, func(w io.Writer) {
		row(w, "APPLICATION", "EXECUTOR", "STATE", "CORES", "MEMORY", "PROFILE", "AGE", "WORKER")
		for _, x := range v.Executors {
			row(w, x.AppID, x.ID, x.State, x.Cores, memory(x.MemoryMB), x.ProfileID, ago(now, x.StartMillis), x.WorkerID)
		}
		answeredBy(w, v.Source, endpoint)
	})
}
