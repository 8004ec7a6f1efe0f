package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/hashicorp/go-hclog"
	"github.com/spf13/cobra"

	"raftmaster/cluster/config"
	"raftmaster/cluster/node"
	"raftmaster/cluster/raftstore"
	"raftmaster/cluster/security"
)

// recoverFlags are those of recover beside the ones of every change.
type recoverFlags struct {
	changeFlags
	dataDir, peers, address, reason, backupDir string
	single, force                              bool
	tls                                        config.ClusterTLS
}

func (a *app) recoverCommand() *cobra.Command {
	var f recoverFlags
	cmd := a.verb("recover", "Rewrite the list of voters in a stopped master's data directory, after the loss of a majority for good", nil)
	cmd.Long = "Rewrite the list of voters in the data directory of a stopped master: after the loss of a majority of the masters for good\n" +
		"(--single, on the survivor that is the most advanced), or after all masters have moved to other addresses (--peers, on each).\n\n" +
		"It works without any master, on the machine with the data directory. It looks at everything first and refuses (exit code 5) while\n" +
		"a master uses the directory, or while one of the other members can be reached and knows a leader. Then it makes a copy of the\n" +
		"directory beside it. Entries that were never acknowledged may count as committed afterwards."
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := a.prepare(cmd); err != nil {
			return err
		}
		return a.recover(cmd.Context(), f)
	}
	f.register(cmd)
	fs := cmd.Flags()
	fs.StringVar(&f.dataDir, "data-dir", "", "the stopped master's data directory")
	fs.StringVar(&f.peers, "peers", "", "all voters from now on, this master among them: NODE_ID@HOST:PORT,...; the same list on every master")
	fs.BoolVar(&f.single, "single", false, "this master is the only voter from now on")
	fs.StringVar(&f.address, "address", "", "with --single: its address from now on, HOST:PORT (default: the one that it had)")
	fs.BoolVar(&f.force, "force", false, "do not ask the other members whether they know a leader; needs --reason. Two halves of one cluster may then go on apart")
	fs.StringVar(&f.backupDir, "backup-dir", "", "where the copy of the data directory goes (default: beside it)")
	fs.StringVar(&f.reason, "reason", "", "why --force is right: it is kept beside the copy of the directory")
	fs.StringVar(&f.tls.Cert, "cluster-tls-cert", "", "certificate of this master, where masters use TLS between each other")
	fs.StringVar(&f.tls.Key, "cluster-tls-key", "", "its key")
	fs.StringVar(&f.tls.CA, "cluster-tls-ca", "", "the authority of the masters' certificates")
	return cmd
}

// check refuses flags that do not fit together.
func (f recoverFlags) check() error {
	switch {
	case f.dataDir == "":
		return coded(exitUsage, "name the data directory: --data-dir DIR")
	case f.single == (f.peers != ""):
		return coded(exitUsage, "say who the voters are: either --single, or --peers NODE_ID@HOST:PORT,...")
	case f.address != "" && !f.single:
		return coded(exitUsage, "--address goes with --single; --peers has the addresses in it")
	case f.force && strings.TrimSpace(f.reason) == "":
		return coded(exitUsage, "--force needs --reason: what makes you sure that no other master of this cluster leads, or will? two halves of a cluster that go on apart cannot be joined again")
	case f.reason != "" && !f.force:
		return coded(exitUsage, "--reason goes with --force")
	}
	return needDataDir(f.dataDir)
}

// identityName is the file that makes a directory a master's.
const identityName = "identity.json"

// needDataDir refuses what is no data directory: to open one makes it.
func needDataDir(dir string) error {
	if _, err := os.Stat(filepath.Join(dir, identityName)); errors.Is(err, fs.ErrNotExist) {
		return coded(exitUsage, "%s is no data directory of a master: it has no %s", dir, identityName)
	} else if err != nil {
		return err
	}
	return nil
}

