package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"raftmaster/cluster/config"
	"raftmaster/cluster/drill"
	"raftmaster/cluster/sparkpeer"
	"raftmaster/transport/sparkmsg"
	"raftmaster/transport/webui"
)

// drillHTTP is raftctl's side of a drill.
type drillHTTP struct{ c *http.Client }

func newDrillHTTP(t testing.TB) drillHTTP {
	tr := &http.Transport{MaxIdleConnsPerHost: 8}
	t.Cleanup(tr.CloseIdleConnections)
	return drillHTTP{&http.Client{Transport: tr}}
}

func (d drillHTTP) Get(ctx context.Context, endpoint, path string, v any) error {
	return d.call(ctx, http.MethodGet, endpoint+path, nil, v)
}

func (d drillHTTP) Post(ctx context.Context, endpoint, path string, req, v any) error {
	body, err := json.Marshal(req)
	if err != nil {
		return err
	}
	return d.call(ctx, http.MethodPost, endpoint+path, body, v)
}

func (d drillHTTP) call(ctx context.Context, method, url string, body []byte, v any) error {
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := d.c.Do(req)
	if err != nil {
		return err
	}
	data, err := io.ReadAll(resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		var e webui.Error
		if err := json.Unmarshal(data, &e); err != nil {
			return fmt.Errorf("%s: %s", resp.Status, data)
		}
		return &e
	}
	return json.Unmarshal(data, v)
}

func enableDrills(cfg *config.Config) { cfg.EnableDrills, cfg.DrillsInProcess = true, true }

// supervise starts masters again that a drill has ended, until the test ends.
func (c *cluster) supervise() {
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	c.t.Cleanup(func() { stop(); wg.Wait() })
	for _, m := range c.masters {
		wg.Go(func() { m.supervise(ctx) })
	}
}

func (m *member) supervise(ctx context.Context) {
	for {
		s := m.server()
		if s == nil {
			return
		}
		select {
		case <-ctx.Done():
			return
		case err := <-s.fatal:
			switch {
			case errors.Is(err, errDrillExit):
				m.set(nil)
				s.Kill()
			case errors.Is(err, ErrDrill):
				m.set(nil)
				if err := s.Stop(); err != nil {
					m.t.Errorf("stop of %s: %v", m.cfg.Advertise(), err)
				}
			default:
				m.t.Errorf("%s ended: %v", m.cfg.Advertise(), err)
				return
			}
		}
		s, err := Start(m.cfg, m.logger(), "test")
		if err != nil {
			m.t.Errorf("start of %s: %v", m.cfg.Advertise(), err)
			return
		}
		m.set(s)
	}
}

// drillConfig is that of a drill in this cluster.
func (c *cluster) drillConfig(kind string) drill.Config {
	cfg := drill.Config{Client: newDrillHTTP(c.t), Kind: kind, By: "test", Limit: patience, Duration: 6 * time.Second, Probe: drill.SparkProbe{Host: newHost()}}
	for _, m := range c.masters {
		cfg.Endpoints = append(cfg.Endpoints, m.webURL())
	}
	return cfg
}

// busy is a cluster with everything that a drill compares: executors, an application that waits, drivers that run and
// wait, and marks.
func (c *cluster) busy() {
	c.t.Helper()
	for range 3 {
		c.readyWorker(sparkmsg.FamilyE, 4)
	}
	a, b := c.readyApp(sparkmsg.FamilyE, 4), c.readyApp(sparkmsg.FamilyE, 3)
	c.runs(a, 4)
	c.runs(b, 3)
	s := c.submitter(sparkmsg.FamilyE)
	id := c.submit(s, sparkpeer.DriverJob("Main", 1, 512, true, c.addresses()...))
	c.becomes(s, id, sparkmsg.DriverRunning)
	c.submit(s, sparkpeer.DriverJob("Waits", 64, 512, false, c.addresses()...))
	var done webui.WorkerChange
	c.leader().operate(c.t, "/v1/drain", webui.DrainRequest{Worker: c.workers[2].ID(), On: true}, &done)
}

