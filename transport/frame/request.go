package frame

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"raftmaster/transport/javaser/mutf8"
)

// Address is where a process listens (org.apache.spark.rpc.RpcAddress). Hosts are kept as the peer wrote them.
type Address struct {
	Host string
	Port int32 // 0..65535 in practice; the wire allows any int32
}

// String returns host:port. An IPv6 host gets brackets unless it has them already: Spark's processes may write either.
func (a Address) String() string {
	if strings.HasPrefix(a.Host, "[") {
		return a.Host + ":" + strconv.Itoa(int(a.Port))
	}
	return net.JoinHostPort(a.Host, strconv.Itoa(int(a.Port)))
}

// Request is the body of an RPCRequest or OneWayMessage (NettyRpcEnv.scala, RequestMessage).
type Request struct {
	// Sender is the listening address of the sending process; nil for processes without a server (executors).
	Sender *Address
	// Receiver is what the sender believes our address to be, or nil. Dispatch by Endpoint, not by this.
	Receiver *Address
	// Endpoint is the name of the addressed endpoint: "Master", "Worker", "AppClient", "endpoint-verifier"...
	Endpoint string
	// Content is one Java serialization stream. After ParseRequest it aliases the parsed body.
	Content []byte
}

// RequestError reports a malformed RequestMessage. It never holds bytes of the message.
type RequestError struct {
	Offset int    // in the body
	Field  string // which part was being read
	Reason string
}

func (e *RequestError) Error() string {
	return fmt.Sprintf("frame: request %s at offset %d: %s", e.Field, e.Offset, e.Reason)
}

// ParseRequest parses a RequestMessage. It returns a *RequestError for malformed input.
func ParseRequest(body []byte) (Request, error) {
	p := parser{b: body}
	var req Request
	req.Sender = p.address("sender")
	req.Receiver = p.address("receiver")
	req.Endpoint = p.utf("endpoint")
	if p.err == nil && p.off == len(body) {
		p.fail("content", "is empty")
	}
	if p.err != nil {
		return Request{}, p.err
	}
	req.Content = body[p.off:len(body):len(body)]
	return req, nil
}

// AppendRequest appends r in wire form to dst. Names longer than 65535 bytes cannot be written; it panics on them,
// because names come from our own configuration or from a parsed, bounded message.
func AppendRequest(dst []byte, r Request) []byte {
	dst = appendAddress(dst, r.Sender)
	dst = appendAddress(dst, r.Receiver)
	dst = appendUTF(dst, r.Endpoint)
	return append(dst, r.Content...)
}

func appendAddress(dst []byte, a *Address) []byte {
	if a == nil {
		return append(dst, 0)
	}
	dst = appendUTF(append(dst, 1), a.Host)
	return binary.BigEndian.AppendUint32(dst, uint32(a.Port))
}

func appendUTF(dst []byte, s string) []byte {
	at := len(dst)
	dst = mutf8.Append(append(dst, 0, 0), s)
	n := len(dst) - at - 2
	if n > 1<<16-1 {
		panic("frame: name of " + strconv.Itoa(n) + " bytes")
	}
	binary.BigEndian.PutUint16(dst[at:], uint16(n))
	return dst
}

// parser reads a RequestMessage; the first error sticks.
type parser struct {
	b   []byte
	off int
	err error
}

func (p *parser) fail(field, reason string) {
	if p.err == nil {
		p.err = &RequestError{Offset: p.off, Field: field, Reason: reason}
	}
}

func (p *parser) take(n int, field string) []byte {
	if p.err != nil {
		return nil
	}
	if n > len(p.b)-p.off {
		p.fail(field, "ends early")
		return nil
	}
	b := p.b[p.off : p.off+n]
	p.off += n
	return b
}

func (p *parser) address(field string) *Address {
	flag := p.take(1, field)
	if p.err != nil {
		return nil
	}
	switch flag[0] {
	case 0:
		return nil
	case 1:
	default:
		p.fail(field, "presence byte is neither 0 nor 1")
		return nil
	}
	host := p.utf(field)
	port := p.take(4, field)
	if p.err != nil {
		return nil
	}
	return &Address{Host: host, Port: int32(binary.BigEndian.Uint32(port))}
}

func (p *parser) utf(field string) string {
	size := p.take(2, field)
	if p.err != nil {
		return ""
	}
	n := int(binary.BigEndian.Uint16(size))
	if n > maxNameBytes {
		p.fail(field, "name of "+strconv.Itoa(n)+" bytes is too long")
		return ""
	}
	raw := p.take(n, field)
	if p.err != nil {
		return ""
	}
	s, err := mutf8.Decode(raw)
	if err != nil {
		var bad *mutf8.Error
		if errors.As(err, &bad) {
			p.off += bad.Offset - n
		}
		p.fail(field, "is not modified UTF-8")
		return ""
	}
	return s
}
