package frame

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// SizeError reports a frame length outside the limits. The connection cannot be used any more.
type SizeError struct {
	Length int64 // as declared, counting the eight length bytes
	Max    int64 // the limit in force
}

func (e *SizeError) Error() string {
	return fmt.Sprintf("frame: length %d outside %d..%d", e.Length, minFrame, e.Max)
}

// TypeError reports a message type that the deploy protocol does not use.
type TypeError struct{ Type Type }

func (e *TypeError) Error() string {
	return fmt.Sprintf("frame: message type %d is not known", uint8(e.Type))
}

// BodySizeError reports a body size that contradicts the frame length.
type BodySizeError struct {
	Type     Type
	Declared int32 // the bodySize field
	Actual   int64 // what the frame length leaves for the body
}

func (e *BodySizeError) Error() string {
	return fmt.Sprintf("frame: %s declares a body of %d bytes, its frame holds %d", e.Type, e.Declared, e.Actual)
}

// ErrTruncated is returned when the stream ends inside a frame. It wraps io.ErrUnexpectedEOF.
var ErrTruncated = fmt.Errorf("frame: stream ended inside a frame: %w", io.ErrUnexpectedEOF)

// Reader reads frames from a byte stream. It is not safe for concurrent use. After an error it must not be used again:
// the position in the stream is lost.
type Reader struct {
	r   io.Reader
	max int64
	hdr [requestHeader]byte
}

// NewReader returns a Reader on r with the limit DefaultMax. r should be buffered: a Reader makes two small reads per frame.
func NewReader(r io.Reader) *Reader { return &Reader{r: r, max: DefaultMax} }

// SetMaxFrame sets the longest accepted frame in bytes, its eight length bytes included, from the next frame on.
// Values outside the protocol's range are brought into it.
func (r *Reader) SetMaxFrame(n int) { r.max = max(minFrame, min(int64(n), absoluteMax)) }

// Next returns the next frame; its Body is owned by the caller. It returns io.EOF at the end of the stream between two
// frames, ErrTruncated inside one, *SizeError, *TypeError or *BodySizeError for a malformed frame, and otherwise the
// error of the underlying reader.
func (r *Reader) Next() (Frame, error) {
	if _, err := io.ReadFull(r.r, r.hdr[:lengthSize]); err != nil {
		return Frame{}, truncated(err)
	}
	length := int64(binary.BigEndian.Uint64(r.hdr[:lengthSize]))
	if length < minFrame || length > r.max {
		return Frame{}, &SizeError{Length: length, Max: r.max}
	}
	if err := r.readHeader(lengthSize, preambleSize); err != nil {
		return Frame{}, err
	}
	f := Frame{Type: Type(r.hdr[lengthSize])}
	header := requestHeader
	switch f.Type {
	case RPCRequest, RPCResponse, RPCFailure:
	case OneWayMessage:
		header = oneWayHeader
	default:
		return Frame{}, &TypeError{Type: f.Type}
	}
	if length < int64(header) {
		return Frame{}, &SizeError{Length: length, Max: r.max}
	}
	if err := r.readHeader(preambleSize, header); err != nil {
		return Frame{}, err
	}
	if header == requestHeader {
		f.RequestID = int64(binary.BigEndian.Uint64(r.hdr[preambleSize:]))
	}
	declared, actual := int32(binary.BigEndian.Uint32(r.hdr[header-4:])), length-int64(header)
	if int64(declared) != actual {
		return Frame{}, &BodySizeError{Type: f.Type, Declared: declared, Actual: actual}
	}
	body, err := r.readBody(int(actual))
	if err != nil {
		return Frame{}, err
	}
	f.Body = body
	return f, nil
}

func (r *Reader) readHeader(from, to int) error {
	_, err := io.ReadFull(r.r, r.hdr[from:to])
	return insideFrame(err)
}

// readBody reads n bytes. The buffer starts small and at most doubles each time it is full, so that a peer which
// declares much and sends little costs little.
func (r *Reader) readBody(n int) ([]byte, error) {
	body := make([]byte, min(n, firstChunk))
	have := 0
	for {
		if _, err := io.ReadFull(r.r, body[have:]); err != nil {
			return nil, insideFrame(err)
		}
		have = len(body)
		if have == n {
			return body, nil
		}
		grown := make([]byte, min(n, 2*have))
		copy(grown, body)
		body = grown
	}
}

// truncated maps the errors of the first read of a frame, where the end of the stream is in order if nothing was read.
func truncated(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return ErrTruncated
	}
	return err
}

func insideFrame(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return ErrTruncated
	}
	return err
}