// TestEveryDrillPasses: each kind of fault, in a busy cluster: a leader again, nothing lost, everything measured.
func TestEveryDrillPasses(t *testing.T) {
	slow(t)
	t.Parallel()
	c := start(t, 3, enableDrills)
	c.busy()
	c.supervise()
	for _, kind := range drill.Kinds() {
		report, err := drill.Run(t.Context(), c.drillConfig(kind))
		if err != nil {
			t.Fatal(err)
		}
		checkReport(t, kind, report)
	}
}

func checkReport(t *testing.T, kind string, r *drill.Report) {
	t.Helper()
	if r.Outcome != drill.Passed || len(r.Rounds) != 1 {
		b, _ := json.MarshalIndent(r, "", " ")
		t.Fatalf("%s: %s", kind, b)
	}
	x := &r.Rounds[0]
	t.Logf("%s: %s -> %s, alive %v, differences %d", kind, x.Leader.Address, x.NewLeader.Address, show(x.Steps.LeaderAlive), len(x.Differences))
	if !x.Compared || x.Damages() > 0 || x.ReplicasEqual == nil || !*x.ReplicasEqual {
		t.Errorf("%s: compared %t, differences %+v", kind, x.Compared, x.Differences)
	}
	if x.Before.Executors != 7 || x.After.Executors != 7 || x.Before.Drivers != 2 || x.After.Workers != 3 {
		t.Errorf("%s: before %+v, after %+v", kind, x.Before, x.After)
	}
	wanted := []string{"first_registration", "total"}
	switch kind {
	case drill.Transfer, drill.KillLeader, drill.Partition, drill.FullDisk, drill.PauseLeader:
		wanted = append(wanted, "leader_gone", "leader_elected", "leader_alive", "workers_attached", "drivers_attached", "target_back")
		if x.NewLeader.NodeID == x.Leader.NodeID {
			t.Errorf("%s: the leader is the same", kind)
		}
	case drill.RollingRestart:
		if len(x.Restarted) != 3 || slices.ContainsFunc(x.Restarted, func(m drill.Restarted) bool { return m.BackMillis == nil }) || x.Restarted[2].TransferMillis == nil {
			t.Errorf("%s: restarted %+v", kind, x.Restarted)
		}
	}
	for _, name := range wanted {
		if x.Steps.Get(name) == nil {
			t.Errorf("%s: the step %s was not measured", kind, name)
		}
	}
}

func show(p *int64) string {
	if p == nil {
		return "-"
	}
	return fmt.Sprint(*p)
}

// A drill that ends by itself while somebody works: what is new is told apart from damage.
func TestADrillExplainsWhatHappensMeanwhile(t *testing.T) {
	slow(t)
	t.Parallel()
	c := start(t, 3, enableDrills)
	c.busy()
	c.supervise()
	cfg := c.drillConfig(drill.SlowDisk)
	var once sync.Once
	cfg.Progress = func(text string) {
		if strings.HasPrefix(text, "fault:") {
			once.Do(func() {
				c.readyWorker(sparkmsg.FamilyE, 1)
				c.apps[1].Unregister()
			})
		}
	}
	r, err := drill.Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if r.Outcome != drill.Passed {
		t.Fatalf("%+v", r.Rounds)
	}
	var kinds []string
	for _, d := range r.Rounds[0].Differences {
		if !d.Explained || d.Index == 0 && d.Change != "new" {
			t.Errorf("not explained: %+v", d)
		}
		kinds = append(kinds, d.Kind+" "+d.Change)
	}
	for _, want := range []string{"worker new", "application ended", "executor ended"} {
		if !slices.Contains(kinds, want) {
			t.Errorf("no difference %q in %q", want, kinds)
		}
	}
}

