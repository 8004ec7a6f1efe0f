package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"raftmaster/cluster/config"
)

// tlsFlags say how masters over HTTPS are trusted, and what is shown to them.
type tlsFlags struct {
	cacert, cert, key, serverName string
	insecure                      bool
	// named: a flag was given, and not only a variable.
	named bool
}

// tlsVariables are the flags' environment variables. There is none for --insecure: nobody should forget that it is on.
var tlsVariables = map[string]string{"cacert": "RAFTCTL_CACERT", "cert": "RAFTCTL_CERT", "key": "RAFTCTL_KEY", "server-name": "RAFTCTL_SERVER_NAME"}

func (f *tlsFlags) register(cmd *cobra.Command) {
	fs := cmd.PersistentFlags()
	fs.StringVar(&f.cacert, "cacert", "", "PEM file with the authority of the masters' certificates (RAFTCTL_CACERT; default: those of this machine)")
	fs.StringVar(&f.cert, "cert", "", "PEM file with a certificate for masters that ask for one (RAFTCTL_CERT)")
	fs.StringVar(&f.key, "key", "", "PEM file with its key (RAFTCTL_KEY)")
	fs.StringVar(&f.serverName, "server-name", "", "name that the masters' certificates must have (RAFTCTL_SERVER_NAME; default: the host of each URL)")
	fs.BoolVar(&f.insecure, "insecure", false, "believe any certificate: whoever is in between can read the token and give orders")
}

// fromEnvironment fills in what no flag has given.
func (f *tlsFlags) fromEnvironment(cmd *cobra.Command, lookup func(string) (string, bool)) {
	for name, field := range map[string]*string{"cacert": &f.cacert, "cert": &f.cert, "key": &f.key, "server-name": &f.serverName} {
		if flag := cmd.Flags().Lookup(name); flag == nil || !flag.Changed {
			v, _ := lookup(tlsVariables[name])
			*field = strings.TrimSpace(v)
		} else {
			f.named = true
		}
	}
	f.named = f.named || f.insecure
}

// given: something was said about TLS, so that endpoints without a scheme are meant to be https.
func (f *tlsFlags) given() bool { return *f != tlsFlags{} }

