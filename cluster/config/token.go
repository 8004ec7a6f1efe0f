package config

import (
	"fmt"
	"io"
	"os"
	"strings"
	"unicode"
)

// maxTokenBytes bounds the first line of a token file.
const maxTokenBytes = 4096

// CheckTokenFile refuses an admin token file that ReadTokenFile refuses: such a master could not be administered. Without a
// token file there is nothing to check.
func (c Config) CheckTokenFile() error {
	if c.AdminTokenFile == "" {
		return nil
	}
	_, err := ReadTokenFile(c.AdminTokenFile)
	return err
}

// ReadTokenFile reads the admin token: the first line of a file, without the white space around it. No more than that is
// read, so that a device does not hold up the start. A line that is blank, longer than 4 KiB, or that no HTTP header could
// carry because of its control characters, is refused.
func ReadTokenFile(path string) (token string, err error) {
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("the admin token file cannot be read: %w", err)
	}
	body, err := io.ReadAll(io.LimitReader(f, maxTokenBytes+1))
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return "", fmt.Errorf("the admin token file cannot be read: %w", err)
	}
	line, _, ended := strings.Cut(string(body), "\n")
	token = strings.TrimSpace(line)
	switch {
	case token == "":
		return "", fmt.Errorf("the admin token file %s has an empty first line", path)
	case strings.ContainsFunc(token, unicode.IsControl):
		return "", fmt.Errorf("the admin token file %s has control characters in its first line", path)
	case !ended && len(body) > maxTokenBytes:
		return "", fmt.Errorf("the admin token file %s has a first line of more than %d bytes", path, maxTokenBytes)
	}
	return token, nil
}