// members reads --peers.
func (f recoverFlags) members() ([]node.Member, error) {
	if f.single {
		return nil, nil
	}
	var out []node.Member
	seen := map[string]bool{}
	for _, p := range strings.Split(f.peers, ",") {
		id, address, ok := strings.Cut(strings.TrimSpace(p), "@")
		if !ok || id == "" {
			return nil, coded(exitUsage, "--peers: %q: give NODE_ID@HOST:PORT; a dry run with --single shows the ids of the members", p)
		}
		address, err := oneAddress("--peers", address)
		if err != nil {
			return nil, err
		}
		if seen[id] || seen[address] {
			return nil, coded(exitUsage, "--peers: %q names an id or an address a second time", p)
		}
		seen[id], seen[address] = true, true
		out = append(out, node.Member{NodeID: id, Address: address})
	}
	return out, nil
}

func oneAddress(flag, text string) (string, error) {
	list, err := config.ParseCluster(text)
	if err != nil || len(list) != 1 {
		return "", coded(exitUsage, "%s: %q is no HOST:PORT", flag, text)
	}
	return list[0].String(), nil
}

func (a *app) recover(ctx context.Context, f recoverFlags) error {
	if err := f.check(); err != nil {
		return err
	}
	members, err := f.members()
	if err != nil {
		return err
	}
	if f.address != "" {
		if f.address, err = oneAddress("--address", f.address); err != nil {
			return err
		}
	}
	o := node.RecoverOptions{DataDir: f.dataDir, Members: members, Address: f.address, BackupDir: f.backupDir, DryRun: true, Force: f.force, Logger: hclog.NewNullLogger()}
	if f.tls.On() {
		own, err := f.ownAddress(members)
		if err != nil {
			return err
		}
		self, err := config.ParseCluster(own)
		if err != nil || len(self) != 1 {
			return coded(exitUsage, "TLS between masters needs this master's own address: give --address, or --peers with this master in it")
		}
		if o.TLS, err = security.ForTool(f.tls, self[0]); err != nil {
			return &codedError{exitUsage, err}
		}
	}
	plan, err := node.Recover(ctx, o)
	if err != nil {
		return a.recoverFailed(plan, err)
	}
	if f.dryRun {
		return a.print.value(resultOfRecover(plan, true), func(w io.Writer) {
			recoverTable(w, plan)
			fmt.Fprintln(w, "this was a dry run; nothing was changed")
		})
	}
	question := fmt.Sprintf("Rewrite the voters of %s from %s to %s? Every entry up to %d counts as committed then. A copy is made first.", clean(f.dataDir),
		memberList(plan.Before), memberList(plan.After), plan.LastIndex)
	if len(plan.NotAnswer) > 0 {
		question += fmt.Sprintf("\n%s did not answer: be sure that no master runs there, unreachable from here. ", clean(strings.Join(plan.NotAnswer, ", ")))
	}
	if err := a.term.confirm(f.yes, question); err != nil {
		return err
	}
	o.DryRun = false
	done, err := node.Recover(ctx, o)
	if err != nil {
		return a.recoverFailed(done, err)
	}
	if f.force {
		if err := os.WriteFile(filepath.Join(done.Backup, "forced.txt"), []byte(f.reason+"\n"), 0o600); err != nil {
			a.note("raftctl: the reason was not kept: %v", err)
		}
	}
	return a.print.value(resultOfRecover(done, false), func(w io.Writer) {
		recoverTable(w, done)
		fmt.Fprintf(w, "done; the directory as it was: %s\n", clean(done.Backup))
		nextAfterRecover(w, f, done)
	})
}

// ownAddress is where this master is from now on, as far as the flags say it.
func (f recoverFlags) ownAddress(members []node.Member) (string, error) {
	raw, err := os.ReadFile(filepath.Join(f.dataDir, identityName))
	if err != nil {
		return "", err
	}
	var id struct {
		NodeID string `json:"node_id"`
	}
	if err := json.Unmarshal(raw, &id); err != nil {
		return "", coded(exitError, "%s is damaged: %w", filepath.Join(f.dataDir, identityName), err)
	}
	for _, m := range members {
		if m.NodeID == id.NodeID {
			return m.Address, nil
		}
	}
	return f.address, nil
}

