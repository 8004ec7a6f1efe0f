package rest

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
)

// minimal has all that Spark 4 requires, and no more.
const minimal = `{"action":"CreateSubmissionRequest","clientSparkVersion":"4.3.0","appResource":"file:/a.jar","mainClass":"a.Main","sparkProperties":{}}`

// TestRoutes: method rules and prefixes of each call (spec: each route is a prefix, the id is the next element).
func TestRoutes(t *testing.T) {
	for _, c := range []struct {
		method, path string
		status       int
		asked        string
	}{
		{"POST", "/v1/submissions/kill/driver-1", 200, "kill driver-1"},
		{"POST", "/v1/submissions/kill/driver-1/and/more", 200, "kill driver-1"},
		{"POST", "/v1/submissions/kill/driver%20x", 200, "kill driver x"},
		{"POST", "/v1/submissions/kill/", 400, ""},
		{"POST", "/v1/submissions/kill", 400, ""},
		{"POST", "/v1/submissions/kill//driver-1", 400, ""},
		{"GET", "/v1/submissions/kill/driver-1", 405, ""},
		{"GET", "/v1/submissions/status/driver-1", 200, "status driver-1"},
		{"GET", "/v1/submissions/status/driver-1/", 200, "status driver-1"},
		{"HEAD", "/v1/submissions/status/driver-1", 200, "status driver-1"},
		{"POST", "/v1/submissions/status/driver-1", 405, ""},
		{"DELETE", "/v1/submissions/status/driver-1", 405, ""},
		{"POST", "/v1/submissions/killall", 200, "killall"},
		{"POST", "/v1/submissions/killall/x", 200, "killall"},
		{"GET", "/v1/submissions/killall", 405, ""},
		{"POST", "/v1/submissions/clear", 200, "clear"},
		{"GET", "/v1/submissions/clear", 405, ""},
		{"GET", "/v1/submissions/readyz", 200, "ready"},
		{"GET", "/v1/submissions/readyz/", 200, "ready"},
		{"POST", "/v1/submissions/readyz", 405, ""},
		{"POST", "/v1/submissions/create", 200, "submit"},
		{"POST", "/v1/submissions/create/x", 200, "submit"},
		{"GET", "/v1/submissions/create", 405, ""},
		{"TRACE", "/v1/submissions/create", 405, ""},
		{"OPTIONS", "/v1/submissions/create", 200, ""},
		{"POST", "/v1/submissions/creates", 400, ""},
		{"POST", "/v1/submissions", 400, ""},
		{"POST", "/v1/submissions/", 400, ""},
		{"PUT", "/", 400, ""},
		{"GET", "/v1/other/kill", 400, ""},
		{"GET", "/v2", 468, ""},
		{"GET", "/favicon.ico", 468, ""},
	} {
		f := &fake{}
		opts, seen := options(f), ""
		opts.Observe = func(call string, status int) { seen += fmt.Sprint(call, status) }
		resp, body := ask(t, NewHandler(opts), c.method, c.path, minimal)
		if rt, _ := find(c.path); seen != strconv.Itoa(c.status) && (rt == nil || seen != rt.name+strconv.Itoa(c.status)) {
			t.Errorf("%s %s: observed %q", c.method, c.path, seen)
		}
		if resp.StatusCode != c.status || strings.Join(f.asked, ",") != c.asked {
			t.Errorf("%s %s: %d, asked %v; want %d, %q", c.method, c.path, resp.StatusCode, f.asked, c.status, c.asked)
		}
		switch typ := resp.Header.Get("Content-Type"); {
		case c.method == "OPTIONS":
		case c.status == 405 && (!strings.HasPrefix(typ, "text/html") || resp.Header.Get("Allow") == ""):
			t.Errorf("%s %s: %s, Allow %q", c.method, c.path, typ, resp.Header.Get("Allow"))
		case c.status != 405 && typ != "application/json;charset=utf-8":
			t.Errorf("%s %s: %s %s", c.method, c.path, typ, body)
		}
		if c.method == "HEAD" && (body != "" || resp.Header.Get("Content-Length") == "0") {
			t.Errorf("HEAD has a body %q, or no length", body)
		}
	}
}

// TestStrangersAreNotRepeatedAtLength: what a client sends comes back shortened, and never as HTML.
func TestStrangersAreNotRepeatedAtLength(t *testing.T) {
	h := NewHandler(options(&fake{}))
	long := strings.Repeat("<script>", 2000)
	for _, path := range []string{"/" + long, "/v1/submissions/status/" + long, "/v1/" + long} {
		resp, body := ask(t, h, "GET", path, "")
		if len(body) > 1000 || strings.HasPrefix(resp.Header.Get("Content-Type"), "text/html") || resp.Header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%d bytes, %v", len(body), resp.Header)
		}
	}
	w, r := httptest.NewRecorder(), httptest.NewRequest("GET", base+"/create", nil)
	r.Method = "<B>"
	if h.ServeHTTP(w, r); w.Code != 405 || strings.Contains(w.Body.String(), "<B>") {
		t.Errorf("HTML of a stranger: %s", w.Body)
	}
}

