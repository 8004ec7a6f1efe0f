package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"raftmaster/cluster/submit"
	"raftmaster/transport/webui"
)

// gatewayAdmin is the admin API, beside the gateways of package submit.
const gatewayAdmin = "admin"

// gatewayFlags say through which gateway drivers are spoken about.
type gatewayFlags struct {
	gateway, masters, sparkVersion string
	patience                       time.Duration
}

// register adds the flags. byDefault is the gateway without a flag; "" leaves it to the list of masters.
func (g *gatewayFlags) register(cmd *cobra.Command, byDefault string) {
	fs := cmd.Flags()
	what := "rest, rpc or admin"
	if byDefault == "" {
		what = "rest or rpc (default: rest for http://, else rpc)"
	}
	fs.StringVar(&g.gateway, "gateway", byDefault, what)
	fs.StringVar(&g.masters, "masters", "", "the masters of the gateway: spark://HOST:7077,... of rpc, http://HOST:6066,... of rest (default: those that --endpoints name)")
	fs.StringVar(&g.sparkVersion, "spark-version", "", "Spark release to speak as, such as 4.3.0 (default: that of the workers)")
	fs.DurationVar(&g.patience, "patience", 10*time.Second, "how long a leader is looked for")
}

// admin tells whether the admin API is meant; it checks the flags.
func (g *gatewayFlags) admin() (bool, error) {
	switch g.gateway {
	case gatewayAdmin:
		if g.masters != "" || g.sparkVersion != "" {
			return false, coded(exitUsage, "--masters and --spark-version are for --gateway rest and rpc; the admin API is at --endpoints")
		}
		return true, nil
	case string(submit.GatewayREST), string(submit.GatewayRPC), "":
		return false, nil
	}
	return false, coded(exitUsage, "--gateway %s: must be rest or rpc, or admin where drivers are asked about or killed", g.gateway)
}

// client connects to the gateway. asking: no driver is submitted, so that where raftmaster leads any release will do. The
// caller must Close it.
func (g *gatewayFlags) client(ctx context.Context, a *app, asking bool) (submit.Client, submit.Gateway, error) {
	if g.patience <= 0 {
		return nil, "", coded(exitUsage, "--patience %v: must be above 0", g.patience)
	}
	kind := submit.Gateway(g.gateway)
	if kind == "" {
		kind = submit.GatewayRPC
		if strings.HasPrefix(g.masters, "http://") || strings.HasPrefix(g.masters, "https://") {
			kind = submit.GatewayREST
		}
	}
	list, web := g.masters, []string(nil)
	if list == "" {
		var err error
		if list, err = a.gatewayOf(ctx, kind); err != nil {
			return nil, kind, err
		}
	}
	// Endpoints that nobody named may be of another cluster than the masters given.
	if g.masters == "" || a.named {
		web = a.client.endpoints
	}
	scheme, masters, err := submit.ParseMasters(kind, list)
	if err != nil {
		return nil, kind, gatewayError(err)
	}
	cfg := submit.Config{Masters: masters, Scheme: scheme, SparkVersion: g.sparkVersion, AskTimeout: a.timeout, Patience: g.patience, TLS: a.client.tls}
	if cfg.SparkVersion == "" && (kind == submit.GatewayRPC || !asking) {
		if cfg.SparkVersion, err = a.findRelease(ctx, kind, cfg, web, asking); err != nil {
			return nil, kind, err
		}
	}
	open := submit.NewRPC
	if kind == submit.GatewayREST {
		open = submit.NewREST
	}
	c, err := open(cfg)
	return c, kind, gatewayError(err)
}

// findRelease finds out the release to speak as. Over REST it may stay open: the server says what it is.
func (a *app) findRelease(ctx context.Context, kind submit.Gateway, cfg submit.Config, web []string, asking bool) (string, error) {
	src := submit.Sources{Web: web, Timeout: a.timeout, Scheme: cfg.Scheme, Transport: a.client.elsewhere()}
	if kind == submit.GatewayRPC {
		src.RPC = cfg.Masters
	} else {
		src.REST = cfg.Masters
	}
	found, err := submit.FindRelease(ctx, src)
	var unknown *submit.ReleaseError
	switch {
	case err == nil:
		return found.Version, nil
	case !errors.As(err, &unknown):
		return "", gatewayError(err)
	case asking && unknown.Any:
		return anyRelease, nil
	case kind == submit.GatewayREST && len(unknown.Found) == 0:
		return "", nil
	}
	return "", coded(exitUsage, "%w\nnext: give the release with --spark-version, such as --spark-version 4.3.0", err)
}

