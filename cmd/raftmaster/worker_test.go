package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"raftmaster/cluster/config"
	"raftmaster/cluster/worker"
)

// fakeSpark makes a SPARK_HOME that holds nothing but the name of its release.
func fakeSpark(t *testing.T) string {
	t.Helper()
	home := t.TempDir()
	writeFile(t, filepath.Join(home, "jars", "spark-core_2.13-4.3.0.jar"), "")
	writeFile(t, filepath.Join(home, "bin", "load-spark-env.sh"), "export SPARK_ENV_LOADED=1\n[ -f \"$SPARK_HOME/conf/spark-env.sh\" ] && set -a && . \"$SPARK_HOME/conf/spark-env.sh\" && set +a\ntrue\n")
	return home
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
}

// endAtOnce is a worker that is stopped as soon as it runs.
func endAtOnce(b *bench) func(context.Context, int) error {
	return func(context.Context, int) error { b.cancel(); return nil }
}

// Spark's spellings of a worker's flags mean here what they mean there.
func TestWorkerCommand(t *testing.T) {
	home := fakeSpark(t)
	for _, args := range [][]string{
		{"-c", "3", "-m", "5g", "-d", "/tmp/w", "-h", "box", "-p", "7000", "--webui-port", "9000", "spark://a:7077,b:7077"},
		{"--cores", "3", "--memory", "5g", "--work-dir", "/tmp/w", "--host", "box", "--port", "7000", "--webui-port=9000", "spark://a:7077,b:7077"},
		{"--cores", "3", "--memory", "5g", "--work-dir", "/tmp/w", "-i", "box", "--port", "7000", "--webui-port=9000", "spark://a:7077,spark://b:7077"},
	} {
		b := newBench(map[string]string{"SPARK_HOME": home, "PATH": os.Getenv("PATH")}, nil)
		b.working = endAtOnce(b)
		if code, _ := b.main(append([]string{"worker"}, args...)...); code != exitOK || len(b.worked) != 1 {
			t.Fatalf("%q: exit code %d: %s", args, code, b.log.String())
		}
		s := b.worked[0].Settings
		if s.Cores != 3 || s.MemoryMB != 5<<10 || s.WorkDir != "/tmp/w" || s.Host != "box" || s.Port != 7000 || s.WebUIPort != 9000 || s.MasterURL() != "spark://a:7077,b:7077" {
			t.Errorf("%q: %+v", args, s)
		}
		if !strings.Contains(b.log.String(), "Started daemon with process name: ") {
			t.Errorf("log: %s", b.log.String())
		}
	}
	if code, out := newBench(nil, nil).main("worker", "--help"); code != exitOK || !strings.Contains(out, "-h, --host") || !strings.Contains(out, "MASTERS") {
		t.Errorf("help: exit code %d\n%s", code, out)
	}
}

// What conf/spark-env.sh sets counts for the worker and reaches its children.
func TestWorkerReadsSparkEnv(t *testing.T) {
	home := fakeSpark(t)
	writeFile(t, filepath.Join(home, "conf", "spark-env.sh"), "SPARK_WORKER_CORES=7\nOTHER=x\n")
	b := newBench(map[string]string{"SPARK_HOME": home, "PATH": os.Getenv("PATH")}, nil)
	b.working = endAtOnce(b)
	if code, _ := b.main("worker", "-m", "1g", "spark://a:7077"); code != exitOK || b.worked[0].Settings.Cores != 7 {
		t.Fatalf("exit code %d, %+v: %s", code, b.worked, b.log.String())
	}
	env, err := b.worked[0].Environ(context.Background())
	if err != nil || !slices.Contains(env, "OTHER=x") || !slices.Contains(env, "SPARK_ENV_LOADED=1") {
		t.Errorf("children's environment: %v %q", err, env)
	}
}

// Spark's exit codes of a worker: 1 whatever is wrong, with the reason.
func TestWorkerExitCodes(t *testing.T) {
	home := fakeSpark(t)
	with := map[string]string{"SPARK_HOME": home, "PATH": os.Getenv("PATH")}
	for _, c := range []struct {
		env  map[string]string
		args []string
		want string
	}{
		{map[string]string{"PATH": "/nonexistent"}, []string{"spark://a:7077"}, "SPARK_HOME"},
		{map[string]string{"SPARK_HOME": "/nonexistent"}, []string{"spark://a:7077"}, "/nonexistent"},
		{with, nil, "master"},
		{with, []string{"http://a:7077"}, "http://a:7077"},
		{with, []string{"spark://a:7077", "spark://b:7077"}, "one list"},
		{with, []string{"--bogus", "spark://a:7077"}, "bogus"},
		{with, []string{"-m", "512", "spark://a:7077"}, "512"}, // bytes, as in Spark
	} {
		b := newBench(c.env, nil)
		if code, _ := b.main(append([]string{"worker"}, c.args...)...); code != exitFailed || !strings.Contains(b.log.String(), c.want) || len(b.worked) != 0 {
			t.Errorf("%q: exit code %d, %q is wanted: %s", c.args, code, c.want, b.log.String())
		}
	}
	b := newBench(with, nil)
	b.working = func(context.Context, int) error { return &worker.ExitError{Code: 52, Reason: "out of memory"} }
	if code, _ := b.main("worker", "-m", "1g", "spark://a:7077"); code != 52 || !strings.Contains(b.log.String(), "out of memory") {
		t.Errorf("exit code %d: %s", code, b.log.String())
	}
}

