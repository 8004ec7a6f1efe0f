package security

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"time"

	"raftmaster/cluster/config"
)

// material is a certificate with its key, and the authorities that callers' certificates must come from.
type material struct {
	cert tls.Certificate
	// pool is nil when callers need none.
	pool *x509.CertPool
	// from and until are when all certificates that count are good.
	from, until time.Time
	// server is the configuration of a server with them, made once.
	server *tls.Config
	// mismatch: the certificate is not for the name by which others are told of this port; "" when it is.
	mismatch string
}

// alarmAt is when the end of the certificates becomes a matter for an operator: a month before, or, of short-lived ones,
// when two thirds of their time are over.
func (m *material) alarmAt() time.Time {
	return m.until.Add(-min(30*24*time.Hour, m.until.Sub(m.from)/3))
}

// certificate makes the live value of one use. judge may add what that use demands.
func certificate(what string, f config.TLSFiles, now func() time.Time, judge func(*material) error) *live[material] {
	files := []file{{path: f.Cert}, {path: f.Key, secret: true}}
	if f.CA != "" {
		files = append(files, file{path: f.CA})
	}
	return &live[material]{what: what, files: files, parse: func(contents [][]byte) (*material, error) {
		m, err := parsePair(f, contents)
		if err != nil {
			return nil, err
		}
		if f.CA != "" {
			if m.pool, err = parseAuthorities(contents[2]); err != nil {
				return nil, fmt.Errorf("%s: %w", f.CA, err)
			}
		}
		if err := judge(m); err != nil {
			return nil, fmt.Errorf("%s: %w", f.Cert, err)
		}
		switch t := now(); {
		case t.After(m.until):
			return nil, fmt.Errorf("%s: the certificate has expired, on %s", f.Cert, m.until.UTC().Format(time.RFC3339))
		case t.Before(m.from):
			return nil, fmt.Errorf("%s: the certificate is good from %s on only: is the clock of this machine right?", f.Cert, m.from.UTC().Format(time.RFC3339))
		}
		return m, nil
	}}
}

func parsePair(f config.TLSFiles, contents [][]byte) (*material, error) {
	if b, _ := pem.Decode(contents[0]); b == nil {
		return nil, fmt.Errorf("%s: it holds nothing in PEM form", f.Cert)
	}
	cert, err := tls.X509KeyPair(contents[0], contents[1])
	if err != nil {
		return nil, fmt.Errorf("%s with %s: %w", f.Cert, f.Key, err)
	}
	m := &material{cert: cert}
	for i, der := range cert.Certificate {
		c, err := x509.ParseCertificate(der)
		if err != nil {
			return nil, fmt.Errorf("%s: certificate %d: %w", f.Cert, i+1, err)
		}
		m.within(c)
	}
	return m, nil
}

// within narrows down when the material is good.
func (m *material) within(c *x509.Certificate) {
	if m.from.IsZero() || c.NotBefore.After(m.from) {
		m.from = c.NotBefore
	}
	if m.until.IsZero() || c.NotAfter.Before(m.until) {
		m.until = c.NotAfter
	}
}

func parseAuthorities(data []byte) (*x509.CertPool, error) {
	pool, n := x509.NewCertPool(), 0
	for {
		var b *pem.Block
		if b, data = pem.Decode(data); b == nil {
			break
		}
		if b.Type != "CERTIFICATE" {
			continue
		}
		c, err := x509.ParseCertificate(b.Bytes)
		if err != nil {
			return nil, fmt.Errorf("certificate %d: %w", n+1, err)
		}
		if !c.IsCA {
			return nil, fmt.Errorf("certificate %d (%s) is no authority's", n+1, c.Subject)
		}
		pool.AddCert(c)
		n++
	}
	if n == 0 {
		return nil, errors.New("it holds no certificate in PEM form")
	}
	return pool, nil
}

// judgeMaster refuses a certificate that the other masters would refuse: it must be good for both ends of a connection,
// from their authority, and have the name that they look for.
func judgeMaster(name string) func(*material) error {
	return func(m *material) error {
		intermediates := x509.NewCertPool()
		for _, der := range m.cert.Certificate[1:] {
			if c, err := x509.ParseCertificate(der); err == nil { // parsePair has tried it
				intermediates.AddCert(c)
			}
		}
		for use, usage := range map[string]x509.ExtKeyUsage{"servers (serverAuth)": x509.ExtKeyUsageServerAuth, "clients (clientAuth)": x509.ExtKeyUsageClientAuth} {
			chains, err := m.cert.Leaf.Verify(x509.VerifyOptions{Roots: m.pool, Intermediates: intermediates, KeyUsages: []x509.ExtKeyUsage{usage},
				CurrentTime: m.from.Add(time.Second)}) // whether it is good now is judged with words of its own
			if err != nil {
				return fmt.Errorf("it is not good for %s between masters: %w", use, err)
			}
			for _, c := range chains[0] {
				m.within(c)
			}
		}
		if err := m.cert.Leaf.VerifyHostname(name); err != nil {
			return fmt.Errorf("the other masters would refuse it: %w", err)
		}
		return nil
	}
}

// judgeServer prepares the configuration of an HTTPS port; host is the name by which others are told of it.
func judgeServer(host string) func(*material) error {
	return func(m *material) error {
		m.server = &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{m.cert}, NextProtos: []string{"http/1.1"},
			// A session that is taken up again would outlive the authority that it was begun with.
			SessionTicketsDisabled: true}
		if m.pool != nil {
			m.server.ClientAuth, m.server.ClientCAs = tls.RequireAndVerifyClientCert, m.pool
		}
		if err := m.cert.Leaf.VerifyHostname(host); err != nil {
			m.mismatch = err.Error()
		}
		return nil
	}
}

// serverConfig gives each new connection the certificates of its moment.
func serverConfig(l *live[material]) *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"},
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return l.get().server, nil }}
}
