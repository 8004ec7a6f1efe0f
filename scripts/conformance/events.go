package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
)

// modulePath is cut from the package names of `go test`.
const modulePath = "raftmaster/"

// outcomes are what happened to the tests of a run: "pass", "fail" or "skip", by package and name. An entry without a name
// stands for a package that was in the run, whether or not it could be built.
type outcomes map[testRef]string

// packages tells which packages were in the run.
func (o outcomes) packages() map[string]bool {
	packages := map[string]bool{}
	for ref := range o {
		packages[ref.pkg] = true
	}
	return packages
}

// of judges one test. A test whose sub-tests were all skipped has shown nothing, though go test calls it passed.
func (o outcomes) of(ref testRef) string {
	ref.mark = ""
	outcome := o[ref]
	if outcome != "pass" {
		return outcome
	}
	subtests, skipped := 0, 0
	for other, result := range o {
		if rest, ok := strings.CutPrefix(other.name, ref.name+"/"); ok && other.pkg == ref.pkg && !strings.Contains(rest, "/") {
			subtests++
			if result == "skip" {
				skipped++
			}
		}
	}
	if subtests > 0 && subtests == skipped {
		return "skip"
	}
	return outcome
}

// event is a line of `go test -json` (see `go doc test2json`).
type event struct {
	Action     string
	Package    string
	ImportPath string // of build-output
	Test       string
	Output     string
}

// readEvents calls visit for each event of a stream, and plain for each line that is none (go's own complaints).
func readEvents(r io.Reader, visit func(event), plain func(string)) error {
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadString('\n')
		if line != "" {
			var e event
			if strings.HasPrefix(line, "{") && json.Unmarshal([]byte(line), &e) == nil && e.Action != "" {
				visit(e)
			} else {
				plain(line)
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// addEvents collects the outcomes of a `go test -json` stream. The worse outcome of a test that ran twice counts.
func (o outcomes) addEvents(r io.Reader) error {
	return readEvents(r, func(e event) {
		if e.Package != "" {
			o[testRef{pkg: strings.TrimPrefix(e.Package, modulePath)}] = "seen"
		}
		if e.Test != "" && (e.Action == "pass" || e.Action == "fail" || e.Action == "skip") {
			o.add(testRef{pkg: strings.TrimPrefix(e.Package, modulePath), name: e.Test}, e.Action)
		}
	}, func(string) {})
}

var verboseLine = regexp.MustCompile(`(?m)^ *--- (PASS|FAIL|SKIP): (\S+) \(`)

// addVerbose collects the outcomes of the output of `go test -v` of one package.
func (o outcomes) addVerbose(pkg string, r io.Reader) error {
	text, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	for _, match := range verboseLine.FindAllSubmatch(text, -1) {
		o.add(testRef{pkg: pkg, name: string(match[2])}, strings.ToLower(string(match[1])))
	}
	return nil
}

func (o outcomes) add(ref testRef, outcome string) {
	worse := map[string]int{"": 0, "pass": 1, "skip": 2, "fail": 3}
	if worse[outcome] > worse[o[ref]] {
		o[ref] = outcome
	}
}

// shown keeps the output of a package until its end is known.
type shown struct {
	order []string // of tests, by their first output
	of    map[string]*strings.Builder
	ended map[string]bool // tests that passed or were skipped
}

// show prints a `go test -json` stream as `go test` prints it: nothing of tests that pass, everything of those that
// do not, and the closing line of each package.
func show(r io.Reader, w io.Writer) error {
	packages := map[string]*shown{}
	var failure error
	note := func(_ int, err error) {
		if failure == nil {
			failure = err
		}
	}
	print := func(text string) { note(io.WriteString(w, text)) }
	err := readEvents(r, func(e event) {
		if e.Action == "build-output" {
			print(e.Output)
			return
		}
		p := packages[e.Package]
		if p == nil {
			p = &shown{of: map[string]*strings.Builder{}, ended: map[string]bool{}}
			packages[e.Package] = p
		}
		switch {
		case e.Action == "output":
			p.keep(e)
		case e.Test != "" && (e.Action == "pass" || e.Action == "skip"):
			p.ended[e.Test] = true
			if e.Action == "skip" {
				print(fmt.Sprintf("skipped: %s %s:%s\n", strings.TrimPrefix(e.Package, modulePath), e.Test, p.reason(e.Test)))
			}
			delete(p.of, e.Test)
		case e.Test == "" && (e.Action == "pass" || e.Action == "fail" || e.Action == "skip"):
			print(p.text())
			delete(packages, e.Package)
		}
	}, print)
	for _, p := range packages { // cut off
		print(p.text())
	}
	return errors.Join(err, failure)
}

func (p *shown) keep(e event) {
	if p.of[e.Test] == nil {
		p.of[e.Test] = &strings.Builder{}
		p.order = append(p.order, e.Test)
	}
	p.of[e.Test].WriteString(e.Output)
}

// reason gives what a skipped test has said, on one line.
func (p *shown) reason(test string) string {
	if p.of[test] == nil {
		return ""
	}
	var reason strings.Builder
	for line := range strings.Lines(p.of[test].String()) {
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "===") && !strings.HasPrefix(line, "---") {
			reason.WriteString(" " + line)
		}
	}
	return reason.String()
}

// text is what is left to print at the end of the package: the tests that failed or never ended, then the package's own lines.
func (p *shown) text() string {
	var text, own strings.Builder
	for _, test := range p.order {
		kept := p.of[test]
		if kept == nil || p.ended[test] {
			continue
		}
		if test != "" {
			text.WriteString(kept.String())
			continue
		}
		for line := range strings.Lines(kept.String()) {
			if line != "PASS\n" && line != "testing: warning: no tests to run\n" {
				own.WriteString(line)
			}
		}
	}
	return text.String() + own.String()
}
