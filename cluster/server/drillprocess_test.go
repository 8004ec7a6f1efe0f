package server

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"raftmaster/transport/raftnet"
	"raftmaster/transport/webui"
)

// A helper touches no process but the one that has started it.
func TestThePauseHelperTouchesOnlyItsParent(t *testing.T) {
	parent := strconv.Itoa(os.Getppid())
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"no arguments": {nil, "usage"},
		"another role": {[]string{"kill", parent, "0", "0"}, "usage"},
		"a stranger":   {[]string{"stop", strconv.Itoa(os.Getpid()), "0", "0"}, "is not the parent"},
		"no number":    {[]string{"stop", parent, "x", "0"}, "no number"},
		"a negative":   {[]string{"stop", parent, "0", "-1"}, "no number"},
	} {
		if err := runPauseHelper(c.args); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func TestShellWordsCanBePasted(t *testing.T) {
	for in, want := range map[string]string{
		"--data-dir": "--data-dir", "spark://a:1,b:2": "spark://a:1,b:2", "": "''", "a b": "'a b'", "it's": `'it'\''s'`, "$(x)": "'$(x)'",
	} {
		if got := shellWord(in); got != want {
			t.Errorf("%q: %s, want %s", in, got, want)
		}
	}
}

// A helper that was ended is gone: one that is about to stop the master must not do so after the one that wakes it has ended.
func TestAnEndedPauseHelperIsGone(t *testing.T) {
	dir := t.TempDir()
	program, pidFile := filepath.Join(dir, "helper"), filepath.Join(dir, "pid")
	if err := os.WriteFile(program, []byte("#!/bin/sh\necho $$ > "+pidFile+"\nexec sleep 300\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	d := &drills{log: hclog.NewNullLogger(), proc: findProcess()}
	end, err := d.helper(program, "stop", 0, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	pid := 0
	for limit := time.Now().Add(patience); pid == 0; time.Sleep(time.Millisecond) {
		b, err := os.ReadFile(pidFile)
		if err == nil && strings.HasSuffix(string(b), "\n") {
			if pid, err = strconv.Atoi(strings.TrimSpace(string(b))); err != nil {
				t.Fatal(err)
			}
		}
		if time.Now().After(limit) {
			t.Fatal("the helper has not begun")
		}
	}
	end()
	if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("process %d is still there: %v", pid, err)
	}
	end() // once more does no harm
	d.wg.Wait()
}

// The end of a pause that is about to begin is final.
func TestAPauseThatWasEndedDoesNotBegin(t *testing.T) {
	d := &drills{log: hclog.NewNullLogger(), inProcess: true, valve: raftnet.NewValve(), freeze: raftnet.NewValve()}
	for range 300 {
		d.mu.Lock()
		undo, err := d.apply(webui.DrillFaultRequest{Kind: webui.DrillPause}, nil, time.Microsecond, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		undo()
		d.mu.Unlock()
	}
	time.Sleep(10 * time.Millisecond) // for what would begin late
	for _, v := range []*raftnet.Valve{d.valve, d.freeze} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		if err := v.WaitDial(ctx, "127.0.0.1:1"); err != nil {
			t.Errorf("traffic is held back after the end: %v", err)
		}
		cancel()
	}
}
