package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"raftmaster/transport/webui"
)

// topAnswers is a round of a healthy cluster of one process.
func topAnswers(at time.Time, boot string) topData {
	st := webui.Status{Address: "a:7077", State: webui.StateAlive, Role: webui.RoleLeader, LeaseValid: true, Term: 7, BootID: boot,
		Quorum: webui.Quorum{Voters: 3, Needed: 2, Reachable: 3, Tolerance: 1}, Counts: webui.Counts{CoresUsed: 3, Cores: 12, WorkersByState: map[string]int{"ALIVE": 3}}}
	now := at.UnixMilli()
	return topData{at: at, boot: boot, s: survey{answers: []answer[webui.Status]{{endpoint: "http://a", value: st}, {endpoint: "http://b", err: errors.New("refused")}}},
		workers: []webui.Worker{{ID: "worker-b", State: "ALIVE", Cores: 4, CoresUsed: 1, Host: "hb", LastHeartbeatMillis: now - 5000},
			{ID: "worker-a", State: "DEAD", Cores: 4, Host: "ha"}, {ID: "worker-c", State: "ALIVE", Cores: 16, CoresUsed: 10, Host: "hc", Note: "evil\x1b[2J", LastHeartbeatMillis: now - 100}},
		apps:     []webui.App{{ID: "app-1", Name: "Pi", State: "RUNNING", StartMillis: now - 60_000}},
		drivers:  []webui.Driver{{ID: "driver-1", State: "RUNNING", MainClass: "org.x.Main"}},
		counters: map[string]float64{"RegisterWorker": 10, "PlaceExecutors": 5}}
}

func press(m *topModel, keys ...string) {
	for _, k := range keys {
		m.key(k)
	}
}

// shows tells which of the words a page has, in their order on it.
func shows(m *topModel, words ...string) string {
	page := strings.Join(m.page(), "\n")
	type at struct {
		i int
		w string
	}
	var found []at
	for _, w := range words {
		if i := strings.LastIndex(page, w); i >= 0 {
			found = append(found, at{i, w})
		}
	}
	for i := range found {
		for j := i + 1; j < len(found); j++ {
			if found[j].i < found[i].i {
				found[i], found[j] = found[j], found[i]
			}
		}
	}
	var out []string
	for _, f := range found {
		out = append(out, f.w)
	}
	return strings.Join(out, " ")
}

func TestTopModel(t *testing.T) {
	m := newTopModel(2 * time.Second)
	m.cols, m.rows = 200, 40
	at := time.UnixMilli(1_796_000_000_000)
	m.take(topAnswers(at, "one"))
	ids := []string{"worker-a", "worker-b", "worker-c"}
	for _, step := range []struct {
		keys string
		want string
	}{
		{"", "worker-a worker-b worker-c"},
		{"r", "worker-c worker-b worker-a"},
		{"r s s s", "worker-c worker-b worker-a"}, // by cores used: ten before nine, as numbers
		{"r", "worker-a worker-b worker-c"},
		{"/ h c enter", "worker-c"},
		{"/ backspace b enter", "worker-b"}, // goes on with what is there
		{"esc", "worker-a worker-b worker-c"},
		{"/ q q q q", ""}, // typed, and not quit
		{"esc", "worker-a worker-b worker-c"},
		{"tab", ""},
		{"left", "worker-a worker-b worker-c"},
	} {
		press(m, strings.Fields(step.keys)...)
		if got := shows(m, ids...); got != step.want {
			t.Errorf("after %q the page shows %q, want %q:\n%s", step.keys, got, step.want, strings.Join(m.page(), "\n"))
		}
	}
	press(m, "2")
	if got := shows(m, "Pi", "1m0s", "driver-1"); got != "1m0s Pi" {
		t.Errorf("applications: %q", got)
	}
	press(m, "d")
	if got := shows(m, "Pi", "org.x.Main"); got != "org.x.Main" {
		t.Errorf("drivers: %q", got)
	}
	press(m, "?")
	if got := shows(m, "workers, applications, drivers", "driver-1"); got != "workers, applications, drivers" {
		t.Errorf("help: %q", got)
	}
	press(m, "x", "+", "+")
	if m.help || m.interval != 8*time.Second || m.quit {
		t.Errorf("%+v", m)
	}
	press(m, "-", "-", "-", "-", "-", "-", " ")
	if m.interval != minTop || !m.paused || !strings.Contains(m.page()[0], "PAUSED") {
		t.Errorf("%v %v", m.interval, m.paused)
	}
	if page := strings.Join(m.page(), ""); strings.Contains(page, "\x1b[2J") {
		t.Error("a worker drives the terminal")
	}
	press(m, "q")
	if !m.quit {
		t.Error("q does not quit")
	}
}

