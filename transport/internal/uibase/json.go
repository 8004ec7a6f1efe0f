package uibase

import (
	"io"
	"strconv"
	"unicode/utf8"
)

// Spark prints its JSON with Jackson's default pretty printer: two spaces, " : " between name and value, arrays on one
// line with spaces inside, and fields in the order in which they were written. encoding/json can do none of these, so
// the few kinds of value that occur are printed here.

// Field is one name and value of an ordered object. Values are string, int64, int, Object, Array, or List in an outermost
// object.
type Field = struct {
	Name  string
	Value any
}

// Object is an ordered object.
type Object []Field

// Array is a short array.
type Array []any

// List is an array whose elements are made one by one, so that a long one never exists as a whole. It may be the
// value of a field of an outermost object only.
type List struct {
	N  int
	At func(i int) any
}

// ListOf makes an array of what element makes of each.
func ListOf[T any](list []T, element func(T) any) List {
	return List{N: len(list), At: func(i int) any { return element(list[i]) }}
}

// WriteJSON writes o as AppendJSON would, a field and an element at a time.
func WriteJSON(out io.Writer, o Object) error {
	var buf []byte
	put := func() error {
		_, err := out.Write(buf)
		buf = buf[:0]
		return err
	}
	buf = append(buf, '{')
	for i, f := range o {
		if i > 0 {
			buf = append(buf, ',')
		}
		buf = AppendJSONString(appendNewline(buf, 1), f.Name)
		buf = append(buf, " : "...)
		list, ok := f.Value.(List)
		if !ok || list.N == 0 {
			if ok {
				f.Value = Array{}
			}
			buf = AppendJSON(buf, f.Value, 1)
			continue
		}
		buf = append(buf, "[ "...)
		for i := range list.N {
			if i > 0 {
				buf = append(buf, ", "...)
			}
			buf = AppendJSON(buf, list.At(i), 1)
			if err := put(); err != nil {
				return err
			}
		}
		buf = append(buf, " ]"...)
	}
	buf = append(buf, "\n}"...)
	return put()
}

// AppendJSON appends v to dst; indent is the depth of the objects around it.
func AppendJSON(dst []byte, v any, indent int) []byte {
	switch v := v.(type) {
	case string:
		return AppendJSONString(dst, v)
	case int64:
		return strconv.AppendInt(dst, v, 10)
	case int:
		return strconv.AppendInt(dst, int64(v), 10)
	case Array:
		if len(v) == 0 {
			return append(dst, "[ ]"...)
		}
		dst = append(dst, "[ "...)
		for i, e := range v {
			if i > 0 {
				dst = append(dst, ", "...)
			}
			dst = AppendJSON(dst, e, indent)
		}
		return append(dst, " ]"...)
	case Object:
		return appendObject(dst, v, indent)
	default:
		panic("uibase: value of a kind that AppendJSON does not know")
	}
}

func appendObject(dst []byte, o Object, indent int) []byte {
	if len(o) == 0 {
		return append(dst, "{ }"...)
	}
	dst = append(dst, '{')
	for i, f := range o {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendNewline(dst, indent+1)
		dst = AppendJSONString(dst, f.Name)
		dst = append(dst, " : "...)
		dst = AppendJSON(dst, f.Value, indent+1)
	}
	dst = appendNewline(dst, indent)
	return append(dst, '}')
}

func appendNewline(dst []byte, indent int) []byte {
	dst = append(dst, '\n')
	for range indent {
		dst = append(dst, "  "...)
	}
	return dst
}

// AppendJSONString escapes what JSON requires and nothing else, as Jackson does; invalid UTF-8 becomes U+FFFD.
func AppendJSONString(dst []byte, s string) []byte {
	const hex = "0123456789ABCDEF"
	dst = append(dst, '"')
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRuneInString(s[i:])
			dst = utf8.AppendRune(dst, r)
			i += size
			continue
		}
		i++
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\b':
			dst = append(dst, '\\', 'b')
		case '\t':
			dst = append(dst, '\\', 't')
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\f':
			dst = append(dst, '\\', 'f')
		case '\r':
			dst = append(dst, '\\', 'r')
		default:
			if c < 0x20 {
				dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
			} else {
				dst = append(dst, c)
			}
		}
	}
	return append(dst, '"')
}
