package javaser

import "errors"

// Decode decodes one stream.
func Decode(stream []byte, lim Limits, known *Registry) (Node, error) { return nil, errors.New("stub") }

// Append encodes.
func Append(dst []byte, root Node, lim Limits) ([]byte, error) { return nil, errors.New("stub") }