// anyRelease is what questions to raftmaster are written as.
const anyRelease = "4.3.0"

// gatewayOf finds the list of a gateway at the endpoints, raftmaster's or those of Spark's own master.
func (a *app) gatewayOf(ctx context.Context, kind submit.Gateway) (string, error) {
	s := a.client.survey(ctx)
	if best := s.best(); best != nil {
		if kind == submit.GatewayRPC {
			return best.value.ClusterURL, nil
		}
		var list []string
		for _, p := range best.value.Quorum.Peers {
			if p.RESTURL != "" {
				list = append(list, p.RESTURL)
			}
		}
		if len(list) == 0 && best.value.RESTURL != "" {
			list = append(list, best.value.RESTURL)
		}
		if len(list) == 0 {
			return "", coded(exitError, "no master has the REST gateway on\nnext: use --gateway rpc, or start the masters with spark.master.rest.enabled=true")
		}
		return strings.Join(list, ","), nil
	}
	if kind == submit.GatewayRPC {
		if list := a.sparkMasters(ctx); list != "" {
			return list, nil
		}
	}
	return "", coded(exitUsage, "the %s gateway is not known at %s: %s\nnext: name it with --masters", kind, strings.Join(a.client.endpoints, ", "), firstFailure(s))
}

func firstFailure(s survey) string {
	for _, a := range s.answers {
		if a.err != nil {
			return shortError(a.err)
		}
	}
	return "no answer"
}

// sparkMasters reads the URLs of Spark's own masters off their /json.
func (a *app) sparkMasters(ctx context.Context) string {
	var list []string
	for _, e := range a.client.endpoints {
		var v struct {
			URL string `json:"url"`
		}
		if a.client.get(ctx, e, "/json/", &v) == nil && strings.HasPrefix(v.URL, "spark://") {
			list = append(list, v.URL)
		}
	}
	return strings.Join(list, ",")
}

// gatewayError gives a failure of package submit its exit code and says what to try next.
func gatewayError(err error) error {
	var invalid *submit.InvalidError
	var none *submit.NoLeaderError
	var unknown *submit.UnknownError
	var wrong *submit.GatewayError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &unknown):
		return coded(exitTimeout, "%w\nnext: raftctl drivers, or the page of the master, shows whether it is there; submit again only if it is not", err)
	case errors.As(err, &invalid):
		return coded(exitUsage, "%w", err)
	case errors.As(err, &none):
		next := "give the list of all masters with --masters, and check that they run; a new leader is elected within seconds"
		return coded(exitNoLeader, "%w\nnext: %s", err, next)
	case errors.As(err, &wrong):
		return coded(exitError, "%w\nnext: check --masters and --gateway (rest: port 6066, rpc: port 7077), and --spark-version", err)
	case errors.Is(err, submit.ErrUnsupported):
		return coded(exitError, "%w\nnext: kill the drivers one by one", err)
	case errors.Is(err, context.DeadlineExceeded):
		return coded(exitTimeout, "%w", err)
	case errors.Is(err, context.Canceled):
		return coded(exitError, "interrupted")
	}
	return coded(exitError, "%w", err)
}

// adminDrivers asks the admin API for the status of drivers, as far as Wait needs it.
type adminDrivers struct {
	submit.Client
	a *app
}

// Status implements submit.Client.
func (d adminDrivers) Status(ctx context.Context, id string) (submit.Status, error) {
	s := d.a.client.survey(ctx)
	endpoint, err := d.a.client.findLeader(ctx, s)
	if err != nil {
		return submit.Status{}, err
	}
	var v webui.DriverAnswer
	if err := d.a.client.get(ctx, endpoint, "/v1/driver?id="+url.QueryEscape(id), &v); err != nil {
		var e *apiError
		if errors.As(err, &e) && e.status == http.StatusNotFound {
			return submit.Status{ID: id}, nil
		}
		return submit.Status{}, fmt.Errorf("%s: %w", endpoint, err)
	}
	out := submit.Status{ID: v.Driver.ID, Found: true, State: v.Driver.State, WorkerID: v.Driver.WorkerID, WorkerAddress: v.Driver.Worker,
		Message: v.Driver.Exception, Master: endpoint}
	if v.Driver.Successor != "" && v.Driver.State == submit.StateRelaunching {
		out.Message = "Relaunched as " + v.Driver.Successor + "."
	}
	return out, nil
}

