package runner

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// ticksPerSecond is USER_HZ, in which /proc gives start times. It is 100 on every architecture that Go supports.
const ticksPerSecond = 100

// procStat is what this package needs of /proc/PID/stat.
type procStat struct {
	pid, parent, group, session int
	state                       byte
	// start is in ticks since the machine's start.
	start uint64
}

// ended is true for zombies: nothing runs any more, only the id is still taken.
func (s procStat) ended() bool { return s.state == 'Z' || s.state == 'X' }

// parseStat reads the text of /proc/PID/stat. The second field, the program's name, may hold blanks and parentheses, so
// the rest begins after the last one.
func parseStat(text []byte) (procStat, error) {
	bad := func(what string) (procStat, error) { return procStat{}, fmt.Errorf("process stat: %s", what) }
	open, end := bytes.IndexByte(text, '('), bytes.LastIndexByte(text, ')')
	if open < 1 || end < open {
		return bad("no program name")
	}
	fields := strings.Fields(string(text[end+1:]))
	const startField = 19 // starttime is field 22 of proc(5); the fields here begin with the third
	if len(fields) <= startField || len(fields[0]) != 1 {
		return bad("too few fields")
	}
	s := procStat{state: fields[0][0]}
	var err error
	for _, number := range []struct {
		text string
		to   *int
	}{{strings.TrimSpace(string(text[:open])), &s.pid}, {fields[1], &s.parent}, {fields[2], &s.group}, {fields[3], &s.session}} {
		if *number.to, err = strconv.Atoi(number.text); err != nil {
			return bad("not a number")
		}
	}
	if s.start, err = strconv.ParseUint(fields[startField], 10, 64); err != nil {
		return bad("not a start time")
	}
	return s, nil
}

// readStat reads one process; os.ErrNotExist if there is none.
func readStat(pid int) (procStat, error) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if errors.Is(err, unix.ESRCH) { // it ended between open and read
		err = os.ErrNotExist
	}
	if err != nil {
		return procStat{}, err
	}
	return parseStat(text)
}

// scanProcesses reads all processes of this process id namespace. One that ends meanwhile is left out.
func scanProcesses() ([]procStat, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	var all []procStat
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if s, err := readStat(pid); err == nil {
			all = append(all, s)
		}
	}
	if len(all) == 0 {
		return nil, errors.New("/proc shows no process")
	}
	return all, nil
}

// signalExactly signals a process that is no child of ours, if it is still the one that was seen.
func signalExactly(seen procStat, sig unix.Signal) error {
	fd, err := unix.PidfdOpen(seen.pid, 0)
	if err == nil {
		defer unix.Close(fd)
	} else if errors.Is(err, unix.ESRCH) {
		return nil
	}
	now, statErr := readStat(seen.pid)
	if statErr != nil || now.start != seen.start {
		return nil // it ended, or the id was given to another
	}
	if err == nil {
		err = unix.PidfdSendSignal(fd, sig, nil, 0)
	} else { // a kernel without pidfd: what remains is the instant since readStat
		err = unix.Kill(seen.pid, sig)
	}
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	return err
}

// machineTicks is now in the unit and from the origin of procStat.start.
func machineTicks() (uint64, error) {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		return 0, err
	}
	return uint64(t.Sec)*ticksPerSecond + uint64(t.Nsec)/(1e9/ticksPerSecond), nil
}

// bootID differs after each start of the machine.
func bootID() (string, error) {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", err
	}
	return strings.TrimSpace(string(text)), nil
}

// pidNamespace names the set of process ids that this process sees: ids in another container mean other processes.
func pidNamespace() (string, error) { return os.Readlink("/proc/self/ns/pid") }
