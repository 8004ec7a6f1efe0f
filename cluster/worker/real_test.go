package worker

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"raftmaster/cluster/sparkpeer"
	"raftmaster/transport/sparkmsg"
)

// An executor under a real master: launched, killed, and its end known to both sides.
func TestLaunchAndKill(t *testing.T) {
	m := startMasters(t, 1)
	w := startWorker(t, settings(t, m.addresses(), 4), fakeJava(t, `echo "$@"; exec sleep 600`), nil)
	w.registered()
	a := m.app(2)
	eventually(t, "two executors", func() bool { return running(a) == 2 && len(w.pids()) == 2 })
	if s := w.Status(); s.CoresUsed != 2 || s.MemoryUsedMB != 256 {
		t.Errorf("status %+v", s)
	}
	id := w.Status().Executors[0]
	dir := filepath.Join(w.cfg.Settings.WorkDir, id.AppID, "0")
	eventually(t, "output", func() bool {
		out, err := os.ReadFile(filepath.Join(dir, "stdout"))
		return err == nil && strings.Contains(string(out), "--worker-url spark://Worker@"+w.Address().String()) && strings.Contains(string(out), "--executor-id 0")
	})
	if ok, err := a.KillExecutors("0"); err != nil || !ok {
		t.Fatal(ok, err)
	}
	eventually(t, "end of executor 0", func() bool {
		for _, e := range w.Status().FinishedExecutors {
			if e.ID == 0 && e.State == "KILLED" && e.ExitCode != nil && *e.ExitCode == 143 {
				return true
			}
		}
		return false
	})
	a.Unregister()
	eventually(t, "an idle worker", func() bool { return w.Status().CoresUsed == 0 })
	eventually(t, "no local directories", func() bool {
		left, err := filepath.Glob(filepath.Join(w.cfg.Settings.LocalDirs[0], "spark-*", "executor-*"))
		return err == nil && len(left) == 0
	})
}

// Two hundred launches at once: all run, all end with the worker, nothing is left.
func TestManyLaunchesAtOnce(t *testing.T) {
	m := startMasters(t, 1)
	w := startWorker(t, settings(t, m.addresses(), 200), fakeJava(t, "exec sleep 600"), nil)
	w.registered()
	a := m.app(0)
	eventually(t, "two hundred executors", func() bool { return running(a) == 200 })
	pids := w.pids()
	if len(pids) != 200 {
		t.Fatalf("%d processes", len(pids))
	}
	w.stop()
	for name, pid := range pids {
		if alive(pid) {
			t.Errorf("the process of %s is left", name)
		}
	}
	eventually(t, "ends at the application", func() bool { return running(a) == 0 })
}

// Bad surroundings become FAILED executors with a reason, and no processes.
func TestExecutorsThatCannotStart(t *testing.T) {
	m := startMasters(t, 1)
	for name, c := range map[string]struct {
		prepare func(s string) (java string)
		want    string
	}{
		"no java":          {func(string) string { return "/nonexistent" }, "java"},
		"no rights":        {func(dir string) string { return "" }, "directory"},
		"java that breaks": {func(string) string { return fakeJava(t, "exit 7") }, "Command exited with code 7"},
	} {
		t.Run(name, func(t *testing.T) {
			s := settings(t, m.addresses(), 1)
			java := c.prepare(s.WorkDir)
			w := startWorker(t, s, java, nil)
			w.registered()
			if java == "" {
				// A file where the application's directory should be: missing rights do not stop root, who may run this test.
				write(t, filepath.Join(s.WorkDir, "app"), "in the way", 0o644)
				w.loop.post(func(core *Core) { core.OneWay(nil, nil, launch("app", 0, core.link.addr)) })
			} else {
				a := m.app(1)
				defer a.Close()
			}
			eventually(t, "a failure with its reason", func() bool {
				for _, e := range w.Status().FinishedExecutors {
					if strings.Contains(e.Message, c.want) {
						return true
					}
				}
				return false
			})
			w.stop()
		})
	}
}

