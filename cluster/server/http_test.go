package server

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"raftmaster/transport/sparkmsg"
	"raftmaster/transport/webui"
)

var web = &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{Proxy: nil, DisableKeepAlives: true}}

// get asks a master's web port; status 0 means that it did not answer.
func (m *member) get(path string) (status int, body string) {
	resp, err := web.Get(m.webURL() + path)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err.Error()
	}
	return resp.StatusCode, string(b)
}

// into reads a JSON answer.
func (m *member) into(t testing.TB, path string, out any) {
	t.Helper()
	status, body := m.get(path)
	if status != http.StatusOK {
		t.Fatalf("%s%s: %d %s", m.webURL(), path, status, body)
	}
	if err := json.Unmarshal([]byte(body), out); err != nil {
		t.Fatalf("%s%s: %v in %s", m.webURL(), path, err, body)
	}
}

// sparkState is the part of /json/ that the tests look at.
type sparkState struct {
	Status     string
	Workers    []struct{ ID, State string }
	CoresUsed  int
	ActiveApps []struct {
		ID, State string
		Cores     int
	}
}

func TestHTTPOfLeaderAndStandbys(t *testing.T) {
	t.Parallel()
	c := start(t, 3, steadyFailover)
	c.readyWorker(sparkmsg.FamilyB, 2)
	a := c.readyApp(sparkmsg.FamilyB, 2)
	c.runs(a, 2)
	c.settle()
	l := c.leader()
	for _, m := range c.masters {
		want, state := http.StatusServiceUnavailable, webui.StateStandby
		if m == l {
			want, state = http.StatusOK, webui.StateAlive
		}
		eventually(t, "/readyz of "+m.webURL(), func() bool { status, _ := m.get("/readyz"); return status == http.StatusOK })
		if status, body := m.get("/healthz"); status != http.StatusOK {
			t.Errorf("/healthz of a %s: %d %s", state, status, body)
		}
		if status, body := m.get("/leader"); status != want || !strings.Contains(body, l.webURL()) {
			t.Errorf("/leader of a %s: %d %s", state, status, body)
		}
		var s sparkState
		m.into(t, "/json/", &s)
		if s.Status != state {
			t.Errorf("/json/ of a %s: %+v", state, s)
		}
		if m == l && (len(s.Workers) != 1 || len(s.ActiveApps) != 1 || s.CoresUsed != 2 || s.ActiveApps[0].ID != a.ID()) {
			t.Errorf("/json/ of the leader: %+v", s)
		}
		if m != l && len(s.Workers)+len(s.ActiveApps)+s.CoresUsed != 0 {
			t.Errorf("/json/ of a standby: %+v", s)
		}
		if status, body := m.get("/metrics"); status != http.StatusOK || !strings.Contains(body, "raftmaster_term ") {
			t.Errorf("/metrics of a %s: %d %.200s", state, status, body)
		}
	}
	// raft's own metrics have one sink per process: that of the master started last.
	last := c.masters[2]
	for _, name := range []string{"raftmaster_raft_", "raftmaster_apply_duration_seconds_count", `raftmaster_connections{kind="internal"}`,
		`raftmaster_executors{state="RUNNING"} 2`, `raftmaster_workers{state="ALIVE"} 1`, "raftmaster_decode_errors_total"} {
		if _, body := last.get("/metrics"); !strings.Contains(body, name) {
			t.Errorf("/metrics does not have %s", name)
		}
	}
}

