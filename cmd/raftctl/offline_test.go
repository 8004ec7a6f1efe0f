package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"raftmaster/cluster/config"
	"raftmaster/cluster/raftstore"
	"raftmaster/cluster/server"
	"raftmaster/cluster/sparkpeer"
	"raftmaster/fsm"
	"raftmaster/transport/frame"
)

// app registers an application of two executors and waits until they run.
func (c *realMasters) app() *sparkpeer.App {
	c.t.Helper()
	one, two := int32(1), int32(2)
	var masters []frame.Address
	for _, cfg := range c.cfgs {
		masters = append(masters, frame.Address{Host: cfg.AdvertiseHost, Port: int32(cfg.Port)})
	}
	a, err := sparkpeer.NewApp(sparkpeer.AppConfig{Name: "job", CoresPerExecutor: &one, MaxCores: &two, MemoryMB: 64, RegisterEvery: time.Second, RegisterTries: 500,
		AskTimeout: 30 * time.Second, Common: sparkpeer.Common{Host: fmt.Sprintf("127.%d.250.98", 10+os.Getpid()%240), Port: 27079, Masters: masters, Resolve: 5 * time.Second}})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(a.Close)
	if _, err := a.WaitRegistered(patience); err != nil {
		c.t.Fatal(err)
	}
	return a
}

// driver submits one and waits until a worker runs it.
func (c *realMasters) driver() string {
	c.t.Helper()
	var masters []frame.Address
	for _, cfg := range c.cfgs {
		masters = append(masters, frame.Address{Host: cfg.AdvertiseHost, Port: int32(cfg.Port)})
	}
	s, err := sparkpeer.NewSubmitClient(sparkpeer.SubmitConfig{Common: sparkpeer.Common{Host: fmt.Sprintf("127.%d.250.97", 10+os.Getpid()%240), Masters: masters}})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(s.Close)
	r, err := s.Submit(c.t.Context(), sparkpeer.DriverJob("org.example.Main", 1, 64, false, masters...))
	if err != nil || !r.Success {
		c.t.Fatalf("the submission gave %+v, %v", r, err)
	}
	c.eventually("the driver", func() error {
		i, err := c.leader()
		if err != nil {
			return err
		}
		if d, ok := c.up[i].State().Driver(*r.DriverID); !ok || d.State != fsm.DriverStateRunning || !d.Delivered {
			return fmt.Errorf("it is %+v", d)
		}
		return nil
	})
	return *r.DriverID
}

// runs gives the ids of an application's executors, all RUNNING, as the leader has them.
func (c *realMasters) runs(a *sparkpeer.App, want int) []int {
	c.t.Helper()
	var ids []int
	c.eventually("executors of "+a.ID(), func() error {
		i, err := c.leader()
		if err != nil {
			return err
		}
		ids = ids[:0]
		c.up[i].State().ExecutorsOfApp(a.ID(), func(e *fsm.Executor) bool {
			if e.State == fsm.ExecutorRunning {
				ids = append(ids, e.ID)
			}
			return true
		})
		if len(ids) != want {
			return fmt.Errorf("%v are RUNNING, want %d", ids, want)
		}
		return nil
	})
	return ids
}

