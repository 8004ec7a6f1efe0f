package rest

import (
	"errors"
	"math"
	"strconv"
	"strings"
)

var errValue = errors.New("value of the wrong type")

// parseBool takes Scala's booleans: true and false in any case.
func parseBool(v string) (bool, error) {
	switch strings.ToLower(v) {
	case "true":
		return true, nil
	case "false":
		return false, nil
	}
	return false, errValue
}

// parseCores takes what is a whole number; Spark accepts a fraction here and fails on it later.
func parseCores(v string) (int32, error) {
	n, err := strconv.ParseInt(v, 10, 32)
	if err != nil || n < 0 {
		return 0, errValue
	}
	return int32(n), nil
}

var memoryUnits = map[string]uint{"": 0, "b": 0, "k": 10, "kb": 10, "m": 20, "mb": 20, "g": 30, "gb": 30, "t": 40, "tb": 40, "p": 50, "pb": 50}

// parseMemoryMB reads one of Spark's memory texts, in which a bare number counts bytes (util/Utils.scala,
// memoryStringToMb), and gives whole MiB, rounded down.
func parseMemoryMB(v string) (int32, error) {
	s := strings.ToLower(strings.TrimSpace(v))
	digits := strings.TrimRight(s, "abcdefghijklmnopqrstuvwxyz")
	n, err := strconv.ParseInt(digits, 10, 64)
	shift, ok := memoryUnits[s[len(digits):]]
	if err != nil || !ok || n < 0 || n > math.MaxInt64>>shift {
		return 0, errValue
	}
	mb := n << shift >> 20
	if mb > math.MaxInt32 {
		return 0, errValue
	}
	return int32(mb), nil
}

// splitCommand cuts a text into words as Spark does for java options (util/Utils.scala, splitCommandString): quotes of
// both kinds hold words together, and a backslash means something only between double quotes.
func splitCommand(s string) []string {
	var words []string
	var word strings.Builder
	inWord, quote := false, rune(0)
	runes := []rune(s)
	for i := 0; i < len(runes); i++ {
		switch c := runes[i]; {
		case quote == '"' && c == '\\':
			if i+1 < len(runes) {
				i++
				word.WriteRune(runes[i])
			}
		case quote != 0 && c == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(c)
		case c == '"' || c == '\'':
			quote, inWord = c, true
		case strings.ContainsRune(" \t\r\n", c):
			if inWord {
				words = append(words, word.String())
				word.Reset()
				inWord = false
			}
		default:
			word.WriteRune(c)
			inWord = true
		}
	}
	if inWord {
		words = append(words, word.String())
	}
	return words
}

// splitPath cuts a class or library path at ':'; empty elements are dropped.
func splitPath(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool { return r == ':' })
}
