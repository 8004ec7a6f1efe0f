package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// root is the module's directory.
var root = filepath.Join("..", "..")

// TestTheTableIsHonest applies to docs/CONFORMANCE.md every rule that needs no run of the tests.
func TestTheTableIsHonest(t *testing.T) {
	rows, problems, err := checkTable(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, problem := range problems {
		t.Error("docs/CONFORMANCE.md: " + problem)
	}
	results, err := readResults(filepath.Join(root, "docs", "results"))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		for _, ref := range r.tests {
			if ref.mark != "" && results[testRef{name: ref.name}] != "pass" {
				t.Errorf("docs/CONFORMANCE.md: line %d: %s: docs/results does not say that %s passed", r.line, r.number, ref)
			}
		}
	}
}

// TestTheNumbers: all of them, each once, in the known ranges.
func TestTheNumbers(t *testing.T) {
	numbers, mustBeFixed := parseNumbers(numbersFile)
	count := map[byte]int{}
	for i, n := range numbers {
		if !numberPattern.MatchString(n) || slices.Contains(numbers[:i], n) {
			t.Errorf("%q is no number, or comes twice", n)
		}
		count[n[0]]++
	}
	if count['B'] != 151 || count['G'] != 78 || count['S'] != 27 || len(mustBeFixed) != 46 {
		t.Errorf("%d behaviours, %d gaps of which %d must be fixed, %d cases", count['B'], count['G'], len(mustBeFixed), count['S'])
	}
}

// module makes a small module with a table, one package with tests and a result file.
func module(t *testing.T, table string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"docs/CONFORMANCE.md":              table,
		"docs/results/2026-01-01T1-a.json": `{"tests": [{"test": "TestLong", "result": "FAIL"}, {"test": "TestAll/3.3.4", "result": "PASS"}]}`,
		"docs/results/2026-01-02T1-b.json": `{"tests": [{"test": "TestLong", "result": "PASS"}, {"test": "TestAll/3.3.4", "result": "SKIP"}]}`,
		"docs/results/2026-01-03T1-c.json": `{"tests": [{"test": "TestWorse", "result": "FAIL"}, {"test": "TestWorse", "result": "PASS"}]}`,
		"cluster/thing/thing_test.go": `package thing

import "testing"

type fake struct{}

func TestOne(t *testing.T)          {}
func TestLong(t *testing.T)         {}
func TestAll(t *testing.T)          {}
func TestWorse(t *testing.T)        {}
func TestMain(m *testing.M)         {}
func TestHelper(t *testing.T, n int) {}
func (fake) TestMethod(t *testing.T) {}
`,
	} {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

const header = "| number | about | verdict | tests |\n|---|---|---|---|\n"

// one judges a table of one row, for a list of numbers with B-001, G-01 (must be fixed) and S01.
func one(t *testing.T, line string) string {
	t.Helper()
	dir := module(t, "")
	rows, problems := parseTable(header + line + "\n")
	problems = append(problems, checkRows(rows, []string{"B-001", "G-01", "S01"}, map[string]bool{"G-01": true})...)
	problems = append(problems, checkSources(dir, rows)...)
	// The other two numbers have no row here.
	problems = slices.DeleteFunc(problems, func(p string) bool { return strings.HasSuffix(p, "has no row") })
	return strings.Join(problems, "\n")
}

func TestRowsThatAreGood(t *testing.T) {
	for _, line := range []string{
		"| B-001 | order | same | `cluster/thing TestOne` |",
		"| B-001 | order | better: faster | `cluster/thing TestOne/sub_test`<br>`cluster/thing TestLong` (long) |",
		"| B-001 | order | not applicable: worker side | none |",
		"| B-001 | order | not applicable: worker side | `cluster/thing TestAll` (all releases) |",
		"| G-01 | ghosts | fixed | `cluster/thing TestOne` |",
		"| S01 | pause | shown | `cluster/thing TestOne` |",
		"| S01 | pause | left: needs a camel | none |",
	} {
		if problems := one(t, line); problems != "" {
			t.Errorf("%s\n%s", line, problems)
		}
	}
}

// TestPlantedErrors: each rule finds what it is for.
func TestPlantedErrors(t *testing.T) {
	for line, want := range map[string]string{
		"| B-001 | order | same |":                                                                             "3 cells instead of 4",
		"| B-1 | order | same | `cluster/thing TestOne` |":                                                     "is no number",
		"| R01 | order | same | `cluster/thing TestOne` |":                                                     "is no number",
		"| B-999 | order | same | `cluster/thing TestOne` |":                                                   "is not a known number",
		"| B-001 |  | same | `cluster/thing TestOne` |":                                                        "what it is about",
		"| B-001 | order | good | `cluster/thing TestOne` |":                                                   "is no verdict",
		"| B-001 | order | better | `cluster/thing TestOne` |":                                                 "is no verdict",
		"| B-001 | order | not applicable | none |":                                                            "is no verdict",
		"| B-001 | order | fixed | `cluster/thing TestOne` |":                                                  "is no verdict",
		"| S01 | pause | same | `cluster/thing TestOne` |":                                                     "is no verdict",
		"| S01 | pause | left: | none |":                                                                       "is no verdict",
		"| B-001 | order | same | none |":                                                                      "needs a test",
		"| G-01 | ghosts | fixed | none |":                                                                     "needs a test",
		"| G-01 | ghosts | left: hard | none |":                                                                "must be fixed",
		"| B-001 | order | same |  |":                                                                          "does not name a test",
		"| B-001 | order | same | to be written |":                                                             "does not name a test",
		"| B-001 | order | same | `cluster/thing One` |":                                                       "does not name a test",
		"| B-001 | order | same | `cluster/thing TestOne` (slow) |":                                            "does not name a test",
		"| B-001 | order | same | `cluster/thing TestTwo` |":                                                   "there is no test TestTwo",
		"| B-001 | order | same | `cluster/other TestOne` |":                                                   "no test file",
		"| B-001 | order | same | `cluster/thing TestMain` |":                                                  "there is no test TestMain",
		"| B-001 | order | same | `cluster/thing TestHelper` |":                                                "there is no test TestHelper",
		"| B-001 | order | same | `cluster/thing TestMethod` |":                                                "there is no test TestMethod",
		"| B-001 | a | same | `cluster/thing TestOne` |\n| B-001 | b | same | `cluster/thing TestOne` |":       "has a row already",
		"| B-001 | order | not applicable: worker side | `cluster/thing TestOne`<br>`cluster/thing TestTwo` |": "there is no test TestTwo",
	} {
		if problems := one(t, line); !strings.Contains(problems, want) {
			t.Errorf("%s\ngave %q, want %q", line, problems, want)
		}
	}
}

func TestAMissingRowIsNoticed(t *testing.T) {
	rows, _ := parseTable(header + "| B-001 | order | not applicable: x | none |\n")
	problems := checkRows(rows, []string{"B-001", "B-002"}, nil)
	if len(problems) != 1 || problems[0] != "B-002 has no row" {
		t.Errorf("problems: %q", problems)
	}
}
