package config

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

func sortedStrings(s []string) []string { return slices.Sorted(slices.Values(s)) }

func (h WorkerHost) withDefaults() WorkerHost {
	m := machine{root: os.DirFS("/")}
	if h.CPUs == nil {
		h.CPUs = func() int { return m.cpus(runtime.NumCPU()) }
	}
	if h.MemoryMB == nil {
		h.MemoryMB = m.memoryMB
	}
	return h
}

// machine reads what a process may use, the limits of its control groups (versions 1 and 2) included: a worker in a
// container must not offer the whole machine. The JVM, and so Spark's worker, looks at the same limits.
type machine struct{ root fs.FS }

// cpus is the smaller of present (the processors of the affinity mask) and the CPU quota, rounded up.
func (m machine) cpus(present int) int {
	n := present
	for _, dir := range m.groups("cpu") {
		var quota, period float64
		if text := m.read(dir + "/cpu.max"); text != "" {
			if _, err := fmt.Sscanf(text, "%f %f", &quota, &period); err != nil {
				continue // "max": no limit
			}
		} else {
			quota, period = m.number(dir+"/cpu.cfs_quota_us"), m.number(dir+"/cpu.cfs_period_us")
		}
		if quota > 0 && period > 0 {
			n = min(n, int(math.Ceil(min(quota/period, math.MaxInt32))))
		}
	}
	return max(n, 1)
}

// memoryMB is the smaller of the machine's memory and the memory limit, in MiB.
func (m machine) memoryMB() (int, error) {
	var kib float64
	for _, line := range strings.Split(m.read("proc/meminfo"), "\n") {
		if rest, ok := strings.CutPrefix(line, "MemTotal:"); ok {
			if _, err := fmt.Sscanf(rest, "%f kB", &kib); err != nil {
				return 0, fmt.Errorf("/proc/meminfo: %q: %w", line, err)
			}
		}
	}
	if kib <= 0 {
		return 0, errors.New("/proc/meminfo has no MemTotal")
	}
	bytes := kib * 1024
	for _, dir := range m.groups("memory") {
		for _, file := range []string{"/memory.max", "/memory.limit_in_bytes"} {
			if limit := m.number(dir + file); limit > 0 {
				bytes = min(bytes, limit)
			}
		}
	}
	return int(min(bytes/(1<<20), math.MaxInt32)), nil
}

// groups lists the directories of the process's control group for one controller and of its ancestors, version 1 and 2.
// In a container the path that the kernel names may not be visible; the root of the mount is then the container's group.
func (m machine) groups(controller string) []string {
	const mount = "sys/fs/cgroup"
	dirs := map[string]bool{mount: true, mount + "/" + controller: true}
	for _, line := range strings.Split(m.read("proc/self/cgroup"), "\n") {
		parts := strings.SplitN(line, ":", 3)
		if len(parts) != 3 {
			continue
		}
		base := mount
		if parts[1] != "" {
			if !slices.Contains(strings.Split(parts[1], ","), controller) {
				continue
			}
			base = mount + "/" + controller
		}
		for p := filepath.Clean("/" + parts[2]); p != "/"; p = filepath.Dir(p) {
			dirs[base+p] = true
		}
	}
	return sortedKeys(dirs)
}

// read gives a file's text, "" for what cannot be read: a limit that is not there is no limit.
func (m machine) read(path string) string {
	text, err := fs.ReadFile(m.root, path)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// number reads a file with one number; 0 for anything else ("max", no file).
func (m machine) number(path string) float64 {
	n, err := strconv.ParseFloat(m.read(path), 64)
	if err != nil || math.IsInf(n, 0) || math.IsNaN(n) {
		return 0
	}
	return n
}
