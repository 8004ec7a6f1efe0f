package main

import (
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// serviceManager keeps what services say on its socket.
type serviceManager struct {
	path string
	mu   sync.Mutex
	said []string
}

func newServiceManager(t *testing.T) *serviceManager {
	t.Helper()
	m := &serviceManager{path: filepath.Join(t.TempDir(), "notify")}
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: m.path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, 4096)
		for {
			n, _, err := c.ReadFromUnix(buf)
			if err != nil {
				return
			}
			m.mu.Lock()
			m.said = append(m.said, string(buf[:n]))
			m.mu.Unlock()
		}
	}()
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		<-done
	})
	return m
}

// count gives how many messages have this text in them.
func (m *serviceManager) count(text string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := 0
	for _, s := range m.said {
		if strings.Contains(s, text) {
			n++
		}
	}
	return n
}

// A master under a service manager: READY when its pages answer, pings while it lives and none while it is stopped, the role,
// and STOPPING before it ends.
func TestProcessNotifiesTheServiceManager(t *testing.T) {
	http.DefaultTransport.(*http.Transport).DisableKeepAlives = true
	manager := newServiceManager(t)
	t.Setenv("NOTIFY_SOCKET", manager.path)
	t.Setenv("WATCHDOG_USEC", "300000")
	ports := freePorts(t, 3)
	p := startProcess(t, "server", "--host", "127.0.0.1", "--port", ports[0], "--webui-port", ports[1], "--rest-port", ports[2], "--data-dir", t.TempDir())
	waitFor(t, "READY", func() bool { return manager.count("READY=1") == 1 })
	resp, err := http.Get("http://127.0.0.1:" + ports[1] + "/v1/status")
	if err != nil {
		t.Fatal(err)
	}
	if err := resp.Body.Close(); err != nil {
		t.Error(err)
	}
	waitFor(t, "the role", func() bool { return manager.count("STATUS=leading, term ") > 0 })
	waitFor(t, "pings", func() bool { return manager.count("WATCHDOG=1") >= 3 })

	if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	time.Sleep(200 * time.Millisecond) // what was on its way has arrived
	before := manager.count("WATCHDOG=1")
	time.Sleep(time.Second)
	if n := manager.count("WATCHDOG=1") - before; n > 0 {
		t.Errorf("%d pings of a process that is stopped", n)
	}
	if err := p.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "pings again", func() bool { return manager.count("WATCHDOG=1") > before })
	if manager.count("STOPPING=1") > 0 {
		t.Error("STOPPING too early")
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := p.exitCode(t); code != exitOK || manager.count("STOPPING=1") != 1 {
		t.Errorf("exit code %d, %q", code, manager.said)
	}
}

func TestProcessRefusesABadNotifySocket(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "nonsense")
	p := startProcess(t, "version")
	if code := p.exitCode(t); code != exitUsage || !strings.Contains(p.log.String(), "NOTIFY_SOCKET") {
		t.Errorf("exit code %d: %s", code, p.log.String())
	}
}
