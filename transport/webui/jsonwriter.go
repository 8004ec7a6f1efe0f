package webui

import (
	"io"
	"strconv"
	"unicode/utf8"
)

// Spark prints its JSON with Jackson's default pretty printer: two spaces, " : " between name and value, arrays on one
// line with spaces inside, and fields in the order in which they were written. encoding/json can do none of these, so
// the few kinds of value that occur are printed here.

// jsonField is one name and value of an ordered object. Values are string, int64, int, jsonObject, jsonArray, or
// jsonList in an outermost object.
type jsonField struct {
	name  string
	value any
}

type jsonObject []jsonField

type jsonArray []any

// jsonList is an array whose elements are made one by one, so that a long one never exists as a whole. It may be the
// value of a field of an outermost object only.
type jsonList struct {
	n  int
	at func(i int) any
}

// listOf makes an array of what element makes of each.
func listOf[T any](list []T, element func(T) any) jsonList {
	return jsonList{n: len(list), at: func(i int) any { return element(list[i]) }}
}

// writeJSONTo writes o as appendJSON would, a field and an element at a time.
func writeJSONTo(out io.Writer, o jsonObject) error {
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
		buf = appendJSONString(appendNewline(buf, 1), f.name)
		buf = append(buf, " : "...)
		list, ok := f.value.(jsonList)
		if !ok || list.n == 0 {
			if ok {
				f.value = jsonArray{}
			}
			buf = appendJSON(buf, f.value, 1)
			continue
		}
		buf = append(buf, "[ "...)
		for i := range list.n {
			if i > 0 {
				buf = append(buf, ", "...)
			}
			buf = appendJSON(buf, list.at(i), 1)
			if err := put(); err != nil {
				return err
			}
		}
		buf = append(buf, " ]"...)
	}
	buf = append(buf, "\n}"...)
	return put()
}

// appendJSON appends v to dst; indent is the depth of the objects around it.
func appendJSON(dst []byte, v any, indent int) []byte {
	switch v := v.(type) {
	case string:
		return appendJSONString(dst, v)
	case int64:
		return strconv.AppendInt(dst, v, 10)
	case int:
		return strconv.AppendInt(dst, int64(v), 10)
	case jsonArray:
		if len(v) == 0 {
			return append(dst, "[ ]"...)
		}
		dst = append(dst, "[ "...)
		for i, e := range v {
			if i > 0 {
				dst = append(dst, ", "...)
			}
			dst = appendJSON(dst, e, indent)
		}
		return append(dst, " ]"...)
	case jsonObject:
		return appendJSONObject(dst, v, indent)
	default:
		panic("webui: value of a kind that appendJSON does not know")
	}
}

func appendJSONObject(dst []byte, o jsonObject, indent int) []byte {
	if len(o) == 0 {
		return append(dst, "{ }"...)
	}
	dst = append(dst, '{')
	for i, f := range o {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendNewline(dst, indent+1)
		dst = appendJSONString(dst, f.name)
		dst = append(dst, " : "...)
		dst = appendJSON(dst, f.value, indent+1)
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

// appendJSONString escapes what JSON requires and nothing else, as Jackson does; invalid UTF-8 becomes U+FFFD.
func appendJSONString(dst []byte, s string) []byte {
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
