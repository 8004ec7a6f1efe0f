package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// parseBool takes Spark's booleans: true and false in any case, nothing else.
func parseBool(key, v string) (bool, error) {
	switch strings.ToLower(v) {
	case "true":
		return true, nil
	case "false":
		return false, nil
	}
	return false, invalid(key, v, "true or false")
}

func parseInt(key, v string, low, high int) (int, error) {
	n, err := strconv.ParseInt(v, 10, 64)
	if err == nil && n >= int64(low) && n <= int64(high) {
		return int(n), nil
	}
	switch {
	case low == math.MinInt32 && high == math.MaxInt32:
		return 0, invalid(key, v, "a whole number")
	case high == math.MaxInt32:
		return 0, invalid(key, v, fmt.Sprintf("a whole number, at least %d", low))
	}
	return 0, invalid(key, v, fmt.Sprintf("a whole number from %d to %d", low, high))
}

// timeUnits are the suffixes of Spark's time strings (network/util/JavaUtils.java).
var timeUnits = map[string]time.Duration{
	"us": time.Microsecond, "ms": time.Millisecond, "s": time.Second, "m": time.Minute, "min": time.Minute,
	"h": time.Hour, "d": 24 * time.Hour,
}

// parseTime reads one of Spark's time strings: a whole number and an optional unit; bare is the unit without one.
func parseTime(key, v string, bare time.Duration) (time.Duration, error) {
	const allowed = "a whole number with one of the units us, ms, s, m, min, h, d"
	s := strings.ToLower(strings.TrimSpace(v))
	digits := strings.TrimRight(s, "abcdefghijklmnopqrstuvwxyz")
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		return 0, invalid(key, v, allowed)
	}
	unit := bare
	if suffix := s[len(digits):]; suffix != "" {
		u, ok := timeUnits[suffix]
		if !ok {
			return 0, invalid(key, v, allowed)
		}
		unit = u
	}
	if n > math.MaxInt64/int64(unit) || n < -math.MaxInt64/int64(unit) {
		return 0, invalid(key, v, allowed+", below 292 years")
	}
	return time.Duration(n) * unit, nil
}

func parseMillis(key, v string) (time.Duration, error) { return parseTime(key, v, time.Millisecond) }
