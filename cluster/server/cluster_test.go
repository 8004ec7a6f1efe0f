package server

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"raftmaster/cluster/config"
	"raftmaster/cluster/sparkpeer"
	"raftmaster/transport/frame"
	"raftmaster/transport/sparkmsg"
)

// patience is for polling on a loaded machine; nothing is expected to take as long.
const patience = 90 * time.Second

// Ports of these tests, below the range from which Linux takes ephemeral ports. Every process has an address of its own.
const (
	clusterPort = 27077
	webPort     = 27080
	workerPort  = 27078
	driverPort  = 27079
)

var lastHost atomic.Uint32

// newHost gives a loopback address of this test alone; the process id keeps test runs on one machine apart. A whole run
// takes several thousand: none may come twice.
func newHost() string {
	const perNet, nets = 250, 60
	pid, k := os.Getpid(), int(lastHost.Add(1))
	if k >= perNet*nets {
		panic("the tests of this package take more addresses than they have")
	}
	return fmt.Sprintf("127.%d.%d.%d", 10+pid%240, (pid/240)%4*nets+k/perNet, 1+k%perNet)
}

// logSink keeps log lines, the last ones, to show when the test has failed.
type logSink struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// maxLog bounds what is kept of the log of one master.
const maxLog = 4 << 20

func (s *logSink) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.b.Len() > maxLog {
		s.b.Next(maxLog / 2)
	}
	return s.b.Write(p)
}

func (s *logSink) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// member is one place of a cluster, whose process may come and go.
type member struct {
	t   testing.TB
	cfg config.Config
	log *logSink

	mu sync.Mutex
	s  *Server // nil while it is down
}

// cluster is a set of masters with the workers and applications of a test. It is used from the test's goroutine.
type cluster struct {
	t       testing.TB
	masters []*member
	workers []*worker
	apps    []*sparkpeer.App
	apart   bool // one master stands apart: the closing checks are the test's own
}

// worker is a worker of a cluster. gone: the test has killed it, or let it exit.
type worker struct {
	*sparkpeer.Worker
	gone bool
}

// testConfig is a master at host; hosts is the whole list.
func testConfig(t testing.TB, host string, hosts []string) config.Config {
	cfg := config.Default()
	cfg.Host, cfg.AdvertiseHost, cfg.PublicHost, cfg.WebUIHost = host, host, host, host
	cfg.Port, cfg.WebUIPort, cfg.PortMaxRetries, cfg.RESTEnabled = clusterPort, webPort, 0, false
	for _, h := range hosts {
		cfg.Cluster = append(cfg.Cluster, config.Address{Host: h, Port: clusterPort})
	}
	cfg.DataDir = filepath.Join(t.TempDir(), "data")
	cfg.FailoverTimeout = max(time.Second, 2*quickFailover)
	cfg.Deploy.WorkerTimeout, cfg.Deploy.RecoveryTimeout = 20*time.Second, 20*time.Second
	return cfg
}

// prepare makes the places of n masters without starting any. The closing checks run when the test ends.
func prepare(t testing.TB, n int, tune func(*config.Config)) *cluster {
	t.Helper()
	c := &cluster{t: t}
	hosts := make([]string, n)
	for i := range hosts {
		hosts[i] = newHost()
	}
	for _, h := range hosts {
		cfg := testConfig(t, h, hosts)
		if tune != nil {
			tune(&cfg)
		}
		if err := cfg.Validate(); err != nil {
			t.Fatal(err)
		}
		c.masters = append(c.masters, &member{t: t, cfg: cfg, log: &logSink{}})
	}
	t.Cleanup(c.close)
	return c
}

// shortFailover makes the time-out of these masters short, so that many failovers take little time.
func shortFailover(cfg *config.Config) { cfg.FailoverTimeout = quickFailover }

// steadyFailover is for tests in which nobody but the test may end a leader, however busy the machine is.
func steadyFailover(cfg *config.Config) { cfg.FailoverTimeout = 3 * time.Second }

// start brings up n masters and waits for their leader.
func start(t testing.TB, n int, tune func(*config.Config)) *cluster {
	t.Helper()
	c := prepare(t, n, tune)
	c.startAll()
	c.leader()
	return c
}

func (c *cluster) startAll() {
	c.t.Helper()
	for _, m := range c.masters {
		if m.server() == nil {
			m.start()
		}
	}
}

func (m *member) server() *Server {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.s
}

func (m *member) set(s *Server) *Server {
	m.mu.Lock()
	defer m.mu.Unlock()
	old := m.s
	m.s = s
	return old
}

func (m *member) logger() hclog.Logger {
	return hclog.New(&hclog.LoggerOptions{Name: m.cfg.Advertise().String(), Level: hclog.Info, Output: m.log})
}

func (m *member) start() *Server {
	m.t.Helper()
	s, err := Start(m.cfg, m.logger(), "test")
	if err != nil {
		m.t.Fatalf("start of %s: %v", m.cfg.Advertise(), err)
	}
	m.set(s)
	return s
}

// kill is a crash.
func (m *member) kill() {
	if s := m.set(nil); s != nil {
		s.Kill()
	}
}

