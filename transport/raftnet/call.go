package raftnet

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// A call is one request and one answer on a connection of KindCall.

// CallError is an error that the other master gave as the answer.
type CallError struct{ Message string }

// Error gives the other master's words.
func (e *CallError) Error() string { return e.Message }

// WriteCall writes a request: method and body.
func WriteCall(w io.Writer, method string, body []byte) error {
	if len(method) > maxString {
		return fmt.Errorf("%w: method name of %d bytes", ErrProtocol, len(method))
	}
	if err := writeBlock(w, []byte(method)); err != nil {
		return err
	}
	return writeBlock(w, body)
}

// ReadCall reads a request.
func ReadCall(r io.Reader) (method string, body []byte, err error) {
	m, err := readBlock(r, maxString)
	if err != nil {
		return "", nil, err
	}
	body, err = readBlock(r, MaxCallBody)
	return string(m), body, err
}

// WriteAnswer writes the answer, or the text of failure when that is not nil.
func WriteAnswer(w io.Writer, body []byte, failure error) error {
	status := []byte{0}
	if failure == nil && len(body) > MaxCallBody {
		failure = fmt.Errorf("the answer has %d bytes, at most %d are allowed", len(body), MaxCallBody)
	}
	if failure != nil {
		status[0], body = 1, []byte(failure.Error())
	}
	if _, err := w.Write(status); err != nil {
		return err
	}
	return writeBlock(w, body)
}

// ReadAnswer reads the answer; a failure of the other side comes as *CallError.
func ReadAnswer(r io.Reader) ([]byte, error) {
	var status [1]byte
	if _, err := io.ReadFull(r, status[:]); err != nil {
		return nil, err
	}
	body, err := readBlock(r, MaxCallBody)
	if err != nil {
		return nil, err
	}
	if status[0] != 0 {
		return nil, &CallError{Message: string(body)}
	}
	return body, nil
}

func writeBlock(w io.Writer, b []byte) error {
	if len(b) > MaxCallBody {
		return fmt.Errorf("%w: block of %d bytes, at most %d are allowed", ErrProtocol, len(b), MaxCallBody)
	}
	head := binary.BigEndian.AppendUint32(nil, uint32(len(b)))
	_, err := w.Write(append(head, b...))
	return err
}

// readBlock reads a block without trusting its declared length: memory grows as bytes arrive.
func readBlock(r io.Reader, limit uint32) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > limit {
		return nil, fmt.Errorf("%w: block of %d bytes, at most %d are allowed", ErrProtocol, n, limit)
	}
	b, err := io.ReadAll(io.LimitReader(r, int64(n)))
	if err != nil {
		return nil, err
	}
	if len(b) < int(n) {
		return nil, errors.Join(ErrProtocol, io.ErrUnexpectedEOF)
	}
	return b, nil
}
