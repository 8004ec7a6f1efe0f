package uibase

import (
	"io"
	"strconv"
	"strings"
)

// Gauge is one gauge: a number, or a text.
type Gauge struct {
	Name   string
	Number int64
	Text   string
	IsText bool
}

// staticCounters and staticHistograms are in every registry of Spark (StaticSources.scala).
var (
	staticCounters = []string{"HiveExternalCatalog.fileCacheHits", "HiveExternalCatalog.filesDiscovered",
		"HiveExternalCatalog.hiveClientCalls", "HiveExternalCatalog.parallelListingJobCount", "HiveExternalCatalog.partitionsFetched"}
	staticHistograms = []string{"CodeGenerator.compilationTime", "CodeGenerator.generatedClassSize",
		"CodeGenerator.generatedMethodSize", "CodeGenerator.sourceCodeSize"}
)

// FirstOfName drops gauges whose name has been there: two applications of one name may have registered in one millisecond,
// and a name that is there twice makes a scrape fail.
func FirstOfName(gauges []Gauge, name func(Gauge) string) []Gauge {
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

// WriteMetricsJSON writes gauges, and Spark's static sources, as MetricsServlet does: JSON on one line. Names must be unique.
func WriteMetricsJSON(out io.Writer, gauges []Gauge) error {
	buf := []byte(`{"version":"` + metricsVersion + `","gauges":{`)
	for i, g := range gauges {
		if i > 0 {
			buf = append(buf, ',')
		}
		buf = append(AppendJSONString(buf, g.Name), `:{"value":`...)
		if g.IsText {
			buf = AppendJSONString(buf, g.Text)
		} else {
			buf = strconv.AppendInt(buf, g.Number, 10)
		}
		buf = append(buf, '}')
		if _, err := out.Write(buf); err != nil {
			return err
		}
		buf = buf[:0]
	}
	buf = append(buf, `},"counters":{`...)
	for i, name := range staticCounters {
		if i > 0 {
			buf = append(buf, ',')
		}
		buf = append(AppendJSONString(buf, name), `:{"count":0}`...)
	}
	buf = append(buf, `},"histograms":{`...)
	for i, name := range staticHistograms {
		if i > 0 {
			buf = append(buf, ',')
		}
		buf = append(AppendJSONString(buf, name), ":{"...)
		for j, f := range zeroHistogram {
			if j > 0 {
				buf = append(buf, ',')
			}
			buf = append(AppendJSONString(buf, f.json), ":"+f.value...)
		}
		buf = append(buf, '}')
	}
	_, err := out.Write(append(buf, `},"meters":{},"timers":{}}`...))
	return err
}

// WriteMetricsPrometheus writes them as PrometheusServlet does. Texts are left out, and names that have become one are there
// once.
func WriteMetricsPrometheus(out io.Writer, gauges []Gauge) error {
	line := func(key, suffix, kind, value string) error {
		_, err := out.Write([]byte(key + suffix + `{type="` + kind + `"} ` + value + "\n"))
		return err
	}
	for _, g := range FirstOfName(gauges, func(g Gauge) string { return prometheusKey(g.Name) }) {
		if g.IsText {
			continue // Prometheus has no texts, and Spark leaves them out too
		}
		for _, suffix := range []string{"Number", "Value"} {
			if err := line(prometheusKey(g.Name), suffix, "gauges", strconv.FormatInt(g.Number, 10)); err != nil {
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