// config reads the files.
func (f *tlsFlags) config() (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: f.serverName, InsecureSkipVerify: f.insecure}
	if f.insecure && (f.cacert != "" || f.serverName != "") {
		return nil, coded(exitUsage, "--insecure believes any certificate, so that --cacert and --server-name mean nothing: leave it out")
	}
	if (f.cert == "") != (f.key == "") {
		return nil, coded(exitUsage, "--cert and --key belong together: one of them is not given")
	}
	if f.cacert != "" {
		data, err := os.ReadFile(f.cacert)
		if err != nil {
			return nil, coded(exitUsage, "--cacert cannot be read: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(data) {
			return nil, coded(exitUsage, "--cacert %s holds no certificate in PEM form", f.cacert)
		}
	}
	if f.cert != "" {
		pair, err := clientPair(f.cert, f.key)
		if err != nil {
			return nil, coded(exitUsage, "%w", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

const maxKeyBytes = 1 << 20

func clientPair(cert, key string) (tls.Certificate, error) {
	certPEM, err := os.ReadFile(cert)
	if err != nil {
		return tls.Certificate{}, errors.Join(errors.New("--cert cannot be read"), err)
	}
	keyPEM, err := config.ReadSecretFile(key, maxKeyBytes)
	if err != nil {
		return tls.Certificate{}, errors.Join(errors.New("--key is of no use"), err)
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return tls.Certificate{}, errors.Join(errors.New("--cert "+cert+" with --key "+key), err)
	}
	return pair, nil
}

// check refuses flags that protect nothing, and is loud about one that takes protection away.
func (f *tlsFlags) check(a *app, endpoints []string) error {
	https := false
	for _, e := range endpoints {
		https = https || strings.HasPrefix(e, "https://")
	}
	if f.named && !https {
		return coded(exitUsage, "--cacert, --cert, --key, --server-name and --insecure are for https:// endpoints, and all of these are http://: %s", strings.Join(endpoints, ", "))
	}
	if f.insecure {
		a.note("raftctl: WARNING: --insecure: the masters' certificates are not checked; whoever is in between can read the token and everything else, and answer in their place")
	}
	return nil
}

// wants remembers which masters want a token for reading, too.
type wants struct {
	mu    sync.Mutex
	hosts map[string]bool
}

func (w *wants) has(host string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.hosts[host]
}

func (w *wants) add(host string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.hosts == nil {
		w.hosts = make(map[string]bool)
	}
	w.hosts[host] = true
}

// send makes a call to a master. The token is only shown where it is needed: to change something, and to read where the
// master has asked for it.
func (c *client) send(req *http.Request) (*http.Response, error) {
	return withToken(req, c.token, c.wants, c.http.Do)
}

func withToken(req *http.Request, token string, w *wants, do func(*http.Request) (*http.Response, error)) (*http.Response, error) {
	reading := req.Method == http.MethodGet || req.Method == http.MethodHead
	if token == "" {
		return do(req)
	}
	if !reading || w.has(req.URL.Host) {
		req.Header.Set("Authorization", "Bearer "+token)
		return do(req)
	}
	resp, err := do(req)
	if err != nil || resp.StatusCode != http.StatusUnauthorized {
		return resp, err
	}
	_, _ = io.CopyN(io.Discard, resp.Body, 4<<10) // it only says that a token is needed
	if err := resp.Body.Close(); err != nil {
		return nil, err
	}
	w.add(req.URL.Host)
	again := req.Clone(req.Context())
	again.Header.Set("Authorization", "Bearer "+token)
	return do(again)
}

// elsewhere is how other packages talk to masters and to what those name: as this client does, but the token is for the
// endpoints alone, never for the page of a worker.
type elsewhere struct {
	c    *client
	base *http.Transport
}

func (c *client) elsewhere() http.RoundTripper {
	t, ok := c.http.Transport.(*http.Transport)
	if !ok {
		return c.http.Transport
	}
	return &elsewhere{c: c, base: t.Clone()}
}

// RoundTrip implements http.RoundTripper.
func (e *elsewhere) RoundTrip(req *http.Request) (*http.Response, error) {
	token := ""
	for _, endpoint := range e.c.endpoints {
		if u, err := url.Parse(endpoint); err == nil && u.Host == req.URL.Host && u.Scheme == req.URL.Scheme {
			token = e.c.token
		}
	}
	return withToken(req.Clone(req.Context()), token, e.c.wants, e.base.RoundTrip)
}

// CloseIdleConnections is called by http.Client.
func (e *elsewhere) CloseIdleConnections() { e.base.CloseIdleConnections() }

// tlsHint says what helps against a failed TLS connection, "" when that was not it.
func tlsHint(err error) string {
	var unknown x509.UnknownAuthorityError
	var host x509.HostnameError
	var invalid x509.CertificateInvalidError
	switch {
	case errors.As(err, &unknown):
		return "give the authority of the masters' certificates with --cacert"
	case errors.As(err, &host):
		return "name the masters by a name of their certificates, or give that with --server-name"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "the certificate is not good at this moment (" + time.Now().UTC().Format(time.RFC3339) + "): replace the master's file, no restart is needed"
	case err != nil && strings.Contains(err.Error(), "server gave HTTP response to HTTPS client"):
		return "this master speaks plain HTTP: write http:// before that endpoint"
	case err != nil && strings.Contains(err.Error(), "tls: certificate required"):
		return "the masters want a certificate: give one with --cert and --key"
	case err != nil && strings.Contains(err.Error(), wantsHTTPS):
		return "write https:// before that endpoint"
	}
	return ""
}

// wantsHTTPS is what net/http answers to plain HTTP on an HTTPS port.
const wantsHTTPS = "Client sent an HTTP request to an HTTPS server."
