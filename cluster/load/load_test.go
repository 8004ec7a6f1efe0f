package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"raftmaster/transport/frame"
	"raftmaster/transport/sparkmsg"
)

// testNet gives each run of this process addresses of its own.
var testNet = func() func() int {
	var mu sync.Mutex
	n := 100 + 2*(os.Getpid()%50)
	return func() int {
		mu.Lock()
		defer mu.Unlock()
		if n += 2; n > 250 {
			n = 100
		}
		return n
	}
}()

func testConfig(m *fakeMaster) Config {
	return Config{Masters: []frame.Address{m.addr}, Workers: 30, Apps: 4, Executors: 5, Net: testNet(), Duration: 300 * time.Millisecond,
		Timeout: 30 * time.Second, Burst: 40, Drivers: 6, HeartbeatEvery: 50 * time.Millisecond, PID: os.Getpid()}
}

func mustRun(t *testing.T, cfg Config) *Report {
	t.Helper()
	report, err := Run(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Errors) > 0 {
		t.Fatalf("errors: %v", report.Errors)
	}
	return report
}

func count(t *testing.T, r *Report, name string) int {
	t.Helper()
	s := r.Find(name)
	if s == nil {
		t.Fatalf("no result %q", name)
	}
	if s.Count > 0 && s.PerSecond <= 0 {
		t.Errorf("%s: %+v", name, s)
	}
	return s.Count
}

// A whole run, for releases of both Scala lines: everybody registers, executors run, and all leave in order.
func TestARunMeasuresEveryPhaseAndLeavesNothingBehind(t *testing.T) {
	for release, fam := range map[string]sparkmsg.Family{"3.5.9": sparkmsg.FamilyB, "4.3.0": sparkmsg.FamilyE} {
		t.Run(release, func(t *testing.T) {
			m := newFakeMaster(t, fam)
			cfg := testConfig(m)
			cfg.Release, cfg.Phases = release, Phases
			var seen []Phase
			cfg.After = func(p Phase) error { seen = append(seen, p); return nil }
			r := mustRun(t, cfg)
			for name, want := range map[string]int{"worker connections": 30, "worker registrations": 30, "application registrations": 4,
				"executors of applications": 20, "executor launches, at once": 40, "driver submissions": 6, "driver kills": 6} {
				if got := count(t, r, name); got != want {
					t.Errorf("%s: %d, want %d", name, got, want)
				}
			}
			for _, name := range []string{"heartbeats", "executor launches, replacing", "executor state changes", "steady heartbeats"} {
				if count(t, r, name) == 0 {
					t.Errorf("%s: none", name)
				}
			}
			if u := r.Find("heartbeats").Master; u == nil || u.RSSMB <= 0 {
				t.Errorf("usage of the master: %+v", u)
			}
			if fmt.Sprint(seen) != fmt.Sprint(Phases) {
				t.Errorf("phases that ended: %v", seen)
			}
			m.mu.Lock()
			defer m.mu.Unlock()
			if len(m.finished) != 5 {
				t.Errorf("%d applications unregistered, want the four and the burst", len(m.finished))
			}
			if len(m.heartbeats) != 30 {
				t.Errorf("heartbeats came from %d workers", len(m.heartbeats))
			}
			hosts := map[string]bool{}
			for _, w := range m.workers {
				hosts[w.Host] = true
			}
			if len(hosts) != 30 {
				t.Errorf("%d workers have %d addresses", len(m.workers), len(hosts))
			}
		})
	}
}

// The list of masters may name standbys first, as a worker's does.
func TestTheLeaderIsFoundAmongStandbys(t *testing.T) {
	standby, leader := newFakeMaster(t, sparkmsg.FamilyE), newFakeMaster(t, sparkmsg.FamilyE)
	standby.standby = true
	cfg := testConfig(leader)
	cfg.Masters = []frame.Address{standby.addr, leader.addr}
	found, err := FindLeader(context.Background(), cfg)
	if err != nil || found != leader.addr.String() {
		t.Fatalf("leader %s, %v; want %s", found, err, leader.addr)
	}
	cfg.Phases = []Phase{PhaseWorkers}
	if r := mustRun(t, cfg); r.Leader != leader.addr.String() {
		t.Errorf("leader of the report: %s", r.Leader)
	}
}

func TestNoLeaderIsSaid(t *testing.T) {
	m := newFakeMaster(t, sparkmsg.FamilyE)
	m.standby = true
	cfg := testConfig(m)
	cfg.Timeout = 300 * time.Millisecond
	if _, err := Run(context.Background(), cfg); !errors.Is(err, ErrNoLeader) || !errors.Is(err, errStandby) {
		t.Fatalf("error %v", err)
	}
}

// A master that launches nothing ends the run with a time-out, and with what was measured until then.
func TestAPhaseThatDoesNotEndIsATimeout(t *testing.T) {
	m := newFakeMaster(t, sparkmsg.FamilyE)
	m.noLaunch = true
	cfg := testConfig(m)
	cfg.Timeout, cfg.Phases = 500*time.Millisecond, []Phase{PhaseWorkers, PhaseApps}
	r, err := Run(context.Background(), cfg)
	if !errors.Is(err, ErrTimeout) {
		t.Fatalf("error %v", err)
	}
	if count(t, r, "worker registrations") != 30 {
		t.Errorf("results %+v", r.Results)
	}
}

