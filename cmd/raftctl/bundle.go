package main

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"raftmaster/cluster/redact"
)

// bundleReadme tells the reader of a bundle what is where.
const bundleReadme = `What raftctl debug has collected. manifest.json lists the masters, their parts and what is missing, and why.
masters/ADDRESS/ of each master:
  status.json health.json peers.json   what /v1 shows: quorum, counts, digest of the state, leaders, alarms
  events.json                          its history, oldest first
  metrics.txt                          /metrics
  log.txt log-level.json               its last log lines
  config.json                          the settings in force
  raft.json disk.json process.json     Raft's figures, files of the data directory, the process and its machine
  goroutines.txt                       the stacks of all goroutines
  heap.pb.gz                           for go tool pprof
`

// writeBundle makes the file, which only its owner may read. It is removed again when it could not be completed.
func writeBundle(file string, now time.Time, m debugManifest, secrets *redact.Redactor) (size int64, err error) {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return 0, fmt.Errorf("the bundle cannot be written: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(file))
		}
	}()
	err = tarBundle(f, now, m, secrets)
	var info os.FileInfo
	if err == nil {
		info, err = f.Stat()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return 0, fmt.Errorf("the bundle cannot be written: %w", err)
	}
	return info.Size(), nil
}

func tarBundle(to io.Writer, now time.Time, m debugManifest, secrets *redact.Redactor) error {
	zip := gzip.NewWriter(to)
	out := tar.NewWriter(zip)
	top := "raftmaster-debug-" + now.UTC().Format("20060102T150405Z")
	add := func(name string, data []byte) error {
		err := out.WriteHeader(&tar.Header{Name: top + "/" + name, Mode: 0o600, Size: int64(len(data)), ModTime: now, Format: tar.FormatPAX})
		if err != nil {
			return err
		}
		_, err = out.Write(data)
		return err
	}
	manifest, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	if err := errors.Join(add("README.txt", []byte(bundleReadme)), add("manifest.json", []byte(secrets.Text(string(manifest))+"\n"))); err != nil {
		return err
	}
	for _, x := range m.Masters {
		for _, p := range x.Parts {
			if err := add(strings.TrimPrefix(p.File, "/"), p.data); err != nil {
				return err
			}
		}
	}
	return errors.Join(out.Close(), zip.Close())
}