// An executor that ignores SIGTERM is ended all the same, with all that it has started.
func TestStubbornExecutor(t *testing.T) {
	if testing.Short() {
		t.Skip("LEFT OUT under -short: this test takes the ten seconds of the kill escalation")
	}
	m := startMasters(t, 1)
	w := startWorker(t, settings(t, m.addresses(), 1), fakeJava(t, `trap '' TERM; while :; do sleep 1; done`), nil)
	w.registered()
	a := m.app(1)
	eventually(t, "an executor", func() bool { return running(a) == 1 && len(w.pids()) == 1 })
	pids := w.pids()
	a.Unregister()
	eventually(t, "its end", func() bool {
		list := w.Status().FinishedExecutors
		return len(list) == 1 && list[0].ExitCode != nil && *list[0].ExitCode == 137
	})
	for _, pid := range pids {
		if alive(pid) {
			t.Error("it is still there")
		}
	}
}

// Twenty leaders are killed: no executor is lost, none is started twice, and each leader knows them all.
func TestTwentyLeadersKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("LEFT OUT under -short: this test takes twenty elections")
	}
	m := startMasters(t, 3)
	w := startWorker(t, settings(t, m.addresses(), 8), fakeJava(t, "exec sleep 600"), nil)
	w.registered()
	a := m.app(0)
	eventually(t, "eight executors", func() bool { return running(a) == 8 && len(w.pids()) == 8 })
	before := w.pids()
	for round := range 20 {
		old := m.leader()
		m.kill(old)
		next := m.leader()
		want := "spark://" + m.addresses()[next].String()
		eventually(t, "contact with the new leader", func() bool { s := w.Status(); return s.Connected && s.MasterURL == want })
		m.start(old)
		if after := w.pids(); len(after) != len(before) {
			t.Fatalf("round %d: %d executors, want %d", round, len(after), len(before))
		}
	}
	time.Sleep(time.Second) // anything that would be started or ended by mistake
	after := w.pids()
	for name, pid := range before {
		if after[name] != pid || !alive(pid) {
			t.Errorf("executor %s: process %d before, %d after", name, pid, after[name])
		}
	}
	if s := w.Status(); len(s.FinishedExecutors) != 0 || len(after) != 8 {
		t.Errorf("%d executors ended, %d run", len(s.FinishedExecutors), len(after))
	}
	if n := running(a); n != 8 {
		t.Errorf("the application has %d running executors", n)
	}
}

// A worker that is killed and started again ends what was left behind, and its cores are given out anew.
func TestWorkerKilledAndStartedAgain(t *testing.T) {
	m := startMasters(t, 1)
	s := settings(t, m.addresses(), 2)
	home := fakeHome(t, "3.5.9")
	// It ignores the signal that the kernel sends when its parent dies.
	environ := []string{"PATH=" + os.Getenv("PATH"), "JAVA_HOME=" + fakeJava(t, `trap '' TERM; while :; do sleep 1; done`)}
	text, err := json.Marshal(childConfig{Settings: *s, Home: home.Dir, Environ: environ})
	if err != nil {
		t.Fatal(err)
	}
	_, sink := newLog(t, "child")
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), childVariable+"="+string(text))
	child.Stderr = sink
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	a := m.app(0)
	eventually(t, "two executors", func() bool { return running(a) == 2 })
	var orphans []int
	eventually(t, "their processes", func() bool { orphans = processesIn(s.WorkDir); return len(orphans) >= 2 })
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := child.Wait(); err == nil {
		t.Fatal("the worker ended with 0")
	}
	w := startWorker(t, s, fakeJava(t, "exec sleep 600"), nil)
	w.registered()
	for _, pid := range orphans {
		if alive(pid) {
			t.Errorf("process %d of the killed worker is left", pid)
		}
	}
	eventually(t, "two executors on the new worker", func() bool { return running(a) == 2 && w.Status().CoresUsed == 2 })
	a.Unregister()
	eventually(t, "an idle worker", func() bool { return w.Status().CoresUsed == 0 })
}

