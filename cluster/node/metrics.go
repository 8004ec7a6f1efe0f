package node

import (
	"fmt"

	metrics "github.com/hashicorp/go-metrics/compat"
	prom "github.com/hashicorp/go-metrics/compat/prometheus"
	"github.com/prometheus/client_golang/prometheus"
)

// RegisterMetrics sends the metrics of the raft library and of its store to a Prometheus registry, under the prefix
// raftmaster_. They go through go-metrics' global sink, so one registry per process gets those of all nodes in it; the
// last call wins. Call it before Start.
func RegisterMetrics(reg prometheus.Registerer) error {
	// Expiration 0: a gauge that nobody has touched for a minute is still true.
	sink, err := prom.NewPrometheusSinkFrom(prom.PrometheusOpts{Registerer: reg, Expiration: 0})
	if err != nil {
		return fmt.Errorf("register the raft metrics: %w", err)
	}
	conf := metrics.DefaultConfig("raftmaster")
	conf.EnableHostname = false
	conf.EnableRuntimeMetrics = false // client_golang has its own
	if _, err := metrics.NewGlobal(conf, sink); err != nil {
		return fmt.Errorf("install the raft metrics: %w", err)
	}
	return nil
}
