package raftnet

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"raftmaster/transport/certtest"
)

// server answers handshakes; what it is told after one it sends back.
type server struct {
	addr string
	errs chan error
}

func serve(t *testing.T, security func(addr string) *Security) *server {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &server{addr: ln.Addr().String(), errs: make(chan error, 64)}
	sec := security(s.addr)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			inner, _, err := AcceptSecure(c, sec, func(Hello) Hello { return Hello{NodeID: "server", ClusterID: "c", Address: s.addr} })
			s.errs <- err
			if err == nil {
				_, _ = io.Copy(inner, inner) // until the caller ends it
				_ = inner.Close()
			}
			_ = c.Close()
		}
	}()
	t.Cleanup(func() {
		ln.Close()
		<-done
	})
	return s
}

func material(ca *certtest.Authority, names ...string) func() (tls.Certificate, *x509.CertPool) {
	cert := ca.Issue(nil, names...)
	return func() (tls.Certificate, *x509.CertPool) { return cert.TLS, ca.Pool }
}

func off(string) *Security { return nil }

// TestSecureHandshakes: who talks to whom, over what, and what both sides say when they do not.
func TestSecureHandshakes(t *testing.T) {
	ca, other := certtest.New(t, "ca"), certtest.New(t, "other")
	own, optional := material(ca, "127.0.0.1"), func(s *Security) *Security { s.Optional = true; return s }
	at := func(m func() (tls.Certificate, *x509.CertPool)) func(string) *Security {
		return func(addr string) *Security { return &Security{Material: m, Address: addr} }
	}
	maybe := func(addr string) *Security { return optional(at(own)(addr)) }
	named := func(m func() (tls.Certificate, *x509.CertPool)) func(string) *Security {
		return func(addr string) *Security { return &Security{Material: m, Address: addr, Name: "masters"} }
	}
	for name, tc := range map[string]struct {
		server, client func(string) *Security
		encrypted      bool
		// clientSays and serverSays are in their errors; "" is no error.
		clientSays, serverSays string
	}{
		"neither":                 {off, off, false, "", ""},
		"both":                    {at(own), at(own), true, "", ""},
		"optional, both":          {maybe, maybe, true, "", ""},
		"required to optional":    {maybe, at(own), true, "", ""},
		"optional to required":    {at(own), maybe, true, "", ""},
		"optional to plain":       {off, maybe, false, "", "give all masters --cluster-tls-cert"},
		"plain to optional":       {maybe, off, false, "", ""},
		"plain to required":       {at(own), off, false, "takes TLS connections of masters alone", "the caller (127.0.0.1:7) does not use TLS"},
		"required to plain":       {off, at(own), false, "it does not use TLS between masters", "this master does not"},
		"server of another CA":    {at(material(other, "127.0.0.1")), at(own), false, "its certificate: x509", "bad certificate"},
		"client of another CA":    {at(own), at(func() (tls.Certificate, *x509.CertPool) { c, _ := material(other, "127.0.0.1")(); return c, ca.Pool }), false, "does not accept this master's certificate", "unknown authority"},
		"client without":          {at(own), at(func() (tls.Certificate, *x509.CertPool) { return tls.Certificate{}, ca.Pool }), false, "does not accept this master's certificate", "didn't provide a certificate"},
		"server for another host": {at(material(ca, "127.0.0.2")), at(own), false, "127.0.0.1", "bad certificate"},
		"client for another host": {at(own), at(material(ca, "127.0.0.2")), false, "claims to be the master", "claims to be the master"},
		"one name":                {named(material(ca, "masters")), named(material(ca, "masters")), true, "", ""},
		"not that name":           {named(material(ca, "masters")), named(own), false, "claims to be the master", "claims to be the master"},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, tc.server)
			ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
			defer cancel()
			c, theirs, err := DialSecure(ctx, s.addr, Hello{Kind: KindWatch, NodeID: "client", Address: "127.0.0.1:7"}, Faults{}, tc.client("127.0.0.1:7"))
			if (err == nil) != (tc.clientSays == "") || err != nil && !strings.Contains(err.Error(), tc.clientSays) {
				t.Errorf("the caller: %v, want %q", err, tc.clientSays)
			}
			if serverErr := <-s.errs; (serverErr == nil) != (tc.serverSays == "") || serverErr != nil && !strings.Contains(serverErr.Error(), tc.serverSays) {
				t.Errorf("the other side: %v, want %q", serverErr, tc.serverSays)
			}
			if err != nil {
				if theirs.NodeID+theirs.ClusterID != "" {
					t.Errorf("a refused caller learns %+v", theirs)
				}
				if IsRefusedDial(err) {
					t.Error("it is taken for a process that is gone")
				}
				return
			}
			if _, secure := c.(*secureConn); secure != tc.encrypted {
				t.Errorf("encrypted: %v", secure)
			}
			if theirs.NodeID != "server" {
				t.Errorf("%+v", theirs)
			}
			echo(t, c)
		})
	}
}

