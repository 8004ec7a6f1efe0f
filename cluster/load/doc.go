// Package load generates load on a master of a Spark Standalone cluster, this project's or Spark's own, and measures how
// the master bears it.
//
// It speaks the deploy protocol of one Spark release for many workers and applications in one process. Each of them has
// an address of its own (127.NET.y.z) and a TCP connection of its own, sends what the JVM's peers send in the same order
// (CheckExistence, RegisterWorker, WorkerLatestState, Heartbeat, ExecutorStateChanged as an ask...), and can be dialled
// back by the master. What differs is the inside: messages are encoded once and patched, launches are recognised by their
// bytes, and one listener serves all addresses, so that ten thousand workers fit beside the master on a small machine.
// No executor process is ever started.
//
// Rates are closed loops: a bounded number of requests without an answer, as many as the master manages. Heartbeats have
// no answer in Spark; there the loop is closed with a question about an unknown driver, which the master answers from the
// same queue.
//
// Goroutines: one for the listener, one for each connection, one for the background heartbeats, and those of the phase
// that runs. Run waits for all of them. A peer's state is guarded by its mutex, never held while writing.
package load