// TestDrillsAreOffUnlessEnabled: no route answers, and the hooks are not set.
func TestDrillsAreOffUnlessEnabled(t *testing.T) {
	t.Parallel()
	c := start(t, 1, nil)
	m := c.masters[0]
	for _, path := range []string{"claim", "release", webui.DrillExit, webui.DrillRestart, webui.DrillPause, webui.DrillPartition, webui.DrillSlowDisk, webui.DrillFullDisk, webui.DrillEnd} {
		if status, answer, _ := m.post("/v1/drill/"+path, "application/json", "{}"); status != http.StatusNotFound {
			t.Errorf("%s: %d %s", path, status, answer)
		}
	}
	for _, path := range []string{"/v1/drill", "/v1/drill/state", "/v1/drill/log"} {
		if status, answer := m.get(path); status != http.StatusNotFound {
			t.Errorf("%s: %d %s", path, status, answer)
		}
	}
	if m.server().drills != nil || m.server().nodeConfig().Net.Valve != nil || m.server().nodeConfig().Disk.WriteFault != nil || m.server().nodeConfig().Disk.BeforeSync != nil {
		t.Error("hooks are set although drills are off")
	}
}

// claimAll claims every master for a test.
func (c *cluster) claimAll(id string, ttl time.Duration) {
	c.t.Helper()
	for _, m := range c.masters {
		var st webui.DrillStatus
		m.operate(c.t, "/v1/drill/claim", webui.DrillClaimRequest{Drill: id, By: "test", TTLMillis: ttl.Milliseconds()}, &st)
	}
}

// inject begins a fault.
func (m *member) inject(t testing.TB, req webui.DrillFaultRequest) webui.DrillStatus {
	t.Helper()
	var st webui.DrillStatus
	m.operate(t, "/v1/drill/"+req.Kind, req, &st)
	return st
}

func (m *member) lastFault() string {
	st := m.server().drills.DrillStatus()
	if st.Fault != nil || st.Last == nil {
		return ""
	}
	return st.Last.Kind + " " + st.Last.Ended
}

// TestAFaultEndsWhenItsDrillIsGone: nobody renews the claim, as when raftctl was killed.
func TestAFaultEndsWhenItsDrillIsGone(t *testing.T) {
	slow(t)
	t.Parallel()
	c := start(t, 3, enableDrills)
	for _, kind := range []string{webui.DrillPartition, webui.DrillSlowDisk, webui.DrillFullDisk, webui.DrillPause} {
		m := c.leader()
		eventually(t, "three masters in contact", func() bool { return m.server().backend.Brief().Quorum.Tolerance == 1 })
		c.claimAll(kind, time.Second)
		st := m.inject(t, webui.DrillFaultRequest{Kind: kind, Drill: kind, DurationMillis: 60_000, DelayMillis: 10})
		if st.Fault == nil || st.Fault.Kind != kind || st.Claim == nil {
			t.Fatalf("%s: %+v", kind, st)
		}
		eventually(t, kind+" ends", func() bool { return m.lastFault() == kind+" "+webui.DrillEndedAbandoned })
		c.leader()
		eventually(t, "the end of all claims", func() bool {
			for _, m := range c.masters {
				if m.server().drills.DrillStatus().Claim != nil {
					return false
				}
			}
			return true
		})
	}
	events, _ := c.masters[0].server().ring.Since(0, 1000)
	if !slices.ContainsFunc(events, func(e webui.Event) bool {
		return e.Kind == "drill" && strings.Contains(e.Message, "by test from local (127.")
	}) {
		t.Errorf("no event says who drilled: %+v", events)
	}
}

