package config

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"unicode"
)

// Limits of a token file.
const (
	// maxTokenBytes bounds one line, maxTokenFileBytes the whole file, maxTokens the tokens in it.
	maxTokenBytes     = 4096
	maxTokenFileBytes = 256 << 10
	maxTokens         = 256
	maxTokenName      = 64
	// minListedToken is the least length of a token in a file with names: what people invent is shorter, and is guessed.
	minListedToken = 16
)

// SingleTokenName is the name of a token that stands alone in its file.
const SingleTokenName = "admin"

// Role is what the holder of a token may do.
type Role string

// The roles. RoleOperate includes RoleRead.
const (
	RoleRead    Role = "read"
	RoleOperate Role = "operate"
)

// Token is one token of a master's token file. The token itself is not kept, only its digest.
type Token struct {
	// Name tells tokens apart in events and logs.
	Name string
	Role Role
	Sum  [sha256.Size]byte
}

// ParseTokens reads a master's token file. Either its first line is one token alone, without blanks inside, which may do
// everything and is called SingleTokenName; what follows that line is not read. Or each line is NAME ROLE TOKEN, an empty
// one, or a comment behind '#'. An error names the line, and nothing of what is in it.
func ParseTokens(data []byte) ([]Token, error) {
	first, _, _ := bytes.Cut(data, []byte("\n"))
	if line := strings.TrimSpace(string(first)); !strings.HasPrefix(line, "#") && len(strings.Fields(line)) < 2 {
		token, err := singleToken(data)
		if err != nil {
			return nil, err
		}
		return []Token{{Name: SingleTokenName, Role: RoleOperate, Sum: sha256.Sum256([]byte(token))}}, nil
	}
	if len(data) > maxTokenFileBytes {
		return nil, fmt.Errorf("has more than %d bytes", maxTokenFileBytes)
	}
	var out []Token
	names, sums := map[string]bool{}, map[[sha256.Size]byte]bool{}
	operate := false
	for i, text := range strings.Split(string(data), "\n") {
		text = strings.TrimSpace(text)
		if text == "" || strings.HasPrefix(text, "#") {
			continue
		}
		t, err := parseTokenLine(text)
		switch {
		case err != nil:
		case names[t.Name]:
			err = errors.New("the name is there twice")
		case sums[t.Sum]:
			err = errors.New("the token is there twice, under another name")
		case len(out) == maxTokens:
			err = fmt.Errorf("there are more than %d tokens", maxTokens)
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", i+1, err)
		}
		names[t.Name], sums[t.Sum], operate = true, true, operate || t.Role == RoleOperate
		out = append(out, t)
	}
	if !operate {
		return nil, fmt.Errorf("has no token of the role %s: nobody could change anything", RoleOperate)
	}
	return out, nil
}

func parseTokenLine(text string) (Token, error) {
	f := strings.Fields(text)
	switch {
	case len(text) > maxTokenBytes:
		return Token{}, fmt.Errorf("it is longer than %d bytes", maxTokenBytes)
	case len(f) != 3:
		return Token{}, fmt.Errorf("it has %d words, and must be NAME ROLE TOKEN", len(f))
	case !isTokenName(f[0]):
		return Token{}, fmt.Errorf("the name must have 1 to %d letters, digits or any of . _ @ -", maxTokenName)
	case f[1] != string(RoleRead) && f[1] != string(RoleOperate):
		return Token{}, fmt.Errorf("the second word, the role, must be %s or %s", RoleRead, RoleOperate)
	case strings.ContainsFunc(f[2], unicode.IsControl):
		return Token{}, errors.New("the token has control characters")
	case len(f[2]) < minListedToken:
		return Token{}, fmt.Errorf("the token is shorter than %d characters; openssl rand -hex 32 makes a good one", minListedToken)
	}
	return Token{Name: f[0], Role: Role(f[1]), Sum: sha256.Sum256([]byte(f[2]))}, nil
}

func isTokenName(s string) bool {
	for _, c := range []byte(s) {
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("._@-", c) >= 0) {
			return false
		}
	}
	return s != "" && len(s) <= maxTokenName
}

// singleToken is the first line of a file, without the white space around it.
func singleToken(data []byte) (string, error) {
	line, _, ended := strings.Cut(string(data), "\n")
	token := strings.TrimSpace(line)
	switch {
	case token == "":
		return "", errors.New("has an empty first line")
	case strings.ContainsFunc(token, unicode.IsControl):
		return "", errors.New("has control characters in its first line")
	case len(token) > maxTokenBytes, !ended && len(data) > maxTokenBytes:
		return "", fmt.Errorf("has a first line of more than %d bytes", maxTokenBytes)
	}
	return token, nil
}

// ReadTokens reads a master's token file, which nobody but its owner and group may be able to read.
func ReadTokens(path string) ([]Token, error) {
	data, err := ReadSecretFile(path, maxTokenFileBytes)
	if err != nil {
		return nil, fmt.Errorf("the admin token file %w", err)
	}
	tokens, err := ParseTokens(data)
	if err != nil {
		return nil, fmt.Errorf("the admin token file %s %w", path, err)
	}
	return tokens, nil
}

// CheckTokenFile refuses an admin token file that ReadTokens refuses: such a master could not be administered. Without a
// token file there is nothing to check.
func (c Config) CheckTokenFile() error {
	if c.AdminTokenFile == "" {
		return nil
	}
	_, err := ReadTokens(c.AdminTokenFile)
	return err
}

// ReadTokenFile reads the token that a client presents: the first line of a file, without the white space around it. A
// line that is blank, longer than 4 KiB, has blanks inside or control characters is refused.
func ReadTokenFile(path string) (string, error) {
	data, err := ReadSecretFile(path, maxTokenBytes+1)
	if err != nil {
		return "", fmt.Errorf("the admin token file %w", err)
	}
	token, err := singleToken(data)
	if err == nil && len(strings.Fields(token)) > 1 {
		err = errors.New("has several words in its first line: is it the masters' list of names, roles and tokens? a client's file holds one token alone")
	}
	if err != nil {
		return "", fmt.Errorf("the admin token file %s %w", path, err)
	}
	return token, nil
}

// ReadSecretFile reads up to limit bytes of a file, and one more if there are more, so that a device does not hold up the
// start. A regular file that everybody on this machine can read, or change, is refused. The error begins as the end of a
// sentence about the file.
func ReadSecretFile(path string, limit int) (data []byte, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("cannot be read: %w", err)
	}
	defer func() {
		if closeErr := f.Close(); err == nil && closeErr != nil {
			err = fmt.Errorf("cannot be read: %w", closeErr)
		}
	}()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("cannot be read: %w", err)
	}
	if err := checkMode(path, info.Mode()); err != nil {
		return nil, err
	}
	data, err = io.ReadAll(io.LimitReader(f, int64(limit)+1))
	if err != nil {
		return nil, fmt.Errorf("cannot be read: %w", err)
	}
	return data, nil
}

// checkMode applies to regular files alone: a pipe or a device has no contents to keep.
func checkMode(path string, mode fs.FileMode) error {
	if mode.IsRegular() && mode.Perm()&0o006 != 0 {
		return fmt.Errorf("%s can be read or changed by everybody on this machine (mode %04o): chmod 600 %s", path, mode.Perm(), path)
	}
	return nil
}
