// Command raftmaster is the master of Spark Standalone clusters that replicates its state by Raft, and a worker for them.
//
//	raftmaster server    one master of a cluster
//	raftmaster worker    one worker, for this master and for Spark's own
//	raftmaster dev       a whole cluster, masters and workers, in one process, for trying things out
//	raftmaster version   the version
//
// Exit codes: 0 after an orderly stop; 1 when a start or the running master failed, and another start may help; 2 for a
// wrong command line, and for a configuration or a data directory with which no start can succeed; 128+n when a second
// signal n, more than a second after the first, cut the orderly stop short. A worker ends with 1 whatever is wrong, a
// wrong command line included, as Spark's does.
package main
