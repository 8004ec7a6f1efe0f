package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"raftmaster/cluster/drill"
	"raftmaster/transport/webui"
)

// drillFlags are those of all kinds of drills.
type drillFlags struct {
	cfg            drill.Config
	seed           uint32
	peers          []string
	history        string
	noHistory      bool
	noProbe        bool
	probeHost      string
	yes, dryRun    bool
	historyReports int
}

// drillClientTimeout bounds one call of a drill; each has a shorter time of its own where it matters.
const drillClientTimeout = time.Minute

// drillShort says what each kind does.
var drillShort = map[string]string{
	drill.Transfer:       "Have the leader hand leadership over",
	drill.KillLeader:     "Kill the leader's process (SIGKILL); its supervisor must start it again",
	drill.PauseLeader:    "Stop the leader's process for a time (SIGSTOP, SIGCONT)",
	drill.Partition:      "Cut a master, by default the leader, off from other masters",
	drill.SlowDisk:       "Make each sync of a master's log slow",
	drill.FullDisk:       "Make each write of a master's log fail as on a full disk",
	drill.RollingRestart: "Restart every master, one after the other, the leader last",
	drill.All:            "Do every drill once, or random ones (--random)",
}

func (a *app) drillCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "drill KIND",
		Short: "Make a fault on purpose, time the recovery, and check that nothing was lost",
		Long: "Makes a fault in the running cluster, measures how it recovers, and compares the whole state (workers,\n" +
			"applications, executors, drivers, ids, cores, queue order, targets) with that before. The masters must run with\n" +
			"--enable-drills. A drill refuses (exit code 5) unless every master is healthy and one of them may fail.\n\n" +
			"Every fault ends by itself, when raftctl dies as well. Ctrl-C ends it at once and prints what is known.\n\n" +
			"Exit codes: 0 passed, 3 nobody led in time, 4 something was lost, did not come back, or was interrupted, 5 refused.",
		Args: cobra.ArbitraryArgs,
		RunE: unknownCommand("name a drill: " + strings.Join(drill.Kinds(), ", ") + ", all; or status, history"),
	}
	cmd.SuggestionsMinimumDistance = suggestionDistance
	for _, kind := range append(drill.Kinds(), drill.All) {
		cmd.AddCommand(a.drillKind(kind))
	}
	cmd.AddCommand(a.verb("status", "Show which masters are claimed, and which fault is active", a.drillStatus), a.drillHistoryCommand())
	return cmd
}

func (a *app) drillKind(kind string) *cobra.Command {
	f := &drillFlags{}
	f.cfg.Kind = kind
	cmd := a.verb(kind, drillShort[kind], nil)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := a.prepare(cmd); err != nil {
			return err
		}
		if f.cfg.Random && !cmd.Flags().Changed("seed") {
			f.seed = rand.Uint32()
		}
		return a.drill(cmd.Context(), f)
	}
	fs := cmd.Flags()
	fs.IntVar(&f.cfg.Rounds, "repeat", 1, "how often; percentiles are printed")
	fs.IntVar(&f.cfg.Rounds, "rounds", 1, "the same as --repeat")
	fs.DurationVar(&f.cfg.Between, "between", time.Second, "pause between two rounds")
	fs.DurationVar(&f.cfg.Limit, "limit", time.Minute, "how long to wait for a leader, for peers to attach, for a master to come back")
	fs.StringVar(&f.history, "history", "", "file that keeps the reports (default: raftmaster/drills.jsonl in the state directory, $XDG_STATE_HOME or ~/.local/state)")
	fs.BoolVar(&f.noHistory, "no-history", false, "do not keep the report")
	fs.BoolVar(&f.noProbe, "no-probe", false, "register no application: the first accepted registration is not measured")
	fs.StringVar(&f.probeHost, "probe-host", "", "address of this machine that the probing application gives as its own (default: the one that reaches the masters)")
	fs.BoolVar(&f.yes, "yes", false, "do not ask")
	fs.BoolVar(&f.dryRun, "dry-run", false, "check whether the drill would be refused, say what it would do, and change nothing")
	switch kind {
	case drill.PauseLeader, drill.Partition, drill.SlowDisk, drill.FullDisk, drill.All:
		fs.DurationVar(&f.cfg.Duration, "duration", 0, "how long the fault lasts (default: 5s for a pause, 10s for the others)")
	}
	switch kind {
	case drill.SlowDisk, drill.All:
		fs.DurationVar(&f.cfg.Delay, "delay", 0, "how much longer each sync takes (default 50ms)")
	}
	switch kind {
	case drill.Partition, drill.SlowDisk, drill.FullDisk:
		fs.StringVar(&f.cfg.Target, "target", "", "address or node id of the master that gets the fault (default: the leader)")
	}
	if kind == drill.Partition {
		fs.StringSliceVar(&f.peers, "from", nil, "addresses or node ids of the masters that it is cut off from (default: all others)")
	}
	if kind == drill.All {
		fs.BoolVar(&f.cfg.Random, "random", false, "a random kind and target each round")
		fs.Uint32Var(&f.seed, "seed", 0, "seed of the random choices (default: a random one, which is printed)")
	}
	return cmd
}

