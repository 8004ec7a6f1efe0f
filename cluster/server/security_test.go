package server

import (
	"crypto/tls"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"raftmaster/cluster/config"
	"raftmaster/transport/certtest"
	"raftmaster/transport/sparkmsg"
	"raftmaster/transport/webui"
)

// overTLS makes a client that trusts an authority and shows certificates.
func overTLS(ca *certtest.Authority, certs ...tls.Certificate) *http.Client {
	return &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: ca.Pool, Certificates: certs}}}
}

// askOver makes one call with a token, "" for none.
func askOver(t *testing.T, client *http.Client, method, url, token, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

// TestTokensAndHTTPSOfARunningMaster: who may what, what is recorded, and what becomes of new files.
func TestTokensAndHTTPSOfARunningMaster(t *testing.T) {
	t.Parallel()
	const ann, grafana = "ann-token-0123456789", "grafana-token-0123456789"
	ca, dir := certtest.New(t, "ca"), t.TempDir()
	tokens := filepath.Join(dir, "tokens")
	write := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(tokens, "ann operate "+ann+"\n")
	c := start(t, 1, func(cfg *config.Config) {
		withREST(cfg)
		cert := ca.Issue(nil, cfg.Host)
		cfg.WebTLS.Cert, cfg.WebTLS.Key, cfg.RESTTLS.CA = ca.Write(dir, cert)
		cfg.RESTTLS.Cert, cfg.RESTTLS.Key = cfg.WebTLS.Cert, cfg.WebTLS.Key
		cfg.AdminTokenFile = tokens
	})
	m := c.masters[0]
	s := m.server()
	if !strings.HasPrefix(s.URL(), "https://") || !strings.HasPrefix(s.RESTURL(), "https://") {
		t.Fatalf("%s %s", s.URL(), s.RESTURL())
	}
	ask := func(method, path, token, body string) (int, string) {
		t.Helper()
		return askOver(t, overTLS(ca), method, s.URL()+path, token, body)
	}
	if code, body := ask(http.MethodGet, "/v1/status", "", ""); code != http.StatusOK || !strings.Contains(body, `"web_url": "https://`) {
		t.Errorf("%d %s", code, body)
	}
	if code, body := ask(http.MethodPost, "/v1/clear", ann, "{}"); code != http.StatusOK {
		t.Errorf("%d %s", code, body)
	}
	events, _ := s.ring.Since(0, 1000)
	if !slices.ContainsFunc(events, func(e webui.Event) bool { return e.Kind == "operator" && e.Subject == "clear" && e.Actor == "ann" }) {
		t.Errorf("the timeline does not say who did it: %+v", events)
	}
	write(tokens, "ann operate "+ann+"\ngrafana read "+grafana+"\n")
	eventually(t, "reading needs a token", func() bool {
		code, _ := ask(http.MethodGet, "/v1/status", "", "")
		return code == http.StatusUnauthorized
	})
	if code, body := ask(http.MethodPost, "/v1/clear", grafana, "{}"); code != http.StatusForbidden {
		t.Errorf("%d %s", code, body)
	}
	write(tokens, "ann operate\n")
	eventually(t, "an alarm about the tokens", func() bool {
		code, body := ask(http.MethodGet, "/v1/status", grafana, "")
		return code == http.StatusOK && strings.Contains(body, "the admin token file cannot be replaced") && strings.Contains(body, "line 1")
	})
	for _, path := range []string{"/environment/", "/v1/events", "/v1/status", "/metrics"} {
		if _, body := ask(http.MethodGet, path, grafana, ""); strings.Contains(body, ann) || strings.Contains(body, grafana) {
			t.Errorf("%s shows a token", path)
		}
	}
	if log := m.log.String(); strings.Contains(log, ann) || strings.Contains(log, grafana) {
		t.Error("the log shows a token")
	}
	for with, good := range map[*http.Client]bool{overTLS(ca): false, overTLS(ca, ca.Issue(nil, "a client").TLS): true} {
		resp, err := with.Get(s.RESTURL() + "/v1/submissions/readyz")
		if (err == nil) != good {
			t.Errorf("the gateway, good certificate %v: %v", good, err)
		}
		if err == nil {
			resp.Body.Close()
		}
	}
}

// withClusterTLS gives each master a certificate for its own host.
func withClusterTLS(t testing.TB, ca *certtest.Authority) func(*config.Config) {
	return func(cfg *config.Config) {
		cfg.ClusterTLS.Cert, cfg.ClusterTLS.Key, cfg.ClusterTLS.CA = ca.Write(t.TempDir(), ca.Issue(nil, cfg.AdvertiseHost))
	}
}

// TestWhatStandsOpenIsSaidAndIsNoAlarm: in the log and in the status of a master that others than this machine reach, and
// not of one on loopback.
func TestWhatStandsOpenIsSaidAndIsNoAlarm(t *testing.T) {
	t.Parallel()
	c := start(t, 1, nil)
	var st webui.Status
	c.masters[0].into(t, "/v1/status", &st)
	if len(st.Notes) > 0 || strings.Contains(c.masters[0].log.String(), "open: ") {
		t.Errorf("on loopback: %q", st.Notes)
	}
	c = start(t, 1, func(cfg *config.Config) { cfg.WebUIHost, cfg.WebUIPort = "0.0.0.0", 0 })
	m := c.masters[0]
	resp, err := web.Get(m.server().URL() + "/v1/status")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&st); err != nil {
		t.Fatal(err)
	}
	if len(st.Notes) != 1 || !strings.Contains(st.Notes[0], "whoever reaches it can read everything") || len(st.Alarms) > 0 {
		t.Errorf("notes %q, alarms %q", st.Notes, st.Alarms)
	}
	if !strings.Contains(m.log.String(), "open: web UI 0.0.0.0:0: whoever reaches it") {
		t.Error("the log does not say so")
	}
}

// TestAClusterOverTLSServesWorkersAndChangesItsCertificates: new files count without a restart, under way.
func TestAClusterOverTLSServesWorkersAndChangesItsCertificates(t *testing.T) {
	slow(t)
	t.Parallel()
	first, second := certtest.New(t, "first"), certtest.New(t, "second")
	both := append(slices.Clone(first.PEM), second.PEM...)
	secure := withClusterTLS(t, first)
	c := start(t, 3, func(cfg *config.Config) { steadyFailover(cfg); secure(cfg) })
	w := c.readyWorker(sparkmsg.FamilyE, 2)
	replace := func(what string, change func(m *member)) {
		t.Helper()
		for _, m := range c.masters {
			n := strings.Count(m.log.String(), "read again, and in use for new callers")
			change(m)
			eventually(t, what+" at "+m.cfg.Advertise().String(), func() bool {
				return strings.Count(m.log.String(), "read again, and in use for new callers") > n
			})
		}
		l := c.leader()
		l.kill() // its successor, and it itself, make new connections
		c.leader()
		l.start()
		c.followed(c.leader())
	}
	write := func(path string, data []byte) {
		t.Helper()
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	replace("both authorities", func(m *member) { write(m.cfg.ClusterTLS.CA, both) })
	replace("new certificates", func(m *member) {
		cert := second.Issue(nil, m.cfg.AdvertiseHost)
		write(m.cfg.ClusterTLS.Cert, cert.Cert)
		write(m.cfg.ClusterTLS.Key, cert.Key)
	})
	replace("the new authority alone", func(m *member) { write(m.cfg.ClusterTLS.CA, second.PEM) })
	if x, ok := c.leader().server().State().Worker(w.ID()); !ok || !x.Live() {
		t.Errorf("the worker is %+v", x)
	}
}