// A worker runs nothing for a master other than its own (WIRE.md, trap 3), and counts that.
func TestALaunchByAnotherMasterIsAnError(t *testing.T) {
	m := newFakeMaster(t, sparkmsg.FamilyE)
	m.wrongURL = true
	cfg := testConfig(m)
	cfg.Timeout, cfg.Phases = time.Second, []Phase{PhaseWorkers, PhaseApps}
	r, err := Run(context.Background(), cfg)
	if !errors.Is(err, ErrTimeout) || r.Errors["launch by a wrong master"] == 0 {
		t.Fatalf("error %v, errors %v", err, r.Errors)
	}
}

// An interrupted run still leaves in order.
func TestAnInterruptedRunUnregistersItsApplications(t *testing.T) {
	m := newFakeMaster(t, sparkmsg.FamilyE)
	cfg := testConfig(m)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	cfg.Phases, cfg.Duration = []Phase{PhaseWorkers, PhaseApps, PhaseHold}, time.Minute
	cfg.After = func(p Phase) error {
		if p == PhaseApps {
			cancel()
		}
		return nil
	}
	if _, err := Run(ctx, cfg); !errors.Is(err, context.Canceled) {
		t.Fatalf("error %v", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.finished) != 4 {
		t.Errorf("%d applications unregistered, want 4", len(m.finished))
	}
}

// What arrives while the peers leave is counted as it is handled: a connection that is being closed waits for that.
func TestPeersLeaveUnderAFlood(t *testing.T) {
	m := newFakeMaster(t, sparkmsg.FamilyE)
	m.noLaunch = true
	cfg := testConfig(m)
	cfg.Apps, cfg.Phases = 0, []Phase{PhaseWorkers}
	stop := make(chan struct{})
	var flood sync.WaitGroup
	cfg.After = func(Phase) error {
		m.mu.Lock()
		defer m.mu.Unlock()
		before := m.ep.Stats().FramesOut
		for _, w := range m.workers {
			flood.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
						m.ep.Send(*w.Worker.Address, "Nobody", m.fam, &sparkmsg.MasterInStandby{})
					}
					if m.ep.Queued(*w.Worker.Address) > 100 {
						time.Sleep(100 * time.Microsecond)
					}
				}
			})
		}
		for m.ep.Stats().FramesOut < before+uint64(10*len(m.workers)) {
			time.Sleep(time.Millisecond)
		}
		return nil
	}
	ended := make(chan error, 1)
	go func() {
		_, err := Run(context.Background(), cfg)
		ended <- err
	}()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Error("the peers do not leave")
	}
	close(stop)
	flood.Wait()
}

// The masters read the Spark release off a worker's page and ask a driver for it.
func TestWorkersAndDriversTellTheirRelease(t *testing.T) {
	m := newFakeMaster(t, sparkmsg.FamilyE)
	cfg := testConfig(m)
	cfg.Phases = []Phase{PhaseWorkers, PhaseApps}
	cfg.After = func(p Phase) error {
		if p != PhaseApps {
			return nil
		}
		m.mu.Lock()
		urls := []string{m.workers[0].WorkerWebUIURL, m.apps["app-20200101000000-0000"].reg.AppDescription.AppUIURL + "/api/v1/version"}
		m.mu.Unlock()
		for _, url := range urls {
			if text, err := page(url); err != nil || !strings.Contains(text, "4.3.0") {
				return fmt.Errorf("%s: %q, %w", url, text, err)
			}
		}
		return nil
	}
	mustRun(t, cfg)
}

func page(url string) (string, error) {
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}
	response, err := client.Get(url)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	b, err := io.ReadAll(response.Body)
	return string(b), err
}

func TestAWrongConfigurationIsNamed(t *testing.T) {
	m := []frame.Address{{Host: "127.0.0.1", Port: 1}}
	for want, cfg := range map[string]Config{
		"no masters":                {},
		"Spark 2.4.0 are not known": {Masters: m, Release: "2.4.0"},
		"workers must be":           {Masters: m, Workers: MaxPeers + 1},
		"applications must be":      {Masters: m, Apps: -1},
		"net must be":               {Masters: m, Net: 254},
		"not known; the phases are": {Masters: m, Phases: []Phase{"dance"}},
		"phase churn needs apps":    {Masters: m, Phases: []Phase{PhaseWorkers, PhaseChurn}},
		"must not be negative":      {Masters: m, HeartbeatRate: -1},
		"rates and times":           {Masters: m, HeartbeatRate: math.NaN()},
	} {
		if _, err := FindLeader(context.Background(), cfg); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), want) {
			t.Errorf("FindLeader: %v, want it to say %q", err, want)
		}
		if _, err := Run(context.Background(), cfg); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}