// TestS13_StandbysSendClientsOn: a master that does not lead answers in the words by which Spark's clients go on to the
// next master, and says who leads (G-74). S14: also when asked for a status.
func TestS13_StandbysSendClientsOn(t *testing.T) {
	leader := "The leader is spark://b:7077, http://b:6066."
	for _, c := range []struct{ method, path, action, first string }{
		{"POST", "create", "CreateSubmissionResponse", "Current state is not alive: STANDBY. Can only accept driver submissions in ALIVE state."},
		{"POST", "kill/d", "KillSubmissionResponse", "Current state is not alive: STANDBY. Can only kill drivers in ALIVE state."},
		{"POST", "killall", "KillAllSubmissionResponse", "Current state is not alive: STANDBY. Can only kill drivers in ALIVE state."},
		{"POST", "clear", "ClearResponse", "Current state is not alive: STANDBY."}, // G-73
		{"GET", "status/d", "SubmissionStatusResponse", "Exception from the cluster:\njava.lang.Exception: Current state is not alive: STANDBY. Can only request driver status in ALIVE state."},
	} {
		f := &fake{err: &NotAliveError{State: "STANDBY", Leader: leader}}
		resp, body := ask(t, NewHandler(options(f)), c.method, base+"/"+c.path, minimal)
		text := message(t, body)
		if resp.StatusCode != 200 || !strings.HasPrefix(text, c.first) || !strings.HasSuffix(text, " "+leader) ||
			!strings.Contains(body, `"success" : false`) || !strings.Contains(body, `"action" : "`+c.action+`"`) {
			t.Errorf("%s: %d %s", c.path, resp.StatusCode, body)
		}
		if strings.Contains(body, "driverState") || (c.path == "create" && strings.Contains(body, "submissionId")) {
			t.Errorf("%s: %s", c.path, body)
		}
	}
}

// TestG73_StandbysAreNotReady and name the leader.
func TestG73_StandbysAreNotReady(t *testing.T) {
	h := NewHandler(options(&fake{err: &NotAliveError{State: "STANDBY", Leader: "The leader is spark://b:7077."}}))
	resp, body := ask(t, h, "GET", base+"/readyz", "")
	if resp.StatusCode != 503 || message(t, body) != "Master is not ready. The leader is spark://b:7077." || !strings.Contains(body, `"ErrorResponse"`) {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
	h = NewHandler(options(&fake{err: errors.New("no lease")}))
	if resp, body := ask(t, h, "GET", base+"/readyz", ""); resp.StatusCode != 503 || message(t, body) != "Master is not ready." {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
}

// TestUnknownOutcome: a client must not submit to the next master what may have been accepted here. Spark's client stops
// only at a 500 that is not JSON. Everything else may be asked again.
func TestUnknownOutcome(t *testing.T) {
	h := NewHandler(options(&fake{err: errors.New("deposed: secret details")}))
	for _, c := range []struct {
		method, path, typ string
		status            int
	}{
		{"POST", "create", "text/html;charset=utf-8", 500},
		{"POST", "kill/d", "application/json;charset=utf-8", 503},
		{"POST", "killall", "application/json;charset=utf-8", 503},
		{"POST", "clear", "application/json;charset=utf-8", 503},
		{"GET", "status/d", "application/json;charset=utf-8", 503},
	} {
		resp, body := ask(t, h, c.method, base+"/"+c.path, minimal)
		if resp.StatusCode != c.status || resp.Header.Get("Content-Type") != c.typ || strings.Contains(body, "secret") {
			t.Errorf("%s: %d %s %s", c.path, resp.StatusCode, resp.Header.Get("Content-Type"), body)
		}
	}
	h = NewHandler(options(&fake{err: &InvalidError{Reason: "too large."}}))
	if resp, body := ask(t, h, "POST", base+"/create", minimal); resp.StatusCode != 400 || !strings.Contains(body, "too large.") {
		t.Errorf("invalid: %d %s", resp.StatusCode, body)
	}
}

// TestWebPagesAreRefused: a page of any site can make the browser of its reader send a submission as plain text, and none may
// have it run. Reading is for everybody.
func TestWebPagesAreRefused(t *testing.T) {
	for _, head := range [][2]string{{"Origin", "http://evil.example"}, {"Origin", "null"}, {"Origin", "http://example.com"},
		{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}, {"Sec-Fetch-Site", "same-origin"}} {
		for _, call := range []string{"/create", "/kill/driver-1", "/killall", "/clear"} {
			f := &fake{}
			r := httptest.NewRequest("POST", base+call, strings.NewReader(minimal))
			r.Header.Set("Content-Type", "text/plain")
			r.Header.Set(head[0], head[1])
			w := httptest.NewRecorder()
			NewHandler(options(f)).ServeHTTP(w, r)
			if w.Code != http.StatusForbidden || len(f.asked) > 0 {
				t.Errorf("%s with %s: %d %s, asked %q", call, head, w.Code, w.Body, f.asked)
			}
		}
		r := httptest.NewRequest("GET", base+"/status/driver-1", nil)
		r.Header.Set(head[0], head[1])
		w := httptest.NewRecorder()
		NewHandler(options(&fake{})).ServeHTTP(w, r)
		if w.Code != http.StatusOK {
			t.Errorf("status with %s: %d", head, w.Code)
		}
	}
}

// TestRefusedByTheLeader: Spark answers 200 with success false; exceptions of a driver are shown.
func TestRefusedByTheLeader(t *testing.T) {
	f := &fake{submit: Submitted{Message: "no."}, status: DriverStatus{Found: true, State: "ERROR", Exception: "java.io.IOException: gone"}}
	h := NewHandler(options(f))
	want := "{\n  \"action\" : \"CreateSubmissionResponse\",\n  \"message\" : \"no.\",\n  \"serverSparkVersion\" : \"4.3.0\",\n  \"success\" : false\n}"
	if _, body := ask(t, h, "POST", base+"/create", minimal); body != want {
		t.Errorf("%s", body)
	}
	if _, body := ask(t, h, "GET", base+"/status/d", ""); message(t, body) != "Exception from the cluster:\njava.io.IOException: gone" || !strings.Contains(body, `"success" : true`) {
		t.Errorf("%s", body)
	}
}

func TestUnknownFields(t *testing.T) {
	f := &fake{submit: Submitted{ID: "d", Success: true}}
	body := strings.Replace(minimal, "{", `{"zeta":1,"alpha":{"x":[]},"message":"m",`, 1)
	_, got := ask(t, NewHandler(options(f)), "POST", base+"/create", body)
	if !strings.Contains(got, `  "unknownFields" : [ "alpha", "zeta" ]`) {
		t.Errorf("%s", got)
	}
}

// endless is a body that goes on for ever and counts what was read.
type endless struct{ read int64 }

func (e *endless) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = ' '
	}
	e.read += int64(len(b))
	return len(b), nil
}

