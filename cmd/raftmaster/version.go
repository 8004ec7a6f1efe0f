package main

import "raftmaster/cmd/internal/cli"

// version is set by the linker: -ldflags "-X main.version=1.2.3".
var version = ""

func versionString() string { return cli.Version(version) }
