package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"raftmaster/cluster/sparktest"
	"raftmaster/transport/webui"
)

const (
	pollPause    = 2 * time.Millisecond
	roundTimeout = 60 * time.Second
	// settle lets the cluster become idle between rounds, as it is when a real
	// leader dies.
	settle = 500 * time.Millisecond
)

// fast keeps its connections: dialling each time would load the very machine that
// is being measured.
var fast = &http.Client{Timeout: 500 * time.Millisecond}

// failovers runs all rounds of one kind on one cluster.
func failovers(ctx context.Context, kind string, spark sparktest.Spark, opts options) (Result, error) {
	result := Result{Kind: kind}
	err := sparktest.Guard("bench-"+kind, progress, func(h sparktest.TB) error {
		cluster := sparktest.Options{Kind: sparktest.KindRaft, Spark: spark}
		var net *network
		if kind == "cut-off" {
			var err error
			if net, err = newNetwork(3); err != nil {
				return err
			}
			h.Cleanup(net.remove)
			cluster.Subnet, cluster.MasterPrefix = net.subnet, net.prefix
		}
		c := sparktest.NewCluster(h, cluster)
		leader := c.StartMasters()
		c.StartWorkers(2, sparktest.WorkerOptions{})
		app := c.StartApp(sparktest.AppOptions{Cores: 2, ExecutorCores: 1}).WaitStarted()
		app.Run(4, 0.05) // both executors are up
		var leaders, attached []time.Duration
		for round := range opts.warmups + opts.rounds {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			time.Sleep(settle)
			next, toLeader, toAttached, err := failover(c, net, kind, leader)
			if err != nil {
				return fmt.Errorf("round %d: %w", round+1, err)
			}
			bringBack(h, c, net, kind, leader, next)
			leader = next
			if round >= opts.warmups {
				leaders, attached = append(leaders, toLeader), append(attached, toAttached)
			}
		}
		app.Run(4, 0.05) // it has survived all that
		app.Finish()
		result.Leader, result.Attached = figures(leaders), figures(attached)
		return nil
	})
	return result, err
}

// failover takes the leader away and returns its successor, and how long both
// conditions took from then.
func failover(c *sparktest.Cluster, net *network, kind string, leader *sparktest.Master) (next *sparktest.Master, toLeader, toAttached time.Duration, err error) {
	others := c.Standbys(leader)
	for _, m := range others { // a warm connection, and proof that the poll works
		var s webui.Status
		if err := getJSON(m.WebURL()+"/v1/status", &s); err != nil {
			return nil, 0, 0, err
		}
	}
	began := time.Now()
	if err := takeAway(net, kind, leader); err != nil {
		return nil, 0, 0, err
	}
	if next, err = firstLeader(others, began); err != nil {
		return nil, 0, 0, err
	}
	toLeader = time.Since(began)
	for {
		if err = allAttached(next); err == nil {
			return next, toLeader, time.Since(began), nil
		}
		if time.Since(began) > roundTimeout {
			return nil, 0, 0, fmt.Errorf("not all attached within %v: %w", roundTimeout, err)
		}
		time.Sleep(pollPause)
	}
}

func takeAway(net *network, kind string, leader *sparktest.Master) error {
	switch kind {
	case "SIGKILL":
		return leader.Process().Signal(syscall.SIGKILL)
	case "SIGTERM":
		return leader.Process().Signal(syscall.SIGTERM)
	case "SIGSTOP":
		return leader.Process().Signal(syscall.SIGSTOP)
	case "cut-off":
		return net.cut(leader)
	}
	return fmt.Errorf("unknown way to lose a leader: %q", kind)
}

// firstLeader polls the masters at the same time, each on its own goroutine, and
// returns the one that leads.
func firstLeader(masters []*sparktest.Master, began time.Time) (*sparktest.Master, error) {
	var found atomic.Pointer[sparktest.Master]
	var polls sync.WaitGroup
	for _, m := range masters {
		polls.Go(func() {
			for found.Load() == nil && time.Since(began) < roundTimeout {
				response, err := fast.Get(m.WebURL() + "/leader")
				if err == nil {
					_, _ = io.Copy(io.Discard, response.Body) // so that the connection is used again
					_ = response.Body.Close()
					if response.StatusCode == http.StatusOK {
						found.CompareAndSwap(nil, m)
						return
					}
				}
				time.Sleep(pollPause)
			}
		})
	}
	polls.Wait()
	if m := found.Load(); m != nil {
		return m, nil
	}
	return nil, fmt.Errorf("no new leader within %v", roundTimeout)
}

// allAttached returns nil when the leader awaits nobody and may place work on
// every worker.
func allAttached(m *sparktest.Master) error {
	var s webui.Status
	if err := getJSON(m.WebURL()+"/v1/status", &s); err != nil {
		return err
	}
	if s.State != webui.StateAlive {
		return fmt.Errorf("%s is %s", m.Name(), s.State)
	}
	if s.TakeOver != nil && len(s.TakeOver.Awaited) > 0 {
		return fmt.Errorf("awaited: %+v", s.TakeOver.Awaited)
	}
	if s.Counts.WorkersByState["ALIVE"] != 2 || s.Counts.AppsByState["RUNNING"] != 1 || s.Counts.Executors != 2 {
		return fmt.Errorf("counts %+v", s.Counts)
	}
	return nil
}

func getJSON(url string, into any) error {
	response, err := fast.Get(url)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, response.Status)
	}
	return json.NewDecoder(response.Body).Decode(into)
}

// bringBack makes the old leader a follower again and waits until it has caught
// up.
func bringBack(h sparktest.TB, c *sparktest.Cluster, net *network, kind string, old, next *sparktest.Master) {
	switch kind {
	case "SIGKILL", "SIGTERM":
		sparktest.Eventually(h, roundTimeout, "end of "+old.Name(), func() error {
			if old.Running() {
				return fmt.Errorf("it still runs")
			}
			return nil
		})
		old.Start()
	case "SIGSTOP":
		old.Resume()
	case "cut-off":
		if err := net.restore(old); err != nil {
			h.Fatalf("restore the network of %s: %v", old.Name(), err)
		}
	}
	sparktest.Eventually(h, roundTimeout, old.Name()+" follows "+next.Name(), func() error {
		have, err := old.Status()
		if err != nil {
			return err
		}
		want, err := next.Status()
		if err != nil {
			return err
		}
		if have.State != webui.StateStandby || have.Term != want.Term || have.AppliedIndex < want.CommitIndex {
			return fmt.Errorf("%s at term %d, index %d; the leader at %d, %d", have.State, have.Term, have.AppliedIndex, want.Term, want.CommitIndex)
		}
		return nil
	})
}

// freshMaster measures from the start of the process of a new cluster of one to
// ALIVE.
func freshMaster(ctx context.Context, opts options) (Figures, error) {
	var samples []time.Duration
	for round := range opts.warmups + opts.rounds {
		if ctx.Err() != nil {
			return Figures{}, ctx.Err()
		}
		err := sparktest.Guard("bench-fresh", progress, func(h sparktest.TB) error {
			c := sparktest.NewCluster(h, sparktest.Options{Kind: sparktest.KindRaft, Masters: 1})
			if _, err := sparktest.Binaries(); err != nil {
				return err
			}
			began := time.Now()
			c.Masters()[0].Start()
			if _, err := firstLeader(c.Masters(), began); err != nil {
				return err
			}
			if round >= opts.warmups {
				samples = append(samples, time.Since(began))
			}
			return nil
		})
		if err != nil {
			return Figures{}, err
		}
	}
	return figures(samples), nil
}
