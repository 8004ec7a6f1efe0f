package rest

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/hashicorp/go-hclog"
)

const cluster = "spark://a:7077,b:7077,c:7077"

// fake is a Backend that answers what the test says, and remembers what it was asked.
type fake struct {
	mu        sync.Mutex
	submitted []Submission
	asked     []string

	submit Submitted
	killed Killed
	status DriverStatus
	err    error
}

func (f *fake) note(call string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = append(f.asked, call)
}

func (f *fake) Submit(_ context.Context, s Submission) (Submitted, error) {
	f.note("submit")
	f.submitted = append(f.submitted, s)
	return f.submit, f.err
}

func (f *fake) Kill(_ context.Context, id string) (Killed, error) {
	f.note("kill " + id)
	return f.killed, f.err
}

func (f *fake) KillAll(context.Context) (Killed, error) {
	f.note("killall")
	return f.killed, f.err
}

func (f *fake) Status(_ context.Context, id string) (DriverStatus, error) {
	f.note("status " + id)
	return f.status, f.err
}

func (f *fake) Clear(context.Context) error {
	f.note("clear")
	return f.err
}

func (f *fake) Ready(context.Context) error {
	f.note("ready")
	return f.err
}

func options(f *fake) Options {
	return Options{Backend: f, Log: hclog.NewNullLogger(), SparkVersion: "4.3.0", ClusterURL: cluster}
}

// ask sends one request to a handler.
func ask(t testing.TB, h http.Handler, method, path, body string) (*http.Response, string) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(method, path, strings.NewReader(body)))
	resp := w.Result()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(b)
}
