package main

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
)

// runMainEnv makes the test binary behave as the program, so that signals and exit codes can be seen from outside.
const runMainEnv = "RAFTMASTER_TEST_RUN_MAIN"

func init() {
	if os.Getenv(runMainEnv) == "1" {
		main()
	}
}

// process is a raftmaster in a process of its own.
type process struct {
	cmd *exec.Cmd
	log lockedBuffer
}

func startProcess(t *testing.T, args ...string) *process {
	t.Helper()
	p := &process{cmd: exec.Command(os.Args[0], args...)}
	p.cmd.Env = append(os.Environ(), runMainEnv+"=1")
	p.cmd.Stderr, p.cmd.Stdout = &p.log, &p.log
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("log of %v:\n%s", args, p.log.String())
		}
		if p.cmd.ProcessState == nil {
			if err := errors.Join(p.cmd.Process.Kill(), p.cmd.Wait()); err == nil {
				t.Log("a process had to be killed")
			}
		}
	})
	return p
}

// exitCode waits for the end.
func (p *process) exitCode(t *testing.T) int {
	t.Helper()
	err := p.cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return p.cmd.ProcessState.ExitCode()
}

// freePorts finds ports that nobody listens on. They lie below the range from which the kernel gives ports to outgoing
// connections, so that no connection of another test takes one meanwhile; where the search begins depends on the process.
func freePorts(t *testing.T, n int) []string {
	t.Helper()
	var out []string
	for range 1000 {
		port := 12000 + int(nextPort.Add(1)+int64(os.Getpid())*97)%18000
		ln, err := net.Listen("tcp", "0.0.0.0:"+strconv.Itoa(port))
		if err != nil {
			continue
		}
		if err := ln.Close(); err != nil {
			t.Fatal(err)
		}
		if out = append(out, strconv.Itoa(port)); len(out) == n {
			return out
		}
	}
	t.Fatal("no free ports below 32768")
	return nil
}

var nextPort atomic.Int64

func isLeader(web string) bool {
	resp, err := http.Get("http://127.0.0.1:" + web + "/leader")
	if err != nil {
		return false
	}
	return errors.Join(resp.Body.Close()) == nil && resp.StatusCode == http.StatusOK
}

// TestProcess: a master alone becomes ALIVE, refuses to share its port, stops in order on SIGTERM, and starts again on
// its data.
func TestProcess(t *testing.T) {
	http.DefaultTransport.(*http.Transport).DisableKeepAlives = true
	ports := freePorts(t, 3)
	dir := t.TempDir()
	args := []string{"server", "--host", "127.0.0.1", "--port", ports[0], "--webui-port", ports[1], "--data-dir", filepath.Join(dir, "a")}
	first := startProcess(t, args...)
	waitFor(t, "leader", func() bool { return isLeader(ports[1]) })

	// The cluster port never walks: a second master there fails, with a reason, and does not disturb the first.
	second := startProcess(t, "server", "--host", "127.0.0.1", "--port", ports[0], "--webui-port", ports[2], "--data-dir", filepath.Join(dir, "b"))
	if code := second.exitCode(t); code != exitFailed || !strings.Contains(second.log.String(), "cannot listen on the cluster port") {
		t.Errorf("exit code %d:\n%s", code, second.log.String())
	}
	if !isLeader(ports[1]) {
		t.Error("the first master lost its leadership")
	}

	if err := first.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := first.exitCode(t); code != exitOK {
		t.Errorf("after SIGTERM: exit code %d", code)
	}
	for _, line := range []string{
		"Started daemon with process name: " + strconv.Itoa(first.cmd.Process.Pid) + "@",
		"Starting Spark master at spark://127.0.0.1:" + ports[0],
		"Successfully started service 'MasterUI' on port " + ports[1] + ".",
		"Bound MasterWebUI to 0.0.0.0, and started at http://127.0.0.1:" + ports[1],
		"I have been elected leader! New state: ALIVE",
		"RECEIVED SIGNAL TERM",
	} {
		if !strings.Contains(first.log.String(), line) {
			t.Errorf("the log lacks %q:\n%s", line, first.log.String())
		}
	}

	again := startProcess(t, args...)
	waitFor(t, "leader after the restart", func() bool { return isLeader(ports[1]) })
	if err := again.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if code := again.exitCode(t); code != exitOK || !strings.Contains(again.log.String(), "RECEIVED SIGNAL INT") {
		t.Errorf("after SIGINT: exit code %d", code)
	}
}

// A busy web UI port makes the UI walk, and the master says where it went.
func TestProcessWebPortWalks(t *testing.T) {
	http.DefaultTransport.(*http.Transport).DisableKeepAlives = true
	ports := freePorts(t, 1)
	busy, err := net.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := busy.Close(); err != nil {
			t.Error(err)
		}
	}()
	taken := busy.Addr().(*net.TCPAddr).Port
	p := startProcess(t, "server", "--host", "127.0.0.1", "--port", ports[0], "--webui-port", strconv.Itoa(taken), "--data-dir", t.TempDir())
	waitFor(t, "line that names the port", func() bool { return strings.Contains(p.log.String(), "Successfully started service 'MasterUI'") })
	if strings.Contains(p.log.String(), fmt.Sprintf("'MasterUI' on port %d.", taken)) {
		t.Error("the UI says that it took a port that is taken")
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := p.exitCode(t); code != exitOK {
		t.Errorf("exit code %d:\n%s", code, p.log.String())
	}
}

// A configuration that cannot be right ends with 2 and one line that says why.
func TestProcessRefusesByName(t *testing.T) {
	p := startProcess(t, "server", "--host", "0.0.0.0", "--data-dir", t.TempDir())
	if code := p.exitCode(t); code != exitUsage || !strings.Contains(p.log.String(), "--advertise-host") {
		t.Errorf("exit code %d: %s", code, p.log.String())
	}
	if lines := bytes.Count([]byte(p.log.String()), []byte("\n")); lines != 1 {
		t.Errorf("%d lines: %s", lines, p.log.String())
	}
}
