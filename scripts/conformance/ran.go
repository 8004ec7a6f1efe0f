package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

// run is what is known about the run that the table is checked against.
type run struct {
	outcomes outcomes
	partial  bool // packages may be missing, and tests skipped: on purpose, as the caller of scripts/test wished
	long     bool // tests with a mark may have run
}

// checkRan reports the tests that did not run and pass. The second value counts the tests that this run could not show, since it
// is a partial one.
func checkRan(rows []row, this run, results outcomes) (problems []string, unseen int) {
	packages := this.outcomes.packages()
	done := map[testRef]bool{}
	for _, r := range rows {
		for _, ref := range r.tests {
			if done[ref] {
				continue
			}
			done[ref] = true
			outcome := this.outcomes.of(ref)
			var problem string
			switch {
			case ref.mark != "":
				problem = judgeMarked(ref, outcome, results.of(testRef{name: ref.name}), this.long)
			case this.partial && (!packages[ref.pkg] || outcome == "skip"):
				unseen++
			case outcome == "":
				problem = "did not run"
			case outcome != "pass":
				problem = "did not pass: " + outcome
			}
			if problem != "" {
				problems = append(problems, fmt.Sprintf("line %d: %s: %s %s", r.line, r.number, ref, problem))
			}
		}
	}
	return problems, unseen
}

func judgeMarked(ref testRef, outcome, result string, long bool) string {
	switch {
	case outcome == "fail":
		return "did not pass: fail"
	case outcome == "pass" && !long:
		return fmt.Sprintf("is marked (%s), but an ordinary run has it", ref.mark)
	case outcome == "pass":
		return ""
	case result == "":
		return fmt.Sprintf("is marked (%s), and no file of docs/results has it", ref.mark)
	case result != "pass":
		return fmt.Sprintf("is marked (%s), and the newest file of docs/results that has it says %s", ref.mark, result)
	}
	return ""
}

// readResults collects what the newest file of docs/results says of each test. The files' names begin with the time, so that
// their order is that of the runs. Their tests carry no package.
func readResults(directory string) (outcomes, error) {
	files, err := filepath.Glob(filepath.Join(directory, "*.json"))
	if err != nil {
		return nil, err
	}
	slices.Sort(files)
	results := outcomes{}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var result struct {
			Tests []struct{ Test, Result string }
		}
		if err := json.Unmarshal(content, &result); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		here := outcomes{}
		for _, test := range result.Tests {
			outcome := map[string]string{"PASS": "pass", "FAIL": "fail", "SKIP": "skip"}[test.Result]
			if outcome == "" {
				return nil, fmt.Errorf("%s: %s: unknown result %q", file, test.Test, test.Result)
			}
			if outcome != "skip" { // a stage of other tests says nothing about this one
				here.add(testRef{name: test.Test}, outcome)
			}
		}
		maps.Copy(results, here)
	}
	return results, nil
}
