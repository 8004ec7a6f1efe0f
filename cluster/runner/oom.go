package runner

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// oomCounter reads how often the kernel killed a process of this control group for want of memory. A nil counter reads 0.
type oomCounter struct{ path string }

// findOOMCounter looks for the counter of this process's control group, version 2 and then 1; nil if there is none.
func findOOMCounter() *oomCounter {
	text, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil
	}
	for _, path := range oomCandidates(string(text)) {
		c := &oomCounter{path}
		if c.read() >= 0 {
			return c
		}
	}
	return nil
}

// oomCandidates are the files where the counter may be. In a container the path of /proc/self/cgroup may be the host's:
// the mount's root is tried too.
func oomCandidates(cgroups string) []string {
	const mount = "/sys/fs/cgroup"
	var paths []string
	for _, line := range strings.Split(cgroups, "\n") {
		parts := strings.SplitN(line, ":", 3)
		if len(parts) != 3 {
			continue
		}
		group := filepath.Clean("/" + parts[2])
		switch {
		case parts[1] == "memory":
			paths = append(paths, filepath.Join(mount, "memory", group, "memory.oom_control"), filepath.Join(mount, "memory/memory.oom_control"))
		case parts[0] == "0" && parts[1] == "":
			paths = append(paths, filepath.Join(mount, group, "memory.events"), filepath.Join(mount, "memory.events"))
		}
	}
	return paths
}

// read gives the counter, 0 for a nil counter, -1 if it cannot be read.
func (c *oomCounter) read() int64 {
	if c == nil {
		return 0
	}
	text, err := os.ReadFile(c.path)
	if err != nil {
		return -1
	}
	for _, line := range strings.Split(string(text), "\n") {
		if count, ok := strings.CutPrefix(line, "oom_kill "); ok {
			if n, err := strconv.ParseInt(strings.TrimSpace(count), 10, 64); err == nil {
				return n
			}
		}
	}
	return -1
}
