package webui

import (
	"io"
	"net/http"
	"sort"
	"strconv"

	"raftmaster/transport/internal/uibase"
)

// Spark's metrics (MetricsServlet, PrometheusServlet, MasterSource, ApplicationSource): instances "master" and
// "applications", each as JSON and in Spark's own Prometheus form. Both are always on here; in Spark the Prometheus form
// must be configured. What Spark calls static sources (CodeGenerator, HiveExternalCatalog) is there as in a Spark master,
// always 0. As on Spark's standbys, nothing is counted on a master that does not lead, so that sums over all masters are
// right. The richer set of names is at /metrics.

func (h *Handler) sparkMetricRoutes() {
	for instance, gauges := range map[string]func() []uibase.Gauge{"master": h.masterGauges, "applications": h.applicationGauges} {
		h.page("/metrics/"+instance+"/json", h.list(func(w http.ResponseWriter, r *http.Request) {
			h.sendSparkMetrics(w, r, "text/json;charset=utf-8", gauges(), uibase.WriteMetricsJSON)
		}))
		h.page("/metrics/"+instance+"/prometheus", h.list(func(w http.ResponseWriter, r *http.Request) {
			h.sendSparkMetrics(w, r, "text/plain;charset=utf-8", gauges(), uibase.WriteMetricsPrometheus)
		}))
	}
}

func (h *Handler) sendSparkMetrics(w http.ResponseWriter, r *http.Request, contentType string, gauges []uibase.Gauge, write func(io.Writer, []uibase.Gauge) error) {
	a := &uibase.Answer{W: w, R: r, ContentType: contentType}
	err := write(a, gauges)
	if err == nil {
		err = a.Close()
	}
	a.Finish(h.opts.Log, err)
}

// shown is the cluster as a leader shows it; empty elsewhere.
func (h *Handler) shown() Cluster {
	if st := h.opts.State.Brief(); st.State != StateAlive || !st.LeaseValid {
		return Cluster{}
	}
	return h.opts.State.Cluster()
}

// masterGauges are those of MasterSource: workers counts DEAD ones too, waitingApps the state and not the queue.
func (h *Handler) masterGauges() []uibase.Gauge {
	c := h.shown()
	var alive, apps, waiting int64
	for i := range c.Workers {
		if c.Workers[i].State == StateAlive {
			alive++
		}
	}
	for i := range c.Apps {
		if !c.Apps[i].Active {
			continue
		}
		apps++
		if c.Apps[i].State == "WAITING" {
			waiting++
		}
	}
	return []uibase.Gauge{{Name: "master.aliveWorkers", Number: alive}, {Name: "master.apps", Number: apps},
		{Name: "master.waitingApps", Number: waiting}, {Name: "master.workers", Number: int64(len(c.Workers))}}
}

// applicationGauges are those of ApplicationSource for each application, remembered ones included. The time in their names
// is that of the registration, which no failover changes (G-76).
func (h *Handler) applicationGauges() []uibase.Gauge {
	c, now := h.shown(), h.opts.Now().UnixMilli()
	out := make([]uibase.Gauge, 0, 3*len(c.Apps))
	for i := range c.Apps {
		a := &c.Apps[i]
		end := a.EndMillis
		if a.Active || end == 0 {
			end = now
		}
		prefix := "application." + a.Name + "." + strconv.FormatInt(a.StartMillis, 10)
		out = append(out, uibase.Gauge{Name: prefix + ".cores", Number: int64(a.Cores)},
			uibase.Gauge{Name: prefix + ".runtime_ms", Number: end - a.StartMillis},
			uibase.Gauge{Name: prefix + ".status", Text: a.State, IsText: true})
	}
	sort.SliceStable(out, func(i, j int) bool { return out[i].Name < out[j].Name })
	return uibase.FirstOfName(out, func(g uibase.Gauge) string { return g.Name })
}
