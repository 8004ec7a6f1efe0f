package worker

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"github.com/hashicorp/go-hclog"
	"go.uber.org/goleak"

	"raftmaster/cluster/config"
	"raftmaster/cluster/launcher"
)

// childVariable makes the test binary run one worker, whose configuration it names, so that a test can kill it.
const childVariable = "RAFTMASTER_TEST_WORKER"

// childConfig is what a worker of its own process is told.
type childConfig struct {
	Settings config.Worker
	Home     string
	Environ  []string
}

func TestMain(m *testing.M) {
	if text := os.Getenv(childVariable); text != "" {
		os.Exit(runChild(text))
	}
	goleak.VerifyTestMain(m,
		// hashicorp/raft #696: a transfer that is interrupted at the wrong moment leaves this goroutine behind for ever.
		goleak.IgnoreAnyFunction("github.com/hashicorp/raft.(*Raft).leadershipTransfer"),
		goleak.IgnoreAnyFunction("github.com/hashicorp/raft.(*Raft).leaderLoop.func1"),
		goleak.IgnoreAnyFunction("github.com/hashicorp/raft.(*Raft).leaderLoop.func2"),
	)
}

func runChild(text string) int {
	var c childConfig
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	home, err := launcher.OpenHome(c.Home)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	w, err := New(Config{Settings: &c.Settings, Home: home, Log: hclog.New(&hclog.LoggerOptions{Output: os.Stderr, Level: hclog.Info}),
		Environ: func(context.Context) ([]string, error) { return c.Environ, nil }})
	if err == nil {
		err = w.Run(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}
