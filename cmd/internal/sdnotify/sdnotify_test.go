package sdnotify

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// manager is a service manager's socket.
func manager(t *testing.T, name string) <-chan string {
	t.Helper()
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	out, done := make(chan string, 1000), make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, 4096)
		for {
			n, _, err := c.ReadFromUnix(buf)
			if err != nil {
				return
			}
			out <- string(buf[:n])
		}
	}()
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		<-done
	})
	return out
}

func next(t *testing.T, in <-chan string) string {
	t.Helper()
	select {
	case s := <-in:
		return s
	case <-time.After(30 * time.Second):
		t.Fatal("nothing was said")
		return ""
	}
}

// take makes a Notifier from variables, and gives what was unset.
func take(t *testing.T, env map[string]string) (*Notifier, error) {
	t.Helper()
	n, err := Take(77, func(k string) (string, bool) { v, ok := env[k]; return v, ok }, func(k string) error { delete(env, k); return nil })
	if len(env) != 0 {
		t.Errorf("children would get %v", env)
	}
	return n, err
}

func TestTake(t *testing.T) {
	for _, c := range []struct {
		env      map[string]string
		none     bool
		wrong    bool
		watchdog time.Duration
	}{
		{env: map[string]string{}, none: true},
		{env: map[string]string{"WATCHDOG_USEC": "1000"}, none: true},
		{env: map[string]string{"NOTIFY_SOCKET": "/run/x"}},
		{env: map[string]string{"NOTIFY_SOCKET": "@x", "WATCHDOG_USEC": "3000000"}, watchdog: 3 * time.Second},
		{env: map[string]string{"NOTIFY_SOCKET": "/x", "WATCHDOG_USEC": "3000000", "WATCHDOG_PID": "77"}, watchdog: 3 * time.Second},
		{env: map[string]string{"NOTIFY_SOCKET": "/x", "WATCHDOG_USEC": "3000000", "WATCHDOG_PID": "78"}},
		{env: map[string]string{"NOTIFY_SOCKET": "vsock:2:1"}, wrong: true},
		{env: map[string]string{"NOTIFY_SOCKET": "/x", "WATCHDOG_USEC": "soon"}, wrong: true},
		{env: map[string]string{"NOTIFY_SOCKET": "/x", "WATCHDOG_USEC": "-1"}, wrong: true},
	} {
		n, err := take(t, c.env)
		if (err != nil) != c.wrong || (n == nil) != (c.none || c.wrong) || (n != nil && n.watchdog != c.watchdog) {
			t.Errorf("%+v gave %+v, %v", c, n, err)
		}
	}
}

// The whole life of a service, on a socket with a path and on an abstract one.
func TestRun(t *testing.T) {
	for name, socket := range map[string]string{"path": filepath.Join(t.TempDir(), "s"), "abstract": "@raftmaster-test-" + strconv.Itoa(os.Getpid())} {
		t.Run(name, func(t *testing.T) {
			said := manager(t, socket)
			n, err := take(t, map[string]string{"NOTIFY_SOCKET": socket, "WATCHDOG_USEC": "60000"})
			if err != nil {
				t.Fatal(err)
			}
			var hung atomic.Bool
			var status atomic.Pointer[string]
			set := func(s string) { status.Store(&s) }
			set("standby\nMAINPID=1")
			ctx, cancel := context.WithCancel(context.Background())
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				n.Run(ctx, Service{Log: hclog.NewNullLogger(), Status: func() string { return *status.Load() }, Check: func(ctx context.Context) error {
					if hung.Load() {
						<-ctx.Done()
						return errors.New("the loop does not answer")
					}
					return nil
				}})
			}()
			if got := next(t, said); !strings.HasPrefix(got, "READY=1\nSTATUS=standby MAINPID=1\n") {
				t.Errorf("first %q", got)
			}
			for range 3 {
				if got := next(t, said); got != "WATCHDOG=1" {
					t.Errorf("%q instead of a ping", got)
				}
			}
			set("leading")
			for next(t, said) != "STATUS=leading" {
			}
			// A loop that hangs: after what is under way, no ping comes.
			hung.Store(true)
			time.Sleep(100 * time.Millisecond)
			for len(said) > 0 {
				<-said
			}
			time.Sleep(200 * time.Millisecond)
			if len(said) > 0 {
				t.Errorf("a process that hangs says %q", <-said)
			}
			hung.Store(false)
			if got := next(t, said); got != "WATCHDOG=1" {
				t.Errorf("%q after it has come back", got)
			}
			cancel()
			<-ended
			last := ""
			for len(said) > 0 || !strings.HasPrefix(last, "STOPPING=1") {
				last = next(t, said)
			}
			if last != "STOPPING=1\nSTATUS=stopping" {
				t.Errorf("the last word is %q", last)
			}
		})
	}
}

func TestNobodyListens(t *testing.T) {
	n, err := take(t, map[string]string{"NOTIFY_SOCKET": filepath.Join(t.TempDir(), "gone")})
	if err != nil {
		t.Fatal(err)
	}
	if err := n.send("READY=1"); err == nil {
		t.Error("no error")
	}
	var none *Notifier
	if err := none.send("READY=1"); err != nil {
		t.Error(err)
	}
	none.Run(context.Background(), Service{})
}
