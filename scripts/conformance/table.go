package main

import (
	_ "embed" // the numbers
	"fmt"
	"regexp"
	"strings"
)

// numbersFile lists the numbers that the table must have, one a line; "fixed" behind a number means that its row must
// have that verdict.
//
//go:embed testdata/numbers.txt
var numbersFile string

// row is one line of the table.
type row struct {
	line    int // of the file, from 1
	number  string
	about   string
	verdict string
	tests   []testRef
}

// testRef names one test. Mark is "", "long" or "all releases": the last two do not run in an ordinary run.
type testRef struct {
	pkg, name, mark string
}

func (r testRef) String() string { return r.pkg + " " + r.name }

var (
	numberPattern = regexp.MustCompile(`^(B-\d{3}|G-\d{2}|S\d{2})$`)
	refPattern    = regexp.MustCompile("^`([a-z0-9/]+) (Test[A-Za-z0-9_]+(?:/[^` ]+)?)`(?: \\((long|all releases)\\))?$")
	// verdictPatterns belong to the first letter of a number.
	verdictPatterns = map[byte]*regexp.Regexp{
		'B': regexp.MustCompile(`^(same|better: .+|not applicable: .+)$`),
		'G': regexp.MustCompile(`^(fixed|fixed: .+|not ours: .+|left: .+)$`),
		'S': regexp.MustCompile(`^(shown|shown: .+|not applicable: .+|left: .+)$`),
	}
	// excused are the verdicts that need no test.
	excused = regexp.MustCompile(`^(not applicable|not ours|left): `)
)

// noTest is what stands in the last cell of a row without a test.
const noTest = "none"

// parseTable reads the rows of all tables of a Markdown text. Problems are lines that look like rows and are none.
func parseTable(text string) (rows []row, problems []string) {
	for i, line := range strings.Split(text, "\n") {
		if !strings.HasPrefix(line, "|") {
			continue
		}
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for j := range cells {
			cells[j] = strings.TrimSpace(cells[j])
		}
		if strings.HasPrefix(cells[0], "--") || cells[0] == "number" {
			continue
		}
		r, err := parseRow(cells)
		if err != nil {
			problems = append(problems, fmt.Sprintf("line %d: %v", i+1, err))
			continue
		}
		r.line = i + 1
		rows = append(rows, r)
	}
	return rows, problems
}

func parseRow(cells []string) (row, error) {
	if len(cells) != 4 {
		return row{}, fmt.Errorf("%d cells instead of 4: %s", len(cells), cells[0])
	}
	r := row{number: cells[0], about: cells[1], verdict: cells[2]}
	if !numberPattern.MatchString(r.number) {
		return row{}, fmt.Errorf("%q is no number", r.number)
	}
	if cells[3] == noTest {
		return r, nil
	}
	for _, part := range strings.Split(cells[3], "<br>") {
		match := refPattern.FindStringSubmatch(strings.TrimSpace(part))
		if match == nil {
			return row{}, fmt.Errorf("%s: %q does not name a test", r.number, strings.TrimSpace(part))
		}
		r.tests = append(r.tests, testRef{match[1], match[2], match[3]})
	}
	return r, nil
}

// parseNumbers reads numbersFile: the numbers in order, and which of them must be fixed.
func parseNumbers(text string) (numbers []string, mustBeFixed map[string]bool) {
	mustBeFixed = map[string]bool{}
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		numbers = append(numbers, fields[0])
		if len(fields) > 1 && fields[1] == "fixed" {
			mustBeFixed[fields[0]] = true
		}
	}
	return numbers, mustBeFixed
}

// checkRows applies the rules that need the table and the numbers alone.
func checkRows(rows []row, numbers []string, mustBeFixed map[string]bool) (problems []string) {
	seen := map[string]int{}
	for _, r := range rows {
		if first, twice := seen[r.number]; twice {
			problems = append(problems, fmt.Sprintf("line %d: %s has a row already, in line %d", r.line, r.number, first))
		}
		seen[r.number] = r.line
		if p := checkRow(r, mustBeFixed[r.number]); p != "" {
			problems = append(problems, fmt.Sprintf("line %d: %s: %s", r.line, r.number, p))
		}
	}
	known := map[string]bool{}
	for _, n := range numbers {
		known[n] = true
		if seen[n] == 0 {
			problems = append(problems, n+" has no row")
		}
	}
	for _, r := range rows {
		if !known[r.number] {
			problems = append(problems, fmt.Sprintf("line %d: %s is not a known number", r.line, r.number))
		}
	}
	return problems
}

func checkRow(r row, mustBeFixed bool) string {
	switch {
	case r.about == "":
		return "it does not say what it is about"
	case !verdictPatterns[r.number[0]].MatchString(r.verdict):
		return fmt.Sprintf("%q is no verdict", r.verdict)
	case mustBeFixed && !strings.HasPrefix(r.verdict, "fixed"):
		return fmt.Sprintf("this gap must be fixed, and the verdict is %q", r.verdict)
	case len(r.tests) == 0 && !excused.MatchString(r.verdict):
		return fmt.Sprintf("the verdict %q needs a test", r.verdict)
	}
	return ""
}
