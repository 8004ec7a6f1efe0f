package launcher

import (
	"slices"
	"strings"
	"testing"
)

// quote writes a word so that splitJavaOptions gives it back.
func quote(word string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(word) + `"`
}

// FuzzSplitJavaOptions: no panic, no word out of nothing, and quoted words come back.
func FuzzSplitJavaOptions(f *testing.F) {
	for _, seed := range []string{"", `-Da=1 -Db="x y"`, `'a\b'`, `a\ b`, `"open`, `\`, "\u00a0\u2003x", `-XX:OnOutOfMemoryError='kill -9 %p'`, "-Dü=\xff"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, line string) {
		words, err := splitJavaOptions(line)
		total := 0
		for _, w := range words {
			total += len(w)
		}
		if err == nil && total > 3*len(line) { // a byte that is no UTF-8 becomes three
			t.Errorf("%q became %q", line, words)
		}
		if strings.ToValidUTF8(line, "") != line {
			return
		}
		again, err := splitJavaOptions(quote(line) + " " + quote(line))
		if err != nil || !slices.Equal(again, []string{line, line}) {
			t.Errorf("%q became %q, %v", line, again, err)
		}
	})
}

// FuzzRedact: an option with a secret name never keeps its value.
func FuzzRedact(f *testing.F) {
	f.Add("my.password", "x")
	f.Add("=secret", "a=b\nc")
	f.Fuzz(func(t *testing.T, name, value string) {
		if name == "" || strings.Contains(name[1:], "=") || !defaultRedaction.MatchString(name) || value == "" {
			return
		}
		if got := redact("-D"+name+"="+value, defaultRedaction); got != "-D"+name+"="+redacted {
			t.Errorf("%q", got)
		}
	})
}
