package node

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"go.uber.org/goleak"

	"raftmaster/fsm"
	"raftmaster/transport/portmux"
	"raftmaster/transport/raftnet"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		// hashicorp/raft #696: a transfer that is interrupted at the wrong moment leaves this goroutine behind for ever.
		goleak.IgnoreAnyFunction("github.com/hashicorp/raft.(*Raft).leadershipTransfer"),
		goleak.IgnoreAnyFunction("github.com/hashicorp/raft.(*Raft).leaderLoop.func1"),
		goleak.IgnoreAnyFunction("github.com/hashicorp/raft.(*Raft).leaderLoop.func2"),
	)
}

// patience is for polling on a loaded machine; nothing is expected to take as long.
const patience = 30 * time.Second

const testPort = "17077"

var nextHost atomic.Uint32

// newHosts gives loopback addresses of this test alone: the process id keeps concurrent test runs apart.
func newHosts(count int) []string {
	pid := os.Getpid()
	out := make([]string, count)
	for i := range out {
		k := nextHost.Add(1)
		out[i] = net.JoinHostPort(fmt.Sprintf("127.%d.%d.%d", 10+pid%240, (pid/240)%250, 1+k%250), testPort)
	}
	return out
}

// logSink takes log lines until the test ends, and shows them when it failed.
type logSink struct {
	mu   sync.Mutex
	b    bytes.Buffer
	done bool
}

func (s *logSink) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.done {
		return len(p), nil
	}
	return s.b.Write(p)
}

func (s *logSink) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// member is one master of a test cluster, whose process may come and go.
type member struct {
	t    testing.TB
	c    *cluster
	addr string
	dir  string
	edit func(*Config)

	mux  *portmux.Mux
	node *Node
	logs *logSink

	mu       sync.Mutex
	applied  []Applied
	seen     map[string]bool // request ids applied
	failed   map[string]error
	elected  []uint64
	deposed  []uint64
	restored int
	fatal    error
}

type cluster struct {
	t       testing.TB
	net     *network
	members []*member
	list    []string
}

const testTimeout = 300 * time.Millisecond

// newCluster prepares masters; none is started.
func newCluster(t testing.TB, count int) *cluster {
	t.Helper()
	c := &cluster{t: t, list: newHosts(count), net: &network{
		hooks: make(map[string]func(string) error), out: make(map[string]func(string, string) error), ids: make(map[string]string),
	}}
	slices.Sort(c.list)
	for _, addr := range c.list {
		c.members = append(c.members, &member{t: t, c: c, addr: addr, dir: t.TempDir(), failed: make(map[string]error)})
	}
	t.Cleanup(func() {
		for _, m := range c.members {
			m.kill()
		}
	})
	return c
}

// startAll starts every master and waits for a leader.
func startAll(t testing.TB, count int, edit func(*Config)) *cluster {
	t.Helper()
	c := newCluster(t, count)
	for _, m := range c.members {
		m.edit = edit
		m.start()
	}
	c.leader()
	return c
}

func (m *member) config() Config {
	if m.logs == nil {
		m.logs = &logSink{}
		m.t.Cleanup(func() {
			m.logs.mu.Lock()
			defer m.logs.mu.Unlock()
			m.logs.done = true
			if m.t.Failed() {
				os.Stderr.WriteString("---- log of " + m.addr + " in " + m.t.Name() + "\n" + m.logs.b.String())
			}
		})
	}
	cfg := Config{
		Cluster: m.c.list, Self: m.addr, DataDir: m.dir, FailoverTimeout: testTimeout, DigestInterval: -1,
		WebURL: "http://" + m.addr + "/web", RESTURL: "http://" + m.addr + "/rest", Version: "test",
		Logger: hclog.New(&hclog.LoggerOptions{Name: m.addr, Output: m.logs, Level: hclog.Debug, TimeFormat: "05.000000"}),
		Net:    m.c.net.faults(),
		Fatal: func(err error) {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.fatal = err
		},
	}
	if m.edit != nil {
		m.edit(&cfg)
	}
	return cfg
}

func (m *member) hooks() Hooks {
	return Hooks{
		Applied: func(batch []Applied) {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.applied = append(m.applied, batch...)
			for _, a := range batch {
				if _, ok := a.Cmd.(fsm.RegisterWorker); ok && a.Result.Err != nil {
					m.t.Errorf("the test's command was refused: %v", a.Result.Err)
				}
				m.seen[a.Cmd.Header().RequestID] = true
			}
		},
		ProposeFailed: func(cmd fsm.Command, err error) {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.failed[cmd.Header().RequestID] = err
		},
		Restored: func() {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.restored++
		},
		Elected: func(term uint64) {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.elected = append(m.elected, term)
		},
		Deposed: func(term uint64) {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.deposed = append(m.deposed, term)
		},
	}
}

func (m *member) tryStart() error {
	m.t.Helper()
	var ln net.Listener
	var err error
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		if ln, err = net.Listen("tcp", m.addr); err == nil {
			break
		}
		if time.Now().After(end) {
			m.t.Fatal(err)
		}
	}
	cfg := m.config()
	inbox := raftnet.NewInbox()
	m.mux = portmux.Serve(ln, portmux.Handlers{Internal: inbox.Handle, Spark: func(c net.Conn) { c.Close() }}, cfg.Logger)
	m.mu.Lock()
	m.applied, m.elected, m.deposed, m.fatal, m.restored = nil, nil, nil, nil, 0
	m.seen = make(map[string]bool)
	m.mu.Unlock()
	n, err := Start(cfg, inbox, m.hooks())
	if err != nil {
		inbox.Close()
		if cerr := m.mux.Close(); cerr != nil {
			m.t.Error(cerr)
		}
		m.mux = nil
		return err
	}
	m.node = n
	m.c.net.mu.Lock()
	m.c.net.ids[n.NodeID()] = m.addr
	m.c.net.mu.Unlock()
	return nil
}

