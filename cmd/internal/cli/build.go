package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// Build says what a binary was made from.
type Build struct {
	Version string `json:"version"`
	// Commit is the revision of the source, "" where neither the linker nor the toolchain was told.
	Commit string `json:"commit"`
	// Go is the release of the toolchain, Platform operating system and architecture.
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// BuildOf puts together what the linker was told and what the toolchain recorded.
func BuildOf(version, commit string) Build {
	b := Build{Version: Version(version), Commit: commit, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok || commit != "" {
		return b
	}
	dirty := ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			b.Commit = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = "+changes"
		}
	}
	if b.Commit != "" {
		b.Commit += dirty
	}
	return b
}

// String gives the lines below the name and the version.
func (b Build) String() string {
	commit := b.Commit
	if commit == "" {
		commit = "not recorded"
	}
	return fmt.Sprintf("  commit      %s\n  go          %s %s\n", commit, b.Go, b.Platform)
}
