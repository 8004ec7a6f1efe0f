package app

import (
	"fmt"
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

// quorum are three masters in this process, on loopback addresses of this run.
type quorum struct {
	servers []*server.Server // nil: killed
	addrs   []frame.Address
}

const quorumPort, quorumWeb = 27077, 27080

func startQuorum(t *testing.T) *quorum {
	t.Helper()
	q := &quorum{}
	net := fmt.Sprintf("127.%d.%d.", 10+os.Getpid()%240, 240+os.Getpid()/240%10)
	var list []config.Address
	for i := range 3 {
		list = append(list, config.Address{Host: net + fmt.Sprint(1+i), Port: quorumPort})
	}
	for _, a := range list {
		cfg := config.Default()
		cfg.Host, cfg.AdvertiseHost, cfg.PublicHost, cfg.WebUIHost = a.Host, a.Host, a.Host, a.Host
		cfg.Port, cfg.WebUIPort, cfg.PortMaxRetries, cfg.RESTEnabled = a.Port, quorumWeb, 0, false
		cfg.Cluster, cfg.DataDir, cfg.FailoverTimeout = list, filepath.Join(t.TempDir(), "data"), 2*time.Second
		if err := cfg.Validate(); err != nil {
			t.Fatal(err)
		}
		s, err := server.Start(cfg, hclog.NewNullLogger(), "test")
		if err != nil {
			t.Fatal(err)
		}
		q.servers = append(q.servers, s)
		q.addrs = append(q.addrs, frame.Address{Host: a.Host, Port: int32(a.Port)})
	}
	t.Cleanup(func() {
		for _, s := range q.servers {
			if s != nil {
				s.Kill()
			}
		}
	})
	return q
}

// kill ends the master at an address as kill -9 does.
func (q *quorum) kill(t *testing.T, addr string) {
	t.Helper()
	for i, a := range q.addrs {
		if a.String() == addr {
			q.servers[i].Kill()
			q.servers[i] = nil
			return
		}
	}
	t.Fatalf("no master at %s", addr)
}

// state returns the state of an application at the first master that is left; "" if it does not know it.
func (q *quorum) state(id string) string {
	for _, s := range q.servers {
		if s == nil {
			continue
		}
		if a, ok := s.State().Application(id); ok {
			return a.State.String()
		}
		return ""
	}
	return ""
}

// Against our own masters and a simulated worker: granted, one target after the other, through the death of the leader,
// and away without a trace.
func TestWithRealMasters(t *testing.T) {
	if testing.Short() {
		t.Skip("LEFT OUT under -short: this test takes several seconds")
	}
	q := startQuorum(t)
	host := q.addrs[0].Host[:len(q.addrs[0].Host)-1]
	w, err := sparkpeer.NewWorker(sparkpeer.WorkerConfig{
		Common: sparkpeer.Common{Host: host + "9", Masters: q.addrs, Family: sparkmsg.FamilyE, Resolve: 5 * time.Second},
		Cores:  4, Heartbeat: time.Second, RetryShort: 500 * time.Millisecond, RetryLong: time.Second, MaxTries: 500, AskTimeout: 2 * time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	zero := int32(0)
	a := newApp(t, func(c *Config) {
		for _, m := range q.addrs {
			c.Masters = append(c.Masters, m.String())
		}
		c.Family, c.InitialExecutors, c.Timers.RegisterEvery, c.Timers.RegisterTries = sparkmsg.FamilyE, &zero, 2*time.Second, 30
	})
	if err := a.Start(within(t)); err != nil {
		t.Fatal(err)
	}
	if err := a.RequestExecutors(within(t), map[int32]int32{0: 2}); err != nil {
		t.Fatal(err)
	}
	waitExecutors(t, a, func(l []Executor) bool { return len(l) == 2 && l[0].Reached(StepRunning) && l[1].Reached(StepRunning) })
	old, _ := a.Master()
	q.kill(t, old)
	if err := a.RequestExecutors(within(t), map[int32]int32{0: 3}); err != nil {
		t.Fatal(err)
	}
	list := waitExecutors(t, a, func(l []Executor) bool { return len(l) == 3 && l[2].Reached(StepRunning) })
	if m, up := a.Master(); m == old || !up || list[2].ID != 2 {
		t.Errorf("master %s, connected %v, executors %+v", m, up, list)
	}
	if err := a.RequestExecutors(within(t), map[int32]int32{0: 2}); err != nil {
		t.Fatal(err)
	}
	if err := a.KillExecutors(within(t), []int32{1}); err != nil {
		t.Fatal(err)
	}
	if e, _ := a.Driver().Executor(1); e.State != sparkmsg.ExecutorKilled || e.Ended.IsZero() || e.Failure != nil {
		t.Errorf("%+v", e)
	}
	if s := q.state(a.ID()); s != "RUNNING" {
		t.Errorf("the application is %q", s)
	}
	if err := a.Stop(within(t)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "no executor left at the worker", func() bool { return len(w.Executors()) == 0 })
	eventually(t, "application finished", func() bool { return q.state(a.ID()) == "FINISHED" })
}
