package workerui

import (
	"io"
	"net/http"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"raftmaster/transport/internal/uibase"
)

// sparkMetrics serves the gauges of WorkerSource in one of Spark's two forms. Both are always on; in Spark the Prometheus
// form must be configured.
func (h *Handler) sparkMetrics(contentType string, write func(io.Writer, []uibase.Gauge) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		a := &uibase.Answer{W: w, R: r, ContentType: contentType}
		err := write(a, gauges(h.backend.View()))
		if err == nil {
			err = a.Close()
		}
		a.Finish(h.opts.Log, err)
	}
}

func gauges(v View) []uibase.Gauge {
	return []uibase.Gauge{
		{Name: "worker.coresFree", Number: int64(v.Cores - v.CoresUsed)},
		{Name: "worker.coresUsed", Number: int64(v.CoresUsed)},
		{Name: "worker.executors", Number: int64(len(v.Executors))},
		{Name: "worker.memFree_MB", Number: int64(v.MemoryMB - v.MemoryUsedMB)},
		{Name: "worker.memUsed_MB", Number: int64(v.MemoryUsedMB)},
	}
}

const namespace = "raftmaster_worker"

func (h *Handler) registerMetrics() {
	h.refusedConns = prometheus.NewCounter(prometheus.CounterOpts{Namespace: namespace, Name: "http_connections_refused_total",
		Help: "Connections to the web UI port that were closed at once because too many were open."})
	h.busyAnswers = prometheus.NewCounter(prometheus.CounterOpts{Namespace: namespace, Name: "http_busy_total",
		Help: "Requests that were answered with 503 because too much was being sent."})
	h.metrics = prometheus.NewRegistry()
	h.metrics.MustRegister(h.refusedConns, h.busyAnswers, viewCollector{h}, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
}

// viewCollector makes gauges of a View at each scrape.
type viewCollector struct{ h *Handler }

// viewGauge is one gauge of a View.
type viewGauge struct {
	desc  *prometheus.Desc
	value func(v *View) float64
}

func newViewGauge(name, help string, value func(v *View) float64) viewGauge {
	return viewGauge{prometheus.NewDesc(prometheus.BuildFQName(namespace, "", name), help, nil, nil), value}
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

var (
	viewGauges = []viewGauge{
		newViewGauge("ready", "1 while /readyz gives 200.", func(v *View) float64 { return truth(notReady(*v) == "") }),
		newViewGauge("registered", "1 once a master has accepted this worker.", func(v *View) float64 { return truth(v.Registered) }),
		newViewGauge("connected", "1 while this worker is in contact with its master.", func(v *View) float64 { return truth(v.Connected) }),
		newViewGauge("decommissioned", "1 once this worker is decommissioned.", func(v *View) float64 { return truth(v.Decommissioned) }),
		newViewGauge("cores", "Cores that this worker offers.", func(v *View) float64 { return float64(v.Cores) }),
		newViewGauge("cores_used", "Cores held by executors and drivers.", func(v *View) float64 { return float64(v.CoresUsed) }),
		newViewGauge("memory_bytes", "Memory that this worker offers.", func(v *View) float64 { return float64(v.MemoryMB) * (1 << 20) }),
		newViewGauge("memory_used_bytes", "Memory held by executors and drivers.", func(v *View) float64 { return float64(v.MemoryUsedMB) * (1 << 20) }),
		newViewGauge("executors", "Executors that have not ended.", func(v *View) float64 { return float64(len(v.Executors)) }),
		newViewGauge("drivers", "Drivers that have not ended.", func(v *View) float64 { return float64(len(v.Drivers)) }),
		newViewGauge("problems", "Conditions that need an operator; their texts are on the page.", func(v *View) float64 { return float64(len(v.Problems)) }),
		newViewGauge("last_heartbeat_timestamp_seconds", "When the last heartbeat was sent, as Unix time; 0 for never.",
			func(v *View) float64 { return float64(v.LastHeartbeatMillis) / 1000 }),
	}
	resourceDesc = prometheus.NewDesc(namespace+"_resource_addresses", "Addresses of custom resources.", []string{"resource", "state"}, nil)
	infoDesc     = prometheus.NewDesc(namespace+"_info", "Who it is; always 1.", []string{"version", "spark_version", "worker_id", "master"}, nil)
)

// Describe implements prometheus.Collector.
func (c viewCollector) Describe(out chan<- *prometheus.Desc) {
	for _, g := range viewGauges {
		out <- g.desc
	}
	out <- resourceDesc
	out <- infoDesc
}

// Collect implements prometheus.Collector.
func (c viewCollector) Collect(out chan<- prometheus.Metric) {
	v := c.h.backend.View()
	for _, g := range viewGauges {
		out <- prometheus.MustNewConstMetric(g.desc, prometheus.GaugeValue, g.value(&v))
	}
	seen := map[string]bool{} // a name that is there twice makes a scrape fail
	for _, r := range v.Resources {
		name, used := label(r.Name), len(r.UsedAddresses)
		if seen[name] {
			continue
		}
		seen[name] = true
		out <- prometheus.MustNewConstMetric(resourceDesc, prometheus.GaugeValue, float64(used), name, "used")
		out <- prometheus.MustNewConstMetric(resourceDesc, prometheus.GaugeValue, float64(len(r.Addresses)-used), name, "free")
	}
	out <- prometheus.MustNewConstMetric(infoDesc, prometheus.GaugeValue, 1, label(c.h.opts.Version), label(v.SparkVersion), label(v.ID),
		label(v.MasterURL))
}

// label makes any text one that a label may have.
func label(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
