package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const thing = `{"Action":"start","Package":"raftmaster/cluster/thing"}
{"Action":"run","Package":"raftmaster/cluster/thing","Test":"TestOne"}
{"Action":"output","Package":"raftmaster/cluster/thing","Test":"TestOne","Output":"=== RUN   TestOne\n"}
{"Action":"output","Package":"raftmaster/cluster/thing","Test":"TestOne","Output":"quiet\n"}
{"Action":"output","Package":"raftmaster/cluster/thing","Test":"TestOne","Output":"--- PASS: TestOne (0.00s)\n"}
{"Action":"pass","Package":"raftmaster/cluster/thing","Test":"TestOne","Elapsed":0}
{"Action":"output","Package":"raftmaster/cluster/thing","Test":"TestFails","Output":"loud\n"}
{"Action":"fail","Package":"raftmaster/cluster/thing","Test":"TestFails","Elapsed":0}
{"Action":"output","Package":"raftmaster/cluster/thing","Test":"TestSkipped","Output":"    x_test.go:3: LEFT OUT: no camel\n"}
{"Action":"skip","Package":"raftmaster/cluster/thing","Test":"TestSkipped","Elapsed":0}
{"Action":"skip","Package":"raftmaster/cluster/thing","Test":"TestHollow/a","Elapsed":0}
{"Action":"skip","Package":"raftmaster/cluster/thing","Test":"TestHollow/b","Elapsed":0}
{"Action":"pass","Package":"raftmaster/cluster/thing","Test":"TestHollow","Elapsed":0}
{"Action":"skip","Package":"raftmaster/cluster/thing","Test":"TestHalf/a","Elapsed":0}
{"Action":"pass","Package":"raftmaster/cluster/thing","Test":"TestHalf/b","Elapsed":0}
{"Action":"pass","Package":"raftmaster/cluster/thing","Test":"TestHalf","Elapsed":0}
{"Action":"output","Package":"raftmaster/cluster/thing","Test":"TestCutOff","Output":"panic: oh\n"}
{"Action":"output","Package":"raftmaster/cluster/thing","Output":"PASS\n"}
{"Action":"output","Package":"raftmaster/cluster/thing","Output":"ok  \traftmaster/cluster/thing\t0.1s\n"}
{"Action":"fail","Package":"raftmaster/cluster/thing","Elapsed":0.1}
{"Action":"start","Package":"raftmaster/cluster/broken"}
{"Action":"output","Package":"raftmaster/cluster/broken","Output":"FAIL\traftmaster/cluster/broken [build failed]\n"}
{"Action":"fail","Package":"raftmaster/cluster/broken","Elapsed":0,"FailedBuild":"raftmaster/cluster/broken"}
{"ImportPath":"raftmaster/cmd/x","Action":"build-output","Output":"x.go:1: broken\n"}
go: a complaint of its own
`

func outcomesOfThing(t *testing.T) outcomes {
	t.Helper()
	o := outcomes{}
	if err := o.addEvents(strings.NewReader(thing)); err != nil {
		t.Fatal(err)
	}
	return o
}

// judge applies the rule about the run to one test of the table.
func judge(t *testing.T, ref testRef, this run) string {
	t.Helper()
	results, err := readResults(filepath.Join(module(t, ""), "docs", "results"))
	if err != nil {
		t.Fatal(err)
	}
	problems, unseen := checkRan([]row{{number: "B-001", tests: []testRef{ref, ref}}}, this, results)
	if unseen > 0 {
		return "unseen"
	}
	if len(problems) > 1 {
		t.Errorf("said twice: %q", problems)
	}
	return strings.Join(problems, "\n")
}

