package main

import (
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
)

// B-008: a terminal that goes away ends a master in order, with its hand-over, as SIGTERM does; under nohup(1) it goes on.
func TestHangUp(t *testing.T) {
	http.DefaultTransport.(*http.Transport).DisableKeepAlives = true
	handled := make(chan os.Signal, 1)
	signal.Notify(handled, syscall.SIGHUP) // children get what they would have from a shell
	t.Cleanup(func() { signal.Reset(syscall.SIGHUP) })
	start := func() (*process, string) {
		ports := freePorts(t, 2)
		p := startProcess(t, "server", "--host", "127.0.0.1", "--port", ports[0], "--webui-port", ports[1], "--rest-port", "0", "--data-dir", t.TempDir())
		waitFor(t, "leader", func() bool { return isLeader(ports[1]) })
		return p, ports[1]
	}
	p, _ := start()
	if err := p.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	if code := p.exitCode(t); code != exitOK || !strings.Contains(p.log.String(), "RECEIVED SIGNAL HUP") {
		t.Errorf("exit code %d:\n%s", code, p.log.String())
	}

	signal.Ignore(syscall.SIGHUP) // as nohup does
	p, web := start()
	for _, sig := range []os.Signal{syscall.SIGHUP, syscall.SIGHUP} {
		if err := p.cmd.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
	}
	if !isLeader(web) || strings.Contains(p.log.String(), "RECEIVED SIGNAL") {
		t.Errorf("it did not go on:\n%s", p.log.String())
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := p.exitCode(t); code != exitOK || strings.Contains(p.log.String(), "HUP") {
		t.Errorf("exit code %d:\n%s", code, p.log.String())
	}
}
