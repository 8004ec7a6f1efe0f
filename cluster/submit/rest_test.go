package submit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"raftmaster/transport/rest"
)

// fakeBackend is a master behind the REST server of this project. A zero one leads.
type fakeBackend struct {
	mu        sync.Mutex
	standby   bool
	leader    string
	submitted []rest.Submission
	status    rest.DriverStatus
	err       error // of Submit, after the submission was taken
}

func (b *fakeBackend) away() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.standby {
		return &rest.NotAliveError{State: "STANDBY", Leader: b.leader}
	}
	return nil
}

func (b *fakeBackend) Submit(_ context.Context, s rest.Submission) (rest.Submitted, error) {
	if err := b.away(); err != nil {
		return rest.Submitted{}, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.submitted = append(b.submitted, s)
	return rest.Submitted{ID: "driver-1", Success: true, Message: "Driver successfully submitted as driver-1"}, b.err
}

func (b *fakeBackend) Kill(_ context.Context, id string) (rest.Killed, error) {
	return rest.Killed{Success: id == "driver-1", Message: "kill " + id}, b.away()
}

func (b *fakeBackend) KillAll(context.Context) (rest.Killed, error) {
	return rest.Killed{Success: true, Message: "all"}, b.away()
}

func (b *fakeBackend) Status(_ context.Context, id string) (rest.DriverStatus, error) {
	if err := b.away(); err != nil || id != "driver-1" {
		return rest.DriverStatus{}, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.status, nil
}
func (b *fakeBackend) Clear(context.Context) error { return b.away() }
func (b *fakeBackend) Ready(context.Context) error { return b.away() }

func (b *fakeBackend) set(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f()
}

// startREST serves a backend and gives its HOST:PORT.
func startREST(t *testing.T, b rest.Backend, clusterURL string) string {
	t.Helper()
	return serve(t, rest.NewHandler(rest.Options{Backend: b, Log: hclog.NewNullLogger(), SparkVersion: "4.3.0", ClusterURL: clusterURL}))
}

func serve(t *testing.T, h http.Handler) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// deadAddress is one that refuses.
func deadAddress(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := ln.Close(); err != nil {
		t.Fatal(err)
	}
	return ln.Addr().String()
}

func newREST(t *testing.T, cfg Config) Client {
	t.Helper()
	c, err := NewREST(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

var plainJob = Job{Resource: "http://h/j.jar", MainClass: "a.Main"}

// TestRESTFindsTheLeader: dead masters and standbys are passed over, in every order of the list.
func TestRESTFindsTheLeader(t *testing.T) {
	lead, stand := &fakeBackend{}, &fakeBackend{standby: true, leader: "The leader is spark://b:7077."}
	lead.status = rest.DriverStatus{Found: true, State: "RUNNING", WorkerID: "w", WorkerHostPort: "h:1"}
	leader, standby, dead := startREST(t, lead, "spark://m:7077"), startREST(t, stand, "spark://m:7077"), deadAddress(t)
	for i, list := range [][]string{{leader, standby, dead}, {dead, standby, leader}, {standby, leader}} {
		c := newREST(t, Config{Masters: list})
		s, err := c.Submit(t.Context(), plainJob)
		if err != nil || s.ID != "driver-1" || s.Master != leader {
			t.Fatalf("submit: %+v, %v", s, err)
		}
		st, err := c.Status(t.Context(), "driver-1")
		if want := (Status{ID: "driver-1", Found: true, State: "RUNNING", WorkerID: "w", WorkerAddress: "h:1", Master: leader}); err != nil || st != want {
			t.Errorf("status: %+v, %v", st, err)
		}
		if st, err = c.Status(t.Context(), "driver-2"); err != nil || st.Found {
			t.Errorf("status of nobody: %+v, %v", st, err)
		}
		if k, err := c.Kill(t.Context(), "driver-2"); err != nil || k.Accepted || k.Message != "kill driver-2" {
			t.Errorf("kill of nobody: %+v, %v", k, err)
		}
		if k, err := c.KillAll(t.Context()); err != nil || !k.Accepted {
			t.Errorf("kill all: %+v, %v", k, err)
		}
		if err := c.Clear(t.Context()); err != nil {
			t.Errorf("clear: %v", err)
		}
		if len(lead.submitted) != i+1 || len(stand.submitted) != 0 {
			t.Errorf("%d and %d submissions after %d", len(lead.submitted), len(stand.submitted), i+1)
		}
	}
	if got := lead.submitted[0].ClientSparkVersion; got != "4.3.0" {
		t.Errorf("clientSparkVersion %q is not the server's", got)
	}
}

func TestRESTWithoutALeader(t *testing.T) {
	stand := &fakeBackend{standby: true, leader: "The leader is spark://b:7077, its REST server is http://b:6066."}
	dead := deadAddress(t)
	c := newREST(t, Config{Masters: []string{dead, startREST(t, stand, "spark://m:7077")}, Patience: time.Second})
	_, err := c.Submit(t.Context(), plainJob)
	var none *NoLeaderError
	if !errors.As(err, &none) || !strings.Contains(err.Error(), "http://b:6066") || !strings.Contains(err.Error(), dead) {
		t.Errorf("got %v, want both answers", err)
	}
}

// TestRESTWaitsForALeader: a standby that takes over gets the submission.
func TestRESTWaitsForALeader(t *testing.T) {
	b := &fakeBackend{standby: true}
	c := newREST(t, Config{Masters: []string{startREST(t, b, "spark://m:7077")}})
	done := make(chan error, 1)
	go func() {
		_, err := c.Submit(t.Context(), plainJob)
		done <- err
	}()
	time.Sleep(2 * leaderPause)
	b.set(func() { b.standby = false })
	if err := <-done; err != nil || len(b.submitted) != 1 {
		t.Errorf("%v, %d submissions", err, len(b.submitted))
	}
}

// TestRESTUnknownOutcome: whatever is lost after the request was sent is never sent again.
func TestRESTUnknownOutcome(t *testing.T) {
	for name, answer := range map[string]http.HandlerFunc{
		"dropped": func(w http.ResponseWriter, _ *http.Request) { panic(http.ErrAbortHandler) },
		"late": func(_ http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body) // the end of the connection is only seen behind the body
			<-r.Context().Done()
		},
		"proxy": func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "bad gateway", http.StatusBadGateway) },
		"cut": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "500")
			fmt.Fprint(w, `{"action"`)
		},
		"html": func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") },
	} {
		t.Run(name, func(t *testing.T) {
			var creates atomic.Int32
			m := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodPost {
					creates.Add(1)
					answer(w, r)
					return
				}
				fmt.Fprint(w, `{"action":"SubmissionStatusResponse","success":false,"serverSparkVersion":"3.5.9"}`)
			}))
			c := newREST(t, Config{Masters: []string{m, m}, AskTimeout: 300 * time.Millisecond, Patience: time.Second})
			_, err := c.Submit(t.Context(), plainJob)
			var unknown *UnknownError
			if !errors.As(err, &unknown) || !strings.Contains(unknown.Look, "a.Main") || creates.Load() != 1 {
				t.Errorf("%d requests, %v", creates.Load(), err)
			}
		})
	}
	b := &fakeBackend{err: errors.New("lost leadership")}
	c := newREST(t, Config{Masters: []string{startREST(t, b, "spark://m:7077")}, Patience: time.Second})
	_, err := c.Submit(t.Context(), plainJob)
	var unknown *UnknownError
	if !errors.As(err, &unknown) || len(b.submitted) != 1 {
		t.Errorf("raftmaster's own answer: %d requests, %v", len(b.submitted), err)
	}
}

