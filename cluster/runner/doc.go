// Package runner keeps the processes and files of a worker: it starts executors and drivers, ends them, finds again what
// an earlier worker process left behind, and looks after the directories they use. It knows no Spark message, no state
// table and no policy: package worker decides, this package does. Linux only.
//
// # Processes
//
// Every child leads its own session and process group, so that whatever it starts (a Python worker under an executor)
// is found and ended with it. stdout and stderr are files that the child itself appends to: no pipe and no goroutine
// copies them, unless rolling is asked for. A child inherits no other descriptor, and gets exactly the environment given.
//
// All forks of a Runner happen on one operating system thread that lives until the last child is gone. A child asks the
// kernel for SIGTERM at the death of its parent (PR_SET_PDEATHSIG); the kernel means the forking thread by that, not the
// process, and Go ends and creates threads as it likes, so a fork on any other thread could end a child at random.
// SIGTERM, not SIGKILL, because a JVM then still removes its temporary files; one that ignores it is found by the ledger.
//
// A child is awaited through a pidfd in Go's poller: one parked goroutine each, no thread. It is reaped last: while its
// zombie exists neither its process id nor its group id can be given to another process, so the rest of its group is
// signalled first. Exit and Done come at the child's end and do not wait for that.
//
// # Ledger
//
// A Runner owns the directory .raftmaster-worker in the work directory: a lock (flock; the text in it is the holder's
// process id) that refuses a second worker on the same work directory, and one small file for each child. Spark's
// workers may share a work directory with each other; ours do not, because one could not tell the other's children from
// orphans. A child's file is made before the fork, says what will be started, and gets the process id and the start
// time from /proc afterwards. EndOrphans matches boot id, process id namespace, process id and start time, and so
// touches nothing else, even when ids were given to new processes. There is no mark in a child's environment, because
// that must equal what Spark's worker gives.
//
// # Files
//
// LocalDirs makes and removes the directories for shuffle and spill data, Cleaner removes directories of ended
// applications after a time, Fetch copies a driver's jar. None follows a symbolic link out of its directory.
//
// # Goroutines
//
// The forking thread, one for each start under way and for each running child, one that ends what is left of groups, and two for each child with
// rolling. Close ends them all; a child that even SIGKILL does not end (uninterruptible) is reported and let go.
package runner
