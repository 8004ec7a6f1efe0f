package config

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"

	"raftmaster/fsm"
)

// list reads names separated by commas; blanks around them and empty ones are dropped.
func list(key string, field func(*Config) *[]string) setting {
	return setting{key, func(c *Config, v string) error {
		*field(c) = splitList(v)
		return nil
	}}
}

func splitList(v string) []string {
	var out []string
	for _, e := range strings.Split(v, ",") {
		if e = strings.TrimSpace(e); e != "" {
			out = append(out, e)
		}
	}
	return out
}

// byteUnits are the suffixes of Spark's sizes (network/util/JavaUtils.java), as powers of two.
var byteUnits = map[string]uint{
	"b": 0, "k": 10, "kb": 10, "m": 20, "mb": 20, "g": 30, "gb": 30, "t": 40, "tb": 40, "p": 50, "pb": 50,
}

// parseBytes reads one of Spark's sizes: a whole number and an optional unit, bytes without one.
func parseBytes(key, v string) (int64, error) {
	const allowed = "a whole number of bytes, or one with a unit k, m, g, t, p"
	s := strings.ToLower(strings.TrimSpace(v))
	digits := strings.TrimRight(s, "abcdefghijklmnopqrstuvwxyz")
	n, err := strconv.ParseInt(digits, 10, 64)
	shift, ok := byteUnits[s[len(digits):]]
	if s == digits {
		shift, ok = 0, true
	}
	if err != nil || !ok || n < 1 || n > math.MaxInt64>>shift {
		return 0, invalid(key, v, allowed)
	}
	return n << shift, nil
}

func setBodySize(c *Config, v string) error {
	const key = "spark.master.rest.maxRequestBodySize"
	n, err := parseBytes(key, v)
	if err != nil {
		return err
	}
	if n > DefaultRESTBodyBytes {
		c.Warnings = append(c.Warnings, fmt.Sprintf("%s=%s: %d MiB hold instead, a submission that can be accepted is far smaller", key, v, DefaultRESTBodyBytes>>20))
		n = DefaultRESTBodyBytes
	}
	c.REST.MaxBodyBytes = n
	return nil
}

// setResourcePatterns refuses an expression that cannot be read: without it everything would be allowed.
func setResourcePatterns(c *Config, v string) error {
	c.REST.AllowedAppResources = splitList(v)
	for _, p := range c.REST.AllowedAppResources {
		if _, err := regexp.Compile(p); err != nil {
			return invalid("spark.master.rest.allowedAppResourcePatterns", v,
				fmt.Sprintf("regular expressions of RE2 (no look-ahead, no back-reference), separated by commas; %q is none", p))
		}
	}
	return nil
}

func setSparkVersion(c *Config, v string) error {
	if v == "" || strings.IndexFunc(v, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }) >= 0 {
		return invalid("spark.raftmaster.rest.sparkVersion", strconv.Quote(v), "a Spark version such as "+DefaultRESTSparkVersion)
	}
	c.REST.SparkVersion = v
	return nil
}

func setRelaunchDelay(c *Config, v string) error {
	const key = "spark.raftmaster.driver.relaunchDelay"
	d, err := parseTime(key, v, time.Second)
	if err == nil && (d < 0 || d > fsm.MaxRelaunchDelayMillis*time.Millisecond) {
		err = invalid(key, v, "a time from 0 to 24h, such as 0 or 60s")
	}
	c.Deploy.RelaunchDelay = d
	return err
}

func setAllowMode(c *Config, v string) error {
	switch mode := strings.ToUpper(v); mode {
	case "LOCAL", "DENY", "ALLOW":
		c.UI.DecommissionAllow = mode
		return nil
	}
	return invalid("spark.master.ui.decommission.allow.mode", v, "one of LOCAL, DENY, ALLOW")
}

// setRedaction takes an expression that Java understands and RE2 does not for "redact everything": nothing secret is
// ever shown because of it, and a file that is shared with applications does not stop a master.
func setRedaction(c *Config, v string) error {
	if _, err := regexp.Compile(v); err != nil {
		c.Warnings = append(c.Warnings, redactsAll)
		v = ""
	}
	c.UI.RedactionRegex = v
	return nil
}

// keepProperties remembers what was given, for the environment page.
func (l *loader) keepProperties() {
	names := l.propertyNames()
	l.cfg.Properties = make(map[string]string, len(names))
	for _, key := range names {
		l.cfg.Properties[key], _ = l.property(key)
	}
}

// setPattern checks a pattern of identifiers.
func setPattern(key, v string, field *string) error {
	if err := fsm.CheckIDPattern(v); err != nil || v == "" {
		return invalid(key, strconv.Quote(v), "a pattern without blanks for a time and a number, such as app-%s-%04d")
	}
	*field = v
	return nil
}
