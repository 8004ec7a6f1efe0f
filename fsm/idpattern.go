package fsm

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Default patterns of ids: Java format strings for a time stamp and a number (Master.scala, Deploy.scala).
const (
	DefaultAppIDPattern    = "app-%s-%04d"
	DefaultDriverIDPattern = "driver-%s-%04d"
)

// maxNumberWidth bounds the width in %04d.
const maxNumberWidth = 20

// CheckIDPattern tells whether a pattern can be used: literal text with %s for the stamp, %d, %4d or %04d for the
// number, their forms with an index (%1$s, %2$04d), and %%. Ids have no blanks and no slash, because they become parts
// of paths.
func CheckIDPattern(pattern string) error {
	_, err := formatID(pattern, "20060102150405", 0)
	return err
}

// formatID does what Java's String.format does with these patterns.
func formatID(pattern, stamp string, number uint64) (string, error) {
	var out strings.Builder
	next := 1 // the argument of a directive without index
	for rest := pattern; rest != ""; {
		i := strings.IndexByte(rest, '%')
		if i < 0 {
			out.WriteString(rest)
			break
		}
		out.WriteString(rest[:i])
		d, n, err := parseDirective(rest[i+1:])
		if err != nil {
			return "", fmt.Errorf("id pattern %q: %w", clip(pattern), err)
		}
		rest = rest[i+1+n:]
		if d.verb == '%' {
			out.WriteByte('%')
			continue
		}
		argument := d.index
		if argument == 0 {
			argument = next
			next++
		}
		switch {
		case argument == 1 && d.verb == 's' && d.width == 0:
			out.WriteString(stamp)
		case argument == 2 && d.verb == 's' && d.width == 0:
			out.WriteString(strconv.FormatUint(number, 10))
		case argument == 2 && d.verb == 'd':
			out.WriteString(d.pad(number))
		default:
			return "", fmt.Errorf("id pattern %q: argument 1 is a text, argument 2 a number, there is no other", clip(pattern))
		}
		if out.Len() > MaxIDBytes {
			break
		}
	}
	id := out.String()
	if err := checkID("id by pattern", id); err != nil {
		return "", err
	}
	if strings.ContainsAny(id, " /\\\u0085\u00a0") || id == "." || id == ".." || !utf8.ValidString(id) {
		return "", fmt.Errorf("id pattern %q gives %q, which cannot be a part of a path", clip(pattern), id)
	}
	return id, nil
}

// directive is one %[index$][0][width]verb.
type directive struct {
	index, width int
	zero         bool
	verb         byte
}

func (d directive) pad(number uint64) string {
	text := strconv.FormatUint(number, 10)
	if !d.zero || len(text) >= d.width {
		return text // blanks have no place in an id, so that a width without 0 is of no use
	}
	return strings.Repeat("0", d.width-len(text)) + text
}

// parseDirective reads what follows a percent sign and tells how long it is.
func parseDirective(text string) (directive, int, error) {
	var d directive
	i, digits := 0, 0
	number := 0
	for ; i < len(text); i++ {
		c := text[i]
		switch {
		case c >= '0' && c <= '9':
			if number == 0 && c == '0' && digits == 0 {
				d.zero = true
			}
			digits++
			if number = number*10 + int(c-'0'); number > maxNumberWidth {
				return d, 0, errors.New("a width or an index is too large")
			}
		case c == '$' && d.index == 0 && number > 0 && !d.zero:
			d.index, number, digits = number, 0, 0
		case c == 's' || c == 'd' || (c == '%' && i == 0):
			d.verb, d.width = c, number
			return d, i + 1, nil
		default:
			return d, 0, fmt.Errorf("%%%s is not supported", text[:i+1])
		}
	}
	return d, 0, errors.New("it ends within a directive")
}

// uniqueID formats an id that nothing known has: where the pattern, a modulo or a name gives one that is taken, the
// number is appended, which is never used again (G-06, G-07).
func uniqueID(id string, number uint64, taken func(string) bool) (string, error) {
	for n := range maxIDTries {
		candidate := id
		if n > 0 {
			candidate += "-" + strconv.FormatUint(number, 10)
		}
		if n > 1 {
			candidate += "-" + strconv.Itoa(n)
		}
		if err := checkID("id", candidate); err != nil {
			return "", err
		}
		if !taken(candidate) {
			return candidate, nil
		}
	}
	return "", fmt.Errorf("id %q and others like it are taken", id)
}

// maxIDTries bounds uniqueID's search; somebody would have to try hard to make the second try fail.
const maxIDTries = 8

// nameAsID is the application's name as an id (B-202): without blanks, in lower case. Names that cannot be a part of a
// path give "": such an application gets its id by the pattern. Letters beyond ASCII stay as they are: how they change
// depends on the version of Unicode, and replicas may differ in that.
func nameAsID(name string) string {
	if len(name) > MaxIDBytes-32 || !utf8.ValidString(name) {
		return ""
	}
	var out strings.Builder
	for _, r := range name {
		switch {
		case r == ' ' || r >= '\t' && r <= '\r':
		case r >= 'A' && r <= 'Z':
			out.WriteRune(r + 'a' - 'A')
		case r == '/' || r == '\\' || r == '%' || r == '?' || r == '#' || isControl(r):
			return ""
		default:
			out.WriteRune(r)
		}
	}
	if id := out.String(); id != "." && id != ".." {
		return id
	}
	return ""
}
