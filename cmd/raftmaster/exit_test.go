package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"raftmaster/cluster/config"
	"raftmaster/cluster/raftstore"
	"raftmaster/fsm"
)

// What another start cannot change ends with 2, what may pass with 1; either is said once.
func TestExitCodeOfAFailedMaster(t *testing.T) {
	listen := func(err error) error {
		return fmt.Errorf("cannot listen: %w", &net.OpError{Op: "listen", Net: "tcp", Err: err})
	}
	for name, tc := range map[string]struct {
		err  error
		want int
	}{
		"damaged":           {fmt.Errorf("%w: raft.db", raftstore.ErrDamaged), exitUsage},
		"foreign":           {fmt.Errorf("%w: raft.db", raftstore.ErrForeign), exitUsage},
		"other cluster":     {fmt.Errorf("%w: x", raftstore.ErrOtherCluster), exitUsage},
		"newer level":       {fmt.Errorf("restore: %w", &fsm.LevelError{Needed: 3, Known: 2}), exitUsage},
		"newer command":     {fmt.Errorf("entry 9: %w", &fsm.UnknownCommandError{Type: 99, Version: 1}), exitUsage},
		"no permission":     {fmt.Errorf("%w: %w", raftstore.ErrStorage, &os.PathError{Op: "mkdir", Path: "/x", Err: syscall.EACCES}), exitUsage},
		"not a directory":   {fmt.Errorf("%w: %w", raftstore.ErrStorage, &os.PathError{Op: "mkdir", Path: "/x", Err: syscall.ENOTDIR}), exitUsage},
		"read-only":         {fmt.Errorf("%w: %w", raftstore.ErrStorage, syscall.EROFS), exitUsage},
		"no such host":      {listen(&net.DNSError{Err: "no such host", Name: "x", IsNotFound: true}), exitUsage},
		"not assignable":    {listen(os.NewSyscallError("bind", syscall.EADDRNOTAVAIL)), exitUsage},
		"name server fails": {listen(&net.DNSError{Err: "server misbehaving", Name: "x", IsTemporary: true}), exitFailed},
		"port in use":       {listen(os.NewSyscallError("bind", syscall.EADDRINUSE)), exitFailed},
		"directory in use":  {fmt.Errorf("%w: x", raftstore.ErrInUse), exitFailed},
		"disk full":         {fmt.Errorf("%w: %w", raftstore.ErrStorage, syscall.ENOSPC), exitFailed},
		"something else":    {errors.New("something else"), exitFailed},
	} {
		b := newBench(nil, stopAtOnce)
		b.run = func(context.Context, config.Config, hclog.Logger, string) error { return tc.err }
		if code, _ := b.main("server", "--host", "h", "--data-dir", t.TempDir()); code != tc.want {
			t.Errorf("%s: exit code %d, want %d", name, code, tc.want)
		}
		if n := strings.Count(b.log.String(), tc.err.Error()); n != 1 {
			t.Errorf("%s: said %d times:\n%s", name, n, b.log.String())
		}
	}
}

// The same, with a whole process and the real causes.
func TestProcessExitCodes(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
		return path
	}
	file := write("file", "x")
	write("foreign/raft.db", strings.Repeat("no log ", 10000))
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"no token file":    {[]string{"--token-file", filepath.Join(dir, "none")}, "the admin token file cannot be read"},
		"empty token file": {[]string{"--token-file", write("token", "\n")}, "has an empty first line"},
		"bad certificate":  {[]string{"--web-tls-cert", file, "--web-tls-key", file}, "it holds nothing in PEM form"},
		"half of TLS":      {[]string{"--cluster-tls-cert", file}, "--cluster-tls-key"},
		"file as data dir": {[]string{"--data-dir", file}, file},
		"below a file":     {[]string{"--data-dir", filepath.Join(file, "x")}, file},
		"damaged log":      {[]string{"--data-dir", filepath.Join(dir, "foreign")}, "raft.db"},
		"no such host":     {[]string{"--host", "no-such-host.invalid"}, "cannot resolve --host"},
		"not our address":  {[]string{"--host", "192.0.2.1"}, "no address of this machine"},
	} {
		ports := freePorts(t, 2)
		args := append([]string{"server", "--host", "127.0.0.1", "--data-dir", filepath.Join(dir, name), "--port", ports[0], "--webui-port", ports[1]}, tc.args...)
		p := startProcess(t, args...)
		code, log := p.exitCode(t), p.log.String()
		if name == "no such host" && strings.Contains(log, "misbehaving") {
			continue // this machine's name server does not answer, which may pass
		}
		if code != exitUsage || strings.Count(log, tc.want) != 1 && name != "file as data dir" && name != "below a file" || !strings.Contains(log, tc.want) {
			t.Errorf("%s: exit code %d:\n%s", name, code, log)
		}
		if n := strings.Count(log, "the master failed") + strings.Count(log, "\nraftmaster: ") + strings.Count(log[:min(12, len(log))], "raftmaster: "); n != 1 {
			t.Errorf("%s: the failure is said %d times:\n%s", name, n, log)
		}
	}
}

