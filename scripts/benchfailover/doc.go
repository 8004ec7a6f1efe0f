// Command benchfailover measures what a failover costs, on this machine and at
// default settings, with real Spark workers and a real application attached:
// how long there is no leader, and how long until everybody is attached to the
// new one. scripts/bench-failover builds and runs it; docs/TESTING.md says how to
// read its table.
//
// The clock runs from the signal (or the cut) to the first answer, of any other
// master, that says so: polling takes up to two milliseconds of the figures. No
// figure is asserted.
package main