// TestR09_RecoverSingle is the procedure for a lost majority: everything is refused until it is right, the running job goes
// on with the same executors, and two empty masters make three voters again.
func TestR09_RecoverSingle(t *testing.T) {
	if testing.Short() {
		t.Skip("LEFT OUT under -short: this test takes three whole masters")
	}
	c := startMasters(t, 3)
	workerID := c.worker()
	a := c.app()
	ids := c.runs(a, 2)
	driver := c.driver()
	dir := c.cfgs[2].DataDir
	check(t, c.ctl("recover", "--data-dir", dir, "--single", "--yes"), exitRefused, dir, "held by process", "next: stop that master")
	check(t, c.ctl("log", "dump", "--data-dir", dir), exitRefused, dir, "held by process")
	c.kill(2)
	c.eventually("a leader without the third", func() error { _, err := c.leader(); return err })
	check(t, c.ctl("recover", "--data-dir", dir, "--single", "--yes"), exitRefused, "knows a leader", "nothing was changed")
	check(t, c.ctl("recover", "--data-dir", dir, "--single", "--yes", "--force"), exitUsage, "--reason")
	for i := range 2 {
		c.kill(i)
		c.cfgs[i].DataDir = filepath.Join(t.TempDir(), "empty")
	}
	check(t, c.ctl("recover", "--data-dir", dir, "--single"), exitRefused, "--yes", "--dry-run")
	check(t, c.ctl("recover", "--data-dir", dir, "--single", "--dry-run"), exitOK, "1 worker, 1 active application, 1 unfinished driver", "did not answer", "nothing was changed")
	check(t, c.ctl("recover", "--data-dir", dir, "--single", "--address", "spark://127.0.0.9:7", "--dry-run"), exitOK, "@127.0.0.9:7\n")
	if list, err := filepath.Glob(dir + ".before-recover-*"); err != nil || len(list) != 0 {
		t.Errorf("a dry run made %v, %v", list, err)
	}
	var done recoverResult
	r := c.ctl("recover", "--data-dir", dir, "--single", "--yes", "-o", "json")
	if err := json.Unmarshal([]byte(r.out), &done); err != nil || r.code != exitOK {
		t.Fatalf("%v: %+v", err, r)
	}
	if len(done.Before) != 3 || len(done.After) != 1 || len(done.NoAnswer) != 2 || done.Workers != 1 || done.DryRun {
		t.Errorf("%+v", done)
	}
	check(t, c.ctl("log", "dump", "--data-dir", done.Backup), exitOK, "RegisterWorker", workerID, "RegisterApplication", "LogConfiguration", "LeaderElected")
	full := c.cfgs[2].Cluster
	c.cfgs[2].Cluster = []config.Address{c.cfgs[2].Advertise()}
	c.start(2)
	if now := c.runs(a, 2); now[0] != ids[0] || now[1] != ids[1] {
		t.Errorf("executors %v became %v", ids, now)
	}
	if d, ok := c.up[2].State().Driver(driver); !ok || d.State != fsm.DriverStateRunning {
		t.Errorf("the driver is %+v", d)
	}
	c.cfgs[2].Cluster = full
	for i := range 2 {
		c.start(i)
		check(t, c.ctl("peers", "add", c.up[i].Node().NodeID()+"@"+c.cfgs[i].Advertise().String(), "--yes"), exitOK, "is a voter")
	}
	c.voters(3)
	check(t, c.ctl("hash"), exitOK, "3 masters, equal states")
	if now := c.runs(a, 2); now[0] != ids[0] || now[1] != ids[1] || a.Log().Count("ApplicationRemoved") != 0 {
		t.Errorf("executors %v became %v", ids, now)
	}
}

// TestR08b_RecoverPeers: all masters come back at other addresses.
func TestR08b_RecoverPeers(t *testing.T) {
	if testing.Short() {
		t.Skip("LEFT OUT under -short: this test takes three whole masters")
	}
	c := startMasters(t, 3)
	worker := c.worker()
	var peers []string
	var list []config.Address
	for i := range 3 {
		c.cfgs[i].Port += 100
		peers = append(peers, c.up[i].Node().NodeID()+"@"+c.cfgs[i].Advertise().String())
		list = append(list, c.cfgs[i].Advertise())
	}
	for i := range 3 {
		c.kill(i)
	}
	text := strings.Join(peers, ",")
	check(t, c.ctl("recover", "--data-dir", c.cfgs[0].DataDir, "--peers", strings.Join(peers[1:], ","), "--yes"), exitRefused, "not among the new members", peers[0][:16])
	for i := range 3 {
		c.cfgs[i].Cluster = list
		check(t, c.ctl("recover", "--data-dir", c.cfgs[i].DataDir, "--peers", text, "--yes"), exitOK, "next, on every other master: raftctl recover --data-dir DIR --peers "+text, ":27177")
		if i == 0 {
			c.start(i) // too early, which does no harm
		}
	}
	for i := range 2 {
		c.start(i + 1)
	}
	c.voters(3)
	check(t, c.ctl("hash"), exitOK, "3 masters, equal states")
	if v, err := c.workers(1); err != nil || len(v.Workers) != 1 || v.Workers[0].ID != worker {
		t.Errorf("%+v, %v", v, err)
	}
}

