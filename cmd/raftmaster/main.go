package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/hashicorp/go-hclog"
	"github.com/spf13/cobra"

	"raftmaster/cluster/config"
	"raftmaster/cluster/server"
	"raftmaster/cmd/internal/cli"
	"raftmaster/cmd/internal/sdnotify"
)

// Exit codes, see doc.go.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

// runServer runs one master until ctx ends.
type runServer func(ctx context.Context, cfg config.Config, log hclog.Logger, version string) error

// program is what the commands need from outside; tests replace it.
type program struct {
	run       runServer
	notifier  *sdnotify.Notifier // nil: nobody wants to know
	work      runWorker
	environ   func() []string
	stderr    io.Writer
	lookupEnv func(string) (string, bool)
	// signals gives a context that ends at SIGTERM or SIGINT; see notify.
	// It calls hurried before it ends the process at once.
	signals func(log hclog.Logger, hurried func()) (context.Context, context.CancelFunc)
}

// usageError marks mistakes of the caller.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

func main() {
	if len(os.Args) > 1 && os.Args[1] == server.PauseHelper {
		os.Exit(server.RunPauseHelper(os.Args[2:]))
	}
	notifier, err := sdnotify.Take(os.Getpid(), os.LookupEnv, os.Unsetenv)
	if err != nil {
		fmt.Fprintf(os.Stderr, "raftmaster: %v\n", err)
		os.Exit(exitUsage)
	}
	p := &program{run: serve, notifier: notifier, work: serveWorker, environ: os.Environ, stderr: os.Stderr, lookupEnv: os.LookupEnv, signals: notify}
	os.Exit(p.main(os.Args[1:], os.Stdout))
}

// main runs the command line and returns the exit code.
func (p *program) main(args []string, stdout io.Writer) int {
	root := p.rootCommand()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(p.stderr)
	err := root.Execute()
	if err == nil {
		return exitOK
	}
	var logged *loggedError
	if !errors.As(err, &logged) {
		fmt.Fprintf(p.stderr, "raftmaster: %v\n", err)
	}
	return exitCode(err)
}

func (p *program) rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "raftmaster",
		Short:         "Highly available master for Apache Spark Standalone, replicated by Raft",
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := cmd.Help(); err != nil {
				return err
			}
			return &usageError{errors.New("name a command: server, worker, dev or version")}
		},
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return &usageError{cli.PlainFlagError(err)} })
	root.AddCommand(p.serverCommand(), p.devCommand(), versionCommand())
	for _, c := range root.Commands() {
		c.Args = noArguments
	}
	worker := p.workerCommand()
	worker.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return &workerError{cli.PlainFlagError(err)} })
	root.AddCommand(worker)
	return root
}

func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return &usageError{fmt.Errorf("%s takes no argument, and got %q", cmd.Name(), args)}
	}
	return nil
}
