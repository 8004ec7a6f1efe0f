package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/spf13/cobra"

	"raftmaster/cluster/backup"
	"raftmaster/transport/webui"
)

// restoreLate says what a call that was not answered in time leaves open.
const restoreLate = "the snapshot may still be restored: look with raftctl events"

// restorePatience is added to the time of an answer for reading, checking and committing a snapshot.
const restorePatience = 10 * time.Minute

func (a *app) snapshotCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "snapshot", Short: "Save, look at and restore the state of the cluster",
		Args: cobra.ArbitraryArgs, RunE: unknownCommand("name what to do: snapshot save, inspect or restore"),
		SuggestionsMinimumDistance: suggestionDistance}
	cmd.AddCommand(a.saveCommand(),
		a.verbWith("inspect", "FILE", "Verify a snapshot and say what is in it; needs no master", func(_ context.Context, file string) error { return a.inspectSnapshot(file) }),
		a.restoreCommand())
	return cmd
}

// snapshotResult is the JSON of save and inspect.
type snapshotResult struct {
	File string `json:"file"`
	backup.Info
	Counts     webui.RestoreCounts `json:"counts"`
	ChecksumOK bool                `json:"checksum_ok"`
}

func resultOf(file string, info backup.Info) snapshotResult {
	t := info.Totals
	return snapshotResult{File: file, Info: info, ChecksumOK: true, Counts: webui.RestoreCounts{
		WorkersLive: t.Workers.Alive + t.Workers.Decommissioned, WorkersDead: t.Workers.Dead,
		AppsActive: t.AppsWaiting + t.AppsRunning, AppsCompleted: t.AppsCompleted,
		Executors:     t.ExecutorsLaunching + t.ExecutorsRunning + t.ExecutorsDecommissioned,
		DriversActive: t.DriversWaiting + t.DriversRunning, DriversCompleted: t.DriversCompleted,
	}}
}

func (r snapshotResult) table(w io.Writer) {
	row(w, "cluster:", r.ClusterID)
	row(w, "taken:", stamp(r.TakenMillis)+" at "+r.Address+" (node "+r.Node+")")
	row(w, "state:", fmt.Sprintf("index %d, term %d, digest %s", r.Index, r.Term, r.Digest))
	row(w, "release:", fmt.Sprintf("%s, formats %d and %d", r.Release, r.Format, r.StateFormat))
	row(w, "size:", fmt.Sprintf("%d bytes, checksum ok", r.Size))
	c := r.Counts
	row(w, "workers:", fmt.Sprintf("%d live, %d dead", c.WorkersLive, c.WorkersDead))
	row(w, "applications:", fmt.Sprintf("%d active with %s, %d completed", c.AppsActive, plural(c.Executors, "executor"), c.AppsCompleted))
	row(w, "drivers:", fmt.Sprintf("%d active, %d completed", c.DriversActive, c.DriversCompleted))
}

func (a *app) saveCommand() *cobra.Command {
	from := "any"
	cmd := a.verbWith("save", "FILE|-", "Save the state to a file, from any master; - is standard output", func(ctx context.Context, file string) error {
		if from != "any" && from != "leader" {
			return coded(exitUsage, "--from %s: must be leader or any", from)
		}
		return a.saveSnapshot(ctx, file, from == "leader")
	})
	cmd.Long = "Save the state of the cluster to a file of mode 0600: under a temporary name first, renamed when its checksum holds.\n" +
		"The file holds what applications and drivers were submitted with, secrets included: keep it as you keep those."
	cmd.Flags().StringVar(&from, "from", from, "leader, or any: the leader if there is one, else the master that is the most advanced of those that answer")
	return cmd
}

// saveSource picks the master to save from. Without a leader any master will do: its copy may lack the last entries.
func (a *app) saveSource(ctx context.Context, leaderOnly bool) (string, error) {
	s := a.client.survey(ctx)
	leader, err := a.client.findLeader(ctx, s)
	if err == nil || leaderOnly {
		return leader, err
	}
	best := s.best()
	if best == nil {
		return "", err
	}
	a.note("raftctl: there is no leader; saving the copy of %s, which has applied entry %d", best.value.Address, best.value.AppliedIndex)
	return best.endpoint, nil
}

