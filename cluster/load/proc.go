package load

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// ticks is USER_HZ, the unit of CPU times in /proc, which is 100 on every architecture that Go runs on.
const ticks = 100

// ReadUsage reads a process's CPU time since its start and its memory from /proc (Linux).
func ReadUsage(pid int) (Usage, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return Usage{}, fmt.Errorf("load: usage of process %d: %w", pid, err)
	}
	u, err := parseStat(stat)
	if err != nil {
		return Usage{}, err
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return Usage{}, fmt.Errorf("load: usage of process %d: %w", pid, err)
	}
	for _, f := range []struct {
		name string
		to   *float64
	}{{"VmRSS:", &u.RSSMB}, {"RssAnon:", &u.AnonMB}} {
		for line := range strings.Lines(string(status)) {
			if words := strings.Fields(line); len(words) == 3 && words[0] == f.name {
				kb, err := strconv.ParseFloat(words[1], 64)
				if err != nil {
					return Usage{}, fmt.Errorf("load: %s of process %d: %w", f.name, pid, err)
				}
				*f.to = kb * 1024 / 1e6
			}
		}
	}
	return u, nil
}

// parseStat reads user and system time. The program's name, in parentheses, may hold anything.
func parseStat(b []byte) (Usage, error) {
	const utime, stime = 11, 12 // counted from the state, which follows the name
	end := bytes.LastIndexByte(b, ')')
	fields := strings.Fields(string(b[end+1:]))
	if end < 0 || len(fields) <= stime {
		return Usage{}, errors.New("load: /proc/PID/stat is not as expected")
	}
	var sum float64
	for _, i := range []int{utime, stime} {
		n, err := strconv.ParseUint(fields[i], 10, 64)
		if err != nil {
			return Usage{}, fmt.Errorf("load: /proc/PID/stat: %w", err)
		}
		sum += float64(n) / ticks
	}
	return Usage{CPUSeconds: sum}, nil
}

// reserveFiles makes sure that this process may hold n open files.
func reserveFiles(n int) error {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		return fmt.Errorf("load: limit on open files: %w", err)
	}
	want := uint64(n) + 64 // standard streams, the listener, the runtime's own
	if l.Cur >= want {
		return nil
	}
	err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: want, Max: max(want, l.Max)})
	if err != nil {
		return fmt.Errorf("%w: %d are needed here and as many in the master's process, %d are allowed; raise it with ulimit -n %d",
			ErrFiles, want, l.Max, want)
	}
	return nil
}
