// Package clustertest runs whole clusters in one process: masters, workers, drivers and the network between them, under a
// fake clock and from one seed.
//
// # What is real and what is modelled
//
// Real: the leader service ([master.Core]) and the replicated state ([fsm.Machine]), one of each per master. Modelled:
// everything around them. raft.go stands for hashicorp/raft as cluster/node offers it (one committed log, leases,
// elections, unknown outcomes); rpc.go for transport/sparkrpc (ordered outboxes, receipts, the lease at each write);
// net.go for TCP (order, latency, cuts, half-open connections, one-way partitions); worker.go and driver.go for Spark's
// own Worker and StandaloneAppClient, with their time-outs and retries as they are, not as one would like them. job.go is
// the DriverRunner of a worker (a driver of cluster deploy mode is called a job here), submit.go the clients that submit
// and kill drivers, operator.go what the admin API is asked for, disk.go a master's snapshots.
//
// # Determinism
//
// A [Sim] has one event heap, one clock and one random source and starts no goroutine: seed and [Options] decide
// everything. A failure is therefore run again with tracing on and printed with its trace, and the same command line
// gives the same failure.
//
// # What is checked
//
// check.go and jobcheck.go after every event: what must never happen. quiesce.go and jobquiesce.go once the faults are
// healed: what must have become of everything. plant_test.go and plant_job_test.go plant bugs and see the checkers fire.
package clustertest
