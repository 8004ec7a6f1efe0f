package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"raftmaster/transport/webui"
)

func (a *app) restoreCommand() *cobra.Command {
	var f changeFlags
	other := false
	cmd := a.verbWith("restore", "FILE", "Put a snapshot in the place of the state, on all masters", func(ctx context.Context, file string) error {
		return a.restoreSnapshot(ctx, file, other, f)
	})
	cmd.Long = "Put a snapshot in the place of the state of the cluster, through its leader, on all masters at once.\n\n" +
		"Bookings, marks, the order of the queue and the history come from the snapshot. What has registered since stays registered,\n" +
		"what has ended since stays ended, drivers stay where they run, and no id is given a second time. Executors that were launched\n" +
		"since are killed by their workers and replaced."
	f.register(cmd)
	cmd.Flags().BoolVar(&other, "force-other-cluster", false, "even if the snapshot is of another cluster and this one is in use")
	return cmd
}

func (a *app) restoreSnapshot(ctx context.Context, file string, other bool, f changeFlags) error {
	if _, err := inspectFile(file); err != nil {
		return err
	}
	endpoint, err := a.leaderToChange(ctx)
	if err != nil {
		return err
	}
	plan, err := a.upload(ctx, endpoint, file, webui.RestoreRequest{DryRun: true, ForceOtherCluster: other})
	if err != nil {
		return err
	}
	if f.dryRun {
		return a.print.value(plan, func(w io.Writer) {
			restoreTable(w, plan)
			fmt.Fprintln(w, "this was a dry run; nothing was changed")
		})
	}
	question := fmt.Sprintf("Restore index %d of cluster %s, taken %s? %s", plan.Index, clean(plan.Cluster), stamp(plan.TakenMillis), restoreCost(plan))
	if err := a.term.confirm(f.yes, question); err != nil {
		return err
	}
	done, err := a.upload(ctx, endpoint, file, webui.RestoreRequest{ForceOtherCluster: other})
	if err != nil {
		return err
	}
	return a.print.value(done, func(w io.Writer) {
		restoreTable(w, done)
		fmt.Fprintf(w, "restored %s on all masters\n", clean(file))
		fmt.Fprintln(w, "next: raftctl hash compares the masters; raftctl status says which workers are still awaited")
	})
}

// restoreCost says what a restore takes from those who run now.
func restoreCost(r webui.Restore) string {
	s := "no running executor is killed"
	if r.Unbooked > 0 {
		s = plural(r.Unbooked, "running executor") + " will be killed and replaced"
	}
	if r.KeptApps+r.KeptDrivers > 0 {
		s += fmt.Sprintf("; %s and %s that the snapshot does not know stay", plural(r.KeptApps, "application"), plural(r.KeptDrivers, "driver"))
	}
	if r.EndedApps+r.EndedDrivers > 0 {
		s += fmt.Sprintf("; %s and %s of the snapshot have ended since and stay so", plural(r.EndedApps, "application"), plural(r.EndedDrivers, "driver"))
	}
	return s + "."
}

func restoreTable(w io.Writer, r webui.Restore) {
	row(w, "COUNT", "NOW", "SNAPSHOT", "AFTER")
	for _, l := range []struct {
		name string
		of   func(webui.RestoreCounts) int
	}{
		{"workers live", func(c webui.RestoreCounts) int { return c.WorkersLive }},
		{"workers dead", func(c webui.RestoreCounts) int { return c.WorkersDead }},
		{"applications active", func(c webui.RestoreCounts) int { return c.AppsActive }},
		{"applications completed", func(c webui.RestoreCounts) int { return c.AppsCompleted }},
		{"executors", func(c webui.RestoreCounts) int { return c.Executors }},
		{"drivers active", func(c webui.RestoreCounts) int { return c.DriversActive }},
		{"drivers completed", func(c webui.RestoreCounts) int { return c.DriversCompleted }},
	} {
		row(w, l.name, l.of(r.Before), l.of(r.Snapshot), l.of(r.After))
	}
	fmt.Fprintln(w, restoreCost(r))
	if r.OtherCluster {
		fmt.Fprintf(w, "the snapshot is of another cluster, %s: this one keeps its own id\n", clean(r.Cluster))
	}
}

// upload sends a snapshot to the leader.
func (a *app) upload(ctx context.Context, endpoint, file string, r webui.RestoreRequest) (webui.Restore, error) {
	var out webui.Restore
	f, err := os.Open(file)
	if err != nil {
		return out, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return out, err
	}
	ctx, cancel := context.WithTimeout(ctx, a.timeout+restorePatience)
	defer cancel()
	p := a.newProgress("sent", st.Size())
	defer p.end()
	query := url.Values{"dry_run": {strconv.FormatBool(r.DryRun)}, "force_other_cluster": {strconv.FormatBool(r.ForceOtherCluster)}}
	const path = "/v1/snapshot/restore"
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, endpoint+path+"?"+query.Encode(), readerFunc(func(b []byte) (int, error) {
		n, err := f.Read(b)
		p.add(n)
		return n, err
	}))
	if err != nil {
		return out, err
	}
	req.ContentLength = st.Size()
	req.Header.Set("Content-Type", webui.SnapshotContentType)
	// Who may not restore is told so before the file is on its way.
	req.Header.Set("Expect", "100-continue")
	resp, err := a.client.send(req)
	if err != nil {
		late := "; " + restoreLate
		if r.DryRun {
			late = ""
		}
		if isTimeout(err) {
			return out, coded(exitTimeout, "%s did not answer within %v%s", endpoint, a.timeout+restorePatience, late)
		}
		return out, fmt.Errorf("%s: %w%s", endpoint, err, late)
	}
	defer resp.Body.Close()
	if err := decode(resp, path, &out); err != nil {
		return out, a.callFailed(endpoint, err)
	}
	return out, nil
}

// readerFunc is a function as io.Reader.
type readerFunc func([]byte) (int, error)

// Read implements io.Reader.
func (f readerFunc) Read(b []byte) (int, error) { return f(b) }

// progress shows how far a transfer is, on a terminal only.
type progress struct {
	to    io.Writer // nil: nobody looks
	verb  string
	n     int64
	about int64
	shown time.Time
}

const progressPause = 200 * time.Millisecond

func (a *app) newProgress(verb string, about int64) *progress {
	p := &progress{verb: verb, about: about}
	if a.term.interactive {
		p.to = a.term.err
	}
	return p
}

func (p *progress) add(n int) {
	p.n += int64(n)
	if p.to == nil || time.Since(p.shown) < progressPause {
		return
	}
	p.shown = time.Now()
	of := ""
	if p.about > 0 {
		of = fmt.Sprintf(" of about %d", max(p.about, p.n)>>10)
	}
	fmt.Fprintf(p.to, "\r%s %d%s KiB ", p.verb, p.n>>10, of)
}

func (p *progress) end() {
	if p.to != nil && !p.shown.IsZero() {
		fmt.Fprint(p.to, "\r\033[K")
	}
}

// headerBytes is what the master says of the size of what follows; 0 when it says nothing that can be read.
func headerBytes(resp *http.Response) int64 {
	n, err := strconv.ParseInt(resp.Header.Get(webui.HeaderSnapshotBytes), 10, 64)
	if err != nil || n < 0 {
		return 0
	}
	return n
}
