package main

import (
	"strings"
	"testing"
)

// status shows how large the data of each master is, and what is free beside it.
func TestStatusShowsSizes(t *testing.T) {
	ms := newCluster(t)
	st := &ms[1].status
	st.DataDir, st.LogEntries, st.LogBytes, st.UncoveredBytes, st.SnapshotBytes, st.DiskFreeBytes = "/data/b", 1234, 5<<20, 1536, 3<<30, 300<<20
	out := ctl(t, nil, "--endpoints", endpoints(ms), "status").out
	found := false
	for _, line := range strings.Split(out, "\n") {
		found = found || strings.Join(strings.Fields(line), " ") == "b:7077 1234 5.0 MiB 1.5 KiB 3.0 GiB 300.0 MiB /data/b"
	}
	if !found || !strings.Contains(out, "DATA DIRECTORY") {
		t.Errorf("no line with the sizes of b:\n%s", out)
	}
	if r := ctl(t, nil, "--endpoints", endpoints(ms), "-o", "json", "status"); !strings.Contains(r.out, `"log_entries": 1234`) || !strings.Contains(r.out, `"data_dir": "/data/b"`) {
		t.Errorf("JSON without them: %s", r.out)
	}
}
