// Package sparktest runs real, unmodified Apache Spark against a cluster of
// masters: Spark's own worker, spark-submit, PySpark and JVM applications, each
// as the process that an operator would start.
//
// The masters are raftmaster servers or, to prove that a test measures the
// right thing, the one master of the same Spark release (MasterKind). Nothing
// else in a test changes with the kind.
//
// # Contract
//
//   - A Cluster owns one /24 of 127.0.0.0/8, held by a file lock, so that any
//     number of clusters, packages and checkouts run side by side on the usual
//     ports. Nothing listens on a port of the ephemeral range except what Spark
//     itself opens there.
//   - Every process that a Cluster starts carries the cluster's mark in its
//     environment, is the leader of its own process group, and dies with the
//     test binary. Close ends them and their descendants by process id, and
//     nothing else.
//   - Waiting is polling with a deadline; no helper asserts how long something
//     took.
//   - On failure, Close keeps the directory of the cluster and prints the tail
//     and the path of each log.
//
// A Cluster and what it starts are driven from one goroutine, the test's,
// except where a method says otherwise.
package sparktest
