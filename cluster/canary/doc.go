// Package canary proves that every worker of a cluster runs executors: it registers tiny applications, gets one real
// executor on each worker, follows each of them from the grant to a thread dump, and leaves.
//
// It is what an operator runs after an upgrade. It works with raftmaster's masters and with Spark's own.
//
// A master is not told on which worker an executor is wanted. See Run for how one executor per worker is had
// nevertheless, and what is said when it is not.
package canary
