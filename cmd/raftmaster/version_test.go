package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"raftmaster/fsm"
	"raftmaster/transport/sparkmsg"
)

func TestVersionCommand(t *testing.T) {
	code, out := newBench(nil, stopAtOnce).main("version")
	for _, want := range []string{"raftmaster ", "\n  commit      ", "\n  go          go1.", "\n  commands    level 2\n", "\n  data        formats 1, 2\n", "\n  snapshots   format 1\n",
		"\n  handshake   version 1\n", "\n  Spark       3.2, 3.3, "} {
		if code != exitOK || !strings.Contains(out, want) {
			t.Errorf("exit code %d, %q is missing:\n%s", code, want, out)
		}
	}
	code, out = newBench(nil, stopAtOnce).main("version", "-o", "json")
	var v versionInfo
	if err := json.Unmarshal([]byte(out), &v); err != nil || code != exitOK {
		t.Fatalf("exit code %d, %v: %s", code, err, out)
	}
	if v.Version == "" || v.Go == "" || v.Platform == "" || v.CommandLevel != int(fsm.CommandLevel) || !slices.Equal(v.DataFormats, []int{1, 2}) {
		t.Errorf("%+v", v)
	}
	for _, line := range v.SparkReleases {
		if _, ok := sparkmsg.FamilyForRelease(line + ".0"); !ok {
			t.Errorf("Spark %s belongs to no family", line)
		}
	}
	if code, _ := newBench(nil, stopAtOnce).main("version", "-o", "xml"); code != exitUsage {
		t.Errorf("exit code %d for -o xml", code)
	}
}
