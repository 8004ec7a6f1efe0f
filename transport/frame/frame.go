package frame

import (
	"encoding/binary"
	"fmt"
)

// Type is the message type byte of a frame (Spark: network-common, Message.Type).
type Type uint8

// The message types of the deploy protocol. All other types (chunks, streams, uploads) never reach a master.
const (
	RPCRequest    Type = 3 // an ask; must be answered with RPCResponse or RPCFailure under the same request id
	RPCResponse   Type = 4 // the answer to an ask: one Java stream
	RPCFailure    Type = 5 // the failed answer to an ask: plain UTF-8 text
	OneWayMessage Type = 9 // a send; has no request id
)

// String returns Spark's name of the type.
func (t Type) String() string {
	switch t {
	case RPCRequest:
		return "RpcRequest"
	case RPCResponse:
		return "RpcResponse"
	case RPCFailure:
		return "RpcFailure"
	case OneWayMessage:
		return "OneWayMessage"
	}
	return fmt.Sprintf("Type(%d)", uint8(t))
}

// Sizes in bytes.
const (
	lengthSize    = 8                    // the frame length
	preambleSize  = lengthSize + 1       // the length and the type
	oneWayHeader  = preambleSize + 4     // and bodySize
	requestHeader = preambleSize + 8 + 4 // and requestId, bodySize
	minFrame      = oneWayHeader         // the shortest frame that can be valid
	absoluteMax   = int64(1)<<31 - 1     // Spark refuses longer frames (TransportFrameDecoder)
	firstChunk    = 4 << 10              // what a declared length may allocate before any byte arrives
	maxNameBytes  = 1 << 10              // host and endpoint names in a RequestMessage, modified UTF-8
	DefaultMax    = 1 << 20              // limit of a new Reader: 1 MiB, for peers that have not registered
	RegisteredMax = 16 << 20             // limit to set once a peer has registered: 16 MiB
)

// Frame is one message of the transport.
type Frame struct {
	Type Type
	// RequestID pairs an answer with its ask on one connection; 0 in a OneWayMessage. Spark draws positive numbers.
	RequestID int64
	// Body is a RequestMessage (RPCRequest, OneWayMessage), a Java stream (RPCResponse) or UTF-8 text (RPCFailure).
	Body []byte
}

// Append appends f in wire form to dst and returns the extended slice. It panics if f.Type is not one of the four
// constants: that is a programming error, no input reaches it.
func Append(dst []byte, f Frame) []byte {
	switch f.Type {
	case RPCRequest, RPCResponse, RPCFailure:
		dst = binary.BigEndian.AppendUint64(dst, uint64(requestHeader+len(f.Body)))
		dst = append(dst, byte(f.Type))
		dst = binary.BigEndian.AppendUint64(dst, uint64(f.RequestID))
	case OneWayMessage:
		dst = binary.BigEndian.AppendUint64(dst, uint64(oneWayHeader+len(f.Body)))
		dst = append(dst, byte(f.Type))
	default:
		panic("frame: Append of " + f.Type.String())
	}
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(f.Body)))
	return append(dst, f.Body...)
}

// BeginRequest appends a frame of type RPCRequest or OneWayMessage up to the content of its RequestMessage. The caller
// appends the content and then calls EndRequest.
func BeginRequest(dst []byte, t Type, id int64, r Request) []byte {
	r.Content = nil
	return AppendRequest(Append(dst, Frame{Type: t, RequestID: id}), r)
}

// EndRequest completes the frame that BeginRequest began at b[start].
func EndRequest(b []byte, start int) {
	header := requestHeader
	if Type(b[start+lengthSize]) == OneWayMessage {
		header = oneWayHeader
	}
	size := len(b) - start
	binary.BigEndian.PutUint64(b[start:], uint64(size))
	binary.BigEndian.PutUint32(b[start+header-4:], uint32(size-header))
}
