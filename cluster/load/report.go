package load

import (
	"slices"
	"time"
)

// Report is what a run measured.
type Report struct {
	Began     time.Time      `json:"began"`
	Leader    string         `json:"leader"`
	Release   string         `json:"release"`
	Workers   int            `json:"workers"`
	Apps      int            `json:"apps"`
	Executors int            `json:"executors_per_app"`
	Results   []Result       `json:"results"`
	Errors    map[string]int `json:"errors"`
	Generator Usage          `json:"generator"`
}

// Result is one series of measurements.
type Result struct {
	Name      string       `json:"name"`
	Count     int          `json:"count"`
	Wanted    int          `json:"wanted,omitempty"` // 0 when the phase ends by time
	Seconds   float64      `json:"seconds"`
	PerSecond float64      `json:"per_second"`
	LatencyMS *Percentiles `json:"latency_ms,omitempty"`
	Master    *Usage       `json:"master,omitempty"`
	Others    *Usage       `json:"others,omitempty"`    // the mean of Config.Others
	Generator *Usage       `json:"generator,omitempty"` // this process
}

// Percentiles are of latencies, in milliseconds.
type Percentiles struct {
	P50 float64 `json:"p50"`
	P90 float64 `json:"p90"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

// Usage is what a process used during a series.
type Usage struct {
	CPUSeconds float64 `json:"cpu_seconds"`
	// PerCPUSecond is Count of the Result for each second of CPU time; 0 where that is too short to tell.
	PerCPUSecond float64 `json:"per_cpu_second,omitempty"`
	// EachMicros is its inverse, in microseconds.
	EachMicros float64 `json:"each_micros,omitempty"`
	RSSMB      float64 `json:"rss_mb"`      // at the end, of 1e6 bytes
	AnonMB     float64 `json:"rss_anon_mb"` // of it, anonymous memory
}

// Find returns the result of a name, nil if there is none.
func (r *Report) Find(name string) *Result {
	for i := range r.Results {
		if r.Results[i].Name == name {
			return &r.Results[i]
		}
	}
	return nil
}

// percentiles sorts samples and sums them up; nil for none. A percentile is the smallest sample that at least that part
// of all samples does not exceed.
func percentiles(samples []time.Duration) *Percentiles {
	if len(samples) == 0 {
		return nil
	}
	slices.Sort(samples)
	at := func(p int) float64 {
		i := (len(samples)*p + 99) / 100
		return float64(samples[max(0, i-1)]) / float64(time.Millisecond)
	}
	return &Percentiles{P50: at(50), P90: at(90), P99: at(99), Max: at(100)}
}
