package launcher

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// script is a program of the operator that is run to its end.
type script struct {
	argv []string
	env  []string
	dir  string
	// files become the descriptors from 3 on.
	files []*os.File
	// timeout bounds its time, maxOutput its standard output in bytes.
	timeout   time.Duration
	maxOutput int
	// messages gets what it writes to standard error.
	messages io.Writer
}

const (
	// maxMessageBytes of what a script prints are quoted in an error: the last ones.
	maxMessageBytes = 2 << 10
	// pipeDelay is how long a script that has ended may leave its output open, which happens when it has started something
	// in the background.
	pipeDelay = 2 * time.Second
)

var (
	errScriptSlow = errors.New("it did not end in time")
	errScriptLoud = errors.New("it printed too much")
)

// run starts the program without a shell, without input and in a process group of its own, which is killed when the time
// is up or the output is too long.
func (s script) run(ctx context.Context) (stdout []byte, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ctx, stop := context.WithTimeoutCause(ctx, s.timeout, fmt.Errorf("%w (%v)", errScriptSlow, s.timeout))
	defer stop()
	out := &bounded{limit: s.maxOutput, over: func() { cancel(fmt.Errorf("%w (more than %d bytes)", errScriptLoud, s.maxOutput)) }}
	last := &tail{limit: maxMessageBytes}
	cmd := exec.CommandContext(ctx, s.argv[0], s.argv[1:]...)
	cmd.Env, cmd.Dir, cmd.ExtraFiles, cmd.Stdout, cmd.WaitDelay = s.env, s.dir, s.files, out, pipeDelay
	cmd.Stderr = last
	if s.messages != nil {
		cmd.Stderr = io.MultiWriter(last, s.messages)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	err = cmd.Run()
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	if errors.Is(err, exec.ErrWaitDelay) {
		err = nil // it has ended well; something that it left behind holds its output open
	}
	if err != nil {
		return nil, withMessages(err, last.String())
	}
	return out.buffer.Bytes(), nil
}

func withMessages(err error, text string) error {
	if text = strings.TrimSpace(text); text == "" {
		return err
	}
	return fmt.Errorf("%w; it said: %s", err, text)
}

// bounded keeps up to limit bytes and calls over when there are more.
type bounded struct {
	buffer bytes.Buffer
	limit  int
	over   func()
}

func (b *bounded) Write(p []byte) (int, error) {
	if b.buffer.Len()+len(p) > b.limit {
		b.over()
		return len(p), nil
	}
	return b.buffer.Write(p)
}

// tail keeps the last bytes.
type tail struct {
	kept  []byte
	limit int
}

func (t *tail) Write(p []byte) (int, error) {
	t.kept = append(t.kept, p[max(0, len(p)-t.limit):]...)
	if extra := len(t.kept) - t.limit; extra > 0 {
		t.kept = append(t.kept[:0], t.kept[extra:]...)
	}
	return len(p), nil
}

func (t *tail) String() string { return string(t.kept) }
