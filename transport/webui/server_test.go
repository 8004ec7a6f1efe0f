package webui

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
)

func TestWalkPort(t *testing.T) {
	for _, c := range []struct{ port, offset, want int }{{8080, 0, 8080}, {8080, 16, 8096}, {65535, 0, 65535}, {65535, 1, 1024}, {65530, 10, 1028}, {80, 3, 83}} {
		if got := walkPort(c.port, c.offset); got != c.want {
			t.Errorf("walkPort(%d, %d) = %d, want %d", c.port, c.offset, got, c.want)
		}
	}
}

// A busy UI port makes the UI take the next one, up to spark.port.maxRetries.
func TestListenWalks(t *testing.T) {
	ctx := context.Background()
	busy, err := Listen(ctx, "MasterUI", "127.0.0.1", 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer closeListener(t, busy)
	port := busy.Addr().(*net.TCPAddr).Port
	next, err := Listen(ctx, "MasterUI", "127.0.0.1", port, 16)
	if err != nil {
		t.Fatal(err)
	}
	defer closeListener(t, next)
	if got := next.Addr().(*net.TCPAddr).Port; got == port {
		t.Errorf("port %d twice", got)
	}
	if _, err := Listen(ctx, "MasterUI", "127.0.0.1", port, 0); !errors.Is(err, syscall.EADDRINUSE) || !strings.Contains(err.Error(), "spark.port.maxRetries") {
		t.Errorf("without retries: %v", err)
	}
	if ln, err := Listen(ctx, "MasterUI", "192.0.2.1", 8080, 16); err == nil {
		closeListener(t, ln)
		t.Error("listening on an address that is not ours succeeded")
	} else if strings.Contains(err.Error(), "retries") || strings.Contains(err.Error(), "no free port") || !strings.Contains(err.Error(), "SPARK_LOCAL_IP") {
		t.Errorf("an address that is not ours was tried on every port, or what to correct is not said: %v", err)
	}
}

func closeListener(t *testing.T, ln net.Listener) {
	t.Helper()
	if err := ln.Close(); err != nil {
		t.Error(err)
	}
}

func startServer(t *testing.T, f *fixture) (*Server, string) {
	t.Helper()
	ln, err := Listen(context.Background(), "MasterUI", "127.0.0.1", 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	s := Start(ln, NewHandler(f.opts), hclog.NewNullLogger())
	return s, "http://" + s.Addr().String()
}

// TestFollow reads a stream while events happen, and Shutdown ends it.
func TestFollow(t *testing.T) {
	f := newFixture(leaderStatus())
	f.events.add(Event{Kind: "start", Message: "first"})
	s, url := startServer(t, f)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get(url + "/v1/events?follow")
	if err != nil {
		t.Fatal(err)
	}
	if got := resp.Header.Get("Content-Type"); got != "application/x-ndjson;charset=utf-8" {
		t.Error(got)
	}
	lines := bufio.NewScanner(resp.Body)
	read := func() Event {
		t.Helper()
		for lines.Scan() {
			if len(lines.Bytes()) == 0 {
				continue
			}
			var e Event
			if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
				t.Fatal(err)
			}
			return e
		}
		t.Fatalf("the stream ended: %v", lines.Err())
		return Event{}
	}
	if e := read(); e.Message != "first" || e.Seq != 1 {
		t.Errorf("%+v", e)
	}
	f.events.add(Event{Kind: "leader", Message: "second"})
	if e := read(); e.Message != "second" || e.Seq != 2 {
		t.Errorf("%+v", e)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := s.Shutdown(ctx); err != nil {
		t.Errorf("a followed stream held up the shutdown: %v", err)
	}
	for lines.Scan() {
		if len(lines.Bytes()) > 0 {
			t.Errorf("after the shutdown: %s", lines.Text())
		}
	}
	if err := resp.Body.Close(); err != nil {
		t.Error(err)
	}
}

func TestEventsAfterAndLimit(t *testing.T) {
	f := newFixture(leaderStatus())
	for range 5 {
		f.events.add(Event{Kind: "worker"})
	}
	var a EventsAnswer
	if err := json.Unmarshal(f.get("/v1/events?after=2&limit=2").Body.Bytes(), &a); err != nil {
		t.Fatal(err)
	}
	if len(a.Events) != 2 || a.Events[0].Seq != 3 || a.Node != "10.0.0.1:7077" {
		t.Errorf("%+v", a)
	}
	for _, q := range []string{"after=x", "after=-1", "limit=many"} {
		if w := f.get("/v1/events?" + q); w.Code != http.StatusBadRequest {
			t.Errorf("%s: %d", q, w.Code)
		}
	}
}

func TestFollowersAreBounded(t *testing.T) {
	f := newFixture(leaderStatus())
	h := NewHandler(f.opts)
	for range maxFollowers {
		h.followers <- struct{}{}
	}
	ln, err := Listen(context.Background(), "MasterUI", "127.0.0.1", 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	s := Start(ln, h, hclog.NewNullLogger())
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get("http://" + s.Addr().String() + "/v1/events?follow")
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("one follower too many got %d", resp.StatusCode)
	}
	if err := resp.Body.Close(); err != nil {
		t.Error(err)
	}
	if err := s.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
}

// Headers beyond the limit are refused, not buffered.
func TestHeaderLimit(t *testing.T) {
	s, url := startServer(t, newFixture(leaderStatus()))
	req, err := http.NewRequest(http.MethodGet, url+"/healthz", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Filler", strings.Repeat("x", 4*maxHeaderBytes))
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err == nil {
		if resp.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
			t.Errorf("status %d", resp.StatusCode)
		}
		if err := resp.Body.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := s.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
}

// A followed stream must outlive the time-out for reading a request.
func TestFollowOutlivesReadTimeout(t *testing.T) {
	f := newFixture(leaderStatus())
	ln, err := Listen(context.Background(), "MasterUI", "127.0.0.1", 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	const short = 50 * time.Millisecond
	server := newHTTPServer(NewHandler(f.opts), hclog.NewNullLogger())
	server.ReadTimeout = short
	s := start(ln, server, hclog.NewNullLogger())
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Get("http://" + s.Addr().String() + "/v1/events?follow")
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(4 * short) // what is tested is that nothing happens in this time
	f.events.add(Event{Message: "late"})
	line, err := bufio.NewReader(resp.Body).ReadString('\n')
	if err != nil || !strings.Contains(line, "late") {
		t.Errorf("%q, %v", line, err)
	}
	if err := s.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
	if err := resp.Body.Close(); err != nil {
		t.Error(err)
	}
}
