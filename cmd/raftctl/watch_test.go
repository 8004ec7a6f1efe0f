package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"raftmaster/transport/webui"
)

// follower runs raftctl until stop, which gives its exit code, and its lines as they come.
type follower struct {
	lines chan string
	stop  func() int
	// notes is what it wrote to standard error; to be read after stop.
	notes *bytes.Buffer
}

func follow(t *testing.T, args ...string) *follower {
	t.Helper()
	pr, pw := io.Pipe()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan int, 1)
	f := &follower{lines: make(chan string, 10_000), notes: &bytes.Buffer{}}
	go func() {
		code := run(ctx, terminal{in: strings.NewReader(""), out: pw, err: f.notes, lookupEnv: func(string) (string, bool) { return "", false }}, args)
		_ = pw.Close() // of a pipe in memory
		done <- code
	}()
	go func() {
		defer close(f.lines)
		in := bufio.NewScanner(pr)
		in.Buffer(nil, maxEventLine)
		for in.Scan() {
			f.lines <- in.Text()
		}
	}()
	f.stop = sync.OnceValue(func() int {
		cancel()
		select {
		case code := <-done:
			return code
		case <-time.After(patience):
			t.Error("the interrupt did not end it")
			return -1
		}
	})
	t.Cleanup(func() { f.stop() })
	return f
}

// next gives the next line as JSON.
func next[T any](t *testing.T, f *follower) T {
	t.Helper()
	var v T
	select {
	case line, ok := <-f.lines:
		if !ok {
			t.Fatalf("it ended: %s", f.notes)
		}
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
	case <-time.After(patience):
		t.Fatal("no further line")
	}
	return v
}

// TestStatusWatch goes on while masters go away, all of them included, and while others come.
func TestStatusWatch(t *testing.T) {
	ms := newCluster(t)
	// One endpoint is enough: the others are found through it.
	f := follow(t, "--endpoints", ms[1].url, "--timeout", "5s", "-o", "json", "status", "--watch", "100ms")
	for {
		r := next[statusRound](t, f)
		if r.Leader == nil || r.Leader.Address != "a:7077" || r.ExitCode != exitOK || r.Error != "" {
			if len(r.Statuses) < 3 { // the first round knows one master only
				continue
			}
			t.Fatalf("%+v", r)
		}
		if len(r.Statuses) == 3 && len(r.Endpoints) == 3 && r.TimeMillis > 0 {
			break
		}
	}
	for i, gone := range []*fakeMaster{ms[0], ms[1], ms[2]} {
		gone.close()
		for {
			r := next[statusRound](t, f)
			if len(r.Statuses) > 2-i {
				continue
			}
			if len(r.Statuses) != 2-i || r.ExitCode == exitOK || r.Error == "" || len(r.Endpoints) != 3 || r.Statuses == nil {
				t.Fatalf("after %d masters went away: %+v", i+1, r)
			}
			break
		}
	}
	if code := f.stop(); code != exitOK {
		t.Errorf("exit code %d after an interrupt", code)
	}
}

func TestStatusWatchTables(t *testing.T) {
	ms := newCluster(t)
	e := endpoints(ms)
	r := ctl(t, nil, "--endpoints", e, "status", "--watch=100ms", "--count", "2")
	check(t, r, exitOK, "a:7077", "tolerance left 1")
	if n := strings.Count(r.out, "raftctl status --watch"); n != 2 || strings.Contains(r.out, "\x1b") {
		t.Errorf("%d rounds:\n%q", n, r.out)
	}
	term := terminal{size: func() (int, int) { return 40, 8 }}
	r = ctlOn(t, term, nil, "--endpoints", e, "status", "--watch", "--count", "1")
	check(t, r, exitOK)
	page, rest, ok := strings.Cut(r.out, screenClose)
	if !ok || !strings.HasPrefix(page, screenOpen+screenHome) || strings.Count(page, "\r\n") > 7 || !strings.Contains(rest, "tolerance left 1") {
		t.Errorf("the screen got %q", r.out)
	}
	for _, line := range strings.Split(strings.TrimPrefix(page, screenOpen+screenHome), "\r\n") {
		if n := len(strings.ReplaceAll(strings.ReplaceAll(line, eraseLine, ""), eraseBelow, "")); n > 40 {
			t.Errorf("a line of %d columns: %q", n, line)
		}
	}
	loseLeader(ms)
	check(t, ctl(t, nil, "--endpoints", e, "status", "--watch", "--count", "1"), exitNoLeader, "no leader")
	check(t, ctl(t, nil, "--endpoints", deadEndpoint(t), "status", "--watch", "--count", "1"), exitError, "none of the masters answered")
	for _, args := range [][]string{{"--watch", "x"}, {"--watch=1ms"}, {"--count", "1"}, {"--watch", "1s", "2s"}, {"1s"}, {"--watch", "--count", "-1"}} {
		check(t, ctl(t, nil, append([]string{"--endpoints", e, "status"}, args...)...), exitUsage)
	}
}

func TestCut(t *testing.T) {
	for _, c := range []struct {
		in   string
		cols int
		want string
	}{
		{"abc", 5, "abc"}, {"abcdef", 3, "abc"}, {"日本語", 5, "日本"}, {bold + "abcdef" + plain, 3, bold + "abc" + plain},
		{bold + "ab" + plain + "cdef", 3, bold + "ab" + plain + "c"}, {"", 3, ""}, {"é", 1, "é"}, {"x\x1b", 9, "x"},
	} {
		if got := cut(c.in, c.cols); got != c.want {
			t.Errorf("%q cut to %d is %q, want %q", c.in, c.cols, got, c.want)
		}
	}
}

