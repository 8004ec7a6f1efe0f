package worker

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"raftmaster/cluster/config"
	"raftmaster/cluster/launcher"
	"raftmaster/cluster/server"
	"raftmaster/cluster/sparkpeer"
	"raftmaster/transport/frame"
	"raftmaster/transport/sparkmsg"
)

// patience is for polling on a loaded machine; nothing is expected to take as long.
const patience = 60 * time.Second

const (
	testMasterPort = 28077
	testWebPort    = 28080
)

var lastHost atomic.Uint32

// newHost gives a loopback address of this test alone; the process id keeps test runs on one machine apart.
func newHost() string {
	pid, k := os.Getpid(), int(lastHost.Add(1))
	return fmt.Sprintf("127.%d.%d.%d", 10+pid%240, 64+(pid/240)%120+k/250, 1+k%250)
}

func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("no %s within %v", what, patience)
		}
	}
}

// logSink keeps log lines, to show when the test has failed.
type logSink struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *logSink) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *logSink) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func newLog(t *testing.T, name string) (hclog.Logger, *logSink) {
	sink := &logSink{}
	t.Cleanup(func() {
		if t.Failed() {
			text := sink.String()
			t.Logf("log of %s:\n%s", name, text[max(0, len(text)-20000):])
		}
	})
	return hclog.New(&hclog.LoggerOptions{Name: name, Output: sink, Level: hclog.Debug}), sink
}

// masters is a cluster of real masters in this process.
type masters struct {
	t    *testing.T
	cfgs []config.Config
	up   []*server.Server
	logs []hclog.Logger
}

func startMasters(t *testing.T, n int) *masters {
	t.Helper()
	m := &masters{t: t, up: make([]*server.Server, n)}
	hosts := make([]string, n)
	for i := range hosts {
		hosts[i] = newHost()
	}
	for i, host := range hosts {
		cfg := config.Default()
		cfg.Host, cfg.AdvertiseHost, cfg.PublicHost, cfg.WebUIHost = host, host, host, host
		cfg.Port, cfg.WebUIPort, cfg.PortMaxRetries, cfg.RESTEnabled = testMasterPort, testWebPort, 16, false
		for _, h := range hosts {
			cfg.Cluster = append(cfg.Cluster, config.Address{Host: h, Port: testMasterPort})
		}
		cfg.DataDir = filepath.Join(t.TempDir(), "data")
		cfg.FailoverTimeout = time.Second
		cfg.Deploy.WorkerTimeout, cfg.Deploy.RecoveryTimeout = 20*time.Second, 20*time.Second
		if err := cfg.Validate(); err != nil {
			t.Fatal(err)
		}
		log, _ := newLog(t, "master"+fmt.Sprint(i+1))
		m.cfgs, m.logs = append(m.cfgs, cfg), append(m.logs, log)
	}
	t.Cleanup(func() {
		for _, s := range m.up {
			if s != nil {
				s.Kill()
			}
		}
	})
	for i := range m.cfgs {
		m.start(i)
	}
	m.leader()
	return m
}

func (m *masters) start(i int) {
	m.t.Helper()
	s, err := server.Start(m.cfgs[i], m.logs[i], "test")
	if err != nil {
		m.t.Fatal(err)
	}
	m.up[i] = s
}

// leader waits for one that leads and gives its number.
func (m *masters) leader() int {
	m.t.Helper()
	found := 0
	eventually(m.t, "a leader", func() bool {
		for i, s := range m.up {
			if s != nil && s.Node().LeaseValid() {
				found = i
				return true
			}
		}
		return false
	})
	return found
}

func (m *masters) kill(i int) {
	m.up[i].Kill()
	m.up[i] = nil
}

func (m *masters) addresses() (out []frame.Address) {
	for _, c := range m.cfgs {
		out = append(out, frame.Address{Host: c.Host, Port: int32(c.Port)})
	}
	return out
}

// fakeJava makes a JAVA_HOME whose java is a shell script.
func fakeJava(t *testing.T, script string) string {
	t.Helper()
	home := t.TempDir()
	write(t, filepath.Join(home, "bin", "java"), "#!/bin/sh\n"+script+"\n", 0o755)
	return home
}