func TestNamedTestsMustHaveRunAndPassed(t *testing.T) {
	const pkg = "cluster/thing"
	ordinary := run{outcomes: outcomesOfThing(t)}
	long := run{outcomes: outcomesOfThing(t), long: true}
	partial := run{outcomes: outcomesOfThing(t), partial: true}
	for name, c := range map[string]struct {
		ref  testRef
		this run
		want string // "" means no problem
	}{
		"passed":                       {testRef{pkg, "TestOne", ""}, ordinary, ""},
		"failed":                       {testRef{pkg, "TestFails", ""}, ordinary, "did not pass: fail"},
		"skipped":                      {testRef{pkg, "TestSkipped", ""}, ordinary, "did not pass: skip"},
		"every sub-test was skipped":   {testRef{pkg, "TestHollow", ""}, ordinary, "did not pass: skip"},
		"some sub-test passed":         {testRef{pkg, "TestHalf", ""}, ordinary, ""},
		"a sub-test":                   {testRef{pkg, "TestHalf/b", ""}, ordinary, ""},
		"a sub-test that was skipped":  {testRef{pkg, "TestHalf/a", ""}, ordinary, "did not pass: skip"},
		"a sub-test that is none":      {testRef{pkg, "TestHalf/c", ""}, ordinary, "did not run"},
		"began and never ended":        {testRef{pkg, "TestCutOff", ""}, ordinary, "did not run"},
		"another package":              {testRef{"cluster/away", "TestOne", ""}, ordinary, "did not run"},
		"a package that is broken":     {testRef{"cluster/broken", "TestOne", ""}, partial, "did not run"},
		"skipped in a partial run":     {testRef{pkg, "TestSkipped", ""}, partial, "unseen"},
		"failed in a partial run":      {testRef{pkg, "TestFails", ""}, partial, "did not pass: fail"},
		"absent from its package":      {testRef{pkg, "TestNone", ""}, partial, "did not run"},
		"a package that was left out":  {testRef{"cluster/away", "TestOne", ""}, partial, "unseen"},
		"long, in the newest results":  {testRef{pkg, "TestLong", "long"}, ordinary, ""},
		"long, in no result":           {testRef{pkg, "TestNone", "long"}, ordinary, "no file of docs/results has it"},
		"long, failed in the results":  {testRef{pkg, "TestWorse", "long"}, ordinary, "says fail"},
		"a needless mark":              {testRef{pkg, "TestOne", "long"}, ordinary, "but an ordinary run has it"},
		"long, in a long run":          {testRef{pkg, "TestOne", "long"}, long, ""},
		"long, failed in a long run":   {testRef{pkg, "TestFails", "long"}, long, "did not pass: fail"},
		"all releases, skipped later":  {testRef{pkg, "TestAll/3.3.4", "all releases"}, ordinary, ""},
		"all releases, without result": {testRef{pkg, "TestAll/9.9.9", "all releases"}, ordinary, "no file of docs/results has it"},
	} {
		got := judge(t, c.ref, c.this)
		if (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestAResultFileThatIsNoneIsAnError(t *testing.T) {
	for _, text := range []string{`{"tests": [`, `{"tests": [{"test": "TestX", "result": "GOOD"}]}`} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "x.json"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := readResults(dir); err == nil {
			t.Errorf("%s was taken", text)
		}
	}
}

// TestVerboseOutput: the real-Spark stage keeps the text of `go test -v`.
func TestVerboseOutput(t *testing.T) {
	o := outcomes{}
	text := "=== RUN   TestA\n--- PASS: TestA (1.00s)\n    --- PASS: TestA/3.5.9 (0.50s)\n    --- FAIL: TestA/4.3.0 (0.50s)\n--- SKIP: TestB (0.00s)\n"
	if err := o.addVerbose("cluster/sparktest", strings.NewReader(text)); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"TestA": "pass", "TestA/3.5.9": "pass", "TestA/4.3.0": "fail", "TestB": "skip"} {
		if got := o[testRef{pkg: "cluster/sparktest", name: name}]; got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	o.add(testRef{pkg: "cluster/sparktest", name: "TestA"}, "fail")
	o.add(testRef{pkg: "cluster/sparktest", name: "TestA"}, "pass")
	if got := o[testRef{pkg: "cluster/sparktest", name: "TestA"}]; got != "fail" {
		t.Errorf("a test that failed once is %q", got)
	}
}

// TestShow: what go test without -json would print, and the reasons of skipped tests.
func TestShow(t *testing.T) {
	var out bytes.Buffer
	if err := command([]string{"show"}, strings.NewReader(thing), &out); err != nil {
		t.Fatal(err)
	}
	want := "skipped: cluster/thing TestSkipped: x_test.go:3: LEFT OUT: no camel\n" +
		"skipped: cluster/thing TestHollow/a:\nskipped: cluster/thing TestHollow/b:\nskipped: cluster/thing TestHalf/a:\n" +
		"loud\npanic: oh\nok  \traftmaster/cluster/thing\t0.1s\nFAIL\traftmaster/cluster/broken [build failed]\nx.go:1: broken\ngo: a complaint of its own\n"
	if out.String() != want {
		t.Errorf("printed\n%s\nwant\n%s", out.String(), want)
	}
}

// TestCheckFailsAsAWhole: the command ends with an error, and names line and number.
func TestCheckFailsAsAWhole(t *testing.T) {
	dir := module(t, header+"| B-001 | order | same | `cluster/thing TestOne` |\n")
	events := filepath.Join(dir, "events")
	if err := os.WriteFile(events, []byte(strings.ReplaceAll(thing, `"pass"`, `"fail"`)), 0o644); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	err := command([]string{"check", "-root", dir, "-events", events}, nil, &out)
	if err == nil || !strings.Contains(out.String(), "line 3: B-001: cluster/thing TestOne did not pass: fail") || !strings.Contains(out.String(), "S43 has no row") {
		t.Errorf("error %v, printed\n%s", err, out.String())
	}
	for _, arguments := range [][]string{{}, {"check", "-verbose", "x"}, {"check", "-events", filepath.Join(dir, "none")}, {"check", "-root", filepath.Join(dir, "none")}} {
		if err := command(arguments, nil, &out); err == nil {
			t.Errorf("%q was taken", arguments)
		}
	}
}
