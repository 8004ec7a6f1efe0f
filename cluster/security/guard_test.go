package security

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"go.uber.org/goleak"

	"raftmaster/cluster/config"
	"raftmaster/transport/certtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	ann, grafana = "ann-token-0123456789", "grafana-token-0123456789"
	patience     = 30 * time.Second
)

type sink struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *sink) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *sink) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("never: " + what)
		}
	}
}

// running makes a Guard that looks after its files quickly.
func running(t *testing.T, cfg config.Config, now func() time.Time) (*Guard, *sink, func() []string) {
	t.Helper()
	log := &sink{}
	var mu sync.Mutex
	var events []string
	g, err := New(cfg, Options{Log: hclog.New(&hclog.LoggerOptions{Output: log}), Now: now, PollEvery: time.Millisecond, Event: func(detail string) {
		mu.Lock()
		defer mu.Unlock()
		events = append(events, detail)
	}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		g.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return g, log, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return events
	}
}

func base() config.Config {
	c := config.Default()
	c.Host, c.AdvertiseHost, c.PublicHost, c.WebUIHost, c.RESTHost = "127.0.0.1", "127.0.0.1", "127.0.0.1", "127.0.0.1", "127.0.0.1"
	return c
}

func TestTokensAreReplacedWithoutARestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens")
	write(t, path, []byte("single\n"))
	cfg := base()
	cfg.AdminTokenFile = path
	g, log, events := running(t, cfg, nil)
	k := g.Tokens()
	if x, ok := k.Find("single"); !ok || x.Name != "admin" || !x.Operate || k.ReadsNeedToken() {
		t.Fatalf("%+v %v", x, ok)
	}
	write(t, path, []byte("ann operate "+ann+"\ngrafana read "+grafana+"\n"))
	eventually(t, "the new tokens count", func() bool { _, ok := k.Find(ann); return ok })
	if x, ok := k.Find(grafana); !ok || x.Name != "grafana" || x.Operate || !k.ReadsNeedToken() {
		t.Errorf("%+v %v", x, ok)
	}
	for _, old := range []string{"single", "", "ann", ann + "x"} {
		if x, ok := k.Find(old); ok {
			t.Errorf("%q is %+v", old, x)
		}
	}
	for what, spoil := range map[string]func(){
		"line 2":       func() { write(t, path, []byte("ann operate "+ann+"\ngrafana view "+grafana+"\n")) },
		"chmod 600":    func() { write(t, path, []byte("ann operate other-token-0123456789\n")); must(t, os.Chmod(path, 0o644)) },
		"no such file": func() { must(t, os.Remove(path)) },
	} {
		spoil()
		eventually(t, what, func() bool {
			a := g.Alarms()
			return len(a) == 1 && strings.Contains(a[0], what) && strings.Contains(a[0], path)
		})
		if _, ok := k.Find(ann); !ok {
			t.Errorf("%s: the old tokens do not count any more", what)
		}
		must(t, os.RemoveAll(path))
		write(t, path, []byte("ann operate "+ann+"\n"))
		eventually(t, "the alarm ends after: "+what, func() bool { return len(g.Alarms()) == 0 })
	}
	for _, text := range append(events(), log.String()) {
		for _, secret := range []string{ann, grafana, "other-token", "single"} {
			if strings.Contains(text, secret) {
				t.Errorf("a token is shown: %s", text)
			}
		}
	}
	if !strings.Contains(log.String(), "cannot be used") || len(events()) < 4 {
		t.Errorf("log %s\nevents %q", log, events())
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// handshake gives the serial number of the certificate that a server shows.
func handshake(t *testing.T, server *tls.Config, client *tls.Config) (string, error) {
	t.Helper()
	a, b := pipe(t)
	defer a.Close()
	defer b.Close()
	done := make(chan error, 1)
	go func() { done <- tls.Server(a, server).Handshake() }()
	c := tls.Client(b, client)
	err := c.Handshake()
	if serverErr := <-done; err == nil {
		err = serverErr
	}
	if err != nil {
		return "", err
	}
	return c.ConnectionState().PeerCertificates[0].SerialNumber.String(), nil
}

func TestCertificatesAreReplacedWithoutARestart(t *testing.T) {
	ca, dir := certtest.New(t, "ca"), t.TempDir()
	first, second := ca.Issue(nil, "127.0.0.1"), ca.Issue(nil, "127.0.0.1")
	cfg := base()
	cfg.WebTLS.Cert, cfg.WebTLS.Key, cfg.WebTLS.CA = ca.Write(dir, first)
	g, log, _ := running(t, cfg, nil)
	shown := func() string {
		s, err := handshake(t, g.Web(), &tls.Config{RootCAs: ca.Pool, ServerName: "127.0.0.1", Certificates: []tls.Certificate{second.TLS}})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	if s := shown(); s != first.TLS.Leaf.SerialNumber.String() {
		t.Fatal(s)
	}
	write(t, cfg.WebTLS.Cert, second.Cert) // the key is still the old one
	eventually(t, "an alarm about a key that does not fit", func() bool {
		a := g.Alarms()
		return len(a) == 1 && strings.Contains(a[0], cfg.WebTLS.Key) && strings.Contains(a[0], cfg.WebTLS.Cert)
	})
	if s := shown(); s != first.TLS.Leaf.SerialNumber.String() {
		t.Error("a certificate without its key is in use")
	}
	write(t, cfg.WebTLS.Key, second.Key)
	eventually(t, "the new certificate is shown", func() bool { return shown() == second.TLS.Leaf.SerialNumber.String() })
	if len(g.Alarms()) > 0 || strings.Contains(log.String(), "PRIVATE KEY") {
		t.Errorf("%q\n%s", g.Alarms(), log)
	}
	if _, err := handshake(t, g.Web(), &tls.Config{RootCAs: ca.Pool, ServerName: "127.0.0.1"}); err == nil {
		t.Error("a caller without a certificate")
	}
	if _, err := handshake(t, g.Web(), &tls.Config{RootCAs: ca.Pool, ServerName: "127.0.0.1", MaxVersion: tls.VersionTLS11, MinVersion: tls.VersionTLS10}); err == nil {
		t.Error("TLS 1.1 is spoken")
	}
}

func TestTheEndOfACertificateIsSaidInTime(t *testing.T) {
	ca, dir := certtest.New(t, "ca"), t.TempDir()
	end := time.Now().Add(90 * 24 * time.Hour)
	c := ca.Issue(func(c *x509.Certificate) { c.NotAfter = end }, "127.0.0.1")
	cfg := base()
	cfg.WebTLS.Cert, cfg.WebTLS.Key, _ = ca.Write(dir, c)
	var mu sync.Mutex
	at := time.Now()
	now := func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		return at
	}
	g, log, _ := running(t, cfg, now)
	set := func(left time.Duration) {
		mu.Lock()
		defer mu.Unlock()
		at = end.Add(-left)
	}
	if a := g.Alarms(); len(a) > 0 {
		t.Errorf("long before: %q", a)
	}
	for _, tc := range []struct {
		left time.Duration
		want string
	}{{29*24*time.Hour + time.Minute, "ends in 29 days"}, {25 * time.Hour, "ends in 1 day,"}, {time.Hour, "ends in less than a day"}, {-time.Hour, "has expired"}} {
		left, want := tc.left, tc.want
		set(left)
		if a := g.Alarms(); len(a) != 1 || !strings.Contains(a[0], want) || !strings.Contains(a[0], cfg.WebTLS.Cert) {
			t.Errorf("%v before: %q", left, a)
		}
	}
	eventually(t, "the log says so", func() bool { return strings.Contains(log.String(), "has expired") })
	reg := prometheus.NewPedanticRegistry()
	must(t, reg.Register(g))
	families, err := reg.Gather()
	if err != nil || len(families) != 1 || families[0].GetMetric()[0].GetGauge().GetValue() >= 0 {
		t.Errorf("%v %v", families, err)
	}
	if problems, err := promlint.NewWithMetricFamilies(families).Lint(); err != nil || len(problems) > 0 {
		t.Errorf("%v %v", problems, err)
	}
	if err := Check(cfg); err != nil {
		t.Errorf("the real clock: %v", err)
	}
}

func TestFilesThatCannotBeUsedRefuseTheStart(t *testing.T) {
	ca, other, dir := certtest.New(t, "ca"), certtest.New(t, "other"), t.TempDir()
	good := ca.Issue(nil, "127.0.0.1", "masters")
	for name, tc := range map[string]struct {
		cert certtest.Certificate
		edit func(*config.ClusterTLS)
		want []string
	}{
		"good":             {good, nil, nil},
		"fixed name":       {ca.Issue(nil, "masters"), func(c *config.ClusterTLS) { c.Name = "masters" }, nil},
		"no name":          {ca.Issue(nil, "elsewhere"), nil, []string{"cert.pem", "127.0.0.1"}},
		"wrong fixed name": {good, func(c *config.ClusterTLS) { c.Name = "leaders" }, []string{"cert.pem", "leaders"}},
		"wrong CA":         {other.Issue(nil, "127.0.0.1"), nil, []string{"cert.pem", "unknown authority"}},
		"server only":      {ca.Issue(func(c *x509.Certificate) { c.ExtKeyUsage = c.ExtKeyUsage[:1] }, "127.0.0.1"), nil, []string{"clients (clientAuth)"}},
		"expired":          {ca.Issue(func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }, "127.0.0.1"), nil, []string{"cert.pem", "has expired"}},
		"not yet":          {ca.Issue(func(c *x509.Certificate) { c.NotBefore = time.Now().Add(30 * time.Minute) }, "127.0.0.1"), nil, []string{"clock of this machine"}},
		"no PEM":           {certtest.Certificate{Cert: []byte("x"), Key: good.Key}, nil, []string{"cert.pem", "PEM"}},
		"another key":      {certtest.Certificate{Cert: good.Cert, Key: other.Issue(nil).Key}, nil, []string{"key.pem", "does not match"}},
		"CA is a leaf":     {good, func(c *config.ClusterTLS) { c.CA = c.Cert }, []string{"cert.pem", "no authority"}},
		"no CA":            {good, func(c *config.ClusterTLS) { c.CA = filepath.Join(dir, "none") }, []string{"none", "no such file"}},
		"open key":         {good, func(c *config.ClusterTLS) { must(t, os.Chmod(c.Key, 0o644)) }, []string{"key.pem", "chmod 600"}},
	} {
		sub := filepath.Join(dir, name)
		must(t, os.Mkdir(sub, 0o700))
		cfg := base()
		cfg.ClusterTLS.Cert, cfg.ClusterTLS.Key, cfg.ClusterTLS.CA = ca.Write(sub, tc.cert)
		if tc.edit != nil {
			tc.edit(&cfg.ClusterTLS)
		}
		err := Check(cfg)
		if (err == nil) != (tc.want == nil) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, w := range tc.want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%s: %q lacks %q", name, err, w)
			}
		}
	}
}

