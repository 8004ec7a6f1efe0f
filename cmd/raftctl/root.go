package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"raftmaster/cmd/internal/cli"
)

const (
	defaultEndpoint = "http://127.0.0.1:8080"
	defaultTimeout  = 5 * time.Second
)

// version and commit are set by the linker: -ldflags "-X main.version=1.2.3 -X main.commit=0123abc".
var version, commit = "", ""

func versionString() string { return cli.Version(version) }

// app holds what every verb needs.
type app struct {
	term      terminal
	endpoints string
	output    string
	tokenFile string
	timeout   time.Duration
	tls       tlsFlags

	// named: the caller named endpoints, by flag or environment.
	named bool
	// silent is the failure of a list: endpoints that did not answer, or nil.
	silent error
	client *client
	print  printer
}

func newRoot(t terminal) *cobra.Command {
	a := &app{term: t}
	root := &cobra.Command{
		Use:   "raftctl",
		Short: "Administer a cluster of raftmaster masters",
		Long: "Administer a cluster of raftmaster masters over their web UI ports.\n\n" +
			"Exit codes: 0 done, 1 error, 2 wrong usage, 3 no leader or no quorum, 4 unhealthy or only a part answered,\n" +
			"5 refused for safety, 124 time-out.",
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				if err := cmd.Help(); err != nil {
					return err
				}
			}
			return unknownCommand("name a command")(cmd, args)
		},
		SuggestionsMinimumDistance: suggestionDistance,
	}
	fs := root.PersistentFlags()
	fs.StringVar(&a.endpoints, "endpoints", "", "web UI addresses of the masters, comma-separated (RAFTCTL_ENDPOINTS; default "+defaultEndpoint+")")
	fs.StringVarP(&a.output, "output", "o", "table", "table or json")
	fs.DurationVar(&a.timeout, "timeout", defaultTimeout, "how long one answer may take")
	fs.StringVar(&a.tokenFile, "token-file", "", "file with the admin token in its first line (RAFTCTL_TOKEN holds the token itself)")
	a.tls.register(root)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return coded(exitUsage, "%w", cli.PlainFlagError(err)) })
	root.AddCommand(
		a.statusCommand(),
		a.verb("leader", "Print the leader's address", a.leader),
		a.verb("health", "Judge every master", a.health),
		a.peersCommand(),
		a.verb("workers", "List the workers", a.workers),
		a.verb("apps", "List the applications", a.apps),
		a.verb("drivers", "List the drivers in cluster mode", a.drivers),
		a.driverStatusCommand(), a.submitCommand(), a.canaryCommand(),
		a.verbWith("why-waiting", "ID", "Say what an application or a driver waits for", a.whyWaiting),
		a.killCommand(), a.drainCommand(true), a.drainCommand(false), a.decommissionCommand(), a.clearCommand(), a.compatCommand(),
		a.executorsCommand(), a.snapshotCommand(), a.recoverCommand(), a.logCommand(), a.transferCommand(), a.eventsCommand(), a.loadCommand(), a.drillCommand(),
		a.verb("hash", "Compare the states of all masters", a.hash),
		a.logLevelCommand(), a.debugCommand(), a.topCommand(),
		a.verb("version", "Print the version of raftctl and of the masters that answer", a.versions),
	)
	root.SetOut(t.out) // the commands of completions take it when they are made
	a.completions(root)
	return root
}

// verb makes a command without arguments.
func (a *app) verb(use, short string, run func(ctx context.Context) error) *cobra.Command {
	return &cobra.Command{Use: use, Short: short, Args: noArgs, RunE: func(cmd *cobra.Command, _ []string) error {
		if err := a.prepare(cmd); err != nil {
			return err
		}
		return run(cmd.Context())
	}}
}

// prepare checks the common flags.
func (a *app) prepare(cmd *cobra.Command) error {
	for _, name := range []string{"endpoints", "token-file", "cacert", "cert", "key", "server-name"} {
		if f := cmd.Flags().Lookup(name); f != nil && f.Changed && strings.TrimSpace(f.Value.String()) == "" {
			return coded(exitUsage, "--%s is given and empty: is a variable of your shell not set? give it a value, or leave the flag out", name)
		}
	}
	if a.output != "table" && a.output != "json" {
		return coded(exitUsage, "-o %s: must be table or json", a.output)
	}
	if a.timeout <= 0 {
		return coded(exitUsage, "--timeout %v: must be above 0", a.timeout)
	}
	list := a.endpoints
	if list == "" {
		list, _ = a.term.lookupEnv("RAFTCTL_ENDPOINTS")
	}
	a.named = strings.TrimSpace(list) != ""
	a.tls.fromEnvironment(cmd, a.term.lookupEnv)
	scheme := "http://"
	if a.tls.given() {
		scheme = "https://"
	}
	if !a.named {
		list = strings.TrimPrefix(defaultEndpoint, "http://")
	}
	endpoints, err := parseEndpoints(list, scheme)
	if err != nil {
		return err
	}
	if err := a.tls.check(a, endpoints); err != nil {
		return err
	}
	secure, err := a.tls.config()
	if err != nil {
		return err
	}
	token, err := readToken(a.tokenFile, a.term.lookupEnv)
	if err != nil {
		return err
	}
	a.client = newClient(endpoints, a.timeout, token, secure)
	a.print = printer{out: a.term.out, json: a.output == "json"}
	return nil
}

// note tells the reader something that is not part of the result.
func (a *app) note(format string, args ...any) {
	fmt.Fprintf(a.term.err, format+"\n", args...)
}
