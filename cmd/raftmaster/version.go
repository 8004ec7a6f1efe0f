package main

import "runtime/debug"

// version is set by the linker: -ldflags "-X main.version=1.2.3".
var version = ""

// versionString is the linked version, else the revision that the toolchain recorded, else "dev".
func versionString() string {
	if version != "" {
		return version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "dev"
	}
	revision, dirty := "", ""
	for _, s := range info.Settings {
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
