package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// The heads of worker pages as Spark 3.5.9 and 4.3.0 serve them (ui/UIUtils.scala).
const (
	page359 = `<div class="col-12">
              <h3 style="vertical-align: middle; display: inline-block;">
                <a style="text-decoration: none" href="/">
                  <img src="/static/spark-logo-77x50px-hd.png"/>
                  <span class="version" style="margin-right: 15px;">3.5.9</span>
                </a>
                Spark Worker at 127.0.0.1:35277`
	page430 = `<div class="col-12">
              <h3 class="align-middle d-inline-block">
                <a class="text-decoration-none" href="/">
                  <img class="spark-logo" src="/static/spark-logo.svg" alt="Spark Logo" height="36"/>
                  <span class="version me-3">4.3.0</span>
                </a>
                Spark Worker at 127.0.0.1:37323`
)

// askers gives a releases whose answers come on a channel. Whatever it has started has ended when the test has.
func askers(t *testing.T) (*releases, context.CancelFunc) {
	t.Helper()
	before := goleak.IgnoreCurrent()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(func() {
		cancel()
		goleak.VerifyNone(t, before)
	})
	return newReleases(ctx, func(fn func()) { fn() }), cancel
}

func answer(t *testing.T, question func(string, func(string)), url string) string {
	t.Helper()
	got := make(chan string, 1)
	question(url, func(release string) { got <- release })
	select {
	case release := <-got:
		return release
	case <-time.After(time.Minute):
		t.Fatal("no answer")
		return ""
	}
}

// serve runs a web server that ends before the look for leaks.
func serve(t *testing.T, handler http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(handler)
	t.Cleanup(s.Close)
	return s.URL
}

func TestWorkerPageNamesTheRelease(t *testing.T) {
	for name, c := range map[string]struct{ page, want string }{
		"3.5.9":               {page359, "3.5.9"},
		"4.3.0":               {page430, "4.3.0"},
		"snapshot":            {`<span class="version"> 4.1.0-SNAPSHOT </span>`, "4.1.0-SNAPSHOT"},
		"no span":             {`<html>4.3.0</html>`, ""},
		"another class":       {`<span class="subversion">4.3.0</span>`, ""},
		"no release":          {`<span class="version">latest</span>`, ""},
		"markup in the span":  {`<span class="version">4.3.0<script>x</script></span>`, ""},
		"empty page":          {"", ""},
		"release behind head": {strings.Repeat(" ", maxPage) + page430, ""},
		"large page":          {page430 + strings.Repeat("x", 4*maxPage), "4.3.0"},
	} {
		t.Run(name, func(t *testing.T) {
			r, _ := askers(t)
			url := serve(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, c.page) })
			if got := answer(t, r.Worker, url); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// An endless page is read up to the limit and no further.
func TestOversizedPageIsCut(t *testing.T) {
	r, _ := askers(t)
	var written atomic.Int64
	url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		chunk := []byte(strings.Repeat("x", 64<<10))
		for written.Load() < 1<<30 {
			n, err := w.Write(chunk)
			written.Add(int64(n))
			if err != nil {
				return
			}
		}
	})
	if got := answer(t, r.Worker, url); got != "" {
		t.Errorf("got %q", got)
	}
	if n := written.Load(); n >= 1<<30 {
		t.Errorf("%d bytes were read of a page without an end", n)
	}
}

// A page elsewhere says nothing about the peer, and must not be asked: the address came from outside.
func TestRedirectIsNotFollowed(t *testing.T) {
	r, _ := askers(t)
	var elsewhere atomic.Int64
	target := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		elsewhere.Add(1)
		fmt.Fprint(w, page430)
	})
	url := serve(t, func(w http.ResponseWriter, req *http.Request) { http.Redirect(w, req, target, http.StatusFound) })
	if got := answer(t, r.Worker, url); got != "" || elsewhere.Load() != 0 {
		t.Errorf("got %q; the other page was asked %d times", got, elsewhere.Load())
	}
}

