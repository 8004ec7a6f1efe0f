package webui

import (
	"net/http"
	"sort"
	"strconv"
	"strings"
)

// Spark's metrics (MetricsServlet, PrometheusServlet, MasterSource, ApplicationSource): instances "master" and
// "applications", each as JSON and in Spark's own Prometheus form. Both are always on here; in Spark the Prometheus form
// must be configured. What Spark calls static sources (CodeGenerator, HiveExternalCatalog) is there as in a Spark master,
// always 0. As on Spark's standbys, nothing is counted on a master that does not lead, so that sums over all masters are
// right. The richer set of names is at /metrics.

// sparkGauge is one gauge: a number, or a text.
type sparkGauge struct {
	name   string
	number int64
	text   string
	isText bool
}

// staticCounters and staticHistograms are in every registry of Spark (StaticSources.scala).
var (
	staticCounters = []string{"HiveExternalCatalog.fileCacheHits", "HiveExternalCatalog.filesDiscovered",
		"HiveExternalCatalog.hiveClientCalls", "HiveExternalCatalog.parallelListingJobCount", "HiveExternalCatalog.partitionsFetched"}
	staticHistograms = []string{"CodeGenerator.compilationTime", "CodeGenerator.generatedClassSize",
		"CodeGenerator.generatedMethodSize", "CodeGenerator.sourceCodeSize"}
)

func (h *Handler) sparkMetricRoutes() {
	for instance, gauges := range map[string]func() []sparkGauge{"master": h.masterGauges, "applications": h.applicationGauges} {
		h.page("/metrics/"+instance+"/json", h.list(func(w http.ResponseWriter, r *http.Request) {
			h.sendSparkMetrics(w, r, "text/json;charset=utf-8", gauges(), writeMetricsJSON)
		}))
		h.page("/metrics/"+instance+"/prometheus", h.list(func(w http.ResponseWriter, r *http.Request) {
			h.sendSparkMetrics(w, r, "text/plain;charset=utf-8", gauges(), writeMetricsPrometheus)
		}))
	}
}

func (h *Handler) sendSparkMetrics(w http.ResponseWriter, r *http.Request, contentType string, gauges []sparkGauge, write func(*answer, []sparkGauge) error) {
	a := &answer{w: w, r: r, contentType: contentType}
	err := write(a, gauges)
	if err == nil {
		err = a.close()
	}
	h.finish(a, err)
}

// shown is the cluster as a leader shows it; empty elsewhere.
func (h *Handler) shown() Cluster {
	if st := h.opts.State.Brief(); st.State != StateAlive || !st.LeaseValid {
		return Cluster{}
	}
	return h.opts.State.Cluster()
}

// masterGauges are those of MasterSource: workers counts DEAD ones too, waitingApps the state and not the queue.
func (h *Handler) masterGauges() []sparkGauge {
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
	return []sparkGauge{{name: "master.aliveWorkers", number: alive}, {name: "master.apps", number: apps},
		{name: "master.waitingApps", number: waiting}, {name: "master.workers", number: int64(len(c.Workers))}}
}

// applicationGauges are those of ApplicationSource for each application, remembered ones included. The time in their names
// is that of the registration, which no failover changes (G-76).
func (h *Handler) applicationGauges() []sparkGauge {
	c, now := h.shown(), h.opts.Now().UnixMilli()
	out := make([]sparkGauge, 0, 3*len(c.Apps))
	for i := range c.Apps {
		a := &c.Apps[i]
		end := a.EndMillis
		if a.Active || end == 0 {
			end = now
		}
		prefix := "application." + a.Name + "." + strconv.FormatInt(a.StartMillis, 10)
		out = append(out, sparkGauge{name: prefix + ".cores", number: int64(a.Cores)},
			sparkGauge{name: prefix + ".runtime_ms", number: end - a.StartMillis},
			sparkGauge{name: prefix + ".status", text: a.State, isText: true})
	}
	sort.SliceStable(out, func(i, j int) bool { return out[i].name < out[j].name })
	return firstOfName(out, func(g sparkGauge) string { return g.name })
}