// stop is SIGTERM.
func (m *member) stop() {
	m.t.Helper()
	if s := m.set(nil); s != nil {
		if err := s.Stop(); err != nil {
			m.t.Errorf("stop of %s: %v", m.cfg.Advertise(), err)
		}
	}
}

func (m *member) address() frame.Address {
	return frame.Address{Host: m.cfg.AdvertiseHost, Port: int32(m.cfg.Port)}
}

func (m *member) webURL() string {
	return fmt.Sprintf("http://%s:%d", m.cfg.WebUIHost, m.cfg.WebUIPort)
}

// running lists the masters that are up.
func (c *cluster) running() []*Server {
	var out []*Server
	for _, m := range c.masters {
		if s := m.server(); s != nil {
			out = append(out, s)
		}
	}
	return out
}

// leads tells whether a server may act as the leader now.
func leads(s *Server) bool { return s != nil && s.alive.Load() && s.node.LeaseValid() }

// findLeader gives the leader, nil if there is none now.
func (c *cluster) findLeader() *member {
	for _, m := range c.masters {
		if leads(m.server()) {
			return m
		}
	}
	return nil
}

// leader waits for the leader.
func (c *cluster) leader() *member {
	c.t.Helper()
	var l *member
	eventually(c.t, "a leader", func() bool { l = c.findLeader(); return l != nil })
	return l
}

// standbys lists the masters that are up and do not lead.
func (c *cluster) standbys() []*member {
	c.t.Helper()
	l := c.leader()
	var out []*member
	for _, m := range c.masters {
		if m != l && m.server() != nil {
			out = append(out, m)
		}
	}
	return out
}

// addresses is the master URL of workers and applications.
func (c *cluster) addresses() []frame.Address {
	out := make([]frame.Address, len(c.masters))
	for i, m := range c.masters {
		out[i] = m.address()
	}
	return out
}

// worker starts a worker; its timers are Spark's, scaled down.
func (c *cluster) worker(fam sparkmsg.Family, cores int32, tune func(*sparkpeer.WorkerConfig)) *worker {
	c.t.Helper()
	cfg := sparkpeer.WorkerConfig{
		Common: sparkpeer.Common{Host: newHost(), Port: workerPort, Masters: c.addresses(), Family: fam, Resolve: 5 * time.Second},
		Cores:  cores, MemoryMB: 16384, Heartbeat: time.Second, RetryShort: 500 * time.Millisecond, RetryLong: time.Second, MaxTries: 500,
		AskTimeout: 2 * time.Second, SyncTries: 60,
	}
	if tune != nil {
		tune(&cfg)
	}
	w, err := sparkpeer.NewWorker(cfg)
	if err != nil {
		c.t.Fatal(err)
	}
	c.workers = append(c.workers, &worker{Worker: w})
	return c.workers[len(c.workers)-1]
}

// readyWorker starts a worker and waits for its registration.
func (c *cluster) readyWorker(fam sparkmsg.Family, cores int32) *worker {
	c.t.Helper()
	w := c.worker(fam, cores, nil)
	wait(c.t, w.Log(), "RegisteredWorker")
	return w
}

// kill ends a worker as kill -9 does.
func (w *worker) kill() {
	w.gone = true
	w.Close()
}

// app starts an application of one core per executor; maxCores 0 is no limit.
func (c *cluster) app(fam sparkmsg.Family, maxCores int32, tune func(*sparkpeer.AppConfig)) *sparkpeer.App {
	c.t.Helper()
	one := int32(1)
	cfg := sparkpeer.AppConfig{
		Common: sparkpeer.Common{Host: newHost(), Port: driverPort, Masters: c.addresses(), Family: fam, Resolve: 5 * time.Second},
		Name:   fmt.Sprintf("app %d", len(c.apps)), CoresPerExecutor: &one, MemoryMB: 512, RegisterEvery: time.Second, RegisterTries: 500,
		AskTimeout: 30 * time.Second,
	}
	if maxCores > 0 {
		cfg.MaxCores = &maxCores
	}
	if tune != nil {
		tune(&cfg)
	}
	a, err := sparkpeer.NewApp(cfg)
	if err != nil {
		c.t.Fatal(err)
	}
	c.apps = append(c.apps, a)
	return a
}

// readyApp starts an application and waits for its id.
func (c *cluster) readyApp(fam sparkmsg.Family, maxCores int32) *sparkpeer.App {
	c.t.Helper()
	a := c.app(fam, maxCores, nil)
	registered(c.t, a)
	return a
}

func registered(t testing.TB, a *sparkpeer.App) string {
	t.Helper()
	id, err := a.WaitRegistered(patience)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func wait(t testing.TB, l *sparkpeer.EventLog, kind string) {
	t.Helper()
	if _, err := l.Wait(kind, patience); err != nil {
		t.Fatal(err)
	}
}

// slow skips a test under -short.
func slow(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("LEFT OUT under -short: this test takes several seconds")
	}
}

// eventually polls until cond holds.
func eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !cond(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %s: %s", patience, what)
		}
	}
}

// eventuallyNil polls until check finds nothing wrong.
func eventuallyNil(t testing.TB, what string, check func() error) {
	t.Helper()
	var err error
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		if err = check(); err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s: not within %s: %v", what, patience, err)
		}
	}
}
