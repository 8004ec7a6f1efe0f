// Package benchmachine says what the figures of the benchmark programs depend on:
// the machine, its disk and its loopback, and the commit.
package benchmachine

import (
	"fmt"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Machine is what the figures depend on.
type Machine struct {
	CPUs     int     `json:"cpus"`
	System   string  `json:"system"`
	Go       string  `json:"go"`
	DiskSync Figures `json:"idle_disk_sync_ms"`
	Loopback Figures `json:"loopback_round_trip_ms"`
}

// Figures sum up one series, in milliseconds.
type Figures struct {
	Median  float64   `json:"median"`
	Worst   float64   `json:"worst"`
	Samples []float64 `json:"samples,omitempty"`
}

// Sum sums up a series; it is zero for none.
func Sum(samples []time.Duration) Figures {
	if len(samples) == 0 {
		return Figures{}
	}
	var list []float64
	for _, s := range samples {
		list = append(list, float64(s.Microseconds())/1000)
	}
	sorted := slices.Sorted(slices.Values(list))
	return Figures{Median: Median(sorted), Worst: sorted[len(sorted)-1], Samples: list}
}

// Median is the median of some numbers, 0 of none.
func Median(list []float64) float64 {
	n := len(list)
	if n == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(list))
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// Describe measures this machine; dir is where the masters keep their data, ""
// for the directory for temporary files.
func Describe(dir string) (Machine, error) {
	disk, err := DiskSync(dir)
	if err != nil {
		return Machine{}, fmt.Errorf("disk sync: %w", err)
	}
	loop, err := LoopbackRoundTrip()
	if err != nil {
		return Machine{}, fmt.Errorf("loopback: %w", err)
	}
	var u syscall.Utsname
	if err := syscall.Uname(&u); err != nil {
		return Machine{}, err
	}
	disk.Samples, loop.Samples = nil, nil
	return Machine{CPUs: runtime.NumCPU(), System: "Linux " + chars(u.Release[:]), Go: runtime.Version(), DiskSync: disk, Loopback: loop}, nil
}

func (m Machine) String() string {
	return fmt.Sprintf("%d CPUs, %s, %s; idle disk sync %.2f ms, loopback round trip %.3f ms (medians)",
		m.CPUs, m.System, m.Go, m.DiskSync.Median, m.Loopback.Median)
}

func chars(s []int8) string {
	var b strings.Builder
	for _, c := range s {
		if c == 0 {
			break
		}
		b.WriteByte(byte(c))
	}
	return b.String()
}

// Commit names the commit of the working tree.
func Commit() string {
	out, err := exec.Command("git", "rev-parse", "--short=12", "HEAD").Output()
	if err != nil {
		return "unknown commit"
	}
	return strings.TrimSpace(string(out))
}