// TestLargeBodies: more than the limit is refused with 413, announced or not, and not read further.
func TestLargeBodies(t *testing.T) {
	opts := options(&fake{})
	opts.MaxBodyBytes = 100_000
	h := NewHandler(opts)
	for _, announced := range []int64{-1, 100_001, 1 << 50} {
		src := &endless{}
		r := httptest.NewRequest("POST", base+"/create", io.NopCloser(src))
		r.ContentLength = announced
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != http.StatusRequestEntityTooLarge || src.read > 200_000 || (announced > 0 && src.read > 0) {
			t.Errorf("announced %d: %d, %d bytes read", announced, w.Code, src.read)
		}
	}
	exact := minimal + strings.Repeat(" ", 100_000-len(minimal))
	if resp, body := ask(t, h, "POST", base+"/create", exact); resp.StatusCode != 200 {
		t.Errorf("%d bytes: %d %s", len(exact), resp.StatusCode, body)
	}
	if h.bodies.left != maxBodiesTogether {
		t.Errorf("%d bytes of bodies are held by nobody", maxBodiesTogether-h.bodies.left)
	}
}

// TestBodiesTogether: what all clients send at one time is bounded, and comes free again.
func TestBodiesTogether(t *testing.T) {
	h := NewHandler(options(&fake{submit: Submitted{ID: "d", Success: true}}))
	if !h.bodies.take(maxBodiesTogether - firstBodyBytes + 1) {
		t.Fatal("the budget is not there")
	}
	if resp, _ := ask(t, h, "POST", base+"/create", minimal); resp.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("%d", resp.StatusCode)
	}
	h.bodies.give(1)
	if resp, _ := ask(t, h, "POST", base+"/create", minimal); resp.StatusCode != 200 {
		t.Errorf("%d", resp.StatusCode)
	}
	if h.bodies.left != firstBodyBytes {
		t.Errorf("left %d", h.bodies.left)
	}
}

type broken struct{ io.Reader }

func TestBodyThatEndsEarly(t *testing.T) {
	h := NewHandler(options(&fake{}))
	r := httptest.NewRequest("POST", base+"/create", io.MultiReader(strings.NewReader(minimal), &broken{errReader{}}))
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if w.Code != 400 || h.bodies.left != maxBodiesTogether {
		t.Errorf("%d, left %d", w.Code, h.bodies.left)
	}
}

type errReader struct{}

func (errReader) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// TestPanicIsAnAnswer: a mistake here is one failed request, and shows nothing to the client.
func TestPanicIsAnAnswer(t *testing.T) {
	opts := options(nil)
	opts.Backend = nilBackend{}
	resp, body := ask(t, NewHandler(opts), "POST", base+"/killall", "")
	if resp.StatusCode != 500 || strings.Contains(body, "nil pointer") {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
}

type nilBackend struct{ Backend }

func TestRequiredOptions(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a Handler without Backend")
		}
	}()
	NewHandler(Options{})
}

func ExampleNotAliveError() {
	fmt.Println((&NotAliveError{State: "STANDBY", Leader: "The leader is spark://b:7077."}).message(canKill))
	// Output: Current state is not alive: STANDBY. Can only kill drivers in ALIVE state. The leader is spark://b:7077.
}
