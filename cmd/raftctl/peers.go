package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"raftmaster/transport/webui"
)

// peersLate says what a call that was not answered in time leaves open.
const peersLate = "the change may still happen: look with raftctl peers list"

func (a *app) peersCommand() *cobra.Command {
	peers := &cobra.Command{Use: "peers", Short: "The masters of the cluster",
		Args: cobra.ArbitraryArgs, RunE: unknownCommand("name what to do: peers list, add, remove or promote"),
		SuggestionsMinimumDistance: suggestionDistance}
	peers.AddCommand(a.verb("list", "List the masters: role, contact, lag, version", a.peers), a.addPeerCommand(), a.removePeerCommand(), a.promotePeerCommand())
	return peers
}

// changeFlags are those of every verb that changes something.
type changeFlags struct{ yes, dryRun bool }

func (f *changeFlags) register(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.yes, "yes", false, "do not ask")
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "check everything and change nothing")
}

// verbWith makes a command with one argument.
func (a *app) verbWith(use, what, short string, run func(ctx context.Context, arg string) error) *cobra.Command {
	return &cobra.Command{Use: use + " " + what, Short: short,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return coded(exitUsage, "%s needs %s, and got %q", cmd.CommandPath(), what, args)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := a.prepare(cmd); err != nil {
				return err
			}
			return run(cmd.Context(), args[0])
		}}
}

func (a *app) addPeerCommand() *cobra.Command {
	var f changeFlags
	nonVoter, force, wait := false, false, webui.DefaultPeerWait
	cmd := a.verbWith("add", "NODE_ID@HOST:PORT", "Add a master: it gets the log first, and its vote when it holds it", func(ctx context.Context, arg string) error {
		id, address, ok := strings.Cut(arg, "@")
		if !ok || id == "" || address == "" {
			return coded(exitUsage, "%q: give NODE_ID@HOST:PORT; the new master logs its node id, and raftctl peers list shows it", arg)
		}
		if wait <= 0 || wait > webui.MaxPeerWait {
			return coded(exitUsage, "--wait %v: must be above 0 and at most %v", wait, webui.MaxPeerWait)
		}
		return a.addPeer(ctx, webui.AddPeerRequest{NodeID: id, Address: address, Voter: !nonVoter, WaitMillis: wait.Milliseconds()}, f, force)
	})
	f.register(cmd)
	cmd.Flags().BoolVar(&nonVoter, "non-voter", false, "give it no vote: raftctl peers promote does later")
	cmd.Flags().BoolVar(&force, "force", false, "even if no master with that id has been heard of at that address")
	cmd.Flags().DurationVar(&wait, "wait", wait, "how long it may take to catch up before it gets its vote")
	return cmd
}

func (a *app) addPeer(ctx context.Context, req webui.AddPeerRequest, f changeFlags, force bool) error {
	what := fmt.Sprintf("add %s at %s as a voter", clean(req.NodeID), clean(req.Address))
	if !req.Voter {
		what = fmt.Sprintf("add %s at %s without a vote", clean(req.NodeID), clean(req.Address))
	}
	slow := *a.client
	slow.timeout += req.Wait()
	done, err := a.changePeers(ctx, f, what, func(ctx context.Context, endpoint string, dry bool) (webui.PeerChange, error) {
		r, c := req, a.client
		if r.DryRun = dry; !dry && r.Voter {
			c = &slow
		}
		plan, err := post[webui.PeerChange](ctx, c, endpoint, "/v1/peers/add", r, peersLate)
		if err == nil && dry && !force {
			err = a.checkAnnounced(ctx, endpoint, r.NodeID, r.Address)
		}
		return plan, err
	})
	if done == nil || err != nil {
		return err
	}
	return a.print.value(*done, func(w io.Writer) {
		how := "is a voter"
		if !done.Voter {
			how = "is a member without a vote"
		}
		changeTable(w, *done, how, "raftctl peers remove "+clean(done.NodeID))
		if !done.Voter {
			fmt.Fprintf(w, "next: raftctl peers promote %s gives it a vote\n", clean(done.NodeID))
		}
	})
}

