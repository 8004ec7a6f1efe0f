package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"raftmaster/transport/webui"
)

// What a call that was not answered in time leaves open.
const (
	killLate   = "the kill may still happen: look with raftctl apps or raftctl drivers"
	workerLate = "the change may still happen: look with raftctl workers"
	clearLate  = "the lists may still be cleared: look with raftctl apps"
)

// operate asks the leader for a dry run first, so that the question names what will be changed, and then does it. It gives
// nil after a dry run, which it has printed. nothing: the plan changes nothing, so that nobody needs to be asked.
func operate[Req, Answer any](ctx context.Context, a *app, f changeFlags, path, late string, req func(dry bool) Req,
	question func(Answer) (ask, would string, nothing bool)) (*Answer, error) {
	endpoint, err := a.leaderToChange(ctx)
	if err != nil {
		return nil, err
	}
	plan, err := post[Answer](ctx, a.client, endpoint, path, req(true), late)
	if err != nil {
		return nil, err
	}
	ask, would, nothing := question(plan)
	if f.dryRun {
		return nil, a.print.value(plan, func(w io.Writer) { fmt.Fprintf(w, "%s; nothing was changed\n", would) })
	}
	if !nothing {
		if err := a.term.confirm(f.yes, ask); err != nil {
			return nil, err
		}
	}
	done, err := post[Answer](ctx, a.client, endpoint, path, req(false), late)
	if err != nil {
		return nil, err
	}
	return &done, nil
}

func (a *app) killCommand() *cobra.Command {
	kill := &cobra.Command{Use: "kill", Short: "End an application or a driver",
		Args: cobra.ArbitraryArgs, RunE: unknownCommand("name what to kill: kill app ID, or kill driver ID"),
		SuggestionsMinimumDistance: suggestionDistance}
	var f changeFlags
	cmd := a.verbWith(webui.KindApp, "ID", "End an application as KILLED; its driver is told, its executors are killed",
		func(ctx context.Context, id string) error { return a.kill(ctx, webui.KindApp, id, f) })
	f.register(cmd)
	kill.AddCommand(cmd, a.killDriverCommand())
	return kill
}

func (a *app) kill(ctx context.Context, kind, id string, f changeFlags) error {
	noun := map[string]string{webui.KindApp: "application", webui.KindDriver: "driver"}[kind]
	done, err := operate(ctx, a, f, "/v1/kill", killLate,
		func(dry bool) webui.KillRequest { return webui.KillRequest{Kind: kind, ID: id, DryRun: dry} },
		func(k webui.Kill) (string, string, bool) {
			if k.Already {
				return "", clean(k.Message), true
			}
			what := fmt.Sprintf("%s %s (%s)", noun, clean(k.ID), clean(strings.TrimPrefix(k.Name+", "+k.State, ", ")))
			if kind == webui.KindApp {
				what += fmt.Sprintf(", which holds %s and %s", plural(k.Executors, "executor"), plural(k.Cores, "core"))
			}
			return "Kill " + what + "? This cannot be undone.", "would kill " + what, false
		})
	if done == nil || err != nil {
		return err
	}
	return a.print.value(*done, func(w io.Writer) {
		fmt.Fprintln(w, clean(done.Message))
		if kind == webui.KindDriver && !done.Done && !done.Already {
			fmt.Fprintf(w, "next: raftctl driver-status %s says when its worker has ended it\n", clean(done.ID))
		}
	})
}

func (a *app) drainCommand(on bool) *cobra.Command {
	var f changeFlags
	idleOnly := false
	use, short := "drain", "Keep new work away from a worker; what runs there goes on"
	if !on {
		use, short = "undrain", "Let new work come to a drained worker again"
	}
	cmd := a.verbWith(use, "WORKER", short, func(ctx context.Context, worker string) error {
		return a.drain(ctx, webui.DrainRequest{Worker: worker, On: on, IdleOnly: idleOnly}, f)
	})
	f.register(cmd)
	if on {
		cmd.Flags().BoolVar(&idleOnly, "idle-only", false, "refuse unless no executor and no driver is there")
	}
	return cmd
}