// TestSnapshotsOverTheCommandLine: save, inspect, restore, with every refusal.
func TestSnapshotsOverTheCommandLine(t *testing.T) {
	if testing.Short() {
		t.Skip("LEFT OUT under -short: this test takes three whole masters")
	}
	c := startMasters(t, 3)
	c.worker()
	a := c.app()
	c.runs(a, 2)
	file := filepath.Join(t.TempDir(), "state")
	check(t, c.ctl("snapshot", "save", file, "--from", "nobody"), exitUsage, "--from")
	check(t, c.ctl("snapshot", "save", file, "--from", "leader"), exitOK, "saved "+file, "checksum ok", "1 live", "1 active with 2 executors")
	if st, err := os.Stat(file); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", st.Mode(), err)
	}
	check(t, ctl(t, nil, "snapshot", "inspect", file), exitOK, "cluster:", "release:", "test, formats", "1 live, 0 dead")
	good, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if r := c.ctl("snapshot", "save", "-"); r.code != exitOK || !strings.HasPrefix(r.out, "RMBACKUP") || !strings.Contains(r.err, "checksum ok") {
		t.Errorf("to standard output: %d, %.40q, %s", r.code, r.out, r.err)
	}
	bad := filepath.Join(t.TempDir(), "bad")
	for want, data := range map[string][]byte{"cut off": good[:len(good)/2], "checksum does not hold": flipped(good, len(good)-100), "no snapshot that raftctl saved": []byte("hello, world, hello, world")} {
		if err := os.WriteFile(bad, data, 0o600); err != nil {
			t.Fatal(err)
		}
		check(t, ctl(t, nil, "snapshot", "inspect", bad), exitError, bad, want)
		check(t, c.ctl("snapshot", "restore", bad, "--yes"), exitError, bad, want)
	}
	newer := append([]byte(nil), good...)
	newer[9] = 9
	if err := os.WriteFile(bad, newer, 0o600); err != nil {
		t.Fatal(err)
	}
	check(t, c.ctl("snapshot", "restore", bad, "--yes"), exitRefused, "format is 9")
	check(t, c.ctl("snapshot", "restore", file), exitRefused, "--yes")
	check(t, c.ctl("snapshot", "restore", file, "--dry-run"), exitOK, "applications active", "nothing was changed")
	check(t, c.ctl("snapshot", "restore", file, "--yes"), exitOK, "restored "+file+" on all masters", "next: raftctl hash")
	c.runs(a, 2)
	check(t, c.ctl("hash"), exitOK, "3 masters, equal states")
	// Without a leader there is still something to save.
	i, err := c.leader()
	if err != nil {
		t.Fatal(err)
	}
	c.kill(i)
	c.kill((i + 1) % 3)
	c.eventually("no leader", func() error {
		if r := c.ctl("leader"); r.code != exitNoLeader {
			return fmt.Errorf("exit code %d", r.code)
		}
		return nil
	})
	check(t, c.ctl("snapshot", "save", file, "--from", "leader"), exitNoLeader)
	check(t, c.ctl("snapshot", "save", file), exitOK, "there is no leader", "saved "+file)
}

func flipped(b []byte, at int) []byte {
	out := append([]byte(nil), b...)
	out[at] ^= 1
	return out
}

// TestOfflineUsage: what is no data directory stays none.
func TestOfflineUsage(t *testing.T) {
	dir := t.TempDir()
	for _, args := range [][]string{
		{"recover"}, {"recover", "--data-dir", dir}, {"recover", "--data-dir", dir, "--single"}, {"recover", "--data-dir", dir, "--single", "--peers", "a@b:1"},
		{"recover", "--data-dir", dir, "--peers", "b:1"}, {"recover", "--data-dir", dir, "--single", "--reason", "x"},
		{"log", "dump"}, {"log", "dump", "--data-dir", dir}, {"log", "dump", "--data-dir", dir, "--from", "5", "--to", "4"}, {"log"}, {"snapshot"},
		{"snapshot", "inspect"}, {"snapshot", "inspect", filepath.Join(dir, "nothing")}, {"snapshot", "save"},
	} {
		check(t, ctl(t, nil, args...), exitUsage)
	}
	if list, err := os.ReadDir(dir); err != nil || len(list) != 0 {
		t.Errorf("%v, %v", list, err)
	}
}

