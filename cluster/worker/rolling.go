package worker

import (
	"raftmaster/cluster/config"
	"raftmaster/cluster/runner"
)

// rollingOf translates the settings of rolled logs.
func rollingOf(r config.WorkerRolling) *runner.Rolling {
	out := &runner.Rolling{MaxRetained: r.MaxRetainedFiles, Compress: r.Compress}
	if r.Strategy == config.RollingSize {
		out.MaxSize = r.MaxBytes
	} else {
		out.Interval = r.Interval
	}
	return out
}
