package worker

import (
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"raftmaster/cluster/config"
	"raftmaster/transport/frame"
	"raftmaster/transport/sparkmsg"
)

// A stop while the resources are being found is a stop in order, not a worker that cannot go on.
func TestStopDuringStart(t *testing.T) {
	m := newFakeMaster(t, accepting)
	s := settings(t, []frame.Address{m.addr}, 1)
	mark := filepath.Join(t.TempDir(), "runs")
	script := filepath.Join(t.TempDir(), "discover")
	write(t, script, "#!/bin/sh\n: > "+mark+"\nexec sleep 60\n", 0o755)
	s.Resources = []config.WorkerResource{{Name: "gpu", Amount: 1, Script: script}}
	w := startWorker(t, s, fakeJava(t, "exit 0"), nil)
	eventually(t, "discovery runs", func() bool { _, err := os.Stat(mark); return err == nil })
	w.stop() // fails the test on an error
}

// Strangers that hold connections open take no more of the worker's descriptors than a share, and masters are still heard.
func TestConnectionsOfStrangersAreBounded(t *testing.T) {
	m := newFakeMaster(t, accepting)
	w := startWorker(t, settings(t, []frame.Address{m.addr}, 1), fakeJava(t, "exit 0"), nil)
	eventually(t, "registration", func() bool { return w.Status().Connected })
	flooder := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(newHost())}, Timeout: 5 * time.Second}
	// Whoever has said something may stay.
	head := frame.BeginRequest(nil, frame.RPCRequest, 1, frame.Request{Receiver: &frame.Address{Host: w.Address().Host, Port: w.Address().Port}, Endpoint: endpointVerifier})
	greeting, err := sparkmsg.Append(head, &sparkmsg.CheckExistence{Name: endpointWorker}, sparkmsg.FamilyB)
	if err != nil {
		t.Fatal(err)
	}
	frame.EndRequest(greeting, 0)
	closed := make(chan struct{}, 2*maxConnsPerHost)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for range 2 * maxConnsPerHost {
		nc, err := flooder.DialContext(ctx, "tcp", w.Address().String())
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		_, _ = nc.Write(greeting) // one that is closed already may refuse it
		go func() {
			_, _ = io.Copy(io.Discard, nc) // ends when either side closes
			closed <- struct{}{}
		}()
	}
	for i := range maxConnsPerHost {
		select {
		case <-closed:
		case <-time.After(patience):
			t.Fatalf("%d of %d connections were closed", i, 2*maxConnsPerHost)
		}
	}
	if n := len(closed); n != 0 {
		t.Errorf("%d more than the share were closed", n)
	}
	m.send(w, testExecutor(m, "app", 0))
	eventually(t, "the launch is heard", func() bool { s := w.Status(); return len(s.Executors)+len(s.FinishedExecutors) == 1 })
}

// Ids of executors and drivers that lead out of the work directory start nothing there.
func TestIDsThatArePaths(t *testing.T) {
	m := newFakeMaster(t, accepting)
	s := settings(t, []frame.Address{m.addr}, 8)
	w := startWorker(t, s, fakeJava(t, "exit 0"), nil)
	eventually(t, "registration", func() bool { return w.Status().Connected })
	for _, id := range []string{"", ".", "..", "../..", "/tmp", "a/b", "a\x00b", ".raftmaster-worker", ".removing-1", strings.Repeat("x", 256)} {
		m.send(w, testExecutor(m, id, 0))
		m.send(w, testDriver(m, id))
	}
	m.send(w, testExecutor(m, strings.Repeat("é", 127), 0)) // the longest name
	eventually(t, "the last launch ends", func() bool { return len(w.Status().FinishedExecutors) == 1 })
	if v := w.Status(); len(v.FinishedExecutors)+len(v.Executors) != 1 || len(v.Drivers)+len(v.FinishedDrivers) != 0 {
		t.Errorf("%d executors and %d drivers were launched", len(v.FinishedExecutors)+len(v.Executors), len(v.Drivers)+len(v.FinishedDrivers))
	}
	entries, err := os.ReadDir(s.WorkDir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Name() != ".raftmaster-worker" && e.Name() != strings.Repeat("é", 127) {
			t.Errorf("%s was made", e.Name())
		}
	}
}

// Executors that cannot be started leave no directories behind, however many a master launches.
func TestFailedStartsLeaveNoDirectories(t *testing.T) {
	m := newFakeMaster(t, accepting)
	s := settings(t, []frame.Address{m.addr}, 8)
	java := fakeJava(t, "exit 0")
	w := startWorker(t, s, java, nil)
	eventually(t, "registration", func() bool { return w.Status().Connected })
	if err := os.Remove(filepath.Join(java, "bin", "java")); err != nil {
		t.Fatal(err)
	}
	const launches = 50
	for i := range int32(launches) {
		l := testExecutor(m, "app", i)
		l.Resources = []sparkmsg.ResourceInformation{{Name: "gpu", Addresses: []string{"0"}}}
		m.send(w, l)
	}
	eventually(t, "all have failed", func() bool { return len(w.Status().FinishedExecutors) == launches })
	entries, err := os.ReadDir(filepath.Join(s.WorkDir, "app"))
	if err != nil || len(entries) != 0 {
		t.Errorf("%d directories are left, %v", len(entries), err)
	}
}
