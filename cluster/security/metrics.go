package security

import "github.com/prometheus/client_golang/prometheus"

var remaining = prometheus.NewDesc("raftmaster_certificate_remaining_seconds",
	"Time until the first certificate of a use ends; negative once it has.", []string{"use"}, nil)

// Describe implements prometheus.Collector.
func (g *Guard) Describe(ch chan<- *prometheus.Desc) { ch <- remaining }

// Collect implements prometheus.Collector.
func (g *Guard) Collect(ch chan<- prometheus.Metric) {
	now := g.opts.Now()
	for _, c := range g.certificates() {
		ch <- prometheus.MustNewConstMetric(remaining, prometheus.GaugeValue, c.live.get().until.Sub(now).Seconds(), c.name)
	}
}