// TestEventsFollowOnce: two endpoints of one master, a master without an endpoint, a history of many pages.
func TestEventsFollowOnce(t *testing.T) {
	ms := newCluster(t)
	const many = 2500 // an answer holds 1000
	for i := range many {
		ms[1].events = append(ms[1].events, webui.Event{Seq: uint64(i + 1), TimeMillis: int64(1000 + i), Kind: "worker", Node: "b:7077"})
	}
	ms[2].events = []webui.Event{{Seq: 1, TimeMillis: 1, Kind: "leader", Node: "c:7077", Reason: "because"}}
	ms[0].status.BootID, ms[1].status.BootID, ms[2].status.BootID = "boot-a", "boot-b", "boot-c"
	localhost := strings.Replace(ms[1].url, "127.0.0.1", "localhost", 1)
	f := follow(t, "--endpoints", ms[1].url+","+localhost, "-o", "json", "events", "--follow")
	if e := next[webui.Event](t, f); e.Node != "c:7077" || e.Reason != "because" {
		t.Errorf("the oldest event is not the first: %+v", e)
	}
	for i := range many {
		if e := next[webui.Event](t, f); e.Node != "b:7077" || e.Seq != uint64(i+1) {
			t.Fatalf("event %d is %+v", i+1, e)
		}
	}
	if code := f.stop(); code != exitOK {
		t.Errorf("exit code %d", code)
	}
	for line := range f.lines {
		t.Errorf("one too many: %s", line)
	}
	r := ctl(t, nil, "--endpoints", ms[1].url, "-o", "json", "events")
	var v eventsResult
	if err := json.Unmarshal([]byte(r.out), &v); err != nil || len(v.Events) != many {
		t.Errorf("%d events of %d (%v)", len(v.Events), many, err)
	}
}

// A feed knows what it has printed of which process, and says what is lost.
func TestFeed(t *testing.T) {
	var out, notes bytes.Buffer
	f := &feed{a: &app{term: terminal{out: &out, err: &notes}, print: printer{json: true}}, seen: map[string]uint64{}}
	f.take("one", webui.Event{Seq: 5, Message: "five"})
	f.take("one", webui.Event{Seq: 5, Message: "five"})
	f.take("one", webui.Event{Seq: 6, Message: "six"})
	f.take("two", webui.Event{Seq: 1, Message: "first of the next process"})
	f.take("one", webui.Event{Seq: 10, Message: "ten", Node: "a:7077"})
	if n := strings.Count(out.String(), "\n"); n != 4 || strings.Count(out.String(), "five") != 1 {
		t.Errorf("%d lines:\n%s", n, out.String())
	}
	if want := "3 events of a:7077 are missing here"; strings.Count(notes.String(), "\n") != 1 || !strings.Contains(notes.String(), want) {
		t.Errorf("notes: %s", notes.String())
	}
}

// TestEventsFollowOverLeaderChange kills the leader of real masters, of which one alone is named: every event of every
// process comes once and in order, the new leader's with the reason, and those of a master that is started again.
func TestEventsFollowOverLeaderChange(t *testing.T) {
	if testing.Short() {
		t.Skip("LEFT OUT under -short: this test starts three masters")
	}
	c := startMasters(t, 3)
	leader, err := c.leader()
	if err != nil {
		t.Fatal(err)
	}
	named := c.cfgs[(leader+1)%3]
	f := follow(t, "--endpoints", "http://"+named.WebUIHost+":27080", "-o", "json", "events", "--follow")
	old := c.cfgs[leader].Advertise().String()
	seen := map[string][]uint64{}
	await := func(what string, want func(webui.Event) bool) {
		t.Helper()
		for {
			e := next[webui.Event](t, f)
			if list := seen[e.Node]; len(list) > 0 && e.Seq != list[len(list)-1]+1 && e.Seq != 1 {
				t.Errorf("event %d of %s follows %d", e.Seq, e.Node, list[len(list)-1])
			}
			seen[e.Node] = append(seen[e.Node], e.Seq)
			if want(e) {
				return
			}
		}
	}
	await("the first leader", func(e webui.Event) bool {
		return e.Kind == "leader" && e.Node == old && strings.Contains(e.Message, "took over")
	})
	c.kill(leader)
	await("the loss of the leader", func(e webui.Event) bool { return e.Kind == "peer-lost" && e.Node != old })
	await("the next leader", func(e webui.Event) bool {
		return e.Kind == "leader" && e.Node != old && strings.Contains(e.Message, "took over in term") && e.Reason != ""
	})
	c.start(leader)
	if code := c.ctl("log-level", "debug", "--node", old).code; code != exitOK {
		t.Fatalf("log-level gives %d", code)
	}
	await("what an operator did at the new process", func(e webui.Event) bool {
		return e.Kind == "operator" && e.Node == old && e.Actor == "local" && e.Subject == "log-level"
	})
	if code := f.stop(); code != exitOK {
		t.Errorf("exit code %d", code)
	}
	if strings.Contains(f.notes.String(), "are missing") {
		t.Errorf("notes: %s", f.notes)
	}
}
