package webui

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"raftmaster/transport/internal/uibase"
)

// Everything on the page that a stranger chooses is text, and never markup or a script address.
func TestPageEscapesWhatStrangersSay(t *testing.T) {
	const evil = `<script>alert(1)</script><img src=x onerror="alert(2)">'"&`
	st := leaderStatus()
	st.Version, st.Alarms, st.NodeID = evil, []string{evil}, evil
	st.LeaderChanges = []LeaderChange{{Term: 1, Address: evil, Reason: evil}}
	st.Quorum.Peers[1].WebURL, st.Quorum.Peers[1].Problem = "javascript:alert(3)", evil
	st.TakeOver = &TakeOver{Awaited: []Awaited{{Kind: evil, ID: evil, Address: evil}}}
	st.Counts.AppsByState = map[string]int{evil: 1}
	st.Counts.Executors = 1
	f := newFixture(st)
	f.opts.Title = evil
	f.state.cluster = Cluster{
		Workers: []Worker{{ID: evil, Host: evil, State: StateAlive, WebURL: "javascript:alert(4)", Note: evil, SparkVersion: evil, Resources: []Resource{{Name: evil}}}},
		Apps: []App{{ID: evil, Name: evil, User: evil, State: evil, Active: true, UIURL: "javascript:alert(5)", WhyWaiting: evil},
			{ID: evil, Name: evil, State: evil, EndReason: evil}},
	}
	f.state.executors = []Executor{{AppID: evil, WorkerID: evil, State: evil}}
	f.events.add(Event{Kind: evil, Subject: evil, Message: evil, Reason: evil})
	body := f.get("/").Body.String()
	for _, bad := range []string{"<script", "<img", "javascript:"} {
		if strings.Contains(body, bad) {
			i := strings.Index(body, bad)
			t.Errorf("the page contains %q: ...%s...", bad, body[max(0, i-80):min(len(body), i+80)])
		}
	}
	// A quote must not end an attribute: every class attribute stays one.
	if m := regexp.MustCompile(`class="[^"]*onerror=&#34;`).FindString(body); m == "" {
		t.Error("the state of an application does not appear escaped in its class attribute")
	}
	mustContain(t, body, "&lt;script&gt;alert(1)&lt;/script&gt;")
}

func TestPageOfTheLeader(t *testing.T) {
	st := leaderStatus()
	st.TakeOver = &TakeOver{Term: 7, Awaited: []Awaited{{Kind: "worker", ID: "worker-x", Address: "10.0.0.9:1", DeadlineMillis: 1796040574228, Attempts: 3}}}
	st.LeaderChanges = []LeaderChange{{Term: 6, Address: "10.0.0.2:7077", TimeMillis: 1796040500000, Reason: "first election"},
		{Term: 7, Address: "10.0.0.1:7077", TimeMillis: 1796040510000, Reason: "10.0.0.2:7077 closed its connection"}}
	f := newFixture(st)
	f.state.cluster = Cluster{Workers: []Worker{{ID: "worker-1", State: StateAlive, WebURL: "http://w1:8081", MemoryMB: 2048}},
		Apps: []App{{ID: "app-1", Name: "Pi", Active: true, State: "WAITING", WhyWaiting: "no worker has 4 free cores"}, {ID: "app-0", Name: "Old", State: "FINISHED"}}}
	body := f.get("/").Body.String()
	mustContain(t, body, "<title>Spark Master at spark://10.0.0.1:7077</title>", "ALIVE", "term 7", "3 of 3 voters in contact, 2 needed", "1 more may be lost",
		"worker-x", "2026/11/30", `href="http://w1:8081"`, "waiting: no worker has 4 free cores", "app-0", "10.0.0.2:7077 closed its connection",
		`href="http://10.0.0.3:8080"`, "2.0 GiB")
	if newest, older := strings.Index(body, "in term 7"), strings.Index(body, "in term 6"); newest > older {
		t.Error("leader changes are not newest first")
	}
	if strings.Contains(body, "This master is a standby") {
		t.Error("the leader says that it is a standby")
	}
}

func TestPageOfAStandby(t *testing.T) {
	f := newFixture(standbyStatus())
	f.state.cluster = Cluster{Workers: []Worker{{ID: "worker-1", State: StateAlive}}}
	body := f.get("/").Body.String()
	mustContain(t, body, "STANDBY", "This master is a standby", `The leader is <a href="http://10.0.0.1:8080">10.0.0.1:7077</a>`, "worker-1")

	f.state.status.Leader = nil
	mustContain(t, f.get("/").Body.String(), "No leader is known at the moment", "Not ready")
}

// The embedded style carries the nonce of its answer: without it a browser would show an unstyled page.
func TestPageNonce(t *testing.T) {
	w := newFixture(leaderStatus()).get("/")
	m := regexp.MustCompile(`<style nonce="([0-9a-f]+)">`).FindStringSubmatch(w.Body.String())
	if m == nil {
		t.Fatal("no nonce on the style")
	}
	mustContain(t, w.Header().Get("Content-Security-Policy"), "style-src 'self' 'nonce-"+m[1]+"'")
	if strings.Contains(w.Body.String(), ` style="`) {
		t.Error("a style attribute would be blocked by the policy")
	}
}

// Ten thousand workers and a hundred thousand executors must not make an endless page.
func TestPageIsBounded(t *testing.T) {
	f := newFixture(leaderStatus())
	for i := range 10_000 {
		f.state.cluster.Workers = append(f.state.cluster.Workers, Worker{ID: fmt.Sprintf("worker-%d", i), State: StateAlive})
	}
	f.state.status.Counts.Executors = 100_000
	body := f.get("/").Body.String()
	if rows := strings.Count(body, "<td>worker-"); rows != uibase.PageRows {
		t.Errorf("%d rows of workers, want %d", rows, uibase.PageRows)
	}
	mustContain(t, body, "and 9500 more", "too many for this page")
}