func write(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

// fakeHome is a Spark installation without anything but its name.
func fakeHome(t *testing.T, release string) *launcher.Home {
	t.Helper()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "jars", "spark-core_2.12-"+release+".jar"), "", 0o644)
	home, err := launcher.OpenHome(dir)
	if err != nil {
		t.Fatal(err)
	}
	return home
}

// settings is a worker at a host of its own.
func settings(t *testing.T, list []frame.Address, cores int) *config.Worker {
	host := newHost()
	s := &config.Worker{Host: host, BindHost: host, WebUIHost: host, PublicHost: host, Cores: cores, MemoryMB: 1 << 20,
		WorkDir: filepath.Join(t.TempDir(), "work"), LocalDirs: []string{t.TempDir()}, Timeout: 4 * time.Second,
		InitialRegistrationRetries: 6, MaxRegistrationRetries: 16, ExecutorStateSyncMaxAttempts: 5, DriverTerminateTimeout: time.Second,
		DecommissionEnabled: true, RetainedExecutors: 1000, RetainedDrivers: 1000,
		IDPattern: config.DefaultWorkerIDPattern, AskTimeout: 5 * time.Second}
	s.UI.RedactionRegex = "(?i)secret|password|token"
	for _, a := range list {
		s.Masters = append(s.Masters, config.Address{Host: a.Host, Port: int(a.Port)})
	}
	return s
}

// testWorker is a worker that runs in this process.
type testWorker struct {
	*Worker
	t    *testing.T
	log  *logSink
	stop func()
	done chan error
}

// startWorker runs a worker whose processes are a shell script; tune may be nil.
func startWorker(t *testing.T, s *config.Worker, java string, tune func(*Config)) *testWorker {
	t.Helper()
	log, sink := newLog(t, "worker")
	environ := []string{"PATH=" + os.Getenv("PATH"), "JAVA_HOME=" + java}
	cfg := Config{Settings: s, Home: fakeHome(t, "3.5.9"), Log: log, RetryShort: 500 * time.Millisecond,
		Environ: func(context.Context) ([]string, error) { return environ, nil }}
	if tune != nil {
		tune(&cfg)
	}
	w, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	tw := &testWorker{Worker: w, t: t, log: sink, done: make(chan error, 1)}
	go func() { tw.done <- w.Run(ctx) }()
	var once sync.Once
	tw.stop = func() {
		once.Do(func() {
			cancel()
			select {
			case err := <-tw.done:
				if err != nil {
					t.Errorf("the worker ended with %v", err)
				}
			case <-time.After(patience):
				t.Errorf("the worker did not end within %v", patience)
			}
		})
	}
	t.Cleanup(tw.stop)
	return tw
}

func (w *testWorker) registered() {
	w.t.Helper()
	eventually(w.t, "registration", func() bool { return w.Status().Connected })
}

// app starts an application of one core per executor; max 0 is no limit.
func (m *masters) app(max int32) *sparkpeer.App {
	m.t.Helper()
	one := int32(1)
	cfg := sparkpeer.AppConfig{Common: sparkpeer.Common{Host: newHost(), Masters: m.addresses(), Resolve: 5 * time.Second},
		CoresPerExecutor: &one, MemoryMB: 128, RegisterEvery: time.Second, RegisterTries: 500}
	if max > 0 {
		cfg.MaxCores = &max
	}
	a, err := sparkpeer.NewApp(cfg)
	if err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(a.Close)
	if _, err := a.WaitRegistered(patience); err != nil {
		m.t.Fatal(err)
	}
	return a
}

// running counts the executors of an application that are RUNNING.
func running(a *sparkpeer.App) (n int) {
	for _, e := range a.Executors() {
		if e.State == sparkmsg.ExecutorRunning {
			n++
		}
	}
	return n
}

// pids are the processes of a worker's executors, by application and number.
func (w *testWorker) pids() map[string]int {
	out := map[string]int{}
	for _, e := range w.Status().Executors {
		if e.PID != 0 {
			out[fmt.Sprintf("%s/%d", e.AppID, e.ID)] = e.PID
		}
	}
	return out
}

// alive reports whether a process exists and has not ended.
func alive(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	rest := string(text[bytes.LastIndexByte(text, ')')+1:])
	return !strings.HasPrefix(rest, " Z")
}
