package raftnet

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"time"
)

// With TLS a connection begins with Magic, as every one does, so that transport/portmux can sort it; then follows TLS, and
// the handshake (Magic and all) is inside. The second byte tells the two apart: a version, or the type of a TLS record.

// tlsHandshakeRecord begins a TLS connection (RFC 8446, 5.1). It will never be a ProtocolVersion.
const tlsHandshakeRecord byte = 0x16

// Security is how masters prove to each other who they are: TLS 1.3, a certificate on both sides, one authority for all. A
// nil *Security means that they do not.
type Security struct {
	// Material gives this master's certificate and the authority as they are now. It is asked for each connection.
	Material func() (tls.Certificate, *x509.CertPool)
	// Name is in every master's certificate; "": each certificate is for the host of its master's address.
	Name string
	// Address is this master's own, which a caller without TLS is told together with the refusal.
	Address string
	// Optional lets masters without TLS in, and talks to them, while a cluster is being changed over.
	Optional bool
}

// Strict tells whether what a master says of its address is proven, and by the name in its own certificate.
func (s *Security) Strict() bool { return s != nil && !s.Optional && s.Name == "" }

// ErrNotProven wraps every failure of a connection because one side could not prove to be a master of this cluster, or
// because only one of them uses TLS.
var ErrNotProven = errors.New("not proven to be a master of this cluster")

// needsTLS is in the refusal that a master with TLS sends to one without.
const needsTLS = "takes TLS connections of masters alone"

// errPlain is a peer that answers without TLS, or ends the connection at its first record as releases without TLS do.
var errPlain = errors.New("it does not use TLS between masters")

// DisagreesOnTLS tells whether a connection failed because one side uses TLS between masters and the other does not. So a
// master is there.
func DisagreesOnTLS(err error) bool {
	var r *RefusedError
	return errors.Is(err, errPlain) || errors.As(err, &r) && strings.Contains(r.Reason, needsTLS)
}

// name is what the certificate of the master at an address must be for.
func (s *Security) name(address string) string {
	if s.Name != "" {
		return s.Name
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return address
	}
	return host
}

func (s *Security) client(address string) *tls.Config {
	cert, pool := s.Material()
	return &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: pool, ServerName: s.name(address),
		// Shown whatever the server says of the authorities that it knows: its refusal is then about the certificate.
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &cert, nil }}
}

func (s *Security) server() *tls.Config {
	cert, pool := s.Material()
	return &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{cert}, ClientCAs: pool,
		ClientAuth: tls.RequireAndVerifyClientCert, SessionTicketsDisabled: true}
}

// vouch refuses a caller whose certificate is not for the address that it claims.
func (s *Security) vouch(cert *x509.Certificate, address string) error {
	if err := cert.VerifyHostname(s.name(address)); err != nil {
		return fmt.Errorf("%w: %s claims to be the master %q: %w", ErrNotProven, cert.Subject, address, err)
	}
	return nil
}

// secureConn is a TLS connection that closes like a plain one: at once. The end of the conversation needs no proof, since
// every message has its length, and a goodbye to a peer that does not read would hold up its sender for seconds.
type secureConn struct {
	*tls.Conn
	raw net.Conn
}

// Close closes the connection below.
func (c *secureConn) Close() error { return c.raw.Close() }

// prefixConn reads what was read of a connection already, first.
type prefixConn struct {
	net.Conn
	prefix []byte
}

// NetConn is the connection below.
func (c *prefixConn) NetConn() net.Conn { return c.Conn }

func (c *prefixConn) Read(p []byte) (int, error) {
	if len(c.prefix) == 0 {
		return c.Conn.Read(p)
	}
	n := copy(p, c.prefix)
	c.prefix = c.prefix[n:]
	return n, nil
}

// DialSecure is Dial with TLS; a nil security is Dial.
func DialSecure(ctx context.Context, address string, mine Hello, faults Faults, security *Security) (net.Conn, Hello, error) {
	c, theirs, err := dial(ctx, address, mine, faults, security)
	if security != nil && security.Optional && errors.Is(err, errPlain) {
		return dial(ctx, address, mine, faults, nil)
	}
	return c, theirs, err
}

// begin starts TLS on a dialled connection. Deadlines are set.
func (s *Security) begin(c net.Conn, address string) (net.Conn, error) {
	if _, err := c.Write([]byte{Magic}); err != nil {
		return nil, err
	}
	t := tls.Client(c, s.client(address))
	if err := t.Handshake(); err != nil {
		return nil, dialFailure(err)
	}
	return &secureConn{t, c}, nil
}

