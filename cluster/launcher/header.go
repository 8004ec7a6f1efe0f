package launcher

import (
	"regexp"
	"strings"
)

// redacted stands for a value that is not shown (Utils.REDACTION_REPLACEMENT_TEXT).
const redacted = "*********(redacted)"

// defaultRedaction is Spark's spark.redaction.regex.
var defaultRedaction = regexp.MustCompile(`(?i)secret|password|token|access[.]?key`)

// logHeader is what a process's stderr begins with. Options -Dname=value whose name or value matches the expression are
// shown without their value (Utils.redactCommandLineArgs). Spark shows a value that has a line break in it; here none is.
func logHeader(title string, argv []string, redaction *regexp.Regexp) string {
	if redaction == nil {
		redaction = defaultRedaction
	}
	var b strings.Builder
	b.WriteString(title + ":")
	for _, a := range argv {
		b.WriteString(` "` + redact(a, redaction) + `"`)
	}
	b.WriteString("\n" + strings.Repeat("=", 40) + "\n\n")
	return b.String()
}

// Redact gives an argument as it may be shown: an option -Dname=value whose name or value matches the expression without
// its value. Nil means Spark's default expression.
func Redact(argument string, redaction *regexp.Regexp) string {
	if redaction == nil {
		redaction = defaultRedaction
	}
	return redact(argument, redaction)
}

func redact(argument string, redaction *regexp.Regexp) string {
	definition, ok := strings.CutPrefix(argument, "-D")
	if !ok || definition == "" {
		return argument
	}
	// The name has at least one character, so that a leading "=" belongs to it, as in Spark's pattern -D(.+?)=(.+).
	i := strings.IndexByte(definition[1:], '=') + 1
	if i == 0 {
		return argument
	}
	key, value := definition[:i], definition[i+1:]
	if value == "" || !redaction.MatchString(key) && !redaction.MatchString(value) {
		return argument
	}
	return "-D" + key + "=" + redacted
}
