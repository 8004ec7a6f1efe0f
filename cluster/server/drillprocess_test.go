package server

import (
	"os"
	"strconv"
	"strings"
	"testing"
)

// A helper touches no process but the one that has started it.
func TestThePauseHelperTouchesOnlyItsParent(t *testing.T) {
	parent := strconv.Itoa(os.Getppid())
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"no arguments": {nil, "usage"},
		"another role": {[]string{"kill", parent, "0", "0"}, "usage"},
		"a stranger":   {[]string{"stop", strconv.Itoa(os.Getpid()), "0", "0"}, "is not the parent"},
		"no number":    {[]string{"stop", parent, "x", "0"}, "no number"},
		"a negative":   {[]string{"stop", parent, "0", "-1"}, "no number"},
	} {
		if err := runPauseHelper(c.args); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func TestShellWordsCanBePasted(t *testing.T) {
	for in, want := range map[string]string{
		"--data-dir": "--data-dir", "spark://a:1,b:2": "spark://a:1,b:2", "": "''", "a b": "'a b'", "it's": `'it'\''s'`, "$(x)": "'$(x)'",
	} {
		if got := shellWord(in); got != want {
			t.Errorf("%q: %s, want %s", in, got, want)
		}
	}
}
