// Command benchload puts the load of package cluster/load on masters that it
// starts itself, and prints how they bear it: three raftmaster servers beside
// Spark's own master with a real ZooKeeper server, in alternating rounds of one
// run, or with --scale a large cluster on raftmaster alone. scripts/bench builds
// and runs it; docs/PERFORMANCE.md says what its figures mean. No figure is
// asserted.
//
// Everything runs on loopback addresses of its own and on ports below the
// ephemeral range, keeps its data in one directory, and is gone when the program
// ends, however it ends.
package main
