package server

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"raftmaster/cluster/backup"
	"raftmaster/cluster/sparkpeer"
	"raftmaster/fsm"
	"raftmaster/transport/sparkmsg"
	"raftmaster/transport/webui"
)

// save takes a snapshot from a master and reads it.
func (m *member) save(t testing.TB) ([]byte, backup.Info) {
	t.Helper()
	resp, err := web.Get(m.webURL() + "/v1/snapshot")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%d, %v: %s", resp.StatusCode, err, b[:min(len(b), 200)])
	}
	info, _, err := backup.Read(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	return b, info
}

func (m *member) restore(t testing.TB, query string, b []byte) (int, webui.Restore, string) {
	t.Helper()
	resp, err := web.Post(m.webURL()+"/v1/snapshot/restore"+query, webui.SnapshotContentType, bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	var out webui.Restore
	if resp.StatusCode == http.StatusOK {
		if err := json.Unmarshal(body, &out); err != nil {
			t.Fatal(err)
		}
	}
	return resp.StatusCode, out, string(body)
}

// TestSnapshotIntoTheRunningCluster: what has registered since stays, what was launched since is killed and replaced under
// new ids, what has ended stays ended; all masters agree, which the closing checks see, too.
func TestSnapshotIntoTheRunningCluster(t *testing.T) {
	t.Parallel()
	c := start(t, 3, steadyFailover)
	c.readyWorker(sparkmsg.FamilyE, 4)
	old, gone := c.readyApp(sparkmsg.FamilyE, 2), c.readyApp(sparkmsg.FamilyE, 1)
	kept := c.runs(old, 2)
	c.runs(gone, 1)
	standby := c.standbys()[0]
	eventually(t, "a standby that is up to date", func() bool {
		return standby.server().State().Digest() == c.leader().server().State().Digest()
	})
	saved, info := standby.save(t) // any master can
	if info.Index == 0 || info.ClusterID == "" || info.Release != "test" || info.Totals.AppsRunning != 2 || info.Address != standby.cfg.Advertise().String() {
		t.Fatalf("%+v", info)
	}
	c.unregister(gone)
	w := c.readyWorker(sparkmsg.FamilyE, 4)
	later := c.readyApp(sparkmsg.FamilyE, 3)
	before := c.runs(later, 3)
	submitter := c.submitter(sparkmsg.FamilyE)
	driver := c.submit(submitter, sparkpeer.DriverJob("com.example.Job", 1, 512, true, c.addresses()...))
	c.becomes(submitter, driver, sparkmsg.DriverRunning)
	l := c.leader()
	for _, m := range c.standbys() {
		if status, _, body := m.restore(t, "", saved); status != http.StatusConflict || !strings.Contains(body, l.webURL()) {
			t.Errorf("a standby: %d %s", status, body)
		}
	}
	digest := l.server().State().Digest()
	status, plan, body := l.restore(t, "?dry_run=true", saved)
	if status != http.StatusOK || !plan.DryRun || plan.KeptApps != 1 || plan.KeptDrivers != 1 || plan.EndedApps != 1 || plan.Unbooked != 3 || !plan.Later {
		t.Fatalf("%d %s", status, body)
	}
	for name, bad := range map[string][]byte{"cut off": saved[:len(saved)-40], "changed": append(append([]byte(nil), saved[:len(saved)-50]...), saved[len(saved)-49:]...),
		"strange": []byte("hello"), "empty": nil} {
		if status, _, body := l.restore(t, "", bad); status != http.StatusBadRequest {
			t.Errorf("%s: %d %s", name, status, body)
		}
	}
	if got := l.server().State().Digest(); got != digest {
		t.Error("a dry run, or a refused snapshot, has changed the state")
	}
	status, done, body := l.restore(t, "", saved)
	if status != http.StatusOK || done.After.AppsActive != 2 || done.After.AppsCompleted != 1 {
		t.Fatalf("%d %s", status, body)
	}
	if now := c.runs(old, 2); now[0] != kept[0] || now[1] != kept[1] {
		t.Errorf("executors %v of the application that was saved became %v", kept, now)
	}
	after := c.runs(later, 3)
	if after[0] <= before[len(before)-1] {
		t.Errorf("executors %v came after %v", after, before)
	}
	if a, _ := c.leader().server().State().Application(gone.ID()); a.State != fsm.AppFinished {
		t.Errorf("an application that had ended is %s", a.State)
	}
	eventually(t, "the driver, which goes on", func() bool {
		d, ok := c.leader().server().State().Driver(driver)
		return ok && d.State == fsm.DriverStateRunning && d.Delivered
	})
	starts := 0
	for _, x := range c.workers {
		starts += len(slices.DeleteFunc(x.Drivers(), func(id string) bool { return id != driver }))
	}
	if starts != 1 || w.Log().Count("KillDriver")+c.workers[0].Log().Count("KillDriver") != 0 {
		t.Errorf("the driver runs %d times", starts)
	}
	if n := later.Log().Count("ApplicationRemoved"); n != 0 {
		t.Error("an application that registered after the snapshot was told that it has ended")
	}
	c.settle()
}

// TestSnapshotIntoAFreshCluster: after the loss of all masters, workers and applications find the state again at masters
// of the same addresses, and go on; numbers skip what may have been given since.
func TestSnapshotIntoAFreshCluster(t *testing.T) {
	slow(t)
	t.Parallel()
	c := start(t, 3, steadyFailover)
	w := c.readyWorker(sparkmsg.FamilyE, 4)
	a := c.readyApp(sparkmsg.FamilyE, 2)
	ids := c.runs(a, 2)
	eventually(t, "confirmed executors", func() bool { return w.Log().Count(sparkpeer.DidLaunch) >= 2 })
	saved, info := c.leader().save(t)
	for _, m := range c.masters {
		m.kill()
		m.cfg.DataDir = t.TempDir()
	}
	c.startAll()
	l := c.leader()
	if _, _, body := l.restore(t, "?dry_run=true", saved); !strings.Contains(body, `"other_cluster": true`) {
		t.Errorf("the dry run does not tell that the cluster is another: %s", body)
	}
	status, done, body := l.restore(t, "", saved)
	if status != http.StatusOK || !done.OtherCluster || done.Later {
		t.Fatalf("%d %s", status, body)
	}
	if l.server().State().ClusterID() == info.ClusterID {
		t.Error("the fresh cluster has taken the old one's name")
	}
	// A worker that has found the fresh cluster before has been told to kill them. New ones have new ids. (One that asks only the
	// master that it knew last, which is a standby now, hears of the leader by the restore.)
	for i, id := range c.runs(a, 2) {
		if id != ids[i] && id < 1000 {
			t.Errorf("executor %d may have been given before", id)
		}
	}
	if a.Log().Count("ApplicationRemoved") != 0 {
		t.Error("the application was told that it has ended")
	}
	b := c.readyApp(sparkmsg.FamilyE, 1)
	known, _ := c.leader().server().State().Application(b.ID())
	if known.Number < 1000 {
		t.Errorf("number %d may have been given before", known.Number)
	}
	c.settle()
	// This cluster has a life of its own now: another one's snapshot is refused.
	other := start(t, 1, nil)
	strange, _ := other.leader().save(t)
	if status, _, body := c.leader().restore(t, "", strange); status != http.StatusConflict || !strings.Contains(body, "--force-other-cluster") {
		t.Errorf("a snapshot of another cluster: %d %s", status, body)
	}
}

// TestSnapshotsOnASchedule: every master saves its own; one that cannot says so, and the others go on.
func TestSnapshotsOnASchedule(t *testing.T) {
	t.Parallel()
	c := prepare(t, 3, steadyFailover)
	for _, m := range c.masters {
		m.cfg.Snapshots.Dir, m.cfg.Snapshots.Interval = filepath.Join(t.TempDir(), "saved"), 200*time.Millisecond
	}
	blocked := c.masters[2]
	if err := os.WriteFile(blocked.cfg.Snapshots.Dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c.startAll()
	c.readyWorker(sparkmsg.FamilyE, 1)
	for _, m := range c.masters[:2] {
		eventuallyNil(t, "a snapshot with the worker", func() error {
			files, err := filepath.Glob(filepath.Join(m.cfg.Snapshots.Dir, "raftmaster-*.snapshot"))
			if err != nil || len(files) == 0 {
				return fmt.Errorf("%v, %v", files, err)
			}
			info, err := backup.Inspect(files[len(files)-1])
			if err == nil && info.Totals.Workers.Alive != 1 {
				err = fmt.Errorf("%+v", info)
			}
			return err
		})
		if _, body := m.get("/metrics"); !strings.Contains(body, "raftmaster_saved_snapshot_age_seconds") {
			t.Error("there is no metric of it")
		}
	}
	eventually(t, "the alarm of the one that cannot", func() bool {
		_, body := blocked.get("/v1/status")
		return strings.Contains(body, "no snapshot was saved") && strings.Contains(body, blocked.cfg.Snapshots.Dir)
	})
	if _, body := c.masters[0].get("/v1/status"); strings.Contains(body, "no snapshot was saved") {
		t.Error("a master has the alarm of another")
	}
}