// Rates are those between two rounds of one process; a failover, or a round without lists, has none.
func TestTopRates(t *testing.T) {
	m := newTopModel(2 * time.Second)
	at := time.UnixMilli(1_796_000_000_000)
	m.take(topAnswers(at, "one"))
	if m.rates != noRates {
		t.Errorf("the first round has %+v", m.rates)
	}
	next := topAnswers(at.Add(2*time.Second), "one")
	next.counters = map[string]float64{"RegisterWorker": 16, "RegisterApplication": 4, "PlaceExecutors": 6}
	m.take(next)
	if m.rates != (topRates{5, 0.5, 1}) { // two workers of three have beaten
		t.Errorf("%+v", m.rates)
	}
	lost := topData{at: at.Add(4 * time.Second), s: survey{answers: []answer[webui.Status]{{endpoint: "http://a", err: errors.New("gone")}}}, verdict: errors.New("none of the masters answered:\n  more")}
	m.take(lost)
	if m.rates != noRates || shows(m, "worker-a", "none of the masters answered", "more") != "none of the masters answered worker-a" {
		t.Errorf("without an answer: %+v\n%s", m.rates, strings.Join(m.page(), "\n"))
	}
	m.take(topAnswers(at.Add(6*time.Second), "two"))
	if m.rates != noRates {
		t.Errorf("over a failover: %+v", m.rates)
	}
	back := topAnswers(at.Add(8*time.Second), "two")
	back.counters["RegisterWorker"] = 2 // can only be a mistake
	m.take(back)
	if m.rates.registrations != 0 {
		t.Errorf("%+v", m.rates)
	}
}

// The page never has more lines than the terminal, whatever its size, and scrolling stops at both ends.
func TestTopFits(t *testing.T) {
	m := newTopModel(2 * time.Second)
	d := topAnswers(time.UnixMilli(1_796_000_000_000), "one")
	for i := range 500 {
		d.workers = append(d.workers, webui.Worker{ID: fmt.Sprintf("worker-x%04d", i), State: "ALIVE", Host: "日本"})
	}
	m.take(d)
	for _, size := range [][2]int{{80, 24}, {20, 3}, {1, 1}, {300, 100}} {
		m.cols, m.rows = size[0], size[1]
		for _, k := range []string{"home", "end", "up", "pgup", "pgdn", "pgdn", "end", "home", "down"} {
			press(m, k)
			page := m.page()
			if list := len(m.header()) + 2; len(page) > max(m.rows, list) {
				t.Errorf("%v: %d lines", size, len(page))
			}
			var out bytes.Buffer
			(&screen{out: &out, size: func() (int, int) { return m.cols, m.rows }}).draw(page)
			if n := strings.Count(out.String(), "\r\n"); n >= m.rows && n > 0 {
				t.Errorf("%v: %d lines were drawn", size, n+1)
			}
		}
	}
	m.cols, m.rows = 80, 24
	press(m, "end")
	if page := m.page(); !strings.Contains(page[len(page)-1], "worker-x0499") {
		t.Errorf("the end is %q", page[len(page)-1])
	}
}