func TestErrorPageIsNotRead(t *testing.T) {
	r, _ := askers(t)
	url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusInternalServerError)
		fmt.Fprint(w, page430)
	})
	if got := answer(t, r.Worker, url); got != "" {
		t.Errorf("got %q", got)
	}
}

// A proxy of the environment is not ours to use: peers are asked directly.
func TestNoProxyIsUsed(t *testing.T) {
	r, _ := askers(t)
	transport, ok := r.client.Transport.(*http.Transport)
	if !ok || transport.Proxy != nil {
		t.Fatalf("the transport is %+v", r.client.Transport)
	}
}

func TestAddressesThatAreNoWebPagesAreNotAsked(t *testing.T) {
	r, _ := askers(t)
	for _, url := range []string{"", "not a url", "file:///etc/hostname", "ftp://host/", "http://", "://", "http://%zz/", "gopher://host:70/"} {
		if got := answer(t, r.Worker, url); got != "" {
			t.Errorf("%q gave %q", url, got)
		}
		if _, err := r.fetch(url, parseWorkerPage); err == nil {
			t.Errorf("%q was asked", url)
		}
	}
}

func TestApplicationNamesTheRelease(t *testing.T) {
	r, _ := askers(t)
	var path atomic.Value
	url := serve(t, func(w http.ResponseWriter, req *http.Request) {
		path.Store(req.URL.Path)
		fmt.Fprint(w, `{"spark" : "4.3.0"}`)
	})
	for _, address := range []string{url, url + "/"} {
		if got := answer(t, r.Application, address); got != "4.3.0" || path.Load() != "/api/v1/version" {
			t.Errorf("%s gave %q from %v", address, got, path.Load())
		}
	}
}

func TestVersionJSON(t *testing.T) {
	for _, body := range []string{"", "{", `[]`, `{"spark":4}`, `{"spark":""}`, `{"other":"4.3.0"}`, `{"spark":"` + strings.Repeat("4", 65) + `"}`, "<html>"} {
		if got, err := parseVersionJSON([]byte(body)); err == nil {
			t.Errorf("%.20q gave %q", body, got)
		}
	}
	if got, err := parseVersionJSON([]byte(`{"spark":"3.5.9"}`)); err != nil || got != "3.5.9" {
		t.Errorf("got %q, %v", got, err)
	}
	if _, err := parseVersionJSON([]byte(`{}`)); !errors.Is(err, errNoRelease) {
		t.Errorf("the error is %v", err)
	}
}

// A driver serves its release only when it has been told its id: it is asked again.
func TestApplicationIsAskedAgain(t *testing.T) {
	r, _ := askers(t)
	var asked atomic.Int64
	url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		if asked.Add(1) < 3 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		fmt.Fprint(w, `{"spark":"4.3.0"}`)
	})
	if got := answer(t, r.Application, url); got != "4.3.0" || asked.Load() != 3 {
		t.Errorf("got %q after %d questions", got, asked.Load())
	}
}

// The end of the process ends every question, also those that wait for their turn; none of them reports any more.
func TestEndOfTheProcessEndsEveryQuestion(t *testing.T) {
	var arrived, reported atomic.Int64
	t.Cleanup(func() { // runs last, when nothing is under way any more
		if reported.Load() != 0 {
			t.Errorf("%d questions were reported", reported.Load())
		}
	})
	r, cancel := askers(t)
	release := make(chan struct{})
	url := serve(t, func(_ http.ResponseWriter, req *http.Request) {
		arrived.Add(1)
		select {
		case <-release:
		case <-req.Context().Done():
		}
	})
	defer close(release)
	for range 3 * maxReleaseAsks {
		r.Application(url, func(string) { reported.Add(1) })
	}
	for end := time.Now().Add(time.Minute); arrived.Load() < maxReleaseAsks; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the questions did not come")
		}
	}
	if n := arrived.Load(); n > maxReleaseAsks {
		t.Errorf("%d questions are under way at once, at most %d are allowed", n, maxReleaseAsks)
	}
	cancel()
}