// firstOfName drops gauges whose name has been there: two applications of one name may have registered in one millisecond,
// and a name that is there twice makes a scrape fail.
func firstOfName(gauges []sparkGauge, name func(sparkGauge) string) []sparkGauge {
	seen := make(map[string]bool, len(gauges))
	out := gauges[:0:0]
	for _, g := range gauges {
		if n := name(g); !seen[n] {
			seen[n] = true
			out = append(out, g)
		}
	}
	return out
}

// zeroHistogram is a histogram without a value, as MetricsServlet and PrometheusServlet print it.
var zeroHistogram = []struct{ json, prometheus, value string }{
	{"count", "Count", "0"}, {"max", "Max", "0"}, {"mean", "Mean", "0.0"}, {"min", "Min", "0"},
	{"p50", "50thPercentile", "0.0"}, {"p75", "75thPercentile", "0.0"}, {"p95", "95thPercentile", "0.0"},
	{"p98", "98thPercentile", "0.0"}, {"p99", "99thPercentile", "0.0"}, {"p999", "999thPercentile", "0.0"}, {"stddev", "StdDev", "0.0"},
}

// metricsVersion is the version of the format of Dropwizard's metrics module for JSON.
const metricsVersion = "4.0.0"

func writeMetricsJSON(a *answer, gauges []sparkGauge) error {
	buf := []byte(`{"version":"` + metricsVersion + `","gauges":{`)
	for i, g := range gauges {
		if i > 0 {
			buf = append(buf, ',')
		}
		buf = append(appendJSONString(buf, g.name), `:{"value":`...)
		if g.isText {
			buf = appendJSONString(buf, g.text)
		} else {
			buf = strconv.AppendInt(buf, g.number, 10)
		}
		buf = append(buf, '}')
		if _, err := a.Write(buf); err != nil {
			return err
		}
		buf = buf[:0]
	}
	buf = append(buf, `},"counters":{`...)
	for i, name := range staticCounters {
		if i > 0 {
			buf = append(buf, ',')
		}
		buf = append(appendJSONString(buf, name), `:{"count":0}`...)
	}
	buf = append(buf, `},"histograms":{`...)
	for i, name := range staticHistograms {
		if i > 0 {
			buf = append(buf, ',')
		}
		buf = append(appendJSONString(buf, name), ":{"...)
		for j, f := range zeroHistogram {
			if j > 0 {
				buf = append(buf, ',')
			}
			buf = append(appendJSONString(buf, f.json), ":"+f.value...)
		}
		buf = append(buf, '}')
	}
	_, err := a.Write(append(buf, `},"meters":{},"timers":{}}`...))
	return err
}

func writeMetricsPrometheus(a *answer, gauges []sparkGauge) error {
	line := func(key, suffix, kind, value string) error {
		_, err := a.Write([]byte(key + suffix + `{type="` + kind + `"} ` + value + "\n"))
		return err
	}
	for _, g := range firstOfName(gauges, func(g sparkGauge) string { return prometheusKey(g.name) }) {
		if g.isText {
			continue // Prometheus has no texts, and Spark leaves them out too
		}
		for _, suffix := range []string{"Number", "Value"} {
			if err := line(prometheusKey(g.name), suffix, "gauges", strconv.FormatInt(g.number, 10)); err != nil {
				return err
			}
		}
	}
	for _, name := range staticCounters {
		if err := line(prometheusKey(name), "Count", "counters", "0"); err != nil {
			return err
		}
	}
	for _, name := range staticHistograms {
		for _, f := range zeroHistogram {
			if err := line(prometheusKey(name), f.prometheus, "histograms", f.value); err != nil {
				return err
			}
		}
	}
	return nil
}

// prometheusKey turns a name into what PrometheusServlet makes of it: every character that is no ASCII letter or digit
// becomes "_". Whatever an application is called, nothing else gets into the answer.
func prometheusKey(name string) string {
	var b strings.Builder
	b.WriteString("metrics_")
	for _, c := range name {
		if c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' {
			b.WriteRune(c)
		} else {
			b.WriteByte('_')
		}
	}
	b.WriteByte('_')
	return b.String()
}