// TestDamageIsNamedWithTheWayOut: whatever is damaged in a data directory, the start of the master, recover and log dump
// name the file and say what to do; none of them changes anything.
func TestDamageIsNamedWithTheWayOut(t *testing.T) {
	if testing.Short() {
		t.Skip("LEFT OUT under -short: this test takes a whole master")
	}
	c := startMasters(t, 1)
	c.worker()
	if _, err := c.up[0].Node().TakeSnapshot(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.kill(0)
	whole := c.cfgs[0].DataDir
	snapshots, err := filepath.Glob(filepath.Join(whole, "snapshots", "*"))
	if err != nil || len(snapshots) == 0 {
		t.Fatalf("%v, %v", snapshots, err)
	}
	snapshot := filepath.Join("snapshots", filepath.Base(snapshots[len(snapshots)-1]))
	flip := func(at int64) func([]byte) []byte {
		return func(b []byte) []byte {
			if at < 0 {
				at += int64(len(b))
			}
			return flipped(b, int(at))
		}
	}
	cut := func(b []byte) []byte { return b[:len(b)/2] }
	gone := func([]byte) []byte { return nil }
	for name, d := range map[string]struct {
		file   string
		damage func([]byte) []byte
		named  string // "": the file
	}{
		"log cut off":            {"raft.db", cut, ""},
		"log overwritten":        {"raft.db", func(b []byte) []byte { clear(b[:8192]); return b }, ""},
		"log gone":               {"raft.db", gone, ""},
		"votes gone":             {"stable.db", gone, ""},
		"votes cut off":          {"stable.db", cut, ""},
		"journal cut off":        {"journal-0", cut, ""},
		"identity damaged":       {"identity.json", cut, ""},
		"identity empty":         {"identity.json", func([]byte) []byte { return []byte("{}") }, ""},
		"snapshot changed":       {filepath.Join(snapshot, "state.bin"), flip(-10), snapshot},
		"snapshot without state": {filepath.Join(snapshot, "state.bin"), cut, snapshot},
		"snapshot without meta":  {filepath.Join(snapshot, "meta.json"), cut, snapshot},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "data")
			if err := os.CopyFS(dir, os.DirFS(whole)); err != nil {
				t.Fatal(err)
			}
			if strings.HasPrefix(d.file, "snapshots") { // so that the log cannot stand in for it
				if err := trimmed(dir); err != nil {
					t.Fatal(err)
				}
			}
			path := filepath.Join(dir, d.file)
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if b = d.damage(b); b == nil {
				err = os.Remove(path)
			} else {
				err = os.WriteFile(path, b, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			named := filepath.Join(dir, d.named)
			if d.named == "" {
				named = path
			}
			cfg := c.cfgs[0]
			cfg.DataDir = dir
			s, err := server.Start(cfg, hclog.NewNullLogger(), "test")
			if err == nil {
				s.Kill()
				t.Fatal("the master starts")
			}
			for _, want := range []string{named, "raftctl peers remove", "raftctl snapshot restore"} {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("the start says %q, which lacks %q", err, want)
				}
			}
			check(t, ctl(t, nil, "recover", "--data-dir", dir, "--single", "--yes"), exitError, named, "nothing was changed", "raftctl snapshot restore")
			check(t, ctl(t, nil, "log", "dump", "--data-dir", dir), exitError, named)
		})
	}
}

// trimmed removes the log below the newest snapshot, as a master with a long log does.
func trimmed(dir string) (err error) {
	store, err := raftstore.Open(raftstore.Options{Dir: dir, Logger: hclog.NewNullLogger()})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	first, last, err := store.Bounds()
	if err != nil || last == 0 {
		return err
	}
	snap, err := store.NewestSnapshot()
	if err != nil {
		return err
	}
	return store.Logs().DeleteRange(first, min(last, snap.Index))
}
