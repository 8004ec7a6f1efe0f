package node

import (
	"slices"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
)

// benchCluster starts three masters and returns the leader's node, and how many commands it has applied.
func benchCluster(b *testing.B) (n *Node, applied func() int64) {
	b.Helper()
	c := startAll(b, 3, func(cfg *Config) { cfg.FailoverTimeout, cfg.Logger = 2*time.Second, hclog.NewNullLogger() })
	l := c.leader()
	return l.node, func() int64 {
		l.mu.Lock()
		defer l.mu.Unlock()
		return int64(len(l.applied))
	}
}

// BenchmarkProposeOneAtATime is the latency of one commit on three masters.
func BenchmarkProposeOneAtATime(b *testing.B) {
	n, applied := benchCluster(b)
	var took []time.Duration
	for b.Loop() {
		want, began := applied()+1, time.Now()
		n.Propose(command())
		for applied() < want {
			time.Sleep(20 * time.Microsecond)
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "median-µs")
}

// BenchmarkProposeMany is the throughput with many commands in flight.
func BenchmarkProposeMany(b *testing.B) {
	n, applied := benchCluster(b)
	const window = 4000
	proposed := applied()
	for b.Loop() {
		for proposed-applied() >= window {
			time.Sleep(50 * time.Microsecond)
		}
		n.Propose(command())
		proposed++
	}
	for applied() < proposed {
		time.Sleep(50 * time.Microsecond)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "commands/s")
}