// waitFlags are those of every verb that can wait for a driver.
type waitFlags struct {
	wait        bool
	limit, poll time.Duration
}

func (f *waitFlags) register(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.wait, "wait", false, "wait for the driver's end; exit code 0: FINISHED, 1: FAILED or ERROR, 4: KILLED or RELAUNCHING, 124: --wait-timeout")
	cmd.Flags().DurationVar(&f.limit, "wait-timeout", 0, "wait no longer than this; 0: no limit")
	cmd.Flags().DurationVar(&f.poll, "poll", time.Second, "time between two questions of --wait")
}

func (f *waitFlags) check() error {
	if f.limit < 0 || f.poll <= 0 {
		return coded(exitUsage, "--wait-timeout must not be below 0, and --poll must be above 0")
	}
	return nil
}

// waitFor waits for the end of a driver and tells of each change on the way. The last status is good even with an error.
func (a *app) waitFor(ctx context.Context, c submit.Client, id string, f waitFlags) (submit.Status, error) {
	start := time.Now()
	outer := ctx
	if f.limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, f.limit)
		defer cancel()
	}
	s, err := submit.Wait(ctx, c, id, submit.WaitOptions{Poll: f.poll,
		OnChange: func(s submit.Status) {
			a.note("%6s  %s %s%s", age(time.Since(start).Milliseconds()), clean(s.ID), clean(s.State), clean(onWorker(s)))
		},
		OnTrouble: func(err error) {
			a.note("nobody answers about %s, still waiting: %s", clean(id), clean(firstLineOf(err)))
		},
	})
	switch {
	case err == nil:
		return s, nil
	case errors.Is(err, submit.ErrNotFound):
		return s, coded(exitError, "the leader does not know driver %s (any more)\nnext: raftctl drivers", clean(id))
	case errors.Is(err, context.DeadlineExceeded) && outer.Err() == nil:
		return s, coded(exitTimeout, "driver %s has not ended within %v; it goes on\nnext: raftctl driver-status %s --wait, or raftctl kill driver %s", clean(id), f.limit, clean(id), clean(id))
	case errors.Is(err, context.Canceled):
		return s, coded(exitError, "interrupted; driver %s goes on\nnext: raftctl driver-status %s --wait, or raftctl kill driver %s", clean(id), clean(id), clean(id))
	}
	return s, gatewayError(err)
}

func firstLineOf(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

func onWorker(s submit.Status) string {
	if s.WorkerID == "" {
		return ""
	}
	return " on " + s.WorkerID
}

// ended gives the end of a driver its exit code.
func ended(s submit.Status) error {
	text := fmt.Sprintf("driver %s ended as %s", clean(s.ID), clean(s.State))
	if s.Message != "" {
		text += ": " + clean(s.Message)
	}
	switch s.State {
	case submit.StateFinished:
		return nil
	case submit.StateKilled:
		return coded(exitUnhealthy, "%s", text)
	case submit.StateRelaunching:
		return coded(exitUnhealthy, "%s\nnext: raftctl drivers shows under which id it goes on", text)
	}
	if s.State == submit.StateError && s.Message != "" {
		return coded(exitError, "%s", text) // it never ran, so that there is no log
	}
	where := "its worker"
	if s.WorkerID != "" {
		where = clean(s.WorkerID)
	}
	return coded(exitError, "%s\nnext: look at its stderr, and at its stdout where a Python program's errors are, on the page of %s", text, where)
}

// driverTable is the table of one driver.
func driverTable(w io.Writer, s submit.Status) {
	row(w, "Driver", s.ID)
	row(w, "State", s.State)
	row(w, "Worker", strings.TrimSpace(s.WorkerID+" "+s.WorkerAddress))
	row(w, "Note", s.Message)
	fmt.Fprintf(w, "\nanswered by %s\n", clean(s.Master))
}

// isTerminal tells whether somebody looks at a stream.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
