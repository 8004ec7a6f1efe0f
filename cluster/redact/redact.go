package redact

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
)

// Mark stands in the place of a secret.
const Mark = "REDACTED"

// minLiteral is the shortest literal that is looked for: shorter ones would hide half of every text.
const minLiteral = 6

// secretName is what the names of secrets contain.
const secretName = `secret|passw(?:or)?d|passphrase|token|credential|(?:api|access|account|private|shared|encryption)[._-]?key|signature`

var (
	named = regexp.MustCompile(`(?i)` + secretName)
	// assigned is name=value, name: value, "name": "value", also with the quotes of JSON inside JSON.
	assigned = regexp.MustCompile(`(?i)([\w.\-]*(?:` + secretName + `)[\w.\-]*)(\\*["']?\s*[=:]\s*)(\\+"[^"\\]*\\+"|"(?:[^"\\\n]|\\.)*"|'[^'\n]*'|[^\s,;&"'\\}\])]+)`)
	// flagged is --name value.
	flagged  = regexp.MustCompile(`(?i)(--?[\w.\-]*(?:` + secretName + `)[\w.\-]*)(\s+)([^\s"'\\]+)`)
	userinfo = regexp.MustCompile(`([a-zA-Z][a-zA-Z0-9+.\-]*://)[^/\s@"'<>\\]+@`)
	bearer   = regexp.MustCompile(`(?i)\b(bearer|basic)(\s+)[A-Za-z0-9._~+/\-]{6,}=*`)
	query    = regexp.MustCompile(`(?i)([?&](?:sig|key|x-amz-[a-z\-]+|x-goog-[a-z\-]+)=)[^&\s"'<>\\]+`)
	// forms are secrets that are known by how they look: keys of cloud providers, JSON web tokens.
	forms   = regexp.MustCompile(`\b(?:AKIA|ASIA)[0-9A-Z]{16}\b|\beyJ[A-Za-z0-9_\-]{8,}\.[A-Za-z0-9_\-]{8,}\.[A-Za-z0-9_\-]*|\bgh[pousr]_[A-Za-z0-9]{20,}\b`)
	private = regexp.MustCompile(`-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|\z)`)
)

// Redactor applies the rules, and hides literals wherever they are.
type Redactor struct{ literals []string }

// New makes a Redactor that hides these literals, too, also as they are in JSON; those of fewer than six characters are left
// out.
func New(literals ...string) *Redactor {
	r := &Redactor{}
	for _, l := range literals {
		if len(l) < minLiteral {
			continue
		}
		for _, form := range append(inJSON(l), l) {
			if !slices.Contains(r.literals, form) {
				r.literals = append(r.literals, form)
			}
		}
	}
	// A literal that contains another one goes first.
	slices.SortFunc(r.literals, func(a, b string) int { return len(b) - len(a) })
	return r
}

// inJSON gives the forms that a text has between the quotes of JSON: with and without what is only for pages.
func inJSON(s string) []string {
	var out []string
	for _, forPages := range []bool{true, false} {
		var b strings.Builder
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(forPages)
		if enc.Encode(s) == nil { // a string always can be
			text := strings.TrimSuffix(b.String(), "\n")
			out = append(out, text[1:len(text)-1])
		}
	}
	return out
}

// Secret tells whether a setting of this name has a value that is not shown. The name of a file is no secret.
func Secret(name string) bool { return named.MatchString(name) && !aFile(name) }

// aFile: the value is the path of a file that holds the secret, or a figure about secrets.
func aFile(name string) bool {
	name = strings.ToLower(name)
	for _, end := range []string{"file", "path", "dir", "_total", "enabled", "signatures"} {
		if strings.HasSuffix(name, end) {
			return true
		}
	}
	return false
}

// Value is a setting's value as it may be shown.
func (r *Redactor) Value(name, value string) string {
	if value != "" && Secret(name) {
		return Mark
	}
	return r.Text(value)
}

// Text takes the secrets out of a text, line by line. JSON stays JSON: of a quoted value only what is between the quotes
// is replaced, and short numbers, true, false and null are no secrets.
func (r *Redactor) Text(s string) string {
	for _, l := range r.literals {
		s = strings.ReplaceAll(s, l, Mark)
	}
	if strings.Contains(s, "PRIVATE KEY-----") {
		s = private.ReplaceAllString(s, Mark)
	}
	var b strings.Builder
	b.Grow(len(s))
	for len(s) > 0 {
		line := s
		if i := strings.IndexByte(s, '\n'); i >= 0 {
			line = s[:i+1]
		}
		s = s[len(line):]
		b.WriteString(redactLine(line))
	}
	return b.String()
}

// stems are the parts of secretName in lower case: a line without one needs no look at names. It saves nearly all the time.
var stems = []string{"secret", "passw", "passphrase", "token", "credential", "key", "signature"}

func redactLine(s string) string {
	if strings.Contains(s, "://") {
		s = userinfo.ReplaceAllString(s, "${1}"+Mark+"@")
		s = query.ReplaceAllString(s, "${1}"+Mark)
	}
	if hasAny(s, "AKIA", "ASIA", "eyJ", "gh") {
		s = forms.ReplaceAllString(s, Mark)
	}
	lower := strings.ToLower(s)
	if hasAny(lower, "bearer", "basic") {
		s = bearer.ReplaceAllString(s, "${1}${2}"+Mark)
	}
	if !hasAny(lower, stems...) {
		return s
	}
	s = assigned.ReplaceAllStringFunc(s, func(m string) string { return hide(assigned, m) })
	return flagged.ReplaceAllStringFunc(s, func(m string) string { return hide(flagged, m) })
}

func hasAny(s string, parts ...string) bool {
	return slices.ContainsFunc(parts, func(p string) bool { return strings.Contains(s, p) })
}

// hide replaces the value of one match of name, separator, value.
func hide(of *regexp.Regexp, match string) string {
	g := of.FindStringSubmatch(match)
	if g == nil {
		return Mark // the match lost its context: hide all of it
	}
	name, between, value := g[1], g[2], g[3]
	switch {
	case aFile(name):
		return match
	case value == "true" || value == "false" || value == "null" || isNumber(value) || value == "[" || value == "{":
		return match
	}
	open, rest := quotes(value)
	if rest == "" && open != "" {
		return match
	}
	return name + between + open + Mark + open
}

// isNumber: up to six digits, a count; a longer one may be a PIN or a key.
func isNumber(s string) bool {
	return len(s) <= minLiteral && strings.Trim(s, "0123456789.") == ""
}

// quotes splits the quotation mark, with what escapes it, from the text inside.
func quotes(value string) (mark, inside string) {
	bare := strings.TrimLeft(value, `\`)
	if bare == "" || (bare[0] != '"' && bare[0] != '\'') {
		return "", value
	}
	mark = value[:len(value)-len(bare)+1]
	return mark, strings.TrimSuffix(strings.TrimPrefix(value, mark), mark)
}