// drillClient is the client of a drill: it keeps connections, because it asks often.
type drillClient struct{ c *client }

func newDrillClient(c *client) drillClient {
	own := *c
	own.timeout = drillClientTimeout
	if t, ok := c.http.Transport.(*http.Transport); ok {
		t = t.Clone()
		t.DisableKeepAlives, t.MaxIdleConnsPerHost, t.IdleConnTimeout = false, 8, 5*time.Second
		client := *c.http
		client.Transport = t
		own.http = &client
	}
	return drillClient{&own}
}

// Get implements drill.Client.
func (d drillClient) Get(ctx context.Context, endpoint, path string, answer any) error {
	return d.failure(d.c.call(ctx, http.MethodGet, endpoint, path, nil, answer))
}

// Post implements drill.Client.
func (d drillClient) Post(ctx context.Context, endpoint, path string, request, answer any) error {
	return d.failure(d.c.call(ctx, http.MethodPost, endpoint, path, request, answer))
}

// failure shows what a master has answered as a *webui.Error.
func (d drillClient) failure(err error) error {
	var e *apiError
	if !errors.As(err, &e) {
		return err
	}
	body := e.body
	if body.Code == webui.CodeUnauthorized {
		body.Message += hint(e, d.c.token != "")
	}
	return &body
}

// close gives the connections back.
func (d drillClient) close() { d.c.http.CloseIdleConnections() }

func (a *app) drill(ctx context.Context, f *drillFlags) error {
	client := newDrillClient(a.client)
	defer client.close()
	cfg := f.cfg
	cfg.Client, cfg.Endpoints, cfg.By, cfg.Peers, cfg.Seed = client, a.client.endpoints, operatorName(), f.peers, uint64(f.seed)
	if !f.noProbe {
		cfg.Probe = drill.SparkProbe{Host: f.probeHost}
	}
	if cfg.Random {
		a.note("seed %d", cfg.Seed)
	}
	plan, err := drill.Preview(ctx, cfg)
	if err != nil {
		return drillUsage(err)
	}
	if f.dryRun || plan.Outcome != drill.Passed {
		plan.DryRun = f.dryRun
		if err := a.print.value(plan, func(w io.Writer) { drillPlanTable(w, plan) }); err != nil {
			return err
		}
		return drillExit(plan)
	}
	question := "This makes faults in the cluster that runs here:\n  " + strings.Join(shortPlan(plan.Plan), "\n  ") + "\nGo on?"
	if err := a.term.confirm(f.yes, question); err != nil {
		return err
	}
	cfg.Progress = func(text string) { a.note("%s %s", time.Now().Format("15:04:05"), clean(text)) }
	report, err := drill.Run(ctx, cfg)
	if err != nil {
		return drillUsage(err)
	}
	f.keep(a, report)
	if err := a.print.value(report, func(w io.Writer) { drillTable(w, report) }); err != nil {
		return err
	}
	return drillExit(report)
}

// keep appends the report to the history. A report that cannot be kept is still printed.
func (f *drillFlags) keep(a *app, r *drill.Report) {
	if f.noHistory {
		return
	}
	path, err := historyFile(f.history, a.term.lookupEnv)
	if err == nil {
		err = drill.Append(path, r)
	}
	if err != nil {
		a.note("the report is not kept: %v", err)
	}
}

