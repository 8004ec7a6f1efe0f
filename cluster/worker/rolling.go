package worker

import (
	"strconv"
	"time"

	"github.com/hashicorp/go-hclog"

	"raftmaster/cluster/config"
	"raftmaster/cluster/runner"
)

// rollingOf translates the settings of rolled logs; nil: they are not rolled.
func rollingOf(r config.WorkerRolling, log hclog.Logger) *runner.Rolling {
	// Spark's words for these periods make shorter names of rolled files than a number of seconds does.
	interval, ok := map[time.Duration]string{24 * time.Hour: "daily", time.Hour: "hourly", time.Minute: "minutely"}[r.Interval]
	if !ok {
		interval = strconv.Itoa(int(r.Interval.Seconds()))
	}
	rolling, warning := runner.ParseRolling(r.Strategy, interval, strconv.FormatInt(r.MaxBytes, 10), r.MaxRetainedFiles, r.Compress)
	if warning != "" {
		log.Warn(warning)
	}
	return rolling
}
