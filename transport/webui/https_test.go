package webui

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"raftmaster/transport/certtest"
)

func serveTLS(t *testing.T, config *tls.Config, log hclog.Logger) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := newFixture(leaderStatus())
	s := StartTLS(ln, config, NewHandler(f.opts), log)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			t.Error(err)
		}
	})
	return s.Addr().String()
}

func TestHTTPSServesAndSaysSoToPlainCallers(t *testing.T) {
	ca := certtest.New(t, "ca")
	log := &lockedLog{}
	addr := serveTLS(t, &tls.Config{Certificates: []tls.Certificate{ca.Issue(nil, "127.0.0.1").TLS}, NextProtos: []string{"http/1.1"}},
		hclog.New(&hclog.LoggerOptions{Output: log}))
	get := func(url string, roots *x509.CertPool) (int, string, error) {
		client := &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{DisableKeepAlives: true, ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: roots}}}
		resp, err := client.Get(url)
		if err != nil {
			return 0, "", err
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		return resp.StatusCode, string(body), err
	}
	if code, body, err := get("https://"+addr+"/v1/status", ca.Pool); code != http.StatusOK || !strings.Contains(body, "cluster_id") {
		t.Errorf("%d %s %v", code, body, err)
	}
	if _, _, err := get("https://"+addr+"/healthz", x509.NewCertPool()); err == nil || !strings.Contains(err.Error(), "unknown authority") {
		t.Errorf("a caller that does not trust the certificate: %v", err)
	}
	if code, body, err := get("http://"+addr+"/healthz", nil); code != http.StatusBadRequest || strings.TrimSpace(body) != "Client sent an HTTP request to an HTTPS server." {
		t.Errorf("plain HTTP: %d %q %v", code, body, err)
	}
	for range 20 {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprint(c, "\x16\x03\x01\x00\x05hello")
		_, _ = bufio.NewReader(c).ReadByte() // the alert, or the end
		c.Close()
	}
	if n := strings.Count(log.String(), "TLS handshake failed"); n != 1 {
		t.Errorf("%d lines for many failed handshakes:\n%s", n, log)
	}
}

// TestTLSCostsTheSamePlaces: a connection that never begins its handshake has one, and is closed in time by the server.
func TestTLSCostsTheSamePlaces(t *testing.T) {
	ca := certtest.New(t, "ca")
	addr := serveTLS(t, &tls.Config{Certificates: []tls.Certificate{ca.Issue(nil, "127.0.0.1").TLS}}, hclog.NewNullLogger())
	var open []net.Conn
	defer func() {
		for _, c := range open {
			c.Close()
		}
	}()
	for range maxConnsPerIP {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, c)
	}
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Read(make([]byte, 1)); err == nil || strings.Contains(err.Error(), "timeout") {
		t.Errorf("one more connection: %v", err)
	}
}

// lockedLog keeps what several goroutines write.
type lockedLog struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *lockedLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
