package submit

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"raftmaster/cluster/config"
	"raftmaster/cluster/server"
	"raftmaster/cluster/sparkpeer"
	"raftmaster/transport/frame"
	"raftmaster/transport/sparkmsg"
)

// The ports of the masters of these tests, below those that Linux takes for itself, and not those of other packages.
const (
	clusterPort = 26077
	webPort     = 26080
	restPort    = 26066
)

// quorum is three masters of the real server with a worker, each at an address of its own.
type quorum struct {
	t     *testing.T
	hosts []string
	up    map[string]*server.Server
}

func startQuorum(t *testing.T) *quorum {
	t.Helper()
	if testing.Short() {
		t.Skip("LEFT OUT under -short: this test starts three masters")
	}
	q := &quorum{t: t, up: map[string]*server.Server{}}
	pid := os.Getpid()
	for i := range 3 {
		q.hosts = append(q.hosts, fmt.Sprintf("127.%d.%d.%d", 10+pid%240, 200+pid/240%50, 1+i))
	}
	for _, h := range q.hosts {
		cfg := config.Default()
		cfg.Host, cfg.AdvertiseHost, cfg.PublicHost, cfg.WebUIHost, cfg.RESTHost = h, h, h, h, h
		cfg.Port, cfg.WebUIPort, cfg.RESTPort, cfg.PortMaxRetries, cfg.RESTEnabled = clusterPort, webPort, restPort, 0, true
		for _, other := range q.hosts {
			cfg.Cluster = append(cfg.Cluster, config.Address{Host: other, Port: clusterPort})
		}
		cfg.DataDir, cfg.FailoverTimeout = filepath.Join(t.TempDir(), "data"), 2*time.Second
		s, err := server.Start(cfg, hclog.NewNullLogger(), "test")
		if err != nil {
			t.Fatal(err)
		}
		q.up[h] = s
	}
	t.Cleanup(func() {
		for h := range q.up {
			q.kill(h)
		}
	})
	return q
}

func (q *quorum) kill(host string) {
	q.up[host].Kill()
	delete(q.up, host)
}

// list is HOST:PORT of all masters.
func (q *quorum) list(port int) []string {
	var out []string
	for _, h := range q.hosts {
		out = append(out, fmt.Sprintf("%s:%d", h, port))
	}
	return out
}

func (q *quorum) addresses() []frame.Address {
	var out []frame.Address
	for _, h := range q.hosts {
		out = append(out, frame.Address{Host: h, Port: clusterPort})
	}
	return out
}

// clients are both gateways with the whole list.
func (q *quorum) clients() map[Gateway]Client {
	const patience = 60 * time.Second
	return map[Gateway]Client{
		GatewayRPC:  newRPC(q.t, Config{Masters: q.list(clusterPort), SparkVersion: "4.3.0", Patience: patience, AskTimeout: 20 * time.Second}),
		GatewayREST: newREST(q.t, Config{Masters: q.list(restPort), SparkVersion: "4.3.0", Patience: patience, AskTimeout: 20 * time.Second}),
	}
}

// TestLeaderKilledBetweenSubmitAndStatus: both gateways of the real server find the next leader, which knows the driver.
func TestLeaderKilledBetweenSubmitAndStatus(t *testing.T) {
	q := startQuorum(t)
	clients := q.clients()
	worker, err := sparkpeer.NewWorker(sparkpeer.WorkerConfig{Common: sparkpeer.Common{Host: q.hosts[0], Masters: q.addresses(), Family: sparkmsg.FamilyE, Resolve: 5 * time.Second},
		Cores: 4, MemoryMB: 8192, Heartbeat: time.Second, RetryShort: 500 * time.Millisecond, RetryLong: time.Second, MaxTries: 500})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(worker.Close)
	ids := map[Gateway]string{}
	master := ""
	for g, c := range clients {
		s, err := c.Submit(t.Context(), recorded())
		if err != nil {
			t.Fatalf("%s: %v", g, err)
		}
		ids[g], master = s.ID, s.Master
	}
	host, _, err := net.SplitHostPort(master)
	if err != nil {
		t.Fatal(err)
	}
	q.kill(host)
	for g, c := range clients {
		// Each gateway is asked about the driver of the other one.
		for _, id := range ids {
			s, err := c.Status(t.Context(), id)
			if err != nil || !s.Found || s.Master == master {
				t.Errorf("%s: status of %s: %+v, %v", g, id, s, err)
			}
		}
		if k, err := c.Kill(t.Context(), ids[g]); err != nil || !k.Accepted {
			t.Errorf("%s: kill: %+v, %v", g, k, err)
		}
		s, err := Wait(t.Context(), c, ids[g], WaitOptions{Poll: 50 * time.Millisecond})
		if err != nil || s.State != StateKilled {
			t.Errorf("%s: wait: %+v, %v", g, s, err)
		}
	}
	found, err := FindRelease(t.Context(), Sources{RPC: q.list(clusterPort)})
	var unknown *ReleaseError
	if !errors.As(err, &unknown) || !unknown.Any {
		t.Errorf("release of raftmaster over RPC: %+v, %v", found, err)
	}
}

// TestKillAllAndClearOfTheRealServer goes through what only Spark 4 and raftmaster have (B-136, B-142).
func TestKillAllAndClearOfTheRealServer(t *testing.T) {
	q := startQuorum(t)
	for g, c := range q.clients() {
		job := plainJob
		job.Conf = map[string]string{"spark.driver.resource.gpu.amount": "1"}
		s, err := c.Submit(t.Context(), job)
		if err != nil {
			t.Errorf("%s: a driver that waits for a resource: %v", g, err)
			continue
		}
		if k, err := c.KillAll(t.Context()); err != nil || !k.Accepted {
			t.Errorf("%s: kill all: %+v, %v", g, k, err)
		}
		if st, err := Wait(t.Context(), c, s.ID, WaitOptions{Poll: 50 * time.Millisecond}); err != nil || st.State != StateKilled {
			t.Errorf("%s: %+v, %v", g, st, err)
		}
		if err := c.Clear(t.Context()); err != nil {
			t.Errorf("%s: clear: %v", g, err)
		}
		if st, err := c.Status(t.Context(), s.ID); err != nil || st.Found {
			t.Errorf("%s: after clear: %+v, %v", g, st, err)
		}
	}
}
