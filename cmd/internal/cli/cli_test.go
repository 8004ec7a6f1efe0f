package cli

import (
	"errors"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

func TestVersion(t *testing.T) {
	if got := Version("1.2.3"); got != "1.2.3" {
		t.Errorf("the linked version is %q", got)
	}
	set := func(kv ...string) (out []debug.BuildSetting) {
		for i := 0; i < len(kv); i += 2 {
			out = append(out, debug.BuildSetting{Key: kv[i], Value: kv[i+1]})
		}
		return out
	}
	for want, settings := range map[string][]debug.BuildSetting{
		"dev":                      nil,
		"dev-0123":                 set("vcs.revision", "0123", "vcs.modified", "false"),
		"dev-0123456789ab+changes": set("vcs.revision", "0123456789abcdef", "vcs.modified", "true"),
	} {
		if got := revision(settings); got != want {
			t.Errorf("%v: %q, want %q", settings, got, want)
		}
	}
}

// TestPlainFlagError: no word of Go's parsers is left, and what is no error of a flag's value stays as it is.
func TestPlainFlagError(t *testing.T) {
	fs := (&cobra.Command{Use: "x"}).Flags()
	fs.Bool("yes", false, "")
	fs.Int("n", 0, "")
	fs.Duration("wait", 0, "")
	for arg, want := range map[string]string{"--yes=maybe": "must be true or false", "--n=x": "must be a whole number", "--wait=5": "must be a time with a unit"} {
		err := PlainFlagError(fs.Parse([]string{arg}))
		if !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "strconv") || strings.Contains(err.Error(), "time:") {
			t.Errorf("%s: %v", arg, err)
		}
	}
	other := errors.New("unknown flag: --x")
	if got := PlainFlagError(other); got != other {
		t.Errorf("%v", got)
	}
}
