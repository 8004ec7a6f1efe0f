package main

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"text/tabwriter"

	"raftmaster/cluster/canary"
)

// canaryReport is a run of three workers of which one is well.
func canaryReport() *canary.Report {
	return &canary.Report{Leader: "http://a:8080", Apps: []canary.App{{ID: "app-1", Release: "4.3.0", RegisteredMillis: 4}}, OK: 1, Failed: 1, Skipped: 1, Millis: 12345, Clean: true,
		Workers: []canary.Worker{
			{ID: "worker-1", Address: "w1:7078", Release: "4.3.0", Outcome: canary.OK, TotalMillis: 1709, AppID: "app-1", ExecutorID: "0", Steps: []canary.Step{
				{Name: canary.StepRegistered, Millis: 4, AtMillis: 4}, {Name: canary.StepGranted, Millis: 1, AtMillis: 5}, {Name: canary.StepRunning, Millis: 34, AtMillis: 39},
				{Name: canary.StepConfig, Millis: 900, AtMillis: 939}, {Name: canary.StepDriver, Millis: 400, AtMillis: 1339}, {Name: canary.StepBlockManager, Millis: 100, AtMillis: 1439},
				{Name: canary.StepLaunched, Millis: 200, AtMillis: 1639}, {Name: canary.StepThreadDump, Millis: 70, AtMillis: 1709}}},
			{ID: "worker-2", Address: "w2:7078", Release: "4.3.0", Outcome: canary.Failed, Failed: canary.StepConfig, Reason: "the executor ended: exit status 1", TotalMillis: 39, AppID: "app-1",
				ExecutorID: "1", Steps: []canary.Step{{Name: canary.StepRegistered, Millis: 4, AtMillis: 4}, {Name: canary.StepGranted, Millis: 35, AtMillis: 39}}, Stderr: "java: \x1b[2Jnot found"},
			{ID: "worker-3", Address: "w3:7078", Release: "3.5.9", Outcome: canary.Skipped, Reason: "it is full: none of its 4 cores is free"},
		}}
}

func TestCanaryTable(t *testing.T) {
	const want = `WORKER   SPARK  RESULT       APP  GRANT  LAUNCHING  RUNNING  CONFIG  DRIVER  BLOCKS  LAUNCHED  DUMP  TOTAL MS  FAILED STEP   REASON
w1:7078  4.3.0  ok           4    1      -          34       900     400     100     200       70    1709      -             -
w2:7078  4.3.0  failed       4    35     -          -        -       -       -       -         -     39        config_asked  the executor ended: exit status 1
w3:7078  3.5.9  not reached  -    -      -          -        -       -       -       -         -     -         -             it is full: none of its 4 cores is free

1 ok, 1 failed, 1 not reached of 3 workers at http://a:8080 in 12s; nothing was left behind

end of the standard error of executor 1 on w2:7078:
  java: \x1b[2Jnot found
`
	var b bytes.Buffer
	tw := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	canaryTable(tw, canaryReport())
	if err := tw.Flush(); err != nil {
		t.Fatal(err)
	}
	canaryFailures(&b, canaryReport())
	if got := b.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestCanaryExitCodes(t *testing.T) {
	well := &canary.Report{OK: 2, Workers: make([]canary.Worker, 2), Clean: true}
	dirty := &canary.Report{OK: 2, Workers: make([]canary.Worker, 2), Left: "application app-1"}
	bad := &canary.Report{Failed: 1, Workers: make([]canary.Worker, 1), Clean: true}
	full := &canary.Report{Skipped: 1, Workers: make([]canary.Worker, 1), Clean: true}
	for name, c := range map[string]struct {
		report *canary.Report
		err    error
		code   int
		want   string
	}{
		"well":                  {well, nil, exitOK, ""},
		"partial":               {canaryReport(), nil, exitUnhealthy, "1 of 3 workers are ok"},
		"left":                  {dirty, nil, exitUnhealthy, "application app-1"},
		"none":                  {bad, nil, exitError, "no worker is ok"},
		"full":                  {full, nil, exitUnhealthy, "0 of 1"},
		"interrupted":           {well, context.Canceled, exitError, "nothing was left behind"},
		"interrupted, and left": {dirty, context.Canceled, exitUnhealthy, "something may be left"},
		"interrupted at once":   {nil, context.Canceled, exitError, "interrupted"},
		"not registered":        {bad, errors.New("no master"), exitError, "no master"},
		"invalid":               {nil, &canary.InvalidError{What: "w", Reason: "r"}, exitUsage, "w: r"},
		"no leader":             {nil, &canary.NoLeaderError{}, exitNoLeader, "--endpoints"},
	} {
		err := canaryError(c.report, c.err)
		code := exitOK
		var coded *codedError
		if errors.As(err, &coded) {
			code = coded.code
		}
		if code != c.code || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: code %d, %v", name, code, err)
		}
	}
}

func TestCanaryProgress(t *testing.T) {
	var b bytes.Buffer
	v := newCanaryView(&b)
	for _, p := range []canary.Progress{{Text: "registered", Total: 2}, {WorkerID: "w1", Text: "granted", Total: 2}, {WorkerID: "w1", Text: "ok", Done: 1, Total: 2},
		{WorkerID: "w2", Text: "failed: \x07", Done: 2, Total: 2}} {
		v.show(p)
	}
	v.end()
	if want := "0/2  registered\n1/2  w1: ok\n2/2  w2: failed: \\a\n"; b.String() != want {
		t.Errorf("without a terminal: %q", b.String())
	}
	b.Reset()
	v = &canaryView{out: &b, terminal: true}
	v.show(canary.Progress{WorkerID: "w1", Text: strings.Repeat("x", 300), Total: 1})
	v.end()
	if got := b.String(); strings.Contains(got, "\n") || len(got) > 400 {
		t.Errorf("on a terminal: %q", got)
	}
}