// recoverFailed gives a refusal its exit code and says what was found out.
func (a *app) recoverFailed(r node.RecoverReport, err error) error {
	found := ""
	if len(r.Before) > 0 {
		found = "\n  members so far: " + memberList(r.Before)
	}
	if len(r.NotAnswer) > 0 {
		found += "\n  no answer:      " + clean(strings.Join(r.NotAnswer, ", "))
	}
	switch {
	case errors.Is(err, raftstore.ErrInUse):
		return coded(exitRefused, "%w\nnext: stop that master; recover works on the directory of a stopped one", err)
	case errors.Is(err, node.ErrUnsafe):
		return coded(exitRefused, "%w%s\nnothing was changed", err, found)
	case r.Backup != "":
		return coded(exitError, "%w\nthe directory as it was: %s", err, r.Backup)
	}
	return coded(exitError, "%w%s\nnothing was changed", err, found)
}

// recoverResult is the JSON of recover.
type recoverResult struct {
	NodeID             string   `json:"node_id"`
	ClusterID          string   `json:"cluster_id"`
	Before             []string `json:"before"`
	After              []string `json:"after"`
	LastIndex          uint64   `json:"last_index"`
	Digest             string   `json:"digest"`
	Workers            int      `json:"workers"`
	ActiveApplications int      `json:"active_applications"`
	UnfinishedDrivers  int      `json:"unfinished_drivers"`
	Backup             string   `json:"backup"`
	// Reachable members answered and knew no leader; the others did not answer.
	Reachable []string `json:"reachable"`
	NoAnswer  []string `json:"no_answer"`
	DryRun    bool     `json:"dry_run"`
}

func resultOfRecover(r node.RecoverReport, dryRun bool) recoverResult {
	names := func(list []node.Member) []string {
		out := make([]string, len(list))
		for i, m := range list {
			out[i] = m.NodeID + "@" + m.Address
		}
		return out
	}
	return recoverResult{NodeID: r.NodeID, ClusterID: r.ClusterID, Before: names(r.Before), After: names(r.After), LastIndex: r.LastIndex, Digest: r.Digest,
		Workers: r.Workers, ActiveApplications: r.Active, UnfinishedDrivers: r.Drivers, Backup: r.Backup, Reachable: append([]string{}, r.Reachable...),
		NoAnswer: append([]string{}, r.NotAnswer...), DryRun: dryRun}
}

func memberList(list []node.Member) string {
	out := make([]string, len(list))
	for i, m := range list {
		out[i] = clean(m.NodeID + "@" + m.Address)
	}
	return strings.Join(out, ", ")
}

func recoverTable(w io.Writer, r node.RecoverReport) {
	row(w, "node:", r.NodeID)
	row(w, "cluster:", r.ClusterID)
	row(w, "voters now:", memberList(r.Before))
	row(w, "voters then:", memberList(r.After))
	row(w, "log:", fmt.Sprintf("up to entry %d", r.LastIndex))
	row(w, "state:", fmt.Sprintf("%s, %s, %s; digest %s", plural(r.Workers, "worker"), plural(r.Active, "active application"), plural(r.Drivers, "unfinished driver"), r.Digest))
	row(w, "answered, without a leader:", orNone(r.Reachable))
	row(w, "did not answer:", orNone(r.NotAnswer))
}

// nextAfterRecover prints the commands that come next.
func nextAfterRecover(w io.Writer, f recoverFlags, r node.RecoverReport) {
	addresses := make([]string, len(r.After))
	for i, m := range r.After {
		addresses[i] = m.Address
	}
	if f.single {
		fmt.Fprintf(w, "next, here:       raftmaster server --cluster spark://%s --data-dir %s   # and its other flags\n", clean(addresses[0]), clean(f.dataDir))
		fmt.Fprintln(w, "next, elsewhere:  start each new master on an EMPTY data directory, with the whole list as --cluster; it logs its node id")
		fmt.Fprintln(w, "next, for each:   raftctl peers add NODE_ID@HOST:PORT")
		fmt.Fprintln(w, "never start a lost master on its old directory again: it believes in the old voters")
		return
	}
	fmt.Fprintf(w, "next, on every other master: raftctl recover --data-dir DIR --peers %s\n", clean(f.peers))
	fmt.Fprintf(w, "then, on each:               raftmaster server --cluster spark://%s --data-dir DIR   # and its other flags\n", clean(strings.Join(addresses, ",")))
	fmt.Fprintln(w, "then:                        raftctl health; raftctl hash")
}
