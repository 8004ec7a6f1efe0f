package server

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"raftmaster/cluster/config"
	"raftmaster/cluster/raftstore"
	"raftmaster/transport/portmux"
	"raftmaster/transport/sparkrpc"
)

// A start that fails says why and leaves nothing behind: no goroutine, no port, no lock.
func TestFailedStartLeavesNothing(t *testing.T) {
	c := start(t, 1, nil)
	running := c.masters[0].cfg
	fresh := func() config.Config { h := newHost(); return testConfig(t, h, []string{h}) }
	for name, tc := range map[string]struct {
		cfg  func() config.Config
		says []string
		is   error
	}{
		"data directory in use": {func() config.Config {
			cfg := fresh()
			cfg.DataDir = running.DataDir
			return cfg
		}, []string{running.DataDir, "--data-dir"}, raftstore.ErrInUse},
		"busy cluster port": {func() config.Config {
			cfg := fresh()
			cfg.Host = running.Host
			return cfg
		}, []string{running.BindAddress(), "cluster port"}, nil},
		"busy web port": {func() config.Config {
			cfg := fresh()
			cfg.WebUIHost = running.WebUIHost
			return cfg
		}, []string{"MasterUI", "spark.port.maxRetries"}, nil},
		"no token file": {func() config.Config {
			cfg := fresh()
			cfg.AdminTokenFile = filepath.Join(t.TempDir(), "none")
			return cfg
		}, []string{"token file", "none"}, os.ErrNotExist},
		"damaged log": {func() config.Config {
			cfg := fresh()
			m := &member{t: t, cfg: cfg, log: &logSink{}}
			m.start()
			m.stop()
			if err := os.WriteFile(filepath.Join(cfg.DataDir, "raft.db"), []byte("not a log"), 0o600); err != nil {
				t.Fatal(err)
			}
			return cfg
		}, []string{"raft.db"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := tc.cfg()
			before := goleak.IgnoreCurrent()
			s, err := Start(cfg, (&member{cfg: cfg, log: &logSink{}}).logger(), "test")
			if err == nil {
				s.Kill()
				t.Fatal("started")
			}
			for _, want := range tc.says {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("the error does not say %q: %v", want, err)
				}
			}
			if tc.is != nil && !errors.Is(err, tc.is) {
				t.Errorf("the error is no %v: %v", tc.is, err)
			}
			goleak.VerifyNone(t, before)
			leftFree(t, cfg, running)
		})
	}
	if c.findLeader() == nil {
		t.Error("the running master was disturbed")
	}
}

// leftFree binds the ports and takes the lock of a configuration, except what the running master has.
func leftFree(t *testing.T, cfg, running config.Config) {
	t.Helper()
	web := config.Address{Host: cfg.WebUIHost, Port: cfg.WebUIPort}.String()
	for _, p := range []struct {
		addr string
		busy bool
	}{{cfg.BindAddress(), cfg.Host == running.Host}, {web, cfg.WebUIHost == running.WebUIHost}} {
		if p.busy {
			continue
		}
		ln, err := net.Listen("tcp", p.addr)
		if err != nil {
			t.Errorf("a port is still taken: %v", err)
			continue
		}
		_ = ln.Close()
	}
	if cfg.DataDir == running.DataDir {
		return
	}
	store, err := raftstore.Open(raftstore.Options{Dir: cfg.DataDir, Logger: (&member{cfg: cfg, log: &logSink{}}).logger()})
	if errors.Is(err, raftstore.ErrInUse) {
		t.Errorf("the lock is still held: %v", err)
	}
	if err == nil {
		_ = store.Close()
	}
}