func (m *member) start() {
	m.t.Helper()
	if err := m.tryStart(); err != nil {
		m.t.Fatalf("start %s: %v", m.addr, err)
	}
}

// kill ends the process without a word: first nobody can connect, then all connections end.
func (m *member) kill() { <-m.killAside() }

// killAside does not wait for the rests of the dead process; the channel is closed when they are gone.
func (m *member) killAside() <-chan struct{} {
	gone := make(chan struct{})
	n, mux := m.node, m.mux
	if n == nil {
		close(gone)
		return gone
	}
	m.node = nil
	if err := mux.CloseListener(); err != nil {
		m.t.Error(err)
	}
	go func() {
		defer close(gone)
		n.Kill()
		if err := mux.Close(); err != nil {
			m.t.Error(err)
		}
	}()
	return gone
}

// stop ends the process in order.
func (m *member) stop() {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := m.node.Leave(ctx); err != nil {
		m.t.Errorf("leave %s: %v", m.addr, err)
	}
	if err := m.mux.CloseListener(); err != nil {
		m.t.Error(err)
	}
	if err := m.node.Shutdown(ctx); err != nil {
		m.t.Errorf("shut down %s: %v", m.addr, err)
	}
	if err := m.mux.Close(); err != nil {
		m.t.Error(err)
	}
	m.node = nil
}

// eventually polls until the condition holds.
func eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		if condition() {
			return
		}
	}
	t.Fatalf("not in time: %s", what)
}

func (c *cluster) running() []*member {
	var out []*member
	for _, m := range c.members {
		if m.node != nil {
			out = append(out, m)
		}
	}
	return out
}

// leader waits until exactly one running master has a valid lease, and returns it.
func (c *cluster) leader() *member {
	c.t.Helper()
	var found *member
	eventually(c.t, "one leader", func() bool {
		found = nil
		for _, m := range c.running() {
			if m.node.LeaseValid() {
				if found != nil {
					return false
				}
				found = m
			}
		}
		return found != nil
	})
	return found
}

func (c *cluster) followers() []*member {
	c.t.Helper()
	l := c.leader()
	var out []*member
	for _, m := range c.running() {
		if m != l {
			out = append(out, m)
		}
	}
	return out
}

var nextRequest atomic.Uint64

// command makes a command that changes the state.
func command() fsm.Command {
	k := nextRequest.Add(1)
	return fsm.RegisterWorker{
		Meta: fsm.Meta{NowMillis: int64(1_700_000_000_000 + k), Stamp: "20260101000000", RequestID: fmt.Sprintf("r%d", k)},
		ID:   fmt.Sprintf("worker-%d", k), Host: "h", Port: int(1000 + k%60000), Address: fsm.Address{Host: "h", Port: int(1000 + k%60000)},
		Cores: 4, MemoryMB: 1024,
	}
}

func (m *member) has(id string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.seen[id]
}

func (m *member) failure(id string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.failed[id]
}

// propose gets a command committed, whoever leads meanwhile, and returns its request id.
func (c *cluster) propose() string {
	c.t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); {
		l := c.leader()
		cmd := command()
		id := cmd.Header().RequestID
		l.node.Propose(cmd)
		for l.failure(id) == nil && time.Now().Before(end) {
			if l.has(id) {
				return id
			}
			time.Sleep(time.Millisecond)
		}
	}
	c.t.Fatal("no command could be committed in time")
	return ""
}

// proposeMany gets count commands committed.
func (c *cluster) proposeMany(count int) {
	c.t.Helper()
	for done := 0; done < count; {
		l := c.leader()
		ids := make([]string, 0, count-done)
		for range count - done {
			cmd := command()
			ids = append(ids, cmd.Header().RequestID)
			l.node.Propose(cmd)
		}
		for _, id := range ids {
			eventually(c.t, "outcome of "+id, func() bool { return l.has(id) || l.failure(id) != nil })
			if l.has(id) {
				done++
			}
		}
	}
}

// converge waits until all running masters have the same state, and checks that they applied the same entries.
func (c *cluster) converge() {
	c.t.Helper()
	eventually(c.t, "equal digests", func() bool {
		var digest fsm.Digest
		var index uint64
		for i, m := range c.running() {
			v := m.node.View()
			if i == 0 {
				digest, index = v.Digest(), v.Index()
			}
			if v.Digest() != digest || v.Index() != index {
				return false
			}
		}
		return true
	})
	byIndex := make(map[uint64]string)
	for _, m := range c.running() {
		m.mu.Lock()
		last := uint64(0)
		for _, a := range m.applied {
			if a.Index <= last {
				c.t.Errorf("%s applied entry %d after %d", m.addr, a.Index, last)
			}
			last = a.Index
			id := fmt.Sprintf("%d/%s", a.Term, a.Cmd.Header().RequestID)
			if other, ok := byIndex[a.Index]; ok && other != id {
				c.t.Errorf("entry %d is %s on %s and %s elsewhere", a.Index, id, m.addr, other)
			}
			byIndex[a.Index] = id
		}
		m.mu.Unlock()
	}
}
