package portmux

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

type seen struct {
	kind string
	data []byte
}

func start(t *testing.T) (*Mux, chan seen, *syncBuffer) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan seen, 16)
	take := func(kind string) func(net.Conn) {
		return func(c net.Conn) {
			defer c.Close()
			data, err := io.ReadAll(c)
			if err != nil {
				data = append(data, "!"+err.Error()...)
			}
			got <- seen{kind, data}
		}
	}
	logs := &syncBuffer{}
	m := Serve(ln, Handlers{
		Spark: take("spark"), Internal: take("internal"),
		HTTPHint: func() string { return "http://master:8080/" },
	}, hclog.New(&hclog.LoggerOptions{Output: logs, Level: hclog.Debug}))
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return m, got, logs
}

func dial(t *testing.T, m *Mux) net.Conn {
	t.Helper()
	c, err := net.DialTimeout("tcp", m.Addr().String(), 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func TestFirstByteDecidesAndIsNotConsumed(t *testing.T) {
	m, got, _ := start(t)
	for _, tc := range []struct {
		kind string
		data []byte
	}{
		{"spark", []byte{0, 0, 0, 0, 0, 0, 0, 21, 9}},
		{"spark", []byte{0}},
		{"internal", []byte{Magic, 1, 2, 3}},
	} {
		c := dial(t, m)
		if _, err := c.Write(tc.data); err != nil {
			t.Fatal(err)
		}
		if err := c.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		s := <-got
		if s.kind != tc.kind || !bytes.Equal(s.data, tc.data) {
			t.Errorf("%s % x: handled as %s % x", tc.kind, tc.data, s.kind, s.data)
		}
	}
}

func TestHTTPVerbsGetOneLineThatNamesTheRightPort(t *testing.T) {
	m, got, _ := start(t)
	for _, verb := range []string{"GET", "POST", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "CONNECT", "get"} {
		c := dial(t, m)
		if _, err := fmt.Fprintf(c, "%s / HTTP/1.1\r\nHost: x\r\n\r\n", verb); err != nil {
			t.Fatal(err)
		}
		if err := c.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
			t.Fatal(err)
		}
		answer, err := io.ReadAll(c)
		if err != nil {
			t.Fatalf("%s: %v", verb, err)
		}
		if !strings.HasPrefix(string(answer), "HTTP/1.1 400 ") || !strings.Contains(string(answer), "http://master:8080/") {
			t.Errorf("%s: answer %q", verb, answer)
		}
		_ = c.Close()
	}
	if len(got) != 0 {
		t.Errorf("a handler saw %v", <-got)
	}
}

// TestSparksRESTClientGoesOnOverRPC: it does so only when the connection ends without an answer. Others get the hint.
func TestSparksRESTClientGoesOnOverRPC(t *testing.T) {
	m, _, _ := start(t)
	for _, tc := range []struct {
		parts  []string
		silent bool
	}{
		{[]string{"POST /v1/submissions/create HTTP/1.1\r\nContent-Type: application/json\r\nUser-Agent: Java/17.0.12\r\nContent-Length: 2\r\n\r\n", "{}"}, true},
		{[]string{"GET /v1/submissions/status/driver-1 HTTP/1.1\r\n", "user-agent: Spark Java/1.8.0_402\r\n\r\n"}, true},
		{[]string{"GET /v1/submissions/status/driver-1 HTTP/1.1\r\nUser-Agent: curl/8.5.0\r\n\r\n"}, false},
		{[]string{"GET / HTTP/1.1\r\nUser-Agent: Java/17.0.12\r\n\r\n"}, false},
	} {
		c := dial(t, m)
		for _, part := range tc.parts {
			if _, err := io.WriteString(c, part); err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Millisecond) // let it arrive alone, mostly
		}
		if err := c.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
			t.Fatal(err)
		}
		answer, _ := io.ReadAll(c) // a reset is an end, too
		if tc.silent != (len(answer) == 0) {
			t.Errorf("%q: answer %q", tc.parts, answer)
		}
		_ = c.Close()
	}
}

func TestTLSAndStrangersAreClosedWithOneLine(t *testing.T) {
	m, got, logs := start(t)
	for range 5 {
		for _, first := range []byte{0x16, 0xFF, 'z'} {
			c := dial(t, m)
			if _, err := c.Write([]byte{first, 3, 1}); err != nil {
				t.Fatal(err)
			}
			if err := c.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
				t.Fatal(err)
			}
			n, err := c.Read(make([]byte, 1))
			if n != 0 || err == nil {
				t.Errorf("%#x: read %d bytes, err %v", first, n, err)
			}
		}
	}
	text := logs.String()
	if n := strings.Count(text, "spark.ssl.rpc.enabled"); n != 1 {
		t.Errorf("%d lines name the missing TLS support, want 1:\n%s", n, text)
	}
	if len(got) != 0 {
		t.Errorf("a handler saw %v", <-got)
	}
}

func TestCloseEndsConnectionsAndWaitsForHandlers(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	entered, ended := make(chan struct{}, 2), make(chan struct{}, 2)
	block := func(c net.Conn) {
		entered <- struct{}{}
		_, _ = io.Copy(io.Discard, c)
		ended <- struct{}{}
	}
	m := Serve(ln, Handlers{Spark: block, Internal: block}, hclog.NewNullLogger())
	for _, first := range []byte{0, Magic} {
		if _, err := dial(t, m).Write([]byte{first}); err != nil {
			t.Fatal(err)
		}
		<-entered
	}
	silent := dial(t, m)
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	if len(ended) != 2 {
		t.Errorf("Close returned while %d handlers were running", 2-len(ended))
	}
	if _, err := silent.Read(make([]byte, 1)); err == nil {
		t.Error("a silent connection survived Close")
	}
	if _, err := net.DialTimeout("tcp", ln.Addr().String(), 10*time.Second); err == nil {
		t.Error("the port still accepts after Close")
	}
}