// TestAFaultEndsByItsDurationAndOnRequest.
func TestAFaultEndsByItsDurationAndOnRequest(t *testing.T) {
	slow(t)
	t.Parallel()
	c := start(t, 3, enableDrills)
	m := c.standbys()[0]
	c.claimAll("x", 20*time.Second)
	m.inject(t, webui.DrillFaultRequest{Kind: webui.DrillSlowDisk, Drill: "x", DurationMillis: 300, DelayMillis: 1})
	eventually(t, "the end by duration", func() bool { return m.lastFault() == "slow-disk duration" })
	m.inject(t, webui.DrillFaultRequest{Kind: webui.DrillFullDisk, Drill: "x", DurationMillis: 60_000})
	m.inject(t, webui.DrillFaultRequest{Kind: webui.DrillEnd, Drill: "x"})
	if got := m.lastFault(); got != "full-disk asked" {
		t.Errorf("after an end that was asked for: %q", got)
	}
	m.inject(t, webui.DrillFaultRequest{Kind: webui.DrillPartition, Drill: "x", DurationMillis: 60_000})
	var st webui.DrillStatus
	m.operate(t, "/v1/drill/release", webui.DrillReleaseRequest{Drill: "x"}, &st)
	if st.Claim != nil || st.Fault != nil || m.lastFault() != "partition asked" {
		t.Errorf("after the release: %+v", st)
	}
	// A renewal that was overtaken by the release claims nothing.
	if status, answer, _ := m.post("/v1/drill/claim", "application/json", `{"drill":"x","by":"test","ttl_millis":1000}`); status != http.StatusConflict || !strings.Contains(answer, "is over") {
		t.Errorf("a late renewal: %d %s", status, answer)
	}
}

// TestAMasterRefusesWhatADrillMustNotDo: each fence of the interface.
func TestAMasterRefusesWhatADrillMustNotDo(t *testing.T) {
	slow(t)
	t.Parallel()
	c := start(t, 3, enableDrills)
	m := c.standbys()[0]
	refused := func(why string, path string, req any, want string) {
		t.Helper()
		body, err := json.Marshal(req)
		if err != nil {
			t.Fatal(err)
		}
		if status, answer, _ := m.post("/v1/drill/"+path, "application/json", string(body)); status == http.StatusOK || !strings.Contains(answer, want) {
			t.Errorf("%s: %d %s, want %q", why, status, answer, want)
		}
	}
	fault := func(millis, delay int64, peers ...string) webui.DrillFaultRequest {
		return webui.DrillFaultRequest{Drill: "x", DurationMillis: millis, DelayMillis: delay, Peers: peers}
	}
	refused("without a claim", webui.DrillPause, fault(10, 0), "claims every master first")
	c.claimAll("x", 25*time.Second)
	refused("another's claim", "claim", webui.DrillClaimRequest{Drill: "y", By: "other", TTLMillis: 1000}, "another drill is going on: x by test")
	refused("another's release", "release", webui.DrillReleaseRequest{Drill: "y"}, "another drill")
	refused("a claim without end", "claim", webui.DrillClaimRequest{Drill: "x", TTLMillis: 1 << 40}, "ttl_millis")
	refused("a fault without end", webui.DrillPartition, fault(0, 0), "duration_millis")
	refused("a fault for a day", webui.DrillFullDisk, fault(86_400_000, 0), "duration_millis")
	refused("an endless sync", webui.DrillSlowDisk, fault(1000, 1<<40), "delay_millis")
	refused("a stranger", webui.DrillPartition, fault(1000, 0, "h:1"), "no other master")
	refused("an unknown fault", "melt", fault(1000, 0), "no such call")
	m.inject(t, webui.DrillFaultRequest{Kind: webui.DrillSlowDisk, Drill: "x", DurationMillis: 60_000, DelayMillis: 1})
	refused("a second fault", webui.DrillFullDisk, fault(1000, 0), "active here already")
	m.inject(t, webui.DrillFaultRequest{Kind: webui.DrillEnd, Drill: "x"})
	for _, o := range c.masters {
		if o != m && o != c.leader() {
			o.kill()
			break
		}
	}
	eventually(t, "two masters left", func() bool { return m.server().backend.Brief().Quorum.Tolerance == 0 })
	refused("no tolerance", webui.DrillExit, fault(0, 0), "would stop the cluster")
}
