package main

import (
	"bytes"
	"strings"
	"testing"

	"raftmaster/cluster/load"
)

// Workers that run nothing are not put on a cluster without a word of consent.
func TestLoadAsksBeforeItPutsLoadOnACluster(t *testing.T) {
	check(t, ctl(t, nil, "load", "--masters", "spark://127.0.0.1:1"), exitRefused, "--yes")
}

func TestLoadNamesWrongUsage(t *testing.T) {
	for want, args := range map[string][]string{
		"must begin with spark://": {"--masters", "127.0.0.1:7077"},
		"is not HOST:PORT":         {"--masters", "spark://a"},
		"--workers -1":             {"--workers", "-1"},
		"--cores 0":                {"--cores", "0"},
		`phase "dance"`:            {"--phases", "dance", "--yes"},
		"are not known":            {"--release", "2.4.0", "--yes"},
	} {
		check(t, ctl(t, nil, append([]string{"load"}, args...)...), exitUsage, want)
	}
}

func TestLoadWithoutALeaderIsExitCode3(t *testing.T) {
	check(t, ctl(t, nil, "load", "--masters", "spark://127.0.0.1:1", "--dry-run", "--phase-timeout", "300ms"), exitNoLeader, "no master leads")
}

// Off a terminal the progress is one line for each phase, not one for each step.
func TestLoadProgressIsPlainOffATerminal(t *testing.T) {
	var out bytes.Buffer
	b := newBar(&out)
	for i := range 10 {
		b.show(load.Progress{Phase: "worker registrations", Done: i, Total: 10, Part: float64(i) / 10})
	}
	b.show(load.Progress{Phase: "heartbeats", Done: 7, Part: 0.5})
	b.end()
	if got := out.String(); strings.Count(got, "\n") != 2 || strings.Contains(got, "\r") {
		t.Errorf("%q", got)
	}
}

func TestLoadTableHasRatesPercentilesAndErrors(t *testing.T) {
	var out bytes.Buffer
	r := &load.Report{Leader: "127.0.0.1:7077", Workers: 3, Release: "4.3.0", Errors: map[string]int{"connection lost": 2}, Results: []load.Result{
		{Name: "worker registrations", Count: 3, Seconds: 0.5, PerSecond: 6, LatencyMS: &load.Percentiles{P50: 1.5, P90: 2, P99: 3, Max: 4},
			Master: &load.Usage{CPUSeconds: 0.25, PerCPUSecond: 12, RSSMB: 42}}}}
	loadTable(&out, r)
	for _, want := range []string{"worker registrations\t3\t0.500\t6\t1.50\t2.00\t3.00\t4.00\t0.25\t12\t42.0", "errors: connection lost (2)", "leader 127.0.0.1:7077"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	out.Reset()
	if loadTable(&out, &load.Report{Workers: 3}); out.Len() != 0 {
		t.Errorf("a run that measured nothing: %s", out.String())
	}
}