func TestACertificateForAnotherHostIsNoted(t *testing.T) {
	ca := certtest.New(t, "ca")
	cfg := base()
	cfg.WebTLS.Cert, cfg.WebTLS.Key, _ = ca.Write(t.TempDir(), ca.Issue(nil, "elsewhere"))
	g, err := New(cfg, Options{Log: hclog.NewNullLogger()})
	must(t, err)
	if n := g.Notes(); len(n) != 1 || !strings.Contains(n[0], "elsewhere") && !strings.Contains(n[0], "127.0.0.1") {
		t.Errorf("%q", n)
	}
	if g.Tokens() != nil || g.REST() != nil {
		t.Error("what is not configured is there")
	}
}

// A certificate that was put there before it is good is taken into use once it is, without another touch.
func TestACertificateThatIsNotGoodYetIsUsedLater(t *testing.T) {
	ca, dir := certtest.New(t, "ca"), t.TempDir()
	first, start := ca.Issue(nil, "127.0.0.1"), time.Now().Add(2*time.Hour)
	later := ca.Issue(func(c *x509.Certificate) { c.NotBefore, c.NotAfter = start, start.Add(90*24*time.Hour) }, "127.0.0.1")
	cfg := base()
	cfg.WebTLS.Cert, cfg.WebTLS.Key, _ = ca.Write(dir, first)
	var late atomic.Int64
	g, log, events := running(t, cfg, func() time.Time { return time.Now().Add(time.Duration(late.Load())) })
	ca.Write(dir, later)
	eventually(t, "the alarm", func() bool {
		return len(g.Alarms()) == 1 && strings.Contains(g.Alarms()[0], "the clock of this machine")
	})
	if g.web.get().cert.Leaf.SerialNumber.Cmp(first.TLS.Leaf.SerialNumber) != 0 {
		t.Error("it is in use before it is good")
	}
	late.Store(int64(3 * time.Hour))
	eventually(t, "it is in use", func() bool { return g.web.get().cert.Leaf.SerialNumber.Cmp(later.TLS.Leaf.SerialNumber) == 0 })
	eventually(t, "the end of the alarm", func() bool { return len(g.Alarms()) == 0 })
	if n := strings.Count(log.String(), "cannot be used"); n != 1 || len(events()) > 2 {
		t.Errorf("%d lines about it, events %q", n, events())
	}
}
