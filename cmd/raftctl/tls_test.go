package main

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/hashicorp/go-hclog"

	"raftmaster/transport/certtest"
	"raftmaster/transport/webui"
)

// strictMaster serves a healthy lone leader whose reads need a token; it records what was presented.
type strictMaster struct {
	url string

	mu   sync.Mutex
	seen []string
}

type strictTokens struct{ reads bool }

func (strictTokens) Find(given string) (webui.Token, bool) {
	switch given {
	case "act":
		return webui.Token{Name: "ann", Operate: true}, true
	case "look":
		return webui.Token{Name: "grafana"}, true
	}
	return webui.Token{}, false
}
func (s strictTokens) ReadsNeedToken() bool { return s.reads }

func newStrict(t *testing.T, reads bool, secure *tls.Config) *strictMaster {
	t.Helper()
	fake := newCluster(t)[0]
	s := &strictMaster{}
	handler := webui.NewHandler(webui.Options{State: fake, Events: fake, Leadership: fake, Operations: fake, Tokens: strictTokens{reads}, Log: hclog.NewNullLogger()})
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.seen = append(s.seen, r.Method+" "+r.URL.Path+" "+r.Header.Get("Authorization"))
		s.mu.Unlock()
		handler.ServeHTTP(w, r)
	}))
	server.Config.ErrorLog = hclog.NewNullLogger().StandardLogger(nil)
	if secure == nil {
		server.Start()
	} else {
		server.TLS = secure
		server.StartTLS()
	}
	t.Cleanup(server.Close)
	s.url = server.URL
	fake.mu.Lock()
	fake.status.WebURL = s.url
	fake.mu.Unlock()
	return s
}

func (s *strictMaster) calls() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.seen, "\n")
}

func TestTheTokenIsShownOnlyToThoseWhoWantIt(t *testing.T) {
	env := map[string]string{"RAFTCTL_TOKEN": "look"}
	open := newStrict(t, false, nil)
	check(t, ctl(t, env, "--endpoints", open.url, "workers"), exitOK)
	if strings.Contains(open.calls(), "look") {
		t.Errorf("a master that asks for none was shown the token:\n%s", open.calls())
	}
	strict := newStrict(t, true, nil)
	check(t, ctl(t, env, "--endpoints", strict.url, "workers"), exitOK)
	if n := strings.Count(strict.calls(), "GET /v1/status \n"); n != 1 {
		t.Errorf("asked %d times without the token:\n%s", n, strict.calls())
	}
	check(t, ctl(t, nil, "--endpoints", strict.url, "workers"), exitError, "reading needs a token here", "give the token with --token-file")
	check(t, ctl(t, map[string]string{"RAFTCTL_TOKEN": "old"}, "--endpoints", strict.url, "workers"), exitError, "not the one of that master")
	check(t, ctl(t, env, "--endpoints", strict.url, "clear", "--yes"), exitError, "grafana has the role read", "a token of the role operate")
}

