package portmux

import (
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// S14: pollers that take the cluster port for a web port come again and again: each is answered and closed, and leaves
// nothing behind.
func TestS14_HTTPRequestsLeaveNothingBehind(t *testing.T) {
	m, got, logs := start(t)
	total, callers := 10_000, 8
	if testing.Short() {
		total = 800
	}
	goroutines := runtime.NumGoroutine()
	ask := func() error {
		c, err := net.DialTimeout("tcp", m.Addr().String(), 20*time.Second)
		if err != nil {
			return err
		}
		defer c.Close()
		if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
			return err
		}
		if _, err := io.WriteString(c, "GET /v1/submissions/status/driver-1 HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			return err
		}
		answer, err := io.ReadAll(c)
		if err == nil && !strings.HasPrefix(string(answer), "HTTP/1.1 400 ") {
			err = fmt.Errorf("answer %q", answer)
		}
		return err
	}
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for range total / callers {
				if err := ask(); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	left := func() (conns, addresses int) {
		m.mu.Lock()
		defer m.mu.Unlock()
		return len(m.conns), len(m.perIP)
	}
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		conns, addresses := left()
		if conns == 0 && addresses == 0 && runtime.NumGoroutine() <= goroutines {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("%d connections, %d addresses and %d goroutines are left, there were %d goroutines", conns, addresses, runtime.NumGoroutine(), goroutines)
		}
	}
	if n := strings.Count(logs.String(), "\n"); n > 20 {
		t.Errorf("%d log lines", n)
	}
	if len(got) != 0 {
		t.Errorf("a handler saw %v", <-got)
	}
}