func TestReadKeys(t *testing.T) {
	keys := make(chan string, 64)
	readKeys(context.Background(), strings.NewReader("q\x1b[A\x1b[6~\x1bOF\r\x7f\t\x03é\x01/\x1b[99;5u\x1b[Z"), keys)
	var got []string
	for k := range keys {
		got = append(got, k)
	}
	if want := "q up pgdn end enter backspace tab ctrl-c é / left"; strings.Join(got, " ") != want {
		t.Errorf("%q, want %q", strings.Join(got, " "), want)
	}
}

// lockedBuffer is a terminal's screen.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) waitFor(t *testing.T, text string) {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		b.mu.Lock()
		found := strings.Contains(b.b.String(), text)
		shown := b.b.String()
		if found {
			b.b.Reset()
		}
		b.mu.Unlock()
		if found {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("the screen never shows %q:\n%s", text, shown[max(0, len(shown)-3000):])
		}
	}
}

// TestTop runs it on a terminal of the test's own: the leader goes away, all go away, and the terminal is as before.
func TestTop(t *testing.T) {
	ms := newCluster(t)
	for i, m := range ms {
		m.cluster.Workers = []webui.Worker{{ID: fmt.Sprintf("worker-of-%d", i), State: "ALIVE"}}
	}
	var out lockedBuffer
	in, typed := io.Pipe()
	restored, size := false, make(chan [2]int, 1)
	size <- [2]int{100, 30}
	done := make(chan int, 1)
	go func() {
		done <- run(context.Background(), terminal{in: strings.NewReader(""), out: &out, err: io.Discard, lookupEnv: func(string) (string, bool) { return "", false },
			size: func() (int, int) { s := <-size; size <- s; return s[0], s[1] },
			keys: func() (io.Reader, func() error, error) { return in, func() error { restored = true; return nil }, nil },
		}, []string{"--endpoints", ms[1].url, "--timeout", "5s", "top", "--interval", "500ms"})
	}()
	out.waitFor(t, "worker-of-0") // the leader's, found through a standby
	ms[1].mu.Lock()
	ms[1].status.Leader = nil
	ms[1].mu.Unlock()
	ms[0].close()
	out.waitFor(t, "worker-of-1")
	ms[1].close()
	ms[2].close()
	out.waitFor(t, "none of the masters answered")
	<-size
	size <- [2]int{30, 5}
	if _, err := io.WriteString(typed, "3"); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(typed, "q"); err != nil {
		t.Fatal(err)
	}
	select {
	case code := <-done:
		if code != exitOK || !restored {
			t.Errorf("exit code %d, the terminal was restored: %v", code, restored)
		}
	case <-time.After(patience):
		t.Fatal("q did not end it")
	}
	if err := typed.Close(); err != nil {
		t.Fatal(err)
	}
	out.waitFor(t, screenClose)
}

func TestTopNeedsATerminal(t *testing.T) {
	ms := newCluster(t)
	check(t, ctl(t, nil, "--endpoints", ms[0].url, "top"), exitUsage, "needs a terminal", "status --watch")
	check(t, ctl(t, nil, "--endpoints", ms[0].url, "top", "--interval", "1ms"), exitUsage, "must be between")
	check(t, ctl(t, nil, "--endpoints", ms[0].url, "-o", "json", "top"), exitUsage, "needs a terminal")
}

func TestCommitCounts(t *testing.T) {
	got := commitCounts([]byte("# HELP x\nraftmaster_commit_duration_seconds_count{command=\"RegisterWorker\"} 12\nraftmaster_commit_duration_seconds_count{command=\"A\"} 1e+06\nraftmaster_commit_duration_seconds_sum{command=\"A\"} 3\nbroken"))
	if len(got) != 2 || got["RegisterWorker"] != 12 || got["A"] != 1e6 {
		t.Errorf("%v", got)
	}
}