// echo uses a connection, and closes it.
func echo(t *testing.T, c net.Conn) {
	t.Helper()
	if _, err := c.Write([]byte("echo")); err != nil {
		t.Error(err)
	}
	back := make([]byte, 4)
	if _, err := io.ReadFull(c, back); err != nil || string(back) != "echo" {
		t.Errorf("%q %v", back, err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// TestNewConnectionsUseTheNewAuthority: certificates change under way, first the authorities, then the certificates.
func TestNewConnectionsUseTheNewAuthority(t *testing.T) {
	first, second := certtest.New(t, "first"), certtest.New(t, "second")
	both := x509.NewCertPool()
	both.AppendCertsFromPEM(first.PEM)
	both.AppendCertsFromPEM(second.PEM)
	type used struct {
		cert tls.Certificate
		pool *x509.CertPool
	}
	var now atomic.Pointer[used]
	sec := &Security{Material: func() (tls.Certificate, *x509.CertPool) { u := now.Load(); return u.cert, u.pool }}
	old, next := first.Issue(nil, "127.0.0.1").TLS, second.Issue(nil, "127.0.0.1").TLS
	now.Store(&used{old, first.Pool})
	s := serve(t, func(string) *Security { return sec })
	dial := func(as *Security) (net.Conn, error) {
		c, _, err := DialSecure(context.Background(), s.addr, Hello{Kind: KindCall, Address: "127.0.0.1:7"}, Faults{}, as)
		return c, err
	}
	for _, step := range []used{{old, both}, {next, both}, {next, second.Pool}} {
		now.Store(&step)
		c, err := dial(sec)
		if err != nil {
			t.Fatal(err)
		}
		c.Close()
	}
	if _, err := dial(&Security{Material: func() (tls.Certificate, *x509.CertPool) { return old, both }}); !errors.Is(err, ErrNotProven) {
		t.Errorf("the old certificate: %v", err)
	}
}

// TestTLSVersionsBelow13AreRefused and garbage behind the first bytes ends the connection.
func TestTLSVersionsBelow13AreRefused(t *testing.T) {
	ca := certtest.New(t, "ca")
	s := serve(t, func(addr string) *Security { return &Security{Material: material(ca, "127.0.0.1"), Address: addr} })
	raw, err := net.Dial("tcp", s.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	if _, err := raw.Write([]byte{Magic}); err != nil {
		t.Fatal(err)
	}
	err = tls.Client(raw, &tls.Config{RootCAs: ca.Pool, ServerName: "127.0.0.1", MaxVersion: tls.VersionTLS12}).Handshake()
	if err == nil || !strings.Contains(err.Error(), "protocol version") {
		t.Errorf("TLS 1.2: %v", err)
	}
	if err := <-s.errs; !errors.Is(err, ErrNotProven) {
		t.Errorf("%v", err)
	}
	for _, garbage := range [][]byte{{Magic, tlsHandshakeRecord, 3, 1, 0, 4, 1, 2, 3, 4}, bytes.Repeat([]byte{Magic, tlsHandshakeRecord}, 100), {Magic, 99, 0}, {0x16, 3}} {
		c, err := net.Dial("tcp", s.addr)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Write(garbage); err != nil {
			t.Fatal(err)
		}
		if err := c.(*net.TCPConn).CloseWrite(); err != nil && !errors.Is(err, syscall.ENOTCONN) {
			t.Error(err)
		}
		if err := <-s.errs; err == nil {
			t.Errorf("%x is let in", garbage)
		}
		c.Close()
	}
}
