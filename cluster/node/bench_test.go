package node

import (
	"slices"
	"testing"
	"time"
)

// BenchmarkCommit proposes one command at a time to three masters, each with a data directory of its own; set TMPDIR to a
// directory on the disk in question.
func BenchmarkCommit(b *testing.B) {
	c := startAll(b, 3, func(cfg *Config) { cfg.FailoverTimeout = 2 * time.Second })
	c.propose()
	l := c.leader()
	var took []time.Duration
	for b.Loop() {
		cmd := command()
		id := cmd.Header().RequestID
		began := time.Now()
		l.node.Propose(cmd)
		for !l.has(id) {
			if err := l.failure(id); err != nil {
				b.Fatal(err)
			}
			time.Sleep(20 * time.Microsecond)
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "median-µs")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
}