// drain asks nobody: it can be undone, and ends nothing.
func (a *app) drain(ctx context.Context, req webui.DrainRequest, f changeFlags) error {
	verb := map[bool]string{true: "drain", false: "undrain"}[req.On]
	f.yes = true
	done, err := operate(ctx, a, f, "/v1/drain", workerLate,
		func(dry bool) webui.DrainRequest { r := req; r.DryRun = dry; return r },
		func(c webui.WorkerChange) (string, string, bool) {
			return "", "would " + verb + " " + workersAs(c), c.Changed == 0
		})
	if done == nil || err != nil {
		return err
	}
	return a.print.value(*done, func(w io.Writer) {
		for _, x := range done.Workers {
			switch {
			case x.State == "DECOMMISSIONED":
				fmt.Fprintf(w, "%s is DECOMMISSIONED and never gets new work, %sed or not\n", clean(x.ID), verb)
			case done.Changed == 0:
				fmt.Fprintf(w, "%s was %sed already\n", clean(x.ID), verb)
			case req.On:
				fmt.Fprintf(w, "%s gets no new work; it holds %s and %s\nundo: raftctl undrain %s\n", clean(x.ID),
					plural(x.Executors, "executor"), plural(x.Drivers, "driver"), clean(x.ID))
			default:
				fmt.Fprintf(w, "%s gets new work again\nundo: raftctl drain %s\n", clean(x.ID), clean(x.ID))
			}
		}
	})
}

func (a *app) decommissionCommand() *cobra.Command {
	var f changeFlags
	var hosts []string
	cmd := &cobra.Command{Use: "decommission WORKER | decommission --host HOST", Short: "Decommission a worker, or all workers of hosts, for the rest of their lives",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args)+min(len(hosts), 1) != 1 {
				return coded(exitUsage, "%s needs a worker, or --host, and got %q", cmd.CommandPath(), args)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := a.prepare(cmd); err != nil {
				return err
			}
			req := webui.DecommissionRequest{Hosts: hosts}
			if len(args) == 1 {
				req.Worker = args[0]
			}
			return a.decommission(cmd.Context(), req, f)
		}}
	f.register(cmd)
	cmd.Flags().StringSliceVar(&hosts, "host", nil, "all workers of this host; may be repeated")
	return cmd
}

func (a *app) decommission(ctx context.Context, req webui.DecommissionRequest, f changeFlags) error {
	done, err := operate(ctx, a, f, "/v1/decommission", workerLate,
		func(dry bool) webui.DecommissionRequest { r := req; r.DryRun = dry; return r },
		func(c webui.WorkerChange) (string, string, bool) {
			return "Decommission " + workersAs(c) + "? They never take work again, and this cannot be undone.", "would decommission " + workersAs(c), c.Changed == 0
		})
	if done == nil || err != nil {
		return err
	}
	return a.print.value(*done, func(w io.Writer) {
		for _, x := range done.Workers {
			if x.State == "DECOMMISSIONED" {
				fmt.Fprintf(w, "%s was decommissioned already\n", clean(x.ID))
				continue
			}
			fmt.Fprintf(w, "%s is DECOMMISSIONED; %s and %s were there\n", clean(x.ID), plural(x.Executors, "executor"), plural(x.Drivers, "driver"))
		}
	})
}

// maxNamedWorkers bounds the workers that a question names.
const maxNamedWorkers = 10

// workersAs names the workers of a change with what is there.
func workersAs(c webui.WorkerChange) string {
	var names []string
	executors, drivers := 0, 0
	for i, x := range c.Workers {
		executors, drivers = executors+x.Executors, drivers+x.Drivers
		if i < maxNamedWorkers {
			names = append(names, clean(x.ID))
		}
	}
	if n := len(c.Workers) - len(names); n > 0 {
		names = append(names, fmt.Sprintf("%d more", n))
	}
	return fmt.Sprintf("%s (%s and %s there)", strings.Join(names, ", "), plural(executors, "executor"), plural(drivers, "driver"))
}

func (a *app) clearCommand() *cobra.Command {
	var f changeFlags
	cmd := a.verb("clear", "Forget the completed applications and drivers", func(ctx context.Context) error { return a.clear(ctx, f) })
	f.register(cmd)
	return cmd
}

func (a *app) clear(ctx context.Context, f changeFlags) error {
	as := func(c webui.Clear) string {
		return fmt.Sprintf("%s and %s", plural(c.Apps, "completed application"), plural(c.Drivers, "completed driver"))
	}
	done, err := operate(ctx, a, f, "/v1/clear", clearLate,
		func(dry bool) webui.ClearRequest { return webui.ClearRequest{DryRun: dry} },
		func(c webui.Clear) (string, string, bool) {
			return "Forget " + as(c) + "? This cannot be undone.", "would forget " + as(c), c.Apps+c.Drivers == 0
		})
	if done == nil || err != nil {
		return err
	}
	return a.print.value(*done, func(w io.Writer) { fmt.Fprintf(w, "forgotten: %s\n", as(*done)) })
}

// plural counts things in words: "1 core", "2 cores".
func plural(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
