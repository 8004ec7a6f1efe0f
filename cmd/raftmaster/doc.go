// Command raftmaster is the master of Spark Standalone clusters that replicates its state by Raft.
//
//	raftmaster server    one master of a cluster
//	raftmaster dev       a whole cluster of masters in one process, for trying things out
//	raftmaster version   the version
//
// Exit codes: 0 after an orderly stop; 1 when a start or the running master failed, and another start may help; 2 for a
// wrong command line, and for a configuration or a data directory with which no start can succeed; 128+n when a second
// signal n, more than a second after the first, cut the orderly stop short.
package main