func (a *app) saveSnapshot(ctx context.Context, file string, leaderOnly bool) error {
	if file == "-" && a.term.size != nil {
		return coded(exitUsage, "a snapshot is not for a terminal: give a file, or a pipe")
	}
	endpoint, err := a.saveSource(ctx, leaderOnly)
	if err != nil {
		return err
	}
	var info backup.Info
	err = a.download(ctx, endpoint, func(body io.Reader) (err error) {
		if file == "-" {
			if info, _, err = backup.Read(io.TeeReader(body, a.term.out)); err != nil {
				return fmt.Errorf("what was written is not whole: %w", err)
			}
			return nil
		}
		info, err = backup.SaveFile(file, func(w io.Writer) error { _, err := io.Copy(w, body); return err })
		return err
	})
	if err != nil {
		return err
	}
	r := resultOf(file, info)
	if file == "-" {
		a.note("saved: index %d of cluster %s, %d bytes, checksum ok", r.Index, clean(r.ClusterID), r.Size)
		return nil
	}
	return a.print.value(r, func(w io.Writer) {
		fmt.Fprintf(w, "saved %s\n", clean(file))
		r.table(w)
		fmt.Fprintf(w, "next: raftctl snapshot restore %s --dry-run says what a restore would do\n", clean(file))
	})
}

// download asks for a snapshot and hands its bytes to take. Each part of it may take as long as one answer.
func (a *app) download(ctx context.Context, endpoint string, take func(io.Reader) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	late := coded(exitTimeout, "%s sent nothing for %v: nothing was saved", endpoint, a.timeout)
	watchdog := time.AfterFunc(a.timeout, func() { cancel(late) })
	defer watchdog.Stop()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, endpoint+"/v1/snapshot", nil)
	if err != nil {
		return err
	}
	resp, err := a.client.send(req)
	if err != nil {
		return fmt.Errorf("%s: %w", endpoint, cmpCause(ctx, err))
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != webui.SnapshotContentType {
		return a.callFailed(endpoint, decode(resp, "/v1/snapshot", &struct{}{}))
	}
	p := a.newProgress("received", headerBytes(resp))
	defer p.end()
	err = take(readerFunc(func(b []byte) (int, error) {
		n, err := resp.Body.Read(b)
		watchdog.Reset(a.timeout)
		p.add(n)
		return n, err
	}))
	if err != nil {
		return fmt.Errorf("%s: %w", endpoint, cmpCause(ctx, err))
	}
	return nil
}

// cmpCause gives the reason why a call was given up instead of what came of it.
func cmpCause(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && ctx.Err() != nil {
		return cause
	}
	return err
}

// callFailed gives a failed call its exit code and a hint.
func (a *app) callFailed(endpoint string, err error) error {
	var e *apiError
	switch {
	case err == nil:
		return coded(exitError, "%s: this is no raftmaster, or one of another release: it sent no snapshot", endpoint)
	case errors.As(err, &e):
		return &codedError{apiExitCode(e), fmt.Errorf("%s: %s%s", endpoint, e.body.Message, hint(e, a.client.token != ""))}
	}
	return fmt.Errorf("%s: %w", endpoint, err)
}

func (a *app) inspectSnapshot(file string) error {
	info, err := inspectFile(file)
	if err != nil {
		return err
	}
	r := resultOf(file, info)
	return a.print.value(r, r.table)
}

// inspectFile verifies a file and gives its failure an exit code.
func inspectFile(file string) (backup.Info, error) {
	info, err := backup.Inspect(file)
	switch {
	case err == nil:
		return info, nil
	case errors.Is(err, backup.ErrNewer):
		return info, coded(exitRefused, "%w", err)
	case errors.Is(err, backup.ErrDamaged):
		return info, coded(exitError, "%w\nnext: take another copy of it, or an older snapshot", err)
	case errors.Is(err, os.ErrNotExist):
		return info, coded(exitUsage, "%w", err)
	}
	return info, coded(exitError, "%w", err)
}
