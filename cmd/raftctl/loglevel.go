package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"raftmaster/transport/webui"
)

// everyNode is the value of --node that means all masters.
const everyNode = "all"

// logLevels are the levels, the most talkative first.
var logLevels = []string{"trace", "debug", "info", "warn", "error"}

type logLevelFlags struct {
	node   string
	life   time.Duration
	dryRun bool
}

func (a *app) logLevelCommand() *cobra.Command {
	var f logLevelFlags
	cmd := &cobra.Command{Use: "log-level [LEVEL]", Short: "Show or change how much the masters log",
		Long: "Show or change how much the masters log, without a restart and without a leader. A change lasts until the next start, or with --for until its time is over; " +
			"it is on the timeline of each master (raftctl events) with the name of the token.",
		Example:   "  raftctl log-level\n  raftctl log-level debug --for 10m\n  raftctl log-level info --node 10.0.0.1:7077",
		ValidArgs: logLevels,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return coded(exitUsage, "log-level takes one level, and got %q", args)
			}
			if len(args) == 1 && !slices.Contains(logLevels, strings.ToLower(args[0])) {
				return coded(exitUsage, "%q is no log level: it must be %s", args[0], strings.Join(logLevels, ", "))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			changed := cmd.Flags().Changed
			switch {
			case len(args) == 0 && (changed("for") || f.dryRun):
				return coded(exitUsage, "--for and --dry-run belong to a change: name the level, too")
			case changed("for") && (f.life < time.Second || f.life.Milliseconds() > webui.MaxLogLevelMillis):
				return coded(exitUsage, "--for %v: must be between 1s and 24h", f.life)
			}
			if err := a.prepare(cmd); err != nil {
				return err
			}
			if len(args) == 0 {
				return a.showLogLevels(cmd.Context(), f.node)
			}
			return a.setLogLevels(cmd.Context(), strings.ToLower(args[0]), f)
		}}
	fs := cmd.Flags()
	fs.StringVar(&f.node, "node", everyNode, "address, node id, host or endpoint of one master, or all")
	fs.DurationVar(&f.life, "for", 0, "go back to the level before after this time, by itself")
	fs.BoolVar(&f.dryRun, "dry-run", false, "check everything and change nothing")
	return cmd
}

// logLevelResult is the JSON of "log-level".
type logLevelResult struct {
	Masters []masterLogLevel `json:"masters"`
	Errors  []endpointResult `json:"errors"`
}

type masterLogLevel struct {
	Endpoint string `json:"endpoint"`
	webui.LogLevel
}

// masterAt is one master with the endpoint by which it is asked.
type masterAt struct {
	endpoint string
	// status is what it said of itself; err why it did not.
	status webui.Status
	err    error
}

// mastersNamed gives the masters that are meant: all members, those without an endpoint of their own included, or the
// one that has this address, node id, host or endpoint.
func (a *app) mastersNamed(ctx context.Context, node string) ([]masterAt, error) {
	s := a.client.survey(ctx)
	if s.best() == nil {
		return nil, nobodyError(s)
	}
	a.client.endpoints = withMembers(a.client.endpoints, s)
	var all, meant []masterAt
	seen := map[string]bool{}
	for _, x := range a.client.survey(ctx).answers {
		if x.err == nil && x.value.BootID != "" {
			if seen[x.value.BootID] {
				continue // two endpoints of one master
			}
			seen[x.value.BootID] = true
		}
		all = append(all, masterAt{x.endpoint, x.value, x.err})
	}
	if node == everyNode {
		return all, nil
	}
	var names []string
	for _, m := range all {
		if m.err == nil {
			names = append(names, m.status.Address)
		}
		host, _, _ := strings.Cut(m.status.Address, ":")
		if m.endpoint == strings.TrimRight(node, "/") || strings.TrimPrefix(m.endpoint, "http://") == node || strings.TrimPrefix(m.endpoint, "https://") == node ||
			m.err == nil && (m.status.Address == node || m.status.NodeID == node || strings.EqualFold(host, node)) {
			meant = append(meant, m)
		}
	}
	switch len(meant) {
	case 0:
		return nil, coded(exitUsage, "no master that answers goes by %q; there are %s", clean(node), clean(orNone(names)))
	case 1:
		return meant, nil
	}
	return nil, coded(exitUsage, "%s is the host of several masters: name one of %s", clean(node), clean(orNone(names)))
}

func (a *app) showLogLevels(ctx context.Context, node string) error {
	return a.eachLogLevel(ctx, node, func(ctx context.Context, endpoint string) (webui.LogLevel, error) {
		var v webui.LogLevel
		err := a.client.get(ctx, endpoint, "/v1/log-level", &v)
		return v, err
	}, "")
}

func (a *app) setLogLevels(ctx context.Context, level string, f logLevelFlags) error {
	req := webui.LogLevelRequest{Level: level, ForMillis: f.life.Milliseconds(), DryRun: f.dryRun}
	note := ""
	switch {
	case f.dryRun:
		note = "nothing was changed"
	case level == "trace" || level == "debug":
		note = "next: raftctl debug collects the last lines of all masters"
	}
	return a.eachLogLevel(ctx, f.node, func(ctx context.Context, endpoint string) (webui.LogLevel, error) {
		var v webui.LogLevel
		err := a.client.call(ctx, http.MethodPost, endpoint, "/v1/log-level", req, &v)
		return v, err
	}, note)
}

// eachLogLevel asks the masters that are meant, one after the other, and shows what they said.
func (a *app) eachLogLevel(ctx context.Context, node string, ask func(ctx context.Context, endpoint string) (webui.LogLevel, error), note string) error {
	masters, err := a.mastersNamed(ctx, node)
	if err != nil {
		return err
	}
	res := logLevelResult{Masters: []masterLogLevel{}, Errors: []endpointResult{}}
	help := ""
	for _, m := range masters {
		v, err := webui.LogLevel{}, m.err
		if err == nil {
			v, err = ask(ctx, m.endpoint)
		}
		if err != nil {
			text, why := a.refusal(err)
			res.Errors = append(res.Errors, endpointResult{Endpoint: m.endpoint, Error: text})
			if help == "" {
				help = why
			}
			continue
		}
		res.Masters = append(res.Masters, masterLogLevel{Endpoint: m.endpoint, LogLevel: v})
	}
	if err := a.print.value(res, func(w io.Writer) { logLevelTable(w, res, note) }); err != nil {
		return err
	}
	if n := len(res.Errors); n > 0 {
		return coded(exitUnhealthy, "%d of %d masters did not do it: %s%s", n, len(masters), clean(res.Errors[0].Endpoint+" ("+res.Errors[0].Error+")"), help)
	}
	return nil
}

func logLevelTable(w io.Writer, res logLevelResult, note string) {
	row(w, "MASTER", "LEVEL", "BEFORE", "STARTED WITH", "GOES BACK", "ENDPOINT")
	for _, m := range res.Masters {
		back := ""
		if m.UntilMillis > 0 {
			back = "to " + m.Then + " at " + stamp(m.UntilMillis)
		}
		row(w, m.Node, m.Level, m.Before, m.Configured, back, m.Endpoint)
	}
	for _, e := range res.Errors {
		row(w, "?", "-", "-", "-", e.Error, e.Endpoint)
	}
	if note != "" && len(res.Masters) > 0 {
		fmt.Fprintf(w, "\n%s\n", note)
	}
}
