// Package mutf8 converts between Go strings and Java's modified UTF-8 (java.io.DataInput, "Modified UTF-8"): U+0000 is
// two bytes, and a character beyond U+FFFF is a pair of three-byte surrogates.
//
// The conversion loses nothing: a lone surrogate, which Java allows in a string, becomes its three bytes ED A0..BF xx in
// the Go string (not valid UTF-8, but kept) and comes out again as those three bytes.
package mutf8

import (
	"fmt"
	"unicode/utf8"
)

// Error reports malformed modified UTF-8 by position only.
type Error struct{ Offset int }

func (e *Error) Error() string { return fmt.Sprintf("mutf8: malformed at offset %d", e.Offset) }

// Decode returns the string that b encodes, or an *Error. Over-long forms and a raw zero byte, which Java never writes,
// are refused, so that Append gives back exactly b.
func Decode(b []byte) (string, error) {
	for i, c := range b {
		if c == 0 || c >= 0x80 {
			return decodeSlow(b, i)
		}
	}
	return string(b), nil
}

func decodeSlow(b []byte, i int) (string, error) {
	out := make([]byte, 0, len(b))
	out = append(out, b[:i]...)
	for i < len(b) {
		c := b[i]
		if c != 0 && c < 0x80 {
			out = append(out, c)
			i++
			continue
		}
		u, size := unit(b[i:])
		if size == 0 {
			return "", &Error{Offset: i}
		}
		i += size
		if isHigh(u) {
			if low, n := unit(b[i:]); n == 3 && isLow(low) {
				i += n
				out = utf8.AppendRune(out, 0x10000+(u-0xD800)<<10+(low-0xDC00))
				continue
			}
		}
		if isHigh(u) || isLow(u) {
			out = append(out, b[i-3:i]...)
			continue
		}
		out = utf8.AppendRune(out, u)
	}
	return string(out), nil
}

// unit reads one UTF-16 code unit; size 0 means malformed.
func unit(b []byte) (u rune, size int) {
	if len(b) == 0 {
		return 0, 0
	}
	switch c := b[0]; {
	case c != 0 && c < 0x80:
		return rune(c), 1
	case c&0xE0 == 0xC0 && len(b) >= 2 && b[1]&0xC0 == 0x80:
		u = rune(c&0x1F)<<6 | rune(b[1]&0x3F)
		if u >= 0x80 || u == 0 {
			return u, 2
		}
	case c&0xF0 == 0xE0 && len(b) >= 3 && b[1]&0xC0 == 0x80 && b[2]&0xC0 == 0x80:
		u = rune(c&0x0F)<<12 | rune(b[1]&0x3F)<<6 | rune(b[2]&0x3F)
		if u >= 0x800 {
			return u, 3
		}
	}
	return 0, 0
}

func isHigh(u rune) bool { return u >= 0xD800 && u <= 0xDBFF }
func isLow(u rune) bool  { return u >= 0xDC00 && u <= 0xDFFF }

// Append appends s in modified UTF-8. Bytes of s that are no UTF-8 (other than the surrogate forms made by Decode) are
// written as U+FFFD, as Java's own encoders do.
func Append(dst []byte, s string) []byte {
	for i := 0; i < len(s); {
		c := s[i]
		if c != 0 && c < 0x80 {
			dst = append(dst, c)
			i++
			continue
		}
		if c == 0 {
			dst = append(dst, 0xC0, 0x80)
			i++
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			if c == 0xED && i+2 < len(s) && s[i+1] >= 0xA0 && s[i+1] <= 0xBF && s[i+2]&0xC0 == 0x80 {
				dst = append(dst, s[i:i+3]...)
				n = 3
			} else {
				dst = append(dst, 0xEF, 0xBF, 0xBD)
			}
		case r >= 0x10000:
			r -= 0x10000
			dst = appendUnit(appendUnit(dst, 0xD800+r>>10), 0xDC00+r&0x3FF)
		default:
			dst = append(dst, s[i:i+n]...)
		}
		i += n
	}
	return dst
}

func appendUnit(dst []byte, u rune) []byte {
	return append(dst, 0xE0|byte(u>>12), 0x80|byte(u>>6)&0xBF, 0x80|byte(u)&0xBF)
}

// Len returns the number of bytes that Append would add for s.
func Len(s string) int {
	n := 0
	for i := 0; i < len(s); i++ {
		if s[i] == 0 || s[i] >= 0x80 {
			return n + len(Append(nil, s[i:]))
		}
		n++
	}
	return n
}
