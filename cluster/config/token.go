package config

import (
	"fmt"
	"os"
	"strings"
)

// CheckTokenFile refuses an admin token file that cannot be read, or whose first line is blank: such a master could not
// be administered. Without a token file there is nothing to check.
func (c Config) CheckTokenFile() error {
	if c.AdminTokenFile == "" {
		return nil
	}
	body, err := os.ReadFile(c.AdminTokenFile)
	if err != nil {
		return fmt.Errorf("the admin token file cannot be read: %w", err)
	}
	line, _, _ := strings.Cut(string(body), "\n")
	if strings.TrimSpace(line) == "" {
		return fmt.Errorf("the admin token file %s has an empty first line", c.AdminTokenFile)
	}
	return nil
}