func TestRESTRefusals(t *testing.T) {
	status := func(w http.ResponseWriter) {
		fmt.Fprint(w, `{"action":"SubmissionStatusResponse","success":false,"serverSparkVersion":"3.5.9"}`)
	}
	m := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodGet:
			status(w)
		case strings.HasSuffix(r.URL.Path, "/create"):
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, `{"action":"ErrorResponse","message":"Malformed request: because","serverSparkVersion":"3.5.9"}`)
		default: // a 3.5.9 server knows no other routes
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, `{"action":"ErrorResponse","message":"Missing an action: please specify one of /create","serverSparkVersion":"3.5.9"}`)
		}
	}))
	c := newREST(t, Config{Masters: []string{m}})
	var refused *RefusedError
	if _, err := c.Submit(t.Context(), plainJob); !errors.As(err, &refused) || !strings.Contains(err.Error(), "because") {
		t.Errorf("submit: %v", err)
	}
	if _, err := c.KillAll(t.Context()); !errors.Is(err, ErrUnsupported) {
		t.Errorf("kill all: %v", err)
	}
	if err := c.Clear(t.Context()); !errors.Is(err, ErrUnsupported) {
		t.Errorf("clear: %v", err)
	}
}

// TestRESTWrongPort: a web UI, and a cluster port, in place of the gateway.
func TestRESTWrongPort(t *testing.T) {
	for name, h := range map[string]http.HandlerFunc{
		"page":     func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>Spark Master</html>") },
		"redirect": func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/", http.StatusFound) },
		"nothing":  func(w http.ResponseWriter, r *http.Request) { http.NotFound(w, r) },
		"protocol": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(468)
			fmt.Fprint(w, `{"action":"ErrorResponse","message":"Unknown protocol version","highestProtocolVersion":"v9"}`)
		},
	} {
		c := newREST(t, Config{Masters: []string{serve(t, h)}})
		_, err := c.Submit(t.Context(), plainJob)
		var wrong *GatewayError
		if !errors.As(err, &wrong) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestBadIDs(t *testing.T) {
	c := newREST(t, Config{Masters: []string{deadAddress(t)}})
	for _, id := range []string{"", "../x", "a b", strings.Repeat("x", 300)} {
		var invalid *InvalidError
		if _, err := c.Status(t.Context(), id); !errors.As(err, &invalid) {
			t.Errorf("%q: %v", id, err)
		}
		if _, err := c.Kill(t.Context(), id); !errors.As(err, &invalid) {
			t.Errorf("%q: %v", id, err)
		}
	}
}
