package main

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"raftmaster/transport/webui"
)

const (
	// completionTime is how long the shell waits for names; without an answer by then there are none.
	completionTime = 1500 * time.Millisecond
	// maxCompletions bounds the names that are offered.
	maxCompletions = 500
)

// completer gives names that begin with what was typed; each may have a description behind a tab.
type completer func(a *app, ctx context.Context) []string

// completions puts completers on the commands that have arguments or flags to complete. It is called once all commands
// are there.
func (a *app) completions(root *cobra.Command) {
	arguments := map[string]completer{
		"kill app": appNames(false), "kill driver": driverNames(true), "drain": workerNames, "undrain": workerNames, "decommission": workerNames,
		"driver-status": driverNames(false), "why-waiting": func(a *app, ctx context.Context) []string {
			return append(appNames(false)(a, ctx), driverNames(true)(a, ctx)...)
		},
		"compat clear": workerNames, "peers remove": masterNames, "peers promote": masterNames,
	}
	for path, names := range arguments {
		if cmd := a.find(root, path); cmd != nil && cmd.ValidArgsFunction == nil {
			cmd.ValidArgsFunction = a.complete(names, true)
		}
	}
	flags := map[string]completer{
		"transfer-leadership to": masterNames, "log-level node": func(a *app, ctx context.Context) []string { return append([]string{everyNode}, masterNames(a, ctx)...) },
		"executors app": appNames(true), "canary worker": workerNames, "compat clear app": appNames(true),
	}
	for path, names := range flags {
		i := strings.LastIndexByte(path, ' ')
		if cmd := a.find(root, path[:i]); cmd != nil && cmd.Flags().Lookup(path[i+1:]) != nil {
			mustComplete(cmd.RegisterFlagCompletionFunc(path[i+1:], a.complete(names, false)))
		}
	}
	root.InitDefaultCompletionCmd()
	if cmd := a.find(root, "completion"); cmd != nil {
		cmd.Args, cmd.RunE = cobra.ArbitraryArgs, unknownCommand("name the shell: completion bash, zsh, fish or powershell")
	}
	mustComplete(root.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"table", "json"}, cobra.ShellCompDirectiveNoFileComp)))
}

// mustComplete panics on a flag that does not exist or has a completion already, which is a mistake of the program.
func mustComplete(err error) {
	if err != nil {
		panic("raftctl: " + err.Error())
	}
}

func (a *app) find(root *cobra.Command, path string) *cobra.Command {
	cmd, rest, err := root.Find(strings.Fields(path))
	if err != nil || len(rest) > 0 {
		return nil
	}
	return cmd
}

// complete asks the cluster, for a moment. What goes wrong gives no names: nobody wants an error in the middle of a line.
func (a *app) complete(names completer, single bool) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		if single && len(args) > 0 || a.prepare(cmd) != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		parent := cmd.Context()
		if parent == nil {
			parent = context.Background()
		}
		ctx, cancel := context.WithTimeout(parent, completionTime)
		defer cancel()
		var out []string
		for _, name := range names(a, ctx) {
			if strings.HasPrefix(name, typed) && len(out) < maxCompletions {
				out = append(out, name)
			}
		}
		slices.Sort(out)
		return out, cobra.ShellCompDirectiveNoFileComp
	}
}

// described puts a description behind a name; neither may break the line.
func described(name, what string) string { return clean(name) + "\t" + clean(what) }

// completionList asks every endpoint at once and takes the answer of the leader, else any.
func completionList[T any](ctx context.Context, c *client, path string, alive func(T) bool) *T {
	var any *T
	for _, x := range askAll[T](ctx, c, path) {
		if x.err != nil {
			continue
		}
		if any == nil || alive(x.value) {
			any = &x.value
		}
	}
	return any
}

func workerNames(a *app, ctx context.Context) []string {
	v := completionList(ctx, a.client, "/v1/workers", func(v webui.WorkersAnswer) bool { return v.State == webui.StateAlive })
	var out []string
	for i := 0; v != nil && i < len(v.Workers); i++ {
		if w := &v.Workers[i]; w.State != "DEAD" {
			out = append(out, described(w.ID, w.Host+" "+w.State))
		}
	}
	return out
}

// appNames names the applications, with those that have ended or without.
func appNames(ended bool) completer {
	return func(a *app, ctx context.Context) []string {
		v := completionList(ctx, a.client, "/v1/apps", func(v webui.AppsAnswer) bool { return v.State == webui.StateAlive })
		var out []string
		for i := 0; v != nil && i < len(v.Apps); i++ {
			if x := &v.Apps[i]; x.Active || ended {
				out = append(out, described(x.ID, x.Name+" "+x.State))
			}
		}
		return out
	}
}

// driverNames names the drivers; active: only those that have not ended.
func driverNames(active bool) completer {
	return func(a *app, ctx context.Context) []string {
		v := completionList(ctx, a.client, "/v1/drivers", func(v webui.DriversAnswer) bool { return v.State == webui.StateAlive })
		var out []string
		for i := 0; v != nil && i < len(v.Drivers); i++ {
			if d := &v.Drivers[i]; !active || d.Active {
				out = append(out, described(d.ID, d.MainClass+" "+d.State))
			}
		}
		return out
	}
}

func masterNames(a *app, ctx context.Context) []string {
	v := completionList(ctx, a.client, "/v1/peers", func(v webui.PeersAnswer) bool { return v.State == webui.StateAlive })
	var out []string
	for i := 0; v != nil && i < len(v.Peers); i++ {
		if p := &v.Peers[i]; p.Address != "" {
			out = append(out, described(p.Address, p.Role+" "+p.NodeID))
		}
	}
	return out
}