// A new leader says whom it awaits, and no more once all are back.
func TestTakeOverEnds(t *testing.T) {
	slow(t)
	t.Parallel()
	c := start(t, 3, nil)
	w := c.readyWorker(sparkmsg.FamilyE, 1)
	a := c.readyApp(sparkmsg.FamilyE, 1)
	c.runs(a, 1)
	w.Switches.NoList.Store(true)
	w.Switches.NoHeartbeat.Store(true)
	old := c.leader()
	old.kill()
	l := c.leader()
	eventuallyNil(t, "the silent worker is awaited", func() error {
		var st webui.Status
		l.into(t, "/v1/status", &st)
		if st.TakeOver == nil || len(st.TakeOver.Awaited) != 1 || st.TakeOver.Awaited[0].ID != w.ID() || st.TakeOver.Awaited[0].Kind != "worker" {
			return fmt.Errorf("take-over %+v", st.TakeOver)
		}
		if to := st.TakeOver; to.Term != st.Term || to.DeadlineMillis <= to.StartedMillis {
			return fmt.Errorf("take-over %+v in term %d", to, st.Term)
		}
		return nil
	})
	w.Switches.NoList.Store(false)
	w.Switches.NoHeartbeat.Store(false)
	eventually(t, "nobody is awaited", func() bool {
		var st webui.Status
		l.into(t, "/v1/status", &st)
		return st.TakeOver == nil
	})
	if st := w.Executors(); len(st) != 1 {
		t.Errorf("the worker runs %v", st)
	}
}

// watcher samples /leader of all masters until it is stopped (R20).
type watcher struct {
	stop chan struct{}
	wg   sync.WaitGroup

	mu      sync.Mutex
	newest  uint64            // the highest term in which somebody has said that it leads
	leaders map[uint64]string // who said so in which term
	wrong   []string
}

func watch(c *cluster) *watcher {
	w := &watcher{stop: make(chan struct{}), leaders: map[uint64]string{}}
	for _, m := range c.masters {
		w.wg.Go(func() {
			for {
				select {
				case <-w.stop:
					return
				case <-time.After(2 * time.Millisecond):
					w.sample(m)
				}
			}
		})
	}
	return w
}

// sample asks one master. Two that say that they lead are wrong in the same term, and in different ones when the older
// one still says so in an answer to a question that was asked after the newer one had spoken.
func (w *watcher) sample(m *member) {
	w.mu.Lock()
	before := w.newest
	w.mu.Unlock()
	status, body := m.get("/leader")
	if status != http.StatusOK {
		return
	}
	var a webui.LeaderAnswer
	err := json.Unmarshal([]byte(body), &a)
	w.mu.Lock()
	defer w.mu.Unlock()
	switch other, ok := w.leaders[a.Term]; {
	case err != nil || !a.IsLeader || a.State != webui.StateAlive:
		w.wrong = append(w.wrong, fmt.Sprintf("200 with %s (%v)", body, err))
	case ok && other != a.Node:
		w.wrong = append(w.wrong, fmt.Sprintf("%s and %s lead in term %d", other, a.Node, a.Term))
	case a.Term < before:
		w.wrong = append(w.wrong, fmt.Sprintf("%s leads in term %d although term %d has a leader", a.Node, a.Term, before))
	}
	w.leaders[a.Term], w.newest = a.Node, max(w.newest, a.Term)
}

// end stops the sampling and returns how many terms had a leader.
func (w *watcher) end(t testing.TB) int {
	t.Helper()
	close(w.stop)
	w.wg.Wait()
	for _, s := range w.wrong {
		t.Error(s)
	}
	return len(w.leaders)
}

// R20: at no moment do two masters answer that they lead, whether the leader dies, stops, or hands over while it goes on.
func TestOneLeaderAtAnyMoment(t *testing.T) {
	t.Parallel()
	c := start(t, 3, nil)
	w := watch(c)
	seen := func() {
		t.Helper()
		eventually(t, "/leader answers 200 at the leader", func() bool {
			status, _ := c.leader().get("/leader")
			return status == http.StatusOK
		})
	}
	rounds := 4
	if testing.Short() {
		rounds = 1
	}
	for range rounds {
		seen()
		old := c.leader()
		old.kill()
		seen()
		old.start()
		old = c.leader()
		eventuallyNil(t, "a hand-over", func() error {
			if c.leader() != old {
				return nil
			}
			_, err := old.server().node.TransferLeadership(t.Context(), "")
			return err
		})
		seen()
		old = c.leader()
		old.stop()
		seen()
		old.start()
	}
	if n := w.end(t); n < 2*rounds {
		t.Errorf("only %d terms with a leader were seen", n)
	}
}
