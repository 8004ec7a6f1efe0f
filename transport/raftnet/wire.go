package raftnet

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// errShort is a message that ends inside a field.
var errShort = errors.New("message ends inside a field")

// Fields are encoded in a fixed order: unsigned numbers as varints, strings as length and bytes, flags as one byte.
// A newer release appends fields; a reader ignores what follows the fields that it knows.

func appendString(b []byte, s string) []byte {
	if len(s) > maxString {
		s = s[:maxString] // only texts for humans come near; identifiers are checked when they are configured
	}
	b = binary.AppendUvarint(b, uint64(len(s)))
	return append(b, s...)
}

func appendBool(b []byte, v bool) []byte {
	if v {
		return append(b, 1)
	}
	return append(b, 0)
}

// fields reads encoded fields one after the other; the first error sticks.
type fields struct {
	b   []byte
	err error
}

func (f *fields) uint() uint64 {
	if f.err != nil {
		return 0
	}
	v, n := binary.Uvarint(f.b)
	if n <= 0 {
		f.err = errShort
		return 0
	}
	f.b = f.b[n:]
	return v
}

func (f *fields) string() string {
	n := f.uint()
	if f.err != nil {
		return ""
	}
	if n > maxString {
		f.err = fmt.Errorf("string of %d bytes, at most %d are allowed", n, maxString)
		return ""
	}
	if n > uint64(len(f.b)) {
		f.err = errShort
		return ""
	}
	s := string(f.b[:n])
	f.b = f.b[n:]
	return s
}

func (f *fields) byte() byte {
	if f.err != nil {
		return 0
	}
	if len(f.b) == 0 {
		f.err = errShort
		return 0
	}
	v := f.b[0]
	f.b = f.b[1:]
	return v
}

func (f *fields) bool() bool {
	v := f.byte()
	if v > 1 {
		f.err = fmt.Errorf("flag has the value %d", v)
	}
	return v == 1
}
