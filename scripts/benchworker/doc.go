// Command benchworker measures raftmaster worker beside Spark's own worker, in alternating rounds of one run: how long it
// takes from its start to its registration, the memory of its process afterwards and with one idle executor, and how long
// an executor takes from its grant to its first steps. scripts/bench-worker builds and runs it; docs/PERFORMANCE.md says
// what its figures mean. No figure is asserted.
package main
