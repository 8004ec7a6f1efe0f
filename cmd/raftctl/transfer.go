package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"raftmaster/transport/webui"
)

func (a *app) transferCommand() *cobra.Command {
	var to string
	var yes, dryRun bool
	cmd := a.verb("transfer-leadership", "Hand leadership to another master and wait for it", func(ctx context.Context) error {
		return a.transfer(ctx, to, yes, dryRun)
	})
	fs := cmd.Flags()
	fs.StringVar(&to, "to", "", "address, node id or unique host of the new leader (default: the one furthest ahead)")
	fs.BoolVar(&yes, "yes", false, "do not ask")
	fs.BoolVar(&dryRun, "dry-run", false, "check everything and change nothing")
	return cmd
}

// transfer checks with a dry run first, so that the question names what will happen, then does it.
func (a *app) transfer(ctx context.Context, to string, yes, dryRun bool) error {
	endpoint, err := a.leaderToChange(ctx)
	if err != nil {
		return err
	}
	if to, err = a.peerNamed(ctx, endpoint, to); err != nil {
		return err
	}
	plan, err := a.postTransfer(ctx, endpoint, webui.TransferRequest{To: to, DryRun: true})
	if err != nil {
		return err
	}
	target := plan.To.Address
	if target == "" {
		target = "the voter that is furthest ahead"
	}
	if dryRun {
		return a.print.value(plan, func(w io.Writer) {
			fmt.Fprintf(w, "would move leadership from %s to %s; nothing was changed\n", clean(plan.From.Address), clean(target))
		})
	}
	if err := a.term.confirm(yes, fmt.Sprintf("Move leadership from %s to %s?", clean(plan.From.Address), clean(target))); err != nil {
		return err
	}
	done, err := a.postTransfer(ctx, endpoint, webui.TransferRequest{To: to})
	if err != nil {
		return err
	}
	return a.print.value(done, func(w io.Writer) {
		fmt.Fprintf(w, "%s is the leader, term %d, after %d ms\n", clean(done.To.Address), done.Term, done.DurationMillis)
		fmt.Fprintf(w, "undo: raftctl transfer-leadership --to %s\n", clean(done.From.Address))
	})
}

func (a *app) postTransfer(ctx context.Context, endpoint string, req webui.TransferRequest) (webui.Transfer, error) {
	return post[webui.Transfer](ctx, a.client, endpoint, "/v1/transfer-leadership", req, "the transfer may still happen: look with raftctl leader")
}

// post asks the leader for a change. late says what is left open where no answer came.
func post[Answer any](ctx context.Context, c *client, endpoint, path string, req any, late string) (Answer, error) {
	var out Answer
	err := c.call(ctx, http.MethodPost, endpoint, path, req, &out)
	if err == nil {
		return out, nil
	}
	var e *apiError
	if !errors.As(err, &e) {
		if isTimeout(err) {
			return out, coded(exitTimeout, "%s did not answer within %v; %s", endpoint, c.timeout, late)
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) {
			return out, fmt.Errorf("%s went away before it answered; %s", endpoint, late)
		}
		return out, fmt.Errorf("%s: %w", endpoint, err)
	}
	return out, &codedError{apiExitCode(e), fmt.Errorf("%s: %s%s", endpoint, e.body.Message, hint(e, c.token != ""))}
}

func apiExitCode(e *apiError) int {
	switch e.body.Code {
	case webui.CodeRefused:
		return exitRefused
	case webui.CodeNotLeader, webui.CodeNoLeader:
		return exitNoLeader
	case webui.CodeTimeout:
		return exitTimeout
	case webui.CodeBadRequest:
		return exitUsage
	}
	return exitError
}

// hint says what to try next. tokenGiven: this call has presented a token.
func hint(e *apiError, tokenGiven bool) string {
	switch e.body.Code {
	case webui.CodeUnauthorized:
		if e.status == http.StatusTooManyRequests {
			return "\nnext: wait a minute, and compare the token with the master's --token-file"
		}
		if strings.Contains(e.body.Message, "role operate") {
			return "\nnext: give a token of the role operate with --token-file or RAFTCTL_TOKEN"
		}
		return "\nnext: " + tokenHint(e.status == http.StatusUnauthorized, tokenGiven)
	case webui.CodeNotFound:
		return "\nnext: " + notFoundHint(e.path)
	case webui.CodeNotLeader, webui.CodeNoLeader:
		return "\nnext: raftctl status"
	}
	return ""
}

// notFoundHint says where the names are that a call could have meant.
func notFoundHint(path string) string {
	path, _, _ = strings.Cut(path, "?")
	switch path {
	case "/v1/kill", "/v1/why-waiting":
		return "raftctl apps and raftctl drivers show the ids"
	case "/v1/driver":
		return "raftctl drivers shows the ids"
	case "/v1/drain", "/v1/decommission":
		return "raftctl workers shows the ids and addresses"
	}
	return "raftctl peers list shows the ids and addresses"
}

// tokenHint: a master with a token wants it from everybody; one without lets callers on its own machine in, and no token
// helps elsewhere.
func tokenHint(tokenConfigured, tokenGiven bool) string {
	switch {
	case tokenConfigured && tokenGiven:
		return "the token given (--token-file or RAFTCTL_TOKEN) is not the one of that master: compare it with the master's --token-file"
	case tokenConfigured:
		return "give the token with --token-file or RAFTCTL_TOKEN; it is needed on the master's own machine too"
	}
	return "run raftctl on the leader's own machine with its loopback address among the --endpoints, or start the masters with --token-file and give that token"
}
