package config

import (
	"crypto/sha256"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const (
	longToken  = "0123456789abcdef0123"
	otherToken = "fedcba9876543210fedc"
)

func TestParseTokens(t *testing.T) {
	for text, want := range map[string][]Token{
		"secret\n":            {{SingleTokenName, RoleOperate, sha256.Sum256([]byte("secret"))}},
		" secret \r\nanother": {{SingleTokenName, RoleOperate, sha256.Sum256([]byte("secret"))}},
		"# who may what\r\n\r\nann operate " + longToken + "\r\n\tgrafana  read\t" + otherToken: {
			{"ann", RoleOperate, sha256.Sum256([]byte(longToken))}, {"grafana", RoleRead, sha256.Sum256([]byte(otherToken))}},
	} {
		got, err := ParseTokens([]byte(text))
		if err != nil || len(got) != len(want) {
			t.Errorf("%q: %v, %v", text, got, err)
			continue
		}
		for i := range want {
			if got[i] != want[i] {
				t.Errorf("%q: token %d is %+v, want %+v", text, i, got[i], want[i])
			}
		}
	}
}

func TestATokenFileThatIsNotClearIsRefusedByLineWithoutItsContents(t *testing.T) {
	many := strings.Builder{}
	for i := range maxTokens + 1 {
		many.WriteString("t" + strings.Repeat("x", i%60) + string(rune('a'+i/60)) + " operate " + longToken + strings.Repeat("y", i) + "\n")
	}
	for text, want := range map[string]string{
		"ann operate":                                           "line 1: it has 2 words",
		"# x\nsecret-alone-behind-a-comment":                    "line 2: it has 1 words",
		"ann operate " + longToken + " x":                       "line 1: it has 4 words",
		"ann admin " + longToken:                                "the role, must be read or operate",
		"ann OPERATE " + longToken:                              "the role, must be read or operate",
		"an/n operate " + longToken:                             "line 1: the name",
		strings.Repeat("n", 65) + " read " + longToken:          "line 1: the name",
		"ann operate short":                                     "shorter than 16",
		"ann operate " + longToken + "\x01":                     "control characters",
		"ann read " + longToken:                                 "no token of the role operate",
		"ann operate " + longToken + "\nann read " + otherToken: "line 2: the name is there twice",
		"ann operate " + longToken + "\nbob read " + longToken:  "line 2: the token is there twice",
		"ann operate " + strings.Repeat("x", maxTokenBytes):     "longer than 4096",
		many.String():                                           "more than 256 tokens",
		"# " + strings.Repeat("x", maxTokenFileBytes):           "more than 262144 bytes",
		"": "empty first line",
	} {
		got, err := ParseTokens([]byte(text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: %v, %v; want %q", text, got, err, want)
			continue
		}
		for _, secret := range []string{longToken, otherToken, "secret-alone"} {
			if strings.Contains(err.Error(), secret) {
				t.Errorf("the error gives the token away: %v", err)
			}
		}
	}
}

func TestATokenFileThatEverybodyCanReadIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(path, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for mode, good := range map[os.FileMode]bool{0o600: true, 0o440: true, 0o400: true, 0o604: false, 0o644: false, 0o602: false} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		_, master := ReadTokens(path)
		_, client := ReadTokenFile(path)
		for who, err := range map[string]error{"master": master, "client": client} {
			if (err == nil) != good || (err != nil && !strings.Contains(err.Error(), "chmod 600 "+path)) {
				t.Errorf("%s, mode %04o: %v", who, mode, err)
			}
		}
	}
}

func TestAClientDoesNotTakeTheMastersListForAToken(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(path, []byte("ann operate "+longToken+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if token, err := ReadTokenFile(path); err == nil || token != "" || !strings.Contains(err.Error(), "several words") || strings.Contains(err.Error(), longToken) {
		t.Errorf("%q, %v", token, err)
	}
}

func FuzzParseTokens(f *testing.F) {
	for _, s := range []string{"", "secret", "ann operate " + longToken, "# c\n\nann read " + longToken + "\nbob operate " + otherToken, "a\x00b", "\n", "a b c d"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		tokens, err := ParseTokens(data)
		if err != nil {
			if tokens != nil {
				t.Fatal("tokens and an error")
			}
			return
		}
		operate := false
		for i, x := range tokens {
			operate = operate || x.Role == RoleOperate
			if !isTokenName(x.Name) || (x.Role != RoleRead && x.Role != RoleOperate) {
				t.Fatalf("%+v", x)
			}
			for _, y := range tokens[:i] {
				if x.Name == y.Name || x.Sum == y.Sum {
					t.Fatal("two tokens cannot be told apart")
				}
			}
		}
		if !operate {
			t.Fatal("nobody may change anything")
		}
	})
}