func TestMastersOverHTTPS(t *testing.T) {
	ca, dir := certtest.New(t, "ca"), t.TempDir()
	m := newStrict(t, false, &tls.Config{Certificates: []tls.Certificate{ca.Issue(nil, "127.0.0.1").TLS}})
	named := newStrict(t, false, &tls.Config{Certificates: []tls.Certificate{ca.Issue(nil, "masters").TLS}})
	mutual := newStrict(t, false, &tls.Config{Certificates: []tls.Certificate{ca.Issue(nil, "127.0.0.1").TLS}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: ca.Pool})
	plain := newStrict(t, false, nil)
	cert, key, cacert := ca.Write(dir, ca.Issue(nil, "raftctl"))
	bare := strings.TrimPrefix(m.url, "https://")

	check(t, ctl(t, nil, "--endpoints", m.url, "--cacert", cacert, "workers"), exitOK)
	check(t, ctl(t, nil, "--endpoints", bare, "--cacert", cacert, "workers"), exitOK)
	check(t, ctl(t, map[string]string{"RAFTCTL_CACERT": cacert, "RAFTCTL_ENDPOINTS": bare}, "workers"), exitOK)
	check(t, ctl(t, nil, "--endpoints", m.url, "workers"), exitError, "unknown authority", "next: give the authority of the masters' certificates with --cacert")
	check(t, ctl(t, nil, "--endpoints", named.url, "--cacert", cacert, "workers"), exitError, "127.0.0.1", "--server-name")
	check(t, ctl(t, nil, "--endpoints", named.url, "--cacert", cacert, "--server-name", "masters", "workers"), exitOK)
	check(t, ctl(t, nil, "--endpoints", mutual.url, "--cacert", cacert, "workers"), exitError, "--cert and --key")
	check(t, ctl(t, nil, "--endpoints", mutual.url, "--cacert", cacert, "--cert", cert, "--key", key, "workers"), exitOK)
	check(t, ctl(t, nil, "--endpoints", "http://"+bare, "workers"), exitError, "Client sent an HTTP request to an HTTPS server", "next: write https://")
	check(t, ctl(t, nil, "--endpoints", "https://"+strings.TrimPrefix(plain.url, "http://"), "workers"), exitError, "next: this master speaks plain HTTP")
	check(t, ctl(t, nil, "--endpoints", m.url, "--insecure", "workers"), exitOK, "WARNING: --insecure", "whoever is in between")

	for want, args := range map[string][]string{
		"--cert and --key belong together":        {"--endpoints", m.url, "--cert", cert},
		"are for https:// endpoints":              {"--endpoints", plain.url, "--insecure"},
		"--cacert and --server-name mean nothing": {"--endpoints", m.url, "--insecure", "--cacert", cacert},
		"holds no certificate":                    {"--endpoints", m.url, "--cacert", key},
		"--cacert is given and empty":             {"--endpoints", m.url, "--cacert", ""},
		"--cacert cannot be read":                 {"--endpoints", m.url, "--cacert", filepath.Join(dir, "none")},
	} {
		check(t, ctl(t, nil, append(args, "workers")...), exitUsage, want)
	}
	if err := os.Chmod(key, 0o644); err != nil {
		t.Fatal(err)
	}
	check(t, ctl(t, nil, "--endpoints", mutual.url, "--cacert", cacert, "--cert", cert, "--key", key, "workers"), exitUsage, "chmod 600")
	// A variable for other clusters does not keep anybody from a plain one.
	check(t, ctl(t, map[string]string{"RAFTCTL_CACERT": cacert}, "--endpoints", plain.url, "workers"), exitOK)
}

func TestAnExpiredCertificateIsNamed(t *testing.T) {
	ca := certtest.New(t, "ca")
	c := ca.Issue(func(c *x509.Certificate) { c.NotAfter = c.NotBefore.Add(1) }, "127.0.0.1")
	m := newStrict(t, false, &tls.Config{Certificates: []tls.Certificate{c.TLS}})
	_, _, cacert := ca.Write(t.TempDir(), c)
	check(t, ctl(t, nil, "--endpoints", m.url, "--cacert", cacert, "workers"), exitError, "expired", "replace the master's file")
}

// TestNobodyElseGetsTheToken: what a master's page names is asked without it.
func TestNobodyElseGetsTheToken(t *testing.T) {
	strict := newStrict(t, true, nil)
	asked := ""
	worker := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked += r.Header.Get("Authorization")
		w.WriteHeader(http.StatusUnauthorized)
	}))
	defer worker.Close()
	c := newClient([]string{strict.url}, patience, "look", nil)
	other := &http.Client{Transport: c.elsewhere()}
	defer other.CloseIdleConnections()
	for url, want := range map[string]int{strict.url + "/v1/workers": http.StatusOK, worker.URL: http.StatusUnauthorized} {
		resp, err := other.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%s: %d", url, resp.StatusCode)
		}
	}
	if asked != "" {
		t.Errorf("a worker's page was shown %q", asked)
	}
}

// TestWhatStandsOpenIsShownAndIsNoFailure: and events name who did it.
func TestWhatStandsOpenIsShownAndIsNoFailure(t *testing.T) {
	ms := newCluster(t)
	for _, m := range ms {
		m.mu.Lock()
		m.status.Notes = []string{"web UI 0.0.0.0:8080: whoever reaches it can read everything"}
		m.mu.Unlock()
	}
	ms[0].events = []webui.Event{{Seq: 1, Kind: "operator", Subject: "peers/remove", Message: "peer=n3", Actor: "ann"}}
	e := endpoints(ms)
	check(t, ctl(t, nil, "--endpoints", e, "status"), exitOK, "Open", "whoever reaches it can read everything")
	check(t, ctl(t, nil, "--endpoints", e, "health"), exitOK)
	check(t, ctl(t, nil, "--endpoints", e, "events"), exitOK, "peer=n3 by ann")
}