// historyFile is where reports are kept.
func historyFile(path string, lookup func(string) (string, bool)) (string, error) {
	if path != "" {
		return path, nil
	}
	dir, _ := lookup("XDG_STATE_HOME")
	if !filepath.IsAbs(dir) { // relative ones are to be ignored (XDG Base Directory Specification)
		home, _ := lookup("HOME")
		if home == "" {
			return "", errors.New("there is no home directory: name a file with --history")
		}
		dir = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(dir, "raftmaster", "drills.jsonl"), nil
}

// shortPlan bounds what a question shows.
func shortPlan(plan []string) []string {
	const shown = 10
	if len(plan) <= shown {
		return plan
	}
	return append(plan[:shown:shown], fmt.Sprintf("and %d more rounds", len(plan)-shown))
}

// operatorName says who drills: user@host.
func operatorName() string {
	name := "?"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	host, err := os.Hostname()
	if err != nil {
		host = "?"
	}
	text := name + "@" + host
	return text[:min(len(text), 128)]
}

func drillUsage(err error) error {
	if errors.Is(err, drill.ErrUsage) {
		return &codedError{exitUsage, err}
	}
	return err
}

// drillExit gives the exit code of a report.
func drillExit(r *drill.Report) error {
	why := drillProblems(r)
	switch r.Outcome {
	case drill.Passed:
		return nil
	case drill.NoLeader:
		return coded(exitNoLeader, "nobody leads: %s\nnext: raftctl status", why)
	case drill.Refused:
		return coded(exitRefused, "refused: %s", why)
	case drill.Damage:
		return coded(exitUnhealthy, "DAMAGE: %s", why)
	case drill.Interrupted:
		return coded(exitUnhealthy, "interrupted: the fault was ended; see above for what is not as it was")
	}
	return coded(exitUnhealthy, "incomplete: %s", why)
}

// drillProblems lists what went wrong, in a line.
func drillProblems(r *drill.Report) string {
	out := append([]string{}, r.Problems...)
	for i := range r.Rounds {
		for _, p := range r.Rounds[i].Problems {
			out = append(out, fmt.Sprintf("round %d: %s", r.Rounds[i].Number, p))
		}
		if n := r.Rounds[i].Damages(); n > 0 {
			out = append(out, fmt.Sprintf("round %d: %s without explanation", r.Rounds[i].Number, plural(n, "difference")))
		}
	}
	return clean(strings.ReplaceAll(strings.Join(out, "; "), "\n", " "))
}

// drillStatusResult is the JSON of "drill status".
type drillStatusResult struct {
	Masters []webui.DrillStatus `json:"masters"`
	Errors  []endpointResult    `json:"errors"`
}

func (a *app) drillStatus(ctx context.Context) error {
	client := newDrillClient(a.client)
	defer client.close()
	masters, err := drill.Interfaces(ctx, client, a.client.endpoints)
	if err != nil {
		return err
	}
	res := drillStatusResult{Masters: []webui.DrillStatus{}, Errors: []endpointResult{}}
	for _, m := range masters {
		var e *webui.Error
		switch {
		case m.Err == nil:
			res.Masters = append(res.Masters, m.Status)
		case errors.As(m.Err, &e) && e.Code == webui.CodeNotFound:
			res.Errors = append(res.Errors, endpointResult{Endpoint: m.Master.Address, Error: "drills are not enabled there (--enable-drills)"})
		default:
			res.Errors = append(res.Errors, endpointResult{Endpoint: m.Master.Address, Error: shortError(m.Err)})
		}
	}
	if err := a.print.value(res, func(w io.Writer) { drillStatusTable(w, res) }); err != nil {
		return err
	}
	if len(res.Errors) > 0 {
		return coded(exitUnhealthy, "%d of %d masters have no drills to tell of: %s: %s", len(res.Errors), len(masters), res.Errors[0].Endpoint, res.Errors[0].Error)
	}
	return nil
}

func (a *app) drillHistoryCommand() *cobra.Command {
	f := &drillFlags{}
	cmd := a.verb("history", "Show the drills of the past, as kept on this machine", nil)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := a.prepare(cmd); err != nil {
			return err
		}
		return a.drillHistory(f)
	}
	cmd.Flags().StringVar(&f.history, "history", "", "the file (default: as for drills)")
	cmd.Flags().IntVar(&f.historyReports, "last", 20, "how many; 0 is all")
	return cmd
}

// drillHistoryResult is the JSON of "drill history".
type drillHistoryResult struct {
	File    string         `json:"file"`
	Reports []drill.Report `json:"reports"`
	// Broken counts lines of the file that are no report.
	Broken int `json:"broken"`
}

func (a *app) drillHistory(f *drillFlags) error {
	path, err := historyFile(f.history, a.term.lookupEnv)
	if err != nil {
		return coded(exitUsage, "%w", err)
	}
	reports, broken, err := drill.History(path, f.historyReports)
	if err != nil {
		return err
	}
	res := drillHistoryResult{File: path, Reports: append([]drill.Report{}, reports...), Broken: broken}
	return a.print.value(res, func(w io.Writer) { drillHistoryTable(w, res) })
}