// serveLeader answers like a leader where the web UI of the first development master is expected.
func serveLeader(t *testing.T) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:18080")
	if err != nil {
		t.Skipf("port 18080 is taken: %v", err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ln) }()
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
}

// The workers of a development cluster run in this process, with settings of their own.
func TestDevWorkers(t *testing.T) {
	serveLeader(t)
	home, dir := fakeSpark(t), t.TempDir()
	b := newBench(map[string]string{"SPARK_HOME": home, "PATH": os.Getenv("PATH"), "SPARK_WORKER_PORT": "1", "SPARK_WORKER_CORES": "99"}, func(*bench, int) {})
	done := make(chan int, 1)
	go func() {
		code, _ := b.main("dev", "--masters", "1", "--workers", "2", "--base-port", "17077", "--data-dir", dir, "--worker-cores", "3")
		done <- code
	}()
	waitFor(t, "workers", func() bool { b.mu.Lock(); defer b.mu.Unlock(); return len(b.worked) == 2 })
	b.cancel()
	if code := <-done; code != exitOK {
		t.Errorf("exit code %d: %s", code, b.log.String())
	}
	places := map[string]bool{}
	for _, cfg := range b.worked {
		s := cfg.Settings
		places[s.WorkDir] = true
		if s.Cores != 3 || s.MemoryMB != 2048 || s.Port != 0 || s.Host != devHost || s.WebUIHost != devHost || s.WebUIPort < 18081 || s.MasterURL() != "spark://127.0.0.1:17077" {
			t.Errorf("%+v", s)
		}
	}
	if !places[filepath.Join(dir, "worker1")] || !places[filepath.Join(dir, "worker2")] {
		t.Errorf("work directories: %v", places)
	}
	sparkSubmit := filepath.Join(home, "bin", "spark-submit")
	for _, want := range []string{sparkSubmit + " --master spark://127.0.0.1:17077", sparkSubmit + " --deploy-mode cluster", "pages at http://127.0.0.1:18081/ to 18082"} {
		if !strings.Contains(b.log.String(), want) {
			t.Errorf("the log lacks %q:\n%s", want, b.log.String())
		}
	}
}

func TestDevWorkerThatDiesIsReported(t *testing.T) {
	serveLeader(t)
	b := newBench(map[string]string{"SPARK_HOME": fakeSpark(t), "PATH": os.Getenv("PATH")}, func(*bench, int) {})
	b.working = func(context.Context, int) error { return &worker.ExitError{Code: 1, Reason: "nothing works"} }
	done := make(chan int, 1)
	go func() {
		code, _ := b.main("dev", "--masters", "1", "--workers", "1", "--base-port", "17077")
		done <- code
	}()
	waitFor(t, "report of the dead worker", func() bool { return strings.Contains(b.log.String(), "nothing works") })
	time.Sleep(10 * time.Millisecond) // the masters go on
	b.cancel()
	if code := <-done; code != exitOK {
		t.Errorf("exit code %d", code)
	}
}

func TestDevWithoutSpark(t *testing.T) {
	quiet := newBench(nil, stopAtOnce)
	if code, _ := quiet.main("dev", "--masters", "1", "--base-port", "17077"); code != exitOK || strings.Contains(quiet.log.String(), "NO WORKERS STARTED") ||
		!strings.Contains(quiet.log.String(), "none: set SPARK_HOME") {
		t.Errorf("exit code %d: %s", code, quiet.log.String())
	}
	serveLeader(t)
	b := newBench(map[string]string{"SPARK_HOME": t.TempDir()}, func(*bench, int) {})
	done := make(chan int, 1)
	go func() {
		code, _ := b.main("dev", "--masters", "1", "--base-port", "17077")
		done <- code
	}()
	waitFor(t, "hint", func() bool { return strings.Contains(b.log.String(), "NO WORKERS STARTED") })
	b.cancel()
	if code := <-done; code != exitOK || !strings.Contains(b.log.String(), "is no Spark installation") {
		t.Errorf("exit code %d: %s", code, b.log.String())
	}
}

// spark.worker.decommission.signal decommissions, where that is enabled.
func TestDecommissionSignal(t *testing.T) {
	called := make(chan struct{}, 8)
	cfg := worker.Config{Settings: &config.Worker{DecommissionEnabled: true, DecommissionSignal: "USR2"}, Log: hclog.NewNullLogger()}
	stop := decommissionBySignal(cfg, func() { called <- struct{}{} })
	if err := syscall.Kill(os.Getpid(), syscall.SIGUSR2); err != nil {
		t.Fatal(err)
	}
	select {
	case <-called:
	case <-time.After(30 * time.Second):
		t.Error("the signal did nothing")
	}
	stop()
	cfg.Settings.DecommissionEnabled = false
	decommissionBySignal(cfg, func() { t.Error("decommissioned although that is not enabled") })()
}
