package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"raftmaster/transport/webui"
)

// compatLate is what a call that was not answered in time leaves open.
const compatLate = "the change may still happen: look with raftctl compat list"

func (a *app) compatCommand() *cobra.Command {
	compat := &cobra.Command{Use: "compat", Short: "Show and clear what never came up on a worker, so that it gets no more of it",
		Args: cobra.ArbitraryArgs, RunE: unknownCommand("name a command: compat list, or compat clear WORKER"),
		SuggestionsMinimumDistance: suggestionDistance}
	var f changeFlags
	appID := ""
	give := a.verbWith("clear", "WORKER", "Give a worker another try", func(ctx context.Context, worker string) error {
		return a.compatClear(ctx, webui.ClearIncompatibleRequest{Worker: worker, AppID: appID}, f)
	})
	f.register(give)
	give.Flags().StringVar(&appID, "app", "", "of this application only; without it, of all applications and of drivers")
	compat.AddCommand(a.verb("list", "List workers with what never came up there", a.compatList), give)
	return compat
}

func (a *app) compatList(ctx context.Context) error {
	var v webui.IncompatibleAnswer
	endpoint, err := fromBest(ctx, a, "/v1/incompatible", &v)
	if err != nil {
		return err
	}
	return a.listed(v, func(w io.Writer) {
		row(w, "WORKER", "ADDRESS", "SPARK", "GETS NO MORE OF")
		for _, p := range v.Pairs {
			row(w, p.WorkerID, p.Worker, release(p.SparkVersion, p.Family), pairAs(p))
		}
		answeredBy(w, v.Source, endpoint)
	})
}

// pairAs says what a worker gets no more of.
func pairAs(p webui.IncompatiblePair) string {
	if p.Kind == webui.KindDriver {
		return strings.TrimSuffix("drivers of family "+p.DriverFamily, " of family ")
	}
	return strings.TrimSuffix(p.AppID+" ("+p.AppName+")", " ()")
}

// compatClear asks nobody: what does not come up is found out again, after a while.
func (a *app) compatClear(ctx context.Context, req webui.ClearIncompatibleRequest, f changeFlags) error {
	f.yes = true
	as := func(c webui.ClearIncompatible) string {
		var names []string
		for i, p := range c.Pairs {
			if i == maxNamedWorkers {
				names = append(names, fmt.Sprintf("%d more", len(c.Pairs)-i))
				break
			}
			names = append(names, clean(pairAs(p)))
		}
		return strings.Join(names, ", ")
	}
	done, err := operate(ctx, a, f, "/v1/clear-incompatible", compatLate,
		func(dry bool) webui.ClearIncompatibleRequest { r := req; r.DryRun = dry; return r },
		func(c webui.ClearIncompatible) (string, string, bool) {
			if len(c.Pairs) == 0 {
				return "", "nothing is held against " + clean(c.WorkerID), true
			}
			return "", "would let " + clean(c.WorkerID) + " be given again: " + as(c), false
		})
	if done == nil || err != nil {
		return err
	}
	return a.print.value(*done, func(w io.Writer) {
		if len(done.Pairs) == 0 {
			fmt.Fprintf(w, "nothing is held against %s\n", clean(done.WorkerID))
			return
		}
		fmt.Fprintf(w, "%s may be given again: %s\n", clean(done.WorkerID), as(*done))
	})
}
