package cli

import (
	"errors"
	"runtime/debug"
	"strings"
)

// Version is the linked version, else the revision that the toolchain recorded, else "dev".
func Version(linked string) string {
	if linked != "" {
		return linked
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "dev"
	}
	return revision(info.Settings)
}

func revision(settings []debug.BuildSetting) string {
	revision, dirty := "", ""
	for _, s := range settings {
		switch s.Key {
		case "vcs.revision":
			revision = s.Value[:min(12, len(s.Value))]
		case "vcs.modified":
			if s.Value == "true" {
				dirty = "+changes"
			}
		}
	}
	if revision == "" {
		return "dev"
	}
	return "dev-" + revision + dirty
}

// PlainFlagError takes the words of Go's parsers out of pflag's message about a flag's value.
func PlainFlagError(err error) error {
	var bad interface{ GetValue() string }
	before, after, ok := strings.Cut(err.Error(), " flag: ")
	if !errors.As(err, &bad) || !ok {
		return err
	}
	switch {
	case strings.HasPrefix(after, "strconv.ParseBool"):
		after = "must be true or false"
	case strings.HasPrefix(after, "strconv."):
		after = "must be a whole number"
	case strings.HasPrefix(after, "time: "):
		after = "must be a time with a unit, such as 500ms or 2s"
	}
	return errors.New(before + ": " + after)
}
