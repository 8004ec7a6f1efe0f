package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"go.uber.org/goleak"

	"raftmaster/cluster/config"
	"raftmaster/cluster/worker"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// lockedBuffer takes the log lines of several goroutines.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// bench is a program whose masters are fakes and whose signals come from the test.
type bench struct {
	program
	log    lockedBuffer
	cancel context.CancelFunc
	mu     sync.Mutex
	ran    []config.Config
	worked []worker.Config
	// working is what a worker does; nil: it runs until the signal.
	working func(ctx context.Context, number int) error
}

// newBench makes masters that run until the signal; each calls started.
func newBench(env map[string]string, started func(b *bench, running int)) *bench {
	ctx, cancel := context.WithCancel(context.Background())
	b := &bench{cancel: cancel}
	b.program = program{
		stderr:    &b.log,
		lookupEnv: func(k string) (string, bool) { v, ok := env[k]; return v, ok },
		environ: func() (out []string) {
			for k, v := range env {
				out = append(out, k+"="+v)
			}
			return out
		},
		work: func(ctx context.Context, cfg worker.Config) error {
			b.mu.Lock()
			b.worked = append(b.worked, cfg)
			n := len(b.worked)
			b.mu.Unlock()
			if b.working != nil {
				return b.working(ctx, n)
			}
			<-ctx.Done()
			return nil
		},
		signals: func(hclog.Logger, func()) (context.Context, context.CancelFunc) { return ctx, cancel },
		run: func(ctx context.Context, cfg config.Config, _ hclog.Logger, _ string) error {
			b.mu.Lock()
			b.ran = append(b.ran, cfg)
			n := len(b.ran)
			b.mu.Unlock()
			started(b, n)
			<-ctx.Done()
			return nil
		},
	}
	return b
}

func (b *bench) main(args ...string) (int, string) {
	var out bytes.Buffer
	return b.program.main(args, &out), out.String()
}

func stopAtOnce(b *bench, _ int) { b.cancel() }

func TestServer(t *testing.T) {
	b := newBench(map[string]string{"SPARK_MASTER_PORT": "7177"}, stopAtOnce)
	dir := t.TempDir()
	code, _ := b.main("server", "--cluster", "spark://a:7177,b:7177", "-h", "0.0.0.0", "--advertise-host", "b", "--webui-port", "9090", "--data-dir", dir, "--failover-timeout", "1s")
	if code != exitOK || len(b.ran) != 1 {
		t.Fatalf("exit code %d, %d masters: %s", code, len(b.ran), b.log.String())
	}
	c := b.ran[0]
	if c.Host != "0.0.0.0" || c.Port != 7177 || c.MasterURL() != "spark://b:7177" || c.WebUIPort != 9090 || c.DataDir != dir || c.FailoverTimeout != time.Second {
		t.Errorf("%+v", c)
	}
	for _, line := range []string{"Starting Spark master at spark://b:7177", "Running raftmaster version", "Started daemon with process name: ", "stopped in order"} {
		if !strings.Contains(b.log.String(), line) {
			t.Errorf("the log lacks %q:\n%s", line, b.log.String())
		}
	}
}

// Spark's spellings of the flags mean here what they mean there.
func TestSparkSpellings(t *testing.T) {
	for _, args := range [][]string{{"-h", "box", "-p", "7070"}, {"--host", "box", "--port", "7070"}, {"-i", "box", "-p", "7070"}, {"--ip", "box", "--port=7070"}} {
		b := newBench(map[string]string{"XDG_STATE_HOME": t.TempDir()}, stopAtOnce)
		if code, _ := b.main(append([]string{"server"}, args...)...); code != exitOK || b.ran[0].MasterURL() != "spark://box:7070" {
			t.Errorf("%q: exit code %d, %+v", args, code, b.ran)
		}
	}
	b := newBench(nil, stopAtOnce)
	if code, out := b.main("server", "--help"); code != exitOK || !strings.Contains(out, "--cluster") || !strings.Contains(out, "-h, --host") {
		t.Errorf("help: exit code %d\n%s", code, out)
	}
}

