package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// proc is a process of a bed.
type proc struct {
	name string
	log  string
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
}

// start runs a program with exactly this environment. The kernel kills it when
// this program dies.
func (b *bed) start(name string, env map[string]string, args ...string) (*proc, error) {
	log := filepath.Join(b.dir, name+".log")
	out, err := os.OpenFile(log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = b.dir, out, out
	for _, k := range []string{"PATH", "HOME"} {
		cmd.Env = append(cmd.Env, k+"="+os.Getenv(k))
	}
	cmd.Env = append(cmd.Env, "LANG=C.UTF-8", "TMPDIR="+b.dir)
	for k, v := range env {
		cmd.Env = append(cmd.Env, k+"="+v)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	p := &proc{name: name, log: log, cmd: cmd, done: make(chan struct{})}
	go func() {
		_ = cmd.Wait() // how it ends is seen in its log
		close(p.done)
	}()
	b.procs = append(b.procs, p)
	return p, nil
}

func (p *proc) pid() int { return p.cmd.Process.Pid }

func (p *proc) running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// stop ends the process, in order if it can.
func (p *proc) stop() {
	if !p.running() {
		return
	}
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended meanwhile
	select {
	case <-p.done:
	case <-time.After(15 * time.Second):
		_ = syscall.Kill(-p.pid(), syscall.SIGKILL)
		<-p.done
	}
}

// tail is the end of the process's log, to explain a failure.
func (p *proc) tail() string {
	data, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	return strings.Join(lines[max(0, len(lines)-15):], "\n")
}

// bed is one set of masters with a directory and addresses of its own.
type bed struct {
	dir   string
	net   string // "127.A.B."
	procs []*proc
}

var errNoNet = errors.New("no free loopback network")

// newBed makes a bed whose directory is below parent.
func newBed(parent string) (*bed, error) {
	dir, err := os.MkdirTemp(parent, "bench-")
	if err != nil {
		return nil, err
	}
	for i := range 200 {
		net := fmt.Sprintf("127.%d.%d.", 86+i/50, 1+(os.Getpid()+i)%250)
		if free(net+"1", masterPort) && free(net+"9", zooPort) {
			return &bed{dir: dir, net: net}, nil
		}
	}
	return nil, errors.Join(errNoNet, os.RemoveAll(dir))
}

// close ends all processes, the last started first, and removes the directory.
// failed keeps it and says where it is.
func (b *bed) close(failed bool) error {
	for i := len(b.procs) - 1; i >= 0; i-- {
		b.procs[i].stop()
	}
	if failed {
		for _, p := range b.procs {
			fmt.Fprintf(os.Stderr, "--- end of the log of %s\n%s\n", p.name, p.tail())
		}
		fmt.Fprintln(os.Stderr, "kept:", b.dir)
		return nil
	}
	return os.RemoveAll(b.dir)
}
