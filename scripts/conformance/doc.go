// Conformance keeps docs/CONFORMANCE.md honest: the table that says, for every known behaviour of Spark's master (B), every
// known gap of it (G) and every case from the field (S), what this master does and which tests show it.
//
//	conformance show  < EVENTS             prints `go test -json` as plain `go test` would, and a line for each skipped test
//	conformance check [flags]              judges the table: its rows, its tests, and whether these ran and passed
//
// The rules:
//
//   - every number of testdata/numbers.txt has exactly one row, and there is no row of another number;
//   - every row has a verdict of its kind, with a reason where the verdict needs one, and the gaps that numbers.txt marks as
//     "fixed" say so;
//   - every row has at least one test, unless its verdict says that there is nothing to show;
//   - every test is a top-level test function of the package that the table names;
//   - every test ran and passed in the run whose events are given. A test marked (long) or (all releases) is taken from the newest file
//     of docs/results that names it instead; the mark is refused where the ordinary run already has that test.
//
// The table's own test runs the rules that need no run, so that `go test` alone finds a renamed test.
package main