func TestEmptyFlagsAreRefused(t *testing.T) {
	for _, name := range []string{"cluster", "data-dir", "host", "advertise-host", "token-file", "properties-file", "log-level"} {
		b := newBench(nil, stopAtOnce)
		if code, _ := b.main("server", "--"+name, ""); code != exitUsage || len(b.ran) != 0 || !strings.Contains(b.log.String(), "--"+name+" is given and empty") {
			t.Errorf("--%s: exit code %d: %s", name, code, b.log.String())
		}
	}
	b := newBench(nil, stopAtOnce)
	if code, _ := b.main("dev", "--workers", "0", "--data-dir="); code != exitUsage || !strings.Contains(b.log.String(), "--data-dir is given and empty") {
		t.Errorf("dev: exit code %d: %s", code, b.log.String())
	}
}

func TestFlagErrorsArePlain(t *testing.T) {
	for arg, want := range map[string]string{"--port=x": "a whole number", "--failover-timeout=5": "a time with a unit", "--log-json=maybe": "true or false"} {
		b := newBench(nil, stopAtOnce)
		code, _ := b.main("server", arg)
		log := b.log.String()
		if code != exitUsage || !strings.Contains(log, "must be "+want) || strings.Contains(log, "strconv") || strings.Contains(log, "time:") {
			t.Errorf("%s: exit code %d: %s", arg, code, log)
		}
	}
}

// TestSignals: two signals at once are one request; a later one ends the process at once, and cleans up first.
func TestSignals(t *testing.T) {
	var did []string
	now := time.Now()
	s := &stopper{log: hclog.NewNullLogger(), cancel: func() { did = append(did, "cancel") }, hurried: func() { did = append(did, "clean") },
		now: func() time.Time { return now }, exit: func(code int) { did = append(did, "exit "+strconv.Itoa(code)) }}
	s.signal(syscall.SIGTERM)
	now = now.Add(sameRequest - time.Millisecond)
	s.signal(syscall.SIGTERM)
	if got := strings.Join(did, ","); got != "cancel" {
		t.Fatalf("%s", got)
	}
	now = now.Add(time.Millisecond)
	s.signal(syscall.SIGINT)
	if got := strings.Join(did, ","); got != "cancel,clean,exit 130" {
		t.Errorf("%s", got)
	}
}

// A stop of dev that is cut short leaves no temporary directory behind either.
func TestDevCleansUpInAHurry(t *testing.T) {
	var hurried func()
	b := newBench(nil, func(b *bench, _ int) {
		dir := filepath.Dir(b.ran[0].DataDir)
		if _, err := os.Stat(dir); err != nil {
			t.Error(err)
		}
		hurried()
		if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s was left behind: %v", dir, err)
		}
		b.cancel()
	})
	inner := b.signals
	b.signals = func(log hclog.Logger, h func()) (context.Context, context.CancelFunc) {
		hurried = h
		return inner(log, h)
	}
	if code, _ := b.main("dev", "--masters", "1", "--workers", "0", "--base-port", "17077"); code != exitOK {
		t.Errorf("exit code %d: %s", code, b.log.String())
	}
}

// A data directory of another cluster is found out after the start, and ends with 2 as well.
func TestProcessOnAnotherClustersData(t *testing.T) {
	ports, dir := freePorts(t, 4), t.TempDir()
	first := startProcess(t, "server", "--host", "127.0.0.1", "--port", ports[0], "--webui-port", ports[1], "--data-dir", dir)
	waitFor(t, "leader", func() bool { return isLeader(ports[1]) })
	if err := first.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := first.exitCode(t); code != exitOK {
		t.Fatalf("exit code %d:\n%s", code, first.log.String())
	}
	p := startProcess(t, "server", "--host", "127.0.0.1", "--port", ports[2], "--webui-port", ports[1], "--data-dir", dir,
		"--cluster", "127.0.0.1:"+ports[2]+",127.0.0.1:"+ports[3])
	if code := p.exitCode(t); code != exitUsage || !strings.Contains(p.log.String(), "data directory of another cluster") {
		t.Errorf("exit code %d:\n%s", code, p.log.String())
	}
}
