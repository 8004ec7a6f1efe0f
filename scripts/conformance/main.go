package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	if err := command(os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func command(arguments []string, in io.Reader, out io.Writer) error {
	if len(arguments) > 0 && arguments[0] == "show" {
		return show(in, out)
	}
	if len(arguments) > 0 && arguments[0] == "check" {
		return check(arguments[1:], out)
	}
	return errors.New("usage: conformance show < EVENTS | conformance check [flags]")
}

// list is a flag that may be given several times.
type list []string

func (l *list) String() string { return strings.Join(*l, " ") }

func (l *list) Set(value string) error {
	*l = append(*l, value)
	return nil
}

// check reads the table and the run, and fails when a rule is broken.
func check(arguments []string, out io.Writer) error {
	var events, verbose list
	this := run{outcomes: outcomes{}}
	flags := flag.NewFlagSet("check", flag.ContinueOnError)
	flags.SetOutput(out)
	root := flags.String("root", ".", "directory of the module")
	flags.Var(&events, "events", "file with the output of `go test -json`; may be repeated")
	flags.Var(&verbose, "verbose", "PACKAGE=FILE with the output of `go test -v` of that package; may be repeated")
	flags.BoolVar(&this.partial, "partial", false, "the run left out stages, or skips tests, on purpose")
	flags.BoolVar(&this.long, "long", false, "the run had tests that an ordinary one has not")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	if err := readRun(this.outcomes, events, verbose); err != nil {
		return err
	}
	rows, problems, err := checkTable(*root)
	if err != nil {
		return err
	}
	results, err := readResults(filepath.Join(*root, "docs", "results"))
	if err != nil {
		return err
	}
	ran, unseen := checkRan(rows, this, results)
	problems = append(problems, ran...)
	for _, problem := range problems {
		fmt.Fprintln(out, "docs/CONFORMANCE.md: "+problem)
	}
	if len(problems) > 0 {
		return fmt.Errorf("docs/CONFORMANCE.md: %d problems", len(problems))
	}
	if unseen > 0 {
		fmt.Fprintf(out, "docs/CONFORMANCE.md: %d rows; the tests of this run passed\n", len(rows))
		fmt.Fprintf(out, "LEFT OUT: %d tests that docs/CONFORMANCE.md names; this run is a partial one\n", unseen)
		return nil
	}
	fmt.Fprintf(out, "docs/CONFORMANCE.md: %d rows; every test that it names ran and passed\n", len(rows))
	return nil
}

// checkTable applies the rules that need no run.
func checkTable(root string) ([]row, []string, error) {
	text, err := os.ReadFile(filepath.Join(root, "docs", "CONFORMANCE.md"))
	if err != nil {
		return nil, nil, err
	}
	rows, problems := parseTable(string(text))
	numbers, mustBeFixed := parseNumbers(numbersFile)
	problems = append(problems, checkRows(rows, numbers, mustBeFixed)...)
	problems = append(problems, checkSources(root, rows)...)
	return rows, problems, nil
}

func readRun(o outcomes, events, verbose []string) error {
	for _, name := range events {
		if err := readFile(name, o.addEvents); err != nil {
			return err
		}
	}
	for _, argument := range verbose {
		pkg, name, ok := strings.Cut(argument, "=")
		if !ok {
			return fmt.Errorf("-verbose %q: PACKAGE=FILE expected", argument)
		}
		if err := readFile(name, func(r io.Reader) error { return o.addVerbose(pkg, r) }); err != nil {
			return err
		}
	}
	return nil
}

func readFile(name string, read func(io.Reader) error) (err error) {
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	return read(file)
}