// dialFailure says what the failure of a TLS handshake means.
func dialFailure(err error) error {
	var header tls.RecordHeaderError
	var verify *tls.CertificateVerificationError
	switch {
	case errors.As(err, &header):
		return fmt.Errorf("%w: %w: give all masters --cluster-tls-cert, or none", ErrNotProven, errPlain)
	case isEnded(err):
		return fmt.Errorf("%w: %w, or has just ended (%w)", ErrNotProven, errPlain, err)
	case errors.As(err, &verify):
		return fmt.Errorf("%w: its certificate: %w", ErrNotProven, verify.Err)
	case isAlert(err):
		return fmt.Errorf("%w: it does not accept this master's certificate: %w", ErrNotProven, err)
	}
	return err
}

// isAlert tells whether the other side has ended TLS and said why. With TLS 1.3 a server's judgement of the client's
// certificate arrives after the client's handshake is done.
func isAlert(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "remote error"
}

// AcceptSecure is Accept with TLS: it gives the connection to go on with. A nil security is Accept.
func AcceptSecure(c net.Conn, security *Security, judge func(Hello) Hello) (net.Conn, Hello, error) {
	if err := c.SetDeadline(time.Now().Add(handshakeTimeout)); err != nil {
		return nil, Hello{}, err
	}
	var head [2]byte
	if _, err := io.ReadFull(c, head[:]); err != nil {
		return nil, Hello{}, err
	}
	encrypted := head[0] == Magic && head[1] == tlsHandshakeRecord
	switch {
	case encrypted && security == nil:
		refuse(c, Hello{Refused: "this master does not use TLS between masters"})
		return nil, Hello{}, fmt.Errorf("%w: the caller uses TLS between masters, and this master does not: give all masters --cluster-tls-cert, or none", ErrNotProven)
	case encrypted:
		return security.accept(&prefixConn{c, head[1:]}, judge)
	}
	theirs, err := ReadHello(&prefixConn{c, head[:]})
	if err != nil {
		return nil, Hello{}, err
	}
	if security != nil && !security.Optional {
		why := fmt.Sprintf("this master (%s) %s, and the caller (%s) does not use TLS: give all masters --cluster-tls-cert, or none", security.Address, needsTLS, theirs.Address)
		refuse(c, Hello{Kind: theirs.Kind, Address: security.Address, Refused: why})
		return nil, theirs, fmt.Errorf("%w: %s", ErrNotProven, why)
	}
	return answer(c, theirs, judge)
}

// accept serves TLS. A caller is told why it is refused only once its certificate is good; then, too, it learns nothing
// about the cluster.
func (s *Security) accept(c *prefixConn, judge func(Hello) Hello) (net.Conn, Hello, error) {
	t := tls.Server(c, s.server())
	if err := t.Handshake(); err != nil {
		if isEnded(err) || errors.Is(err, syscall.ETIMEDOUT) || isTimeout(err) {
			return nil, Hello{}, err
		}
		settle(c)
		return nil, Hello{}, fmt.Errorf("%w: TLS: %w", ErrNotProven, err)
	}
	sc := &secureConn{t, c}
	theirs, err := ReadHello(sc)
	if err != nil {
		return nil, Hello{}, err
	}
	if err := s.vouch(t.ConnectionState().PeerCertificates[0], theirs.Address); err != nil {
		refuse(sc, Hello{Kind: theirs.Kind, Refused: err.Error()})
		return nil, theirs, err
	}
	return answer(sc, theirs, judge)
}

// answer completes a handshake whose caller may speak.
func answer(c net.Conn, theirs Hello, judge func(Hello) Hello) (net.Conn, Hello, error) {
	nameConn(c, theirs.NodeID, theirs.Address)
	mine := judge(theirs)
	mine.Kind = theirs.Kind
	if _, err := c.Write(AppendHello(nil, mine)); err != nil {
		return nil, theirs, err
	}
	if mine.Refused != "" {
		return nil, theirs, &RefusedError{By: mine, Reason: mine.Refused}
	}
	return c, theirs, c.SetDeadline(time.Time{})
}

// refuse sends a refusal. That it arrives is not certain, and the refusal stands without.
func refuse(c net.Conn, h Hello) {
	if _, err := c.Write(AppendHello(nil, h)); err == nil {
		settle(c)
	}
}

// settleTime and settleBytes bound how long a refused caller may go on talking.
const (
	settleTime  = 200 * time.Millisecond
	settleBytes = 64 << 10
)

// settle reads what a refused caller still sends: to close with unread input resets the connection, which can overtake what
// was written last, and so the reason.
func settle(c net.Conn) {
	if c.SetReadDeadline(time.Now().Add(settleTime)) == nil {
		if s, ok := c.(*secureConn); ok {
			c = s.raw
		}
		_, _ = io.CopyN(io.Discard, c, settleBytes) // until the caller has understood, or the time is over
	}
}

func isTimeout(err error) bool {
	var t interface{ Timeout() bool }
	return errors.As(err, &t) && t.Timeout()
}