// A master whose data directory belongs to another cluster is refused by name, and the others go on without it.
func TestDataDirectoryOfAnotherCluster(t *testing.T) {
	t.Parallel()
	foreign := start(t, 1, nil)
	dir := foreign.masters[0].cfg.DataDir
	theirs := foreign.masters[0].server().node.ClusterID()
	foreign.apart = true // its directory is taken from it
	foreign.masters[0].stop()

	c := start(t, 3, nil)
	c.apart = true
	c.settle()
	ours := c.masters[0].server().node.ClusterID()
	lost := c.standbys()[0]
	lost.stop()
	lost.cfg.DataDir = dir
	s := lost.start()
	eventually(t, "both clusters are named in its log", func() bool {
		log := lost.log.String()
		i := strings.Index(log, "connection between masters refused")
		return i >= 0 && strings.Contains(log[i:], ours) && strings.Contains(log[i:], theirs)
	})
	eventually(t, "and at the leader, as the problem of that peer", func() bool {
		for _, p := range c.leader().server().node.Status().Peers {
			if p.Address == lost.cfg.Advertise().String() && strings.Contains(p.Problem, theirs) && strings.Contains(p.Problem, ours) {
				return true
			}
		}
		return false
	})
	// It was a lone voter. Were it to go on, it would lead beside the leader of these masters.
	select {
	case err := <-s.fatal:
		if !errors.Is(err, raftstore.ErrOtherCluster) || !strings.Contains(err.Error(), dir) {
			t.Errorf("it ends with %v", err)
		}
	case <-time.After(patience):
		t.Error("it goes on")
	}
	if len(c.leader().server().fatal) != 0 {
		t.Error("the leader ends too")
	}
}

// Masters that are given different lists form no cluster, and say which lists.
func TestListsThatDiffer(t *testing.T) {
	slow(t)
	t.Parallel()
	c := prepare(t, 3, nil)
	c.apart = true
	c.masters[1].cfg.Cluster = c.masters[1].cfg.Cluster[:2]
	for _, m := range c.masters[:2] {
		m.start()
	}
	for _, m := range c.masters[:2] {
		eventually(t, m.cfg.ClusterURL()+" complains", func() bool {
			log := m.log.String()
			return strings.Contains(log, "the cluster lists differ") && strings.Contains(log, c.masters[2].cfg.Advertise().String())
		})
		if id := m.server().node.ClusterID(); id != "" || leads(m.server()) {
			t.Errorf("%s is of cluster %q", m.cfg.Advertise(), id)
		}
		if status, body := m.get("/readyz"); status != 503 {
			t.Errorf("/readyz: %d %s", status, body)
		}
	}
	// Given the same list, they form one.
	c.masters[1].stop()
	c.masters[1].cfg.Cluster = c.masters[0].cfg.Cluster
	c.masters[1].start()
	c.masters[2].start()
	c.leader()
	c.settle()
}

// A Run that is told to end stops in order; one that must not go on ends with the reason.
func TestRunEnds(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t, newHost(), nil)
	cfg.Cluster = []config.Address{cfg.Advertise()}
	m := &member{t: t, cfg: cfg, log: &logSink{}}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- Run(ctx, cfg, m.logger(), "test") }()
	eventually(t, "/leader", func() bool { status, _ := m.get("/leader"); return status == 200 })
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	broken := errors.New("diverged")
	s := m.start()
	s.fail(broken)
	s.fail(errors.New("a later reason"))
	if err := <-s.fatal; !errors.Is(err, broken) {
		t.Errorf("the reason is %v", err)
	}
	m.stop()
}

// Accepted connections reach the RPC endpoint as sparkrpc.Plain: so the lease is read before each system call that
// writes, and an idle connection costs no buffer.
func TestAcceptedConnectionsArePlain(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", newHost()+":0")
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan net.Conn, 1)
	mux := portmux.Serve(ln, portmux.Handlers{Spark: func(nc net.Conn) { got <- nc; _ = nc.Close() }}, (&member{log: &logSink{}}).logger())
	nc, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := nc.Write([]byte{0}); err != nil {
		t.Fatal(err)
	}
	accepted := <-got
	plain, ok := accepted.(sparkrpc.Plain)
	if !ok || plain.PlainTCP() == nil {
		t.Errorf("%T is not plain", accepted)
	}
	_ = nc.Close()
	if err := mux.Close(); err != nil {
		t.Error(err)
	}
}
