package raftnet

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Magic is the first byte of every internal connection; transport/portmux sorts connections by it.
const Magic byte = 0xA7

// ProtocolVersion is the second byte. It changes only when the handshake itself does.
const ProtocolVersion byte = 1

// Kind tells what a connection is for.
type Kind uint8

// The kinds of internal connections.
const (
	KindRaft  Kind = 1 // raft RPCs, hashicorp/raft's own stream
	KindWatch Kind = 2 // held open: its end is news, see watchmsg.go
	KindCall  Kind = 3 // one request and one answer
)

// String names the kind.
func (k Kind) String() string {
	switch k {
	case KindRaft:
		return "raft"
	case KindWatch:
		return "watch"
	case KindCall:
		return "call"
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// Hello is what either side of a connection says about itself first.
type Hello struct {
	Kind Kind
	// ClusterID is "" on a fresh node. NodeID lasts as long as the data directory, BootID as long as the process.
	ClusterID, NodeID, BootID string
	// Target is the node that the caller wants; "" takes anyone at that address.
	Target string
	// Address is the sender's own entry of the cluster list, Cluster the whole list, sorted.
	Address string
	Cluster []string
	// Fresh: the node has neither a cluster id nor any raft state.
	Fresh                    bool
	WebURL, RESTURL, Version string
	// LeaderID is the node that the sender takes for the leader, "" when it knows none.
	LeaderID string
	// TransferTo is the voter to which the sender is handing leadership over at this moment, "" when to none.
	TransferTo string
	// Level is the level of commands that the sender knows, UsedLevel the one that its cluster uses (fsm.Level); 0 from a
	// release that had no levels.
	Level, UsedLevel uint8
	// Refused is set in the answer of a node that does not want the connection, and says why.
	Refused string
}

// RefusedError is the answer of a node that did not want a connection.
type RefusedError struct {
	By     Hello
	Reason string
}

// Error names the node and its reason.
func (e *RefusedError) Error() string {
	return fmt.Sprintf("refused by node %q (%s, cluster %q): %s", e.By.NodeID, e.By.Address, e.By.ClusterID, e.Reason)
}

// ErrProtocol wraps every failure to understand the other side.
var ErrProtocol = errors.New("internal protocol")

// AppendHello encodes h, with the bytes that begin a connection.
func AppendHello(b []byte, h Hello) []byte {
	body := make([]byte, 0, 512)
	body = append(body, byte(h.Kind))
	for _, s := range []string{h.ClusterID, h.NodeID, h.BootID, h.Target, h.Address, h.WebURL, h.RESTURL, h.Version, h.Refused} {
		body = appendString(body, s)
	}
	body = appendBool(body, h.Fresh)
	list := h.Cluster[:min(len(h.Cluster), maxList)]
	body = binary.AppendUvarint(body, uint64(len(list)))
	for _, s := range list {
		body = appendString(body, s)
	}
	body = appendString(body, h.LeaderID)
	body = appendString(body, h.TransferTo)
	body = append(body, h.Level, h.UsedLevel)
	b = append(b, Magic, ProtocolVersion)
	b = binary.BigEndian.AppendUint32(b, uint32(len(body)))
	return append(b, body...)
}

// ReadHello reads what AppendHello wrote. It reads no byte beyond.
func ReadHello(r io.Reader) (Hello, error) {
	var head [6]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return Hello{}, err
	}
	if head[0] != Magic {
		return Hello{}, fmt.Errorf("%w: first byte %#x: not a master", ErrProtocol, head[0])
	}
	if head[1] != ProtocolVersion {
		return Hello{}, fmt.Errorf("%w: version %d, this release speaks version %d", ErrProtocol, head[1], ProtocolVersion)
	}
	n := binary.BigEndian.Uint32(head[2:])
	if n > maxHandshake {
		return Hello{}, fmt.Errorf("%w: handshake of %d bytes, at most %d are allowed", ErrProtocol, n, maxHandshake)
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(r, body); err != nil {
		return Hello{}, err
	}
	return parseHello(body)
}

func parseHello(body []byte) (Hello, error) {
	if len(body) == 0 {
		return Hello{}, fmt.Errorf("%w: empty handshake", ErrProtocol)
	}
	h := Hello{Kind: Kind(body[0])}
	f := fields{b: body[1:]}
	for _, p := range []*string{&h.ClusterID, &h.NodeID, &h.BootID, &h.Target, &h.Address, &h.WebURL, &h.RESTURL, &h.Version, &h.Refused} {
		*p = f.string()
	}
	h.Fresh = f.bool()
	n := f.uint()
	if f.err == nil && n > maxList {
		f.err = fmt.Errorf("cluster list of %d entries, at most %d are allowed", n, maxList)
	}
	for i := uint64(0); i < n && f.err == nil; i++ {
		h.Cluster = append(h.Cluster, f.string())
	}
	h.LeaderID, h.TransferTo = f.string(), f.string()
	if f.err == nil && len(f.b) > 0 { // what follows came later, and is not there in the word of an older release
		h.Level, h.UsedLevel = f.byte(), f.byte()
	}
	if f.err != nil {
		return Hello{}, fmt.Errorf("%w: handshake: %w", ErrProtocol, f.err)
	}
	return h, nil
}

// Dial connects to a master, whose host name is resolved anew each time, and exchanges handshakes. The answer comes
// back even when it is a refusal (*RefusedError). The connection is returned without deadlines.
func Dial(ctx context.Context, address string, mine Hello, faults Faults) (net.Conn, Hello, error) {
	return dial(ctx, address, mine, faults, nil)
}

func dial(ctx context.Context, address string, mine Hello, faults Faults, security *Security) (net.Conn, Hello, error) {
	if faults.Dial != nil {
		if err := faults.Dial(mine.Address, address); err != nil {
			return nil, Hello{}, err
		}
	}
	if err := faults.Valve.WaitDial(ctx, address); err != nil {
		return nil, Hello{}, err
	}
	var d net.Dialer
	raw, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, Hello{}, err
	}
	raw = faults.Valve.Wrap(raw, address)
	c, theirs, err := exchange(ctx, raw, address, mine, security)
	if err != nil {
		_ = raw.Close() // the exchange's error says more
		return nil, theirs, fmt.Errorf("%s connection to %s: %w", mine.Kind, address, err)
	}
	nameConn(c, theirs.NodeID, theirs.Address, address)
	return c, theirs, nil
}

// exchange gives the connection to go on with: over TLS, if there is security.
func exchange(ctx context.Context, c net.Conn, address string, mine Hello, security *Security) (net.Conn, Hello, error) {
	if c.LocalAddr().String() == c.RemoteAddr().String() {
		return nil, Hello{}, fmt.Errorf("connected to itself: %w", syscall.ECONNREFUSED) // TCP's simultaneous open: nobody listens there
	}
	deadline := time.Now().Add(handshakeTimeout)
	if d, ok := ctx.Deadline(); ok && d.Before(deadline) {
		deadline = d
	}
	if err := c.SetDeadline(deadline); err != nil {
		return nil, Hello{}, err
	}
	if security != nil {
		var err error
		if c, err = security.begin(c, address); err != nil {
			return nil, Hello{}, err
		}
	}
	if _, err := c.Write(AppendHello(nil, mine)); err != nil {
		return nil, Hello{}, err
	}
	theirs, err := ReadHello(c)
	if err != nil {
		if isAlert(err) {
			err = dialFailure(err)
		}
		return nil, Hello{}, err
	}
	if theirs.Refused != "" {
		return nil, theirs, &RefusedError{By: theirs, Reason: theirs.Refused}
	}
	return c, theirs, c.SetDeadline(time.Time{})
}

// Accept answers a handshake. judge gets what the caller said and gives this node's own Hello, with Refused set if the
// connection is not wanted; then Accept returns a *RefusedError and the caller must close the connection.
func Accept(c net.Conn, judge func(Hello) Hello) (Hello, error) {
	_, theirs, err := AcceptSecure(c, nil, judge)
	return theirs, err
}

// IsRefusedDial tells whether a dial failed because nobody listens there: proof that the process is gone, as far as the
// address is reached directly.
func IsRefusedDial(err error) bool { return errors.Is(err, syscall.ECONNREFUSED) }

// SameList tells whether two cluster lists have the same entries, in any order.
func SameList(a, b []string) bool {
	x, y := slices.Clone(a), slices.Clone(b)
	slices.Sort(x)
	slices.Sort(y)
	return slices.Equal(x, y)
}

// ListString prints a cluster list for a log line.
func ListString(list []string) string { return "[" + strings.Join(list, " ") + "]" }
