package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"raftmaster/cluster/raftstore"
	"raftmaster/cmd/internal/cli"
	"raftmaster/fsm"
	"raftmaster/transport/raftnet"
	"raftmaster/transport/sparkmsg"
)

// version and commit are set by the linker: -ldflags "-X main.version=1.2.3 -X main.commit=0123abc".
var version, commit = "", ""

func versionString() string { return cli.Version(version) }

// versionInfo is the JSON of "version".
type versionInfo struct {
	cli.Build
	// CommandLevel is the level of commands that this release knows (docs/adr/0025), DataFormats the formats of data
	// directories that it reads, SnapshotFormat that of snapshots, HandshakeVersion that of connections between masters.
	CommandLevel     int   `json:"command_level"`
	DataFormats      []int `json:"data_formats"`
	SnapshotFormat   int   `json:"snapshot_format"`
	HandshakeVersion int   `json:"handshake_version"`
	// SparkReleases are those whose workers, drivers and clients are spoken to, a line each.
	SparkReleases []string `json:"spark_releases"`
}

func newVersionInfo() versionInfo {
	return versionInfo{Build: cli.BuildOf(version, commit), CommandLevel: int(fsm.CommandLevel), DataFormats: raftstore.DataFormats(),
		SnapshotFormat: fsm.SnapshotFormat, HandshakeVersion: int(raftnet.ProtocolVersion), SparkReleases: sparkmsg.Lines()}
}

func (v versionInfo) print(w io.Writer) error {
	formats := make([]string, len(v.DataFormats))
	for i, f := range v.DataFormats {
		formats[i] = fmt.Sprint(f)
	}
	_, err := fmt.Fprintf(w, "raftmaster %s\n%s  commands    level %d\n  data        formats %s\n  snapshots   format %d\n  handshake   version %d\n  Spark       %s\n",
		v.Version, v.Build, v.CommandLevel, strings.Join(formats, ", "), v.SnapshotFormat, v.HandshakeVersion, strings.Join(v.SparkReleases, ", "))
	return err
}

func versionCommand() *cobra.Command {
	output := "text"
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print version, formats and the Spark releases known",
		RunE: func(cmd *cobra.Command, _ []string) error {
			v := newVersionInfo()
			switch output {
			case "text":
				return v.print(cmd.OutOrStdout())
			case "json":
				e := json.NewEncoder(cmd.OutOrStdout())
				e.SetIndent("", "  ")
				return e.Encode(v)
			}
			return &usageError{fmt.Errorf("-o %s: must be text or json", output)}
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", output, "text or json")
	return cmd
}
