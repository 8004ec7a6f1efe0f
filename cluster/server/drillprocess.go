package server

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// PauseHelper is the first argument that makes this program the helper of a pause, see RunPauseHelper.
const PauseHelper = "drill-pause-helper"

// wakeMargin is how much later the second helper wakes the master, should the first have been ended.
const wakeMargin = time.Second

// processInfo is what is known of who started this process.
type processInfo struct {
	pid        int
	supervisor string
	command    string
}

// findProcess tells how this process is started again.
func findProcess() processInfo {
	p := processInfo{pid: os.Getpid()}
	words := make([]string, len(os.Args))
	for i, a := range os.Args {
		words[i] = shellWord(a)
	}
	p.command = strings.Join(words, " ")
	if dir, err := os.Getwd(); err == nil {
		p.command = "cd " + shellWord(dir) + " && " + p.command
	}
	if os.Getenv("INVOCATION_ID") != "" { // systemd sets it for whatever it starts
		p.supervisor = "systemd"
		if unit := systemdUnit(); unit != "" {
			p.supervisor, p.command = "systemd unit "+unit, "systemctl start "+unit
		}
	} else if p.pid == 1 {
		p.supervisor = "the container's runtime"
	}
	return p
}

// systemdUnit finds the service that this process belongs to.
func systemdUnit() string {
	b, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return ""
	}
	for _, line := range strings.Split(string(b), "\n") {
		if unit := path.Base(line); strings.HasSuffix(unit, ".service") {
			return unit
		}
	}
	return ""
}

// shellWord quotes an argument for a shell where that is needed.
func shellWord(s string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:=,@%+", r)
	}
	if s != "" && strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// exit ends the process as SIGKILL does; the kernel closes its sockets. Where others live in the process, the master ends
// without order and leaves them alone.
func (d *drills) exit() {
	if d.inProcess {
		d.fail(errDrillExit)
		return
	}
	if err := syscall.Kill(d.proc.pid, syscall.SIGKILL); err != nil {
		d.log.Error("DRILL: SIGKILL failed", "error", err)
	}
	time.Sleep(100 * time.Millisecond) // process 1 of a container does not get the signal
	os.Exit(137)
}

// stopProcess has two helpers stop and wake this process: nothing in a stopped process can wake it.
func (d *drills) stopProcess(late, duration time.Duration) (cancel func(), err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	wake, err := d.helper(self, "wake", late, duration+wakeMargin)
	if err != nil {
		return nil, err
	}
	stop, err := d.helper(self, "stop", late, duration)
	if err != nil {
		wake()
		return nil, err
	}
	return func() { stop(); wake() }, nil // in this order: as long as one may still stop us, the other must be there to wake us
}

// helper starts one helper. The returned function ends it and waits until it is gone: until then it may still do its work.
func (d *drills) helper(self, role string, late, duration time.Duration) (end func(), err error) {
	cmd := exec.Command(self, PauseHelper, role, strconv.Itoa(d.proc.pid), strconv.FormatInt(late.Milliseconds(), 10), strconv.FormatInt(duration.Milliseconds(), 10))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // a signal to our group is not meant for it
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	gone := make(chan struct{})
	d.wg.Go(func() {
		defer close(gone)
		if err := cmd.Wait(); err != nil {
			d.log.Debug("the helper of a pause ended", "role", role, "error", err)
		}
	})
	return func() {
		if err := cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
			d.log.Warn("DRILL: the helper of a pause cannot be ended", "error", err)
			return
		}
		<-gone
	}, nil
}

// RunPauseHelper is the program of a helper: "stop PID LATE DURATION" stops the parent after LATE milliseconds and wakes
// it after DURATION more; "wake" only wakes it. It does neither to any process but its parent. The result is the exit
// code.
func RunPauseHelper(args []string) int {
	signal.Ignore(syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT) // whoever stops must wake
	if err := runPauseHelper(args); err != nil {
		fmt.Fprintln(os.Stderr, "drill-pause-helper:", err)
		return 1
	}
	return 0
}

func runPauseHelper(args []string) error {
	if len(args) != 4 || (args[0] != "stop" && args[0] != "wake") {
		return errors.New("usage: stop|wake PID LATE DURATION")
	}
	var n [3]int
	for i, text := range args[1:] {
		v, err := strconv.Atoi(text)
		if err != nil || v < 0 {
			return fmt.Errorf("%q is no number", text)
		}
		n[i] = v
	}
	pid := n[0]
	if pid != os.Getppid() {
		return fmt.Errorf("process %d is not the parent", pid)
	}
	time.Sleep(time.Duration(n[1]) * time.Millisecond)
	if args[0] == "stop" && pid == os.Getppid() {
		if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
			return err
		}
	}
	time.Sleep(time.Duration(n[2]) * time.Millisecond)
	if pid != os.Getppid() {
		return nil // the parent has ended: its number may be another's
	}
	return syscall.Kill(pid, syscall.SIGCONT)
}