func (a *app) removePeerCommand() *cobra.Command {
	var f changeFlags
	force := false
	cmd := a.verbWith("remove", "ID|ADDRESS", "Remove a master for good", func(ctx context.Context, arg string) error {
		done, err := a.changePeers(ctx, f, "remove "+clean(arg), func(ctx context.Context, endpoint string, dry bool) (webui.PeerChange, error) {
			peer, err := a.peerNamed(ctx, endpoint, arg)
			if err != nil {
				return webui.PeerChange{}, err
			}
			return post[webui.PeerChange](ctx, a.client, endpoint, "/v1/peers/remove", webui.RemovePeerRequest{Peer: peer, Force: force, DryRun: dry}, peersLate)
		})
		if done == nil || err != nil {
			return err
		}
		return a.print.value(*done, func(w io.Writer) { removedTable(w, *done) })
	})
	f.register(cmd)
	cmd.Flags().BoolVar(&force, "force", false, "even if the cluster stops serving then, or if it is the leader")
	return cmd
}

func removedTable(w io.Writer, done webui.PeerChange) {
	undo := fmt.Sprintf("raftctl peers add %s@%s", clean(done.NodeID), clean(done.Address))
	if !done.Voter {
		undo += " --non-voter"
	}
	changeTable(w, done, "is no member any more", undo+" (while its data directory is kept)")
	if done.Reachable {
		fmt.Fprintf(w, "next: stop the master at %s: it runs on, and serves nothing\n", clean(done.Address))
	}
}

func (a *app) promotePeerCommand() *cobra.Command {
	var f changeFlags
	cmd := a.verbWith("promote", "ID|ADDRESS", "Give a vote to a master that was added without one", func(ctx context.Context, arg string) error {
		done, err := a.changePeers(ctx, f, "give a vote to "+clean(arg), func(ctx context.Context, endpoint string, dry bool) (webui.PeerChange, error) {
			peer, err := a.peerNamed(ctx, endpoint, arg)
			if err != nil {
				return webui.PeerChange{}, err
			}
			return post[webui.PeerChange](ctx, a.client, endpoint, "/v1/peers/promote", webui.PromotePeerRequest{Peer: peer, DryRun: dry}, peersLate)
		})
		if done == nil || err != nil {
			return err
		}
		return a.print.value(*done, func(w io.Writer) {
			id := clean(done.NodeID)
			changeTable(w, *done, "is a voter", fmt.Sprintf("raftctl peers remove %s; raftctl peers add %s@%s --non-voter", id, id, clean(done.Address)))
		})
	})
	f.register(cmd)
	return cmd
}

// changePeers asks the leader for a dry run first, so that the question names what is left afterwards, and then does it.
// It gives nil after a dry run, which it has printed.
func (a *app) changePeers(ctx context.Context, f changeFlags, what string,
	call func(ctx context.Context, endpoint string, dry bool) (webui.PeerChange, error)) (*webui.PeerChange, error) {
	endpoint, err := a.leaderToChange(ctx)
	if err != nil {
		return nil, err
	}
	plan, err := call(ctx, endpoint, true)
	if err != nil {
		return nil, err
	}
	if f.dryRun {
		return nil, a.print.value(plan, func(w io.Writer) {
			fmt.Fprintf(w, "would %s; nothing was changed\n", what)
			fmt.Fprintf(w, "now:        %s\nafterwards: %s\n", votes(plan.Before), votes(plan.After))
		})
	}
	question := fmt.Sprintf("Now: %s.\nAfterwards: %s.\n%s?", votes(plan.Before), votes(plan.After), strings.ToUpper(what[:1])+what[1:])
	if err := a.term.confirm(f.yes, question); err != nil {
		return nil, err
	}
	start := time.Now()
	done, err := call(ctx, endpoint, false)
	if err != nil {
		return nil, err
	}
	if took := time.Since(start); took > time.Second {
		a.note("after %v", took.Round(100*time.Millisecond))
	}
	return &done, nil
}

func changeTable(w io.Writer, c webui.PeerChange, how, undo string) {
	fmt.Fprintf(w, "%s at %s %s\n", clean(c.NodeID), clean(c.Address), how)
	fmt.Fprintf(w, "before: %s\nnow:    %s\n", votes(c.Before), votes(c.After))
	switch {
	case c.After.Tolerance < 0:
		fmt.Fprintln(w, "WARNING: no majority is in contact: the cluster serves nothing until more voters are up")
	case c.After.Tolerance == 0 && c.After.Voters > 1:
		fmt.Fprintln(w, "note: the loss of one more master stops the cluster")
	}
	fmt.Fprintf(w, "undo: %s\n", undo)
}

func votes(v webui.Votes) string {
	return fmt.Sprintf("%d of %d voters in contact, %d needed, tolerance left %d", v.Reachable, v.Voters, v.Needed, v.Tolerance)
}
