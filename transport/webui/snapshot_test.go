package webui

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
)

// fakeSnapshots saves a text, and takes any.
type fakeSnapshots struct {
	fail     error
	restored []string
	requests []RestoreRequest
	enter    chan struct{} // when set, a save says that it has begun, and waits
	leave    chan struct{}
}

func (f *fakeSnapshots) SaveSnapshot(_ context.Context, w io.Writer, begin func(SnapshotHead)) error {
	if f.enter != nil {
		f.enter <- struct{}{}
		<-f.leave
	}
	if f.fail != nil {
		return f.fail
	}
	begin(SnapshotHead{Index: 7, AboutBytes: 100})
	_, err := io.WriteString(w, "the state")
	return err
}

func (f *fakeSnapshots) RestoreSnapshot(_ context.Context, req RestoreRequest, body io.Reader) (Restore, error) {
	b, err := io.ReadAll(body)
	if err != nil {
		return Restore{}, err
	}
	f.restored, f.requests = append(f.restored, string(b)), append(f.requests, req)
	return Restore{Index: 7, DryRun: req.DryRun}, f.fail
}

func snapshotHandler(f *fakeSnapshots, actions *[]Action) *Handler {
	return NewHandler(Options{State: &fakeState{status: leaderStatus()}, Events: newFakeEvents(), Snapshots: f, Tokens: fakeTokens{of: twoTokens},
		Operated: func(a Action) { *actions = append(*actions, a) }, Log: hclog.NewNullLogger()})
}

func callSnapshot(h http.Handler, method, path, token, body string, head map[string]string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	if method == http.MethodPost {
		r.Header.Set("Content-Type", SnapshotContentType)
	}
	for k, v := range head {
		r.Header.Set(k, v)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// TestSnapshotRoutes: a snapshot holds secrets and changes everything: both ways need the role operate.
func TestSnapshotRoutes(t *testing.T) {
	t.Parallel()
	operate, read := "", ""
	for token, who := range twoTokens {
		if who.Operate {
			operate = token
		} else {
			read = token
		}
	}
	const save, restore = "/v1/snapshot", "/v1/snapshot/restore"
	for name, c := range map[string]struct {
		method, path, token string
		head                map[string]string
		status              int
		body                string
	}{
		"save":                 {http.MethodGet, save, operate, nil, 200, "the state"},
		"save as reader":       {http.MethodGet, save, read, nil, 403, "role operate"},
		"save as nobody":       {http.MethodGet, save, "", nil, 401, "token"},
		"save for a page":      {http.MethodGet, save, operate, map[string]string{"Sec-Fetch-Site": "cross-site"}, 403, "web pages"},
		"save by POST":         {http.MethodPost, save, operate, nil, 405, ""},
		"restore":              {http.MethodPost, restore, operate, nil, 200, `"index": 7`},
		"restore as reader":    {http.MethodPost, restore, read, nil, 403, "role operate"},
		"restore as nobody":    {http.MethodPost, restore, "", nil, 401, "token"},
		"restore from a page":  {http.MethodPost, restore, operate, map[string]string{"Origin": "http://evil"}, 403, "web pages"},
		"restore of a form":    {http.MethodPost, restore, operate, map[string]string{"Content-Type": "text/plain"}, 415, SnapshotContentType},
		"restore by GET":       {http.MethodGet, restore, operate, nil, 405, ""},
		"restore, bad dry run": {http.MethodPost, restore + "?dry_run=perhaps", operate, nil, 400, "dry_run"},
	} {
		t.Run(name, func(t *testing.T) {
			f, actions := &fakeSnapshots{}, []Action{}
			w := callSnapshot(snapshotHandler(f, &actions), c.method, c.path, c.token, "bytes", c.head)
			if w.Code != c.status || !strings.Contains(w.Body.String(), c.body) {
				t.Errorf("%d %s", w.Code, w.Body)
			}
			if done := c.status == 200; done != (len(actions) == 1) || (!done && len(f.restored) > 0) {
				t.Errorf("actions %+v, restored %q", actions, f.restored)
			}
		})
	}
}

func TestSnapshotAnswers(t *testing.T) {
	t.Parallel()
	f, actions := &fakeSnapshots{}, []Action{}
	h := snapshotHandler(f, &actions)
	operate := ""
	for token, who := range twoTokens {
		if who.Operate {
			operate = token
		}
	}
	w := callSnapshot(h, http.MethodGet, "/v1/snapshot", operate, "", nil)
	if g := w.Header(); g.Get("Content-Type") != SnapshotContentType || g.Get(HeaderSnapshotIndex) != "7" || g.Get(HeaderSnapshotBytes) != "100" || g.Get("Cache-Control") != "no-store" {
		t.Errorf("%v", g)
	}
	callSnapshot(h, http.MethodPost, "/v1/snapshot/restore?dry_run=true&force_other_cluster=1", operate, "bytes", nil)
	if len(f.requests) != 1 || f.requests[0] != (RestoreRequest{DryRun: true, ForceOtherCluster: true}) || f.restored[0] != "bytes" {
		t.Errorf("%+v, %q", f.requests, f.restored)
	}
	if len(actions) != 1 { // a dry run is none
		t.Errorf("%+v", actions)
	}
	f.fail = &Error{Code: CodeRefused, Message: "another cluster"}
	if w := callSnapshot(h, http.MethodPost, "/v1/snapshot/restore", operate, "bytes", nil); w.Code != http.StatusConflict {
		t.Errorf("%d", w.Code)
	}
	f.fail = errors.New("no state")
	if w := callSnapshot(h, http.MethodGet, "/v1/snapshot", operate, "", nil); w.Code != http.StatusInternalServerError || strings.Contains(w.Header().Get("Content-Type"), "snapshot") {
		t.Errorf("%d %v", w.Code, w.Header())
	}
}

// TestSnapshotsAtOnce: a transfer holds a state in memory, so that there are few at once.
func TestSnapshotsAtOnce(t *testing.T) {
	t.Parallel()
	f := &fakeSnapshots{enter: make(chan struct{}), leave: make(chan struct{})}
	h := NewHandler(Options{State: &fakeState{status: leaderStatus()}, Events: newFakeEvents(), Snapshots: f, Token: "t", Log: hclog.NewNullLogger()})
	done := make(chan int)
	for range maxTransfers {
		go func() { done <- callSnapshot(h, http.MethodGet, "/v1/snapshot", "t", "", nil).Code }()
		<-f.enter
	}
	if w := callSnapshot(h, http.MethodGet, "/v1/snapshot", "t", "", nil); w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
		t.Errorf("%d", w.Code)
	}
	close(f.leave)
	for range maxTransfers {
		if code := <-done; code != http.StatusOK {
			t.Errorf("%d", code)
		}
	}
}