// processesIn lists the processes whose working directory is below a directory.
func processesIn(dir string) (out []int) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	for _, e := range entries {
		cwd, err := os.Readlink("/proc/" + e.Name() + "/cwd")
		if err != nil || !strings.HasPrefix(cwd, dir+"/") {
			continue
		}
		var pid int
		for _, r := range e.Name() {
			pid = pid*10 + int(r-'0')
		}
		out = append(out, pid)
	}
	return out
}

// A cluster-mode driver: run to its end, killed, and with a jar that is missing.
func TestDrivers(t *testing.T) {
	m := startMasters(t, 1)
	w := startWorker(t, settings(t, m.addresses(), 4), fakeJava(t, `case "$*" in *quick*) exit 0;; *) exec sleep 600;; esac`), nil)
	w.registered()
	// One client for each submission: a second one soon after the first counts as its repetition.
	newClient := func() *sparkpeer.SubmitClient {
		client, err := sparkpeer.NewSubmitClient(sparkpeer.SubmitConfig{Common: sparkpeer.Common{Host: newHost(), Masters: m.addresses()}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(client.Close)
		return client
	}
	client := newClient()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	jar := filepath.Join(t.TempDir(), "job.jar")
	write(t, jar, "not really", 0o644)
	submit := func(class, jarURL string) string {
		job := sparkpeer.DriverJob(class, 1, 128, false, m.addresses()...)
		job.JarURL = jarURL
		r, err := newClient().Submit(ctx, job)
		if err != nil || !r.Success || r.DriverID == nil {
			t.Fatal(r, err)
		}
		return *r.DriverID
	}
	ended := func(id string) *sparkmsg.DriverStatusResponse {
		r, err := client.WaitDriver(ctx, id, func(r *sparkmsg.DriverStatusResponse) bool { return r.State != nil && r.State.Finished() })
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	if r := ended(submit("quick", "file:"+jar)); *r.State != sparkmsg.DriverFinished {
		t.Errorf("a driver that exits with 0 is %v", r.State)
	}
	slow := submit("slow", "file:"+jar)
	eventually(t, "the slow driver", func() bool { d := w.Status().Drivers; return len(d) == 1 && d[0].PID != 0 })
	if r, err := client.Kill(ctx, slow); err != nil || !r.Success {
		t.Fatal(r, err)
	}
	if r := ended(slow); *r.State != sparkmsg.DriverKilled {
		t.Errorf("a killed driver is %v", r.State)
	}
	r := ended(submit("quick", "file:/no/such/job.jar"))
	if *r.State != sparkmsg.DriverError || r.Exception == nil || !strings.Contains(r.Exception.Message, "job.jar") {
		t.Errorf("a driver without its jar: %v %v", r.State, r.Exception)
	}
	if s := w.Status(); s.CoresUsed != 0 || len(s.FinishedDrivers) != 3 {
		t.Errorf("status %+v", s)
	}
}

// Without a usable work directory, and with a second worker on it, there is no worker: exit code 1 and the reason.
func TestWorkDirectoryThatCannotBeUsed(t *testing.T) {
	s := settings(t, nil, 1)
	write(t, s.WorkDir, "a file", 0o644)
	log, _ := newLog(t, "worker")
	cfg := Config{Settings: s, Home: fakeHome(t, "3.5.9"), Log: log, Environ: func(context.Context) ([]string, error) { return nil, nil }}
	_, err := New(cfg)
	var exit *ExitError
	if !errors.As(err, &exit) || exit.Code != 1 || !strings.Contains(err.Error(), "work directory") {
		t.Errorf("%v", err)
	}
	s.WorkDir = filepath.Join(t.TempDir(), "work")
	first, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := New(cfg); !errors.As(err, &exit) || exit.Code != 1 {
		t.Errorf("two workers on one work directory: %v", err)
	}
	if err := first.Close(); err != nil {
		t.Error(err)
	}
}
