package worker

import (
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
