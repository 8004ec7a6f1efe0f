package javaser

import (
	"errors"
	"fmt"
)

// Limits bound what a stream may make the decoder do, and a graph the encoder. Zero fields mean the default.
type Limits struct {
	Depth   int // nesting of objects; default 64
	Handles int // objects, strings and descriptors with a handle; default 100,000
	Values  int // fields and array elements in all; default 1,000,000
	Bytes   int // length of the stream; default 16 MiB
}

// The defaults of Limits, and the bounds of names.
const (
	DefaultDepth   = 64
	DefaultHandles = 100_000
	DefaultValues  = 1_000_000
	DefaultBytes   = 16 << 20
	MaxNameBytes   = 1 << 10 // class, field and enum constant names and signatures, modified UTF-8
	MaxFields      = 1 << 10 // fields of one class
	MaxSupers      = 32      // superclasses of one class
	MaxClasses     = 1 << 10 // descriptors in one stream
)

func (l Limits) withDefaults() Limits {
	set := func(v *int, def int) {
		if *v <= 0 {
			*v = def
		}
	}
	set(&l.Depth, DefaultDepth)
	set(&l.Handles, DefaultHandles)
	set(&l.Values, DefaultValues)
	set(&l.Bytes, DefaultBytes)
	return l
}

// Causes of an *Error; test with errors.Is.
var (
	ErrTruncated   = errors.New("stream ends early")
	ErrTrailing    = errors.New("data after the object")
	ErrHeader      = errors.New("not a Java serialization stream of version 5")
	ErrMalformed   = errors.New("malformed")
	ErrUnsupported = errors.New("unsupported element")
	ErrLimit       = errors.New("limit exceeded")
)

// Error says why a stream cannot be decoded or a graph not encoded. It holds no content of the stream but the name of
// the class being read, if one was known.
type Error struct {
	Offset int    // in the stream
	Class  string // the class of the innermost object; empty before the first descriptor
	Cause  error  // one of the Err values above
	Detail string // a constant text
}

func (e *Error) Error() string {
	s := fmt.Sprintf("javaser: offset %d", e.Offset)
	if e.Class != "" {
		s += ", in " + e.Class
	}
	s += ": " + e.Cause.Error()
	if e.Detail != "" {
		s += ": " + e.Detail
	}
	return s
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }
