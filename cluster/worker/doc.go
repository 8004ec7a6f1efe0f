// Package worker is a worker of a Spark Standalone cluster: it registers with the masters, starts and ends executors and
// drivers for the one that leads, and tells it what became of them. Unmodified Spark masters and raftmaster's own are
// served alike.
//
// # Core and shell
//
// [Core] holds every decision: registration and its retries, whose orders count, the tables of executors and drivers,
// and what the master is still owed. It runs on one goroutine, owns no lock, starts no goroutine and does no I/O; its
// clock, network and processes come from outside ([Deps]), so that tests pass minutes of retries in milliseconds.
// [Worker] is the shell: it owns the port, the web UI, the processes, and the goroutine of the Core.
//
// # Whose orders count
//
// A master introduces itself by RegisteredWorker or MasterChanged. From then on it is the active master, and the
// connections on which it did so are remembered. KillExecutor, LaunchDriver, KillDriver and DecommissionWorker count
// only on such a connection and with its address as sender; LaunchExecutor and KillExecutor must name its URL as well.
// Everything else is refused and logged: a master that was deposed cannot start a second copy of a driver (Spark's
// worker, deploy/worker/Worker.scala, obeys anybody).
//
// # Order
//
// All messages of one connection pass through one queue to the Core. The answer to CheckExistence("Worker") is given
// when everything before it on that connection is in that queue, and a list that the Core makes comes after what was
// launched before the question: masters rely on both (docs/adr/0008-receipts.md).
//
// # What the master is owed
//
// A state of an executor is an ask that is repeated until a master has answered it, in order for each executor, across
// changes of the master. The end of a driver is a one-way message, so it is said again to each master that introduces
// itself until a receipt has come and some minutes have passed.
//
// # Instances
//
// A master that lost its state can launch an executor under an id that this worker still runs. Every process therefore
// has an instance number of its own, and the tables are kept by it.
package worker