// TestExitCodes: 2 for the caller's mistakes, with the reason; 1 for a master that failed.
func TestExitCodes(t *testing.T) {
	for _, args := range [][]string{{}, {"serve"}, {"server", "extra"}, {"server", "--bogus"}, {"server", "--port", "x"}, {"server", "--cluster", "spark://a:1,b:1", "--host", "c", "--port", "1"},
		{"server", "--properties-file", "/no/such/file"}, {"dev", "--masters", "0"}, {"dev", "--workers", "-1"}, {"dev", "--base-port", "80"}, {"dev", "--masters", "10"}, {"dev", "--worker-cores", "0"}} {
		b := newBench(nil, stopAtOnce)
		if code, _ := b.main(args...); code == exitOK || len(b.ran) != 0 || !strings.Contains(b.log.String(), "raftmaster: ") {
			t.Errorf("%q: exit code %d, %d masters ran: %s", args, code, len(b.ran), b.log.String())
		} else if code != exitUsage && len(args) > 0 && args[0] != "serve" {
			t.Errorf("%q: exit code %d, want %d", args, code, exitUsage)
		}
	}
	b := newBench(map[string]string{"SPARK_MASTER_OPTS": "-Dspark.authenticate=true"}, stopAtOnce)
	if code, _ := b.main("server"); code != exitUsage || !strings.Contains(b.log.String(), "spark.authenticate") {
		t.Errorf("exit code %d: %s", code, b.log.String())
	}
	b = newBench(nil, stopAtOnce)
	b.run = func(context.Context, config.Config, hclog.Logger, string) error { return errors.New("port is busy") }
	if code, _ := b.main("server", "--host", "h", "--data-dir", t.TempDir()); code != exitFailed || !strings.Contains(b.log.String(), "port is busy") {
		t.Errorf("exit code %d: %s", code, b.log.String())
	}
	b = newBench(nil, stopAtOnce)
	b.run = func(context.Context, config.Config, hclog.Logger, string) error { return nil }
	if code, _ := b.main("server", "--host", "h", "--data-dir", t.TempDir()); code != exitFailed {
		t.Errorf("a master that stops by itself: exit code %d", code)
	}
	if code, out := newBench(nil, stopAtOnce).main("version"); code != exitOK || !strings.HasPrefix(out, "raftmaster ") {
		t.Errorf("version: %d %q", code, out)
	}
}

func TestDev(t *testing.T) {
	b := newBench(map[string]string{"SPARK_MASTER_PORT": "1", "PATH": "/nonexistent"}, func(b *bench, n int) {
		if n == 3 {
			b.cancel()
		}
	})
	if code, _ := b.main("dev", "--workers", "2", "--base-port", "17077"); code != exitOK {
		t.Fatalf("exit code %d: %s", code, b.log.String())
	}
	seen := map[string]bool{}
	for _, c := range b.ran {
		if c.ClusterURL() != "spark://127.0.0.1:17077,127.0.0.1:17078,127.0.0.1:17079" || c.WebUIHost != "127.0.0.1" {
			t.Errorf("%+v", c)
		}
		seen[c.MasterURL()+" "+c.DataDir] = true
		if _, err := os.Stat(filepath.Dir(c.DataDir)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s was not thrown away: %v", c.DataDir, err)
		}
	}
	if len(seen) != 3 {
		t.Errorf("masters share an address or a directory: %v", seen)
	}
	for _, want := range []string{"NO WORKERS STARTED", "SPARK_HOME", "raftctl --endpoints http://127.0.0.1:18080,http://127.0.0.1:18081,http://127.0.0.1:18082 status",
		"REST http://127.0.0.1:18177", "--master spark://127.0.0.1:18177,127.0.0.1:18178,127.0.0.1:18179"} {
		if !strings.Contains(b.log.String(), want) {
			t.Errorf("the log lacks %q:\n%s", want, b.log.String())
		}
	}
}

// One failed master ends the others: half a development cluster would only confuse.
func TestDevEndsWhenAMasterFails(t *testing.T) {
	b := newBench(nil, func(*bench, int) {})
	inner := b.run
	b.run = func(ctx context.Context, cfg config.Config, log hclog.Logger, v string) error {
		if cfg.Port == 17078 {
			return errors.New("port 17078 is busy")
		}
		return inner(ctx, cfg, log, v)
	}
	if code, _ := b.main("dev", "--workers", "0", "--base-port", "17077"); code != exitFailed || !strings.Contains(b.log.String(), "port 17078 is busy") {
		t.Errorf("exit code %d: %s", code, b.log.String())
	}
}

func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("no %s within 30 s", what)
		}
	}
}
