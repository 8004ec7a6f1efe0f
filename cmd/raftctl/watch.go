package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"raftmaster/transport/webui"
)

// Limits of --watch.
const (
	defaultWatch = 2 * time.Second
	minWatch     = 100 * time.Millisecond
)

func (a *app) statusCommand() *cobra.Command {
	var interval time.Duration
	count := 0
	cmd := &cobra.Command{Use: "status [--watch [INTERVAL]]", Short: "Show every master, the quorum and the totals",
		Long: "Show every master, the quorum and the totals.\n\nWith --watch it is shown again and again until it is interrupted: redrawn on a terminal, one after the other elsewhere, " +
			"and with -o json as one JSON object per round and line. Masters that go away, all of them included, do not end it; members that no endpoint was given for are asked, too.",
		Example: "  raftctl status --watch 1s\n  raftctl status --watch=500ms -o json",
		Args:    cobra.ArbitraryArgs,
	}
	fs := cmd.Flags()
	fs.DurationVar(&interval, "watch", 0, "show it again after this time (default "+defaultWatch.String()+")")
	fs.Lookup("watch").NoOptDefVal = defaultWatch.String()
	fs.IntVar(&count, "count", 0, "with --watch: end after so many rounds, with the exit code of the last one")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		watching := fs.Changed("watch")
		if watching && len(args) == 1 { // "--watch 1s": the value of a flag that needs none is an argument
			d, err := time.ParseDuration(args[0])
			if err != nil {
				return coded(exitUsage, "--watch %s: must be a time such as 1s", args[0])
			}
			interval, args = d, nil
		}
		if err := noArgs(cmd, args); err != nil {
			return err
		}
		switch {
		case watching && interval < minWatch:
			return coded(exitUsage, "--watch %v: must be at least %v", interval, minWatch)
		case count < 0 || count > 0 && !watching:
			return coded(exitUsage, "--count %d: must be above 0, and belongs to --watch", count)
		}
		if err := a.prepare(cmd); err != nil {
			return err
		}
		if watching {
			return a.watchStatus(cmd.Context(), interval, count)
		}
		return a.status(cmd.Context())
	}
	return cmd
}

// statusRound is the JSON of one round of "status --watch".
type statusRound struct {
	TimeMillis int64 `json:"time_millis"`
	statusResult
	// ExitCode is the one that "status" alone would give, Error its message.
	ExitCode int    `json:"exit_code"`
	Error    string `json:"error"`
}

// watched asks the endpoints given and the members that none was given for, as they were last known.
type watched struct {
	a     *app
	given []string
}

// survey asks everybody. Which members there are is taken from the answers, for the next round.
func (w *watched) survey(ctx context.Context) (survey, string) {
	s, problem := w.a.client.settledSurvey(ctx)
	if s.best() != nil {
		w.a.client.endpoints = membersToo(w.given, s)
	}
	return s, problem
}

// membersToo is withMembers for answers of more endpoints than those given.
func membersToo(given []string, s survey) []string {
	var own survey
	for _, x := range s.answers {
		for _, e := range given {
			if x.endpoint == e {
				own.answers = append(own.answers, x)
			}
		}
	}
	if own.best() == nil { // none of those given answers: keep all that is known
		out := make([]string, 0, len(s.answers))
		for _, x := range s.answers {
			out = append(out, x.endpoint)
		}
		return out
	}
	return withMembers(given, own)
}

func (a *app) watchStatus(ctx context.Context, interval time.Duration, count int) error {
	w := &watched{a: a, given: a.client.endpoints}
	var sc *screen
	if a.term.size != nil && !a.print.json {
		sc = &screen{out: a.term.out, size: a.term.size}
		sc.open()
	}
	var last []string
	var verdict, err error
	for round := 1; ctx.Err() == nil; round++ {
		started := time.Now()
		var lines []string
		if lines, verdict, err = a.statusRound(ctx, w, sc, round); lines != nil {
			last = lines
		}
		if err != nil || round == count {
			break
		}
		select {
		case <-ctx.Done():
		case <-time.After(max(0, interval-time.Since(started))):
		}
	}
	if sc != nil { // the last page stays
		sc.close()
		fmt.Fprintln(a.term.out, strings.Join(last, "\n"))
	}
	if err != nil || count == 0 {
		return err
	}
	return verdict
}

// statusRound asks once and shows the outcome. lines is what a screen shows.
func (a *app) statusRound(ctx context.Context, w *watched, sc *screen, round int) (lines []string, verdict, err error) {
	s, problem := w.survey(ctx)
	if ctx.Err() != nil {
		return nil, nil, nil
	}
	now := time.Now()
	verdict = a.statusVerdict(ctx, s, problem)
	if a.print.json {
		r := statusRound{TimeMillis: now.UnixMilli(), statusResult: statusOf(s, problem), ExitCode: exitCode(verdict)}
		if verdict != nil {
			r.Error = verdict.Error()
		}
		line, err := json.Marshal(r)
		if err != nil {
			return nil, nil, err
		}
		_, err = fmt.Fprintf(a.term.out, "%s\n", line)
		return nil, verdict, err
	}
	text, err := watchPage(s, verdict, now)
	if err != nil {
		return nil, nil, err
	}
	lines = strings.Split(strings.TrimRight(text, "\n"), "\n")
	if sc != nil {
		sc.draw(lines)
		return lines, verdict, nil
	}
	if round > 1 {
		text = "\n" + text
	}
	_, err = io.WriteString(a.term.out, text)
	return lines, verdict, err
}

// watchPage is one round as text.
func watchPage(s survey, verdict error, now time.Time) (string, error) {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s  raftctl status --watch\n", stamp(now.UnixMilli()))
	tw := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	if best := s.best(); best != nil {
		statusTable(tw, s, best)
	}
	if err := tw.Flush(); err != nil {
		return "", err
	}
	if verdict != nil {
		fmt.Fprintf(&b, "\n%s\n", verdict)
	}
	return b.String(), nil
}

// statusVerdict is the error, and so the exit code, of one look.
func (a *app) statusVerdict(ctx context.Context, s survey, problem string) error {
	switch {
	case s.best() == nil:
		return nobodyError(s)
	case problem != "":
		return coded(exitUnhealthy, "%s", problem)
	}
	return a.verdict(ctx, s)
}

// exitCode is the code of an error of a verdict.
func exitCode(err error) int {
	var c *codedError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &c):
		return c.code
	}
	return exitError
}

// statusOf is the JSON of a look.
func statusOf(s survey, problem string) statusResult {
	res := statusResult{Endpoints: []endpointResult{}, Statuses: []webui.Status{}, Problem: problem}
	for _, x := range s.answers {
		e := endpointResult{Endpoint: x.endpoint, OK: x.err == nil}
		if x.err != nil {
			e.Error = shortError(x.err)
		} else {
			res.Statuses = append(res.Statuses, x.value)
		}
		res.Endpoints = append(res.Endpoints, e)
	}
	if l := s.leader(); l != nil {
		res.Leader = &webui.Leader{NodeID: l.value.NodeID, Address: l.value.Address, WebURL: l.value.WebURL}
	}
	return res
}
