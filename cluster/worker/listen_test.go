package worker

import (
	"context"
	"net"
	"strings"
	"testing"
)

// A port in use is followed by the next; an address that is not ours is not tried at 17 ports, and every error says
// what helps.
func TestListen(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	port := taken.Addr().(*net.TCPAddr).Port
	ln, err := listen("127.0.0.1", port, 16)
	if err != nil {
		t.Fatalf("no port after a taken one: %v", err)
	}
	if err := ln.Close(); err != nil {
		t.Error(err)
	}
	for name, c := range map[string]struct {
		host  string
		port  int
		wants []string
	}{
		"taken":    {"127.0.0.1", port, []string{"address already in use", "give another --port"}},
		"not ours": {"192.0.2.77", 20001, []string{"192.0.2.77:20001", "no address of this machine", "--host"}},
		"unknown":  {"nowhere.invalid", 0, []string{"cannot resolve its own host", "--host"}},
	} {
		retries := 16
		if name == "taken" {
			retries = 0
		}
		ln, err := listen(c.host, c.port, retries)
		if err == nil {
			t.Errorf("%s: listens at %v", name, ln.Addr())
			if err := ln.Close(); err != nil {
				t.Error(err)
			}
			continue
		}
		for _, want := range c.wants {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v lacks %q", name, err, want)
			}
		}
	}
}

// Who has opened a firewall for the configured ports is told that they moved.
func TestMovedPortsAreSaid(t *testing.T) {
	s := settings(t, nil, 1)
	s.PortMaxRetries = 16
	for _, port := range []*int{&s.Port, &s.WebUIPort} {
		taken, err := net.Listen("tcp", net.JoinHostPort(s.Host, "0"))
		if err != nil {
			t.Fatal(err)
		}
		defer taken.Close()
		*port = taken.Addr().(*net.TCPAddr).Port
	}
	log, sink := newLog(t, "worker")
	w, err := New(Config{Settings: s, Home: fakeHome(t, "3.5.9"), Log: log, Environ: func(context.Context) ([]string, error) { return nil, nil }})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	if n := strings.Count(sink.String(), "the configured port is in use"); n != 2 {
		t.Errorf("said %d times, want 2:\n%s", n, sink.String())
	}
	s.WebUIHost = "192.0.2.77"
	_, err = New(Config{Settings: s, Home: fakeHome(t, "3.5.9"), Log: log, Environ: func(context.Context) ([]string, error) { return nil, nil }})
	if err == nil || !strings.Contains(err.Error(), "cannot bind the web UI") || !strings.Contains(err.Error(), "SPARK_LOCAL_IP") {
		t.Errorf("a web UI at an address that is not ours: %v", err)
	}
}
