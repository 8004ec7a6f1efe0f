package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"raftmaster/cluster/config"
	"raftmaster/cluster/drill"
	"raftmaster/cluster/server"
	"raftmaster/transport/webui"
)

// plainClient calls masters without a token.
type plainClient struct{ c *http.Client }

func (p plainClient) Get(ctx context.Context, endpoint, path string, v any) error {
	return p.call(ctx, http.MethodGet, endpoint+path, nil, v)
}

func (p plainClient) Post(ctx context.Context, endpoint, path string, req, v any) error {
	b, err := json.Marshal(req)
	if err != nil {
		return err
	}
	return p.call(ctx, http.MethodPost, endpoint+path, b, v)
}

func (p plainClient) call(ctx context.Context, method, url string, body []byte, v any) error {
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := p.c.Do(req)
	if err != nil {
		return err
	}
	b, err := io.ReadAll(resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		e := &webui.Error{}
		if json.Unmarshal(b, e) != nil {
			return fmt.Errorf("%s: %s", resp.Status, b)
		}
		return e
	}
	return json.Unmarshal(b, v)
}

// supervised is a master in a process that is started again whenever it ends, as a supervisor does.
type supervised struct {
	args []string
	stop chan struct{}
	done sync.WaitGroup

	mu  sync.Mutex
	cmd *exec.Cmd
	log lockedBuffer
}

func (s *supervised) start(t *testing.T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cmd = exec.Command(os.Args[0], s.args...)
	s.cmd.Env = append(os.Environ(), runMainEnv+"=1")
	s.cmd.Stderr, s.cmd.Stdout = &s.log, &s.log
	if err := s.cmd.Start(); err != nil {
		t.Error(err)
	}
}

func (s *supervised) run(t *testing.T) {
	s.stop = make(chan struct{})
	s.start(t)
	s.done.Go(func() {
		for {
			s.mu.Lock()
			cmd := s.cmd
			s.mu.Unlock()
			if err := cmd.Wait(); err != nil {
				t.Logf("%s ended: %v", s.args[2], err)
			}
			select {
			case <-s.stop:
				return
			case <-time.After(200 * time.Millisecond):
				s.start(t)
			}
		}
	})
}

func (s *supervised) end() {
	close(s.stop)
	s.mu.Lock()
	_ = s.cmd.Process.Kill() // it may have ended already
	s.mu.Unlock()
	s.done.Wait()
}

// TestDrillsOfRealProcesses: SIGKILL and SIGSTOP for real, with a supervisor; and a fault whose drill is gone.
func TestDrillsOfRealProcesses(t *testing.T) {
	if testing.Short() {
		t.Skip("LEFT OUT under -short: this test takes several seconds")
	}
	ports := freePorts(t, 6)
	list := fmt.Sprintf("spark://127.0.0.1:%s,127.0.0.1:%s,127.0.0.1:%s", ports[0], ports[1], ports[2])
	client := plainClient{&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}}
	cfg := drill.Config{Client: client, By: "test", Limit: 90 * time.Second, Duration: 4 * time.Second, Probe: drill.SparkProbe{}}
	dir := t.TempDir()
	for i := range 3 {
		s := &supervised{args: []string{"server", "--cluster", list, "--host", "127.0.0.1", "--port", ports[i], "--webui-port", ports[3+i], "--rest-port", "0",
			"--data-dir", filepath.Join(dir, fmt.Sprint(i)), "--enable-drills"}}
		s.run(t)
		t.Cleanup(func() {
			s.end()
			if t.Failed() {
				t.Logf("log of %s:\n%s", ports[i], s.log.String())
			}
		})
		cfg.Endpoints = append(cfg.Endpoints, "http://127.0.0.1:"+ports[3+i])
	}
	waitFor(t, "whole cluster", func() bool {
		cfg.Kind = drill.Transfer
		r, err := drill.Preview(t.Context(), cfg)
		return err == nil && r.Outcome == drill.Passed
	})
	for kind, how := range map[string]string{drill.KillLeader: "SIGKILL", drill.PauseLeader: "SIGSTOP", drill.RollingRestart: ""} {
		cfg.Kind = kind
		r, err := drill.Run(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		if r.Outcome != drill.Passed || !strings.Contains(r.Rounds[0].Fault, how) {
			b, _ := json.MarshalIndent(r, "", " ")
			t.Fatalf("%s: %s", kind, b)
		}
	}
	abandonedPause(t, client, cfg)
}

// abandonedPause stops a leader and does not look after it: it wakes by itself.
func abandonedPause(t *testing.T, client plainClient, cfg drill.Config) {
	t.Helper()
	for _, e := range cfg.Endpoints {
		var st webui.DrillStatus
		if err := client.Post(t.Context(), e, "/v1/drill/claim", webui.DrillClaimRequest{Drill: "gone", By: "test", TTLMillis: 1000}, &st); err != nil {
			t.Fatal(err)
		}
	}
	e := cfg.Endpoints[0]
	var before, after webui.DrillStatus
	if err := client.Post(t.Context(), e, "/v1/drill/pause", webui.DrillFaultRequest{Drill: "gone", DurationMillis: 2000}, &before); err != nil {
		t.Fatal(err)
	}
	stopped := false
	waitFor(t, "master that goes on", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		err := client.Get(ctx, e, "/v1/drill", &after)
		stopped = stopped || err != nil
		return err == nil && after.Fault == nil && after.Last != nil && after.Last.Kind == webui.DrillPause && after.Claim == nil
	})
	if !stopped || after.BootID != before.BootID || after.Last.Ended != webui.DrillEndedDuration {
		t.Errorf("stopped %t, %+v", stopped, after)
	}
}

// A master of dev that a drill has ended is started again; any other end is one.
func TestDevStartsAMasterAgainAfterADrill(t *testing.T) {
	starts := 0
	p := &program{run: func(context.Context, config.Config, hclog.Logger, string) error {
		if starts++; starts < 3 {
			return fmt.Errorf("restart: %w", server.ErrDrill)
		}
		return errors.New("the disk burns")
	}}
	err := p.superviseDev(t.Context(), config.Config{}, hclog.NewNullLogger())
	if starts != 3 || err == nil || !strings.Contains(err.Error(), "the disk burns") {
		t.Errorf("%d starts, %v", starts, err)
	}
}
