package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// Exit codes, see doc.go.
const (
	exitOK        = 0
	exitError     = 1
	exitUsage     = 2
	exitNoLeader  = 3
	exitUnhealthy = 4
	exitRefused   = 5
	exitTimeout   = 124
)

// codedError carries the exit code of a failure.
type codedError struct {
	code int
	err  error
}

func (e *codedError) Error() string { return e.err.Error() }
func (e *codedError) Unwrap() error { return e.err }

func coded(code int, format string, args ...any) error {
	return &codedError{code, fmt.Errorf(format, args...)}
}

// terminal is where the command talks to.
type terminal struct {
	in       io.Reader
	out, err io.Writer
	// interactive: there is somebody to answer a question.
	interactive bool
	// size gives the columns and rows of the terminal that out is; nil: out is none, or one that cannot be redrawn.
	size func() (cols, rows int)
	// keys puts the terminal into raw mode and gives what is typed there; restore undoes it. nil: nobody types.
	keys      func() (in io.Reader, restore func() error, err error)
	lookupEnv func(string) (string, bool)
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	t := terminal{in: os.Stdin, out: os.Stdout, err: os.Stderr, lookupEnv: os.LookupEnv,
		interactive: term.IsTerminal(int(os.Stdin.Fd())) && term.IsTerminal(int(os.Stderr.Fd()))}
	if term.IsTerminal(int(os.Stdout.Fd())) && os.Getenv("TERM") != "dumb" {
		t.size = terminalSize
		if term.IsTerminal(int(os.Stdin.Fd())) {
			t.keys = rawKeys
		}
	}
	code := run(ctx, t, os.Args[1:])
	stop()
	os.Exit(code)
}

// terminalSize asks standard output; a terminal that does not know is taken for a small one.
func terminalSize() (cols, rows int) {
	cols, rows, err := term.GetSize(int(os.Stdout.Fd()))
	if err != nil || cols <= 0 || rows <= 0 {
		return 80, 24
	}
	return cols, rows
}

// run executes one command line and returns the exit code.
func run(ctx context.Context, t terminal, args []string) int {
	out := &countingWriter{to: t.out}
	t.out = out
	root := newRoot(t)
	root.SetArgs(args)
	root.SetIn(t.in)
	root.SetOut(t.out)
	root.SetErr(t.err)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	code := exitError
	var c *codedError
	switch {
	case errors.As(err, &c):
		code = c.code
	case errors.Is(err, context.DeadlineExceeded):
		code = exitTimeout
	case isCobraUsage(err):
		code = exitUsage
	}
	if err.Error() != "" {
		fmt.Fprintf(t.err, "raftctl: %v\n", err)
	}
	if root.PersistentFlags().Lookup("output").Value.String() == "json" && out.n == 0 {
		if err := (printer{out: out, json: true}).value(failureResult{Error: err.Error(), ExitCode: code}, nil); err != nil {
			fmt.Fprintf(t.err, "raftctl: %v\n", err)
		}
	}
	return code
}

// failureResult is the JSON of a command that failed before it had a result, so that a script always gets an object.
type failureResult struct {
	Error    string `json:"error"`
	ExitCode int    `json:"exit_code"`
}

// countingWriter knows whether anything was printed.
type countingWriter struct {
	to io.Writer
	n  int
}

func (w *countingWriter) Write(p []byte) (int, error) {
	n, err := w.to.Write(p)
	w.n += n
	return n, err
}

// isCobraUsage recognises the errors that cobra makes itself and has no type for.
func isCobraUsage(err error) bool {
	return strings.HasPrefix(err.Error(), "unknown command") || strings.HasPrefix(err.Error(), "required flag")
}

// confirm asks before something is changed. Without a terminal it needs --yes.
func (t terminal) confirm(yes bool, question string) error {
	if yes {
		return nil
	}
	if !t.interactive {
		return coded(exitRefused, "%s\nthis is not a terminal, so nobody can be asked: add --yes to do it, or --dry-run to see what would happen", question)
	}
	fmt.Fprintf(t.err, "%s [y/N] ", question)
	line, err := bufio.NewReader(t.in).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read the answer: %w", err)
	}
	switch strings.ToLower(strings.TrimSpace(line)) {
	case "y", "yes":
		return nil
	}
	return coded(exitRefused, "not confirmed, nothing was changed")
}

func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return coded(exitUsage, "%s takes no argument, and got %q", cmd.CommandPath(), args)
	}
	return nil
}

// suggestionDistance is how many letters may differ in a suggestion.
const suggestionDistance = 2

// unknownCommand refuses what is no command of cmd, and names it with what may have been meant; without a word it says
// what is wanted.
func unknownCommand(wanted string) func(cmd *cobra.Command, args []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return coded(exitUsage, "%s", wanted)
		}
		meant := ""
		if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
			meant = "; did you mean " + strings.Join(near, " or ") + "?"
		}
		return coded(exitUsage, "unknown command %q for %s%s\nnext: %s --help lists the commands", args[0], cmd.CommandPath(), meant, cmd.CommandPath())
	}
}
